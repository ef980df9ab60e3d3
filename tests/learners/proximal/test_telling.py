"""What ProxDOME tells of a plan, held to values of its own: each rule on both of its sides, each sum to a twin."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

import flexdome as fd
from flexdome.learners.proximal import telling
from flexdome.learners.proximal.memory import Memory
from flexdome.learners.proximal.nearest import Nearest, nearest_of
from flexdome.learners.proximal.status import Status
from flexdome.learners.proximal.telling import beliefs_of, status_of
from flexdome.learners.status import Status as Plain
from naive_proxdome import NaiveProxDOME, seen
from runs import World, small_cmdp

UNITS = fd.Problem(2, 2, 4, 0, [1.0, 1.0]).units
SIZE: dict[str, Any] = {"S": 3, "A": 2, "H": 3}


def told(**changes: Any) -> Status:
    """A status of two constraints, both met by five standard errors, with ``changes``."""
    parts: dict[str, Any] = {
        "episode": 7, "utilities": np.array([2.0, 3.0]), "errors": np.array([0.1, 0.2]), "margin": np.array([0.3, 0.6]),
        "thresholds": np.array([1.5, 2.0]), "multipliers": np.array([0.5, 0.0]), "trials": 2, "untried": 3,
        "solved": True, "ceiling": False, "share": 1.0, "weight": 1.0, "first_tries": 0.0, "played": np.zeros(2),
        "below": np.zeros(2), "infeasible": False, "nearest": None, "tolerance": np.array([0.01, 0.02]), "units": UNITS,
    }  # fmt: skip
    return Status(**{**parts, **changes})


def short(i: int = 0, by: float = 0.5, **changes: Any) -> Status:
    """The same, with utility i short of its threshold by so much after its margin."""
    utilities = np.array([2.0, 3.0])
    utilities[i] = [1.5, 2.0][i] + [0.3, 0.6][i] - by
    return told(utilities=utilities, **changes)


# -- rules, on both of their sides ----------------------------------------------------------------------------------


def test_slack_and_standard_errors_are_sums_of_what_is_told():
    status = told()
    assert status.slack == pytest.approx([0.2, 0.4])
    assert status.standard_errors == pytest.approx([5.0, 5.0])


@pytest.mark.parametrize(("slack", "accepted"), [(-0.0101, False), (-0.0099, True), (0.0, True), (0.5, True)])
def test_a_policy_is_accepted_where_its_slack_is_no_less_than_the_tolerance_allows(slack, accepted):
    assert short(0, -slack).accepted.tolist() == [accepted, True]


def test_exactly_at_the_tolerance_a_policy_is_accepted_and_shown_safe():
    exact = {"utilities": np.array([2.0]), "thresholds": np.array([1.5]), "tolerance": np.array([0.25])}
    alone = {"multipliers": np.zeros(1), "played": np.zeros(1), "below": np.zeros(1)}
    status = told(**exact, **alone, margin=np.array([0.75]), errors=np.array([0.25]))
    assert status.slack.tolist() == [-0.25]
    assert status.accepted.all()
    assert status.safe.all()  # 0.5 less three times 0.25 is the tolerance
    assert not told(**exact, **alone, margin=np.array([0.75]), errors=np.array([0.2501])).safe.any()


@pytest.mark.parametrize(("errors", "safe"), [(0.1701, False), (0.1699, True)])
def test_shown_safe_takes_three_standard_errors_less_the_tolerance(errors, safe):
    assert told(errors=np.array([errors, 0.2])).safe.tolist() == [safe, True]  # 0.5 + 0.01 over three


@pytest.mark.parametrize(("over", "count"), [(-0.0101, -np.inf), (-0.01, np.inf), (0.2, np.inf)])
def test_without_error_the_standard_errors_are_infinite(over, count):
    status = told(utilities=np.array([over, 3.0]), thresholds=np.array([0.0, 2.0]), errors=np.array([0.0, 0.2]))
    assert status.standard_errors[0] == count


def test_the_share_below_is_of_the_episodes_that_were_played():
    assert told(played=np.array([8.0, 0.0]), below=np.array([2.0, 0.0])).share_below[0] == 0.25
    assert np.isnan(told(played=np.array([8.0, 0.0]), below=np.array([2.0, 0.0])).share_below[1])


# -- words ----------------------------------------------------------------------------------------------------------


def test_what_is_shown_safe_is_told_with_its_numbers():
    text = told().text().splitlines()
    assert text[0] == "episode 7: shown safe: every utility less its margin meets its threshold (within 0.05 margins)"
    assert text[1] == ("  constraint 0: utility 2 - margin 0.3 meets threshold 1.5, slack +0.2; the constraint binds")
    assert text[2].endswith("slack +0.4; the reward alone decides")
    assert text[3] == "  3 (step, state, action) never tried in visited states"
    assert text[4].startswith("  shown safe: measured, by 5 estimated standard errors; no certificate")
    assert len(text) == 5


def test_a_verbose_account_has_multipliers_standard_errors_and_trials():
    text = told().text(verbose=True)
    assert "margin 0.3 (3 standard errors of 0.1) meets" in text
    assert "slack +0.2; multiplier 0.5: the constraint binds" in text
    assert "  2 dual trials, 3 (step" in text
    assert "  1 dual trial, 3 (step" in told(trials=1).text(verbose=True)


def test_slack_of_zero_meets_and_less_meets_within_the_tolerance():
    exact = {"utilities": np.array([2.0, 3.0]), "margin": np.array([0.5, 0.6])}
    assert "meets threshold 1.5, slack +0;" in told(**exact).text()
    assert "meets, within its tolerance, threshold 1.5, slack -0.005" in short(0, 0.005).text()
    assert "is below threshold 1.5, slack -0.5; not shown safe" in short(0, 0.5).text()


def test_the_probability_of_the_plan_is_told_where_it_is_not_one():
    assert "  played with probability 0.25, the safe policy that was given otherwise" in told(weight=0.25).text()
    assert "played with" not in told().text()


def test_episodes_that_fell_short_are_counted():
    text = told(played=np.array([8.0, 6.0]), below=np.array([2.0, 3.0])).text()
    assert "  8 episodes played, whose own sums fell short: constraint 0 in 0.25 of them, constraint 1 in 0.5 " in text
    assert "  1 episode played, whose" in told(played=np.ones(2)).text()
    assert "fell short" not in told().text()


def test_infinitely_many_standard_errors_are_not_told():
    alone = {"errors": np.zeros(2), "margin": np.zeros(2)}
    assert told(**alone).safe.all()
    assert "certificate" not in told(**alone).text()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"share": 0.0}, "shown safe: a policy that is safe by itself; nothing can be added yet"),
        ({"share": 0.25}, "shown safe: a policy that is safe by itself, with 0.25 of a more hopeful plan"),
        ({"solved": False}, "shown safe, but the search for the best such policy did not end"),
        ({"share": 0.5, "solved": False}, "shown safe: a policy that is safe by itself, with 0.5 of"),
        ({"errors": np.array([0.2, 0.2])}, "estimated to meet its thresholds, by 2.5 standard errors; not shown safe"),
    ],
)
def test_why_a_policy_is_played_that_meets_its_thresholds(changes, words):
    assert words in told(**changes).text().splitlines()[0]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"share": 0.0}, "nothing can be shown safe yet (short: constraint 0 by 0.5); after a log"),
        ({"share": 0.0, "first_tries": 1.0}, "nothing can be shown safe yet"),
        ({"first_tries": 0.02}, "not shown safe (short: constraint 0 by 0.5); first tries expected in the ep"),
        ({"first_tries": 0.0199}, "no policy can be shown safe yet (short: constraint 0 by 0.5); what is played"),
        ({"solved": False}, "the search found no policy that can be shown safe (short: constraint 0 by 0.5); what is"),
    ],
)  # fmt: skip
def test_why_a_policy_is_played_that_is_short(changes, words):
    assert words in short(**changes).text().splitlines()[0]


def test_policies_that_are_short_of_two_thresholds_are_told_with_both():
    text = told(utilities=np.array([1.0, 2.0])).text()
    assert "(short: constraint 0 by 0.8, constraint 1 by 0.6)" in text


def test_where_no_policy_meets_the_thresholds_the_nearest_is_told():
    found = Nearest(False, np.array([1.2, 1.6]), np.array([0.05, 0.07]), (0, 1))
    text = short(infeasible=True, nearest=found).text().splitlines()[0]
    assert text == (
        "episode 7: no policy meets these thresholds, as far as the data show: together at best 1.6 ± 0.07 of "
        "constraint 1, constraints 0 and 1 conflict (played: short constraint 0 by 0.5)"
    )
    alone = short(infeasible=True, nearest=found._replace(constraints=(1,))).text().splitlines()[0]
    assert "the data show: best 1.6 ± 0.07 of constraint 1 (played" in alone
    large = short(infeasible=True, multipliers=np.array([0.5, 0.0])).text().splitlines()[0]
    assert "the data show: best 1.3 ± 0.1 of constraint 0 (played" in large  # of what is played, by its multipliers
    both = short(infeasible=True, multipliers=np.array([0.5, 0.1])).text().splitlines()[0]
    assert "together at best 1.3 ± 0.1 of constraint 0, constraints 0 and 1 conflict" in both


# -- which policy is nearest ----------------------------------------------------------------------------------------


def largest_slack(p: Any, f: Any, alpha: Any, mu: Any, may: Any) -> tuple[float, Any, Any]:
    """Max over policies of min_i (V_i - alpha_i), its occupancies and the constraints' weights: a linear program."""
    m, H, S, A = f.shape
    n = H * S * A
    flow, ends = np.zeros((H * S, n + 1)), np.zeros(H * S)
    ends[:S] = mu
    for h in range(H):
        for s in range(S):
            for a in range(A):
                column = (h * S + s) * A + a
                flow[h * S + s, column] = 1.0
                if h + 1 < H:
                    flow[(h + 1) * S : (h + 2) * S, column] -= p[h, s, a]
    above = np.column_stack([-f.reshape(m, n), np.ones(m)])
    bounds = [(0.0, None if ok else 0.0) for ok in may.ravel()] + [(None, None)]
    found = linprog(np.append(np.zeros(n), -1.0), above, -alpha, flow, ends, bounds)
    assert found.status == 0
    return -found.fun, found.x[:-1].reshape(H, S, A), -found.ineqlin.marginals


