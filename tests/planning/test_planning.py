"""What is true of a known model, checked against slow twins, closed forms and duality."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flexdome as fd
import naive
from flexdome.cmdp.model import Model
from flexdome.planning.decomposition import best_mixture, greedy
from flexdome.planning.lp import flow_matrix

sizes = st.tuples(st.integers(1, 6), st.integers(1, 4), st.integers(1, 5), st.integers(1, 4))
seeds = st.integers(0, 2**32 - 1)


def random_cmdp(seed, size, slack=0.3):
    """A random CMDP whose thresholds leave room: ``slack`` of the way between a policy and the safest mix."""
    S, A, H, m = size
    p, f, mu = naive.random_cmdp_arrays(seed, S, A, H, m)
    rng = np.random.default_rng([seed, 1])
    free = fd.CMDP(p, f[0], f[1:], np.zeros(m), mu)
    careful = [policy for policy, _ in fd.baselines(free).safest]
    reachable = fd.evaluate(free, fd.mix(free, careful, np.full(m, 1 / m))).utilities
    ordinary = fd.evaluate(free, naive.random_policy(rng, H, S, A)).utilities
    alpha = np.clip(np.minimum((1 - slack) * reachable + slack * ordinary, reachable), 0, H)
    return fd.CMDP(p, f[0], f[1:], alpha, mu)


def as_sparse(cmdp):
    """The same model as successor lists, in a shuffled order."""
    H, S, A = cmdp.rewards.shape
    order = np.random.default_rng(0).permutation(S)
    nxt = np.broadcast_to(order, (H, S, A, S))
    p = cmdp.transitions[..., order]
    return fd.CMDP.from_successors(nxt, p, cmdp.rewards, cmdp.utilities, cmdp.thresholds, cmdp.initial)


@given(seeds, sizes)
@settings(max_examples=40, deadline=None)
def test_evaluation_equals_the_slow_backward_twin(seed, size):
    S, A, H, m = size
    p, f, mu = naive.random_cmdp_arrays(seed, S, A, H, m)
    cmdp = fd.CMDP(p, f[0], f[1:], np.zeros(m), mu)
    pi = naive.random_policy(np.random.default_rng(seed), H, S, A)
    truth = naive.evaluate(p, f, mu, pi)
    got = fd.evaluate(cmdp, pi)
    np.testing.assert_allclose(np.append(got.value, got.utilities), truth, atol=1e-12)


def test_a_batch_of_policies_gives_the_values_of_each():
    cmdp = fd.make_cmdp("multi-v1")
    rng = np.random.default_rng(0)
    policies = np.array([naive.random_policy(rng, 5, 20, 5) for _ in range(7)])
    batch = fd.evaluate(cmdp, policies)
    assert batch.value.shape == (7,)
    assert batch.utilities.shape == (7, 3)
    for k, policy in enumerate(policies):
        one = fd.evaluate(cmdp, policy)
        assert one.value == batch.value[k]
        assert (one.utilities == batch.utilities[k]).all()


@given(seeds, sizes)
@settings(max_examples=40, deadline=None)
def test_occupancy_conserves_mass_and_obeys_the_flow(seed, size):
    S, A, H, _m = size
    cmdp = random_cmdp(seed, size)
    pi = naive.random_policy(np.random.default_rng(seed), H, S, A)
    x = fd.occupancy(cmdp, pi)
    assert (x >= 0).all()
    np.testing.assert_allclose(x.sum(axis=(1, 2)), 1.0, atol=1e-12)
    start = np.concatenate([cmdp.initial, np.zeros((H - 1) * S)])
    np.testing.assert_allclose(flow_matrix(cmdp.model) @ x.ravel(), start, atol=1e-12)
    np.testing.assert_allclose((x * cmdp.rewards).sum(), fd.evaluate(cmdp, pi).value, atol=1e-12)


@given(seeds, sizes)
@settings(max_examples=40, deadline=None)
def test_values_stay_between_the_worst_and_the_best(seed, size):
    S, A, H, _m = size
    cmdp = random_cmdp(seed, size)
    ends = fd.baselines(cmdp)
    pi = naive.random_policy(np.random.default_rng(seed), H, S, A)
    value = fd.evaluate(cmdp, pi).value
    assert 0 <= ends.worst[1].value <= value + 1e-12
    assert value <= ends.best[1].value + 1e-12 <= H + 1e-9
    assert ends.best[1].value == pytest.approx(
        naive.best_value(cmdp.transitions, cmdp.rewards, cmdp.initial), abs=1e-12
    )


@given(seeds, sizes)
@settings(max_examples=60, deadline=None)
def test_decomposition_and_occupancy_program_agree(seed, size):
    cmdp = random_cmdp(seed, size)
    mine, textbook = fd.solve(cmdp), fd.solve(cmdp, method="lp")
    assert mine.value == pytest.approx(textbook.value, abs=1e-8)
    assert mine.slater_gap == pytest.approx(textbook.slater_gap, abs=1e-8)
    assert mine.duality_gap <= 1e-8
    assert (mine.slack >= -1e-9).all()


@given(seeds, sizes)
@settings(max_examples=40, deadline=None)
def test_the_optimum_is_certified_by_its_own_multipliers(seed, size):
    cmdp = random_cmdp(seed, size)
    best = fd.solve(cmdp)
    lam = best.multipliers
    assert (lam >= 0).all()
    lagrangian = cmdp.rewards + np.einsum("i,ihsa->hsa", lam, cmdp.utilities)
    dual = naive.best_value(cmdp.transitions, lagrangian, cmdp.initial) - lam @ cmdp.alpha
    assert dual == pytest.approx(best.value, abs=1e-8)
    assert abs(lam @ best.slack) <= 1e-7 * (1 + lam.max())  # complementary slackness


@given(seeds, sizes)
@settings(max_examples=30, deadline=None)
def test_sparse_and_dense_forms_give_the_same_numbers(seed, size):
    S, A, H, _m = size
    dense = random_cmdp(seed, size)
    sparse = as_sparse(dense)
    pi = naive.random_policy(np.random.default_rng(seed), H, S, A)
    np.testing.assert_allclose(fd.occupancy(sparse, pi), fd.occupancy(dense, pi), atol=1e-13)
    assert fd.evaluate(sparse, pi).value == pytest.approx(fd.evaluate(dense, pi).value, abs=1e-12)
    assert fd.solve(sparse).value == pytest.approx(fd.solve(dense).value, abs=1e-9)
    assert fd.solve(sparse, "lp").value == pytest.approx(fd.solve(dense).value, abs=1e-8)
    tau = 0.1
    bound = 5.0
    assert fd.saddle_point(sparse, tau, dual_bound=bound).value == pytest.approx(
        fd.saddle_point(dense, tau, dual_bound=bound).value, abs=1e-10
    )


def test_the_ring_is_solved_by_hand():
    # Six steps in a ring of three states: a move earns (s + 1) / 3 and costs 1, at most three moves. One full
    # round earns 1/3 + 2/3 + 1 = 2; the fourth move would earn 1/3, six moves 4.
    best = fd.solve(fd.make_cmdp("factored-v1"))
    assert best.value == pytest.approx(2.0, abs=1e-12)
    assert best.slater_gap == pytest.approx(3.0, abs=1e-12)


def test_a_single_step_is_a_mixture_solved_by_hand():
    # One state, one step: action 0 earns 1 with utility 0, action 1 earns 0 with utility 1, threshold 0.3.
    cmdp = fd.CMDP(np.ones((1, 1, 2, 1)), [[[1.0, 0.0]]], [[[[0.0, 1.0]]]], [0.3], 0)
    best = fd.solve(cmdp)
    assert best.value == pytest.approx(0.7, abs=1e-12)
    np.testing.assert_allclose(best.policy[0, 0], [0.7, 0.3], atol=1e-12)
    np.testing.assert_allclose(best.multipliers, [1.0], atol=1e-9)
    assert best.slater_gap == pytest.approx(0.7, abs=1e-12)


def test_slack_constraints_have_no_multiplier():
    cmdp = fd.CMDP(np.ones((1, 1, 2, 1)), [[[1.0, 0.0]]], [[[[0.5, 1.0]]]], [0.3], 0)
    best = fd.solve(cmdp)
    assert best.value == 1.0
    assert best.multipliers.tolist() == [0.0]
    assert best.slack.tolist() == pytest.approx([0.2])


def test_the_paper_family_has_multiplier_one_because_reward_and_utility_mirror_each_other():
    best = fd.solve(fd.make_cmdp("paper-v1", seed=3))
    np.testing.assert_allclose(best.multipliers, [1.0], atol=1e-9)
    assert best.value + best.utilities[0] == pytest.approx(5.0, abs=1e-12)


def test_a_threshold_out_of_reach_is_named_with_its_shortfall():
    cmdp = fd.CMDP(np.ones((1, 1, 2, 1)), [[[1.0, 0.0]]], [[[[0.0, 0.5]]]], [0.7], 0)
    for method in ("decomposition", "lp"):
        with pytest.raises(fd.InfeasibleError, match=r"thresholds\[0\] = 0.7 cannot be met: .* at least 0.2") as e:
            fd.solve(cmdp, method)
        assert e.value.constraints == (0,)
        assert e.value.shortfall == pytest.approx(0.2, abs=1e-9)


def test_thresholds_that_cannot_be_met_together_are_named():
    # Utilities 0 and 2 exclude each other; utility 1 is free.
    d = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]).reshape(3, 1, 1, 2)
    cmdp = fd.CMDP(np.ones((1, 1, 2, 1)), np.zeros((1, 1, 2)), d, [0.6, 0.5, 0.7], 0)
    for method in ("decomposition", "lp"):
        with pytest.raises(fd.InfeasibleError, match="together") as e:
            fd.solve(cmdp, method)
        assert e.value.constraints == (0, 2)
        assert e.value.shortfall == pytest.approx(0.15, abs=1e-9)


def test_a_problem_without_any_slack_is_still_solved():
    # The threshold is the largest utility there is; two policies attain it and the better one must be found.
    d = np.array([[[[1.0, 1.0, 0.0]]]])
    cmdp = fd.CMDP(np.ones((1, 1, 3, 1)), [[[0.2, 0.4, 1.0]]], d, [1.0], 0)
    best = fd.solve(cmdp)
    assert best.value == pytest.approx(0.4, abs=1e-8)
    assert best.slater_gap == pytest.approx(0.0, abs=1e-12)


def test_solutions_are_kept_on_the_cmdp():
    cmdp = fd.make_cmdp("media-v1")
    assert fd.solve(cmdp) is fd.solve(cmdp)
    assert fd.solve(cmdp) is not fd.solve(cmdp, "lp")


def test_solvers_take_real_rewards_and_rows_that_lose_mass():
    rng = np.random.default_rng(5)
    p, f, mu = naive.random_cmdp_arrays(5, 6, 3, 5, 2)
    lossy = p * rng.uniform(0.5, 1.0, size=p.shape[:3])[..., None]
    lossy[0, :3] = 0.0
    model = Model(lossy, np.zeros((1, 1, 1, 0), dtype=np.int32), 4.0 * f - 2.0, mu)
    careful = greedy(model, np.array([0.0, 1.0, 1.0]))[1]
    best, slack = best_mixture(model, careful[1:] - 0.4)
    from flexdome.planning.optimum import solve_model

    textbook = solve_model(model, careful[1:] - 0.4, "lp")
    assert best.value == pytest.approx(textbook.value, abs=1e-8)
    assert slack.value == pytest.approx(textbook.slater_gap, abs=1e-8)


@given(seeds, st.integers(1, 5), st.sampled_from([1.0, 0.1, 0.01, 0.001]))
@settings(max_examples=40, deadline=None)
def test_saddle_points_meet_their_first_order_conditions(seed, m, tau):
    cmdp = random_cmdp(seed, (4, 3, 4, m))
    if fd.slater_gap(cmdp) < 1e-3:
        return
    point = fd.saddle_point(cmdp, tau, margin=0.01)
    assert point.residual <= 1e-10
    bound = 4 * cmdp.horizon / fd.slater_gap(cmdp)
    gradient = point.utilities - 0.01 - cmdp.alpha + tau * point.multipliers
    interior = (point.multipliers > 0) & (point.multipliers < bound)
    np.testing.assert_allclose(gradient[interior], 0.0, atol=1e-9)
    assert (gradient[point.multipliers == 0] >= -1e-9).all()
    assert point.value == pytest.approx(
        naive.regularised_lagrangian(cmdp, point.policy, point.multipliers, tau, 0.01), abs=1e-9
    )


@given(seeds, st.integers(1, 3), st.sampled_from([1.0, 0.1, 0.02]))
@settings(max_examples=30, deadline=None)
def test_saddle_point_inequalities_hold_against_any_policy_and_multiplier(seed, m, tau):
    # Lemma "Saddle point inequalities" of Zuo et al. 2026.
    cmdp = random_cmdp(seed, (4, 3, 3, m))
    bound, eps = 6.0, 0.02
    point = fd.saddle_point(cmdp, tau, margin=eps, dual_bound=bound)
    rng = np.random.default_rng(seed)
    for _ in range(5):
        pi = naive.random_policy(rng, 3, 4, 3)
        lam = rng.uniform(0, bound, m)
        centre = naive.regularised_lagrangian(cmdp, point.policy, point.multipliers, tau, eps)
        assert naive.regularised_lagrangian(cmdp, pi, point.multipliers, tau, eps) <= centre + 1e-9
        assert centre <= naive.regularised_lagrangian(cmdp, point.policy, lam, tau, eps) + 1e-9


def test_the_regularised_optimum_sits_at_margin_minus_tau_times_multiplier():
    cmdp = fd.make_cmdp("independent-v1")
    point = fd.saddle_point(cmdp, 0.05, margin=0.1)
    np.testing.assert_allclose(point.utilities, cmdp.alpha + 0.1 - 0.05 * point.multipliers, atol=1e-9)


def test_saddle_points_approach_the_constrained_optimum():
    cmdp = fd.make_cmdp("independent-v1", seed=2)
    best = fd.solve(cmdp)
    gaps = [abs(fd.saddle_point(cmdp, tau).reward - best.value) for tau in (1e-1, 1e-2, 1e-3, 1e-4)]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[-1] < 1e-3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tau": 0.0}, "tau is 0.0; it must be positive"),
        ({"tau": -1.0}, "tau"),
        ({"tau": float("nan")}, "tau"),
        ({"tau": 0.1, "margin": [0.1, 0.2]}, r"margin has shape \(2,\)"),
        ({"tau": 0.1, "dual_bound": -2.0}, "dual_bound"),
    ],
)
def test_bad_saddle_point_arguments_are_refused(arguments, message):
    with pytest.raises(fd.ValidationError, match=message):
        fd.saddle_point(fd.make_cmdp("oscillator-v1"), **arguments)


def test_a_safe_policy_keeps_the_slack_it_was_asked_for():
    cmdp = fd.make_cmdp("multi-v1")
    gap = fd.slater_gap(cmdp)
    safe = fd.safe_policy(cmdp, 0.5 * gap)
    assert (safe.utilities >= cmdp.alpha + 0.5 * gap - 1e-9).all()
    np.testing.assert_allclose(fd.evaluate(cmdp, safe.policy).utilities, safe.utilities, atol=1e-12)
    with pytest.raises(fd.InfeasibleError):
        fd.safe_policy(cmdp, 1.01 * gap)


@given(seeds, sizes)
@settings(max_examples=25, deadline=None)
def test_a_mixture_and_its_markov_policy_have_the_same_values(seed, size):
    S, A, H, _m = size
    cmdp = random_cmdp(seed, size)
    rng = np.random.default_rng(seed)
    policies = np.array([naive.random_policy(rng, H, S, A) for _ in range(3)])
    weights = rng.dirichlet(np.ones(3))
    mixed = fd.evaluate(cmdp, fd.mix(cmdp, policies, weights))
    each = fd.evaluate(cmdp, policies)
    assert mixed.value == pytest.approx(weights @ each.value, abs=1e-12)
    np.testing.assert_allclose(mixed.utilities, weights @ each.utilities, atol=1e-12)


def test_where_no_policy_of_a_mixture_comes_the_actions_are_mixed_by_weight():
    # Two states that stay where they are; episodes begin in the first.
    p = np.eye(2)[None, :, None].repeat(2, axis=2)
    cmdp = fd.CMDP(p, np.ones((1, 2, 2)), np.ones((1, 1, 2, 2)), [0.1], 0)
    one, other = np.array([[[1.0, 0.0], [0.75, 0.25]]]), np.array([[[0.0, 1.0], [0.25, 0.75]]])
    assert fd.mix(cmdp, [one, other], [0.25, 0.75]).tolist() == [[[0.25, 0.75], [0.375, 0.625]]]


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (np.full((5, 20, 4), 0.25), r"policy has shape \(5, 20, 4\); it must be \(5, 20, 5\)"),
        (np.full((5, 20, 5), 0.3), r"policy\[0, 0\] sums to 1.5"),
        (np.full((5, 20, 5), np.nan), r"policy\[0, 0, 0\] is nan"),
        ("uniform", "policy has dtype"),
    ],
)
def test_bad_policies_are_refused(policy, message):
    cmdp = fd.make_cmdp("paper-v1")
    with pytest.raises(fd.ValidationError, match=message):
        fd.evaluate(cmdp, policy)


def test_a_saddle_point_between_two_constraints_is_found_from_the_box_itself():
    # A Newton step clipped to the box afterwards goes round in circles here.
    cmdp = fd.CMDP(np.ones((1, 1, 3, 1)), [[[0.5, 0.5, 0.25]]], [[[[1, 0.25, 0.25]]], [[[1, 0, 0.5]]]], [0.75, 0.75], 0)
    point = fd.saddle_point(cmdp, 0.02)
    assert point.residual <= 1e-10
    np.testing.assert_allclose(point.multipliers, [0.0, 0.0219], atol=1e-4)


@pytest.mark.slow
def test_a_saddle_point_out_of_reach_of_rounding_is_an_error():
    with pytest.raises(fd.ConvergenceError, match="tau"):
        fd.saddle_point(fd.make_cmdp("paper-v1"), 1e-300)


@pytest.mark.parametrize("seed", [30, 34, 47, 50])
def test_both_methods_find_the_best_of_the_safest_policies_where_there_is_no_slack(seed):
    cmdp = fd.make_cmdp("conflict-v1", seed=seed)
    highest = fd.baselines(cmdp).safest[0][1].utilities
    tight = fd.CMDP(cmdp.transitions, cmdp.rewards, cmdp.utilities, highest, cmdp.initial)
    mine, textbook = fd.solve(tight), fd.solve(tight, "lp")
    assert mine.value == pytest.approx(textbook.value, abs=1e-6)
    assert mine.slack[0] >= -1e-12
    assert abs(mine.duality_gap) <= 1e-8


def test_more_actions_than_fit_into_sixteen_bits_are_told_apart():
    rewards, utilities = np.zeros((1, 1, 40_000)), np.zeros((1, 1, 1, 40_000))
    rewards[..., -1], utilities[..., 0] = 1.0, 1.0
    cmdp = fd.CMDP(np.ones((1, 1, 40_000, 1)), rewards, utilities, [0.5], 0)
    assert fd.baselines(cmdp).best[1].value == 1.0
    assert fd.solve(cmdp).value == pytest.approx(0.5, abs=1e-12)


def test_an_infeasible_set_is_the_smallest_one():
    # Utility 0 alone cannot reach 0.6; that 1 stands in its way does not matter.
    d = np.array([[0.5, 0.0], [0.0, 1.0]]).reshape(2, 1, 1, 2)
    cmdp = fd.CMDP(np.ones((1, 1, 2, 1)), np.zeros((1, 1, 2)), d, [0.6, 0.5], 0)
    for method in ("decomposition", "lp"):
        with pytest.raises(fd.InfeasibleError) as e:
            fd.solve(cmdp, method)
        assert e.value.constraints == (0,)
        assert e.value.shortfall == pytest.approx(0.1, abs=1e-9)


def test_feasibility_is_judged_at_the_scale_of_the_utilities():
    cmdp = fd.CMDP(np.ones((1, 1, 1, 1)), [[[1.0]]], [[[[1e-9]]]], [2e-9], 0)
    for method in ("decomposition", "lp"):
        with pytest.raises(fd.InfeasibleError):
            fd.solve(cmdp, method)


@pytest.mark.parametrize("function", [fd.solve, fd.slater_gap, fd.baselines, lambda c: fd.safe_policy(c, 0.0)])
def test_what_is_not_a_cmdp_is_refused(function):
    with pytest.raises(fd.ValidationError, match="cmdp is a str; it must be a CMDP"):
        function("paper-v1")


def test_a_safe_policy_that_does_not_exist_is_refused_in_terms_of_the_slack():
    with pytest.raises(fd.InfeasibleError, match="with a slack of 100 added"):
        fd.safe_policy(fd.make_cmdp("media-v1"), 100)


def test_an_unknown_method_is_refused():
    with pytest.raises(fd.ValidationError, match="decomposition"):
        fd.solve(fd.make_cmdp("media-v1"), "simplex")


def test_a_large_sparse_model_is_solved_without_becoming_dense():
    cmdp = fd.make_cmdp("garnet-v1", states=5_000, actions=4, horizon=10, successors=5)
    best = fd.solve(cmdp)
    assert cmdp.is_sparse
    assert best.duality_gap <= 1e-8
    assert best.slack.min() >= -1e-9
