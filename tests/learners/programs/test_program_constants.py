"""The numbers in the formulas of learners that solve a program, as literals computed elsewhere.

Two sizes: the paper's, S = 20, A = H = 5, m = 1, K = 80,000, delta = 0.1 with a Slater gap of 2.5, and another with
three constraints, S = 7, A = 3, H = 4, K = 5,000, delta = 0.05 and a gap of 0.8. A cell was seen n times, its empirical
transitions are (0.3, 0.7, 0, ..., 0), its mean reward 0.4 and its mean utilities 0.6.
"""

from dataclasses import replace

import numpy as np
import pytest

import flexdome as fd
from flexdome.learners.programs import dope, optaug, optcmdp, optcmdp_bonus, optpess_lp
from flexdome.learners.programs.augmented import augmented_program
from flexdome.learners.programs.family import Plan, Present, policy_of
from flexdome.learners.programs.oracle import Program, extended_program, known_program
from flexdome.learners.programs.replanning import NEVER, as_replan
from flexdome.learners.programs.transition_sets import TransitionSet, bernstein, estimates, l1_ball
from flexdome.learners.seen.dense import Dense, dense
from runs import World, small_cmdp

PAPER = fd.Problem(states=20, actions=5, horizon=5, initial=0, thresholds=[1.5], slater_gap=2.5)
OTHER = fd.Problem(states=7, actions=3, horizon=4, initial=0, thresholds=[1.0, 2.0, 0.5], slater_gap=0.8)
SIZES = {"paper": (PAPER, 80_000, 0.1), "other": (OTHER, 5_000, 0.05)}
SAFE_UTILITIES = {"paper": [4.0], "other": [1.8, 3.0, 2.0]}  # the smallest gaps are 2.5 and 0.8
MODULES = {"optcmdp": optcmdp, "optcmdp-bonus": optcmdp_bonus, "optaug": optaug, "optpess-lp": optpess_lp, "dope": dope}
PROGRAM = {"optcmdp-bonus": "known_program", "optpess-lp": "known_program", "optaug": "augmented_program"}

# Efroni, Mannor and Pirotta 2020, L_p = log(6 S A H K / delta), L = 2 log(6 S A H (m + 1) K / delta): (size, n):
# sqrt(L / n); beta_p = 2 sqrt(p^ (1 - p^) L_p / n) + (14/3) L_p / n at p^ = 0.3 and 0; the bonus of OptCMDP-bonus,
# sqrt(L / n) + H sum_s' beta_p, before the last step and at it (p^ = 0). TOLD is sqrt(L / n) + H min(sum_s' beta_p, 2),
# which OptCMDP tells as its width; RADII (Jaksch, Ortner and Auer 2010) sqrt(14 S L_p / n), at most 2.
EFRONI = {
    ("paper", 1): (6.6771074208613, 105.05354734942, 100.79409468007, 10128.681102121, 10086.086575428),
    ("paper", 10): (2.1114867631534, 11.426366670089, 10.079409468007, 1023.5220055847, 1010.0524335638),
    ("paper", 1000): (
        0.21114867631534,
        0.23548981488829,
        0.10079409468007,
        11.637515346404,
        10.290558144322,
    ),
    ("other", 1): (6.1841403758585, 86.62544436594, 82.765674754194, 2354.5011903873, 2323.6230334933),
    ("other", 10): (1.9555968957923, 9.4971337970814, 8.2765674754194, 243.46401678083, 233.69948620754),
    ("other", 1000): (
        0.19555968957923,
        0.20482230692039,
        0.082765674754194,
        3.4894516400263,
        2.5129985826967,
    ),
}
TOLD = {("paper", 1): 16.677107420861, ("paper", 1000): 10.211148676315, ("other", 1000): 3.4894516400263}
RADII = {("paper", 1000): 2.0, ("paper", 1e6): 0.077766610320909, ("other", 1000): 1.3183623059835}

# Liu et al. 2021, Z = log(16 S^2 A H K / delta): (size, n): (1 + S H) sqrt(Z / n) of the costs, and with
# 4 H (1 + S H) / gap more that of the reward: 909 and 609 times sqrt(Z / n) in all.
LIU = {
    ("paper", 1): (510.7774422632, 4596.99698036878),
    ("paper", 10): (161.52200949869, 1453.6980854882),
    ("paper", 1000): (16.152200949869, 145.36980854882),
    ("other", 1): (131.82164008472, 2768.2544417792),
    ("other", 10): (41.685662756668, 875.39891789002),
    ("other", 1000): (4.1685662756668, 87.539891789002),
}

# Bura et al. 2022, L = log(2 S A H K / delta): (size, n): beta_r = 2 sqrt(L / n); beta_p at p^ = 0.3, as above; the
# costs' beta_r + H beta-bar before the last step and at it; the reward's (3 H / gap) beta_r + (H^2 / gap) beta-bar.
BURA = {
    ("paper", 1): (9.0554121464751, 99.816948493975, 9617.2762570517, 9575.7791454415, 19270.77416268939),
    ("paper", 10): (2.8635727534416, 10.878977623361, 972.6584849836, 959.53594608294, 1956.771260981),
    ("paper", 1000): (
        0.28635727534416,
        0.22689262633954,
        11.165334898705,
        9.8530810086392,
        23.476098898787,
    ),
    ("other", 1): (8.1576686484249, 81.377130814654, 2211.9510633072, 2182.0445560466, 11141.33200302),
    ("other", 10): (2.579681332597, 8.9460402382567, 229.4256380528, 219.96837007241, 1172.92500359),
    ("other", 1000): (
        0.2579681332597,
        0.19585466716198,
        3.3775818186971,
        2.4318550206578,
        19.467590426082,
    ),
}

