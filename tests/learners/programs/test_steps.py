"""Learners that move a step with every plan: projections, augmented Lagrangian, mirror descent, mixtures."""

import numpy as np
import pytest
from scipy.optimize import minimize
from test_programs import best_of, leaves, options_for, random_box, two_ways

import flexdome as fd
from flexdome.learners.programs.augmented import augmented_program
from flexdome.learners.programs.loop_free import LoopFreeSet
from flexdome.learners.programs.oracle import extended_program
from flexdome.learners.programs.projection import first_occupancy, project
from flexdome.learners.programs.transition_sets import TransitionSet
from naive_programs import corners, extended_policy_value, highest_occupancy


def small(seed=0, **sizes):
    return fd.make_cmdp("independent-v1", seed=seed, **{"states": 4, "actions": 2, "horizon": 3, **sizes})


def divergence(x, p, x0, p0):
    """Unnormalised KL of extended occupancies; the last step has no transitions."""
    total = float((x * np.log(np.where(x > 0, x / x0, 1.0)) - x + x0).sum())
    rows = np.where(p > 0, p * np.log(np.where(p > 0, p / p0, 1.0)), 0.0).sum(axis=-1)
    return total + float((x * rows)[:-1].sum())


def some_occupancy(rng, lo, up, mu):
    """An occupancy of the set: a random policy, and random mixtures of corners as transitions."""
    H, S, A, _ = lo.shape
    pi, x, p = rng.dirichlet(np.ones(A), size=(H, S)), np.zeros((H, S, A)), np.zeros((H, S, A, S))
    mass = mu
    for h in range(H):
        x[h] = mass[:, None] * pi[h]
        for s in range(S):
            for a in range(A):
                ends = corners(lo[h, s, a], up[h, s, a])
                p[h, s, a] = rng.dirichlet(np.ones(len(ends))) @ ends
        mass = np.einsum("sa,sak->k", x[h], p[h])
    return x, p


# -- the KL projection -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("constrained", [False, True])
@pytest.mark.parametrize("width", [0.05, 0.5])
@pytest.mark.parametrize("seed", range(3))
def test_the_projection_lies_in_the_set_and_obeys_pythagoras(seed, width, constrained):
    # KL(z, z~) >= KL(z, z*) + KL(z*, z~) for every z of a convex set holds for the projection z* and for it alone.
    transitions, lo, up, f, mu, rng = random_box(seed, width=width)
    H, S, A, _ = lo.shape
    start = first_occupancy(H, S, A, mu)
    log_x = np.log(start.x) - 2.0 * rng.random((H, S, A))
    free = project(transitions, log_x, start.p, mu)
    u, alpha = None, None
    if constrained:
        u = f[1:]
        alpha = np.array([(free.x * u[0]).sum() + 0.1])
    found = project(transitions, log_x, start.p, mu, u, alpha)
    x, p = found.x, found.p
    np.testing.assert_allclose(x[0].sum(axis=1), mu, atol=1e-9)
    for h in range(H - 1):
        np.testing.assert_allclose(x[h + 1].sum(axis=1), np.einsum("sa,sak->k", x[h], p[h]), atol=1e-9)
    assert (p[:-1] >= lo[:-1] - 1e-12).all()
    assert (p[:-1] <= up[:-1] + 1e-12).all()
    if constrained:
        assert (x * u[0]).sum() == pytest.approx(alpha[0], abs=1e-8)
        assert found.multipliers[0] > 0
    nearest = divergence(x, p, np.exp(log_x), start.p)
    tried = 0
    for _ in range(300):
        other, rows = some_occupancy(rng, lo, up, mu)
        if constrained and (other * u[0]).sum() < alpha[0]:
            continue
        tried += 1
        assert divergence(other, rows, np.exp(log_x), start.p) >= divergence(other, rows, x, p) + nearest - 1e-9
    assert tried >= 10


