"""Constants and formulas of SureDOME and Guard, written anew from docs/suredome.md and the modules' own formulas."""

from __future__ import annotations

import inspect
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import flexdome as fd
from flexdome.certificates import kernels as sequences
from flexdome.cmdp.model import NO_SUCCESSORS, Model
from flexdome.learners.guarded import guard, kernels, ledger, planner, suredome
from flexdome.learners.guarded.certified import Certified
from flexdome.learners.guarded.guard import Guarded
from flexdome.learners.guarded.ledger import Ledger
from flexdome.learners.seen.dense import dense
from flexdome.learners.seen.tally import Tally
from flexdome.planning import solve_model
from malformed import episode, safe, small, told, world
from runs import Observed, learned

S, A, H, M = 3, 2, 3, 2
ALPHA = np.array([0.6, 0.7])
POLICY = np.full((H, 1, A), 0.5)  # what a ledger keeps, whatever it says

CONSTANTS = [
    (suredome, "EXPLORE", 0.1),
    (suredome, "PESSIMISM", 0.15),
    (suredome, "DOUBT", 0.3),
    (suredome, "TRIED", 40),
    (suredome, "MORE", 0.5),
    (suredome, "LEAST", 60),
    (suredome, "LOOK", 0.25),
    (suredome, "SOON", 200),
    (suredome, "STEP", 0.15),
    (guard, "FIRST", 50),
    (guard, "GROWTH", (0.5, 1.0)),
    (ledger, "POINTS", 2048),
    (ledger, "MOST", 10),
    (ledger, "CUT", 0.95),
    (sequences, "REFUTED", 1e-6),
    (ledger, "SPREAD", 0.02),
    (ledger, "ENOUGH", 30),
    (ledger, "NARROW", 1e-5),
    (kernels, "GUESSED", 20.0),
    (kernels, "NEARLY", 1e-3),
    (kernels, "ERRORS", 2.0),
    (kernels, "ENOUGH", 300),
    (planner, "SPREAD", 0.3),
    (planner, "FIRST_VISITS", 10.0),
    (planner, "LOWERED", 3),
    (planner, "HEAVY", 20.0),
]


@pytest.mark.parametrize(("module", "name", "value"), CONSTANTS, ids=lambda x: getattr(x, "__name__", str(x)))
def test_a_constant_is_the_one_that_is_documented(module, name, value):
    assert getattr(module, name) == value


def book(m=M, kept=4, seed=0, delta=0.05):
    """A ledger with some policies, each with bounds and rewards of its own."""
    rng = np.random.default_rng(seed)
    made = Ledger(fd.SafePolicy(POLICY, rng.uniform(1.5, 2.5, m)), delta)
    for _ in range(kept - 1):
        made.freeze(POLICY, np.append(rng.uniform(0.0, 3.0), rng.uniform(0.0, 3.0, m)), ALPHA[:m])
    made.book.bound[1:kept] = rng.uniform(0.0, 2.0, (kept - 1, m))
    made.book.reward[:kept] = rng.uniform(0.0, 3.0, kept)
    return made


# -- the ledger ----------------------------------------------------------------------------------------------------


def test_a_ledger_begins_with_the_safe_policy_alone():
    made = book(kept=1)
    assert made.now == (0, 0, 1.0)
    assert made.book.places.tolist() == [1, 0, 0, 0, 0, 0, 0, 0]
    made.freeze(POLICY, np.ones(1 + M), ALPHA)
    assert made.book.places.tolist() == [2, 1, 1, 0, 0, 0, 0, 0]  # frozen, and of no epoch


def test_a_policy_that_is_not_kept_has_the_place_of_the_safe_one():
    made = book(kept=10)
    made.book.bound[:10] = 0.0
    made.freeze(POLICY, np.ones(1 + M), ALPHA)
    assert [made.place(number) for number in (0, 1, 2, 10, 99)] == [0, 0, 1, 9, 0]


@pytest.mark.parametrize(("k", "m", "delta", "odds"), [(1, 2, 0.05, 440.0), (3, 1, 0.2, 78.0), (11, 4, 0.1, 1680.0)])
def test_a_level_is_its_share_of_delta(k, m, delta, odds):
    assert book(m=m, delta=delta).level(k) == pytest.approx(math.log(odds))


def test_a_promise_is_held_for_broken_once_in_a_million():
    assert book().book.level[0] == pytest.approx(6.0 * math.log(10.0))


def test_the_largest_bets_are_almost_everything_on_a_fine_grid():
    grid = book().book.grid
    assert grid.shape == (2, 2047)
    np.testing.assert_allclose(grid[0], np.arange(1, 2048) / 2048)
    np.testing.assert_allclose(grid[1] * grid[0], 0.95)


def test_what_is_kept_of_a_policy_is_what_its_episodes_showed():
    made, rewards = book(kept=2), [1.0, 2.5, 0.5, 2.0]
    belief = float(made.book.belief[1])
    assert made.at(1).error == math.inf
    for n, reward in enumerate(rewards, 1):
        made.observe(1, reward, np.array([1.0, 2.0]))
        assert made.at(1).error == pytest.approx(np.std(rewards[:n], ddof=1) / math.sqrt(n) if n > 1 else 0.0)
    one = made.at(1)
    assert (one.number, one.count) == (1, 4)
    assert one.reward == pytest.approx((20.0 * belief + 6.0) / 24.0)
    guessed = made.book.guess[1, :, 0]
    np.testing.assert_allclose(made.mean(1), H * (20.0 * guessed + 4.0 * np.array([1.0, 2.0]) / H) / 24.0)
    made.observe(0, 2.0, np.array([2.0, 2.0]))
    assert made.at(0).reward == 2.0  # the safe policy's is the mean of its episodes: nothing was held of it
    assert made.at(0).error == 0.0


@pytest.mark.parametrize("reward", [0.1, 0.7, 1.3])
def test_rewards_that_are_all_the_same_leave_no_error(reward):
    made = book(kept=2)
    for _ in range(50):
        made.observe(1, reward, np.array([1.0, 2.0]))
        assert made.at(1).error == pytest.approx(0.0, abs=1e-8)  # the difference of two sums, of either sign


def test_what_is_guessed_of_a_policy_is_within_reason():
    made = book(kept=1)
    at = made.freeze(POLICY, np.array([1.0, 0.0, 9.0]), ALPHA)
    np.testing.assert_array_equal(made.book.guess[at], [[0.01, 0.02], [0.99, 0.02]])
    assert made.book.belief[at] == made.book.reward[at] == 1.0


def test_a_variance_is_that_of_the_last_policy_that_played_thirty_episodes():
    made = book(kept=3)
    for _ in range(29):
        made.observe(1, 1.0, np.array([1.5, 1.5]))
    np.testing.assert_array_equal(made.variance(), 0.02)
    made.book.rows[1, :, sequences.SQUARES] = [0.6, 1e-9]
    made.book.earned[1, 0] = 30.0
    np.testing.assert_allclose(made.variance(), [0.02, 1e-5])
    made.book.earned[2, 0], made.book.rows[2, :, sequences.SQUARES] = 50.0, 2.0
    np.testing.assert_allclose(made.variance(), 0.04)
    made.book.earned[0, 0] = 99.0
    np.testing.assert_allclose(made.variance(), 0.04)  # the safe policy's sequence is another one


def share(base, other, alpha):
    if (base < alpha).any():
        return 0.0
    return min([1.0, *((b - a) / (b - o) for b, o, a in zip(base, other, alpha, strict=True) if o < a)])