# name, size, tuning: what is kept in a learner's file. Efroni et al., Algorithm 3: 1 / t_lam = rho / sqrt(H^2 m K),
# rho = H / gap. OPTAUG (reconstructed): eta = 1 / gap, sqrt(K) episodes. The practical ones are docs/tuning.md.
KEPT = [
    ("optcmdp", "paper", "theory", {"bonus_scale": 1.0, "confidence": "bernstein", "unvisited": "paper"}),
    ("optcmdp", "paper", "practical", {"bonus_scale": 0.0, "confidence": "bernstein", "unvisited": "optimistic"}),
    ("optcmdp-bonus", "paper", "theory", {"bonus_scale": 1.0, "unvisited": "paper"}),
    ("optcmdp-bonus", "paper", "practical", {"bonus_scale": 0.0, "unvisited": "optimistic"}),
    ("optdual", "paper", "theory", {"bonus_scale": 1.0, "dual_step": 0.001414213562373095, "dual_bound": 2.0}),
    ("optdual", "other", "theory", {"dual_step": 0.010206207261596576, "dual_bound": 5.0, "unvisited": "paper"}),
    ("optdual", "paper", "practical", {"bonus_scale": 0.01, "dual_step": 0.1, "unvisited": "optimistic"}),
    ("optaug", "paper", "theory", {"bonus_scale": 1.0, "penalty": 0.4, "baseline_episodes": 283, "unvisited": "paper"}),
    ("optaug", "other", "theory", {"bonus_scale": 1.0, "penalty": 1.25, "baseline_episodes": 71}),
    ("optaug", "paper", "practical", {"bonus_scale": 1e-4, "penalty": 10.0, "baseline_episodes": 0}),
    ("optaug", "other", "practical", {"confidence": "bernstein", "unvisited": "optimistic"}),
    ("optpess-lp", "paper", "theory", {"bonus_scale": 1.0}),
    ("optpess-lp", "paper", "practical", {"bonus_scale": 0.0}),
    ("dope", "paper", "theory", {"bonus_scale": 1.0, "baseline_episodes": None}),
    ("dope", "paper", "practical", {"bonus_scale": 1e-6, "baseline_episodes": 0}),
]


def made(name, size="paper", **options):
    """The learner at a size, with a safe policy that always takes action 1."""
    problem, K, delta = SIZES[size]
    if "safe policy" in fd.LEARNERS[name].needs:
        policy = np.zeros((problem.horizon, problem.states, problem.actions))
        policy[..., 1] = 1.0
        options = {"safe_policy": fd.SafePolicy(policy, SAFE_UTILITIES[size]), **options}
    return fd.make_learner(name, problem, episodes=K, delta=delta, **options)


def fill(learner, n, many=1.0, sampled=None):
    """Action 0 of state 0 was seen n times at the first and at the last step, every other cell ``many`` times.

    Its utilities were there in ``sampled`` of those times, or in all.
    """
    visits, _, sums, following = dense(learner.tally)
    visits[:] = many
    for h in (0, -1):
        visits[h, 0, 0] = n
    samples = np.array([visits] * len(sums))
    for h in (0, -1):
        samples[1:, h, 0, 0] = n if sampled is None else sampled
        sums[0, h, 0, 0], sums[1:, h, 0, 0] = 0.4 * n, 0.6 * samples[1:, h, 0, 0]
    following[0, 0, 0, :2] = 0.3, 0.7
    est = estimates(learner.problem, Dense(visits, samples, sums, following))
    learner._estimates = lambda: est
    return est


def asked(monkeypatch, name, size, n, sampled=None, **options):
    """What the learner's program is given, where every other cell was seen so often that it has no width."""
    calls = []

    def spy(transitions, f, mu, *more):
        mask = more[-1] if getattr(more[-1], "dtype", float) == np.bool_ else None
        calls.append((transitions, f, *(more if mask is None else more[:-1])))
        return Program(np.full(f.shape[1:], 0.1), np.zeros(f.shape[0]), np.zeros(f.shape[0] - 1), True, np.inf)

    learner = made(name, size, **options)
    monkeypatch.setattr(MODULES[name], PROGRAM.get(name, "extended_program"), spy)
    fill(learner, n, many=1e16, sampled=sampled)
    learner._plan(1)
    (call,) = calls
    return call


@pytest.mark.parametrize(("name", "size", "tuning", "expected"), KEPT)
def test_the_constants_of_both_tunings_are_these(name, size, tuning, expected):
    options = made(name, size, tuning=tuning).options()
    for key, value in expected.items():
        assert options[key] == (pytest.approx(value, rel=1e-14) if isinstance(value, float) else value), key


@pytest.mark.parametrize("name", ["optcmdp", "optcmdp-bonus", "optdual", "optaug", "optpess-lp", "dope"])
def test_what_is_not_said_is_the_paper_s_size_and_a_plan_in_every_episode(name):
    safe = {"safe_policy": safe_of(0.5)} if "safe policy" in fd.LEARNERS[name].needs else {}
    learner = fd.make_learner(name, one_cell(), **safe)
    told = {"episodes": 80_000, "delta": 0.1, "seed": 0, "replan": "episode", "tuning": "theory"}
    assert {key: learner.options()[key] for key in told} == told
    assert (learner.episodes, learner.seed, learner.planned_at, learner.steady()) == (80_000, 0, 0, 1)
    flags = (learner.every_episode, learner.anew, learner.own_randomness)
    assert flags == (name == "optdual", name not in ("optdual", "optaug"), False)


