"""The steps of the proof of docs/suredome.md, each by itself, and the learners that rest on it."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

import flexdome as fd
from flexdome.certificates import LowerSequence
from flexdome.certificates import kernels as sequences
from flexdome.learners.guarded import guard, kernels, ledger, planner
from flexdome.learners.guarded.guard import Guarded
from flexdome.learners.guarded.ledger import Ledger
from flexdome.learners.seen.dense import dense
from flexdome.learners.seen.tally import Tally
from flexdome.planning import slater_gap
from flexdome.simulation.check import small_cmdp

FAMILIES = ("paper-v1", "independent-v1", "conflict-v1", "multi-v1", "river-v1", "opposed-v1", "media-v1")


def safe_of(cmdp, share=0.5):
    return fd.safe_policy(cmdp, share * slater_gap(cmdp))


def known_small():
    base = small_cmdp()
    return fd.CMDP(base.transitions, base.rewards, base.utilities, base.alpha, base.initial)


def guarded(cmdp, inside="flexdome", episodes=200, **options):
    safe = options.pop("safe_policy", None) or safe_of(cmdp)
    return Guarded(cmdp.problem(), episodes=episodes, inside=inside, safe_policy=safe, **options)


def naive_bound(xs, level, guess):
    """The last k / 2048 before the first whose capital never reached 1 / level; bets written anew from the formula."""
    best = 0.0
    for mean in np.arange(1, 2048) / 2048:
        capital, reached = 1.0, False
        centre, squares, weight = 20.0 * guess[0], 20.0 * guess[1], 20.0
        for x in xs:
            m, v = centre / weight, squares / weight
            bet = min((m - mean) / v, 0.95 / mean) if int(m * 2048) >= round(mean * 2048) else 0.0
            capital *= 1.0 + max(bet, 0.0) * (x - mean)
            if capital >= 1.0 / level:
                reached = True
                break
            centre, squares, weight = centre + x, squares + (x - m) ** 2, weight + 1.0
        if not reached:
            return best
        best = mean
    return best


def played(learner, cmdp, count, seed=3):
    """Which frozen policy played each of ``count`` episodes, and its total utilities."""
    drawn, totals = [], []
    for t in range(count):
        number = learner.ledger.policies[learner._drawn].number
        log = fd.play(learner.policy, cmdp, episodes=1, seed=seed * 100_000 + t)
        utilities = log.observed[0, 1:]
        drawn.append(number)
        totals.append(utilities.sum(axis=1))
        thresholds = None if learner.problem.thresholds_known else cmdp.alpha
        learner.observe(fd.Episode(log.states[0], log.actions[0], log.observed[0, 0], utilities, thresholds))
    return np.array(drawn), np.array(totals)


# -- the proof, step by step ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [1, 3])
def test_the_levels_of_all_candidates_sum_to_delta(m):
    book = Ledger(fd.SafePolicy(np.ones((2, 1, 1)), np.ones(m)), 0.1)
    spent = [m * math.exp(-book.level(k)) for k in range(1, 20_000)]
    assert 0.0999 < sum(spent) < 0.1


def test_only_its_own_episodes_move_the_bounds_of_a_policy():
    cmdp = fd.make_cmdp("multi-v1", states=5, actions=3, horizon=4, constraints=2)
    learner = guarded(cmdp)
    drawn, totals = played(learner, cmdp, 160)
    policies = [one for one in learner.ledger.policies if one.number > 0]
    assert len(policies) == learner.ledger.frozen >= 2
    for one in policies:
        own = totals[drawn == one.number] / cmdp.horizon
        assert one.count == len(own)
        for i in range(2):
            level = 10.0 * 0.05 / ((one.number + 9) * (one.number + 10) * 2)
            twin = naive_bound(own[:, i], level, one.guess[i])
            assert one.bound[i] == pytest.approx(cmdp.horizon * twin, abs=1e-12)
    assert max(one.count for one in policies) > 3


def test_gamma_is_the_largest_share_that_the_bounds_allow():
    rng = np.random.default_rng(0)
    shares = np.linspace(0.0, 1.0, 20_001)
    for _ in range(60):
        m = int(rng.integers(1, 4))
        alpha, base = rng.uniform(1.0, 2.0, m), rng.uniform(2.0, 4.0, m)
        book = Ledger(fd.SafePolicy(np.ones((4, 1, 1)), base), 0.1)
        at = book.freeze(np.ones((4, 1, 1)), np.zeros(1 + m), alpha)
        book.policies[at].bound[:] = rng.uniform(0.0, 3.0, m)
        mixed = (1.0 - shares)[:, None] * base + shares[:, None] * book.policies[at].bound
        largest = shares[(mixed >= alpha - 1e-12).all(axis=1)].max()
        assert book.share(0, at, alpha) == pytest.approx(largest, abs=1e-4)
        assert book.share(at, 0, alpha) == (1.0 if (book.policies[at].bound >= alpha).all() else 0.0)


@pytest.mark.parametrize(
    ("family", "delta", "runs"),
    [
        ("media-v1", 0.5, 100),
        pytest.param("media-v1", 0.9, 300, marks=pytest.mark.slow),
        pytest.param("multi-v1", 0.5, 300, marks=pytest.mark.slow),
    ],
)
def test_all_bounds_hold_in_all_but_delta_of_the_runs(family, delta, runs, monkeypatch):
    monkeypatch.setattr(guard, "FIRST", 10)  # many candidates in a short run
    cmdp, wrong = fd.make_cmdp(family, **({"states": 4, "actions": 2, "horizon": 3} if family == "multi-v1" else {})), 0
    safe = safe_of(cmdp)
    for seed in range(runs):
        learner = guarded(cmdp, episodes=80, delta=delta, seed=seed, safe_policy=safe)
        fd.simulate(learner, cmdp, seed=seed)
        true = fd.evaluate(cmdp, np.array([one.policy for one in learner.ledger.policies])).utilities
        bounds = np.array([one.bound for one in learner.ledger.policies])
        wrong += bool((bounds > true + 1e-9).any())
    assert wrong / runs <= delta + 3.0 * math.sqrt(delta * (1.0 - delta) / runs)


def test_without_the_share_of_delta_the_bounds_are_wrong_too_often(monkeypatch):
    """What the test before this one sees if every candidate may use nearly all confidence there is."""
    monkeypatch.setattr(guard, "FIRST", 10)
    monkeypatch.setattr(Ledger, "level", lambda self, k: -math.log(0.99))
    cmdp, wrong = fd.make_cmdp("media-v1"), 0
    for seed in range(30):
        learner = guarded(cmdp, episodes=80, delta=0.1, seed=seed)
        fd.simulate(learner, cmdp, seed=seed)
        true = fd.evaluate(cmdp, np.array([one.policy for one in learner.ledger.policies])).utilities
        wrong += bool((np.array([one.bound for one in learner.ledger.policies]) > true + 1e-9).any())
    assert wrong / 30 > 0.3


# -- no mixture is unsafe ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_no_mixture_is_unsafe(family):
    """21 instances in all, three of each family."""
    for seed in range(3):
        cmdp = fd.make_cmdp(family, seed=700 + seed)
        learner = fd.SureDOME(cmdp.problem(), episodes=250, seed=seed, safe_policy=safe_of(cmdp))
        history = fd.simulate(learner, cmdp, seed=seed)
        assert history.strong_violation[-1] == 0.0
        assert learner.ledger.frozen >= 1


@pytest.mark.parametrize(
    ("family", "runs"),
    [("media-v1", 40), *(pytest.param(name, 200, marks=pytest.mark.slow) for name in FAMILIES)],
)
def test_suredomes_bounds_hold_in_all_but_delta_of_the_runs(family, runs):
    cmdp, wrong, delta = fd.make_cmdp(family), 0, 0.6
    safe = safe_of(cmdp)
    for seed in range(runs):
        learner = fd.SureDOME(cmdp.problem(), episodes=400, delta=delta, seed=seed, safe_policy=safe)
        fd.simulate(learner, cmdp, seed=seed)
        true = fd.evaluate(cmdp, np.array([one.policy for one in learner.ledger.policies])).utilities
        wrong += bool((np.array([one.bound for one in learner.ledger.policies]) > true + 1e-9).any())
    assert wrong / runs <= delta + 3.0 * math.sqrt(delta * (1.0 - delta) / runs)


@pytest.mark.parametrize("guess", [(0.9, 0.09), (0.95, 0.03), (0.8, 0.2)], ids=["right", "bold", "timid"])
def test_a_sequence_is_wrong_no_more_often_than_it_may_be_whatever_was_guessed(guess):
    grid = Ledger(fd.SafePolicy(np.ones((2, 1, 1)), np.ones(1)), 0.1).book.grid
    rng, wrong, runs = np.random.default_rng(2), 0, 400
    for _ in range(runs):
        row, capital = np.zeros(sequences.SIZE), np.ones(grid.shape[1])
        for x in (rng.random(60) < 0.9).astype(float):
            bound = kernels.bet(row, capital, grid, np.array(guess), x, math.log(10.0))
        wrong += bound > 0.9
    assert wrong / runs <= 0.1 + 3.0 * math.sqrt(0.09 / runs)


def test_a_guess_that_is_right_brings_a_bound_soon():
    grid = Ledger(fd.SafePolicy(np.ones((2, 1, 1)), np.ones(1)), 0.1).book.grid
    row, capital, plain = np.zeros(sequences.SIZE), np.ones(grid.shape[1]), LowerSequence(math.exp(-6.0))
    for _ in range(20):
        soon = kernels.bet(row, capital, grid, np.array([0.7, 0.01]), 0.7, 6.0)
    plain.extend(np.full(20, 0.7))
    assert soon > 0.5
    assert plain.bound < 0.42


# -- what is proposed ----------------------------------------------------------------------------------------------


def test_where_all_is_known_the_plan_is_the_optimum_and_nothing_else_is_plausible():
    cmdp = known_small()
    problem = cmdp.problem(reveal=("transitions", "rewards", "utilities"))
    seen = planner.sketch(problem, dense(Tally(problem)))
    plan = planner.plan_to_earn(problem, seen, cmdp.alpha, 0.15)
    best = fd.solve(cmdp)
    assert plan.meets
    assert plan.values[0] == pytest.approx(best.value, abs=1e-9)
    tried = planner.plan_to_learn(problem, seen, best.multipliers, 0.3).policy
    assert fd.evaluate(cmdp, tried).value + best.multipliers @ fd.evaluate(cmdp, tried).utilities == pytest.approx(
        best.value + best.multipliers @ best.utilities, abs=1e-9
    )


def test_where_nothing_is_known_everything_allowed_is_tried_alike():
    cmdp = known_small()
    allowed = np.ones((cmdp.states, cmdp.actions), dtype=bool)
    allowed[1, 0] = False
    problem = dataclasses.replace(cmdp.problem(), allowed=allowed)
    tried = planner.plan_to_learn(problem, planner.sketch(problem, dense(Tally(problem))), np.zeros(2), 0.3)
    assert np.allclose(tried.policy, problem.uniform)
    assert planner.plan_to_earn(problem, planner.sketch(problem, dense(Tally(problem))), cmdp.alpha, 0.15) is None


def test_a_plan_that_is_hardly_better_does_not_replace_the_main_policy():
    cmdp = fd.make_cmdp("media-v1")
    learner = fd.SureDOME(cmdp.problem(), episodes=4000, safe_policy=safe_of(cmdp))
    fd.simulate(learner, cmdp, seed=0)
    book = learner.ledger.book
    main = learner.ledger.place(int(book.places[kernels.MAIN]))
    assert main > 0
    values = np.append(book.reward[main], learner.ledger.mean(main))
    same = planner.Proposal(book.policies[main], values, np.zeros(1), True)
    assert not learner._pays(same, main, cmdp.alpha)
    better = same._replace(values=values + np.array([0.5, 0.0]))
    assert learner._pays(better, main, cmdp.alpha)


def test_an_action_is_plausible_while_any_of_its_means_is_in_doubt():
    # Rewards 0.5 and 0.4 after 100 samples, the utilities after one: 0.3 of a spread of 0.2 is 0.06 then, and twice
    # that is more than what the second action earns less; after 100 it is 0.006.
    problem = fd.Problem(1, 2, 1, [1.0], [0.2], 0.4)
    f = np.array([[[[0.5, 0.4]]], [[[0.3, 0.3]]]])
    for samples, tried in ((1.0, [0.5, 0.5]), (100.0, [1.0, 0.0])):
        doubt = np.stack([np.full((1, 1, 2), 0.1), np.full((1, 1, 2), 1.0 / math.sqrt(samples))])
        seen = planner.Sketch(
            np.full((1, 1, 2), 100.0), np.ones((1, 1, 2, 1)), f, np.full(2, 0.2), doubt, np.ones(f.shape, dtype=bool)
        )
        assert planner.plan_to_learn(problem, seen, np.zeros(1), 0.3).policy.ravel().tolist() == tried


def test_a_policy_that_is_shown_safe_is_not_held_to_be_mixed_with_itself():
    # alpha = 2, the safe policy has 3 and earns 1. The other is shown to have 2.5, is now thought to have 1, and earns
    # 4: mixed half and half with the safe one it brings 2.5 in an episode, and with itself it would bring 4.
    problem = fd.Problem(1, 1, 5, [1.0], [2.0], 0.5)
    learner = fd.SureDOME(problem, episodes=100, safe_policy=fd.SafePolicy(np.ones((5, 1, 1)), [3.0]))
    alpha, book = np.array([2.0]), learner.ledger.book
    at = learner.ledger.freeze(np.ones((5, 1, 1)), np.array([4.0, 2.5]), alpha)
    book.bound[at], book.reward[0], book.reward[at] = 2.5, 1.0, 4.0
    assert learner.ledger.bases(alpha) == [0, at]
    assert learner._brings(4.0, np.array([1.0]), 0.0, 0.0, 1.0, alpha, at) == pytest.approx(2.5, rel=1e-12)
    assert learner._brings(4.0, np.array([1.0]), 0.0, 0.0, 1.0, alpha) == pytest.approx(4.0, rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_no_mixture_is_unsafe_for_long(family):
    for seed in range(3):
        cmdp = fd.make_cmdp(family, seed=710 + seed)
        learner = fd.SureDOME(cmdp.problem(), episodes=6000, seed=seed, safe_policy=safe_of(cmdp))
        assert fd.simulate(learner, cmdp, seed=seed).strong_violation[-1] == 0.0


@pytest.mark.parametrize("inside", ["flexdome", "optcmdp-bonus"])
def test_any_learner_is_safe_in_a_guard(inside):
    cmdp = fd.make_cmdp("independent-v1", seed=5, states=6, actions=3)
    bare = fd.make_learner(inside, cmdp.problem(), episodes=300)
    learner = fd.Guard(fd.make_learner(inside, cmdp.problem(), episodes=300), safe_of(cmdp), 0.05)
    assert fd.simulate(learner, cmdp, seed=1).strong_violation[-1] == 0.0
    assert fd.simulate(bare, cmdp, seed=1).strong_violation[-1] > 0.0
    assert sum(one.count for one in learner.ledger.policies[1:]) > 10


def test_a_good_plan_is_mixed_in_and_earns_more_than_the_safe_policy():
    cmdp = fd.make_cmdp("media-v1")
    safe = safe_of(cmdp, 0.7)
    learner = fd.SureDOME(cmdp.problem(), episodes=3000, safe_policy=safe)
    history = fd.simulate(learner, cmdp, seed=0)
    assert history.strong_violation[-1] == 0.0
    assert learner.status().weight > 0.5
    assert history.reward_gap[-1] < 0.3 * (fd.solve(cmdp).value - fd.evaluate(cmdp, safe.policy).value)


# -- the contract --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inside", ["suredome", "guard"])
def test_they_pass_the_checker(inside):
    cmdp = known_small()
    more = {"inside": "flexdome"} if inside == "guard" else {}
    assert fd.check_learner(fd.LEARNERS[inside].load(), cmdp, safe_policy=safe_of(cmdp, 0.99), **more)


@pytest.mark.parametrize("inside", ["suredome", "guard"])
def test_they_pass_the_checker_with_its_defaults(inside):
    """Sixty samples bound a threshold too loosely for any draw: the safe policy alone is played."""
    *_, last = fd.check_learner(fd.LEARNERS[inside].load())
    assert "could not be seen" in last


def test_a_learner_with_a_mixture_that_does_not_draw_from_it_breaks_a_rule():
    cmdp = known_small()
    same = type("Same", (fd.SureDOME,), {"coins": lambda self, count: np.full(count, 0.5)})
    with pytest.raises(fd.FlexDOMEError, match="four seeds of its own gave the same run"):
        fd.check_learner(same, cmdp, safe_policy=safe_of(cmdp, 0.99))


def test_a_guard_around_a_learner_comes_back_from_its_file(tmp_path):
    cmdp = known_small()
    learner = fd.Guard(fd.FlexDOME(cmdp.problem(), episodes=200, seed=4), safe_of(cmdp), 0.2)
    played(learner, cmdp, 120)
    learner.save(tmp_path / "guard.npz")
    again = fd.load_learner(tmp_path / "guard.npz")
    assert str(again.status()) == str(learner.status())
    one, two = (played(each, cmdp, 60, seed=9) for each in (learner, again))
    assert (one[0] == two[0]).all()
    assert (one[1] == two[1]).all()
    assert (learner.policy == again.policy).all()


def test_the_policy_is_drawn_as_the_mixture_says():
    cmdp = known_small()
    learner = guarded(cmdp)
    weights, policies = learner.mixture
    assert weights.shape == (2,)
    hits = 0
    for t in range(2000):
        learner.episode = t
        hits += (learner.policy == policies[1]).all()
    assert hits / 2000 == pytest.approx(weights[1], abs=4.0 * math.sqrt(0.25 / 2000))


def test_what_is_logged_proves_nothing():
    cmdp = known_small()
    learner = guarded(cmdp)
    log = fd.play(learner.policy, cmdp, episodes=50)
    observed = [fd.Episode(log.states[k], log.actions[k], log.observed[k, 0], log.observed[k, 1:]) for k in range(50)]
    learner.preload(observed)
    assert learner.visits.sum() == 50 * cmdp.horizon
    assert all((one.bound == 0.0).all() and one.count == 0 for one in learner.ledger.policies[1:])


def test_no_more_policies_are_kept_than_fit(monkeypatch):
    monkeypatch.setattr(guard, "FIRST", 2)
    monkeypatch.setattr(ledger, "MOST", 5)
    cmdp = known_small()
    learner = guarded(cmdp)
    played(learner, cmdp, 40)
    assert learner.ledger.frozen == 8
    assert len(learner.ledger.policies) == 5
    assert learner.ledger.policies[0].number == 0


# -- what can be wrong ---------------------------------------------------------------------------------------------


def test_a_safe_policy_that_is_not_safe_is_refuted_by_its_own_episodes():
    cmdp = fd.make_cmdp("media-v1")
    worst = fd.baselines(cmdp).best[0]  # earns most, and is not safe
    lie = fd.SafePolicy(worst, cmdp.alpha + 0.5)
    learner = fd.SureDOME(cmdp.problem(), episodes=5000, safe_policy=lie)
    with pytest.raises(fd.ValidationError, match=r"safe_policy.utilities\[0\] is .*less than what was promised"):
        fd.simulate(learner, cmdp, seed=0)
    assert 0 < learner.episode < 5000
    count, visits = learner.episode, learner.visits.sum()
    assert visits == count * cmdp.horizon  # the episode that refuted it was refused whole


def test_a_promise_that_is_kept_is_not_refuted():
    cmdp = fd.make_cmdp("media-v1")
    for seed in range(20):
        learner = guarded(cmdp, episodes=150, seed=seed)
        fd.simulate(learner, cmdp, seed=seed)


@pytest.mark.parametrize("kind", [fd.SureDOME, Guarded])
def test_thresholds_that_the_safe_policy_does_not_exceed_are_refused_and_change_nothing(kind):
    cmdp = known_small()
    learner, twin = (kind(cmdp.problem(), episodes=200, safe_policy=safe_of(cmdp)) for _ in range(2))
    with pytest.raises(fd.ValidationError, match=r"safe_policy.utilities\[0\] is .*must exceed the threshold, 3\.9"):
        learner.set_thresholds(np.full(2, 3.9), 0.05)
    assert learner.threshold_changes == []
    assert learner.problem is learner.first_problem
    for one in (learner, twin):
        fd.simulate(one, cmdp, 100, seed=2)
    assert str(learner.status()) == str(twin.status())
    assert (learner.policy == twin.policy).all()


def test_thresholds_that_the_learner_inside_refuses_change_nothing_of_its_guard():
    cmdp = known_small()
    inside = fd.make_learner("dope", cmdp.problem(), episodes=10, safe_policy=safe_of(cmdp, 0.2))
    learner = fd.Guard(inside, safe_of(cmdp, 0.6))
    with pytest.raises(fd.ValidationError, match="must exceed the threshold"):
        learner.set_thresholds(0.5 * (inside.safe_policy.utilities + learner.safe_policy.utilities))
    assert learner.threshold_changes == inside.threshold_changes == []
    assert learner.problem is learner.first_problem


def test_a_range_that_cannot_be_is_refused_before_a_threshold_is_sampled():
    cmdp = known_small()
    learner = guarded(cmdp, threshold_range=[(5.0, 1.0), (0.0, 4.0)])
    with pytest.raises(fd.ValidationError, match="threshold_range of threshold 0"):
        learner.set_thresholds([np.nan, cmdp.alpha[1]])
    assert learner.threshold_changes == []


def test_sampled_thresholds_are_bounded_from_above():
    base = known_small()
    laws = [fd.Threshold.bernoulli(float(alpha) / 4.0, 4.0, per="step") for alpha in base.alpha]
    cmdp = fd.CMDP(base.transitions, base.rewards, base.utilities, laws, base.initial)
    low = 0
    for seed in range(60):
        learner = guarded(cmdp, episodes=60, delta=0.6, seed=seed)
        assert (learner.thresholds == cmdp.horizon).all()
        fd.simulate(learner, cmdp, seed=seed)
        assert (learner.thresholds < cmdp.horizon).all()
        low += bool((learner.thresholds < cmdp.alpha).any())
    assert low / 60 <= 0.3 + 3.0 * math.sqrt(0.21 / 60)
    scaled = guarded(cmdp, episodes=60, threshold_scale=1.0)
    fd.simulate(scaled, cmdp, seed=0)
    assert ((scaled.thresholds < cmdp.horizon) & (scaled.thresholds > cmdp.alpha)).all()


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        (None, r"thresholds\[1\] has the mean 9 in this episode; nothing is declared .* assumed to lie in \[0, H\] = "),
        ((0.0, 5.0), r"threshold_range says that samples lie in \[0, 5\]"),
    ],
)
def test_a_sample_outside_its_range_is_refused_whole(declared, message):
    cmdp = small_cmdp()
    learner = guarded(cmdp, threshold_range=declared)
    log = fd.play(learner.policy, cmdp, episodes=1)
    bad = fd.Episode(log.states[0], log.actions[0], log.observed[0, 0], log.observed[0, 1:], np.array([0.0, 9.0]))
    with pytest.raises(fd.ValidationError, match=message) as error:
        learner.observe(bad)
    assert ("pass threshold_range=(low, high)" in str(error.value)) is (declared is None)
    assert learner.episode == 0
    assert learner.visits.sum() == 0.0


def test_bad_arguments_are_named():
    cmdp = known_small()
    safe, inside = safe_of(cmdp), fd.FlexDOME(cmdp.problem(), episodes=10)
    with pytest.raises(fd.ValidationError, match=r"delta is 1\.0; it must be less than 1"):
        fd.Guard(inside, safe, 1.0)
    with pytest.raises(fd.ValidationError, match="learner is 3; it must be a Learner"):
        fd.Guard(3, safe)
    with pytest.raises(fd.FlexDOMEError, match="safe_policy is missing"):
        fd.SureDOME(cmdp.problem())
    other = fd.make_cmdp("media-v1")
    with pytest.raises(fd.ValidationError, match="inside is a learner for a problem of another size"):
        Guarded(cmdp.problem(), inside=fd.FlexDOME(other.problem(), episodes=10), safe_policy=safe)
    with pytest.raises(fd.ValidationError, match=r"options is .* must be None where a learner is given"):
        Guarded(cmdp.problem(), inside=inside, options={"seed": 1}, safe_policy=safe)


@pytest.mark.parametrize("fallback", [None, b"x", 3, fd.SafePolicy(np.ones((1, 1, 1)), [1.0])])
def test_what_is_wrong_with_the_fallback_of_a_guard_is_said_by_that_name(fallback):
    learner = fd.FlexDOME(known_small().problem(), episodes=20)
    with pytest.raises(fd.FlexDOMEError, match="fallback") as caught:
        fd.Guard(learner, fallback)
    assert "safe_policy is" not in str(caught.value)
    assert "safe_policy." not in str(caught.value)


def test_the_options_of_a_guard_in_a_file_make_no_guard_by_themselves():
    cmdp = known_small()
    options = guarded(cmdp).options()
    for inside in (options["inside"], {"format": 1, "learner": 2, "options": 3}):
        with pytest.raises(fd.ValidationError, match=r"inside is .*; it must be the id of a learner, or a learner"):
            fd.make_learner("guard", cmdp.problem(), **{**options, "inside": inside})


@pytest.mark.parametrize("state", [None, 3, "x", [1], {1: np.zeros(1)}, {"numbers": 3}])
def test_a_guard_takes_no_state_that_is_none(state):
    learner = guarded(known_small())
    before = learner.state()
    with pytest.raises(fd.ValidationError, match=r"^state(\.numbers)? is"):
        learner.restore(state)
    assert all((learner.state()[name] == array).all() for name, array in before.items())


@pytest.mark.parametrize("kind", [fd.SureDOME, fd.ProxDOME, Guarded])
def test_a_learner_that_watches_a_safe_policy_of_its_own_is_not_guarded(kind):
    """It would hold the promise against episodes that other policies played."""
    cmdp = known_small()
    safe = safe_of(cmdp)
    with pytest.raises(fd.ValidationError, match=f"inside is a {kind.__name__} with a safe policy of its own"):
        fd.Guard(kind(cmdp.problem(), episodes=10, safe_policy=safe), safe)
    assert fd.Guard(fd.ProxDOME(cmdp.problem(), episodes=10), safe).learner.id == "proxdome"


def test_status_reads_well():
    cmdp = fd.make_cmdp("media-v1")
    learner = guarded(cmdp)
    text = str(learner.status())
    assert text.startswith("episode 1: policy 1, which is being certified, with probability 0.")
    assert "the safe policy that was given otherwise" in text
    assert "utility at least 5, threshold 5" in text
    assert "with confidence 0.95, threshold 5" in learner.status().text(verbose=True)


@pytest.mark.parametrize(("short", "shown"), [(4.5e-16, True), (1e-9, False)])
def test_a_mixture_is_shown_safe_but_for_rounding(short, shown):
    cmdp = fd.make_cmdp("media-v1")
    status = guarded(cmdp).status()
    told = str(dataclasses.replace(status, bounds=status.thresholds - short))
    assert ("not shown safe" not in told) is shown


def test_transitions_that_are_the_same_at_every_step_may_be_revealed():
    cmdp = fd.make_cmdp("media-v1")
    safe = fd.safe_policy(cmdp, 0.5 * fd.slater_gap(cmdp))
    learner = fd.SureDOME(cmdp.problem(reveal=("transitions",)), episodes=20, safe_policy=safe)
    assert fd.simulate(learner, cmdp).strong_violation[-1] <= 1e-9
