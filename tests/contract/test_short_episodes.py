"""Episodes that end early: telling the steps that happened is the same bits as simulate, which plays on in the end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flexdome as fd
from flexdome.simulation.played import played_arrays

S, A, H, END = 4, 2, 4, 3


def plant() -> fd.CMDP:
    """States 0 to 2, and an end that is absorbing, earns and costs nothing, and has one action alone."""
    rng = np.random.default_rng(2)
    p = rng.dirichlet(np.ones(S), size=(H, S, A))
    p[:, END] = np.eye(S)[END]
    r, c = rng.random((H, S, A)), rng.integers(0, 5, size=(1, H, S, A)) / 8.0  # so that 1 - (1 - c) is c
    r[:, END], c[:, :, END] = 0.0, 0.0
    allowed = np.ones((H, S, A), dtype=bool)
    allowed[:, END, 1] = False
    return fd.CMDP.from_costs(p, r, c, [1.5], 0, allowed=allowed)


CMDP = plant()
COST = fd.Quantity("cost", 0.0, 1.0, limit=1.5)
TOLD = fd.Problem(S, A, H, 0, subject_to=[COST], slater_gap=0.1, allowed=CMDP.allowed, end=END)


def made(id: str) -> Any:
    safe = {"safe_policy": fd.safe_policy(CMDP, 0.2)} if "safe policy" in fd.LEARNERS[id].needs else {}
    return fd.make_learner(id, TOLD, episodes=40, **safe)


@pytest.mark.parametrize("id", list(fd.LEARNERS))
def test_what_happened_is_enough(id: str) -> None:
    one, other, short = made(id), made(id), 0
    for t in range(12):
        s, a, r, d, _ = played_arrays("n", CMDP, one.policy, 1, 9, t + 1)
        ended = np.flatnonzero(s[0][:H] == END)
        n = int(ended[0]) if ended.size else H
        short += n < H
        # As a plant would tell it: costs as they were measured, and no step after the end.
        told = fd.Episode(s[0][:n], a[0][:n], r[0][:n], 1.0 - d[0][:, :n])
        one.observe(told)
    assert short >= 3
    fd.simulate(other, CMDP, episodes=12, seed=9)
    assert (one.policy == other.policy).all()
    assert (one.multipliers == other.multipliers).all()
    assert (one.visits == other.visits).all()