def nearest_by_hand(twin: NaiveProxDOME) -> Nearest:
    """The policy with the largest smallest slack, from the formulas of :mod:`flexdome.learners.proximal.nearest`."""
    H, S, A = twin.N.shape
    means, s2 = np.empty((twin.m, H, S, A)), np.zeros((twin.m, H, S, A))
    for i in range(twin.m):
        sampled = twin.N > 0 if twin.known_f[1 + i] else twin.n_d[i] > 0
        hoped = np.where(twin.N > 0, 0.0, twin.top[i] * twin.rest)  # of what follows
        means[i] = np.where(sampled, twin.mean(1 + i, 0.0), twin.mean(1 + i, twin.top[i]) + hoped)
        means[i] = np.where(sampled | (twin.N == 0) | twin.known_f[1 + i], means[i], twin.top[i])
        s2[i] = np.where(sampled, twin.s2[i], 0.0)
    b = twin.b
    alpha = (twin.a - twin.z * np.sqrt(twin.sa)) / b
    scale = b[:, None, None, None]
    hope = (means + 1.3 * twin.z * np.sqrt(s2 / H)) / scale
    _, x, weights = largest_slack(twin.p, means / scale, alpha, twin.mu, twin.may)
    most, _, _ = largest_slack(twin.p, hope, alpha, twin.mu, twin.may)
    values = (x * means).sum((1, 2, 3))
    if twin.shared:
        errors = np.sqrt(((x * np.sqrt(s2)).sum(1) ** 2).sum((1, 2)))
    else:
        errors = np.sqrt((x**2 * s2).sum((1, 2, 3)))
    met = most >= 0 or weights @ (values / b + 1.3 * twin.z * errors / b - alpha) >= 0
    against = tuple(int(i) for i in np.flatnonzero(weights > 1e-6))
    return Nearest(bool(met), values, np.sqrt(errors**2 + twin.sa), against)


