"""What a program-solving learner has seen: dense counts, with the checks of a file that brings them back.

The arrays are those of :class:`flexdome.learners.programs.kernels.Records`. Memory is H S A S numbers, so these
learners are for thousands of (s, a) pairs, not for millions.
"""

from __future__ import annotations

import numpy as np

from flexdome.certificates import Seen
from flexdome.cmdp import Problem
from flexdome.errors import ValidationError
from flexdome.learners.programs.kernels import Records
from flexdome.learners.state import EXACT, LARGEST_SUM, StateReader

__all__ = ["make_records", "restore_records", "seen_of"]

MOST_COUNTS = 2**27  # numbers: a gigabyte of counts
WHOLE = ("n_visits", "n_next", "missing", "alpha_count", "new_visits", "limit")


def make_records(problem: Problem) -> Records:
    """Nothing seen yet."""
    H, S, A, m = problem.horizon, problem.states, problem.actions, problem.constraints
    if H * S * A * S > MOST_COUNTS:
        raise ValidationError(
            f"the problem has H S A S = {H} x {S} x {A} x {S} transitions; this learner counts at most {MOST_COUNTS}"
        )
    cells, both = (H, S, A), (1 + m, H, S, A)
    return Records(
        n_visits=np.zeros(cells),
        n_next=np.zeros((*cells, S)),
        sums=np.zeros(both),
        missing=np.zeros(both),
        alpha_sum=np.zeros(m),
        alpha_count=np.zeros(m),
        new_visits=np.zeros(cells),
        new_sums=np.zeros(both),
        new_returns=np.zeros(both),
        limit=np.ones(cells),
    )


def restore_records(records: Records, reader: StateReader, episode: int) -> Records:
    """The records of a file, in which every count agrees with every other; ``records`` has the shapes."""
    high = {"n_visits": EXACT, "n_next": EXACT, "alpha_count": EXACT, "new_visits": EXACT, "limit": EXACT}
    low = {"alpha_sum": -LARGEST_SUM}
    taken = Records(
        **{
            name: reader.take(name, array.shape, low.get(name, 0.0), high.get(name, LARGEST_SUM), whole=name in WHOLE)
            if name != "missing" or reader.has(name)  # a file has it where a sample was missing
            else np.zeros_like(array)
            for name, array in records._asdict().items()
        }
    )
    n = taken.n_visits
    H = n.shape[0]
    each_step = n.sum(axis=(1, 2))
    if (each_step != each_step[0]).any() or each_step[0] < episode:
        raise ValidationError(
            f"state.n_visits counts {each_step.min():.0f} to {each_step.max():.0f} visits in a step; "
            f"every step must have one in each of at least {episode} episodes"
        )
    if (taken.n_next[:-1].sum(axis=-1) != n[:-1]).any() or taken.n_next[-1].any():
        raise ValidationError("state.n_next does not count one next state for each visit")
    if (taken.n_next[:-1].sum(axis=(1, 2)) != n[1:].sum(axis=2)).any():
        raise ValidationError("state.n_next does not lead to each state as often as it was visited")
    if (taken.new_visits > n).any():
        raise ValidationError("state.new_visits exceeds the number of visits")
    if (taken.missing > n).any() or taken.missing[0].any():
        raise ValidationError("state.missing exceeds the number of visits")
    for name, sums, visits in (("sums", taken.sums, n - taken.missing), ("new_sums", taken.new_sums, taken.new_visits)):
        if (sums > visits).any():
            raise ValidationError(f"state.{name} exceeds the number of visits")
    if (taken.new_returns > H * taken.new_visits).any():
        raise ValidationError("state.new_returns exceeds H times the number of visits")
    if (taken.alpha_count > H * each_step[0]).any():
        raise ValidationError("state.alpha_count exceeds the number of steps")
    return taken


def seen_of(problem: Problem, records: Records) -> Seen:
    """What was counted, as certificates take it."""
    r, H = records, problem.horizon
    missing = r.missing if r.missing.any() else None
    return Seen(r.n_visits, r.sums, r.n_next, r.alpha_sum / H, r.alpha_count / H, int(r.n_visits[0].sum()), missing)
