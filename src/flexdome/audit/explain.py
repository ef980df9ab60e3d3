"""What the theorems say about one CMDP, in plain words."""

from __future__ import annotations

import math

import numpy as np

from flexdome.audit.cover import Cover, margin_cover
from flexdome.cmdp.model import CMDP
from flexdome.cmdp.problem import Problem
from flexdome.cmdp.validation import as_int
from flexdome.planning import slater_gap, solve
from flexdome.theory import (
    ViolationTerms,
    bonus_logs,
    burn_in_episode,
    composite_bound,
    dual_side,
    error_constant,
    margin_parts,
    regret_bound_start,
    regret_terms,
    theorem1,
    violation_bound_start,
    violation_terms,
    zero_violation_margin,
)
from flexdome.theory.constants import LONGEST, as_confidence

__all__ = ["explain"]

LOG10 = math.log(10.0)
NAMES = ("the burn-in, (C'' - 1) H", "(a) where it starts", "(b) the steps", "(c) the estimates", "(d) the entropy",
         "(e) the margin")  # fmt: skip


def explain(
    cmdp: CMDP,
    problem: Problem,
    episodes: int = 80_000,
    delta: float = 0.1,
    bonus_scale: float = 1e-3,
    margin_scale: float = 1e-5,
) -> str:
    """A page in markdown: what Theorem 1 and 2 promise here, from when on, and what the scales give up."""
    T, delta = as_int("episodes", episodes, 1, LONGEST), as_confidence(delta)
    parts = [
        _problem(cmdp, problem),
        _theorem1(problem, T, delta),
        _scales(problem, T, delta, bonus_scale, margin_scale),
        _margin(cmdp, problem, T, delta, margin_scale),
        _theorem2(cmdp, problem),
    ]
    return "\n\n".join(parts) + "\n"


def _at(schedule: object, t: int) -> float:
    return float(schedule(t))  # type: ignore[operator]


def _count(number: int) -> str:
    if number < 10**7:
        return f"{number:,}"
    power = len(str(number)) - 1
    return f"{number / 10**power:.3g} x 10^{power}"


def _problem(cmdp: CMDP, problem: Problem) -> str:
    exact, true = "exact, which only an oracle knows", slater_gap(cmdp)
    if not problem.slater_gap_exact:
        exact = f"a bound that was given; the exact gap is {true:.4g}"
    if problem.slater_gap > true * (1.0 + 1e-9):
        exact += ", which is less: no theorem speaks here"
    best = solve(cmdp)
    multipliers = ", ".join(f"{x:.4g}" for x in best.multipliers)
    return (
        f"# What the theorems say: {cmdp.name or 'this CMDP'}\n\n"
        f"S = {problem.states} states, A = {problem.actions} actions, H = {problem.horizon} steps, "
        f"m = {problem.constraints} {'constraint' if problem.constraints == 1 else 'constraints'}. The Slater gap Xi, "
        f"what the safest policy has to spare, is {problem.slater_gap:.4g} ({exact}). The best safe policy earns "
        f"{best.value:.4g}; one unit of threshold costs lambda* = {multipliers}. The multiplier is kept in "
        f"[0, 4H/Xi] = [0, {dual_side(problem):.4g}]."
    )


def _theorem1(problem: Problem, T: int, delta: float) -> str:
    margin, H = theorem1(problem, delta).margin, problem.horizon
    start = burn_in_episode(problem, delta)
    terms = regret_terms(problem, math.log(T), delta, start)
    total, begins = terms.total / LOG10, regret_bound_start(problem, delta)
    largest = max(range(6), key=lambda k: terms[k])
    short, forever = (violation_terms(problem, x, delta, start) for x in (math.log(T), 1e6))
    rows = "\n".join(f"| {name} | {_power(terms[k])} |" for k, name in enumerate(NAMES))
    word = (
        "So at this T the theorem says nothing: any learner at all has less regret, and less violation, than it allows."
        if start > T or total > math.log10(T * H)
        else f"So from episode {_count(start)} on the theorem is about this run."
    )
    return (
        "## Theorem 1, as it is stated\n\n"
        f"With probability {1 - delta:g}, strong regret of the order T^(5/6) and strong violation that does not grow, "
        f"both after a burn-in. The constant C_B is {error_constant(problem):,.0f}. The margin of the first episode is "
        f"{_at(margin, 1):,.0f}, that of episode {T:,} is {_at(margin, T):,.4g}; no utility exceeds H = {H}. It falls "
        f"below half the Slater gap, where the proof begins, in episode C'' = {_count(start)}. "
        f"Until then regret and violation are bounded by H an episode.\n\n"
        f"The bound on the strong regret at T = {T:,}, term by term; T H is {_power(math.log(T * H))}:\n\n"
        f"| term | bound |\n|---|---|\n{rows}\n\n"
        f"The largest is {NAMES[largest]}. {word} The bound is below T H from T = {_power(begins)} on.\n\n"
        f"The bound on the strong violation at this T is {_power(short.total)}. The constant that the theorem promises "
        f"is {_constant(problem, forever, delta)}."
    )