NEAREST: dict[str, dict[str, Any]] = {
    "one constraint": {"m": 1, "fraction": 1.3},
    "two, zero and one": {"m": 2, "noise": "bernoulli", "fraction": 1.2},
    "steps shared": {"m": 2, "noise": "bernoulli", "fraction": 1.2, "stationary": True},
    "a mask, mixed starts": {"m": 2, "A": 3, "masked": True, "fraction": 1.3, "initial": np.array([0.5, 0.0, 0.5])},
    "hidden thresholds": {"m": 2, "law": "hidden", "noise": "bernoulli", "fraction": 1.1},
    "known transitions": {"m": 2, "noise": "bernoulli", "fraction": 1.2, "reveal": ("transitions",)},
    "known utilities": {"m": 2, "noise": "bernoulli", "fraction": 1.2, "reveal": ("utilities",)},
    "samples missing": {"m": 2, "noise": "bernoulli", "fraction": 1.2, "lost": 0.6},
    "far beyond what can be": {"m": 2, "S": 2, "H": 2, "fraction": 1.7},
}


def after(episodes: int, reveal: tuple[str, ...] = (), lost: float = 0.0, **options: Any) -> Any:
    """A learner and its twin after so many episodes of a small problem."""
    cmdp = small_cmdp(3, **{**SIZE, **options})
    hide = ("thresholds",) if options.get("law") == "hidden" else ()
    learner, rng = fd.ProxDOME(cmdp.problem(slater_gap=0.1, hide=hide, reveal=reveal)), np.random.default_rng(0)
    twin, world = NaiveProxDOME(learner.problem), World(cmdp, 1)
    for _ in range(episodes):
        e = seen(world, learner)
        d = np.where(rng.random(e.utilities.shape) < lost, np.nan, e.utilities)
        e = fd.Episode(e.states, e.actions, e.rewards, d, e.thresholds)
        learner.observe(e)
        twin.observe(e)
    return learner, twin


