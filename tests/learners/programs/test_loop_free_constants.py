"""The constants of SV-OPS, S-OPS, CPD-PO and OMDPD as literals, worked out apart from the code.

Two sizes: the paper's (S = 20, A = H = 5, m = 1, T = 80,000, delta = 0.1, Slater gap 2.5), and one with m = 3 where the
other term of every minimum holds. ``ZS26`` is Zuo and Stradi 2026, whose appendix B.2 and Algorithm 2 restate S-OPS.
"""

import inspect
from types import SimpleNamespace

import numpy as np
import pytest

import flexdome as fd
from flexdome.learners.programs import omdpd, projection, sv_ops
from flexdome.learners.programs.loop_free import LARGEST_CONSTANT, LEAST_CONSTANT, LoopFreeSet
from flexdome.learners.programs.s_ops import mixing
from flexdome.learners.programs.transition_sets import estimates
from flexdome.learners.seen.dense import dense
from flexdome.learners.seen.tally import Tally

PAPER, OTHER = (20, 5, 5, 1, 80_000, 0.1, 2.5), (7, 3, 4, 3, 12_345, 0.02, 0.75)


def problem_of(sizes, **revealed):
    S, A, H, m, _, _, gap = sizes
    return fd.Problem(S, A, H, np.eye(S)[0], np.full(m, 0.4 * H), gap, **revealed)


def learner_of(name, sizes, **options):
    if name == "s-ops":
        S, A, H, m, *_ = sizes
        options["safe_policy"] = fd.SafePolicy(np.full((H, S, A), 1 / A), np.full(m, 0.5 * H))
    return fd.make_learner(name, problem_of(sizes), episodes=sizes[4], delta=sizes[5], **options)


# what, learner, value at the paper's size, at the other, where the formula stands
TABLE = [
    ("_set.log", "sv-ops", 26.491586832740182, 24.274104546573888, "u = log(8 m |X|^2 A T / delta), ZS26 B.2"),
    ("_eta", "sv-ops", 0.0018197385400360467, 0.00967645796903453, "eta = sqrt(L u / (T |X| A)), ZS26 Alg. 2"),
    ("_gamma", "sv-ops", 0.0018197385400360467, 0.00967645796903453, "gamma = eta, ZS26 Alg. 2"),
    ("_set.scale", "sv-ops", 1.0, 1.0, "all widths, ZS26 B.2"),
    ("_set.log", "s-ops", 26.491586832740182, 24.274104546573888, "as SV-OPS"),
    ("_eta", "s-ops", 0.0018197385400360467, 0.00967645796903453, "as SV-OPS"),
    ("_gamma", "s-ops", 0.0018197385400360467, 0.00967645796903453, "as SV-OPS"),
    ("_now.carried.weight", "s-ops", 0.8, 0.8, "lam_0 = max (L - tau) / (L - beta), ZS26 Alg. 2: 0.4 / 0.5"),
    ("_set.log", "cpd-po", 26.491586832740182, 24.274104546573888, "u as SV-OPS"),
    ("_eta", "cpd-po", 0.00015811388300841897, 0.0006510416666666666, "min{1 / (24 L^3), 1 / sqrt(|X| A T)}, PO-DB"),
    ("_gamma", "cpd-po", 0.0015811388300841897, 0.005208333333333333, "gamma = 2 eta L, PO-DB"),
    ("dual_bound", "cpd-po", 4.0, 10.666666666666666, "Lambda = 2 L / rho, reconstructed"),
    ("_set.scale", "cpd-po", 1.0, 1.0, "all widths"),
    ("_a", "omdpd", 0.1, 0.125, "a = 1 / (2 H), reconstructed"),
    ("_beta", "omdpd", 0.0017677669529663688, 0.004500123755104921, "beta = 1 / (2 sqrt(K)), reconstructed"),
    ("_radius", "omdpd", 4.798525912188081, 3.4897119868111885, "sqrt(H log(S A)) of eta_k, reconstructed"),
    ("_set.log_p", "omdpd", 21.598734574300313, 19.555605675278795, "L_p = log(6 S A H K / delta), Efroni et al."),
    ("_set.log", "omdpd", 44.58376350972051, 41.88380007279737, "L = 2 log(6 S A H (m + 1) K / delta), Efroni et al."),
    ("_set.scale", "omdpd", 1.0, 1.0, "all widths"),
    ("_inner", "omdpd", 10, 10, ""),
]