@pytest.mark.parametrize("seed", range(20))
def test_what_is_played_is_the_pair_that_earns_most_or_costs_least(seed):
    made, m = book(m=1 + seed % 3, kept=5, seed=seed), 1 + seed % 3
    alpha = np.array([0.6, 0.7, 0.5])[:m]
    bound, reward = made.book.bound, made.book.reward
    pairs = []
    for j in range(5):
        for k in range(5):
            if (bound[j] >= alpha).all():
                gamma = 1.0 if j == k else share(bound[j], bound[k], alpha)
                pairs.append(((1.0 - gamma) * reward[j] + gamma * reward[k], j, k, gamma))
    best = max(pairs)
    assert made.decide(alpha) == pytest.approx(best[0])
    base, other, gamma = made.now
    assert (1.0 - gamma) * reward[base] + gamma * reward[other] == pytest.approx(best[0])
    for k in range(1, 5):
        prices = {}
        for j in range(5):
            gamma = share(bound[j], bound[k], alpha)
            if j != k and gamma > 0.0:
                prices[j] = (reward[:5].max() + 1e-3 * H - reward[j]) * (1.0 - gamma) / gamma
        made.decide(alpha, k)
        assert made.now[1] == k
        assert made.now[2] == pytest.approx(share(bound[made.now[0]], bound[k], alpha))
        assert prices[made.now[0]] == pytest.approx(min(prices.values()))


@pytest.mark.parametrize(("played", "certified", "free"), [(59, False, False), (60, False, True), (0, True, True)])
def test_a_main_policy_is_favoured_until_it_is_certified_or_has_played_enough(played, certified, free):
    """Policy 2 is not part of what earns most; free, and not part of it, it is still played, at least cost."""
    made = book(kept=3)
    made.book.reward[:3] = [1.0, 1.0, 2.0]
    made.book.bound[1], made.book.bound[2] = 3.0, 2.0 if certified else 0.1
    made.book.earned[2, 0] = played
    most = made.decide(ALPHA)
    assert made.decide(ALPHA, 2, 60.0) == (most if free else 0.0)
    assert made.now[1] == 2


def test_bounds_that_are_the_thresholds_are_kept_to():
    assert kernels.share(ALPHA, ALPHA + 1.0, ALPHA) == kernels.share(ALPHA, ALPHA, ALPHA) == 1.0
    assert kernels.share(ALPHA, ALPHA - 0.1, ALPHA) == 0.0
    assert kernels.share(ALPHA - 1e-12, ALPHA + 1.0, ALPHA) == 0.0
    made = book(kept=4)
    made.book.reward[:4] = [1.0, 0.5, 2.0, 0.7]
    made.book.bound[:4] = 0.0
    made.book.bound[2] = ALPHA
    assert made.bases(ALPHA) == [2]
    assert made.decide(ALPHA) == 2.0
    assert made.now[0] == 2
    made.book.bound[2] = ALPHA + 0.5  # room for the others, which earn less
    assert made.decide(ALPHA) == 2.0
    assert made.now == (2, 2, 1.0)


def test_between_equals_the_oldest_is_kept_to():
    made = book(kept=4)
    made.book.bound[:4], made.book.reward[:4] = ALPHA + 0.5, 1.0
    made.book.bound[3] = ALPHA - 0.5
    made.decide(ALPHA)
    assert made.now == (0, 0, 1.0)
    made.decide(ALPHA, 3)
    assert made.now == (0, 3, pytest.approx(0.5))


def test_the_best_is_held_to_earn_a_thousandth_of_the_horizon_more_where_bases_are_favoured():
    """Base 0 earns most and has half of the room of base 1: their prices are 2 (0.003) and 0.003 + 0.002, in parts."""
    made = book(kept=3)
    made.book.bound[:3] = ALPHA + 0.1, ALPHA + 0.2, ALPHA - 0.5
    made.book.reward[:3] = 2.0, 1.998, 1.0
    made.decide(ALPHA, 2)
    assert made.now == (1, 2, pytest.approx(0.2 / 0.7))


def test_where_there_is_no_base_what_is_kept_is_the_safe_policy_alone():
    made = book(kept=4)
    made.book.bound[:4] = 0.1
    made.book.now[:] = 3.0, 2.0, 0.3
    assert made.decide(ALPHA) == -math.inf
    assert made.now == (0, 0, 1.0)


def test_a_policy_for_which_there_is_no_room_is_kept_from_playing():
    made = book(kept=4)
    made.book.bound[:4] = 0.0
    made.book.bound[0] = ALPHA
    made.book.now[:] = 3.0, 1.0, 0.7
    made.decide(ALPHA, 2)
    assert made.now == (0, 2, 0.0)


def test_a_policy_that_is_free_is_kept_in_the_pair_that_earns_most():
    made = book(kept=4)
    made.book.reward[:4] = [1.0, 0.5, 2.0, 0.7]
    made.book.bound[:4] = ALPHA + 0.5
    made.book.bound[1] = 0.0
    assert made.decide(ALPHA, 2, 0.0) == 2.0  # after no episodes already, where none are asked for
    assert made.now[2] == 1.0
    assert 2 in made.now[:2]
    made.book.bound[2], made.book.bound[3] = 0.0, ALPHA + 0.1
    made.book.reward[3] = 9.0
    assert made.decide(ALPHA, 2, 0.0) == 9.0  # of which it is no part: it is played where it costs least
    assert made.now[1] == 2


def test_a_policy_that_is_free_is_kept_as_the_other_one_of_the_pair_that_earns_most():
    """A tenth of it beside base 0 loses 0.9 of 0.5; a half of it beside base 1 loses half of 1, and costs less."""
    made = book(kept=3)
    made.book.bound[:3] = ALPHA + 0.1, ALPHA + 0.9, ALPHA - 0.9
    made.book.reward[:3] = 1.5, 1.0, 2.0
    made.decide(ALPHA, 2)
    assert made.now == (1, 2, pytest.approx(0.5))
    assert made.decide(ALPHA, 2, 0.0) == pytest.approx(1.55)
    assert made.now == (0, 2, pytest.approx(0.1))


def test_a_policy_that_is_free_is_kept_as_the_base_of_the_pair_that_earns_most():
    made = book(kept=3)
    made.book.bound[:3] = np.zeros(M), ALPHA + 0.9, ALPHA - 0.9
    made.book.reward[:3] = 1.5, 1.0, 2.0
    assert made.decide(ALPHA, 1, 0.0) == pytest.approx(1.5)
    assert made.now == (1, 2, pytest.approx(0.5))


@pytest.mark.parametrize(("short", "behind"), [(0.1999, False), (0.2001, True)])
def test_two_standard_errors_are_those_of_the_mean_of_the_rewards(short, behind):
    made, n = book(kept=2), 400
    made.book.bound[:2] = ALPHA + 0.5, np.zeros(M)
    made.book.reward[:2] = 2.0, 2.0 - short
    made.book.earned[1] = n, 1.5 * n, 1.5**2 * n + 0.1**2 * n * (n - 1)
    assert bool(kernels.is_behind(made.book, ALPHA, 1)) is behind


@pytest.mark.parametrize("rounded", [0.0, 1e-9])
def test_rewards_without_a_spread_are_two_standard_errors_apart_however_near(rounded):
    made = book(kept=2)
    made.book.bound[:2] = ALPHA + 0.5, np.zeros(M)
    made.book.reward[:2] = 2.0, 1.9999
    made.book.earned[1] = 400.0, 200.0, 100.0 - rounded
    assert kernels.is_behind(made.book, ALPHA, 1)