@pytest.mark.parametrize("case", NEAREST)
def test_the_nearest_policy_is_that_of_one_linear_program(case):
    for episodes in (2, 9, 40):
        learner, twin = after(episodes, **NEAREST[case])
        found, by_hand = nearest_of(learner, twin.z), nearest_by_hand(twin)
        assert found is not None
        assert found.met == by_hand.met
        width = learner.own.scales.width
        alpha = np.where(np.isnan(twin.known), twin.a - twin.z * np.sqrt(twin.sa), twin.known)
        slack = min((by_hand.utilities - alpha) / width)
        assert min((found.utilities - alpha) / width) == pytest.approx(slack, abs=1e-6)
        if episodes == 40:  # where few were seen several policies may be nearest
            assert found.constraints == by_hand.constraints
            assert found.utilities == pytest.approx(by_hand.utilities, abs=1e-6)
            assert found.errors == pytest.approx(by_hand.errors, abs=1e-6)


def test_a_model_of_a_million_transitions_is_still_looked_at(monkeypatch):
    learner, twin = after(2, m=2)
    monkeypatch.setattr("flexdome.learners.proximal.nearest.MOST", 3 * 3 * 2 * 3)
    assert nearest_of(learner, twin.z) is not None
    monkeypatch.setattr("flexdome.learners.proximal.nearest.MOST", 3 * 3 * 2 * 3 - 1)
    assert nearest_of(learner, twin.z) is None


# -- status and beliefs of a learner --------------------------------------------------------------------------------


@pytest.mark.parametrize("reveal", [(), ("utilities",), ("rewards",), ("transitions",), ("transitions", "rewards")])
def test_status_and_beliefs_are_those_of_the_twin(reveal):
    learner, twin = after(25, m=2, noise="bernoulli", reveal=reveal, fraction=1.1)
    status, beliefs = status_of(learner), beliefs_of(learner)
    assert status.episode == 26
    floor = 1e-6 * 3 * twin.b if reveal else 0.0
    assert status.tolerance == pytest.approx(np.maximum(0.05 * 1.3 * twin.z * twin.error, floor), abs=1e-12)
    assert status.margin == pytest.approx(twin.margin)
    assert status.played.tolist() == twin.judged.tolist()
    assert status.below.tolist() == twin.below.tolist()
    assert status.trials == twin.trials
    assert (status.solved, status.ceiling, status.share) == (twin.solved, twin.full, twin.share)
    assert status.first_tries == pytest.approx(twin.first)
    assert beliefs.value == pytest.approx(twin.R[0] @ twin.mu)
    assert beliefs.utilities == pytest.approx(twin.U[:, 0] @ twin.mu)
    reward, utilities = 1.0, float(twin.lam @ twin.top)
    most = reward * ("rewards" not in reveal) + utilities * ("utilities" not in reveal) + 0.0 * twin.rem
    if "transitions" not in reveal:
        most = most + (reward + utilities) * (twin.rem - 1.0)
    widths = np.where(twin.N > 0, twin.bar - twin.mean(0, 0.0), most)
    assert beliefs.widths == pytest.approx(np.broadcast_to(widths, twin.N.shape), abs=1e-9)


def test_the_tolerance_is_of_half_a_standard_error_where_the_margin_is_smaller():
    cmdp = small_cmdp(3, **SIZE)
    for scale, counts in ((0.2, 0.5), (0.5, 0.5), (0.8, 0.8)):
        learner = fd.ProxDOME(cmdp.problem(), margin_scale=scale)
        status = status_of(learner)
        assert status.tolerance == pytest.approx(0.05 * counts * np.sqrt(5.5) * status.errors)
        assert status.tolerance[0] > 0.0