@pytest.mark.parametrize(("size", "n"), EFRONI)
def test_the_widths_of_efroni_mannor_and_pirotta_are_these(size, n, monkeypatch):
    mean, spread, rest, bonus, last = EFRONI[size, n]
    learner = made("optcmdp", size)
    est = fill(learner, n)
    np.testing.assert_allclose(learner._set.means(est)[:2, 0, 0, 0], [0.4 + mean, 0.6 + mean], rtol=1e-12)
    beta = bernstein(est, learner._set.log_p)
    np.testing.assert_allclose(beta[0, 0, 0, :3], [spread, spread, rest], rtol=1e-12)
    np.testing.assert_allclose(beta[-1, 0, 0], rest, rtol=1e-12)
    box = learner._set.transitions(est)
    centre = np.array([0.3, 0.7, 0.0])
    width = np.array([spread, spread, rest])
    np.testing.assert_allclose(box.lo[0, :3], np.maximum(centre - width, 0.0), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(box.up[0, :3], np.minimum(centre + width, 1.0), rtol=1e-12)
    np.testing.assert_allclose(box.spare[0], 1.0 - np.maximum(centre - width, 0.0).sum(), rtol=1e-12)
    learner = made("optcmdp-bonus", size)
    est = fill(learner, n)
    np.testing.assert_allclose(learner._bonus(est)[:, 0, 0, 0], bonus, rtol=1e-12)
    np.testing.assert_allclose(learner._bonus(est)[:, -1, 0, 0], last, rtol=1e-12)
    np.testing.assert_allclose(learner.beliefs().widths[[0, -1], 0, 0], [bonus, last], rtol=1e-12)
    _, f, alpha = asked(monkeypatch, "optcmdp-bonus", size, n)
    np.testing.assert_allclose(f[:2, 0, 0, 0], [0.4 + bonus, 0.6 + bonus], rtol=1e-12)
    assert (alpha == SIZES[size][0].thresholds).all()


@pytest.mark.parametrize("name", ["optcmdp", "optdual", "optaug"])
def test_the_three_that_share_a_confidence_set_tell_its_width(name):
    for (size, n), width in TOLD.items():
        learner = made(name, size)
        fill(learner, n)
        assert learner.beliefs().widths[0, 0, 0] == pytest.approx(width, rel=1e-12)
        learner = made(name, size, bonus_scale=0.5)
        fill(learner, 1e6)
        whole = made(name, size)
        fill(whole, 1e6)
        np.testing.assert_allclose(learner.beliefs().widths[0, 0, 0], 0.5 * whole.beliefs().widths[0, 0, 0], rtol=1e-12)


@pytest.mark.parametrize(("size", "n"), RADII)
def test_the_radii_of_the_l1_ball_are_these(size, n):
    learner = made("optcmdp", size, confidence="l1")
    ball = learner._set.transitions(fill(learner, n))
    assert ball.radius[0] == pytest.approx(RADII[size, n], rel=1e-12)
    np.testing.assert_allclose(ball.lo[0, :3], [0.3, 0.7, 0.0], atol=1e-15)
    est = fill(learner, 1e8, many=0.0)
    half = l1_ball(est, learner._set.log_p, 0.5).radius
    assert half[0] == pytest.approx(0.5 * l1_ball(est, learner._set.log_p).radius[0], rel=1e-14)
    assert half[1] == 2.0  # never seen: anything
    np.testing.assert_allclose(l1_ball(est, 1.0).lo[1], 1.0 / SIZES[size][0].states)


@pytest.mark.parametrize(("size", "n"), LIU)
def test_the_widths_of_optpess_lp_are_these(size, n, monkeypatch):
    cost, reward = LIU[size, n]
    p, f, alpha = asked(monkeypatch, "optpess-lp", size, n)
    np.testing.assert_allclose(f[:, 0, 0, 0], [0.4 + reward, *[-(0.4 + cost)] * (f.shape[0] - 1)], rtol=1e-12)
    np.testing.assert_allclose(alpha, SIZES[size][0].thresholds - SIZES[size][0].horizon, rtol=1e-14)
    np.testing.assert_allclose(p[0, 0, 0, :3], [0.3, 0.7, 0.0], atol=1e-15)
    learner = made("optpess-lp", size)
    fill(learner, n)
    assert learner.beliefs().widths[0, 0, 0] == pytest.approx(cost, rel=1e-12)


@pytest.mark.parametrize(("size", "n"), BURA)
def test_the_widths_of_dope_are_these(size, n, monkeypatch):
    beta_r, beta_p, cost, last, reward = BURA[size, n]
    rows, f, alpha = asked(monkeypatch, "dope", size, n, baseline_episodes=0)
    np.testing.assert_allclose(f[:, 0, 0, 0], [0.4 + reward, *[-(0.4 + cost)] * (f.shape[0] - 1)], rtol=1e-12)
    np.testing.assert_allclose(f[1:, -1, 0, 0], -(0.4 + last), rtol=1e-12)
    np.testing.assert_allclose(alpha, SIZES[size][0].thresholds - SIZES[size][0].horizon, rtol=1e-14)
    assert rows.up[0, 0] == pytest.approx(min(0.3 + beta_p, 1.0), rel=1e-12)
    assert rows.lo[0, 1] == pytest.approx(max(0.7 - beta_p, 0.0), rel=1e-12)
    learner = made("dope", size)
    est = fill(learner, n)
    np.testing.assert_allclose(learner._beta(est)[0][:, 0, 0, 0], beta_r, rtol=1e-12)
    np.testing.assert_allclose(learner.beliefs().widths[[0, -1], 0, 0], [cost, last], rtol=1e-12)


# A cell with four visits of which one had its utilities: the costs' mean is over one sample, transitions and reward's
# over four. (name, size): the costs' width, the reward's. Liu et al.: (1 + S H / 2) sqrt(Z), and
# ((1 + S H) / 2 + 4 H (1 + S H) / gap) sqrt(Z); Bura et al.: beta_r = 2 sqrt(L), beta_r + H beta-bar, and
# (3 H beta_r + H^2 beta-bar) / gap.
GAPS = {
    ("optpess-lp", "paper"): (257.91732233092, 4341.6082592372),
    ("optpess-lp", "other"): (68.183606940374, 2702.3436217368),
    ("dope", "paper"): (2421.4849012754, 4879.1914511366),
    ("dope", "other"): (566.58264412827, 2914.4899071256),
}


@pytest.mark.parametrize(("name", "size"), GAPS)
def test_a_mean_is_as_wide_as_its_samples_say_and_not_the_visits(name, size, monkeypatch):
    cost, reward = GAPS[name, size]
    more = {"baseline_episodes": 0} if name == "dope" else {}
    _, f, _ = asked(monkeypatch, name, size, 4, sampled=1, **more)
    np.testing.assert_allclose(f[:, 0, 0, 0], [0.4 + reward, *[-(0.4 + cost)] * (f.shape[0] - 1)], rtol=1e-12)
    learner = made(name, size)
    fill(learner, 4, sampled=1)
    assert learner.beliefs().widths[0, 0, 0] == pytest.approx(cost, rel=1e-12)


def test_the_mean_cost_of_a_cell_is_that_of_its_samples():
    learner = made("optcmdp", "other")
    est = fill(learner, 4, sampled=1)
    np.testing.assert_allclose(est.costs[:, 0, 0, 0], 0.4, rtol=1e-14)
    np.testing.assert_allclose(est.f[:, 0, 0, 0], [0.4, 0.6, 0.6, 0.6], rtol=1e-14)
    mean = EFRONI["other", 1][0]
    np.testing.assert_allclose(learner._set.means(est)[:2, 0, 0, 0], [0.4 + 0.5 * mean, 0.6 + mean], rtol=1e-12)


def test_a_mean_that_was_never_sampled_is_optimistically_1_or_its_bonus_where_that_is_more():
    for scale, mean in ((1.0, 6.6771074208613), (0.2, 1.33542148417226), (0.1, 1.0), (0.0, 1.0)):
        learner = made("optcmdp", bonus_scale=scale, unvisited="optimistic")
        est = fill(learner, 4, many=0.0, sampled=0)
        np.testing.assert_allclose(learner._set.means(est)[1, 0, 0, 0], mean, rtol=1e-12)  # visited, no utility
        np.testing.assert_allclose(learner._set.means(est)[:, 0, 0, 1], mean, rtol=1e-12)
        np.testing.assert_allclose(learner._set.means(est)[0, 0, 0, 0], 0.4 + scale * 3.33855371043065, rtol=1e-12)


def test_dope_plays_its_safe_policy_in_s2ah3_over_the_squared_gap_episodes():
    assert made("dope").first_episodes(2.5) == pytest.approx(40_000.0, rel=1e-14)
    assert made("dope", "other").first_episodes(0.8) == pytest.approx(14_700.0, rel=1e-14)
    assert made("dope", baseline_episodes=7).first_episodes(2.5) == 7.0
    for episode, safe in ((39_999, 1.0), (40_000, 0.0)):
        learner = made("dope", bonus_scale=0.0)
        fill(learner, 1.0)
        learner.episode = episode
        learner._make_plan()
        assert learner._notes() == {"baseline": safe}


def test_optaug_asks_for_the_augmented_lagrangian_with_its_penalty(monkeypatch):
    for size, penalty in (("paper", 0.4), ("other", 1.25)):
        _, f, lam, alpha, eta = asked(monkeypatch, "optaug", size, 10, baseline_episodes=0)
        mean = EFRONI[size, 10][0]
        np.testing.assert_allclose(f[:2, 0, 0, 0], [0.4 + mean, 0.6 + mean], rtol=1e-12)
        assert eta == pytest.approx(penalty, rel=1e-14)
        np.testing.assert_allclose(lam, 0.0, atol=1e-9)
        assert (alpha == SIZES[size][0].thresholds).all()


@pytest.mark.parametrize(
    ("alpha", "values", "multiplier", "feasible", "slack"),
    [
        (-1.0, (10.0, 0.0), 0.0, True, np.inf),  # the best policy is safe: no slack is asked for
        (1.0, (7.5, 1.0), 2.5, True, 3.0),  # a quarter of action 0, at a price of 10 / 4
        (4.0, (0.0, 4.0), 0.0, True, 0.0),  # no room at all
        (4.5, (0.0, 4.0), 0.0, False, -0.5),
    ],
)
def test_a_program_of_one_cell_is_solved_by_hand(alpha, values, multiplier, feasible, slack):
    # Action 1 earns 10 and has utility 0, action 0 earns nothing and has utility 4.
    f, mu = np.array([[[[0.0, 10.0]]], [[[4.0, 0.0]]]]), np.ones(1)
    anywhere = TransitionSet(np.zeros((2, 1)), np.ones((2, 1)), np.ones(2), np.zeros(0))
    for found in (
        known_program(np.zeros((1, 1, 2, 1)), f, mu, np.array([alpha])),
        extended_program(anywhere, f, mu, np.array([alpha])),
    ):
        np.testing.assert_allclose(found.values, values, atol=1e-8)
        np.testing.assert_allclose(found.multipliers, [multiplier], atol=1e-8)
        np.testing.assert_allclose(found.occupancy, [[[values[1] / 4.0, values[0] / 10.0]]], atol=1e-8)
        assert (found.feasible, found.slack) == (feasible, pytest.approx(slack, abs=1e-8))


def test_a_price_as_high_as_slater_s_condition_allows_is_found():
    # Three steps of one state: action 1 earns 1, action 0 has utility 0.1: the price is 10, of at most 3 / 0.299.
    f = np.array([[[[0.0, 1.0]]], [[[0.1, 0.0]]]]).repeat(3, axis=1)
    found = known_program(np.ones((3, 1, 2, 1)), f, np.ones(1), np.array([0.001]))
    np.testing.assert_allclose(found.values, [2.99, 0.001], atol=1e-8)
    np.testing.assert_allclose(found.multipliers, [10.0], atol=1e-7)


def test_a_best_policy_that_just_meets_its_threshold_is_the_optimum():
    # Both actions have the most utility there is, exactly the threshold; one of them earns more.
    for best in (0, 1):
        f = np.array([[[[0.25, 0.25]]], [[[0.5, 0.5]]]])
        f[0, 0, 0, best] = 1.0
        found = known_program(np.zeros((1, 1, 2, 1)), f, np.ones(1), np.array([0.5]))
        assert (found.feasible, found.slack) == (True, np.inf)
        assert found.values.tolist() == [1.0, 0.5]
        assert found.occupancy[0, 0].tolist() == [1.0 - best, float(best)]
        assert found.multipliers.tolist() == [0.0]


def test_the_slack_of_several_constraints_is_that_of_the_shortest():
    f = np.array([[[[1.0, 0.0]]], [[[0.5, 0.5]]], [[[0.0, 0.25]]]])
    found = known_program(np.zeros((1, 1, 2, 1)), f, np.ones(1), np.array([0.4, 0.75]))
    assert (found.feasible, found.slack) == (False, pytest.approx(-0.5))
    np.testing.assert_allclose(found.values, [0.0, 0.5, 0.25], atol=1e-8)


@pytest.mark.parametrize(("lam", "eta", "v"), [(0.3, 2.0, 0.4), (0.9, 0.5, 0.55), (0.9, 0.25, 0.35), (2.0, 0.25, 1.0)])
def test_an_augmented_program_of_one_cell_is_solved_by_hand(lam, eta, v):
    # Action 1 earns 1, action 0 has utility 1: with weight v on action 0 it is 1 - v - w^2 / (2 eta) with
    # w = lam + eta (0.75 - v), largest where w = 1, or at v = 1 where w is still more there.
    f = np.array([[[[0.0, 1.0]]], [[[1.0, 0.0]]]])
    found = augmented_program(np.zeros((1, 1, 2, 1)), f, np.ones(1), np.array([lam]), np.array([0.75]), eta)
    np.testing.assert_allclose(found.values, [1.0 - v, v], atol=1e-8)
    np.testing.assert_allclose(found.occupancy, [[[v, 1.0 - v]]], atol=1e-8)
    np.testing.assert_allclose(found.multipliers, [lam + eta * (0.75 - v)], atol=1e-8)
    assert found.feasible


def test_optaug_leaves_its_safe_policy_after_the_first_episodes():
    for episode, safe in ((282, 1.0), (283, 0.0)):
        learner = made("optaug", tuning="theory")
        learner.episode = episode
        learner._make_plan()
        assert learner._notes() == {"baseline": safe}


def test_the_safe_policy_of_optaug_is_told_as_long_as_its_plan_is_played():
    cmdp = small_cmdp(S=2, A=2, H=2)
    safe = fd.safe_policy(cmdp, 0.5 * fd.slater_gap(cmdp))
    options = {"episodes": 100, "replan": 5, "baseline_episodes": 2, "safe_policy": safe}
    learner = fd.make_learner("optaug", cmdp.problem(), **options)
    world, told = World(cmdp), []
    for _ in range(7):
        assert (learner.policy == safe.policy).all() == (learner.episode < 5)
        told.append(learner._notes()["baseline"])
        learner.observe(world.play(learner.policy))
    assert told == [1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0]


# -- first states that nobody told -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["optcmdp", "optcmdp-bonus", "optdual", "optaug", "optpess-lp", "dope"])
def test_a_plan_starts_where_episodes_were_seen_to_start(name):
    # One step, all known but the first state: three of four episodes begin in state 0. V_r = 3/4 and
    # V_d = 0.75 x 0.4 + 0.25 x 0.8.
    known = {"rewards": [[[1.0], [0.0]]], "utilities": [[[[0.4], [0.8]]]], "transitions": np.full((1, 2, 1, 2), 0.5)}
    problem = fd.Problem(2, 1, 1, None, [0.1], 0.25, **known)
    more = {}
    if "safe policy" in fd.LEARNERS[name].needs:
        more = {"safe_policy": fd.SafePolicy([[[1.0], [1.0]]], [0.6])}
    if name in ("dope", "optaug"):
        more["baseline_episodes"] = 0
    learner = fd.make_learner(name, problem, episodes=10, **more)
    np.testing.assert_allclose(learner.planned_values, [0.5, 0.6], atol=1e-9)  # every state alike
    for s, reward, utility in ((0, 1.0, 0.4), (1, 0.0, 0.8), (0, 1.0, 0.4), (0, 1.0, 0.4)):
        learner.observe(fd.Episode([s, 0], [0], [reward], [[utility]]))
    np.testing.assert_allclose(learner.planned_values, [0.75, 0.5], atol=1e-9)
    assert learner._notes().get("baseline", 0.0) == 0.0


# -- both sides of a comparison ----------------------------------------------------------------------------------------


def one_cell(alpha=0.25, **known):
    """S = A = H = 1, a reward of 1 and a utility of 1/2, all known."""
    parts = {"rewards": [[[1.0]]], "utilities": [[[[0.5]]]], "transitions": [[[[1.0]]]], **known}
    return fd.Problem(states=1, actions=1, horizon=1, initial=0, thresholds=[alpha], slater_gap=0.25, **parts)


def safe_of(utility):
    return fd.SafePolicy([[[1.0]]], [utility])


@pytest.mark.parametrize(("utility", "safe"), [(0.7499, 0.0), (0.75, 1.0), (0.7501, 1.0)])
def test_optpess_lp_plays_its_safe_policy_while_its_cost_may_be_half_way(utility, safe):
    # V_c = 1/2, tau = 3/4: half-way between c0 = 1 - utility and tau at utility = 3/4.
    learner = fd.make_learner("optpess-lp", one_cell(), episodes=10, safe_policy=safe_of(utility))
    assert learner._notes() == {"baseline": safe}


@pytest.mark.parametrize(("utilities", "safe"), [((0.6, 0.6), 0.0), ((0.6, 0.9), 1.0), ((0.9, 0.6), 1.0)])
def test_optpess_lp_plays_its_safe_policy_while_any_of_its_costs_may_be_half_way(utilities, safe):
    # As above, twice: the cost of 1/2 is below half-way at a utility of 0.6 and above it at 0.9.
    parts = {"rewards": [[[1.0]]], "utilities": np.full((2, 1, 1, 1), 0.5), "transitions": [[[[1.0]]]]}
    problem = fd.Problem(states=1, actions=1, horizon=1, initial=0, thresholds=[0.25] * 2, slater_gap=0.25, **parts)
    learner = fd.make_learner(
        "optpess-lp", problem, episodes=10, safe_policy=fd.SafePolicy([[[1.0]]], np.array(utilities))
    )
    assert learner._notes() == {"baseline": safe}


@pytest.mark.parametrize("name", ["optpess-lp", "dope"])
@pytest.mark.parametrize(("sample", "safe"), [(0.49, 0.0), (0.5, 1.0), (0.51, 1.0)])
def test_a_safe_policy_without_room_to_spare_is_played(name, sample, safe):
    # Hidden thresholds: the mean of the samples comes up to the policy's known utility, or passes it.
    problem = one_cell(float("nan"), utilities=[[[[0.8]]]])
    options = {"baseline_episodes": 0} if name == "dope" else {}
    learner = fd.make_learner(name, problem, episodes=10, safe_policy=safe_of(0.5), **options)
    learner.observe(fd.Episode([0, 0], [0], [1.0], [[0.8]], [[sample]]))
    assert learner._notes() == {"baseline": safe}
    assert learner.thresholds[0] == sample


@pytest.mark.parametrize("name", ["optpess-lp", "dope"])
def test_where_the_program_has_no_solution_the_safe_policy_is_played(name, monkeypatch):
    def unsolved(transitions, f, mu, alpha, mask):
        return Program(np.zeros(f.shape[1:]), np.zeros(f.shape[0]), np.ones(alpha.size), False, -1.0)

    learner = made(name, bonus_scale=0.0, **({"baseline_episodes": 0} if name == "dope" else {}))
    assert learner._notes() == {"baseline": 0.0}
    monkeypatch.setattr(MODULES[name], PROGRAM.get(name, "extended_program"), unsolved)
    learner._make_plan()
    assert learner._notes() == {"baseline": 1.0}
    assert (learner.policy == learner.safe_policy.policy).all()
    assert (learner.multipliers == 0.0).all()


@pytest.mark.parametrize("name", ["optpess-lp", "dope", "optaug"])
def test_a_safe_policy_must_exceed_its_threshold(name):
    above = np.nextafter(0.25, 1.0)
    assert fd.make_learner(name, one_cell(), safe_policy=safe_of(above)).safe_policy.utilities[0] == above
    with pytest.raises(fd.ValidationError, match=r"must exceed the threshold, 0.25"):
        fd.make_learner(name, one_cell(), safe_policy=safe_of(0.25))
    assert fd.make_learner(name, one_cell(), safe_policy=safe_of(1.0 + 0.99e-9))  # rounding
    for utility in (1.0 + 1.01e-9, -1e-12):
        with pytest.raises(fd.ValidationError, match=r"safe_policy.utilities"):
            fd.make_learner(name, one_cell(), safe_policy=safe_of(utility))


def test_the_utility_of_a_safe_policy_is_not_negative_where_the_threshold_is_hidden():
    hidden = one_cell(float("nan"))
    assert fd.make_learner("dope", hidden, safe_policy=safe_of(0.0)).safe_policy.utilities[0] == 0.0
    with pytest.raises(fd.ValidationError, match=r"safe_policy.utilities"):
        fd.make_learner("dope", hidden, safe_policy=safe_of(-1e-12))


def test_what_rounding_makes_negative_in_an_occupancy_is_not_played():
    assert policy_of(np.array([[[0.5, -1e-17, 0.25], [0.0, -1e-17, 0.0]]])).tolist() == [
        [[2 / 3, 0.0, 1 / 3], [1 / 3] * 3]
    ]


def test_a_safe_policy_may_be_a_mapping_with_just_these_keys():
    parts = {"policy": [[[1.0]]], "utilities": [0.5]}
    learner = fd.make_learner("dope", one_cell(), safe_policy=parts)
    assert learner.options()["safe_policy"] == parts
    for bad in ({"policy": [[[1.0]]]}, {**parts, "value": 1.0}):
        with pytest.raises(fd.ValidationError, match="it must have policy and utilities"):
            fd.make_learner("dope", one_cell(), safe_policy=bad)


@pytest.mark.parametrize("name", ["dope", "optaug"])
def test_the_first_phase_has_0_to_2_to_the_53_episodes(name):
    for episodes in (0, 2**53):
        learner = fd.make_learner(name, one_cell(), safe_policy=safe_of(0.5), baseline_episodes=episodes)
        assert learner.options()["baseline_episodes"] == episodes
        assert learner._notes() == {"baseline": float(episodes > 0)}
    for episodes in (-1, 2**53 + 1):
        with pytest.raises(fd.ValidationError, match="baseline_episodes is"):
            fd.make_learner(name, one_cell(), safe_policy=safe_of(0.5), baseline_episodes=episodes)


def test_a_penalty_is_positive_and_scales_and_steps_are_not_negative():
    assert fd.make_learner("optaug", one_cell(), safe_policy=safe_of(0.5), penalty=1e-3).options()["penalty"] == 1e-3
    with pytest.raises(fd.ValidationError, match=r"penalty is 0.0; it must be positive"):
        fd.make_learner("optaug", one_cell(), safe_policy=safe_of(0.5), penalty=0.0)
    for name, option in (("optcmdp", "bonus_scale"), ("optdual", "dual_step"), ("optdual", "dual_bound")):
        assert made(name, **{option: 0.0}).options()[option] == 0.0
        with pytest.raises(fd.ValidationError, match=f"{option} is -"):
            made(name, **{option: -1e-12})


@pytest.mark.parametrize("confidence", ["l2", "", 1, None])
def test_other_confidence_sets_are_refused(confidence):
    for name in ("optcmdp", "optdual", "optaug"):
        with pytest.raises(fd.ValidationError, match="it must be 'bernstein' or 'l1'"):
            made(name, confidence=confidence)


# -- when plans are made -----------------------------------------------------------------------------------------------

GROWN = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 21, 24, 27, 30, 33, 37, 41, 46, 51, 57]  # a tenth more
RULES = {
    "episode": list(range(60)),
    1: list(range(60)),
    7: [0, 7, 14, 21, 28, 35, 42, 49, 56],
    1.1: GROWN,
    2.0: [0, 1, 2, 4, 8, 16, 32],
    1e6: [0, 1],
}