def test_the_projection_agrees_with_a_general_solver():
    # One state fewer than a general solver would need: S = A = H = 2, unknowns x_1, x_2 and p written out.
    transitions, lo, up, _, mu, rng = random_box(4, S=2, A=2, H=2, width=0.4)
    start = first_occupancy(2, 2, 2, mu)
    log_x = np.log(start.x) - rng.random((2, 2, 2))

    def unpack(y):
        pi = np.stack([y[:4], 1.0 - y[:4]], axis=-1).reshape(2, 2, 2)
        p = np.stack([y[4:], 1.0 - y[4:]], axis=-1).reshape(2, 2, 2)
        x = np.zeros((2, 2, 2))
        x[0] = mu[:, None] * pi[0]
        x[1] = np.einsum("sa,sak->k", x[0], p)[:, None] * pi[1]
        return x, np.stack([p, start.p[1]])

    bounds = [(1e-9, 1 - 1e-9)] * 4
    first, last = lo[0, ..., 0].ravel(), up[0, ..., 0].ravel()
    bounds += [(max(a, 1.0 - c), min(b, 1.0 - d)) for a, b, c, d in zip(first, last, up[0, ..., 1].ravel(), lo[0, ..., 1].ravel(), strict=True)]  # fmt: skip  # noqa: E501
    goal = lambda y: divergence(*unpack(y), np.exp(log_x), start.p)  # noqa: E731
    y0 = np.array([0.5 * (a + b) for a, b in bounds])
    slow = minimize(goal, y0, bounds=bounds, method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-10})
    found = project(transitions, log_x, start.p, mu)
    assert divergence(found.x, found.p, np.exp(log_x), start.p) == pytest.approx(slow.fun, abs=1e-7)
    np.testing.assert_allclose(found.x, unpack(slow.x)[0], atol=1e-4)


def test_the_projection_of_a_member_is_itself():
    transitions, lo, up, _, mu, rng = random_box(2)
    x, p = some_occupancy(rng, lo, up, mu)
    found = project(transitions, np.log(x), p, mu)
    np.testing.assert_allclose(found.x, x, atol=1e-9)


def test_long_steps_are_projected_too():
    transitions, lo, _, f, mu, rng = random_box(3, S=6, A=3, H=4)
    start = first_occupancy(4, 6, 3, mu)
    found = project(transitions, np.log(start.x) - 60.0 * rng.random((4, 6, 3)), start.p, mu)
    np.testing.assert_allclose(found.x.sum(axis=(1, 2)), 1.0, atol=1e-8)
    assert f is not None
    assert lo is not None


# -- OPTAUG ------------------------------------------------------------------------------------------------------------


def augmented_value(values, lam, alpha, eta):
    """The augmented Lagrangian at values (1 + m,)."""
    hinge = np.maximum(lam + eta * (alpha - values[1:]), 0.0)
    return float(values[0] - (hinge**2).sum() / (2.0 * eta))


@pytest.mark.parametrize("m", [1, 2])
@pytest.mark.parametrize("eta", [0.1, 1.0, 10.0])
def test_the_augmented_program_is_optimal_and_its_multipliers_are_the_next_ones(eta, m):
    transitions, _, _, f, mu, rng = random_box(1, m=m)
    lam, alpha = rng.random(m), np.full(m, 1.6)
    found = augmented_program(transitions, f, mu, lam, alpha, eta)
    after = np.maximum(lam + eta * (alpha - found.values[1:]), 0.0)
    np.testing.assert_allclose(found.multipliers, after, atol=1e-7 * max(eta, 1.0))
    # Concave in the values, so no better direction means optimal.
    best, _, _ = best_of(transitions, f, mu, np.append(1.0, after))
    assert best[0] + after @ best[1:] <= found.values[0] + after @ found.values[1:] + 1e-6
    np.testing.assert_allclose(np.einsum("jhsa,hsa->j", f, found.occupancy), found.values, atol=1e-9)
    for _ in range(20):
        w = rng.random(1 + m)
        other, _, _ = best_of(transitions, f, mu, w)
        assert augmented_value(other, lam, alpha, eta) <= augmented_value(found.values, lam, alpha, eta) + 1e-7


