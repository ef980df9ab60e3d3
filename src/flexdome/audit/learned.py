"""The statements about learning: estimation errors, the success event, the potential of a run that learns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from flexdome.audit.findings import Finding, Series, counted, judged
from flexdome.audit.instrument import EVENTS, Record
from flexdome.cmdp.model import CMDP
from flexdome.cmdp.problem import Problem
from flexdome.cmdp.validation import Float
from flexdome.simulation.history import Snapshot
from flexdome.theory import (
    composite_bound,
    contraction,
    discrepancy_bound,
    discrepancy_bound_complete,
    dual_side,
    estimation_bounds,
    potential_path,
    step_error,
    step_weights,
)
from flexdome.theory.schedules import Schedules

__all__ = [
    "Watched",
    "discrepancies",
    "estimation_findings",
    "event_findings",
    "learning_findings",
    "statistical_findings",
]

NAMES = {
    "thresholds": "F^alpha: thresholds",
    "rewards": "F^r: rewards",
    "utilities": "F^d: utilities",
    "transitions": "F^p: transitions",
    "visits": "F^N: visits",
}


@dataclass(frozen=True)
class Watched:
    """An instrumented run of T episodes, with what its learner was told and where it stood in some of them."""

    label: str
    cmdp: CMDP
    problem: Problem
    schedules: Schedules
    delta: float
    record: Record
    multipliers: Float
    snapshots: dict[int, Snapshot]

    @property
    def episodes(self) -> int:
        """T."""
        return int(self.record.over_cap.size)


def discrepancies(run: Watched, thresholds: bool = True) -> Float:
    """(T,) delta_t of Lemma "Bound on cumulative estimation discrepancies"; Lemma 1's own has no ``thresholds``.

    (V^_r - V_r) + sum_i lam_i (V^_i - V_i) + tau (V^_psi - V_psi) + (4H/Xi) sum_i (V^_i - V_i)
    + sum_i lam_i |alpha^_i - alpha_i|
    """
    error = run.record.estimated - run.record.true
    lam = run.multipliers.T
    _, tau, _ = run.schedules.table(1, run.episodes, run.problem.constraints)
    utilities = error[:, 1:-1]
    total = error[:, 0] + ((lam + dual_side(run.problem)) * utilities).sum(axis=1) + tau * error[:, -1]
    if thresholds:
        total = total + (lam * np.nan_to_num(run.record.alpha_error)).sum(axis=1)
    return np.asarray(total)


def estimation_findings(runs: Sequence[Watched], setting: str) -> list[Finding]:
    """The bounds on sums of errors, as means over the first T' episodes, so that H is the trivial level."""
    first = runs[0]
    H, A, m = first.problem.horizon, first.problem.actions, first.problem.constraints
    at = np.unique(np.geomspace(1, first.episodes, 60).astype(np.int64))

    def mean(errors: Float) -> Float:
        return np.asarray(np.cumsum(errors)[at - 1] / at)

    def bounds(run: Watched, which: int) -> Float:
        found = [estimation_bounds(run.problem, int(n), run.episodes, run.delta)[which] for n in at]
        return np.array(found) / at

    place = 'appendix D, Lemma "Bound on the estimation error"'
    rows = [("reward", 0, 0, float(H)), ("entropy", -1, 2, H * np.log(A))]
    rows[1:1] = [("utility" if m == 1 else f"utility {i}", 1 + i, 1, float(H)) for i in range(m)]
    found = []
    for name, column, which, trivial in rows:
        series = [
            Series(run.label, at, mean((run.record.estimated - run.record.true)[:, column]), bounds(run, which))
            for run in runs
        ]
        found.append(judged(f"estimation-{name.replace(' ', '-')}", f"estimation error, {name}", place, setting, series,
                            trivial, "means over the first episodes", "mean error of the estimate"))  # fmt: skip
    found.append(_optimism(runs, setting))
    trivial = H * (1.0 + 2.0 * m * dual_side(first.problem) + np.log(A))
    for key, text, bound, note in (
        ("discrepancy", "sum of delta_t, leading term as published", discrepancy_bound, "C_B without the entropy"),
        ("discrepancy-complete", "sum of delta_t, nothing hidden", discrepancy_bound_complete, "a sum of the lemma's"),
    ):
        series = [
            Series(run.label, at, mean(discrepancies(run)),
                   np.array([bound(run.problem, int(n), run.episodes, run.delta) for n in at]) / at)
            for run in runs
        ]  # fmt: skip
        place = 'appendix D, Lemma "Bound on cumulative estimation discrepancies"'
        found.append(judged(key, text, place, setting, series, trivial, note, "mean of $\\delta_t$"))
    found += [_caps(runs, setting), _q_bounds(runs, setting), _identity(runs, setting)]
    return found


def _optimism(runs: Sequence[Watched], setting: str) -> Finding:
    """V^ >= V in every episode."""
    t = np.arange(1, runs[0].episodes + 1)
    series = [
        Series(run.label, t, (run.record.true - run.record.estimated)[:, :-1].max(axis=1), np.zeros(t.size))
        for run in runs
    ]
    return judged("optimism", "optimism: no estimated reward or utility is below the true one", "used in appendix D",
                  setting, series, None, "what the success event is for", "truth less estimate")  # fmt: skip