@pytest.mark.parametrize("rule", RULES)
def test_plans_follow_exactly_these_episodes(rule):
    cmdp = small_cmdp(S=2, A=2, H=2)
    learner = fd.make_learner("optcmdp-bonus", cmdp.problem(), episodes=100, replan=rule)
    episode = World(cmdp).play(np.full((2, 2, 2), 0.5))
    made, changes = [], [0]
    for e in range(1, 60):
        made.append(learner.steady())
        learner.observe(episode)
        if learner.planned_at == e:
            changes.append(e)
    assert changes == RULES[rule]
    due = as_replan(rule).following(changes[-1])
    assert made == [max([*changes, due][sum(c <= e for c in changes)] - e, 1) for e in range(59)]


def test_doubling_plans_when_the_visits_of_the_same_cells_are_1_2_4_8():
    cmdp = small_cmdp(S=2, A=2, H=2)
    learner = fd.make_learner("optcmdp-bonus", cmdp.problem(), episodes=100, replan="doubling")
    episode = World(cmdp).play(np.full((2, 2, 2), 0.5))
    plans = []
    for e in range(1, 40):
        learner.observe(episode)
        if learner.planned_at == e:
            plans.append(e)
    assert plans == [1, 2, 4, 8, 16, 32]
    assert learner.steady() == NEVER - 39
    assert as_replan("doubling").following(7) == NEVER == 4611686018427387904