def test_with_a_growing_penalty_the_augmented_program_tends_to_optcmdp():
    transitions, _, _, f, mu, _ = random_box(0)
    alpha = np.array([1.8])
    hard = extended_program(transitions, f, mu, alpha)
    gaps = []
    for eta in (1.0, 10.0, 100.0, 1e4):
        soft = augmented_program(transitions, f, mu, np.zeros(1), alpha, eta)
        gaps.append(float(np.abs(soft.values - hard.values).max()))
    assert gaps[-1] < 1e-3
    assert gaps == sorted(gaps, reverse=True)
    # At the optimal multiplier the penalty is exact whatever its size.
    exact = augmented_program(transitions, f, mu, hard.multipliers, alpha, 1.0)
    np.testing.assert_allclose(exact.values, hard.values, atol=1e-6)


def test_with_the_penalty_linearised_the_augmented_program_is_optduals():
    transitions, _, _, f, mu, _ = random_box(0)
    lam, alpha = np.array([0.3]), np.array([1.8])
    soft = augmented_program(transitions, f, mu, lam, alpha, 1e-7)
    best, _, _ = best_of(transitions, f, mu, np.append(1.0, lam))
    assert soft.values[0] + lam @ soft.values[1:] == pytest.approx(best[0] + lam @ best[1:], abs=1e-5)


def test_optaug_plays_the_safe_policy_first():
    cmdp = small()
    options = options_for("optaug", cmdp)
    learner = fd.make_learner("optaug", cmdp.problem(), episodes=100, **options)
    history = fd.simulate(learner, cmdp)
    assert (history.diagnostics["baseline"][:10] == 1).all()
    assert (history.diagnostics["baseline"][10:] == 0).all()
    assert (history.violation[:, :10] < 0).all()


# -- CPD-PO ------------------------------------------------------------------------------------------------------------


def boxes(learner):
    """The learner's confidence set, as (H, S, A, S) bounds, and its optimistic means."""
    est = learner._estimates()
    transitions = learner._set.transitions(est)
    shape = est.p.shape
    return transitions.lo.reshape(shape), transitions.up.reshape(shape), est


def test_the_multiplier_of_cpd_po_is_zero_or_its_bound_by_the_optimistic_utility():
    cmdp = small(states=3)
    learner = fd.make_learner("cpd-po", cmdp.problem(), episodes=400, tuning="practical", bonus_scale=0.02)
    seen = set()
    for _ in range(80):
        fd.simulate(learner, cmdp, episodes=5)
        lo, up, est = boxes(learner)
        g = 1.0 - (est.costs[0] - learner._set.xi(est)[1])  # g^ = 0 and xi = 1 where N = 0
        most = extended_policy_value(lo, up, g, cmdp.initial, learner.policy, 1.0)
        expected = learner.dual_bound if most < cmdp.alpha[0] else 0.0
        assert learner.multipliers[0] == expected
        seen.add(float(expected))
    assert learner.dual_bound == pytest.approx(2.0 * 3 / cmdp.problem().slater_gap)
    assert seen == {0.0, learner.dual_bound}


