"""ProxDOME: optimism decides what to try, pessimism decides what is acceptable. No theorem is claimed.

A learner of our own. FlexDOME and its relatives let a slow primal-dual *dynamics* drift towards a regularised saddle
point, and the margin has to cover its bias and its lag. ProxDOME has no dynamics. In every episode it computes the
exact policy of the entropy-regularised, *optimistic* Lagrangian of the empirical model (one soft Bellman sweep), and
chooses the multipliers by a warm-started, safeguarded Newton solve so that the *pessimistic* utility, plug-in minus
c_margin z_t standard errors, meets the threshold. It needs no T, no delta, no Slater gap and no step size. What it was
measured to do is in docs/proxdome-log.md; nothing is proved.

With h = 1, ..., H, rem = H - h + 1, z = sqrt(max(log(1 + t), z_0)), n = N_h(s, a) the visits, b_0 the largest reward of
a step (declared) and b_i, top_i, mid_i the measured units of utility i (below), L(lam) = b_0 + sum_i lam_i b_i and
M(lam) = b_0 + sum_i lam_i top_i; noise_jh, rho_jh and c_jh are what the observations of reward (j = 0) and utilities of
a step have in common (below), and r^, d^_i the means shrunk by it::

    constants: c_bonus = 0.65, c_prior = 1/4, kappa = 8, c_margin = 1.3, c_alpha = 1, c_luck = 1/4, z_0 = 5.5
    state:     empirical N, p^, r^, var_r, d^_i, var_d_i, alpha^_i, var_alpha_i;  lam = 0, V = U_i = 0, no policy kept,
               share = 1/2, pooled variances v_0h = v_ih = rem^2 / 12 and covariances v'_ih = rem^2 / 12
    for t = 1, 2, ...
      kept <- the policy of episode t - 1, where that was the plan and shown safe
      where t >= next: next = t + 1 + floor(0.02 t), units are measured; lam = 0 where only mixtures of (3) were played
                       since episode t / 2 or longer, and that was not done since
      Lam = b_0 sqrt(t); where sum_i b_i lam_i > Lam: lam <- lam Lam / sum_i b_i lam_i;  L = L(lam); tau = L / sqrt(H t)
      (1) standard errors, from the tables V, U_i of the last plan, where n >= 1
          seen variances  w_0 = Var_p^(V_{h+1}),   w_i = Var_p^(U_{i,h+1}),
          covariances     w'_i = Cov_p^(V_{h+1}, U_{i,h+1})
          shrunk          S(w, v, b) = (n w + kappa v) / (n + kappa) + (c_prior b)^2 / (12 n)
          of observations e_j = S(var_j, noise_jh, 0) / (1 + rho_jh / n), var_0 = var_r and var_i = var_d_i
          r~   = r^ + c sqrt(log(1 + N_h(s)) s2_0), c = c_bonus, and where observations are noisy c_bonus / 2,
          s2_0 = (S(w_0, L^2 v_0h, L rem) + (sqrt(e_0) + sum_i lam_i sqrt(e_i))^2) / n
          s2_i = (S(w_i, v_ih, b_i rem) + e_i) / n;   where n = 0: s2_i = (b_i rem)^2 / 12
          lucky_i = max(0, S(w'_i, L v'_ih, 0)) / (n sqrt(s2_0));   where n = 0: 0
          where t = next was just reached, then pooled over the (s, a) with n >= 2, w the sample ones (n / (n - 1)):
          v_0h = (rem^2 / 12 + sum of w_0 / L^2) / (1 + number),  v_ih = ((b_i rem)^2 / 12 + sum of w_i) / (1 + number),
          v'_ih = (lam_i (b_i rem)^2 / (12 L) + sum of w'_i / L) / (1 + number)
          threshold known: a_i = alpha_i, sa_i = 0, else a_i = alpha^_i, sa_i = (var_alpha_i + H^2/(12 n_a)) / n_a
          (n_a episodes brought samples, each counts with its mean; none yet: H/2, H^2/12; H in units of top_i)
      (2) a trial of lam
          backward: Q = min(r~ + lam . d^ + p^ V_{h+1}, M(lam) rem);  M(lam) rem where n = 0           (optimism)
                    Qd_i = d^_i + p^ U_{i,h+1};                        mid_i rem where n = 0             (plug-in)
                    pi(. | s) = softmax(Q(s, .) / tau), V = tau log mean_a exp(Q / tau), U_i = sum_a pi Qd_i
          forward:  x = occupancy of pi under p^;
                    eps_i = z sqrt(c_margin^2 sum x^2 s2_i + c_alpha^2 sa_i) + c_luck sum x luck lucky_i
          g_i = U_{i,1}(s_1) - eps_i - a_i;  near_i = 0.05 c_margin z sqrt(sum x^2 s2_i + sa_i);
          shown safe where g_i >= -near_i for all i;  full where sum_i b_i lam_i = Lam
          e_i = g_i / b_i, and where full and not shown safe e_i - min_j e_j;  near_i / b_i twice as large there
          done when for all i: e_i >= -near_i / b_i and (e_i <= near_i / b_i or lam_i = 0)
          a dual solve: at most 15 trials until done; after one that is not
            m > 1, residual not below that of the last accepted lam, fewer than 3 back-tracks: lam <- (lam + last) / 2
            J_ij = (1/tau) sum x Adv_i Adv_j + [i = j] b_i^2 / (1000 b_0), Adv_i = Qd_i - U_i; dlam goes from 0 down the
            model g . dlam + dlam . J dlam / 2 over the free multipliers, straight to where its slope is 0; one that
            comes to lam_i + dlam_i = 0 on the way stays there, and the others go on from there without it; then
            dlam <- dlam - s J^-1 b over those, s = 0 or what makes sum_i b_i (lam_i + dlam_i) = Lam where it is more
            lam <- max(0, lam + clip(dlam, +-(0.1 b_0 / b_i + lam))), brought down to Lam;  m = 1: bisect where that
            leaves the bracket
          then, none shown safe: at most 15 more, the first with the best trial's lam, until one is safe, done or full;
          between them lam_i <- 2 lam_i + 0.1 b_0 / b_i where g_i < 0, brought down to Lam.  Then the best trial
      (3) the dual solve gives the plan. It is played where it is shown safe and done, or where nothing was logged, it
          is not shown safe and expected to try 0.02 actions or more for the first time (sum of x where n = 0). Where
          it is shown safe and not done, the multipliers lie at a jump: a little less, and the plan cannot be shown
          safe. Then it is kept, and the plan of the least short of the trials that were not shown safe is mixed into
          it; it is played as it is where there was none. Otherwise a safe policy is looked for, to mix the plan into:
          the one kept, if it can be shown safe again; else, where one was kept or t = next was just reached, what a
          dual solve gives with Q = r^ + lam . (d^ - c_margin z sqrt(s2 / H)) + p^ V and -H L(lam) rem where n = 0 (what
          was tried alone), if it is shown safe: it is kept then. If there is none, the plan is played.
          Mixed: with the first of the shares min(2 share, 1/2), half of that, ..., 1/64 for which the mixture is shown
          safe, or none: share <- that one, or 1/64. Its occupancies are the mixture of those of the two, as if one
          of them were drawn for the whole episode; where neither comes, the two are mixed in the state. What is mixed
          half and half, or earns more by plug-in r^ than the policy that is kept, is kept in its place.
          Observations are noisy where the mean over h of rho_ih is 10 or more for some i. Then the solve with what was
          tried alone is done whenever t = next was just reached, and what it gives replaces a policy that can still be
          shown safe if it is too and earns more by plug-in r^; if there is none, then until the next one the plan is
          mixed with what it gave in every state, half and half, and that counts as the plan.
      (4) play, add what was seen; where t = next was just reached, luck of (h, s) = sqrt(log(k) / 2) with k the sum
          of exp(-(max Q^ - Q^)^2 / (2 (s2_0 + sum_a pi s2_0))) over the actions tried, Q^ = r^ + lam . d^ + p^ V
      with a safe policy pi_0 of utilities v_0 given: play the policy of (3) with probability w, pi_0 otherwise,
          w the largest for which w low_i + (1 - w) v_0i >= a_i + c_alpha z sqrt(sa_i) for all i, with
          low_i = max(0, U_{i,1}(s_1) - (1 + 0.4 nu_i) eps_i - (1 - c_luck) sum x luck lucky_i - H mid_i blind
          + c_alpha z sqrt(sa_i)), in which the error of the threshold, which is in eps_i, counts once,
          nu_i the mean over h of rho_ih / (1 + rho_ih), and blind the sum of x where n = 0 and of the probabilities of
          first states never seen; w = 0 before 30 episodes brought samples of a threshold that is not known
      where t = next was just reached (1) is done for all cells, otherwise for those of the last episode

The residual is the largest of the abs(e_i) whose conditions are not met, the shortfall the largest of 0 and the
-g_i / b_i; a multiplier is free unless it is 0 with g_i > 0. The best trial is one that is shown safe, if any is; of
several the one with the smallest shortfall, then the smallest residual. Where c_margin < 1/2, the tolerance is taken as
if it were 1/2. What would follow an action never tried is not in x. Values are averaged over an initial distribution;
t - 1 counts all episodes that brought data. **Order**: construction plans episode 1; ``observe`` of an episode adds its
data and plans the next; logged episodes are added at once, and the next is planned three times, so that values, the
variances taken of them and the pooled ones belong together.

Units
-----
Multiplying r and b_0, or any d_i and alpha_i, by a constant changes nothing but the units. With top_i the largest of
all d_i seen and of alpha_i / H where it is known (1 where that is below 1e-30), and the mean and the variance of the
d_i that the k first tries of all (step, state, action) brought::

    mid_i = (top_i / 2 + k mean) / (1 + k),   b_i = min(top_i, sqrt(share (top_i^2 + 12 k variance) / max(k, 1)))

so that b_i is the width of a uniform law that is spread as their means are: share, the mean over h of 1 / (1 + rho_ih),
leaves out the noise. Where utilities are known, all of them are first tries. The largest reward is declared
(``reward_scale``), not measured: what was never seen cannot be.

Noise
-----
One observation of 0 or 1 says little about a mean. What it says follows from the others of that step. For the reward
and each utility, over the (s, a) of step h with n >= 1, mean x and sample variance var (of n, not n - 1), N = sum n::

    noise = sum of n var / max(1, sum of (n - 1)),   Q = sum of n (x - sum of n x / N)^2,   k + 1 the number of (s, a)
    between = (max(0, Q - k noise) + sqrt(2 k) noise) / (N - sum of n^2 / N)
    c = average of x with weights 1 / (1 + rho / n), rho as it was;   then rho = noise / between

between is the variance of the true means (DerSimonian and Laird's) and one standard error more; rho says how many
observations the step's centre c counts as. The mean of an (s, a) is c + (x - c) / (1 + rho / n), and of its error
1 / (1 + rho / n) is left. Chosen for its good looks, such a mean is not too high on the average, which a plain one is:
luck is counted for what follows, Cov_p, and no longer for what is observed. Without noise (below 1e-20 of the squared
largest) rho = 0 and nothing is shrunk. All this is taken anew when t = next is reached.

Shared steps
------------
Where the problem is stationary, what is seen at one step counts at all (``share_steps=False`` switches it off): N, p^,
r^ and d^ of (s, a) are those of all steps together, and since the errors at different steps are then one error, eps_i
has sum_{s,a} (sum_h x s_i)^2 in the place of sum x^2 s2_i. The transition after the last step is not used.

Revealed parts
--------------
What the problem reveals is not estimated; only what is not known has variance, prior and margin. The interval of length
b_i rem in which d_i + U_i may lie is one of b_i for the mean and one of b_i (rem - 1) for what follows, and so for the
reward with L. The part that is known falls away wherever b_i rem or L rem stands above for doubt: in c_prior b, and in
the squares over 12 of n = 0 and of the pooled variances. The variance of a known mean is 0, and so is Var_p of known
transitions, which is no error. Where n = 0, Q = r + lam . d + p V and Qd_i = d_i + p U_i, with the tops and the middles
for means not known, and M (rem - 1) and mid_i (rem - 1) for p V and p U where the transitions are not. The tolerance is
at least b_i H / 10^6. Where everything is known, thresholds too, there is nothing to learn: the plan is the exact
optimum from the first episode on, if the thresholds can be met at all.

Allowed actions
---------------
Where the problem forbids actions, softmax, mean and uniform policies are over those that are allowed in a state. The
others have probability 0, are never tried, and do not count as untried.

Why it should work
------------------
sum x^2 s2 is the delta-method variance of the plug-in value, so the margin is c / sqrt(t) with a measured c; with
Gaussian errors and c_margin > 1 the expected violations sum to a constant. The delta method does not know that the plan
was chosen for its good looks: luck lucky_i is how much of them a state's best action owes to chance, and what that is
worth in utility i. tau keeps the bias of the entropy at the order of the statistical error. An action never tried is
worth everything in planning, which makes it tried, and what first tries brought in the constraint, which makes it tried
where there is room. How much a second try may differ from the first is not known from one sample, but it is from all
the others of that step: the pooled variances. Where the multipliers are at their ceiling the plan has the largest
smallest slack, in widths; and once a policy is known that is safe, only as much of such a plan is played as can be
shown safe.

After a log
-----------
Who has a log wants no violation while the rest is learned. With t_log episodes logged, in the first 10 t_log that are
played after it::

    eps_i of a policy that is expected to try 0.02 actions or more for the first time (sum of x where n = 0) has
        mid_i rem sum of x where n = 0 more, and as much for first states never seen: nothing is expected of them
    kept at first: what was done in every state, N_h(s, a) / N_h(s), though it was not shown safe yet
    where the plan is not shown safe, in (3): the policy kept is looked at again, and where it is not shown safe the
        solve with what was tried alone is done, whatever t. Where neither is shown safe, the one with the smaller
        shortfall is kept and played, without any of the plan; the plan is (half and half where observations are noisy)
        only where U_i + one standard error < a_i for some i: then what was tried alone is not safe

After so many episodes the log is a small part of what is known, and all is as above, but that the plan is not played
for its first tries alone. A policy whose slack is nearly 0 would otherwise be played for ever.

Missing samples
---------------
A utility that is NaN in a step was not sampled there. With n the samples of d_i in a row and N its visits, all that is
about d_i has n in the place of N: its mean, its noise, its standard error. A row that was visited and has no sample of
d_i is taken for one never tried, as far as d_i goes. Reward and transitions count every visit. Sums of an episode that
lacks a sample are not judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from flexdome.certificates import Seen
from flexdome.certificates.kernels import COUNT, REFUTED
from flexdome.certificates.promise import broken_promise
from flexdome.cmdp import CMDP, Episode, Problem
from flexdome.cmdp.validation import Float, as_count, as_float, as_int, frozen, shown
from flexdome.errors import InfeasibleError, ValidationError
from flexdome.kernels.borrow import hold
from flexdome.learners.base import Beliefs, Learner
from flexdome.learners.proximal.data_kernels import Choices, Proximal
from flexdome.learners.proximal.error_kernels import open_cells, open_known
from flexdome.learners.proximal.memory import NAMES, SHORTEST, Memory
from flexdome.learners.proximal.plan_kernels import keep_logged, observe_proximal, record_proximal
from flexdome.learners.proximal.promise_kernels import bound_given, refuted_by
from flexdome.learners.proximal.state import proximal_arrays, proximal_state, restore_proximal, set_scales
from flexdome.learners.proximal.status import LICENCE, Status
from flexdome.learners.proximal.telling import beliefs_of, status_of
from flexdome.learners.safe_policy import as_safe_policy, stored_safe_policy
from flexdome.learners.seen.counts import OptimisticModel
from flexdome.learners.seen.dense import dense_counts
from flexdome.learners.seen.kernels import Settings
from flexdome.learners.state import as_state
from flexdome.learners.turn import changing, reading
from flexdome.planning import Solution, solve
from flexdome.theory.schedules import LARGEST

__all__ = ["ProxDOME", "Status"]

Arrays = dict[str, npt.NDArray[Any]]
BONUS, MARGIN = 0.65, 1.3  # c_bonus and c_margin with all caution
SAMPLES = 1.0  # c_alpha: the errors of thresholds that are estimated count with it
LUCK = 0.25  # c_luck: what a plan may owe to lucky estimates counts with it
LEAST_SQUARED_Z = 5.5  # z is at least its root: from the first verdict on, three standard errors
PLANS = 3  # after logged data, so that values, the variances taken of them, and the pooled ones belong together
STREAM = 0x50524F58  # of the draws between the plan and a safe policy that was given
NO_STEPS = np.zeros(0, dtype=np.int64)
NO_EPISODE = (NO_STEPS, NO_STEPS, np.zeros(0), np.zeros((0, 0)), np.zeros((0, 0)))


class ProxDOME(Learner):
    """Exact soft planning under optimism, multipliers solved for under pessimism.

    Parameters
    ----------
    problem : what may be known; its Slater gap is not used
    episodes : how many are planned, for ``simulate``; nothing else depends on it
    caution : one dial from bold (0) to cautious (1): c_margin = 1.3 caution, c_luck = caution / 4 and c_bonus =
        0.65 (1 + 3 caution) / 4, where they are not given by themselves
    bonus_scale : c_bonus
    margin_scale : c_margin
    prior_scale : c_prior, the doubt about an action's spread that all its visits share
    pool_weight : kappa, how many visits the pooled variance of a step counts as
    reward_scale : b_0, the largest reward of a step; the units of the utilities are measured
    share_steps : whether what is seen at one step counts at all; None does so where the problem is stationary
    safe_policy : a known policy and its utilities (:class:`flexdome.SafePolicy`) to be safe with from the first episode
        on: what is played is drawn, the plan with probability ``status().weight`` and that policy otherwise
    forget : for a plant that changes: how many of the last episodes count (from 16 on), and fewer as soon as predicted
        and realised utilities part (:mod:`flexdome.learners.proximal.memory`); None forgets nothing. With it, a
        simulation runs through ``observe``
    seed : of those draws

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
    masks: ClassVar[bool] = True
    gaps: ClassVar[bool] = True
    runner: ClassVar[str] = "flexdome.simulation.runners.proximal:Proximal"
    _optimum: Solution | None

    def __init__(
        self,
        problem: Problem,
        episodes: int = 80_000,
        seed: int = 0,
        *,
        caution: float = 1.0,
        bonus_scale: float | None = None,
        margin_scale: float | None = None,
        prior_scale: float = 0.25,
        pool_weight: float = 8.0,
        reward_scale: float = 1.0,
        share_steps: bool | None = None,
        safe_policy: Any = None,
        forget: int | None = None,
    ) -> None:
        super().__init__(problem, episodes, seed)
        self.forget = None if forget is None else as_int("forget", forget, SHORTEST, 10**9)
        self.memory = None if self.forget is None else Memory(self.forget, problem.constraints)
        self.safe_policy = None if safe_policy is None else as_safe_policy(self.id, problem, safe_policy)
        if not isinstance(share_steps, bool | None):
            raise ValidationError(f"share_steps is {shown(share_steps)}; it must be True, False or None")
        if share_steps and not problem.stationary:
            raise ValidationError("share_steps is True; it must not be where the problem is not said to be stationary")
        shared = problem.stationary if share_steps is None else share_steps
        self.caution = as_float("caution", caution, low=0.0, high=1.0)
        choices = Choices(
            bonus=BONUS * (1.0 + 3.0 * self.caution) / 4.0
            if bonus_scale is None
            else as_float("bonus_scale", bonus_scale, low=0.0, high=LARGEST),
            prior=as_float("prior_scale", prior_scale, low=0.0, high=1e9),
            weight=as_float("pool_weight", pool_weight, low=0.0, high=1e9),
            margin=MARGIN * self.caution
            if margin_scale is None
            else as_float("margin_scale", margin_scale, low=0.0, high=LARGEST),
            samples=SAMPLES,
            luck=LUCK * self.caution,
            least=LEAST_SQUARED_Z,
            licence=LICENCE,
            reward=as_float("reward_scale", reward_scale, low=1e-9, high=1e9),
            shared=shared and problem.horizon > 1,
            given=np.zeros(0) if self.safe_policy is None else np.array(self.safe_policy.utilities),
            certain=False,
        )
        self.choices = hold(choices)
        self.model, self.settings, self.own = self._nothing_seen()
        self._look()
        self._plan()
        if self.memory is not None:  # a simulation then runs through it, and not in the kernel
            vars(self)["observe"] = self._observe_and_forget

    def _nothing_seen(self) -> tuple[OptimisticModel, Settings, Proximal]:
        """What is held before the first episode."""
        problem, model = self.problem, OptimisticModel(self.problem)
        settings, own = model.settings(problem, LARGEST, off=False), proximal_arrays(model)
        if settings.revealed:
            model.reveal(problem, settings)
            if problem.utilities is not None:
                set_scales(own.scales, problem.utilities)
            open_cells(model.core, own, settings, self.choices)
            open_known(model.core, own, settings, self.choices)
        return model, settings, own

    def reserve(self) -> None:
        """Make room for the successors that one more episode may bring."""
        self.model.reserve(self.problem.horizon if self.choices.shared else 1)

    def _look(self) -> None:
        """Whether everything is known, and then the exact optimum, if the thresholds can be met."""
        known, self._optimum = self.problem, None
        p, r, d = known.transitions, known.rewards, known.utilities
        if known.thresholds_known and p is not None and r is not None and d is not None:
            with suppress(InfeasibleError):  # what is played then aims at the utilities
                self._optimum = solve(CMDP(p, r, d, known.thresholds, known.initial, allowed=known.allowed))
        self.choices = self.choices._replace(certain=self._optimum is not None)

    def _plan(self) -> None:
        if self._optimum is None:
            self._learn(NO_EPISODE)
            return
        core, best = self.model.core, self._optimum
        H, S, A = self.model.shape
        pi = best.policy.transpose(0, 2, 1)
        log_pi = np.log(np.maximum(pi, np.exp(-700.0)))
        core.policy.pi.reshape(H, A, -1)[..., :S], core.policy.logits.reshape(H, A, -1)[..., :S] = pi, log_pi
        core.policy.entropy.reshape(H, -1)[:, :S] = -(pi * log_pi).sum(axis=1)
        core.policy.lam[:] = best.multipliers
        report = self.own.report
        report.numbers[:] = 0.0
        report.value[0], report.utilities[:], report.thresholds[:] = best.value, best.utilities, self.problem.thresholds
        report.safe[0] = report.solved[0] = report.share[0] = report.weight[0] = 1.0

    def _learn(self, data: tuple[Any, ...], by_given: bool = False) -> None:
        observe_proximal(self.model.core, self.own, self.settings, self.choices, data, self._played, by_given)

    def _drawn(self) -> bool:
        """Whether the safe policy that was given is the one that plays the next episode."""
        return self.safe_policy is not None and bool(self.coins(1)[0] >= self.own.report.weight[0])

    def refuted(self, utilities: Float) -> None:
        """An error where one more episode of the safe policy, with these utilities (m, H), refutes what was promised.

        The bound holds at all episodes at once, in all but one of a million lives (REFUTED) of a policy that is safe.
        """
        if self.safe_policy is None:
            raise ValidationError("safe_policy is None; only a policy that was given can be refuted")
        promised, m, shape = self.safe_policy.utilities, self.problem.constraints, np.shape(utilities)
        if shape != (m, self.problem.horizon):
            raise ValidationError(f"utilities has shape {shape}; it must be {(m, self.problem.horizon)}")
        i = int(refuted_by(self.own, self.choices, utilities))
        if i >= 0:
            row = self.own.promise[1 + i].copy()
            most = float(bound_given(row, float(utilities[i].sum()), float(self.problem.horizon), m))
            raise broken_promise(self.problem.units, i, float(promised[i]), most, int(row[COUNT]), REFUTED)

    @property
    @reading
    def policy(self) -> Float:
        """(H, S, A) to play next: where a safe policy was given, the one that is drawn for the next episode."""
        if self.safe_policy is not None and self._drawn():
            return self.safe_policy.policy
        return self._planned()

    def _planned(self) -> Float:
        uniform = 1.0 / self.problem.actions if self.problem.allowed is None else self.problem.uniform
        pi: Float = frozen(self.model.by_state(self.model.core.policy.pi, uniform))
        return pi

    @property
    @reading
    def mixture(self) -> tuple[Float, Float]:
        """Weights (k,) and policies (k, H, S, A) that an episode is drawn from: the safe policy given, and the plan."""
        if self.safe_policy is None:
            return np.ones(1), self._planned()[None]
        weight = float(self.own.report.weight[0])
        return np.array([1.0 - weight, weight]), np.stack([self.safe_policy.policy, self._planned()])

    def coins(self, count: int) -> Float:
        """(count,) numbers that the next episodes are drawn with; they depend on the seed and the episode alone."""
        bits = np.random.PCG64(np.random.SeedSequence([self.seed, STREAM]))
        bits.advance(self.episode)
        return np.random.Generator(bits).random(as_count("count", count))

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
        return self.model.by_state(self.own.seen if self.choices.shared else self.model.core.counts.n_visits, 0.0)

    @changing
    def observe(self, episode: Episode) -> None:
        """Learn from one episode played with ``policy`` and plan the next; a bad one is refused and changes nothing."""
        data, by_given = self.checked_episode(episode), self._drawn()
        if by_given:
            self.refuted(data[3])
        self._begun([data])
        self.reserve()
        self._learn(data, by_given)

    @changing
    def _observe_and_forget(self, episode: Episode) -> None:
        """:meth:`observe`, and where there is something to forget, what was seen is made anew from what is not."""
        data, report, by_given = self.checked_episode(episode), self.own.report, self._drawn()
        if by_given:
            self.refuted(data[3])
        assert self.memory is not None
        memory = self.memory.copy()
        memory.add(data, report.utilities.copy(), report.errors.copy())
        self._begun([data])
        self.reserve()
        self._learn(data, by_given)
        self.memory = memory
        if memory.cut():
            self._remember(memory)

    def _remember(self, memory: Memory) -> None:
        """Make everything anew from the episodes of a memory. The multipliers are kept, and so is the count."""
        lam = self.model.core.policy.lam.copy()
        before = self.model, self.settings, self.own
        try:
            self.model, self.settings, self.own = self._nothing_seen()
            for name in ("judged", "below", "promise"):  # of episodes played, not of what is remembered
                getattr(self.own, name)[:] = getattr(before[2], name)
            self._begun(memory.data)
            for data in memory.data:
                self.reserve()
                record_proximal(self.model.core, self.own, self.settings, self.choices, data)
            self.model.core.policy.lam[:] = lam
            self.own.logged[0] = len(memory.data) - self.episode
            self.own.since[0] = len(memory.data) + 1  # the multipliers do not begin at 0 again for that
            if self.own.logged[0] > 0:
                keep_logged(self.model.core, self.own, self.settings)
            for _ in range(PLANS):
                self._plan()
        except BaseException:
            self.model, self.settings, self.own = before
            raise

    @changing
    def preload(self, episodes: Iterable[Episode]) -> None:
        """Take logged episodes as data, whatever policy made them, and plan the next episode with them."""
        log = self.checked_episodes(episodes)
        self._begun(log)
        for data in log:
            self.reserve()
            record_proximal(self.model.core, self.own, self.settings, self.choices, data)
            if self.memory is not None:
                self.memory.add(data, None, None)
        if log:
            keep_logged(self.model.core, self.own, self.settings)
        for _ in range(PLANS if log else 0):
            self._plan()

    def _begun(self, log: Sequence[tuple[Any, ...]]) -> None:
        """Before these episodes are learned from: room for what is missing in them; first states that are estimated."""
        self.model.expect(log)
        if self.problem.initial_estimated:
            self.settings.start_p[:] = self.initial(int(data[0][0]) for data in log)

    @reading
    def status(self) -> Status:
        """Why the policy of the next episode was taken."""
        return status_of(self)

    def utility_means(self) -> Float:
        """(m, H, S, A) mean utilities that were seen, NaN where nothing was."""
        return self.model.utility_means()

    @reading
    def beliefs(self) -> Beliefs:
        """What the learner held to be true of the policy it is about to play when it planned it.

        ``value`` and ``utilities`` are plug-in estimates, not optimistic. ``widths`` is what optimism adds to a cell's
        reward: c_bonus sqrt(log(1 + N(s))) standard errors, and where a cell was never tried all that is possible,
        M rem (less what is known of it).
        """
        return beliefs_of(self)

    def thresholds_changed(self) -> None:
        """Plan with the new thresholds."""
        self.settings = self.settings._replace(thresholds=np.array(self.problem.thresholds))
        self._look()
        self._plan()  # "from the next episode on", which was planned with the old ones

    def seen_counts(self) -> Seen:
        """What was counted, for :meth:`certify`."""
        return dense_counts(self.problem, self.model, int(self.visits[0].sum()), self.choices.shared)

    def options(self) -> dict[str, Any]:
        """The constructor's options, as JSON."""
        return {
            "episodes": self.episodes,
            "seed": self.seed,
            "caution": self.caution,
            "bonus_scale": self.choices.bonus,
            "margin_scale": self.choices.margin,
            "prior_scale": self.choices.prior,
            "pool_weight": self.choices.weight,
            "reward_scale": self.choices.reward,
            "share_steps": self.choices.shared,
            "safe_policy": None if self.safe_policy is None else stored_safe_policy(self.safe_policy),
            **({} if self.forget is None else {"forget": self.forget}),
        }

    def state(self) -> Arrays:
        """Everything learned, as arrays."""
        state = proximal_state(self.model, self.own, bool(self.settings.known_p))
        return state if self.memory is None else {**state, **self.memory.state()}

    def restore(self, state: Arrays) -> None:
        """Take back what :meth:`state` gave; what cannot be is refused."""
        state = as_state(state)
        self.settings = self.settings._replace(thresholds=np.array(self.problem.thresholds))
        self._look()
        if self.memory is not None:
            self.memory.restore(state, self.model.shape)
            state = {name: part for name, part in state.items() if name not in NAMES}
        restore_proximal(self.model, self.own, self.settings, self.choices, self.episode, state)
        self._begun(())
