"""Policies that are evaluated together have the bits of each by itself."""

from __future__ import annotations

import numpy as np
import pytest

import flexdome as fd
from flexdome.kernels.bellman import evaluate_policies
from flexdome.kernels.jit import kernel
from flexdome.kernels.together import TOGETHER, evaluate_together, propagate_together, propagate_together_plain
from flexdome.simulation.runners import base
from runs import same_history, small_cmdp


@kernel
def propagated(p, row, K, x, at, n, y):
    """The intrinsic, callable."""
    propagate_together(p, row, K, x, at, n, y)


@pytest.mark.parametrize("n", [0, 1, 3, 4, 5, 11])
def test_masses_go_along_rows_as_in_the_plain_twin(n):
    rng = np.random.default_rng(n)
    K = 7
    p, x, y = rng.random(13 * K), rng.random(14 * TOGETHER), rng.random(K * TOGETHER)
    plain = y.copy()
    propagate_together_plain(p, 1, K, x, 2, n, plain)
    propagated(p, 1, K, x, 2, n, y)
    assert (y == plain).all()


@pytest.mark.parametrize(("S", "A", "stationary"), [(5, 3, False), (9, 4, True), (1, 1, False)])
def test_each_policy_has_the_value_that_it_has_alone(S, A, stationary):
    rng = np.random.default_rng(S)
    H = 3
    p = rng.dirichlet(np.ones(S), size=(1 if stationary else H, S, A))
    f, mu = rng.random((3, H, S, A)), rng.dirichlet(np.ones(S))
    policies = rng.dirichlet(np.ones(A), size=(TOGETHER, H, S))
    alone, together = np.zeros((TOGETHER, 3)), np.ones((TOGETHER, 3))
    evaluate_policies(p, np.zeros((0, 0, 0, 0), dtype=np.int32), mu, f, policies, alone, np.zeros((2, S)))
    work = np.zeros((2, S * TOGETHER)), np.zeros(S * A * TOGETHER)
    evaluate_together(p, f, mu, policies.reshape(TOGETHER, -1), together, *work)
    assert (alone == together).all()


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("every", [1, 3])
def test_a_history_does_not_show_that_policies_were_evaluated_together(every, masked, monkeypatch):
    cmdp = small_cmdp(S=5, A=3, H=3, masked=masked)
    histories = []
    for large in (base.LARGE, 1):
        monkeypatch.setattr(base, "LARGE", large)
        learner = fd.FlexDOME(cmdp.problem(), episodes=45)
        first = fd.simulate(learner, cmdp, episodes=21, seed=4, evaluate_every=every)
        histories.append(first + fd.simulate(learner, cmdp, seed=4, evaluate_every=every))
    assert same_history(*histories)
    assert np.isfinite(histories[1].reward_gap).all()
