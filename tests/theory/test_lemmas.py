"""The statements about policies, on random models: twenty or more instances each, against slow sums."""

import numpy as np
import pytest
from tests import naive

import flexdome as fd
from flexdome import theory as th

INSTANCES = range(20)


def model(seed, m=1, S=5, A=3, H=4):
    p, f, mu = naive.random_cmdp_arrays(seed, S=S, A=A, H=H, m=m)
    rng = np.random.default_rng([7, seed])
    safest = max(naive.evaluate(p, f, mu, naive.random_policy(rng, H, S, A))[1:].min() for _ in range(30))
    return fd.CMDP(p, f[0], f[1:], np.full(m, 0.9 * safest), mu), rng


def pair(cmdp, rng):
    policy = naive.random_policy(rng, cmdp.horizon, cmdp.states, cmdp.actions)
    return policy, rng.random(cmdp.constraints)


def slow_potential(cmdp, policy, lam, point):
    reached, total = cmdp.initial.copy(), 0.0
    for h in range(cmdp.horizon):
        for s in range(cmdp.states):
            star, pi = point.policy[h, s], policy[h, s]
            total += reached[s] * sum(a * np.log(a / b) for a, b in zip(star, pi, strict=True))
        reached = np.einsum("s,sa,sat->t", reached, point.policy[h], cmdp.transitions[h])
    return total + 0.5 * sum((point.multipliers - lam) ** 2)


@pytest.mark.parametrize("seed", INSTANCES)
def test_the_potential_is_the_sum_of_section_4_3(seed):
    cmdp, rng = model(seed, m=1 + seed % 2)
    policy, lam = pair(cmdp, rng)
    point = fd.saddle_point(cmdp, 0.2, 0.01)
    assert th.potential(cmdp, policy, lam, point).total == pytest.approx(slow_potential(cmdp, policy, lam, point))


@pytest.mark.parametrize("seed", INSTANCES)
def test_a_warm_start_finds_the_same_saddle_point(seed):
    cmdp, rng = model(seed, m=1 + seed % 3)
    cold = fd.saddle_point(cmdp, 0.05, 0.02)
    for start in (cold.multipliers, rng.random(cmdp.constraints) * 50.0, np.zeros(cmdp.constraints)):
        warm = fd.saddle_point(cmdp, 0.05, 0.02, start=start)
        np.testing.assert_allclose(warm.multipliers, cold.multipliers, atol=1e-8)
        np.testing.assert_allclose(warm.policy, cold.policy, atol=1e-7)


def test_a_start_of_another_shape_is_refused():
    with pytest.raises(fd.ValidationError, match=r"start has shape \(2,\); it must be \(1,\)"):
        fd.saddle_point(fd.make_cmdp("media-v1"), 0.1, start=[1.0, 2.0])


def test_two_hundred_potentials_of_the_papers_size_are_those_of_cold_saddle_points():
    cmdp = fd.make_cmdp("paper-v1")
    schedules = th.theorem1(cmdp.problem(), margin_scale=5e-5)
    grid = np.unique(np.geomspace(1, 4000, 240).astype(int))[-200:]
    run = fd.iterate(cmdp, schedules, 4000, snapshots=grid)
    path = th.potential_path(cmdp, run.snapshots, schedules)
    assert path.t.tolist() == sorted(set(grid.tolist()))
    assert max(point.residual for point in path.points) < 1e-9
    k = 150
    cold = fd.saddle_point(cmdp, float(path.t[k]) ** (-1 / 6), float(schedules.margin(float(path.t[k]))))
    there = run.snapshots[int(path.t[k])]
    slow = slow_potential(cmdp, there.policy, there.multipliers, cold)
    assert path.total[k] == pytest.approx(slow, rel=1e-6, abs=1e-12)


def test_iterates_stop_for_snapshots_and_go_on_as_if_they_had_not():
    cmdp = fd.make_cmdp("oscillator-v1")
    schedules = th.theorem2(0.2)
    plain, kept = fd.iterate(cmdp, schedules, 50), fd.iterate(cmdp, schedules, 50, snapshots=(1, 20, 51, 20))
    assert plain.policy.tobytes() == kept.policy.tobytes()
    assert plain.multipliers.tobytes() == kept.multipliers.tobytes()
    assert sorted(kept.snapshots) == [1, 20, 51]
    assert (kept.snapshots[51].policy == kept.policy).all()
    assert kept.snapshots[20].multipliers == kept.multipliers[:, 19]
    part = fd.iterate(cmdp, schedules, 19)
    assert (kept.snapshots[20].policy == part.policy).all()
    with pytest.raises(fd.ValidationError, match=r"snapshots\[0\] is 52"):
        fd.iterate(cmdp, schedules, 50, snapshots=(52,))


@pytest.mark.parametrize("bad", [{}, None, 3])
def test_a_path_of_nothing_is_refused(bad):
    with pytest.raises(fd.ValidationError, match="snapshots is"):
        th.potential_path(fd.make_cmdp("media-v1"), bad, th.theorem2(0.1))


@pytest.mark.parametrize("seed", INSTANCES)
def test_the_value_difference_decomposes_whatever_the_estimate_is(seed):
    cmdp, rng = model(seed)
    (target, _), (policy, _) = pair(cmdp, rng), pair(cmdp, rng)
    payoff, q = rng.random(policy.shape), 3.0 * rng.normal(size=policy.shape)
    parts = th.value_difference(cmdp, target, policy, payoff, q)
    value = [naive.evaluate(cmdp.transitions, payoff[None], cmdp.initial, pi)[0] for pi in (target, policy)]
    assert sum(parts) == pytest.approx(value[0] - value[1], abs=1e-12)
    estimate = cmdp.initial @ (q[0] * policy[0]).sum(axis=-1)
    assert parts.estimation == pytest.approx(estimate - value[1], abs=1e-12)