def found(learner, path):
    value = learner
    for name in path.split("."):
        value = getattr(value, name)
    return value


@pytest.fixture(scope="module")
def learners():
    names = ("sv-ops", "s-ops", "cpd-po", "omdpd")
    return {(name, sizes): learner_of(name, sizes) for name in names for sizes in (PAPER, OTHER)}


@pytest.mark.parametrize(("path", "name", "paper", "other", "where"), TABLE)
def test_a_constant_of_the_theory_is_its_literal(learners, path, name, paper, other, where):
    assert found(learners[name, PAPER], path) == pytest.approx(paper, rel=1e-13), where
    assert found(learners[name, OTHER], path) == pytest.approx(other, rel=1e-13), where


@pytest.mark.parametrize(
    ("name", "path", "value"),
    [
        *[(name, path, value) for name in ("sv-ops", "s-ops", "cpd-po")
          for path, value in (("_set.scale", 1e-3), ("_eta", 1e-2), ("_gamma", 1e-2))],
        ("cpd-po", "dual_bound", 10.666666666666666),
        ("omdpd", "_set.scale", 1e-3), ("omdpd", "_a", 1.0), ("omdpd", "_beta", 0.01),
        ("omdpd", "_set.optimistic", True),
    ],
)  # fmt: skip
def test_a_practical_constant_is_that_of_the_tuning_page(name, path, value):
    assert found(learner_of(name, OTHER, tuning="practical"), path) == pytest.approx(value, rel=1e-13)


def nothing(problem):
    """No episode was seen."""
    return dense(Tally(problem))


def counted(sizes, n, successors):
    """Counts in which every cell was seen ``n`` times and went to state 0 with that share."""
    seen = nothing(problem_of(sizes))
    seen.visits[:] = seen.samples[:] = n
    seen.following[..., 0], seen.following[..., 1] = successors, 1 - successors
    seen.sums[:] = 0.25 * n
    return seen


# N: xi, half-width at p^ = 1/4, half-width at p^ = 0
WIDTHS = [
    (PAPER, 50, 1.0, 1.0, 1.0),
    (PAPER, 400, 0.5146997846583985, 0.5675153049685295, 0.3098431208507624),
    (PAPER, 10_000, 0.1029399569316797, 0.06383652907742902, 0.012363976919637382),
    (OTHER, 400, 0.4926875738901265, 0.530559950767967, 0.2839076555154841),
]


@pytest.mark.parametrize(("sizes", "n", "xi", "eps", "eps_0"), WIDTHS)
def test_the_widths_are_their_literals(sizes, n, xi, eps, eps_0):
    problem = problem_of(sizes)
    est = estimates(problem, counted(sizes, n, 0.25))
    sets = LoopFreeSet(problem, sizes[4], sizes[5], 1.0)
    np.testing.assert_allclose(sets.xi(est), xi, rtol=1e-13)
    np.testing.assert_allclose(sets._eps(est)[0, 0, 0, [0, 2]], [eps, eps_0], rtol=1e-13)
    np.testing.assert_allclose(sets.optimistic(est)[0], 0.25 + xi, rtol=1e-13)
    np.testing.assert_allclose(sets.optimistic(est)[1:], 0.25 + xi, rtol=1e-13)
    S, H = sizes[0], sizes[2]
    moves = min(eps + min(1.0, sets._eps(est)[0, 0, 0, 1]) + (S - 2) * eps_0, 2.0)
    np.testing.assert_allclose(sets.width(est), xi + H * moves, rtol=1e-13)
    half = LoopFreeSet(problem, sizes[4], sizes[5], 0.5)
    raw = np.sqrt(4 * sets.log / n)
    np.testing.assert_allclose(half.xi(est), min(0.5 * raw, 1.0), rtol=1e-13)


def test_a_utility_that_was_there_in_one_visit_of_four_is_as_wide_as_one_sample():
    problem = problem_of(PAPER)
    seen = counted(PAPER, 4, 0.25)
    seen.samples[1:], seen.sums[1:] = 1.0, 0.75
    est, sets = estimates(problem, seen), LoopFreeSet(problem, PAPER[4], PAPER[5], 0.05)
    xi = 0.5146997846583985  # sqrt(4 u) / 20
    np.testing.assert_allclose(sets.xi(est)[1:], xi, rtol=1e-13)
    np.testing.assert_allclose(sets.xi(est)[0], 0.5 * xi, rtol=1e-13)
    np.testing.assert_allclose(est.costs, 0.25, rtol=1e-13)
    np.testing.assert_allclose(sets.optimistic(est)[1:], 0.75 + xi, rtol=1e-13)


