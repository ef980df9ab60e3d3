"""The statements about the known-model iteration and its saddle points, measured along trajectories.

The recursion of Lemma 1 is looked at twice: against the saddle point of episode t, which is what its proof bounds, and
against that of episode t + 1, which is what it states. What lies between the two is the drift.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from flexdome.audit.findings import Finding, Series, judged
from flexdome.audit.payoffs import composite
from flexdome.audit.trajectory import Steps
from flexdome.cmdp.validation import Float
from flexdome.planning import evaluate
from flexdome.theory import (
    contraction,
    convergence_bound,
    dual_optimum_bound,
    dual_side,
    entropy_to_go_bound,
    log_primal_constant,
    margin_mixture,
    mirror_step,
    multiplier_drift_bound,
    potential_drift_bound,
    q_bound,
    reward_bound,
    step_error,
    violation_bound,
)

__all__ = [
    "drift_findings",
    "lemma2_findings",
    "mixture_findings",
    "recursion_findings",
    "saddle_findings",
    "step_findings",
]

RANDOM = 20  # policies and multipliers drawn for the saddle inequalities, at each episode
DUALITY = 1e-7  # of a duality gap: the saddle points have residuals of 1e-10 that a box of side 100 multiplies


def _series(steps: Sequence[Steps], sides: Callable[[Steps], tuple[Float, Float]]) -> list[Series]:
    return [Series(one.label, one.t, *sides(one)) for one in steps]


def _errors(one: Steps) -> Float:
    return np.array([step_error(one.problem, float(e), float(w)) for e, w in zip(one.eta, one.tau, strict=True)])


def recursion_findings(steps: Sequence[Steps], setting: str) -> list[Finding]:
    """Lemma 1 in known-model mode: one step against either saddle point, and all steps together."""
    silent = 0.5 / steps[0].problem.horizon  # a potential above this makes Lemma 2's bound exceed H
    constant = all(_constant(one) for one in steps)

    def one_step(one: Steps) -> Float:
        rows = zip(one.phi, one.eta, one.tau, _errors(one), strict=True)
        return np.array([contraction(*map(float, row)) for row in rows])

    def unrolled(one: Steps) -> tuple[Float, Float]:
        """With each step's own C and D, and with those of the last step in all of them, as published."""
        n, at, phi = int(one.t[-1]), one.t - 1, float(one.phi[0])
        eta, tau, _ = one.schedules.table(1, n, one.cmdp.constraints)
        if constant:
            errors = np.full(n, step_error(one.problem, float(eta[0]), float(tau[0])))
        else:
            errors = np.array([step_error(one.problem, float(e), float(w)) for e, w in zip(eta, tau, strict=True)])
        share = convergence_bound(0.0, eta, tau, eta**2)[at] * (errors / eta**2)[at]
        published = convergence_bound(phi, eta, tau, np.zeros(n))[at] + share
        return convergence_bound(phi, eta, tau, errors)[at], published

    place = "Lemma 1; appendix F, Theorem 2 (potential)"
    axis = "potential after the step"
    all_steps = {one.label: unrolled(one) for one in steps}
    rows: list[tuple[str, str, Callable[[Steps], Float], Callable[[Steps], Float], str]] = [
        ("one-step-held", "one step, saddle point of t kept", lambda one: one.held, one_step, "what is proved"),
        ("one-step", "one step, as stated: Phi_{t+1} has the saddle point of t + 1", lambda one: one.moved, one_step,
         "" if constant else "the published recursion has no term for the drift"),
        ("unrolled", "all steps, each with its own C and D", lambda one: one.moved, lambda one: all_steps[one.label][0],
         "" if constant else "the first steps' C makes the bound useless for good: what they add falls only as 1/t"),
        ("unrolled-published", "all steps, with the last C and D in every one, as published", lambda one: one.moved,
         lambda one: all_steps[one.label][1],
         "" if constant else "C depends on eta_t and may not leave the sum; this is what the lemma says if it does"),
    ]  # fmt: skip
    return [
        judged(f"lemma-1-{key}", f"Lemma 1: {text}", place, setting,
               _series(steps, _sides(left, right)), silent, note, axis)
        for key, text, left, right, note in rows[: 3 if constant else 4]
    ]  # fmt: skip


def _sides(left: Callable[[Steps], Float], right: Callable[[Steps], Float]) -> Callable[[Steps], tuple[Float, Float]]:
    return lambda one: (left(one), right(one))