@pytest.mark.parametrize("seed", INSTANCES)
def test_a_mirror_step_gains_no_more_than_the_lemma_says(seed):
    rng = np.random.default_rng(seed)
    x, star = rng.dirichlet(np.full(4, 0.3), size=(2, 50))
    gain, eta = 5.0 * rng.random((50, 4)), float(rng.random() + 0.01)
    step = th.mirror_step(x, gain, eta, star)
    slow = x * np.exp(eta * gain)
    np.testing.assert_allclose(step.next, slow / slow.sum(axis=1, keepdims=True), rtol=1e-12)
    right = [
        (
            sum(s * np.log(s / a) for s, a in zip(t, b, strict=True))
            - sum(s * np.log(s / a) for s, a in zip(t, c, strict=True))
        )
        / eta
        + eta / 2 * sum(slow[k] * gain[k] ** 2)
        for k, (t, b, c) in enumerate(zip(star, x, step.next, strict=True))
    ]
    np.testing.assert_allclose(step.right, right, rtol=1e-9, atol=1e-9)
    assert (step.left <= step.right + 1e-12).all()


def test_a_mirror_step_is_for_gains_that_are_not_negative():
    with pytest.raises(fd.ValidationError, match="gain has the value -1"):
        th.mirror_step([0.5, 0.5], [-1.0, 1.0], 0.1, [0.5, 0.5])


@pytest.mark.parametrize("seed", INSTANCES)
def test_the_margins_mixture_is_safe_with_the_margin_to_spare(seed):
    cmdp, _ = model(seed, m=1 + seed % 2)
    gap = fd.slater_gap(cmdp)
    best = fd.solve(cmdp)
    for part in (0.0, 0.3, 1.0):
        value = fd.evaluate(cmdp, th.margin_mixture(cmdp, part * gap))
        assert (value.utilities >= cmdp.alpha + part * gap - 1e-7).all()
        assert value.value >= best.value - part * cmdp.horizon - 1e-9
    with pytest.raises(fd.ValidationError, match="no policy has more to spare"):
        th.margin_mixture(cmdp, 1.01 * gap)


@pytest.mark.parametrize("seed", INSTANCES)
def test_the_bound_on_the_multipliers_holds(seed):
    cmdp, _ = model(seed, m=1 + seed % 2)
    problem = cmdp.problem()
    for tau in (1.0, 0.3, 0.05):
        for part in (0.0, 0.4, 0.8):
            margin = part * problem.slater_gap
            point = fd.saddle_point(cmdp, tau, margin, dual_bound=1e6)
            assert point.multipliers.sum() <= th.dual_optimum_bound(problem, tau, margin) + 1e-9


@pytest.mark.parametrize("seed", INSTANCES)
def test_the_saddle_point_moves_no_further_than_its_bounds(seed):
    cmdp, _ = model(seed, m=1 + seed % 2)
    problem, schedules = cmdp.problem(), th.theorem1(cmdp.problem(), margin_scale=1e-5)
    for t in (1, 5, 50, 1000):
        run = fd.iterate(cmdp, schedules, t, snapshots=(t + 1,))
        (_, tau, eps), (before, after) = (
            schedules.table(t, 2, cmdp.constraints),
            th.saddle_path(cmdp, schedules, [t, t + 1]),
        )
        taus, margins = (float(tau[0]), float(tau[1])), (eps[0], eps[1])
        moved = np.linalg.norm(after.multipliers - before.multipliers)
        assert moved <= th.multiplier_drift_bound(problem, taus, margins, before.multipliers)
        there = run.snapshots[t + 1]
        drift = [th.potential(cmdp, there.policy, there.multipliers, point).total for point in (before, after)]
        assert drift[1] - drift[0] <= th.potential_drift_bound(problem, taus, margins, before.multipliers)


@pytest.mark.parametrize("seed", INSTANCES)
def test_entropy_to_go_and_values_are_within_their_bounds(seed):
    cmdp, rng = model(seed)
    problem, (policy, lam) = cmdp.problem(), pair(cmdp, rng)
    lam, tau = lam * th.dual_side(problem), 0.7
    psi = -np.log(policy)
    parts = {"psi": psi, "y": cmdp.rewards + lam[0] * cmdp.utilities[0] + tau * psi}
    q = {}
    for name, payoff in parts.items():
        v, rows = np.zeros(cmdp.states), []
        for h in reversed(range(cmdp.horizon)):
            rows.append(payoff[h] + cmdp.transitions[h] @ v)
            v = (policy[h] * rows[-1]).sum(axis=1)
        q[name] = np.array(rows[::-1])
    assert (q["psi"] <= th.entropy_to_go_bound(cmdp.horizon, cmdp.actions, policy)).all()
    assert (q["y"] >= 0).all()
    assert (q["y"] <= th.q_bound(problem, tau, policy)).all()
    for eta in (0.01, 0.3, 0.5 / tau):
        total = (policy * np.exp(eta * q["y"]) * q["y"] ** 2).sum(axis=-1)
        assert np.log(total).max() <= th.log_primal_constant(problem, eta, tau)