@pytest.mark.parametrize("scale", [1.0, 1e-3])
def test_a_cell_never_seen_has_a_width_of_one_and_an_optimistic_cost_of_minus_one(scale):
    problem = problem_of(OTHER)
    est = estimates(problem, nothing(problem))
    sets = LoopFreeSet(problem, OTHER[4], OTHER[5], scale)
    assert (sets.xi(est) == 1).all()
    assert (sets.optimistic(est)[0] == 1).all()
    assert (sets.optimistic(est)[1:] == 2).all()  # 1 - (g^ - xi), g^ = 0
    box = sets.transitions(est)
    assert (box.lo == 0).all()
    assert (box.up == 1).all()


def test_one_visit_and_two_visits_have_the_same_half_width():
    problem = problem_of(PAPER)
    sets = LoopFreeSet(problem, PAPER[4], PAPER[5], 1e-3)
    once, twice, thrice = (sets._eps(estimates(problem, counted(PAPER, n, 1.0))) for n in (1, 2, 3))
    assert (once == twice).all()
    assert once[0, 0, 0, 5] == pytest.approx(1e-3 * 14 * 26.491586832740182 / 3, rel=1e-13)
    assert thrice[0, 0, 0, 5] == pytest.approx(1e-3 * 14 * 26.491586832740182 / 6, rel=1e-13)


def test_what_is_revealed_has_no_width():
    S, A, H, m, T, delta, _ = OTHER
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(S), size=(H, S, A))
    problem = problem_of(OTHER, rewards=rng.random((H, S, A)), utilities=rng.random((m, H, S, A)), transitions=p)
    est, sets = estimates(problem, nothing(problem)), LoopFreeSet(problem, T, delta, 1.0)
    np.testing.assert_allclose(sets.optimistic(est), np.concatenate([problem.rewards[None], problem.utilities]))
    assert (sets.transitions(est).lo == sets.transitions(est).up).all()
    assert (sets.width(est) == 0).all()


# -- rules with two sides ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("w", "tau", "beta", "weight"),
    [
        ([3.0], [2.0], [1.0], 0.5),
        ([2.0], [2.0], [1.0], 0.0),  # not above the limit
        ([np.nextafter(2.0, 3.0)], [2.0], [1.0], 4.440892098500626e-16),
        ([1.0], [2.0], [0.5], 0.0),
        ([3.0, 4.0], [2.0, 2.0], [1.0, 1.0], 2 / 3),
        ([3.0, 1.5], [2.0, 2.0], [1.0, 0.0], 0.5),
        ([3.0], [2.0], [2.0], 1.0),  # a known policy that is not safe
        ([1.0], [2.0], [2.0], 1.0),
        ([1.0, 1.0], [2.0, 2.0], [0.0, 2.5], 1.0),
    ],
)
def test_the_weight_of_the_safe_policy_is_its_formula(w, tau, beta, weight):
    assert mixing(np.array(w), np.array(tau), np.array(beta)) == pytest.approx(weight, rel=1e-12)


def narrow(slack, name="sv-ops", count=1, horizon=1, **options):
    """One state, two actions of known utility 1/2 and 0; the safest policy has ``slack``. After a step."""
    most, H = 0.5, horizon
    utilities = np.tile([most, 0.0], (1, H, 1, 1))
    problem = fd.Problem(1, 2, H, [1.0], [H * most - slack], 0.1, utilities=utilities)
    if name == "s-ops":
        options["safe_policy"] = fd.SafePolicy(np.array([[[1.0, 0.0]]]), [most + 0.1])
    learner = fd.make_learner(name, problem, episodes=10, tuning="practical", **options)
    for _ in range(count):
        learner.observe(fd.Episode([0] * (H + 1), [0] * H, [1.0] * H, [[most] * H]))
    return learner


@pytest.mark.parametrize(
    ("slack", "short"), [(0.1, 0.1), (2e-5, 2e-5), (1.1e-5, 1.1e-5), (0.9e-5, 1e-5), (1e-7, 1e-5), (-0.9e-9, 1e-5)]
)
def test_sv_ops_keeps_its_constraint_and_gives_a_narrow_one_room(slack, short):
    learner = narrow(slack)
    assert learner._notes() == {"safe": 1.0}
    assert 0.5 - learner.planned_values[1] == pytest.approx(short, rel=1e-3)