def _constant(one: Steps) -> bool:
    return bool((one.tau == one.tau[0]).all() and (one.eta == one.eta[0]).all() and (one.margin == one.margin[0]).all())


def drift_findings(steps: Sequence[Steps], setting: str) -> list[Finding]:
    """The drift of the saddle point: against what a step gains, and against the bounds that can be proved."""
    steps = [one for one in steps if not _constant(one)]  # constant schedules have one saddle point
    if not steps:
        return []

    def gained(one: Steps) -> tuple[Float, Float]:
        return one.drift, (1.0 - one.eta * one.tau) * one.phi - one.held

    def pairs(one: Steps, k: int) -> tuple[tuple[float, float], tuple[Float, Float], Float]:
        return (
            (float(one.tau[k]), float(one.next_tau[k])),
            (one.margin[k], one.next_margin[k]),
            one.points[k].multipliers,
        )

    def multipliers(one: Steps) -> tuple[Float, Float]:
        moved = [
            np.linalg.norm(b.multipliers - a.multipliers) for a, b in zip(one.points, one.next_points, strict=True)
        ]
        bound = [multiplier_drift_bound(one.problem, *pairs(one, k)) for k in range(one.t.size)]
        return np.array(moved), np.array(bound)

    def provable(one: Steps) -> tuple[Float, Float]:
        return one.drift, np.array([potential_drift_bound(one.problem, *pairs(one, k)) for k in range(one.t.size)])

    larger = sum(int(np.sum(np.subtract(*gained(one)) > 0.0)) for one in steps)
    total = sum(one.t.size for one in steps)
    late = [one for one in steps if one.t[-1] >= 16]
    share = [float(np.max(np.abs(one.drift) / _errors(one))) for one in steps]
    notes = (
        "the gain is (1 - eta tau) Phi_t less the potential after the step, both against t; the drift is larger in "
        f"{larger} of {total} steps, and at most {max(share):.2g} of the published error term{_slope(late)}"
    )
    nowhere = "not in the paper"
    return [
        judged("drift-gained", "the drift is below what the step itself gains",
               nowhere, setting, _series(steps, gained), None, notes, "drift of the saddle point", rounding=0.0),
        judged("drift-multipliers", "the multiplier's drift is below its bound", nowhere, setting,
               _series(steps, multipliers), dual_side(steps[0].problem), "a bound of our own", "drift of lambda*"),
        judged("drift-bound", "the potential's drift is below its bound", nowhere, setting, _series(steps, provable),
               0.5 / steps[0].problem.horizon, "a bound of our own, O(t^(-1/3)): it does not repair the proof",
               "drift of the saddle point"),
    ]  # fmt: skip


def _slope(steps: Sequence[Steps]) -> str:
    slopes = []
    for one in steps:
        late = (one.t >= one.t[-1] / 100) & (np.abs(one.drift) > 0.0)
        if late.sum() >= 10:
            slopes.append(float(np.polyfit(np.log(one.t[late]), np.log(np.abs(one.drift[late])), 1)[0]))
    if not slopes:
        return ""
    return f"; late it falls as t^{np.mean(slopes):.2f} ({min(slopes):.2f} to {max(slopes):.2f}, {len(slopes)} runs)"


def lemma2_findings(steps: Sequence[Steps], setting: str) -> list[Finding]:
    """Lemma 2's two lines, at the episodes whose margin is at most half the Slater gap."""

    def sides(one: Steps, line: str) -> Series:
        at = np.flatnonzero(one.margin.max(axis=1) <= 0.5 * one.problem.slater_gap)
        gap, short = one.run.reward_gap[one.t - 1][at], one.run.violation[:, one.t - 1].max(axis=0)[at]
        bound = reward_bound if line == "reward" else violation_bound
        margin = one.margin.max(axis=1) if line == "reward" else one.margin.min(axis=1)
        right = [bound(one.problem, float(one.phi[k]), float(one.tau[k]), float(margin[k])) for k in at]
        return Series(one.label, one.t[at], np.maximum(gap if line == "reward" else short, 0.0), np.array(right))

    H = steps[0].problem.horizon
    usable = [one for one in steps if (one.margin.max(axis=1) <= 0.5 * one.problem.slater_gap).any()]
    if not usable:
        return []
    place = "Lemma 2"
    return [
        judged("lemma-2-reward", "Lemma 2, reward: H^(3/2) sqrt(2 Phi) + tau H log A + (H / Xi) eps", place, setting,
               [sides(one, "reward") for one in usable], H, "", "positive reward gap"),
        judged("lemma-2-violation", "Lemma 2, violation: [H^(3/2) sqrt(2 Phi) + 4 tau H / Xi - eps]_+", place, setting,
               [sides(one, "violation") for one in usable], H, _covered(usable), "positive violation"),
    ]  # fmt: skip


