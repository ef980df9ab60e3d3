"""The iteration on a known model: its twin, its fixed point, and the last-iterate theorem on small instances."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flexdome as fd
from runs import Observed, small_cmdp
from strategies import cmdps

INSTANCES = {
    "oscillator": fd.make_cmdp("oscillator-v1", horizon=4),
    "random": small_cmdp(3, S=4, A=2, H=3, fraction=1.1),
    "two constraints": small_cmdp(5, S=4, A=3, H=3, m=2, fraction=1.05),
}


def twin(cmdp: fd.CMDP, schedules: fd.Schedules, n: int, bound: float) -> tuple[np.ndarray, ...]:
    """The same steps in NumPy: values (n, 1 + m), multipliers (n, m), the last policy and multipliers."""
    p, (H, S, A), m = cmdp.to_dense().transitions, cmdp.rewards.shape, cmdp.constraints
    p = np.broadcast_to(p, (H, S, A, S))
    log_pi, lam = np.full((H, S, A), -np.log(A)), np.zeros(m)
    values, multipliers = [], []
    for eta, tau, eps in zip(*schedules.table(1, n, m), strict=True):
        pi = np.exp(log_pi)
        f = np.concatenate([cmdp.rewards[None], cmdp.utilities, -log_pi[None]])
        Q, V = np.empty_like(f), np.zeros((2 + m, S))
        for h in reversed(range(H)):
            Q[:, h] = f[:, h] + np.einsum("sat,jt->jsa", p[h], V)
            V = np.einsum("sa,jsa->js", pi[h], Q[:, h])
        v = V @ cmdp.initial
        values.append(v[:-1])
        multipliers.append(lam)
        logits = log_pi + eta * (Q[0] + np.tensordot(lam, Q[1:-1], 1) + tau * Q[-1])
        logits -= logits.max(axis=-1, keepdims=True)
        log_pi = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
        lam = np.clip((1 - eta * tau) * lam - eta * (v[1:-1] - eps - cmdp.alpha), 0.0, bound)
    return np.array(values), np.array(multipliers), np.exp(log_pi), lam


def assert_same(path: Any, cmdp: fd.CMDP, schedules: fd.Schedules, n: int, bound: float) -> None:
    values, multipliers, policy, lam = twin(cmdp, schedules, n, bound)
    best = fd.solve(cmdp).value
    np.testing.assert_allclose(path.reward_gap, best - values[:, 0], atol=1e-10)
    np.testing.assert_allclose(path.violation, (cmdp.alpha - values[:, 1:]).T, atol=1e-10)
    np.testing.assert_allclose(path.multipliers, multipliers.T, atol=1e-10)
    np.testing.assert_allclose(path.policy, policy, atol=1e-10)
    np.testing.assert_allclose(path.final_multipliers, lam, atol=1e-10)


# -- the twin -------------------------------------------------------------------------------------------

SCHEDULES = {
    "Theorem 1": fd.Schedules(lambda t: t ** (-5 / 6), lambda t: t ** (-1 / 6), lambda t: 0.3 * t ** (-1 / 6)),
    "Theorem 2": fd.theory.theorem2(0.3, c_eta=3.0),
    "no regularisation": fd.Schedules(0.3, 0.0, 0.1),
    "a negative margin": fd.Schedules(0.3, 0.3, -0.2),
}


@pytest.mark.parametrize("schedules", SCHEDULES)
@pytest.mark.parametrize("instance", INSTANCES)
def test_the_iteration_equals_its_twin(instance: str, schedules: str) -> None:
    cmdp = INSTANCES[instance]
    path = fd.iterate(cmdp, SCHEDULES[schedules], 60, dual_bound=2.0)
    assert_same(path, cmdp, SCHEDULES[schedules], 60, 2.0)


@pytest.mark.parametrize(
    "options", [{"A": 1}, {"S": 1}, {"H": 1}, {"sparse": True}, {"stationary": True}, {"m": 4}, {"S": 19}], ids=str
)
def test_the_iteration_equals_its_twin_on_every_kind_of_model(options: dict[str, Any]) -> None:
    cmdp = small_cmdp(1, **options)
    schedules = SCHEDULES["Theorem 1"]
    assert_same(fd.iterate(cmdp, schedules, 40, dual_bound=1.5), cmdp, schedules, 40, 1.5)


@settings(max_examples=25)
@given(cmdp=cmdps(laws=True), eta=st.floats(0.0, 1.0), tau=st.floats(0.0, 1.0), bound=st.floats(0.0, 5.0))
def test_the_iteration_equals_its_twin_on_any_cmdp(cmdp: fd.CMDP, eta: float, tau: float, bound: float) -> None:
    schedules = fd.Schedules(eta, tau, 0.1)
    assert_same(fd.iterate(cmdp, schedules, 15, dual_bound=bound), cmdp, schedules, 15, bound)


# -- what comes back ------------------------------------------------------------------------------------


def test_the_trajectory_starts_from_the_uniform_policy_and_zero() -> None:
    cmdp = INSTANCES["two constraints"]
    path = fd.iterate(cmdp, SCHEDULES["Theorem 2"], 5)
    uniform = fd.evaluate(cmdp, np.full((3, 4, 3), 1 / 3))
    assert path.reward_gap[0] == pytest.approx(fd.solve(cmdp).value - uniform.value, abs=1e-12)
    np.testing.assert_allclose(path.violation[:, 0], cmdp.alpha - uniform.utilities, atol=1e-12)
    assert (path.multipliers[:, 0] == 0).all()
    assert (path.reward_gap.shape, path.violation.shape, path.multipliers.shape) == ((5,), (2, 5), (2, 5))


def test_the_last_policy_is_the_one_that_a_longer_run_meets_next() -> None:
    cmdp, schedules = INSTANCES["random"], SCHEDULES["Theorem 1"]
    short, long = fd.iterate(cmdp, schedules, 30), fd.iterate(cmdp, schedules, 31)
    assert short.final_gap == pytest.approx(long.reward_gap[30], abs=1e-12)
    np.testing.assert_allclose(short.final_violation, long.violation[:, 30], atol=1e-12)
    assert (short.final_multipliers == long.multipliers[:, 30]).all()
    assert (short.reward_gap == long.reward_gap[:30]).all()
    np.testing.assert_allclose(short.policy.sum(axis=-1), 1.0, atol=1e-14)


def test_the_dual_box_is_four_times_the_horizon_over_the_slater_gap() -> None:
    cmdp = INSTANCES["random"]
    path = fd.iterate(cmdp, fd.Schedules(0.5, 0.0, 100.0), 500)
    assert path.final_multipliers[0] == pytest.approx(4 * 3 / fd.slater_gap(cmdp), rel=1e-12)


@pytest.mark.parametrize("options", [{"A": 1}, {}], ids=str)
@pytest.mark.parametrize(
    "schedules", [fd.Schedules(1e100, 0.0, 1e100), fd.Schedules(1e-100, 1e100), fd.Schedules(0.5, 0.5, -1e100)]
)
def test_extreme_schedules_leave_neither_the_simplex_nor_the_box(schedules: Any, options: dict[str, Any]) -> None:
    path = fd.iterate(small_cmdp(**options), schedules, 200, dual_bound=1e100)
    for array in (path.reward_gap, path.violation, path.multipliers, path.policy):
        assert np.isfinite(array).all()
    np.testing.assert_allclose(path.policy.sum(axis=-1), 1.0, atol=1e-12)
    assert ((path.multipliers >= 0) & (path.multipliers <= 1e100)).all()


# -- the theorem ----------------------------------------------------------------------------------------


def last_iterate(cmdp: fd.CMDP, epsilon: float, c_tau: float = 1.0) -> Any:
    """eta = c eps^3, tau = c eps and a margin 1.5 times what the regularisation gives away, tau lam*."""
    lam = fd.solve(cmdp).multipliers.max()
    schedules = fd.theory.theorem2(epsilon, c_eta=20.0, c_tau=c_tau, c_margin=1.5 * lam * c_tau)
    return fd.iterate(cmdp, schedules, math.ceil(1.5 * epsilon**-4 / c_tau))


@pytest.mark.parametrize("c_tau", [0.5, 1.0])
@pytest.mark.parametrize("epsilon", [0.1, 0.05])
@pytest.mark.parametrize("instance", INSTANCES)
def test_the_last_iterate_is_safe_and_its_gap_of_the_order_of_epsilon(
    instance: str, epsilon: float, c_tau: float
) -> None:
    cmdp = INSTANCES[instance]
    lam = fd.solve(cmdp).multipliers
    path = last_iterate(cmdp, epsilon, c_tau)
    order = c_tau * (cmdp.horizon * np.log(cmdp.actions) + 1.5 * lam.max() * lam.sum())
    assert (path.final_violation < 0).all()
    assert (path.violation[:, -path.violation.shape[1] // 10 :] < 0).all()
    assert 0 < path.final_gap <= order * epsilon


@pytest.mark.parametrize("instance", INSTANCES)
def test_half_of_epsilon_is_about_half_of_the_gap(instance: str) -> None:
    gaps = [last_iterate(INSTANCES[instance], epsilon).final_gap for epsilon in (0.1, 0.05)]
    assert gaps[1] < 0.7 * gaps[0]


@pytest.mark.parametrize("instance", ["oscillator", "random"])
def test_without_a_margin_the_last_iterate_is_unsafe(instance: str) -> None:
    cmdp = INSTANCES[instance]
    path = fd.iterate(cmdp, fd.theory.theorem2(0.1, c_eta=20.0, c_margin=0.0), 15_000)
    assert path.final_violation[0] > 0


@pytest.mark.parametrize("margin", [0.0, 0.1])
@pytest.mark.parametrize("instance", INSTANCES)
def test_constant_schedules_end_at_the_regularised_saddle_point(instance: str, margin: float) -> None:
    cmdp = INSTANCES[instance]
    path = fd.iterate(cmdp, fd.Schedules(0.02, 0.1, margin), 40_000)
    point = fd.saddle_point(cmdp, 0.1, margin)
    np.testing.assert_allclose(path.policy, point.policy, atol=1e-7)
    np.testing.assert_allclose(path.final_multipliers, point.multipliers, atol=1e-7)
    reached = fd.solve(cmdp).value - point.reward
    assert path.final_gap == pytest.approx(reached, abs=1e-7)


def test_a_learner_with_much_data_and_no_bonus_runs_like_the_known_model() -> None:
    cmdp, schedules = small_cmdp(2, S=2, A=2, H=2, initial=np.array([0.5, 0.5])), fd.Schedules(0.1, 0.2, 0.1)
    log = Observed(fd.FlexDOME(cmdp.problem(), schedules=fd.Schedules(0.0, 0.0)))
    fd.simulate(log, cmdp, episodes=10_000, evaluate_every=10_000)
    learner = fd.FlexDOME(cmdp.problem(), bonus_scale=0.0, schedules=schedules, dual_bound=3.0)
    learner.preload(log.seen)
    fd.simulate(learner, cmdp, episodes=300)
    path = fd.iterate(cmdp, schedules, 300, dual_bound=3.0)
    np.testing.assert_allclose(learner.policy, path.policy, atol=0.03)
    np.testing.assert_allclose(learner.multipliers, path.final_multipliers, atol=0.03)


# -- refusals -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"iterations": 0}, "iterations is 0; it must be between 1 and 100000000"),
        ({"iterations": 2.5}, "iterations is 2.5; it must be a whole number"),
        ({"schedules": None}, "schedules is None; it must be a Schedules"),
        ({"schedules": fd.Schedules(0.1, -1.0)}, "tau at episode 1 is -1.0; it must lie in"),
        ({"dual_bound": -1.0}, "dual_bound is -1.0; it must be at least 0"),
        ({"dual_bound": math.inf}, "dual_bound is inf; it must be finite"),
    ],
    ids=str,
)
def test_an_argument_that_makes_no_sense_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(fd.ValidationError) as caught:
        fd.iterate(INSTANCES["random"], **{"schedules": fd.Schedules(0.1, 0.1), "iterations": 5, **arguments})
    assert message in str(caught.value)


def test_a_model_without_room_needs_a_dual_bound() -> None:
    cmdp = small_cmdp(A=1, fraction=1.0)  # one policy, which meets the threshold exactly
    with pytest.raises(fd.ValidationError, match=r"the Slater gap is .*; without one dual_bound must be given"):
        fd.iterate(cmdp, fd.Schedules(0.1, 0.1), 5)
    assert fd.iterate(cmdp, fd.Schedules(0.1, 0.1), 5, dual_bound=1.0).policy.shape == (4, 5, 1)


@pytest.mark.parametrize("iterations", [10**9 + 1, 10**18, 10**30])
def test_more_iterations_than_can_be_kept_are_refused(iterations: int) -> None:
    with pytest.raises(fd.ValidationError, match=r"iterations is .*; it must be between 1 and 100000000"):
        fd.iterate(small_cmdp(), SCHEDULES["Theorem 2"], iterations)


def test_a_trajectory_that_does_not_fit_in_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(fd.Schedules, "table", full)
    with pytest.raises(fd.ValidationError, match=r"iterations is 7; .* does not fit in memory"):
        fd.iterate(small_cmdp(), SCHEDULES["Theorem 2"], 7)