def test_the_bounds_of_a_growth_factor_are_1_and_a_million():
    assert as_replan(np.nextafter(1.0, 2.0)).following(3) == 4
    assert as_replan(1e6).given == 1e6
    assert as_replan(np.int64(2)).given == 2
    assert as_replan(np.float32(1.5)).given == 1.5
    assert [as_replan(1.1).following(e) for e in (0, 1, 10, 11)] == [1, 2, 11, 13]
    for rule in (1.0, np.nextafter(1e6, 1e7), 0, -1, "weekly", True, None):
        with pytest.raises(fd.ValidationError, match="replan is"):
            as_replan(rule)


def test_a_number_of_episodes_is_1_to_2_to_the_53_and_1_is_every_episode():
    assert as_replan(1).given == "episode"
    assert as_replan(2).given == 2
    assert as_replan(2**53).given == 2**53
    with pytest.raises(fd.ValidationError, match="replan is"):
        as_replan(2**53 + 1)


def test_an_overdue_plan_is_made_before_the_next_episode_and_not_earlier():
    learner = fd.make_learner("optcmdp-bonus", small_cmdp(S=2, A=2, H=2).problem(), episodes=100, replan=5)
    for episode, planned in ((4, 0), (5, 5), (9, 5), (11, 11)):
        learner.episode = episode
        assert learner.steady() == 1  # never less than one, however late it is
        learner.settle()
        assert learner.planned_at == planned