def test_z_grows_once_its_square_is_more_than_its_least():
    learner, _ = after(1, m=1)
    learner.episode, learner.own.logged[0] = 200, 98  # log(300) = 5.70
    status = status_of(learner)
    assert status.tolerance == pytest.approx(0.05 * 1.3 * np.sqrt(np.log(300.0)) * status.errors)


@pytest.mark.parametrize(
    ("changes", "infeasible"),
    [
        ({}, True),
        ({"over": -1e-6}, False),
        ({"safe": 1.0}, False),
        ({"ceiling": 0.0}, False),
        ({"share": 0.5}, False),
        ({"first": 0.0101}, False),
    ],
)
def test_a_large_model_cannot_meet_its_thresholds_where_it_is_short_by_more_than_is_given_away(
    changes, infeasible, monkeypatch
):
    monkeypatch.setattr("flexdome.learners.proximal.nearest.MOST", 1)
    learner, _ = after(3, m=2)
    report = learner.own.report
    learner.model.core.policy.lam[:] = [2.0, 3.0]
    given = {"safe": 0.0, "ceiling": 1.0, "share": 1.0, "first": 0.01, "temperature": 0.5, "over": 1e-6, **changes}
    # 2 (0.5 + 0.2 - alpha) + 3 (0.6 + 0.1 - alpha) + 3 (1 + 0.5 log 2) is 0 at this alpha
    report.thresholds[:] = 0.7 + 0.6 * (1.0 + 0.5 * np.log(2.0)) + given.pop("over")
    report.utilities[:], report.margin[:] = [0.5, 0.6], [0.2, 0.1]
    for name, value in given.items():
        getattr(report, name)[:] = value
    assert telling._infeasible(learner) == infeasible
    if report.safe[0] == 0.0:
        assert status_of(learner).infeasible == infeasible


# -- what is remembered of a plant that changes ---------------------------------------------------------------------


def remembering(n: int, window: int = 1000, miss: float = 0.0, spread: float = 0.0, error: float = 0.0) -> Memory:
    """A memory of n episodes whose one utility missed by ``miss``, give or take ``spread``."""
    memory = Memory(window, 1)
    for k in range(n):
        d = np.full((1, 2), 0.5 + 0.5 * (miss + spread * (-1.0) ** k))
        data = (np.zeros(3, np.int64), np.zeros(2, np.int64), np.zeros(2), d, np.zeros((0, 0)))
        memory.add(data, np.array([1.0]), np.array([error]))
    return memory


@pytest.mark.parametrize(("miss", "parted"), [(0.3 + 4.5 / 4 - 0.01, 0), (0.3 + 4.5 / 4 + 0.01, 16)])
def test_predictions_have_parted_beyond_four_and_a_half_deviations_and_three_errors(miss, parted):
    assert remembering(16, miss=miss, spread=1.0, error=0.1).parted() == parted


def test_fewer_than_sixteen_episodes_part_from_nothing_and_more_are_looked_at_in_powers_of_two():
    assert remembering(15, miss=1.0).parted() == 0
    assert remembering(16, miss=1.0).parted() == 16
    # over 16 the bound is 4.5 / 4, over 32 it is 4.5 / sqrt(32) = 0.795
    assert remembering(32, miss=0.9, spread=1.0).parted() == 32
    assert remembering(31, miss=0.9, spread=1.0).parted() == 0


def test_it_is_looked_at_in_every_fourth_episode():
    for n in (17, 18, 19):
        assert not remembering(n, miss=1.0).cut()
    memory = remembering(20, miss=1.0)
    assert memory.cut()
    assert len(memory.data) == len(memory.misses) == 16
    assert np.isnan(memory.misses).all()


@pytest.mark.parametrize(("window", "at"), [(40, 45), (16, 18), (7, 8)])
def test_the_last_window_is_kept_whenever_an_eighth_more_has_come(window, at):
    assert not remembering(at - 1, window).cut()
    memory = remembering(at, window)
    assert memory.cut()
    assert len(memory.data) == len(memory.misses) == window