def test_without_a_candidate_the_pair_that_earns_most_is_kept_to():
    made = book(kept=4)
    made.book.bound[:4], made.book.reward[:4] = ALPHA + 0.5, [1.0, 3.0, 2.0, 0.5]
    made.book.now[:] = 3.0, 3.0, 0.5
    kernels.choose(made.book, ALPHA)
    assert made.now == (0, 1, 1.0)


def test_where_there_is_no_room_the_oldest_goes():
    made = book(kept=10)
    made.book.bound[1:10] = 0.0
    made.book.bound[1], made.book.reward[1] = 3.0, 99.0  # the pair that earns most
    made.book.places[kernels.MAIN] = 2
    made.freeze(POLICY, np.ones(1 + M), ALPHA)
    assert [one.number for one in made.policies] == [0, 1, 2, 4, 5, 6, 7, 8, 9, 10]
    assert made.frozen == 10


@pytest.mark.parametrize(("base", "other", "main", "out"), [(1, 3, 5, 2), (1, 2, 3, 4), (2, 1, 9, 3), (3, 4, 1, 2)])
def test_where_there_is_no_room_the_oldest_of_which_nothing_is_needed_goes(base, other, main, out):
    made = book(kept=10)
    made.book.bound[:], made.book.reward[:] = 0.0, 0.0
    made.book.bound[base], made.book.bound[other] = ALPHA + 0.5, ALPHA - 0.5
    made.book.reward[base], made.book.reward[other] = 1.0, 9.0
    made.book.places[kernels.MAIN] = main
    made.freeze(POLICY, np.ones(1 + M), ALPHA)
    assert [one.number for one in made.policies] == [k for k in range(11) if k != out]


