"""How well means of threshold samples concentrate: the samples alone, for as many runs as one likes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from flexdome.audit.findings import Finding, counted
from flexdome.cmdp.model import CMDP
from flexdome.cmdp.problem import Problem
from flexdome.simulation.randomness import Randomness

__all__ = ["threshold_findings"]

CHUNK = 8192


def threshold_findings(
    cmdp: CMDP, problem: Problem, episodes: int, delta: float, seeds: Sequence[int], setting: str
) -> list[Finding]:
    """Both lemmas of appendix A, over run seeds: for one t (the last) and for all t at once."""
    if all(law.is_fixed for law in cmdp.thresholds):
        return []
    H, m, T = cmdp.horizon, cmdp.constraints, episodes
    t = np.arange(1, T + 1)
    one, union = (np.sqrt(H * math.log(x) / (2.0 * t)) for x in (2.0 / delta, 2.0 * m * T / delta))
    single: list[int | None] = []
    uniform: list[int | None] = []
    outside = 0
    for seed in seeds:
        draws = Randomness(cmdp, seed)
        parts = [draws.thresholds(first, min(CHUNK, T + 1 - first)) for first in range(1, T + 1, CHUNK)]
        samples = np.concatenate(parts)  # (T, m, H)
        outside += int(((samples < 0.0) | (samples > H)).sum())
        error = np.abs(np.cumsum(samples.sum(axis=2), axis=0) / (t[:, None] * H) - cmdp.alpha)
        single.append(T if bool((error[-1] > one[-1]).any()) else None)
        late = np.flatnonzero((error > union[:, None]).any(axis=1))
        uniform.append(int(t[late[0]]) if late.size else None)
    laws = ", ".join(
        sorted({f"{law.law}, one draw an {law.per}" if law.per == "episode" else law.law for law in cmdp.thresholds})
    )
    share = outside / (len(seeds) * T * m * H)
    note = f"samples: {laws}; {100 * share:.2g} % outside [0, H]"
    place = "appendix A"
    return [
        counted("threshold-one", f"concentration of thresholds at t = {T:,}", place, setting, single, delta * m, note),
        counted("threshold-all", "concentration of thresholds, all t at once", place, setting, uniform, delta, note),
    ]