@pytest.mark.parametrize("horizon", [1, 3])
def test_a_slack_of_exactly_the_rounding_is_still_safe(horizon, monkeypatch):
    limit = -1e-9 * horizon
    for slack, safe in ((limit, 1.0), (np.nextafter(limit, -1.0), 0.0)):
        monkeypatch.setattr(sv_ops, "slack_mixture", lambda *_, slack=slack: SimpleNamespace(value=slack))
        assert narrow(0.1, horizon=horizon)._notes() == {"safe": safe}


@pytest.mark.parametrize(("slack", "short"), [(1.9e-5, 2e-5), (2.1e-5, 2.1e-5), (-1.9e-9, 2e-5)])
def test_the_room_of_sv_ops_is_relative_to_the_horizon(slack, short):
    learner = narrow(slack, horizon=2)
    assert learner._notes() == {"safe": 1.0}
    assert 1.0 - learner.planned_values[1] == pytest.approx(short, rel=1e-3)
    assert narrow(-2.1e-9, horizon=2)._notes() == {"safe": 0.0}


def test_s_ops_begins_with_lam_0_and_mixes_what_it_holds_of_the_utilities():
    first = narrow(0.1, "s-ops", count=0)  # alpha = 0.4, the known policy has 0.6
    assert first._notes()["baseline"] == pytest.approx(0.4 / 0.6, rel=1e-12)
    assert first.planned_values[1] == pytest.approx(2 / 3 * 0.6 + 1 / 3 * 0.25, rel=1e-12)
    after = narrow(0.1, "s-ops", count=1)  # w = 0.6 = tau: nothing is to be mixed in
    assert after._notes()["baseline"] == pytest.approx(0.0, abs=1e-8)
    assert after.planned_values[1] == pytest.approx(0.4, rel=1e-7)


@pytest.mark.parametrize(("S", "A", "radius"), [(1, 1, 0.8325546111576977), (1, 2, 0.8325546111576977), (1, 3, 1.0481470739682051)])  # fmt: skip  # noqa: E501
def test_the_radius_of_omdpd_does_not_vanish_with_one_cell(S, A, radius):
    problem = fd.Problem(S, A, 1, [1.0], [0.4], 0.1)
    assert fd.make_learner("omdpd", problem, episodes=10)._radius == pytest.approx(radius, rel=1e-13)


def test_a_constraint_of_omdpd_that_is_just_met_is_not_penalised():
    learner = fd.make_learner("omdpd", fd.Problem(1, 2, 1, [1.0], [0.4], 0.1), episodes=10, growth=1.0, scale=1.0)
    r, x = np.zeros((1, 1, 2)), np.full((1, 1, 2), 0.5)
    for costs, slope in (((-1.0, 1.0), (0.0, 0.0)), ((-1.0, 1.5), (-1.0, 1.5)), ((-1.5, 1.0), (0.0, 0.0))):
        found = learner._gradient(np.zeros(1), r, np.array(costs).reshape(1, 1, 1, 2), x)
        assert found.ravel() == pytest.approx(slope, abs=1e-15)


@pytest.mark.parametrize(("threshold", "lam"), [(0.5, 0.0), (np.nextafter(0.5, 1.0), 5.0)])
def test_the_multiplier_of_cpd_po_rises_only_above_the_limit(threshold, lam):
    # Known utilities 1 and 0, the uniform policy has 1/2; Lambda = 2 H / gap = 2 / 0.4.
    problem = fd.Problem(1, 2, 1, [1.0], [threshold], 0.4, utilities=np.array([1.0, 0.0]).reshape(1, 1, 1, 2))
    assert fd.make_learner("cpd-po", problem, episodes=10).multipliers[0] == pytest.approx(lam, rel=1e-13)


def test_the_first_occupancy_is_uniform_with_a_mass_of_one():
    first = projection.first_occupancy(3, 4, 2, np.array([0.75, 0.25, 0.0, 0.0]))
    assert (first.x[0] == np.array([0.75, 0.25, 0.0, 0.0])[:, None] / 2).all()
    assert (first.x[1:] == 0.125).all()
    assert (first.p == 0.25).all()


@pytest.mark.parametrize("value", [-1.0, 0.5, 2.0])
def test_a_file_says_safe_or_not(learners, value):
    learner = learners["sv-ops", OTHER]
    with pytest.raises(fd.ValidationError, match="own_safe"):
        learner.restore({**learner.state(), "own_safe": np.array([value])})