def test_who_moves_in_every_episode_stays_for_one():
    learner = fd.make_learner("optdual", small_cmdp(S=2, A=2, H=2).problem(), episodes=100, replan=5)
    assert learner.steady() == 1


def test_a_plan_is_told_how_many_episodes_were_played_since_the_last_and_logged_ones_are_not(monkeypatch):
    cmdp = small_cmdp(S=2, A=2, H=2)
    learner = fd.make_learner("optaug", cmdp.problem(), episodes=100, replan=3, safe_policy=fd.safe_policy(cmdp, 0.01))
    told, plan = [], type(learner)._plan
    monkeypatch.setattr(type(learner), "_plan", lambda self, episodes: told.append(episodes) or plan(self, episodes))
    episode = World(cmdp).play(np.full((2, 2, 2), 0.5))
    learner.preload([episode, episode])
    for k in range(1, 9):
        learner.observe(episode)
        new = learner.since
        assert new.new_visits.sum() == 2 * (k % 3)
        assert learner.visits.sum() == 2 * (2 + k)
        assert new.new_sums[0].sum() == pytest.approx(k % 3 * sum(episode.rewards))
    assert told == [0, 3, 3]


# -- mixtures and files ------------------------------------------------------------------------------------------------


def mixed(weights, seed=0, episode=0):
    """A learner whose plan is a mixture."""
    learner = fd.make_learner("optcmdp-bonus", small_cmdp(S=2, A=2, H=2).problem(), episodes=100, seed=seed)
    policies = np.full((len(weights), 2, 2, 2), 0.5)
    learner._present = Present(Plan(policies, np.array(weights), np.zeros(1), np.zeros(2)), 0, 0, 0)
    learner.episode = episode
    return learner