def mixture_findings(steps: Sequence[Steps], setting: str) -> list[Finding]:
    """The mixture of the optimum and the safest policy, as one Markov policy, is safe with the margin to spare."""
    series = []
    for one in steps:
        at = np.flatnonzero(one.margin.max(axis=1) <= 0.5 * one.problem.slater_gap)[:: max(one.t.size // 8, 1)]
        if not at.size:
            continue
        margins = [float(one.margin[k].max()) for k in at]
        values = [evaluate(one.cmdp, margin_mixture(one.cmdp, margin)).utilities for margin in margins]
        short = [float((one.cmdp.alpha + margin - v).max()) for margin, v in zip(margins, values, strict=True)]
        series.append(Series(one.label, one.t[at], np.array(short), np.zeros(at.size)))
    if not series:
        return []
    return [judged("mixture", "Altman's mixture is safe with the margin to spare", "proof of Lemma 2", setting, series,
                   None, "(1 - eps / Xi) pi* + (eps / Xi) pi0, as one Markov policy", "what is missing",
                   DUALITY)]  # fmt: skip


def _covered(steps: Sequence[Steps]) -> str:
    """Which multiplier the margin would have to cover, in the lemma and in truth."""
    stated = max(dual_side(one.problem) for one in steps)
    true = max(float(one.points[-1].multipliers.max()) for one in steps)
    return f"the lemma covers tau 4H/Xi = {stated:.3g} tau; what the saddle point has is lambda* tau = {true:.3g} tau"


def saddle_findings(steps: Sequence[Steps], setting: str, every: int = 4) -> list[Finding]:
    """Strong duality, the saddle point inequalities and the interior multiplier, at every fourth episode."""
    duality, first, second, inside = [], [], [], []
    for one in steps:
        at = np.arange(0, one.t.size, every)
        rng = np.random.default_rng(0)
        sides = np.array([_saddle_sides(one, int(k), rng) for k in at])
        zero, bound = np.zeros(at.size), dual_side(one.problem)
        duality.append(Series(one.label, one.t[at], sides[:, 0], zero))
        first.append(Series(one.label, one.t[at], sides[:, 1], zero))
        second.append(Series(one.label, one.t[at], sides[:, 2], zero))
        largest = np.array([one.points[k].multipliers.max() for k in at])
        inside.append(Series(one.label, one.t[at], largest, np.full(at.size, (1.0 - 1e-9) * bound)))
    proven = [dual_optimum_bound(o.problem, float(w), float(e.max())) < dual_side(o.problem)
              for o in steps for w, e in zip(o.tau, o.margin, strict=True)]  # fmt: skip
    early = sum(int((o.margin.max(axis=1) > 0.5 * o.problem.slater_gap).sum()) for o in steps)
    note = (
        f"claimed for margins up to Xi / 2, which {early} of {len(proven)} episodes exceed; the argument "
        f"H (1 + tau log A) / (Xi - eps) puts it inside in {sum(proven)}"
    )
    place = "appendix C"
    many = f"{RANDOM} random policies and multipliers and the iterate, at each episode"
    return [
        judged("strong-duality", "strong duality: max min L = min max L", place, setting, duality, None,
               "Sion's theorem needs no feasible policy: it holds for t < C'' too", "duality gap", DUALITY),
        judged("saddle-policy", "saddle point inequality (i): no policy does better against lambda*", place, setting,
               first, None, many, "gain over the saddle point", DUALITY),
        judged("saddle-multipliers", "saddle point inequality (ii): no multiplier does better against pi*", place,
               setting, second, None, many, "gain over the saddle point", DUALITY),
        judged("interior", "lambda* is inside its box, below 4 H / Xi", "proof of Lemma 2", setting, inside, None, note,
               "largest multiplier", 0.0),
    ]  # fmt: skip


def _saddle_sides(one: Steps, k: int, rng: np.random.Generator) -> tuple[float, float, float]:
    """The duality gap, and by how much the best of some policies and of some multipliers beats the saddle point."""
    from flexdome.planning.evaluation import evaluate_batch, occupancy

    cmdp, point, tau, eps = one.cmdp, one.points[k], float(one.tau[k]), one.margin[k]
    bound, slack = dual_side(one.problem), point.utilities - eps - cmdp.alpha
    best = np.clip(-slack / tau, 0.0, bound)

    def lagrangian(reward: float, less: Float, entropy: float, lam: Float) -> float:
        return float(reward + lam @ less + tau * (entropy + 0.5 * lam @ lam))

    here = lagrangian(point.reward, slack, point.entropy, point.multipliers)
    gap = point.value - lagrangian(point.reward, slack, point.entropy, best)
    H, S, A = point.policy.shape
    policies = np.concatenate([rng.dirichlet(np.ones(A), size=(RANDOM, H, S)), one.before[k].policy[None]])
    values = evaluate_batch(cmdp.model, policies)
    theirs = [
        lagrangian(value[0], value[1:] - eps - cmdp.alpha, _entropy(occupancy(cmdp, pi), pi), point.multipliers)
        for value, pi in zip(values, policies, strict=True)
    ]
    tried = [bound * rng.random(cmdp.constraints) for _ in range(RANDOM)] + [one.before[k].multipliers, best]
    lower = min(lagrangian(point.reward, slack, point.entropy, lam) for lam in tried)
    return gap, max(theirs) - here, here - lower


def _entropy(x: Float, policy: Float) -> float:
    with np.errstate(divide="ignore", invalid="ignore"):
        return -float(np.sum(np.where(x > 0.0, x * np.log(policy), 0.0)))


def step_findings(steps: Sequence[Steps], setting: str, every: int = 4) -> list[Finding]:
    """The lemmas about one policy: entropy to go, Q-value bounds, exp(eta Q) Q^2, the mirror step."""
    names = ("entropy", "q", "exponential", "mirror")
    found: dict[str, list[Series]] = {name: [] for name in names}
    for one in steps:
        at = np.arange(0, one.t.size, every)
        rows: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
        for k in at:
            pi, lam = one.before[k].policy, one.before[k].multipliers
            eta, tau = float(one.eta[k]), float(one.tau[k])
            values = composite(one.cmdp, pi, lam, tau)
            rows["entropy"].append(_tightest(values.entropy_q, entropy_to_go_bound(*_sizes(one), pi)))
            rows["q"].append(_tightest(values.q, q_bound(one.problem, tau, pi)))
            total = np.log((pi * np.exp(eta * values.q) * values.q**2).sum(axis=-1)).max()
            rows["exponential"].append((float(total), log_primal_constant(one.problem, eta, tau)))
            step = mirror_step(pi, values.q, eta, one.points[k].policy) if eta > 0.0 else None
            rows["mirror"].append((0.0, 0.0) if step is None else _tightest(step.left, step.right))
        for name in names:
            left, right = np.array(rows[name]).T
            found[name].append(Series(one.label, one.t[at], left, right))
    return [
        judged("entropy-to-go", "entropy to go is at most H log A - log pi(a | s)", "appendix D", setting,
               found["entropy"], None, "the cell with the least room", "entropy to go"),
        judged("q-bound", "0 <= Q_y <= C_0 - tau log pi(a | s)", "appendix D", setting, found["q"], None,
               "the cell with the least room", "$Q_y$"),
        judged("q-exponential", "sum_a pi exp(eta Q) Q^2 <= C", "appendix D", setting, found["exponential"], None,
               "natural logarithms of both sides; its proof needs eta tau <= 1/2, which is 1 at t = 1",
               "log of the sum"),
        judged("mirror-step", "the mirror step's inequality", "appendix B", setting, found["mirror"], None,
               "at every (h, s), towards the saddle point's policy", "gain of a step"),
    ]  # fmt: skip


def _sizes(one: Steps) -> tuple[int, int]:
    return one.problem.horizon, one.problem.actions


def _tightest(left: Float, right: Float) -> tuple[float, float]:
    """Both sides where there is least room."""
    at = np.unravel_index(int(np.argmax(left - right)), left.shape)
    return float(left[at]), float(right[at])