@pytest.mark.parametrize("name", ["sv-ops", "s-ops"])
def test_without_a_safe_occupancy_the_constraint_is_dropped(name):
    learner = narrow(-1.1e-9, name)
    assert learner._notes()["safe"] == 0.0
    assert learner.mixture[1][-1] == pytest.approx(np.array([[[0.5, 0.5]]]))
    assert (learner.multipliers == 0).all()
    if name == "s-ops":
        assert learner._notes()["baseline"] == 1.0
    assert (sv_ops.ROOM, sv_ops.UNSAFE) == (1e-5, 1e-9)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("options", "length"),
    [({}, 0.01), ({"step_size": 0.5}, 0.5), ({"replan": 3, "count": 3}, 0.03), ({"step_size": 0.0}, 1e-30),
     ({"step_size": 1e-320}, 1e-30)],
)  # fmt: skip
def test_the_multiplier_of_sv_ops_is_that_of_the_projection_over_the_step(options, length):
    # pi(0) = (0.5 - 0.1) / 0.5 from 1/2: w u = log odds = log 4, w = log(4) / 0.5.
    assert narrow(0.1, **options).multipliers[0] == pytest.approx(np.log(4.0) / 0.5 / length, rel=1e-8)


def test_a_changed_threshold_is_projected_on_at_once_but_not_before_the_first_episode():
    learner = narrow(0.1)
    learner.set_thresholds([0.45])
    assert learner.planned_values[1] == pytest.approx(0.45, rel=1e-9)
    assert learner.multipliers[0] == pytest.approx((np.log(9.0) - np.log(4.0)) / 0.5 / 0.01, rel=1e-7)
    fresh = narrow(0.1, count=0)
    fresh.set_thresholds([0.45])
    assert (fresh.policy == 0.5).all()


def test_a_changed_threshold_moves_the_multiplier_of_omdpd_by_no_episode():
    _, _, H, m, *_ = OTHER
    learner = learner_of("omdpd", OTHER, bonus_scale=0.0)  # every cell is unsafe, as far as it knows
    first = learner._carried
    learner.set_thresholds(np.full(m, 0.5 * H))
    assert (learner._carried.x == first.x).all()
    learner.observe(fd.Episode(np.zeros(H + 1, int), np.zeros(H, int), np.zeros(H), np.zeros((m, H))))
    before = learner._carried
    learner.set_thresholds(np.full(m, 0.8 * H))
    assert (learner._carried.lam == before.lam).all()
    assert learner._carried.variation == before.variation
    assert (before.lam > 0).all()
    assert not (learner._carried.expected == before.expected).all()


# -- what a file may bring ---------------------------------------------------------------------------------------------

MOST = 1e300
STORED = {
    "sv-ops": {"x": (0, 2), "lam": (0, MOST), "upper": (0, 2), "safe": (0, 1), "weight": (0, 1)},
    "s-ops": {"x": (0, 2), "lam": (0, MOST), "upper": (0, 2), "safe": (0, 1), "weight": (0, 1)},
    "cpd-po": {"score": (-MOST, MOST), "upper": (-1e-9, 2), "bonus": (-MOST, MOST)},
    "omdpd": {
        "hat_x": (0, 2), "x": (0, 2), "lam": (0, MOST), "met": (-MOST, MOST), "expected": (-MOST, MOST),
        "excess": (0, MOST), "variation": (0, MOST),
    },
}  # fmt: skip


@pytest.mark.parametrize(("name", "key"), [(name, key) for name, keys in STORED.items() for key in keys])
def test_a_file_brings_back_what_is_in_range_and_nothing_else(learners, name, key):
    learner = learners[name, OTHER]
    state, (low, high) = learner.state(), STORED[name][key]
    held = f"own_{key}"
    for value, taken in ((low, True), (high, True), (np.nextafter(low, -np.inf), False), (np.nextafter(high, np.inf), False)):  # fmt: skip  # noqa: E501
        array = state[held].astype(np.float64).copy()
        array.flat[0] = value
        if taken:
            learner.restore({**state, held: array})
            assert learner.state()[held].flat[0] == value
        else:
            with pytest.raises(fd.ValidationError, match=f"state.{held}"):
                learner.restore({**state, held: array})
    learner.restore(state)
    for again, array in state.items():
        assert (learner.state()[again] == array).all()