def test_the_numbers_that_policies_are_drawn_with_are_these():
    # PCG64 seeded with [0, 97]: 0.6803 0.2450 0.0469 0.6662; with [5, 97], after three: 0.8065 0.7648 0.1841 0.0374.
    assert mixed([0.2, 0.4, 0.4]).draws(4).tolist() == [2, 1, 0, 2]
    assert mixed([0.24, 0.44, 0.32]).draws(4).tolist() == [2, 1, 0, 1]
    assert mixed([0.18, 0.6, 0.22], seed=5, episode=3).draws(4).tolist() == [2, 1, 1, 0]
    assert mixed([0.3, 0.4, 0.0], seed=5, episode=3).draws(4).tolist() == [1, 1, 0, 0]  # rounding never draws a zero
    assert mixed([0.5, 0.5]).draws(4).tolist() == [1, 0, 0, 1]
    assert mixed([1.0]).draws(3).tolist() == [0, 0, 0]


@pytest.mark.parametrize(("count", "fits"), [(1, True), (64, True), (65, False)])
def test_a_file_holds_up_to_64_policies(count, fits):
    state = mixed([1.0 / count] * count).state()
    learner = mixed([1.0])
    if fits:
        learner.restore(state)
        assert learner.mixture[0].size == count
    else:
        with pytest.raises(fd.ValidationError, match="65 entries; there are 1 to 64"):
            learner.restore(state)


def test_a_file_holds_one_policy_at_least():
    with pytest.raises(fd.ValidationError, match="0 entries; there are 1 to 64"):
        mixed([1.0]).restore({**mixed([1.0]).state(), "plan_weights": np.zeros(0)})


def taught(name, replan, episodes=3):
    """A learner that has seen the same episode so often, and that episode."""
    cmdp = small_cmdp(S=2, A=2, H=2)
    learner = fd.make_learner(name, cmdp.problem(), episodes=100, replan=replan, bonus_scale=0.0)
    episode = World(cmdp).play(np.full((2, 2, 2), 0.5))
    for _ in range(episodes):
        learner.observe(episode)
    return learner


def restored(learner, replan, state):
    again = taught(learner.id, replan, 0)
    again.episode = learner.episode
    again.restore(state)
    return again


def test_a_file_remembers_that_a_plan_is_due_since_a_count_doubled():
    learner = taught("optcmdp-bonus", "doubling")
    state = learner.state()
    assert "unsettled" not in state
    calm = restored(learner, "doubling", state)
    calm.settle()
    assert calm.planned_at == learner.planned_at == 2
    learner._doubled[0] = 1
    state = learner.state()
    assert state["unsettled"].tolist() == [1]
    due = restored(learner, "doubling", state)
    due.settle()
    assert due.planned_at == 3
    for number in (0.0, 2.0):
        with pytest.raises(fd.ValidationError, match="unsettled"):
            restored(learner, "doubling", {**state, "unsettled": np.array([number])})
    late = taught("optcmdp-bonus", 5)
    late._doubled[0] = 1  # counts do not decide
    assert "unsettled" not in late.state()