def _caps(runs: Sequence[Watched], setting: str) -> Finding:
    t = np.arange(1, runs[0].episodes + 1)
    series = [Series(run.label, t, run.record.over_cap, np.ones(t.size)) for run in runs]
    most = composite_bound(runs[0].problem, 1.0) / runs[0].problem.horizon
    return judged("truncated-composite", "\"Q^_y <= H - h + 1 by definition\"", "appendix D, after the Q-value bounds",
                  setting, series, None, f"its parts are truncated, not their sum: up to {most:.3g} (H - h + 1)",
                  "largest $\\hat Q_y / (H - h + 1)$")  # fmt: skip


def _q_bounds(runs: Sequence[Watched], setting: str) -> Finding:
    t = np.arange(1, runs[0].episodes + 1)
    series = [Series(run.label, t, run.record.over_bound, np.zeros(t.size)) for run in runs]
    return judged("truncated-q-bound", "Q^_y <= C_0 - tau log pi(a | s)", "appendix D", setting, series, None,
                  "true all the same, of the sum of the truncated parts", "$\\hat Q_y$ less its bound")  # fmt: skip


def _identity(runs: Sequence[Watched], setting: str) -> Finding:
    series = [Series(run.label, np.array([1]), np.array([run.record.identity]), np.array([1e-9])) for run in runs]
    return judged("value-difference", "the value-difference decomposition", "appendix B", setting, series, None,
                  "an identity: what is off is rounding", "error of the identity", rounding=0.0)  # fmt: skip


def learning_findings(runs: Sequence[Watched], setting: str) -> list[Finding]:
    """Lemma 1's one step for the learner itself, with delta_t as measured; either definition of it."""
    series: dict[bool, list[Series]] = {True: [], False: []}
    for run in runs:
        t = np.array([k for k in sorted(run.snapshots) if k + 1 in run.snapshots and k < run.episodes])
        if not t.size:
            continue
        path = potential_path(run.cmdp, run.snapshots, run.schedules, dual_side(run.problem))
        phi = dict(zip(path.t.tolist(), path.total.tolist(), strict=True))
        eta, tau, _ = (x[t - 1] for x in run.schedules.table(1, run.episodes, run.problem.constraints))
        for thresholds, found in series.items():
            delta = discrepancies(run, thresholds)[t - 1]
            right = [
                contraction(phi[int(k)], float(e), float(w), step_error(run.problem, float(e), float(w)), float(x))
                for k, e, w, x in zip(t, eta, tau, delta, strict=True)
            ]
            found.append(Series(run.label, t, np.array([phi[int(k) + 1] for k in t]), np.array(right)))
    if not series[True]:
        return []
    level = 0.5 / runs[0].problem.horizon
    return [
        judged(key, f"Lemma 1 while learning: one step, {text}", "Lemma 1", setting, series[thresholds], level,
               "with measured delta_t", "potential after the step")
        for key, text, thresholds in (
            ("lemma-1-learning", "delta_t with the thresholds", True),
            ("lemma-1-learning-published", "delta_t as in Lemma 1, without them", False),
        )
    ]  # fmt: skip


def statistical_findings(runs: Sequence[Watched], setting: str) -> list[Finding]:
    """|Y_t| <= 2 eta_t B(t) (Lemma "Bound on the statistical error"), and that its weights rise."""
    first, series, weights = runs[0], [], []
    at = np.unique(np.geomspace(2, first.episodes, 40).astype(np.int64))
    for run in runs:
        eta, tau, _ = run.schedules.table(1, run.episodes, run.problem.constraints)
        delta = discrepancies(run)
        left = [abs(float(step_weights(eta[:n], tau[:n]) @ delta[:n])) for n in at]
        right = [
            2.0 * eta[n - 1] * discrepancy_bound_complete(run.problem, int(n), run.episodes, run.delta) for n in at
        ]
        series.append(Series(run.label, at, np.array(left), np.array(right)))
    eta, tau, _ = first.schedules.table(1, first.episodes, first.problem.constraints)
    f = step_weights(eta, tau)
    weights = [Series("schedules", np.arange(1, f.size), f[:-1] / f[1:], np.ones(f.size - 1))]
    place = 'appendix D, Lemma "Bound on the statistical error"'
    return [
        judged("statistical", "|Y_t| <= 2 eta_t B(t)", place, setting, series, 0.5 / first.problem.horizon,
               "with measured delta_t", "statistical part of the potential"),
        judged("monotone-weights", "the weights f_{t,j} rise in j", place, "Theorem 1's schedules", weights, None,
               "summation by parts needs it; two of the terms have the other sign", "$f_{t,j} / f_{t,j+1}$"),
    ]  # fmt: skip


def event_findings(runs: Sequence[Watched], setting: str) -> list[Finding]:
    """The five failure events, over the runs; each is claimed to have probability at most delta' = delta / 4."""
    allowed = runs[0].delta / 4.0
    found = []
    for name in EVENTS:
        if name == "thresholds" and runs[0].problem.thresholds_known:
            continue
        failures = [run.record.first_failure.get(name) for run in runs]
        worst = max(run.record.worst[name] for run in runs)
        note = f"largest error over width {worst:.3g}" if name != "visits" else ""
        found.append(counted(f"event-{name}", f"success event, {NAMES[name]}", "appendix D, Lemma \"Success event\"",
                             setting, failures, allowed, note))  # fmt: skip
    return found