def test_the_penalty_of_omdpd_is_followed_up_to_its_steepest():
    learner = learner_of("omdpd", OTHER, growth=0.5, scale=1.0)
    slopes = learner._slope_of(np.array([0.0, 10.0, 59.0, 60.0, 61.0, 1e9]))
    expected = 0.5 * np.exp([0.0, 5.0, 29.5, 30.0, 30.0, 30.0])
    np.testing.assert_allclose(slopes, expected, rtol=1e-13)
    assert omdpd.STEEPEST == 30.0
    assert (projection.FLOOR, projection.STEEPEST_STEP) == (1e-30, 1e4)


def test_the_steps_of_several_episodes_are_made_in_at_most_inner_steps():
    cmdp = fd.make_cmdp("independent-v1", states=2, actions=2, horizon=2)
    made = []
    for inner, count in ((1, 1), (3, 3), (10, 4)):
        learner = fd.make_learner("omdpd", cmdp.problem(), episodes=8, replan=4, inner_steps=inner)
        advance, calls = learner._advanced, []
        learner._advanced = lambda *a, f=advance, c=calls: (c.append(a[-1]), f(*a))[1]
        fd.simulate(learner, cmdp, episodes=4)
        assert calls == [4 / count] * count
        made.append(learner.policy)
    assert not (made[0] == made[1]).all()


ACCEPTED = [
    ("sv-ops", "exploration", 1e-30), ("s-ops", "exploration", 1e-30), ("cpd-po", "exploration", 1e-30),
    ("omdpd", "scale", 1e-30), ("omdpd", "growth", 1e-30),
    *[(name, option, 0.0) for name in ("sv-ops", "s-ops", "cpd-po") for option in ("step_size", "bonus_scale")],
    ("cpd-po", "dual_scale", 0.0), ("omdpd", "bonus_scale", 0.0),
    *[(name, option, 1e30) for name in ("sv-ops", "cpd-po") for option in ("step_size", "bonus_scale", "exploration")],
    ("cpd-po", "dual_scale", 1e30), ("omdpd", "scale", 1e30), ("omdpd", "growth", 1e30),
    ("omdpd", "inner_steps", 1), ("omdpd", "inner_steps", 10**6),
]  # fmt: skip
REFUSED = [
    *[(name, "exploration", value, "it must be positive, and at least 1e-30")
      for name in ("sv-ops", "s-ops", "cpd-po") for value in (0.0, np.nextafter(1e-30, 0), 5e-324)],
    *[("omdpd", option, value, "it must be positive, and at least 1e-30")
      for option in ("scale", "growth") for value in (0.0, np.nextafter(1e-30, 0))],
    *[(name, option, value, "it must be at most 1e[+]30")
      for name in ("sv-ops", "s-ops", "cpd-po") for option in ("step_size", "bonus_scale", "exploration")
      for value in (np.nextafter(1e30, np.inf), 1e31)],
    ("cpd-po", "dual_scale", 1.1e30, "at most"), ("omdpd", "scale", 1.1e30, "at most"),
    ("omdpd", "growth", 1.1e30, "at most"), ("omdpd", "bonus_scale", 1e31, "at most"),
    *[(name, "step_size", -1e-9, "") for name in ("sv-ops", "s-ops", "cpd-po")],
    ("omdpd", "inner_steps", 0, ""), ("omdpd", "inner_steps", 10**6 + 1, ""),
]  # fmt: skip


@pytest.mark.parametrize("name", ["sv-ops", "s-ops", "cpd-po", "omdpd"])
def test_the_defaults_are_the_papers_run(name):
    given = {k: v.default for k, v in inspect.signature(fd.LEARNERS[name].load()).parameters.items() if k != "problem"}
    fixed = {"episodes": 80_000, "delta": 0.1, "seed": 0, "replan": "episode", "tuning": "theory"}
    more = {"inner_steps": 10} if name == "omdpd" else {}
    assert {k: v for k, v in given.items() if v is not None} == {**fixed, **more}


@pytest.mark.parametrize(("name", "option", "value"), ACCEPTED)
def test_a_constant_at_its_bound_is_taken(name, option, value):
    assert learner_of(name, OTHER, **{option: value}).options()[option] == value
    assert (LEAST_CONSTANT, LARGEST_CONSTANT) == (1e-30, 1e30)


@pytest.mark.parametrize(("name", "option", "value", "rule"), REFUSED)
def test_a_constant_beyond_its_bound_is_refused_by_name(name, option, value, rule):
    with pytest.raises(fd.ValidationError, match=f"^{option} is .*{rule}"):
        learner_of(name, OTHER, **{option: value})
