"""Claimed exponents against fitted ones, Lemma 2 along runs that learn, and the rates that are numbers only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from flexdome.analysis import growth_exponent, near_constant
from flexdome.audit.findings import Finding, Series, Word, judged, numbered
from flexdome.cmdp.problem import Problem
from flexdome.cmdp.validation import Float
from flexdome.simulation.history import History
from flexdome.theory import (
    OPTIMISATION_CONSTANT,
    PotentialPath,
    initial_decay,
    optimisation_sums,
    regret_bound_start,
    regret_terms,
    reward_bound,
    violation_bound,
    violation_bound_start,
    violation_terms,
)
from flexdome.theory.schedules import Schedules

__all__ = ["Learned", "exponent_findings", "learned_lemma2_findings", "rate_findings", "theorem_findings"]

LOG10 = math.log(10.0)
REGRET, VIOLATION = 5.0 / 6.0, 0.1  # claimed; an exponent below 0.1 counts as near-constant, as in analysis.verdicts


@dataclass(frozen=True)
class Learned:
    """A run of FlexDOME as everybody runs it, with its potential at some episodes."""

    label: str
    problem: Problem
    schedules: Schedules
    history: History
    path: PotentialPath


def exponent_findings(runs: Sequence[Learned], setting: str) -> list[Finding]:
    """T^(5/6) and O~(1): the fitted exponents with their intervals.

    A regret fails where the lower end of its interval is above 5/6. O~ hides logarithms, and one of them looks like an
    exponent of 1 / log T: the note says whether that much would explain it. A violation is near-constant or not by the
    rule of :mod:`flexdome.analysis`.
    """
    found = []
    for key, name, claim, text in (
        ("exponent-regret", "strong_regret", REGRET, "strong regret grows as T^(5/6) at most"),
        ("exponent-violation", "strong_violation", VIOLATION, "strong violation is near-constant"),
    ):
        curves = np.stack([getattr(run.history, name) for run in runs])
        fitted = growth_exponent(curves)
        T, place = curves.shape[1], "Theorem 1"
        t = np.unique(np.geomspace(max(T / 16, 1), T, 50).astype(np.int64))
        series = tuple(Series(run.label, t, row[t - 1], row[-1] * (t / T) ** (claim if claim > 0.5 else 0.0))
                       for run, row in zip(runs, curves, strict=True) if row[-1] > 0.0)  # fmt: skip
        level = float(curves[:, -1].mean())
        end = f"{numbered(len(runs), 'run')}, T = {T:,}: {level:.3g} at the end"
        late = curves[:, -1] - curves[:, max(T // 10 - 1, 0)]
        if name == "strong_violation":
            grows = not near_constant(level, float(late.mean()), fitted)
            flat = sum(
                near_constant(float(total), float(rest), None) for total, rest in zip(curves[:, -1], late, strict=True)
            )
            end += f", near-constant in {flat} of {len(runs)}"
        else:
            least = -math.inf if fitted is None else fitted.value if fitted.low is None else fitted.low
            grows, logarithm = least > claim, claim + 1.0 / math.log(max(T, 3))
            if grows:
                end += f", {'within' if least <= logarithm else 'above'} {logarithm:.2f}, which one logarithm explains"
        excess = -claim if fitted is None else fitted.value - claim
        note = f"{end}, no growth to fit" if fitted is None else f"{end}, fitted exponent {fitted}"
        word: Word = "fails" if grows else "holds"
        found.append(Finding(key, text, place, setting, word, len(runs), excess, note=note,
                             axis=name.replace("_", " "), series=series))  # fmt: skip
    return found


def learned_lemma2_findings(runs: Sequence[Learned], setting: str) -> list[Finding]:
    """Lemma 2 where the policies are learned, at the episodes whose margin is at most half the Slater gap."""
    H, sides = runs[0].problem.horizon, {"reward": [], "violation": []}  # type: ignore[var-annotated]
    for run in runs:
        tables = [run.schedules.table(int(k), 1, run.problem.constraints) for k in run.path.t]
        tau, margin = np.array([x[1][0] for x in tables]), np.array([x[2][0].max() for x in tables])
        at = np.flatnonzero(margin <= 0.5 * run.problem.slater_gap)
        if not at.size:
            continue
        t, phi = run.path.t[at], run.path.total[at]
        rows = list(zip(phi.tolist(), tau[at].tolist(), margin[at].tolist(), strict=True))
        gap, short = run.history.reward_gap[t - 1], run.history.violation[:, t - 1].max(axis=0)
        for key, left, bound in (("reward", gap, reward_bound), ("violation", short, violation_bound)):
            right = np.array([bound(run.problem, *row) for row in rows])
            sides[key].append(Series(run.label, t, np.maximum(left, 0.0), right))
    if not sides["reward"]:
        return []
    return [
        judged(f"learned-lemma-2-{key}", f"Lemma 2, {key}, while learning", "Lemma 2", setting, sides[key], H, "",
               f"positive {'reward gap' if key == 'reward' else 'violation'}")
        for key in ("reward", "violation")
    ]  # fmt: skip


def rate_findings(episodes: int) -> list[Finding]:
    """Lemmas "init decay" and "bound b and c": numbers only, the same for every CMDP."""
    t = np.arange(1, episodes + 1)
    at = np.unique(np.geomspace(1, episodes, 60).astype(np.int64))
    sums: Float = optimisation_sums(t ** (-5.0 / 6.0), t ** (-1.0 / 6.0))[at - 1]
    late = at >= episodes / 100
    slopes = [float(np.polyfit(np.log(at[late]), np.log(x[late]), 1)[0]) for x in (initial_decay(at), np.sqrt(sums))]
    ends, K_X = math.exp(-0.5 * np.euler_gamma), OPTIMISATION_CONSTANT
    x = at.astype(np.float64)
    rates: dict[str, Float] = {"initial": ends * np.power(x, -1 / 2), "steps": K_X * np.power(x, -2 / 3)}
    place = "Section 4.4"
    return [
        judged("init-decay", "exp(-sum eta tau / 2) = Theta(t^(-1/2))", place, "Theorem 1's schedules",
               [Series("schedules", at, initial_decay(at), rates["initial"])], None,
               f"fitted exponent {slopes[0]:.3f}; between 0.607 and 0.749 times t^(-1/2)", "initial term"),
        judged("optimisation-rate", "X_t = Theta(t^(-2/3)), at most 7 2^(2/3) t^(-2/3)", place, "Theorem 1's schedules",
               [Series("schedules", at, sums, rates["steps"])], None,
               f"fitted exponent of its root {slopes[1]:.3f}; the constant is 3, not 11.1, in the end", "$X_t$"),
    ]  # fmt: skip


def theorem_findings(problem: Problem, delta: float, episodes: int, setting: str) -> list[Finding]:
    """Theorem 1's bounds on strong regret and violation at T, as means over episodes."""
    H, log_T = float(problem.horizon), math.log(episodes)
    found = []
    for key, what, terms, begins in (
        ("theorem-1", "regret", regret_terms(problem, log_T, delta).total, regret_bound_start(problem, delta)),
        ("theorem-1-violation", "violation", violation_terms(problem, log_T, delta).total,
         violation_bound_start(problem, delta)),
    ):  # fmt: skip
        right = math.exp(min(terms - log_T, 700.0))
        series = [Series("bound", np.array([episodes]), np.array([H]), np.array([right]))]
        note = f"log10 of the bound {terms / LOG10:.1f}, of T H {math.log10(episodes * H):.1f}; below it from T = "
        note += f"10^{begins / LOG10:.1f} on"
        found.append(judged(key, f"Theorem 1's {what} bound at T = {episodes:,}", "appendix E", setting, series, H,
                            note, f"{what} for each episode"))  # fmt: skip
    return found