def test_a_step_of_cpd_po_is_the_slow_one():
    cmdp = small(states=3)
    learner = fd.make_learner("cpd-po", cmdp.problem(), episodes=50, tuning="practical", bonus_scale=0.05)
    fd.simulate(learner, cmdp, episodes=20)
    before, score = learner.policy, learner._carried.score.copy()
    lo, up, _ = boxes(learner)
    upper = highest_occupancy(lo, up, cmdp.initial, before, 1.0)
    lower = highest_occupancy(lo, up, cmdp.initial, before, -1.0)
    H, gamma = 3, learner._gamma
    b = (before * (3 * gamma * H + H * (upper - lower)) / (upper + gamma)).sum(axis=-1)
    B, value = np.zeros_like(before), np.zeros(3)
    for h in reversed(range(H)):
        for s in range(3):
            for a in range(2):
                after = (corners(lo[h, s, a], up[h, s, a]) @ value).max() if h + 1 < H else 0.0
                B[h, s, a] = b[h, s] + (1 + 1 / H) * after
        value = (before[h] * B[h]).sum(axis=-1)
    lam = learner.multipliers[0]
    states, actions = np.array([int(np.argmax(cmdp.initial)), 1, 2, 0]), np.array([0, 1, 1])
    r, d = np.array([0.2, 0.5, 1.0]), np.array([[0.1, 0.9, 0.4]])
    learner.observe(fd.Episode(states, actions, r, d))
    loss = (1 - r + lam * (1 - d[0])) / (1 + learner.dual_bound)
    expected = score - B
    for h in range(H):
        at = h, states[h], actions[h]
        expected[at] += loss[h:].sum() / (upper[at] + gamma)
    np.testing.assert_allclose(learner._carried.score, expected, atol=1e-9)
    pi = np.exp(-learner._eta * expected)
    np.testing.assert_allclose(learner.policy, pi / pi.sum(axis=-1, keepdims=True), atol=1e-9)


# -- OMDPD -------------------------------------------------------------------------------------------------------------


def test_the_potential_of_omdpd_drives_its_penalty():
    cmdp = small()
    learner = fd.make_learner(
        "omdpd", cmdp.problem(), episodes=300, tuning="practical", bonus_scale=1e-4, scale=0.5, growth=0.2
    )
    lam = [learner._carried.lam.copy()]
    for _ in range(60):
        excess = learner._carried.excess.copy()
        fd.simulate(learner, cmdp, episodes=1)
        np.testing.assert_allclose(learner._carried.lam, lam[-1] + 0.5 * excess)  # lam_{k+1} = lam_k + a [c . q_k]_+
        lam.append(learner._carried.lam.copy())
        potential = np.exp(0.2 * learner._carried.lam) - 1.0
        np.testing.assert_allclose(learner.multipliers, 0.2 * (potential + 1.0))  # Phi' = beta (Phi + 1)
    assert (np.diff(np.array(lam)[:, 0]) >= 0).all()
    assert lam[-1][0] > lam[0][0]
    x = learner._carried.x
    np.testing.assert_allclose(x.sum(axis=(1, 2)), 1.0, atol=1e-8)


@pytest.mark.slow
def test_omdpd_gets_safer_as_its_penalty_grows():
    cmdp = small(states=5, actions=3, horizon=5)
    learner = fd.make_learner(
        "omdpd", cmdp.problem(), episodes=3000, tuning="practical", bonus_scale=1e-4, replan=20, scale=0.5, growth=0.05
    )
    violation = np.maximum(fd.simulate(learner, cmdp).violation[0], 0.0)
    assert violation[2000:].mean() < 0.5 * violation[:500].mean()


# -- SV-OPS and S-OPS --------------------------------------------------------------------------------------------------


def test_the_occupancies_of_sv_ops_are_optimistically_safe():
    cmdp = small()
    learner = fd.make_learner("sv-ops", cmdp.problem(), episodes=300, tuning="practical", replan=10)
    for _ in range(20):
        fd.simulate(learner, cmdp, episodes=15)
        utilities = learner.beliefs().utilities
        if learner._carried.safe:
            assert utilities[0] >= learner.thresholds[0] - 1e-6 or learner.planned_at != learner.episode