def test_what_is_kept_of_the_others_moves_with_them():
    made = book(kept=10)
    fields = ("bound", "belief", "guess", "earned", "reward", "rows", "capital", "level", "policies")
    for k in range(10):
        for n, name in enumerate(fields, 1):
            getattr(made.book, name)[k] = 0.01 * (k + 0.1 * n)  # less than every threshold: there is no base
    at = made.freeze(0.5 * POLICY, np.array([1.5, 0.6, 0.9]), ALPHA, main=True, keen=True, aim=7, until=8, explored=9)
    assert [one.number for one in made.policies] == [0, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    for place, k in enumerate([0, 2, 3, 4, 5, 6, 7, 8, 9]):
        for n, name in enumerate(fields, 1):
            np.testing.assert_array_equal(getattr(made.book, name)[place], 0.01 * (k + 0.1 * n))
    assert at == 9
    assert made.book.places.tolist() == [10, 10, 10, 10, 1, 7, 8, 9]
    new = {name: getattr(made.book, name)[9] for name in fields}
    assert not np.any([new["bound"].any(), new["earned"].any(), new["rows"].any()])
    assert (new["capital"] == 1.0).all()
    assert (new["policies"] == 0.25).all()
    assert new["belief"] == new["reward"] == 1.5
    assert new["level"] == made.level(10)
    np.testing.assert_allclose(new["guess"][:, 0], [0.2, 0.3])


def bound_by_bets(xs, level, mean, variance, points=2048):
    """The last point of the grid before the first that was never refuted, from the formulas of the bets."""
    means = np.arange(1, points) / points
    capital, refuted = np.ones(points - 1), np.zeros(points - 1, dtype=bool)
    total, squares, n = 20.0 * mean, 20.0 * variance, 20.0
    for x in xs:
        m, v = total / n, squares / n
        bets = np.where(means < m, np.minimum((m - means) / v, 0.95 / means), 0.0)
        capital = capital * (1.0 + bets * (x - means))
        refuted |= capital >= math.exp(level)
        total, squares, n = total + x, squares + (x - m) ** 2, n + 1.0
    first = int(np.argmin(refuted)) if not refuted.all() else points - 1
    return (means[first - 1] if first else 0.0), np.where(np.arange(points - 1) < first, np.nan, capital)


@pytest.mark.parametrize("seed", range(6))
def test_a_bound_is_that_of_its_bets(seed):
    rng, made = np.random.default_rng(seed), book(kept=2)
    made.book.guess[1] = [[0.3, 0.02], [0.6, 0.05]]
    made.book.level[1] = 2.5
    totals = H * rng.uniform([0.1, 0.5], [0.6, 1.0], (40, 2))
    for k, one in enumerate(totals, 1):
        made.observe(1, 1.0, one)
        if k % 13 == 1:
            for i, (mean, variance) in enumerate([(0.3, 0.02), (0.6, 0.05)]):
                bound, capital = bound_by_bets(totals[:k, i] / H, 2.5, mean, variance)
                assert made.book.bound[1, i] == pytest.approx(H * bound, abs=1e-12)
                left = ~np.isnan(capital)
                np.testing.assert_allclose(made.book.capital[1, i, left], capital[left], rtol=1e-9)
    assert (made.book.bound[1] > 0.2).all()


def test_a_capital_of_one_over_the_level_refutes_and_the_last_point_is_the_last():
    grid = np.array([[0.25, 0.5, 0.75], [3.8, 1.9, 0.95 / 0.75]])
    guess, level = np.array([0.1, 0.05]), 2.0  # a mean below every point: no bets are made
    for capital, bound in (([1.0, 1.0], 0.25), ([9.0, 1.0], 0.5), ([9.0, 9.0], 0.75)):
        row, held = np.zeros(sequences.SIZE), np.array([np.exp(level), *capital])
        assert kernels.bet(row, held, grid, guess, 0.1, level) == bound
        assert kernels.bet(row, held, grid, guess, 0.1, level) == bound
        assert row[sequences.FIRST] == 4 * bound


def test_a_promise_is_refuted_where_its_upper_bound_falls_below_it():
    made = book(kept=1)
    learner = SimpleNamespace(ledger=made, problem=told())
    made.book.bound[0] = 0.5, 2.5
    xs, row = [], np.zeros(sequences.SIZE)
    while True:
        totals = np.array([1.5, 1.8])
        xs.append(1.0 - 1.8 / H)
        level, bets, gains, price, total, squares, best = 6.0 * math.log(10.0), 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for t, x in enumerate(xs):
            bet = min(math.sqrt(2.0 * level / ((0.25 + squares) * math.log(2.0 + t))), 0.5)
            price += (x - (0.5 + total) / (t + 1.0)) ** 2 * (-math.log(1.0 - bet) - bet)
            bets, gains, total = bets + bet, gains + bet * x, total + x
            squares += (x - (0.5 + total) / (t + 2.0)) ** 2
            best = max(best, (gains - level - price) / bets)
        refuted = H * (1.0 - best) < 2.5
        assert kernels.refuted_by(made.book, totals, row) == (1 if refuted else -1)
        if refuted:
            break
        Certified.refuted(learner, totals)
        made.observe(0, 1.0, totals)
    assert len(xs) > 20
    shown = rf"utilities\[1\] is 2.5; its {len(xs)} episodes show at most {H * (1.0 - best):.4g} with"
    with pytest.raises(fd.ValidationError, match=shown):
        Certified.refuted(learner, totals)
    made.book.bound[0, 1] = H * (1.0 - row[sequences.BOUND])
    Certified.refuted(learner, totals)  # as much as is shown


@pytest.mark.parametrize("kind", ["suredome", "guard"])
def test_a_run_is_its_episodes_one_by_one(kind):
    cmdp = world()

    def made():
        if kind == "suredome":
            return fd.SureDOME(cmdp.problem(), episodes=260, safe_policy=safe(), seed=4)
        return Guarded(cmdp.problem(), episodes=260, inside="flexdome", safe_policy=safe(), seed=4)

    run, watched = made(), Observed(made())
    history, slow = fd.simulate(run, cmdp, seed=2), fd.simulate(watched, cmdp, seed=2)
    assert learned(run) == learned(watched.inner)
    assert len(history.diagnostics["weight"]) == 260
    assert 1 < run.ledger.frozen
    again, expected = made(), []
    for one in watched.seen:
        weights, policies = again.mixture
        mixed = sum(w * fd.evaluate(cmdp, pi).utilities for w, pi in zip(weights, policies, strict=True))
        expected.append(cmdp.alpha - mixed)
        again.observe(one)
    np.testing.assert_allclose(history.violation, np.transpose(expected), atol=1e-12)
    brought = [[np.sum(one.rewards), *np.sum(one.utilities, axis=1)] for one in watched.seen]
    np.testing.assert_allclose(history.realised, np.transpose(brought), atol=1e-12)
    assert slow.episodes.tolist() == history.episodes.tolist()


@pytest.mark.parametrize(("kind", "more"), [(fd.SureDOME, {}), (Guarded, {"inside": "flexdome"})])
def test_a_run_is_refused_where_its_episodes_one_by_one_are(kind, more):
    cmdp = fd.CMDP(world().transitions, world().rewards, world().utilities, [1.0, 1.5], 0)
    lie = fd.SafePolicy(safe().policy, np.array([1.2, 2.8]))
    run, watched = (kind(cmdp.problem(), 200, 4, safe_policy=lie, **more) for _ in range(2))
    for learner in (run, run, Observed(watched)):
        with pytest.raises(fd.ValidationError, match=r"utilities\[1\] is 2\.8; .* less than what was promised"):
            fd.simulate(learner, cmdp, seed=2)
    assert learned(run) == learned(watched)
    assert (run.ledger.book.earned[:2, 0] > 5.0).all()


def test_a_run_is_refused_as_one_by_one_in_its_last_episode_where_thresholds_are_sampled():
    cmdp, lie, said, episodes = small("sampled"), fd.SafePolicy(safe().policy, np.array([0.7, 2.8])), [], 200
    for _ in range(2):
        learner = fd.SureDOME(cmdp.problem(), episodes, 4, safe_policy=lie)
        with pytest.raises(fd.ValidationError, match="less than what was promised") as error:
            fd.simulate(learner, cmdp, seed=2)
        said.append(str(error.value))
        episodes = learner.episode + 1
    assert said[0] == said[1]


@pytest.mark.parametrize("other", [False, True])
def test_an_episode_of_a_run_is_kept_to_the_base_where_its_coin_is_not_below_gamma(other, monkeypatch):
    cmdp = world()
    learner = fd.SureDOME(cmdp.problem(), episodes=1, safe_policy=safe())
    book, rng = learner.ledger.book, np.random.default_rng(0)
    learner.ledger.freeze(rng.dirichlet(np.ones(A), (H, S)), np.ones(1 + M), ALPHA, aim=9, until=9)
    book.bound[1:3], book.reward[1] = (ALPHA + 0.5, ALPHA - 0.5), 1.0
    gamma = kernels.share(book.bound[1], book.bound[2], ALPHA)
    monkeypatch.setattr(fd.SureDOME, "coins", lambda self, n: np.full(n, np.nextafter(gamma, 0.0) if other else gamma))
    found = fd.simulate(learner, cmdp)
    values = [fd.evaluate(cmdp, pi).utilities for pi in book.policies[1:3]]
    np.testing.assert_allclose(found.violation[:, 0], ALPHA - (1.0 - gamma) * values[0] - gamma * values[1])
    assert book.earned[:3, 0].tolist() == [0.0, float(not other), float(other)]


# -- thresholds that are sampled -----------------------------------------------------------------------------------


def sampled():
    cmdp = small("sampled")
    return cmdp, fd.safe_policy(cmdp, 0.5 * fd.slater_gap(cmdp))


def test_sampled_thresholds_take_half_of_delta():
    cmdp, known = sampled()
    learner = fd.SureDOME(cmdp.problem(), episodes=50, safe_policy=known, delta=0.08)
    assert learner.ledger.delta == pytest.approx(0.04)
    assert learner._level == pytest.approx(math.log(2.0 / 0.08))
    assert fd.SureDOME(told(), episodes=50, safe_policy=safe(), delta=0.08).ledger.delta == 0.08
    both = fd.SureDOME(cmdp.problem(hide=("thresholds",)), episodes=50, safe_policy=known, delta=0.08)
    assert both._level == pytest.approx(math.log(4.0 / 0.08))


@pytest.mark.parametrize("declared", [{}, {"threshold_range": (0.2, 1.4)}, {"threshold_scale": 0.5}])
def test_a_sampled_threshold_is_bounded_from_above(declared):
    cmdp, known = sampled()
    learner = fd.SureDOME(cmdp.problem(), episodes=50, safe_policy=known, delta=0.08, **declared)
    assert learner.thresholds.tolist() == [0.6, 3.0]
    draws = np.random.default_rng(3).uniform(0.4, 1.0, 90)
    for draw in draws:
        samples = np.array([[1.3, 1.2, 1.1], [draw - 0.1, draw, draw + 0.1]])
        learner.observe(fd.Episode(**{**episode("sampled"), "thresholds": samples}))
        assert learner.thresholds[1] <= declared.get("threshold_range", (0.0, 3.0))[1]
    level, n = math.log(2.0 / 0.08), len(draws)
    if "threshold_scale" in declared:  # Robbins' normal mixture, rho = 50
        width = 0.5 * math.sqrt(2.0 * (n + 50.0) * (level + 0.5 * math.log(1.0 + n / 50.0))) / n
        expected = min(3.0, draws.mean() + width)
    else:
        low, high = declared.get("threshold_range", (0.0, 3.0))
        bets = gains = price = total = squares = best = 0.0
        for t, x in enumerate(1.0 - (draws - low) / (high - low)):
            bet = min(math.sqrt(2.0 * level / ((0.25 + squares) * math.log(2.0 + t))), 0.5)
            price += (x - (0.5 + total) / (t + 1.0)) ** 2 * (-math.log(1.0 - bet) - bet)
            bets, gains, total = bets + bet, gains + bet * x, total + x
            squares += (x - (0.5 + total) / (t + 2.0)) ** 2
            best = max(best, (gains - level - price) / bets)
        expected = min(3.0, high - (high - low) * best)
    assert learner.thresholds[1] == pytest.approx(expected)
    assert expected < min(declared.get("threshold_range", (0.0, 3.0))[1], 3.0)  # it says something


@pytest.mark.parametrize(("draw", "taken"), [(0.1, True), (1.4, True), (0.1 - 1e-11, False), (1.4 + 1e-11, False)])
def test_samples_at_the_ends_of_what_was_declared_are_taken(draw, taken):
    """The mean of three times 0.1 is more than 0.1, that of three times 1.4 less than 1.4; both are rounding."""
    cmdp, known = sampled()
    learner = fd.SureDOME(cmdp.problem(), episodes=50, safe_policy=known, threshold_range=(0.1, 1.4))
    lower = fd.SureDOME(cmdp.problem(), episodes=50, safe_policy=known, threshold_range=(0.0, 0.1))
    one = fd.Episode(**{**episode("sampled"), "thresholds": np.full((2, 3), draw)})
    if not taken:
        with pytest.raises(fd.ValidationError, match=r"thresholds\[0, 1\] is .*samples lie in \[0\.1, 1\.4\]"):
            learner.observe(one)
    else:
        learner.observe(one)
    if draw == 0.1:
        lower.observe(one)
        assert lower._sampled[1, 1] == 0.0  # 1 - x, not less than 0
    assert (learner.episode, lower.episode) == (int(taken), int(draw == 0.1))


@pytest.mark.parametrize("i", [0, 1])
def test_a_sample_of_any_threshold_at_the_ends_is_taken_and_beyond_refused(i):
    cmdp, known = sampled()
    learner = fd.SureDOME(cmdp.problem(hide=("thresholds",)), 50, safe_policy=known, threshold_range=(0.1, 1.4))
    samples = np.full((2, 3), 0.5)
    samples[i] = 1.5
    with pytest.raises(fd.ValidationError, match=rf"thresholds\[0, {i}\] is 1.5"):
        learner.observe(fd.Episode(**{**episode("sampled"), "thresholds": samples}))
    samples[i] = 1.4
    learner.observe(fd.Episode(**{**episode("sampled"), "thresholds": samples}))
    assert learner.episode == 1


# -- Guard ---------------------------------------------------------------------------------------------------------


def guarded():
    return Guarded(told(), episodes=5000, inside="flexdome", safe_policy=safe())


@pytest.mark.parametrize(("t", "bases", "until"), [(50, 1, 100), (99, 1, 149), (300, 1, 450), (300, 2, 600)])
def test_an_epoch_of_a_guard_is_as_long_as_it_says(t, bases, until):
    learner = guarded()
    assert learner.ledger.book.places[kernels.UNTIL] == 50
    learner.episode = t
    if bases == 2:
        learner.ledger.book.bound[1] = 3.0
    learner.settle()
    assert learner.ledger.frozen == 2
    assert learner.ledger.book.places[kernels.UNTIL] == until


@pytest.mark.parametrize(
    ("count", "short", "behind"), [(299, 0.5, False), (300, 0.5, True), (300, 0.19, False), (300, 0.21, True)]
)
def test_a_candidate_is_given_up_where_it_is_two_standard_errors_behind(count, short, behind):
    learner = guarded()
    book = learner.ledger.book
    book.reward[:2] = [2.0, 2.0 - short]
    spread = 0.1**2 * count * (count - 1)  # so that the standard error is 0.1
    book.earned[1] = [count, 0.0, spread]
    assert learner.ledger.at(1).error == pytest.approx(0.1)
    assert bool(kernels.is_behind(book, learner.thresholds, 1)) is behind
    assert book.places[kernels.KEEN] == 1
    learner.settle()
    assert book.places[kernels.KEEN] == (not behind)
    book.reward[1], book.earned[1] = 2.0, [300.0, 0.0, 0.0]  # as good as what is known, and no doubt about it
    assert not kernels.is_behind(book, learner.thresholds, 1)


# -- SureDOME ------------------------------------------------------------------------------------------------------


def sure(**options):
    return fd.SureDOME(told(), episodes=5000, safe_policy=safe(), **options)


@pytest.mark.parametrize(
    ("scale", "t", "explored", "learns"),
    [(0.1, 0, 0, True), (0.1, 2221, 19, True), (0.1, 2221, 20, False), (1.0, 0, 4, True), (1.0, 0, 5, False)],
)
def test_so_many_episodes_are_for_learning(scale, t, explored, learns):
    """sqrt(H S A (t + 1)) is 4.24 at t = 0 and 199.98 at t = 2,221; after them the main policy goes on."""
    learner = sure(explore_scale=scale)
    book, t0 = learner.ledger.book, learner.ledger.frozen
    learner.episode = t
    book.places[[kernels.EXPLORED, kernels.KEEN, kernels.MAIN]] = explored, 1, 1
    learner._begin(1, ALPHA)
    assert learner.ledger.frozen == t0 + learns
    assert book.places[kernels.KEEN] == (not learns)
    assert book.places[kernels.EXPLORED] == explored
    if learns:
        assert book.places[kernels.AIM] == 40
        assert book.places[kernels.UNTIL] == 2**53
    else:
        assert book.places[kernels.AIM] == 60
        assert book.places[kernels.UNTIL] == t + max(60, t)


def test_episodes_of_the_safe_policy_are_not_for_learning():
    learner = sure()
    places = learner.ledger.book.places
    learner.ledger.book.earned[0, 0], places[kernels.EXPLORED] = 50.0, 10
    learner._begin(0, ALPHA)
    assert places[kernels.EXPLORED] == 10


def test_policies_to_learn_with_and_main_ones_play_longer_and_longer():
    learner = sure()
    book = learner.ledger.book
    learner.episode = 500
    book.earned[1, 0] = 120.0
    book.places[kernels.EXPLORED] = 10
    learner.explore_scale = 1e6
    learner._begin(1, ALPHA)
    assert book.places[[kernels.EXPLORED, kernels.AIM]].tolist() == [130, 65]
    learner.explore_scale, book.places[[kernels.MAIN, kernels.KEEN]] = 0.0, 1
    learner.preload([fd.Episode([0] * (H + 1), [0] * H, [0.0] * H, np.zeros((M, H)))] * 900)
    book.earned[0, 0] = 100.0
    learner._begin(1, ALPHA)
    assert book.places[[kernels.CURRENT, kernels.AIM, kernels.UNTIL]].tolist() == [1, 120 + 200, 1000]


def brings(learner, reward, utilities, n, level, episodes, alpha, own):
    """What a policy brings, step by step, in plain numbers."""
    book = learner.ledger.book
    kept = len(learner.ledger)
    bases = [j for j in range(kept) if j != own and all(book.bound[j] >= alpha)]
    variance = learner.ledger.variance()
    best = max([reward, *book.reward[:kept]]) + 0.001 * H
    left, total = episodes, 0.0
    while left > 0.0 and bases:
        low = [
            min(u - H * math.sqrt(2.0 * level * v / max(n, 1.0)), u / math.exp(level / max(n, 0.5)))
            for u, v in zip(utilities, variance, strict=True)
        ]
        if all(x >= a for x, a in zip(low, alpha, strict=True)):
            return total + left * reward
        options = []
        for j in bases:
            gamma = share(book.bound[j], np.array(low), alpha)
            options.append((math.inf if gamma <= 0.0 else (best - book.reward[j]) * (1.0 / gamma - 1.0), j, gamma))
        _, j, gamma = min(options)
        if gamma <= 0.0:
            break
        time = min(max(1.0, 0.15 * n) / gamma, left)
        total += time * (book.reward[j] + gamma * (reward - book.reward[j]))
        n, left = n + time * gamma, left - time
    return total


@pytest.mark.parametrize("seed", range(12))
def test_what_a_policy_is_expected_to_bring_is_worked_out_as_it_is_played(seed):
    rng, learner = np.random.default_rng(seed), sure()
    learner.ledger.freeze(np.full((H, S, A), 0.5), np.array([1.0, 1.0, 1.0]), ALPHA)
    learner.ledger.book.bound[2] = rng.uniform(0.7, 1.2, M)
    learner.ledger.book.reward[:3] = rng.uniform(0.0, 2.0, 3)
    utilities, n, own = rng.uniform(0.65, 2.0, M), float(rng.choice([0.0, 7.0, 90.0])), int(rng.choice([-1, 2]))
    given = (float(rng.uniform(0.5, 3.0)), utilities, n, float(rng.uniform(3.0, 8.0)), 400.0, ALPHA)
    others = () if own < 0 else (own,)
    assert learner._brings(*given, *others) == pytest.approx(brings(learner, *given, own))


def test_a_policy_leans_on_the_base_that_costs_least_beside_one_that_earns_a_little_more():
    """Base 0 earns most, and what is played with it has a third of the room: it would be the dearer by 0.003 / 3."""
    learner = sure()
    learner.ledger.freeze(np.full((H, S, A), 0.5), np.array([1.0, 1.0, 1.0]), ALPHA)
    learner.ledger.book.bound[:3] = ALPHA + 0.05, ALPHA - 0.1, ALPHA + 0.15
    learner.ledger.book.reward[:3] = 2.0, 1.0, 1.998
    given = (1.5, np.array([1.0, 1.2]), 0.0, 4.0, 100.0, ALPHA)
    assert learner._brings(*given) == pytest.approx(brings(learner, *given, None))


def test_what_nothing_can_carry_brings_nothing():
    learner = sure()
    assert learner._brings(1.0, np.array([0.0, 1.0]), 5.0, 4.0, 100.0, np.array([9.0, 9.0])) == 0.0
    learner.ledger.book.bound[0] = ALPHA  # a base, without room
    assert learner._brings(1.5, np.array([0.0, 1.0]), 5.0, 4.0, 100.0, ALPHA) == 0.0
    assert learner._brings(1.5, ALPHA, 5.0, 0.0, 100.0, ALPHA) == 150.0  # at a level of one nothing is doubted


@pytest.mark.parametrize(("t", "episodes"), [(0, 200.0), (199, 200.0), (1000, 1000.0)])
def test_a_plan_has_at_least_two_hundred_episodes_to_pay(t, episodes, monkeypatch):
    learner, asked = sure(), []
    monkeypatch.setattr(fd.SureDOME, "_brings", lambda self, *given: asked.append(given) or 0.0)
    learner.episode = t
    plan = planner.Proposal(np.full((H, S, A), 0.5), np.array([1.5, 0.8, 0.9]), np.zeros(M), True)
    learner._pays(plan, 0, ALPHA)
    ((reward, utilities, n, level, given, alpha),) = asked
    assert (reward, n, given) == (1.5, 0.0, episodes)
    assert level == learner.ledger.level(learner.ledger.frozen + 1)
    assert utilities.tolist() == [0.8, 0.9]
    assert alpha is ALPHA


# -- plans ---------------------------------------------------------------------------------------------------------


def seen_by(problem, seed=0, most=4):
    """Counts of cells that were seen ``most`` times at most."""
    rng, counted = np.random.default_rng(seed), dense(Tally(problem))
    for h in range(H):
        for s in range(S):
            for a in range(A):
                n = int(rng.integers(0, most + 1))
                counted.visits[h, s, a] = n
                if h + 1 < H:
                    counted.following[h, s, a] = rng.multinomial(n, np.full(S, 1.0 / S))
                counted.sums[:, h, s, a] = rng.random(1 + M) * n
    counted.visits[0, 0, 0] = max(counted.visits[0, 0, 0], 1.0)
    counted.samples[:] = counted.visits
    return counted


@pytest.mark.parametrize("stationary", [False, True])
def test_a_sketch_is_what_was_seen(stationary):
    problem = replace(told(), stationary=stationary)
    counted = seen_by(problem)
    seen = planner.sketch(problem, counted)
    steps = [range(H)] * H if stationary else [[h] for h in range(H)]
    n, f = np.zeros((H, S, A)), np.zeros((1 + M, H, S, A))
    for h, s, a in np.ndindex(H, S, A):
        n[h, s, a] = sum(counted.visits[k, s, a] for k in steps[h])
        f[:, h, s, a] = sum(counted.sums[:, k, s, a] for k in steps[h]) / (n[h, s, a] or 1.0)
        after = sum(counted.following[k, s, a] for k in steps[h])
        np.testing.assert_allclose(seen.p[h, s, a], after / (after.sum() or 1.0))
        np.testing.assert_allclose(seen.doubt[:, h, s, a], math.sqrt((H - h) / (n[h, s, a] or 1.0)))
    np.testing.assert_allclose(seen.visits, n)
    np.testing.assert_allclose(seen.f, f)
    np.testing.assert_array_equal(seen.seen, np.broadcast_to(n > 0, f.shape))
    for j in range(1 + M):
        mean = (n * f[j]).sum() / n.sum()
        spread = math.sqrt((10.0 * 0.09 + (n * (f[j] - mean) ** 2).sum()) / (10.0 + n.sum()))
        assert seen.spread[j] == pytest.approx(spread)


def test_what_is_known_is_not_doubted():
    cmdp, counted = world(), seen_by(told())
    some = planner.sketch(cmdp.problem(reveal=("transitions",)), counted)
    np.testing.assert_allclose(some.doubt[0], 1.0 / np.sqrt(np.maximum(counted.visits, 1.0)))
    np.testing.assert_allclose(some.p, cmdp.transitions)
    assert not some.seen.all()
    means = planner.sketch(cmdp.problem(reveal=("rewards", "utilities")), counted)
    np.testing.assert_allclose(means.f[0], cmdp.rewards)
    np.testing.assert_allclose(means.f[1:], cmdp.utilities)
    np.testing.assert_array_equal(means.spread, planner.sketch(told(), counted).spread)
    told_more = planner.sketch(cmdp.problem(reveal=("transitions", "rewards")), counted)
    assert told_more.spread[0] == 0.0 < told_more.spread[1]
    assert not told_more.seen.all()
    everything = planner.sketch(cmdp.problem(reveal=("transitions", "rewards", "utilities")), counted)
    assert not everything.spread.any()
    assert everything.seen.all()


def test_a_single_sample_is_its_own_mean():
    counted = dense(Tally(told()))
    counted.visits[0, 0, 0], counted.samples[:, 0, 0, 0], counted.sums[:, 0, 0, 0] = 1.0, 1.0, [0.3, 0.6, 0.9]
    np.testing.assert_allclose(planner.sketch(told(), counted).spread, math.sqrt(10.0 * 0.09 / 11.0))


def test_there_is_a_plan_to_earn_where_everything_was_seen_in_a_cell_of_the_first_step():
    problem = told()
    seen = planner.sketch(problem, seen_by(problem, most=30))
    for cells, planned in [([(0, 1, 1)], True), ([(1, 1, 1), (2, 1, 1)], False), ([], False)]:
        seen.seen[:] = False
        for cell in cells:
            seen.seen[(slice(None), *cell)] = True
        assert (planner.plan_to_earn(problem, seen, ALPHA, 0.15) is not None) is planned
    seen.seen[:, 0] = np.eye(1 + M, S)[:, :, None]  # of each cell one mean
    assert planner.plan_to_earn(problem, seen, ALPHA, 0.15) is None


@pytest.mark.parametrize("seed", range(8))
def test_a_plan_to_earn_is_the_optimum_of_the_pessimistic_model(seed):
    problem = told()
    seen = planner.sketch(problem, seen_by(problem, seed, most=30))
    careful = np.empty((1 + M, H, S, A))
    for j, h, s, a in np.ndindex(*careful.shape):
        n = seen.visits[h, s, a]
        careful[j, h, s, a] = seen.f[j, h, s, a] - 0.4 * seen.spread[j] * math.sqrt((H - h) / n) if n else -(H - h)
    model = Model(seen.p, NO_SUCCESSORS, careful, problem.initial)
    best = solve_model(model, ALPHA, "linear")
    plan = planner.plan_to_earn(problem, seen, ALPHA, 0.4)
    value = sum(model_values(model, plan.policy)[j] * (j == 0) for j in range(1 + M))
    assert value == pytest.approx(best.value)
    assert plan.meets
    plain = model_values(Model(seen.p, NO_SUCCESSORS, seen.f, problem.initial), plan.policy)
    np.testing.assert_allclose(plan.values, plain)


def model_values(model, policy):
    values = np.zeros((model.f.shape[0], S))
    for h in range(H - 1, -1, -1):
        values = np.einsum("sa,jsa->js", policy[h], model.f[:, h] + np.einsum("sat,jt->jsa", model.p[h], values))
    return values @ model.mu


def test_thresholds_that_cannot_be_met_are_lowered_by_a_little_more_than_is_missing():
    problem = told()
    seen = planner.sketch(problem, seen_by(problem, most=30))
    careful = seen.f - 0.15 * seen.spread[:, None, None, None] * seen.doubt
    careful = np.where(seen.seen, careful, -np.arange(H, 0, -1.0)[:, None, None])
    high = np.array([2.9, 0.1])
    with pytest.raises(fd.InfeasibleError) as missed:
        solve_model(Model(seen.p, NO_SUCCESSORS, careful, problem.initial), high)
    lowered = high - 1.05 * missed.value.shortfall - 1e-6
    best = solve_model(Model(seen.p, NO_SUCCESSORS, careful, problem.initial), lowered)
    plan = planner.plan_to_earn(problem, seen, high, 0.15)
    assert plan.meets
    np.testing.assert_allclose(plan.policy, best.policy)


@pytest.mark.parametrize(("failures", "meets"), [(0, True), (1, True), (2, False), (3, None)])
def test_thresholds_are_lowered_twice(failures, meets, monkeypatch):
    problem, tried = told(), []
    seen = planner.sketch(problem, seen_by(problem, most=30))

    def solved(model, alpha, **rest):
        tried.append(alpha)
        if len(tried) <= failures:
            raise fd.InfeasibleError("not yet", (0,), 0.1)
        return solve_model(model, np.zeros(M), **rest)

    monkeypatch.setattr(planner, "solve_model", solved)
    plan = planner.plan_to_earn(problem, seen, ALPHA, 0.15)
    assert (None if plan is None else plan.meets) is meets
    assert len(tried) == min(failures + 1, 3)


@pytest.mark.parametrize("seed", range(10))
def test_a_plan_to_learn_takes_every_plausible_action(seed):
    problem, rng = world().problem(reveal=("transitions",)) if seed % 3 == 2 else told(), np.random.default_rng(seed)
    seen, doubt = planner.sketch(problem, seen_by(problem, seed)), 0.0 if seed == 1 else 0.3
    lam = rng.uniform(0.0, 2.0, M) if seed else np.array([50.0, 1.0])
    weights = [1.0, *np.minimum(lam, 20.0)]
    later, policy = np.zeros(S), np.zeros((H, S, A))
    for h in range(H - 1, -1, -1):
        value = np.zeros(S)
        for s in range(S):
            q, wide = np.zeros(A), np.zeros(A)
            for a in range(A):
                q[a] = sum(w * seen.f[j, h, s, a] for j, w in enumerate(weights)) + seen.p[h, s, a] @ later
                spread = sum(w * seen.spread[j] for j, w in enumerate(weights))
                unknown = 1 if seed % 3 == 2 else H - h
                wide[a] = doubt * spread * math.sqrt(unknown / max(seen.visits[h, s, a], 1.0))
            known = [a for a in range(A) if seen.visits[h, s, a] > 0]
            least = max((q[a] - wide[a] for a in known), default=-math.inf)
            for a in range(A):
                if a not in known or q[a] + wide[a] >= least:
                    policy[h, s, a] = 1.0 / math.sqrt(max(seen.visits[h, s, a], 1.0))
            value[s] = max((q[a] for a in known), default=0.5 * sum(weights) * (H - h))
        later = value
    policy /= policy.sum(axis=-1, keepdims=True)
    plan = planner.plan_to_learn(problem, seen, lam, doubt)
    np.testing.assert_allclose(plan.policy, policy)
    assert plan.multipliers.tolist() == weights[1:]
    assert not plan.meets
    held = np.where(seen.seen, seen.f, 0.5)
    np.testing.assert_allclose(plan.values, model_values(Model(seen.p, NO_SUCCESSORS, held, problem.initial), policy))


# -- what is played and told ---------------------------------------------------------------------------------------


def test_draws_depend_on_the_seed_and_the_episode_alone():
    learner = sure(seed=5)
    stream = np.random.Generator(np.random.PCG64(np.random.SeedSequence([5, int.from_bytes(b"GUAR")]))).random(9)
    np.testing.assert_array_equal(learner.coins(4), stream[:4])
    learner.episode = 3
    np.testing.assert_array_equal(learner.coins(6), stream[3:])


def test_what_is_told_is_that_of_the_mixture():
    learner = sure()
    book = learner.ledger.book
    book.reward[:2], book.bound[:2] = [1.0, 2.0], [[0.8, 0.9], [0.1, 0.3]]
    book.now[:] = 0.0, 1.0, 0.25
    status = learner.status()
    assert (status.base, status.other, status.weight, status.bases, status.episode) == (0, 1, 0.25, 1, 1)
    assert status.candidate
    assert status.reward == 1.25
    np.testing.assert_allclose(status.bounds, [0.625, 0.75])
    weights, policies = learner.mixture
    assert weights.tolist() == [0.75, 0.25]
    np.testing.assert_array_equal(policies, book.policies[:2])
    book.now[:], book.bound[1] = [0.0, 1.0, 1.0], 3.0
    weights, policies = learner.mixture
    assert weights.tolist() == [1.0]
    np.testing.assert_array_equal(policies, book.policies[1:2])
    np.testing.assert_array_equal(learner.policy, book.policies[1])
    assert not learner.status().candidate


def test_a_guard_holds_its_candidate_for_what_the_learner_believes():
    learner = guarded()
    for _ in range(3):
        learner.observe(fd.Episode(**episode()))
    believed = learner.learner.beliefs()
    learner.episode = 50
    learner.settle()
    guess = learner.ledger.policies[-1].guess
    np.testing.assert_allclose(guess[:, 0], np.clip(believed.utilities / H, 0.01, 0.99))
    assert learner.ledger.book.belief[2] == believed.value


def test_a_belief_that_no_utility_can_have_is_cut(monkeypatch):
    learner = guarded()
    off = replace(learner.learner.beliefs(), utilities=np.array([-0.5, 7.0]))
    monkeypatch.setattr(type(learner.learner), "beliefs", lambda self: off)
    learner.episode = 50
    learner.settle()
    assert learner.ledger.policies[-1].guess[:, 0].tolist() == [0.01, 0.99]


def test_an_episode_that_refutes_a_promise_is_refused_whole():
    lie = fd.SafePolicy(safe().policy, np.array([2.9, 2.9]))
    learner = fd.SureDOME(told(), episodes=500, safe_policy=lie)
    learner.ledger.book.now[:] = 0.0, 0.0, 1.0
    learner.settle = lambda: None  # the safe policy is played for ever
    one = fd.Episode(**{**episode(), "utilities": np.full((M, H), 0.4)})
    for _ in range(48):  # as many as do not refute it, at one in a million
        learner.observe(one)
    with pytest.raises(fd.ValidationError, match=r"safe_policy.utilities\[0\] is 2.9; its 49 episodes show"):
        learner.observe(one)
    assert learner.episode == learner.ledger.book.earned[0, 0] == 48
    assert learner.visits.sum() == 48 * H


def test_a_promise_that_a_guard_refutes_is_told_in_the_users_units():
    doses = [fd.Quantity(name, 0.0, 150.0, "ml", limit=100.0) for name in ("morning", "evening")]
    problem = fd.Problem(told().states, told().actions, H, subject_to=doses)
    lie = fd.SafePolicy(safe().policy, problem.units.values([15.0, 15.0]))
    learner = fd.SureDOME(problem, episodes=500, safe_policy=lie)
    learner.ledger.book.now[:] = 0.0, 0.0, 1.0
    learner.settle = lambda: None
    one = fd.Episode(**{**episode(), "utilities": np.full((M, H), 90.0)})

    def live():
        while True:
            learner.observe(one)

    with pytest.raises(fd.ValidationError, match=r"morning at most 15 ml; its \d+ episodes show at least .* ml with"):
        live()


def test_a_safe_policy_without_room_is_told_in_the_users_units():
    doses = [fd.Quantity(name, 0.0, 150.0, "ml", limit=100.0) for name in ("morning", "evening")]
    problem = fd.Problem(told().states, told().actions, H, subject_to=doses)
    lie = fd.SafePolicy(safe().policy, problem.units.values([90.0, 120.0]))
    with pytest.raises(fd.ValidationError, match=r"\(evening at most 120 ml, limit 100 ml\): the policy must be safe"):
        fd.SureDOME(problem, episodes=500, safe_policy=lie)


@pytest.mark.parametrize("kind", [fd.SureDOME, Guarded])
def test_the_defaults_are_those_that_are_documented(kind):
    given = inspect.signature(kind).parameters
    assert (given["episodes"].default, given["seed"].default, given["delta"].default) == (80_000, 0, 0.05)
    assert inspect.signature(fd.Guard).parameters["delta"].default == 0.05


@pytest.mark.parametrize("why", ["certified", "behind", "neither"])
def test_a_guard_goes_on_without_a_candidate_that_is_decided(why):
    learner = guarded()
    book = learner.ledger.book
    book.bound[1] = 3.0 if why == "certified" else 0.1
    book.reward[:2] = 2.0, 0.5 if why == "behind" else 3.0
    book.earned[1] = 400.0, 200.0, 100.0  # a standard error of nothing
    learner.settle()
    assert book.places[kernels.KEEN] == (why == "neither")
    assert learner.status().candidate == (why == "neither")
    if why != "neither":
        assert learner.ledger.now[1] == (1 if why == "certified" else 0)


# -- epochs --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("played", "t", "begins"), [(4, 9, False), (5, 9, True), (4, 10, True), (0, 0, False)])
def test_an_epoch_ends_with_its_aim_or_its_time(played, t, begins):
    learner = sure()
    places = learner.ledger.book.places
    places[[kernels.AIM, kernels.UNTIL]] = 5, 10
    learner.ledger.book.earned[1, 0], learner.episode = played, t
    learner.settle()
    assert learner.ledger.frozen == 1 + begins


def test_an_epoch_begins_where_the_policy_of_the_last_is_not_kept():
    learner = sure()
    learner.ledger.book.places[[kernels.CURRENT, kernels.AIM, kernels.UNTIL]] = 99, 5, 10
    learner.settle()
    assert learner.ledger.frozen == 2


def test_a_main_policy_has_sixty_episodes_at_least():
    learner = sure(explore_scale=0.0)
    places = learner.ledger.book.places
    learner.episode, places[[kernels.MAIN, kernels.KEEN]] = 10, 1
    learner._begin(1, ALPHA)
    assert places[[kernels.CURRENT, kernels.KEEN, kernels.AIM, kernels.UNTIL]].tolist() == [1, 1, 60, 70]
    assert learner.least == 60
    places[kernels.KEEN] = 0
    assert learner.least < 0.0


@pytest.mark.parametrize(("plan", "main", "pays"), [(6.0, 5.0, True), (5.0, 5.0, False), (6.0, 7.0, False)])
def test_a_plan_pays_where_it_brings_more_than_the_main_policy(plan, main, pays, monkeypatch):
    learner = sure()
    learner.ledger.book.reward[:2] = 0.0
    learner.ledger.book.earned[1, 0] = 33.0
    asked = []
    monkeypatch.setattr(
        fd.SureDOME, "_brings", lambda self, *given: asked.append(given) or (main if len(given) == 7 else plan)
    )
    proposal = planner.Proposal(np.full((H, S, A), 0.5), np.array([1.5, 0.8, 0.9]), np.zeros(M), True)
    assert learner._pays(proposal, 1, ALPHA) is pays
    assert asked[0][2] == 33.0
    assert asked[0][3] == learner.ledger.level(1)


@pytest.mark.parametrize(("earned", "pays"), [(1.0, False), (0.9, True)])
def test_a_plan_pays_where_it_brings_more_than_what_is_played(earned, pays, monkeypatch):
    learner = sure()
    learner.ledger.book.reward[:2] = earned, 0.0
    monkeypatch.setattr(fd.SureDOME, "_brings", lambda self, *given: 200.0)
    proposal = planner.Proposal(np.full((H, S, A), 0.5), np.array([1.5, 0.8, 0.9]), np.zeros(M), True)
    assert learner._pays(proposal, 0, ALPHA) is pays


def test_what_was_counted_is_told():
    cmdp, known = sampled()
    learner = fd.SureDOME(cmdp.problem(), episodes=50, safe_policy=known)
    one = {**episode("sampled"), "rewards": np.array([0.5, 0.0, 0.75])}
    learner.observe(fd.Episode(**one))
    learner.observe(fd.Episode(**{**one, "utilities": np.where(np.arange(H) == 1, np.nan, one["utilities"])}))
    counted, means, believed = learner.seen_counts(), learner.utility_means(), learner.beliefs()
    assert counted.episodes == 2
    np.testing.assert_allclose(counted.alpha_sum[1], 2 * 0.5)
    np.testing.assert_allclose(counted.alpha_count[1], 2)
    spread = math.sqrt((10.0 * 0.09 + 2.0 * 3.0 * np.var(one["rewards"])) / 16.0)
    for h, s, a in np.ndindex(H, S, A):
        n = 2.0 * ((one["states"][h], one["actions"][h]) == (s, a))
        assert counted.visits[h, s, a] == n
        np.testing.assert_allclose(means[:, h, s, a], one["utilities"][:, h] if n else np.nan)
        assert believed.widths[h, s, a] == pytest.approx(0.15 * spread * math.sqrt((H - h) / max(n, 1.0)))
    assert not believed.margin.any()


def test_multipliers_come_back_unless_one_is_negative():
    learner = sure()
    assert not learner.multipliers.any()
    learner.restore(learner.state())
    with pytest.raises(fd.ValidationError, match=r"state.multipliers\[1\]"):
        learner.restore({**learner.state(), "multipliers": np.array([0.0, -0.5])})