def test_what_a_memory_holds_comes_back_from_its_arrays():
    rng, memory = np.random.default_rng(0), Memory(50, 2)
    for k in range(5):
        d = rng.random((2, 3))
        d[k % 2, 1] = np.nan
        samples = rng.random((2, 3)) if k > 2 else np.zeros((0, 0))
        states, actions = rng.integers(0, 4, size=4), rng.integers(0, 2, size=3)
        told = (None, None) if k < 2 else (rng.random(2), rng.random(2))
        memory.add((states, actions, rng.random(3), d, samples), *told)
    again = Memory(50, 2)
    again.restore(memory.state(), (3, 4, 2))
    for one, other in zip(memory.data, again.data, strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(memory.misses, again.misses)
    empty = Memory(50, 2)
    empty.restore(Memory(50, 2).state(), (3, 4, 2))
    assert empty.data == []


# -- learners that have no account of their own ---------------------------------------------------------------------


def plain(**changes: Any) -> Plain:
    """A status of two constraints, the second with more to spare than the first, with ``changes``."""
    parts: dict[str, Any] = {
        "episode": 7, "episodes": 10, "how": "as it does", "utilities": np.array([2.0, 3.0]),
        "thresholds": np.array([1.5, 2.0]), "margin": np.array([0.25, 0.5]), "multipliers": np.array([0.5, 0.0]),
        "estimated": np.array([False, True]), "tried": 3, "untried": 1, "units": UNITS,
    }  # fmt: skip
    return Plain(**{**parts, **changes})


def test_a_plain_status_is_told_with_its_numbers():
    assert plain().text().splitlines() == [
        "episode 7 of 10: believed to meet every threshold, which is not a proof",
        "  played: as it does",
        "  constraint 0: utility believed to be 2, threshold 1.5: 0.5 to spare",
        "  constraint 1: utility believed to be 3, estimated threshold 2: 1 to spare",
        "  known: 3 of 4 actions tried where it has been (75 %)",
        "  what would change it: 1 action was never tried",
    ]
    assert "    multiplier 0.5, safety margin 0.25" in plain().text(verbose=True)


def test_a_plain_status_says_what_is_short_and_by_how_much():
    status = plain(utilities=np.array([1.25, 3.0]))
    assert status.short.tolist() == [True, False]
    assert "NOT SAFE by the learner's own belief: constraint 0 falls short" in status.text()
    assert "utility believed to be 1.25, threshold 1.5: short by 0.25" in status.text()
    assert "constraint 0 must weigh more (it is worth" in status.text()
    nothing = plain(utilities=np.array([2.0, 1.0]), untried=2).text()
    assert "constraint 1 must begin to weigh: it is worth nothing to the learner yet; 2 actions were never t" in nothing
    exact = plain(utilities=np.array([1.5, 2.0]))
    assert not exact.short.any()
    assert "threshold 1.5: 0 to spare" in exact.text()


@pytest.mark.parametrize(("utility", "beyond"), [(4.0, False), (4.0001, True), (0.0, False), (-0.0001, True)])
def test_a_belief_is_beyond_what_can_be_outside_of_nothing_and_one_a_step(utility, beyond):
    assert plain(utilities=np.array([utility, 3.0])).beyond.tolist() == [beyond, False]


def test_a_plain_status_says_what_is_hoped_and_what_is_feared():
    hoped = plain(utilities=np.array([5.0, 3.0])).text()
    assert "utility hoped to be 4, the best there is, threshold 1.5\n" in hoped
    assert "nothing can be said of safety yet: what was seldom seen is hoped to be the best there is" in hoped
    feared = plain(utilities=np.array([-1.0, 3.0])).text()
    assert "utility feared to be 0, the worst there is, threshold 1.5\n" in feared
    no_more = plain(utilities=np.array([5.0, 3.0]), thresholds=np.array([5.0, 2.0])).text()
    assert "hoped to be 4" in no_more


def test_before_the_first_episode_nothing_can_be_said():
    first = "nothing was seen yet, and nothing can be said of safety"
    assert first in plain(episode=1, tried=0).text()
    assert first not in plain(episode=1, tried=1).text()
    assert first not in plain(episode=2, tried=0).text()
    assert "known: 0 of 0 actions tried where it has been (0 %)" in plain(tried=0, untried=0).text()
    assert "known: 1 of 1 action tried" in plain(tried=1, untried=0).text()


def test_a_learner_past_its_plan_says_so():
    past = "it is past the episodes that it was planned for"
    assert past in plain(episode=11).text()
    assert past not in plain(episode=10).text()
    assert "what would change it: more episodes, or other thresholds" in plain(untried=0).text()