def test_a_mixture_is_drawn_with_its_weights_whatever_the_chunks():
    cmdp = two_ways()
    options = {"safe_policy": fd.safe_policy(cmdp, 1.2), "replan": 100}
    learner = fd.make_learner("s-ops", cmdp.problem(), episodes=4000, **options)
    weights, policies = learner.mixture
    assert policies.shape == (2, 2, 2, 2)
    assert (policies[0] == options["safe_policy"].policy).all()
    H, alpha, safe = 2, cmdp.alpha[0], options["safe_policy"].utilities[0]
    assert weights[0] == pytest.approx((H - (H - alpha)) / (H - (H - safe)))  # lam_0 = (H - tau) / (H - beta)
    assert np.bincount(learner.draws(20_000), minlength=2) / 20_000 == pytest.approx(weights, abs=0.02)
    assert (learner.draws(50)[:7] == learner.draws(7)).all()
    history = fd.simulate(learner, cmdp, episodes=300)
    assert set(np.unique(history.diagnostics["drawn_value"])) > {0.0} or history.diagnostics["drawn_value"].std() > 0
    share = history.diagnostics["baseline"]
    drawn, exact = history.diagnostics["drawn_utilities"][0], cmdp.alpha[0] - history.violation[0]
    np.testing.assert_allclose(drawn[:100].mean(), exact[:100].mean(), atol=0.15)
    assert ((0 <= share) & (share <= 1)).all()


def test_the_weight_of_the_safe_policy_is_what_makes_the_worst_case_safe():
    cmdp = two_ways()
    learner = fd.make_learner("s-ops", cmdp.problem(), episodes=4000, safe_policy=fd.safe_policy(cmdp, 1.2), replan=50)
    fd.simulate(learner, cmdp, episodes=3000)
    (share, _), policies = learner.mixture
    # The plan was made after episode 3,000, with the counts there are now.
    assert learner.planned_at == 3000
    lo, up, est = boxes(learner)
    bound = highest_occupancy(lo, up, cmdp.initial, policies[1], 1.0)
    w = min(float(((est.costs[0] + learner._set.xi(est)[1]) * bound).sum()), 2.0)
    tau, beta = 2 - cmdp.alpha[0], 2 - learner.safe_policy.utilities[0]
    assert share == pytest.approx(max((w - tau) / (w - beta), 0.0) if w > tau else 0.0, abs=1e-9)
    assert share * beta + (1 - share) * w <= tau + 1e-9


def test_the_mixture_of_s_ops_never_violates_over_twenty_seeds():
    cmdp, T = two_ways(), 20_000
    baseline = fd.safe_policy(cmdp, 1.2)
    for seed in range(20):
        learner = fd.make_learner("s-ops", cmdp.problem(), episodes=T, seed=seed, safe_policy=baseline, replan=1.1)
        history = fd.simulate(learner, cmdp, seed=seed)
        assert history.violation.max() <= 1e-9, seed
        assert leaves(history) == 1  # from the first episode on the safe policy is not the only one
        assert history.diagnostics["baseline"][-1] < 0.6
        assert history.reward_gap[-1] < history.reward_gap[0]


def test_the_sets_of_the_loop_free_family_are_their_formulas():
    cmdp = small()
    learner = fd.make_learner("sv-ops", cmdp.problem(), episodes=100)
    fd.simulate(learner, cmdp, episodes=40)
    est = learner._estimates()
    sets = LoopFreeSet(cmdp.problem(), 100, 0.1, 1.0)
    u = np.log(8 * 1 * 12**2 * 2 * 100 / 0.1)
    assert sets.log == pytest.approx(u)
    n = np.maximum(learner.visits, 1)
    np.testing.assert_allclose(sets.xi(est)[0], np.minimum(np.sqrt(4 * u / n), 1))
    small_set = LoopFreeSet(cmdp.problem(), 100, 0.1, 0.01).transitions(est)
    h, s, a = np.argwhere(learner.visits[:2] > 1)[0]
    p, fewer = est.p[h, s, a], max(n[h, s, a] - 1, 1)
    eps = 0.01 * (2 * np.sqrt(p * u / fewer) + 14 * u / (3 * fewer))
    np.testing.assert_allclose(small_set.up.reshape(est.p.shape)[h, s, a], np.minimum(p + np.minimum(eps, 1), 1))
    assert isinstance(small_set, TransitionSet)
