"""ProxDOME: optimism decides what to try, pessimism decides what is acceptable. No theorem is claimed.

A learner of our own. FlexDOME and its relatives let a slow primal-dual *dynamics* drift towards a regularised saddle
point, and the margin has to cover its bias and its lag. ProxDOME has no dynamics. In every episode it computes the
exact policy of the entropy-regularised, *optimistic* Lagrangian of the empirical model (one soft Bellman sweep), and
chooses the multipliers by a warm-started, safeguarded Newton solve so that the *pessimistic* utility, plug-in minus
c_margin z_t standard errors, meets the threshold. It needs no T, no delta, no Slater gap and no step size. What it was
measured to do is in docs/proxdome-log.md; nothing is proved.

With h = 1, ..., H, rem = H - h + 1, L(lam) = 1 + sum_i lam_i, z = sqrt(log(1 + t)), n = N_h(s, a) the visits::

    constants: c_bonus = 0.65, c_prior = 1/4, kappa = 8, c_margin = 1.3
    state:     empirical N, p^, r^, var_r, d^_i, var_d_i, alpha^_i, var_alpha_i;  lam = 0, heat = 1, V = U_i = 0,
               pooled variances v_0h = v_ih = rem^2 / 12
    for t = 1, 2, ...
      Lam = sqrt(t); lam <- min(lam, Lam); L = L(lam); tau = heat L / sqrt(H t)
      (1) standard errors, from the tables V, U_i of the last plan, where n >= 1
          seen variances  w_0 = Var_p^(V_{h+1}) + (sd_r + sum_i lam_i sd_d_i)^2,   w_i = Var_p^(U_{i,h+1}) + var_d_i
          shrunk          S(w, v, b) = (n w + kappa v) / (n + kappa) + (c_prior b)^2 / (12 n)
          r~   = r^ + c_bonus sqrt(log(1 + N_h(s)) S(w_0, L^2 v_0h, L rem) / n)
          s2_i = S(w_i, v_ih, rem) / n;   where n = 0: s2_i = rem^2 / 12
          pooled: v_jh = (rem^2 / 12 + sum of n w_j / (n - 1)) / (1 + number), over the (s, a) with n >= 2; w_0 / L^2
          threshold known: a_i = alpha_i, sa_i = 0, else a_i = alpha^_i, sa_i = (var_alpha_i + H^2/(12 n_a)) / n_a
          (n_a episodes brought samples, each counts with its mean; none yet: H/2, H^2/12)
      (2) dual trials, at most 15
          backward: Q = min(r~ + lam . d^ + p^ V_{h+1}, L(lam) rem);  L(lam) rem where n = 0           (optimism)
                    Qd_i = d^_i + p^ U_{i,h+1};                        rem / 2 where n = 0               (plug-in)
                    pi(. | s) = softmax(Q(s, .) / tau), V = tau log mean_a exp(Q / tau), U_i = sum_a pi Qd_i
          forward:  x = occupancy of pi under p^;  eps_i = c_margin z sqrt(sum x^2 s2_i + sa_i)
          g_i = U_{i,1}(s_1) - eps_i - a_i;  shown safe where g_i >= -0.05 eps_i for all i
          done when for all i: (g_i >= -0.05 eps_i or lam_i = Lam) and (g_i <= 0.05 eps_i or lam_i = 0)
          m > 1, residual not below that of the last accepted lam, fewer than 3 back-tracks: lam <- (lam + last) / 2
          J_ij = (1/tau) sum x Adv_i Adv_j + [i = j] / 1000, Adv_i = Qd_i - U_i; Newton on the free multipliers
          lam <- clip(lam + clip(dlam, +-(0.1 + lam)), 0, Lam);  m = 1: bisect where that leaves the bracket
      not done, and no trial was shown safe: at most 15 more, the first with the best trial's lam, until one is shown
          safe or done or all that are short are at Lam; between them lam_i <- min(2 lam_i + 0.1, Lam) where g_i < 0
      still none, and the policy of episode t - 1 was shown safe: if it can be shown safe again, keep it and its lam
      in all other cases that are not done: take the best trial
      heat <- max(1, 0.98 heat) where done, else min(4 heat, 1024)
      (3) play pi, add what was seen
      (1) is done for all cells when t >= next, next = t + 1 + floor(0.02 t), and then the variances are pooled;
      otherwise for those of the last episode

The residual is the largest of the abs(g_i) whose conditions are not met, the shortfall the largest of 0 and the -g_i; a
multiplier is free unless it is 0 with g_i > 0 or Lam with g_i < 0. The best trial is one that is shown safe, if any is;
of several the one with the smallest shortfall, then the smallest residual. Where c_margin < 1/2, the tolerance
0.05 eps_i is taken as if it were 1/2. What would follow an action never tried is not in x. Values are averaged over an
initial distribution; t - 1 counts all episodes that brought data. **Order**: construction plans episode 1; ``observe``
of an episode adds its data and plans the next; logged episodes are added at once, and the next is planned three times,
so that values, the variances taken of them and the pooled ones belong together.

Shared steps
------------
Where the problem is stationary, what is seen at one step counts at all (``share_steps=False`` switches it off): N, p^,
r^ and d^ of (s, a) are those of all steps together, and since the errors at different steps are then one error, eps_i
has sum_{s,a} (sum_h x s_i)^2 in the place of sum x^2 s2_i. The transition after the last step is not used.

Revealed parts
--------------
What the problem reveals is not estimated; only what is not known has variance, prior and margin. The interval of length
rem in which r + V, or d_i + U_i, may lie is one of 1 for the mean and one of rem - 1 for what follows. The part that is
known falls away wherever rem or L rem stands above for doubt: in c_prior b, and in the rem^2 / 12 of n = 0 and of the
pooled variances. The variance of a known mean is 0, and so is Var_p of known transitions, which is no error. Where
n = 0, Q = r + lam . d + p V and Qd_i = d_i + p U_i, with 1 and 1/2 for means not known, and L (rem - 1) and
(rem - 1) / 2 for p V and p U where the transitions are not. The tolerance is at least H / 10^6. Where everything is
known, thresholds too, there is nothing to learn: the plan is the exact optimum from the first episode on, if the
thresholds can be met at all.

Why it should work
------------------
sum x^2 s2 is the delta-method variance of the plug-in value, so the margin is c / sqrt(t) with a measured c; with
Gaussian errors and c_margin > 1 the expected violations sum to a constant. tau keeps the bias of the entropy at the
order of the statistical error. An action never tried is worth everything in planning, which makes it tried, and
rem / 2 in the constraint, which makes it tried where there is room. How much a second try may differ from the first is
not known from one sample, but it is from all the others of that step: the pooled variances. Where rewards are 0 or 1
they keep an unlucky action alive; where rewards are exact and states mix, they spare visits that would teach nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from flexdome.cmdp import CMDP, Episode, Problem
from flexdome.cmdp.validation import Float, as_float, frozen, shown
from flexdome.errors import InfeasibleError, ValidationError
from flexdome.learners.base import Beliefs, Learner
from flexdome.learners.proximal.data_kernels import Choices, open_cells, open_known
from flexdome.learners.proximal.plan_kernels import EXACTLY, TOLERANCE, observe_proximal, plan_proximal, record_proximal
from flexdome.learners.proximal.state import proximal_arrays, proximal_state, restore_proximal
from flexdome.learners.seen.counts import OptimisticModel
from flexdome.learners.turn import changing, reading
from flexdome.planning import Solution, solve
from flexdome.theory.schedules import LARGEST

__all__ = ["ProxDOME", "Status"]

Arrays = dict[str, npt.NDArray[Any]]
PLANS = 3  # after logged data, so that values, the variances taken of them, and the pooled ones belong together


@dataclass(frozen=True)
class Status:
    """Why the policy of the next episode was taken; ``print`` it to read it.

    Attributes
    ----------
    episode : the episode it was planned for
    utilities, errors, margin, thresholds : (m,) plug-in V_d of the policy, their standard errors (with those of the
        thresholds), c_margin z_t errors, and the thresholds known or estimated
    slack : (m,) utilities - margin - thresholds
    multipliers : (m,)
    tolerance : (m,) a twentieth of the margin (of half of z_t errors, where the margin is smaller)
    safe : (m,) whether the slack is at least -tolerance, so that the policy is shown safe
    trials : soft Bellman sweeps that the dual solve took; ``solved`` whether it ended
    heat : what the temperature is multiplied with after solves that did not end
    untried : (step, state, action) never tried in states that were visited; where steps are shared, at any step
    """

    episode: int
    utilities: Float
    errors: Float
    margin: Float
    thresholds: Float
    multipliers: Float
    trials: int
    heat: float
    untried: int
    solved: bool
    tolerance: Float

    @property
    def slack(self) -> Float:
        """(m,) what is left after the margin; negative where the policy cannot be shown safe."""
        return self.utilities - self.margin - self.thresholds

    @property
    def safe(self) -> npt.NDArray[np.bool_]:
        """(m,) whether the policy is shown safe."""
        shown_safe: npt.NDArray[np.bool_] = self.slack >= -self.tolerance
        return shown_safe

    def __str__(self) -> str:
        lines = [f"episode {self.episode}: " + self._verdict()]
        for i, (U, error, eps, alpha, slack, lam) in enumerate(
            zip(self.utilities, self.errors, self.margin, self.thresholds, self.slack, self.multipliers, strict=True)
        ):
            lines.append(
                f"  constraint {i}: utility {U:.4g} - margin {eps:.4g} ({eps / max(error, 1e-300):.3g} standard errors "
                f"of {error:.3g}) {'>=' if slack >= 0 else '<'} threshold {alpha:.4g}, slack {slack:+.3g}; "
                f"multiplier {lam:.4g}: {self._role(i)}"
            )
        lines.append(
            f"  {self.trials} dual trial{'s' * (self.trials != 1)}, heat {self.heat:.3g}, "
            f"{self.untried} (step, state, action) never tried in visited states"
        )
        return "\n".join(lines)

    def _verdict(self) -> str:
        if not self.safe.all():
            short = ", ".join(f"constraint {i} by {-self.slack[i]:.3g}" for i in np.flatnonzero(~self.safe))
            found = "no policy can be shown safe yet"
            if not self.solved:
                found = f"{self.trials} dual trials found no policy that can be shown safe"
            return f"{found} (short: {short}); what is played aims at the utilities, to learn more"
        if not self.solved:
            return (
                f"shown safe, but {self.trials} dual trials did not settle it; the nearest or the last policy is played"
            )
        return f"shown safe: every utility less its margin meets its threshold (within {TOLERANCE:g} margins)"

    def _role(self, i: int) -> str:
        if not self.safe[i]:
            return "not shown safe"
        return "the constraint binds" if self.multipliers[i] > 0 else "the reward alone decides"


class ProxDOME(Learner):
    """Exact soft planning under optimism, multipliers solved for under pessimism.

    Parameters
    ----------
    problem : what may be known; its Slater gap is not used
    episodes : how many are planned, for ``simulate``; nothing else depends on it
    bonus_scale : c_bonus
    margin_scale : c_margin
    prior_scale : c_prior, the doubt about an action's spread that all its visits share
    pool_weight : kappa, how many visits the pooled variance of a step counts as
    share_steps : whether what is seen at one step counts at all; None does so where the problem is stationary
    seed : recorded; ProxDOME draws no random numbers of its own

    Examples
    --------
    >>> import flexdome as fd
    >>> cmdp = fd.make_cmdp("paper-v1")
    >>> learner = fd.ProxDOME(cmdp.problem(), episodes=2000)
    >>> history = fd.simulate(learner, cmdp)
    >>> bool(history.strong_violation[-1] < 5.0)
    True
    >>> bool(learner.status().safe.all())
    True
    """

    id: ClassVar[str] = "proxdome"
    runner: ClassVar[str] = "flexdome.simulation.runners.proximal:Proximal"
    _optimum: Solution | None

    def __init__(
        self,
        problem: Problem,
        episodes: int = 80_000,
        seed: int = 0,
        *,
        bonus_scale: float = 0.65,
        margin_scale: float = 1.3,
        prior_scale: float = 0.25,
        pool_weight: float = 8.0,
        share_steps: bool | None = None,
    ) -> None:
        super().__init__(problem, episodes, seed)
        if not isinstance(share_steps, bool | None):
            raise ValidationError(f"share_steps is {shown(share_steps)}; it must be True, False or None")
        if share_steps and not problem.stationary:
            raise ValidationError("share_steps is True; it must not be where the problem is not said to be stationary")
        shared = problem.stationary if share_steps is None else share_steps
        self.choices = Choices(
            bonus=as_float("bonus_scale", bonus_scale, low=0.0, high=LARGEST),
            prior=as_float("prior_scale", prior_scale, low=0.0, high=1e9),
            weight=as_float("pool_weight", pool_weight, low=0.0, high=1e9),
            margin=as_float("margin_scale", margin_scale, low=0.0, high=LARGEST),
            shared=shared and problem.horizon > 1,
            certain=False,
        )
        self.model = OptimisticModel(problem)
        self.settings = self.model.settings(problem, LARGEST)
        self.own = proximal_arrays(self.model)
        if self.settings.revealed is not None:
            self.model.reveal(problem, self.settings)
            open_cells(self.model.core, self.own, self.settings)
            open_known(self.model.core, self.own, self.settings)
        self._look()
        self._plan()

    def reserve(self) -> None:
        """Make room for the successors that one more episode may bring."""
        self.model.reserve(self.problem.horizon if self.choices.shared else 1)

    def _look(self) -> None:
        """Whether everything is known, and then the exact optimum, if the thresholds can be met."""
        known, self._optimum = self.problem, None
        p, r, d = known.transitions, known.rewards, known.utilities
        if known.thresholds_known and p is not None and r is not None and d is not None:
            with suppress(InfeasibleError):  # what is played then aims at the utilities
                self._optimum = solve(CMDP(p, r, d, known.thresholds, known.initial))
        self.choices = self.choices._replace(certain=self._optimum is not None)

    def _plan(self) -> None:
        if self._optimum is None:
            plan_proximal(self.model.core, self.own, self.settings, self.choices, self.episode)
            return
        core, best = self.model.core, self._optimum
        H, S, A = self.model.shape
        pi = best.policy.transpose(0, 2, 1)
        log_pi = np.log(np.maximum(pi, np.exp(-700.0)))
        core.policy.pi.reshape(H, A, -1)[..., :S], core.policy.logits.reshape(H, A, -1)[..., :S] = pi, log_pi
        core.policy.entropy.reshape(H, -1)[:, :S] = -(pi * log_pi).sum(axis=1)
        core.policy.lam[:] = best.multipliers
        none = np.zeros(best.utilities.size)
        self.own.told[:] = [
            best.value, *best.utilities, *none, *none, *self.problem.thresholds, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0
        ]  # fmt: skip

    @property
    @reading
    def policy(self) -> Float:
        """(H, S, A) to play next."""
        pi: Float = frozen(self.model.spread(self.model.core.policy.pi, 1.0 / self.problem.actions))
        return pi

    @property
    @reading
    def multipliers(self) -> Float:
        """(m,) that policy was planned with."""
        lam: Float = frozen(self.model.core.policy.lam.copy())
        return lam

    @property
    @reading
    def visits(self) -> Float:
        """(H, S, A) how often each cell was seen."""
        return self.model.spread(self.own.seen if self.choices.shared else self.model.core.counts.n_visits, 0.0)

    @changing
    def observe(self, episode: Episode) -> None:
        """Learn from one episode played with ``policy`` and plan the next; a bad one is refused and changes nothing."""
        data = self._checked(episode)
        self.reserve()
        observe_proximal(self.model.core, self.own, self.settings, self.choices, data, self._played)

    @changing
    def preload(self, episodes: Iterable[Episode]) -> None:
        """Take logged episodes as data, whatever policy made them, and plan the next episode with them."""
        log = self._checked_each(episodes)
        for data in log:
            self.reserve()
            record_proximal(self.model.core, self.own, self.settings, self.choices, data)
        for _ in range(PLANS if log else 0):
            self._plan()

    @reading
    def status(self) -> Status:
        """Why the policy of the next episode was taken."""
        m, told = self.problem.constraints, self.own.told
        U, errors, eps, alpha = told[1 : 1 + 4 * m].reshape(4, m).copy()
        trials, _, heat, _, untried, solved = told[1 + 4 * m :]
        z = np.sqrt(np.log(self.episode + self.own.logged[0] + 2.0))
        return Status(
            episode=self.episode + 1,
            utilities=U,
            errors=errors,
            margin=eps,
            thresholds=alpha,
            multipliers=self.multipliers,
            trials=int(trials),
            heat=float(heat),
            untried=int(untried),
            solved=bool(solved),
            tolerance=np.maximum(
                TOLERANCE * (max(self.choices.margin, 0.5) * z * errors),
                EXACTLY * self.problem.horizon if self.settings.revealed is not None else 0.0,
            ),
        )

    @reading
    def beliefs(self) -> Beliefs:
        """What the learner held to be true of the policy it is about to play when it planned it.

        ``value`` and ``utilities`` are plug-in estimates, not optimistic. ``widths`` is what optimism adds to a cell's
        reward: c_bonus sqrt(log(1 + N(s))) standard errors, and where a cell was never tried all that is possible,
        L rem (less what is known of it).
        """
        status, core, W = self.status(), self.model.core, self.model.W
        problem, lam = self.problem, status.multipliers.sum()
        rem = np.arange(problem.horizon, 0, -1.0)[:, None, None]
        visits = self.visits
        most = (problem.rewards is None) + lam * (problem.utilities is None) + (1.0 + lam) * (rem - 1.0)
        if problem.transitions is not None:
            most = most - (1.0 + lam) * (rem - 1.0)
        elif problem.rewards is None and problem.utilities is None:
            most = (1.0 + lam) * rem
        data = self.model.spread(core.counts.n_visits, 0.0)
        added = core.work.base.reshape(-1, W)[:, 0] - core.work.base.reshape(-1, W)[:, problem.constraints + 1]
        return Beliefs(
            value=float(self.own.told[0]),
            utilities=status.utilities,
            thresholds=status.thresholds,
            margin=status.margin,
            widths=np.where((data > 0) & (not self.choices.certain), self.model.spread(added, 0.0), most),
            visits=visits,
        )

    def _thresholds_changed(self) -> None:
        self.settings = self.settings._replace(thresholds=np.array(self.problem.thresholds))
        self._look()
        self._plan()  # "from the next episode on", which was planned with the old ones

    def _options(self) -> dict[str, Any]:
        return {
            "episodes": self.episodes,
            "seed": self.seed,
            "bonus_scale": self.choices.bonus,
            "margin_scale": self.choices.margin,
            "prior_scale": self.choices.prior,
            "pool_weight": self.choices.weight,
            "share_steps": self.choices.shared,
        }

    def _state(self) -> Arrays:
        return proximal_state(self.model, self.own, self.settings.known_p is not None)

    def _restore(self, state: Arrays) -> None:
        self.settings = self.settings._replace(thresholds=np.array(self.problem.thresholds))
        self._look()
        restore_proximal(self.model, self.own, self.settings, self.choices.shared, self.episode, state)
