"""The chance constraint, against every trajectory of a small CMDP."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import flexdome as fd
from runs import small_cmdp


def reaching(cmdp: fd.CMDP, policy: np.ndarray, i: int, level: float) -> float:
    """P(sum of utility i >= level), by walking every trajectory; ``policy`` does not look at the sum."""
    p = np.broadcast_to(cmdp.to_dense().transitions, (cmdp.horizon, cmdp.states, cmdp.actions, cmdp.states))
    d = cmdp.utilities[i]
    total = 0.0
    H, S, A = policy.shape
    outcomes = (0, 1) if cmdp.noise == "bernoulli" else (None,)
    for s0 in np.flatnonzero(cmdp.initial):
        walks = [(float(cmdp.initial[s0]), int(s0), 0.0)]
        for h in range(H):
            walks = [
                (
                    w * policy[h, s, a] * p[h, s, a, n] * (1.0 if o is None else d[h, s, a] if o else 1 - d[h, s, a]),
                    n,
                    c + (d[h, s, a] if o is None else o),
                )
                for w, s, c in walks
                for a, n, o in itertools.product(range(A), range(S), outcomes)
                if w > 0.0
            ]
        total += sum(w for w, _, c in walks if c >= level - 1e-12)
    return total


@pytest.mark.parametrize("noise", ["none", "bernoulli"])
@pytest.mark.parametrize("sparse", [False, True])
def test_the_utility_is_the_probability_that_the_sum_reaches_the_level(noise: str, sparse: bool) -> None:
    cmdp = small_cmdp(S=3, A=2, H=3, m=2, noise=noise, sparse=sparse, initial=[0.5, 0.0, 0.5])
    cmdp = fd.CMDP(  # utilities in tenths, so that nothing is lost by counting
        cmdp.to_dense().transitions, cmdp.rewards, np.round(cmdp.utilities, 1), cmdp.alpha, cmdp.initial, noise=noise
    )
    policy = np.random.default_rng(0).dirichlet(np.ones(2), size=(3, 3))
    for level in (1.0, 1.5, 2.0):
        bins = None if noise == "bernoulli" else round(10 * level)
        each = fd.chance_constraint(cmdp, 0.7, constraint=1, level=level, bins=bins)
        B = each.states // 3 - 1
        told = fd.evaluate(each, np.repeat(policy, B + 1, axis=1))
        true = fd.evaluate(cmdp, policy)
        assert told.utilities[1] == pytest.approx(reaching(cmdp, policy, 1, level), abs=1e-12)
        assert told.utilities[0] == pytest.approx(true.utilities[0], abs=1e-12)
        assert told.value == pytest.approx(true.value, abs=1e-12)
        assert each.alpha[1] == 0.7
        assert each.alpha[0] == cmdp.alpha[0]


def test_counting_in_coarse_units_is_on_the_safe_side_and_finer_ones_lose_less() -> None:
    cmdp = small_cmdp(S=3, A=2, H=3)
    policy = np.full((3, 3, 2), 0.5)
    true = reaching(cmdp, policy, 0, 1.2)
    told = []
    for bins in (3, 30, 3000):
        each = fd.chance_constraint(cmdp, 0.5, level=1.2, bins=bins)
        told.append(fd.evaluate(each, np.repeat(policy, bins + 1, axis=1)).utilities[0])
    assert told[0] <= told[1] <= told[2] <= true + 1e-12
    assert told[2] == pytest.approx(true, abs=1e-3)


def test_the_best_policy_looks_at_the_sum() -> None:
    cmdp = fd.make_cmdp("inventory-v1")
    each = fd.chance_constraint(cmdp, 0.9, bins=35)
    best = fd.solve(each)
    assert best.utilities[0] >= 0.9 - 1e-9
    assert best.value <= fd.baselines(cmdp).best[1].value + 1e-9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"probability": 1.5}, "probability is 1.5; it must"),
        ({"probability": "often"}, "probability is 'often'"),
        ({"constraint": 1}, "constraint is 1; it must"),
        ({"level": 0.0}, "level is 0.0; it must be positive"),
        ({"level": 9.0}, "level is 9.0; it must"),
        ({"bins": 0}, "bins is 0; it must"),
        ({"bins": 2**20}, "bins is 1048576; it must"),
    ],
)
def test_what_cannot_be_asked_is_refused(options: dict[str, Any], message: str) -> None:
    cmdp = small_cmdp(S=3, A=2, H=3)
    given = {"probability": 0.9, **options}
    with pytest.raises(fd.ValidationError, match=message):
        fd.chance_constraint(cmdp, **given)


def test_units_are_not_for_draws() -> None:
    with pytest.raises(fd.ValidationError, match="bins is 5; with 0/1 observations"):
        fd.chance_constraint(small_cmdp(S=3, A=2, H=3, noise="bernoulli"), 0.9, bins=5)