def _constant(problem: Problem, terms: ViolationTerms, delta: float) -> str:
    """The sum of (a') to (d') after T = e^(10^6) episodes, where all but (c') have ended."""
    if margin_parts(problem).initial <= 0.0:
        return "not there: the margin leaves nothing for (a') and (b') at so small a Slater gap"
    rest = float(np.logaddexp(terms.burn_in, np.logaddexp(terms.initial, terms.optimisation)))
    most = "the burn-in" if terms.burn_in > terms.optimisation else "(b'), for the C of the first step"
    begins = violation_bound_start(problem, delta)
    return f"{_power(rest)}, most of it {most}; the bound is below T H from T = {_power(begins)} on"


def _power(log: float) -> str:
    if log == -math.inf:
        return "0"
    return f"{math.exp(log):,.3g}" if log < 7 * LOG10 else f"10^{log / LOG10:.1f}"


def _scales(problem: Problem, T: int, delta: float, bonus_scale: float, margin_scale: float) -> str:
    L_r, L_p = bonus_logs(problem, T, delta)
    H = problem.horizon
    bonus = math.sqrt(L_r) + H * math.sqrt(L_p)
    margin = theorem1(problem, delta, margin_scale).margin
    start = burn_in_episode(problem, delta, margin_scale)
    first, last = math.ceil(bonus**2 / H**2), math.ceil(bonus**2)
    exponent = composite_bound(problem, 1.0)
    return (
        "## What the scales give up\n\n"
        f"Unscaled, the bonus of a first visit is {bonus:.3g}. It alone is above the cap H = {H} of the first step "
        f"until (h, s, a) was visited {first:,} times, and above the cap 1 of the last step until {last:,}; until then "
        f"all actions look alike. So everybody scales. With bonus_scale = {bonus_scale:g} it is "
        f"{bonus_scale * bonus:.3g}: the success event, that every error is below its bonus, is given up (it fails in "
        "the first episode, where an action never tried has an error of up to 1), and with it optimism and every "
        "bound on estimation errors. "
        f"With margin_scale = {margin_scale:g} the margin starts at {_at(margin, 1):.3g} and is {_at(margin, T):.3g} "
        f"in episode {T:,}; it is below half the Slater gap from episode {_count(start)} on. What is given up is "
        "that it covers the errors of estimation: the proof's part (c') wants nearly all of the unscaled margin. "
        f"The constant C of the first step has the exponent {exponent:.1f}; no scale changes that."
    )


def _margin(cmdp: CMDP, problem: Problem, T: int, delta: float, margin_scale: float) -> str:
    whole = margin_cover(cmdp, problem, T, delta, margin_scale)
    late = margin_cover(cmdp, problem, T, delta, margin_scale, first=max(T // 10, 1))
    last = (
        f"falls short of the threshold by {whole.last_violation:.3g}" if whole.last_violation > 0.0
        else f"has {-whole.last_violation:.3g} to spare"
    )  # fmt: skip
    return (
        "## The margin this CMDP needs\n\n"
        "What the learner is drawn to is the saddle point, V_d = alpha + eps_t - tau_t lambda*_t: safe where the "
        f"margin covers tau_t lambda*_t. With margin_scale = {margin_scale:g} the saddle point of episode "
        f"{T:,} {last}. "
        f"{_least(whole, 'from the first episode on')} {_least(late, f'from episode {max(T // 10, 1):,} on')} "
        "This is the least: it leaves nothing for the errors of learning."
    )


def _least(cover: Cover, when: str) -> str:
    if cover.margin_scale is None:
        return f"No margin scale up to 1 keeps it safe {when}."
    if cover.margin_scale == 0.0:
        return f"It is safe {when} without any margin."
    return (
        f"The least margin_scale that keeps it safe {when} is {cover.margin_scale:.3g} "
        f"(a margin of {cover.coefficient:.3g} t^(-1/6) at the end, lambda* being {cover.multiplier:.3g})."
    )


def _theorem2(cmdp: CMDP, problem: Problem) -> str:
    multiplier = float(solve(cmdp).multipliers.max())
    wanted = zero_violation_margin(problem, 0.1**3, 0.1, math.ceil(0.1**-4 * math.log(10))) / 0.1
    return (
        "## Theorem 2, the last iterate of a known model\n\n"
        "With eta = epsilon^3, tau = epsilon and a margin c epsilon, after about epsilon^(-4) log(1/epsilon) steps the "
        "last policy has a gap of the order of epsilon and no violation. For epsilon = 0.1 that is "
        f"{math.ceil(0.1**-4 * math.log(10)):,} steps. The theorem wants c larger than a sum of constants in which C "
        f"appears: {wanted:.3g} for epsilon = 0.1, a margin of {0.1 * wanted:.3g} where half the Slater gap is "
        f"{0.5 * problem.slater_gap:.3g}. At the saddle point c > lambda* = {multiplier:.3g} is enough."
    )