def test_a_file_remembers_that_a_step_is_due():
    learner = taught("optdual", 5)
    assert "unsettled" not in learner.state()
    calm = restored(learner, 5, learner.state())
    calm.settle()
    assert (calm.multipliers == learner.multipliers).all()
    learner._present = replace(learner._present, moved=2)
    again = restored(learner, 5, learner.state())
    assert learner.state()["unsettled"].tolist() == [1]
    before = learner.multipliers
    for one in (learner, again):
        one.settle()
    assert (again.multipliers == learner.multipliers).all()
    assert not (before == learner.multipliers).all()


def test_a_file_counts_new_visits_from_the_plan_in_force_on():
    learner = taught("optcmdp-bonus", 5)
    again = restored(learner, 5, learner.state())
    again.settle()
    assert again.state()["new_visits"].sum() == learner.state()["new_visits"].sum() == 3 * 2
    learner._cleared -= 1  # an interrupt between a plan and this
    state = learner.state()
    assert state["new_visits"].sum() == state["new_sums"].sum() == state["new_returns"].sum() == 0
    assert (state["limit"] == state["n_visits"] + np.maximum(state["n_visits"], 1)).all()
    assert learner.since.new_visits.sum() == 3 * 2
    doubled = taught("optcmdp-bonus", "doubling")
    doubled._doubled[0], doubled._cleared = 1, -1
    assert "unsettled" not in doubled.state()


SUM = 1e300
BOUNDS = [  # of an entry of a file: smallest and largest number, and whether it is whole
    ("optcmdp-bonus", {}, "planned", 0.0, 3.0, True),
    ("optcmdp-bonus", {}, "plan_multipliers", 0.0, SUM, False),
    ("optcmdp-bonus", {}, "plan_values", -SUM, SUM, False),
    ("optaug", {}, "own_lam", 0.0, SUM, False),
    ("optdual", {}, "own_lam", 0.0, SUM, False),
    ("optdual", {}, "own_f", 0.0, SUM, False),
    ("optdual", {}, "own_lo", -1e-9, None, False),
    ("optdual", {}, "own_up", None, 1.0, False),
    ("optdual", {}, "own_spare", -1e-9, 1.0, False),
    ("optdual", {"confidence": "l1"}, "own_radius", 0.0, 2.0, False),
    ("optpess-lp", {}, "own_baseline", 0.0, 1.0, True),
    ("dope", {}, "own_baseline", 0.0, 1.0, True),
]


@pytest.mark.parametrize(("name", "options", "entry", "low", "high", "whole"), BOUNDS)
def test_a_number_of_a_file_is_refused_beyond_its_bounds(name, options, entry, low, high, whole):
    cmdp = small_cmdp(S=2, A=2, H=2)
    if "safe policy" in fd.LEARNERS[name].needs:
        options = {**options, "safe_policy": fd.safe_policy(cmdp, 0.5 * fd.slater_gap(cmdp))}
    learner = fd.make_learner(name, cmdp.problem(), episodes=10, **options)
    fd.simulate(learner, cmdp, episodes=3)
    state = learner.state()
    flat = np.zeros(state[entry].size)
    for bound, sign in ((low, -1.0), (high, 1.0)):
        if bound is None:
            continue
        beyond = bound + sign if whole else np.nextafter(bound, sign * np.inf)
        for number, fits in ((bound, True), (beyond, False)):
            flat[:] = np.asarray(state[entry], dtype=float).ravel()
            flat[-1] = number
            changed = {**state, entry: flat.reshape(state[entry].shape)}
            if fits:
                learner.restore(changed)
                assert np.asarray(learner.state()[entry], dtype=float).ravel()[-1] == number
            else:
                with pytest.raises(fd.ValidationError, match=entry):
                    learner.restore(changed)
    if whole:
        with pytest.raises(fd.ValidationError, match=f"{entry} holds a number that is not whole"):
            learner.restore({**state, entry: np.full(state[entry].shape, 0.5)})


def test_a_lower_bound_above_the_upper_one_is_refused():
    cmdp = small_cmdp(S=2, A=2, H=2)
    learner = fd.make_learner("optdual", cmdp.problem(), episodes=10)
    state = learner.state()
    learner.restore({**state, "own_lo": state["own_up"]})
    with pytest.raises(fd.ValidationError, match=r"own_lo exceeds state.own_up"):
        learner.restore({**state, "own_lo": state["own_up"], "own_up": state["own_up"] - 1e-12})


# -- the safe policy's estimate ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["dope", "optaug", "optpess-lp"])
def test_while_the_safe_policy_is_played_its_reward_is_estimated_from_what_was_seen(name):
    cmdp = small_cmdp(S=2, A=2, H=2)
    safe = fd.safe_policy(cmdp, 0.5 * fd.slater_gap(cmdp))
    learner = fd.make_learner(name, cmdp.problem(), episodes=10_000, safe_policy=safe)
    assert learner.beliefs().value == 0.0  # nothing seen
    world = World(cmdp)
    fd.simulate(learner, cmdp, episodes=1)
    one = learner.beliefs().value
    for _ in range(400 if name == "optpess-lp" else 60):
        learner.observe(world.play(learner.policy))
    history = fd.simulate(learner, cmdp, episodes=20)
    assert (history.diagnostics["baseline"] == 1.0).all()
    told, truth = history.diagnostics["value"], fd.evaluate(cmdp, safe.policy).value
    np.testing.assert_allclose(told, truth, rtol=0.25)
    assert 0.0 < one != told[-1]
    assert (learner.policy == safe.policy).all()
    if name != "optpess-lp":
        assert (learner.beliefs().utilities == safe.utilities).all()


def test_what_is_revealed_makes_the_estimate_exact():
    cmdp = small_cmdp(S=2, A=2, H=2)
    safe = fd.safe_policy(cmdp, 0.5 * fd.slater_gap(cmdp))
    problem = cmdp.problem(reveal=("rewards", "transitions"))
    for name in ("dope", "optaug", "optpess-lp"):
        learner = fd.make_learner(name, problem, episodes=10_000, safe_policy=safe)
        assert learner._notes() == {"baseline": 1.0}
        assert learner.beliefs().value == pytest.approx(fd.evaluate(cmdp, safe.policy).value, rel=1e-12)
