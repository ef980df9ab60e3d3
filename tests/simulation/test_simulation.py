"""Simulation: one semantics at two speeds, exact gaps, random numbers that nothing disturbs."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flexdome as fd
from flexdome.learners.primal_dual.anchordome import AnchorDOME
from flexdome.simulation import History, run
from flexdome.simulation.randomness import STREAMS, Randomness
from runs import LAWS, Observed, in_pieces, learned, problem_of, same_history, small_cmdp
from strategies import SEEDS, cmdps


def learner_of(cmdp: fd.CMDP, law: str = "known", **options: Any) -> fd.FlexDOME:
    return fd.FlexDOME(problem_of(cmdp, law), **{"episodes": 300, "margin_scale": 2e-4, **options})


def anchored(cmdp: fd.CMDP, episodes: int = 300) -> AnchorDOME:
    return AnchorDOME(cmdp.problem(), episodes=episodes)


def rich(**options: Any) -> fd.CMDP:
    """Every stream of random numbers is used: first states, actions, transitions, noise, thresholds."""
    return small_cmdp(**{"m": 2, "law": "steps", "noise": "bernoulli", "initial": np.full(5, 0.2), **options})


# -- observe and simulate -------------------------------------------------------------------------------

VARIANTS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "optimistic": {"unvisited": "optimistic"},
    "no margin": {"margin": False},
    "no regularisation": {"regularisation": False},
    "own schedules": {"schedules": fd.Schedules(lambda t: 0.3 / t**0.5, lambda t: 0.2 / t**0.5, lambda t: 1 / t)},
    "Theorem 2": {"schedules": fd.theory.theorem2(0.3, c_eta=3.0)},
    "a bonus that matters": {"bonus_scale": 0.03, "scale_entropy_bonus": False},
    "a huge margin": {"margin_scale": 1e90},
}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("case", VARIANTS)
def test_observing_the_same_episodes_gives_the_same_bits(case: str, law: str) -> None:
    cmdp = rich(law=law)
    fast, slow = (learner_of(cmdp, law, **VARIANTS[case]) for _ in range(2))
    history, told = fd.simulate(fast, cmdp, seed=3), fd.simulate(Observed(slow), cmdp, seed=3)
    assert learned(fast) == learned(slow)
    assert (history.multipliers == told.multipliers).all()
    np.testing.assert_allclose(history.reward_gap, told.reward_gap, atol=1e-12)
    np.testing.assert_allclose(history.violation, told.violation, atol=1e-12)


@pytest.mark.parametrize(
    "options",
    [{"S": 1, "A": 1, "H": 1}, {"A": 1}, {"S": 17}, {"sparse": True}, {"stationary": True}, {"m": 6}],
    ids=str,
)
def test_observing_gives_the_same_bits_on_every_kind_of_model(options: dict[str, Any]) -> None:
    cmdp = small_cmdp(4, **options)
    fast, slow = learner_of(cmdp), learner_of(cmdp)
    fd.simulate(fast, cmdp)
    fd.simulate(Observed(slow), cmdp)
    assert learned(fast) == learned(slow)


@settings(max_examples=30)
@given(cmdp=cmdps(laws=True), seed=SEEDS, data=st.data())
def test_observing_gives_the_same_bits_on_any_cmdp(cmdp: fd.CMDP, seed: int, data: st.DataObject) -> None:
    problem = cmdp.problem(hide=data.draw(st.sampled_from(((), ("thresholds",)))))
    options = {"episodes": 40, "unvisited": data.draw(st.sampled_from(("paper", "optimistic")))}
    fast, slow = fd.FlexDOME(problem, **options), fd.FlexDOME(problem, **options)
    fd.simulate(fast, cmdp, seed=seed)
    fd.simulate(Observed(slow), cmdp, seed=seed)
    assert learned(fast) == learned(slow)


def test_episodes_may_come_from_simulation_and_by_hand_in_turns() -> None:
    cmdp = rich()
    turns, through = learner_of(cmdp), learner_of(cmdp)
    fd.simulate(through, cmdp, seed=5)
    fd.simulate(turns, cmdp, episodes=100, seed=5)
    fd.simulate(Observed(turns), cmdp, episodes=100, seed=5)
    fd.simulate(turns, cmdp, episodes=100, seed=5)
    assert learned(turns) == learned(through)


# -- pieces ---------------------------------------------------------------------------------------------


@settings(max_examples=15)
@given(cuts=st.lists(st.integers(0, 120), max_size=4), every=st.integers(1, 7), law=st.sampled_from(LAWS))
def test_a_run_in_pieces_has_the_bits_of_the_whole(cuts: list[int], every: int, law: str) -> None:
    cmdp = rich(law=law)
    whole, pieces = (learner_of(cmdp, law, episodes=120) for _ in range(2))
    wanted = (1, 2, 60, 120, 121)
    options: dict[str, Any] = {"seed": 9, "evaluate_every": every, "snapshots": wanted}
    at_once = fd.simulate(whole, cmdp, **options)
    assert same_history(at_once, in_pieces(pieces, cmdp, cuts, 120, **options))
    assert learned(whole) == learned(pieces)


def test_the_chunks_of_a_run_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    cmdp = rich()
    large, small = learner_of(cmdp), learner_of(cmdp)
    history = fd.simulate(large, cmdp)
    monkeypatch.setattr(run, "CHUNK", 7)
    assert same_history(history, fd.simulate(small, cmdp))
    assert learned(large) == learned(small)


def test_a_pool_that_grows_on_the_way_does_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    cmdp = small_cmdp(S=40, A=2, H=5)
    grown, roomy = learner_of(cmdp), learner_of(cmdp)
    roomy.model.reserve(10_000)
    size = grown.model.core.counts.pool_cell.size
    fd.simulate(grown, cmdp, episodes=1000)
    fd.simulate(roomy, cmdp, episodes=1000)
    assert grown.model.core.counts.pool_cell.size > 2 * size
    assert learned(grown) == learned(roomy)


def test_a_second_call_continues_to_the_plan() -> None:
    cmdp = rich()
    learner = learner_of(cmdp, episodes=90)
    first, second = fd.simulate(learner, cmdp, episodes=50), fd.simulate(learner, cmdp)
    assert (first.first, first.last, second.first, second.last) == (1, 50, 51, 90)
    assert not (first + second).past_plan


def test_a_learner_at_its_planned_end_runs_no_further_unless_told() -> None:
    cmdp = rich()
    learner = learner_of(cmdp, episodes=20)
    fd.simulate(learner, cmdp)
    assert fd.simulate(learner, cmdp).multipliers.shape == (2, 0)
    more = fd.simulate(learner, cmdp, episodes=5)
    assert (more.first, more.last, more.past_plan) == (21, 25, True)
    assert fd.simulate(learner, cmdp).multipliers.shape == (2, 0)


def test_a_plan_does_not_change_what_happens_after_it() -> None:
    """T is in the bonuses alone: without them, running past the plan is the run with the longer plan."""
    cmdp = rich()
    short, long = (learner_of(cmdp, episodes=T, bonus_scale=0.0) for T in (30, 80))
    a, b = fd.simulate(short, cmdp, episodes=80), fd.simulate(long, cmdp)
    assert a.past_plan
    assert not b.past_plan
    assert learned(short) == learned(long)


def test_only_a_history_that_continues_another_is_added_to_it() -> None:
    cmdp = rich()
    learner = learner_of(cmdp)
    first, _, third = (fd.simulate(learner, cmdp, episodes=10) for _ in range(3))
    with pytest.raises(fd.ValidationError, match="the second history starts at episode 21; it must be 11"):
        first + third
    with pytest.raises(fd.ValidationError, match="the second history is 3; it must be a History"):
        first + 3  # type: ignore[operator]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers here")
@pytest.mark.parametrize("make", [learner_of, anchored])
@pytest.mark.parametrize("seconds", [0.003, 0.02, 0.05])
def test_an_interrupted_run_counts_what_it_learned(seconds: float, make: Callable[..., Any]) -> None:
    """The interrupt arrives when compiled code returns, before another line of Python runs."""
    assert threading.current_thread() is threading.main_thread()
    cmdp = small_cmdp(S=20, A=5, H=5)
    interrupted, through = (make(cmdp, episodes=10**6) for _ in range(2))
    fd.simulate(interrupted, cmdp, episodes=10)

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds, 20.0)  # again, should the first be lost in a destructor
        with pytest.raises(KeyboardInterrupt):
            fd.simulate(interrupted, cmdp)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert 10 <= interrupted.episode < 10**6
    assert interrupted.beliefs().visits[0].sum() == interrupted.episode
    fd.simulate(through, cmdp, episodes=interrupted.episode)
    assert learned(interrupted) == learned(through)


# -- random numbers -------------------------------------------------------------------------------------


def episodes_of(learner: fd.FlexDOME, cmdp: fd.CMDP, seed: int) -> list[fd.Episode]:
    seen = Observed(learner)
    fd.simulate(seen, cmdp, seed=seed)
    return seen.seen


def test_all_learners_meet_the_same_random_numbers() -> None:
    cmdp = rich()
    runs = [episodes_of(learner_of(cmdp, **VARIANTS[case]), cmdp, 4) for case in ("as it is", "a huge margin")]
    assert [e.states[0] for e in runs[0]] == [e.states[0] for e in runs[1]]
    np.testing.assert_array_equal([e.thresholds for e in runs[0]], [e.thresholds for e in runs[1]])
    assert any((a.actions != b.actions).any() for a, b in zip(*runs, strict=True))


def test_compiled_learners_meet_the_same_thresholds_and_first_states() -> None:
    cmdp = rich()
    learners = [learner_of(cmdp, **VARIANTS[case]) for case in ("as it is", "optimistic", "a huge margin")]
    histories = [fd.simulate(learner, cmdp, seed=4) for learner in learners]
    for learner, history in zip(learners[1:], histories[1:], strict=True):
        assert (history.diagnostics["thresholds"] == histories[0].diagnostics["thresholds"]).all()
        starts = [one.beliefs().visits[0].sum(axis=-1) for one in (learner, learners[0])]
        assert (starts[0] == starts[1]).all()


def test_another_seed_is_another_run_and_the_same_seed_the_same() -> None:
    cmdp = rich()
    histories = [fd.simulate(learner_of(cmdp), cmdp, seed=seed) for seed in (1, 1, 2)]
    assert same_history(histories[0], histories[1])
    assert not same_history(histories[0], histories[2])


@pytest.mark.parametrize("stream", STREAMS)
def test_the_numbers_of_an_episode_depend_on_its_number_alone(stream: str) -> None:
    randomness = Randomness(rich(), 11)
    whole = randomness._uniforms(stream, 1, 50)
    assert ((whole >= 0) & (whole < 1)).all()
    for first, count in ((1, 50), (2, 7), (50, 1), (13, 20)):
        assert (randomness._uniforms(stream, first, count) == whole[first - 1 : first - 1 + count]).all()


def test_streams_are_different() -> None:
    randomness = Randomness(rich(), 11)
    first = [randomness._uniforms(stream, 1, 1)[0, 0] for stream in STREAMS]
    assert len(set(first)) == len(STREAMS)


def test_thresholds_repeat_within_an_episode_where_their_law_says_so() -> None:
    samples = Randomness(small_cmdp(m=2, law="normal"), 0).thresholds(1, 30)
    assert samples.shape == (30, 2, 4)
    assert (samples == samples[:, :, :1]).all()
    assert len(np.unique(samples[:, :, 0])) == 60


def test_the_frequencies_of_a_simulated_model_are_its_probabilities() -> None:
    """50,000 episodes of the first policy: with a step of zero it stays uniform."""
    cmdp = rich(S=3, A=2, H=2, initial=np.array([0.5, 0.3, 0.2]))
    learner = learner_of(cmdp, schedules=fd.Schedules(0.0, 0.0))
    T = 50_000
    fd.simulate(learner, cmdp, episodes=T, evaluate_every=T)
    core, visits = learner.model.core, learner.beliefs().visits
    np.testing.assert_allclose(visits / T, fd.occupancy(cmdp, np.full((2, 3, 2), 0.5)), atol=0.01)
    means = learner.model.by_state(core.counts.sum_r, 0.0) / visits
    np.testing.assert_allclose(means, cmdp.rewards, atol=0.03)
    for i in range(2):
        np.testing.assert_allclose(
            learner.model.by_state(core.counts.sum_d[i], 0.0) / visits, cmdp.utilities[i], atol=0.03
        )
    np.testing.assert_allclose(learner.beliefs().thresholds, cmdp.alpha, atol=0.01)


def test_the_noise_of_reward_and_utilities_is_independent() -> None:
    """Fair coins for all three at every step: each pair agrees half of the time, and so do neighbouring steps."""
    half = np.full((5, 3), 0.5)
    cmdp = fd.CMDP(np.full((5, 3, 5), 0.2), half, np.stack([half, half]), [1.0, 1.0], 0, horizon=4, noise="bernoulli")
    seen = Observed(fd.FlexDOME(cmdp.problem(slater_gap=0.5), episodes=1500))
    fd.simulate(seen, cmdp, evaluate_every=1500)
    coins = np.array([[episode.rewards, *episode.utilities] for episode in seen.seen])
    assert set(np.unique(coins)) == {0.0, 1.0}
    for a, b in ((0, 1), (0, 2), (1, 2)):
        assert np.mean(coins[:, a] == coins[:, b]) == pytest.approx(0.5, abs=0.03)
    assert np.mean(coins[:, :, 1:] == coins[:, :, :-1]) == pytest.approx(0.5, abs=0.03)


# -- exact gaps -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"sparse": True}, {"stationary": True}, {"S": 17, "A": 1}, {"H": 1}], ids=str)
def test_gaps_are_those_of_the_policies_that_were_played(options: dict[str, Any]) -> None:
    cmdp = rich(**{"initial": 0, **options})
    learner = learner_of(cmdp)
    history = fd.simulate(learner, cmdp, episodes=60, snapshots=range(1, 62))
    best = fd.solve(cmdp)
    for t in range(1, 61):
        truth = fd.evaluate(cmdp, history.snapshots[t].policy)
        assert history.reward_gap[t - 1] == pytest.approx(best.value - truth.value, abs=1e-12)
        np.testing.assert_allclose(history.violation[:, t - 1], cmdp.alpha - truth.utilities, atol=1e-12)
        assert (history.multipliers[:, t - 1] == history.snapshots[t].multipliers).all()


def test_gaps_keep_their_sign() -> None:
    """With a margin that no policy meets the run is too careful: a positive gap and a negative violation."""
    cmdp = small_cmdp()
    history = fd.simulate(learner_of(cmdp, margin_scale=1e90), cmdp)
    assert history.violation[0, -1] < 0 < history.reward_gap[-1]


def made_history() -> History:
    return History(
        first=1,
        planned=4,
        episodes=np.arange(1, 5),
        reward_gap=np.array([1.0, -2.0, 0.5, -0.25]),
        violation=np.array([[0.5, -1.0, 0.25, 0.0], [-3.0, 2.0, -1.0, 0.5]]),
        multipliers=np.zeros((2, 4)),
    )


def test_strong_metrics_cumulate_positive_parts() -> None:
    history = made_history()
    assert history.strong_regret.tolist() == [1.0, 1.0, 1.5, 1.5]
    assert history.strong_violation.tolist() == [0.5, 2.0, 2.0, 2.5]  # the worst constraint's sum, not the worst steps'


def test_weak_metrics_let_good_episodes_make_up_for_bad_ones() -> None:
    history = made_history()
    assert history.weak_regret.tolist() == [1.0, -1.0, -0.5, -0.75]
    assert history.weak_violation.tolist() == [0.5, -0.5, -0.25, -0.25]


# -- evaluate_every, snapshots, diagnostics -------------------------------------------------------------


def test_evaluating_now_and_then_changes_nothing_else() -> None:
    cmdp = rich()
    every, tenth = learner_of(cmdp), learner_of(cmdp)
    all_, some = fd.simulate(every, cmdp), fd.simulate(tenth, cmdp, evaluate_every=10)
    assert learned(every) == learned(tenth)
    assert some.episodes.tolist() == list(range(1, 301, 10))
    assert (some.reward_gap == all_.reward_gap[::10]).all()
    assert (some.violation == all_.violation[:, ::10]).all()
    assert (some.multipliers == all_.multipliers).all()


def test_which_episodes_are_evaluated_does_not_depend_on_the_pieces() -> None:
    cmdp = rich()
    learner = learner_of(cmdp)
    parts = [fd.simulate(learner, cmdp, episodes=n, evaluate_every=4) for n in (3, 3, 5)]
    assert [part.episodes.tolist() for part in parts] == [[1], [5], [9]]
    assert (parts[0] + parts[1] + parts[2]).episodes.tolist() == [1, 5, 9]


@pytest.mark.parametrize("metric", ["strong_regret", "strong_violation", "weak_regret", "weak_violation"])
def test_cumulative_series_need_every_episode(metric: str) -> None:
    cmdp = rich()
    history = fd.simulate(learner_of(cmdp), cmdp, episodes=20, evaluate_every=10)
    with pytest.raises(fd.ValidationError, match="2 of 20 episodes were evaluated; cumulative series need all"):
        getattr(history, metric)


def test_a_snapshot_is_the_learner_as_it_stood_before_the_episode() -> None:
    cmdp = rich()
    learner, slow = learner_of(cmdp), learner_of(cmdp)
    history = fd.simulate(learner, cmdp, episodes=50, snapshots=(1, 20, 51))
    assert sorted(history.snapshots) == [1, 20, 51]
    for t in (1, 20, 51):
        fd.simulate(slow, cmdp, episodes=t - 1 - slow.episode)
        snapshot = history.snapshots[t]
        assert snapshot.policy.tobytes() == slow.policy.tobytes()
        assert snapshot.multipliers.tobytes() == slow.multipliers.tobytes()
        assert snapshot.visits.tobytes() == slow.beliefs().visits.tobytes()
        assert (snapshot.visits.sum(axis=(1, 2)) == t - 1).all()


def test_snapshots_change_nothing_else() -> None:
    cmdp = rich()
    with_, without = learner_of(cmdp), learner_of(cmdp)
    a, b = fd.simulate(with_, cmdp, snapshots=(2, 3, 77)), fd.simulate(without, cmdp)
    assert learned(with_) == learned(without)
    assert (a.reward_gap == b.reward_gap).all()


def test_snapshots_outside_the_call_are_left_out() -> None:
    cmdp = rich()
    learner = learner_of(cmdp)
    fd.simulate(learner, cmdp, episodes=10)
    assert sorted(fd.simulate(learner, cmdp, episodes=10, snapshots=(5, 15, 21, 22)).snapshots) == [15, 21]


@pytest.mark.parametrize("make", [learner_of, anchored])
def test_diagnostics_are_what_the_learner_believed_in_each_episode(make: Callable[..., Any]) -> None:
    cmdp = rich()
    learner, slow = make(cmdp), make(cmdp)
    told = fd.simulate(learner, cmdp, episodes=40).diagnostics
    assert {name: array.shape for name, array in told.items()} == {
        "value": (40,),
        "utilities": (2, 40),
        "thresholds": (2, 40),
        "margin": (2, 40),
    }
    for t in range(40):
        believed = slow.beliefs()
        assert told["value"][t] == believed.value
        assert (told["utilities"][:, t] == believed.utilities).all()
        assert (told["thresholds"][:, t] == believed.thresholds).all()
        assert (told["margin"][:, t] == believed.margin).all()
        fd.simulate(slow, cmdp, episodes=1)


def test_no_episodes_make_an_empty_history() -> None:
    cmdp = rich()
    history = fd.simulate(learner_of(cmdp), cmdp, episodes=0)
    assert (history.first, history.last) == (1, 0)
    assert history.strong_regret.shape == (0,)
    assert history.violation.shape == (2, 0)


# -- refusals -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"episodes": -1}, "episodes is -1; it must be"),
        ({"episodes": 2.5}, "episodes is 2.5; it must be a whole number"),
        ({"episodes": 2**60}, "episodes is 1152921504606846976; it must be"),
        ({"seed": -1}, "seed is -1; it must be at least 0"),
        ({"seed": None}, "seed is None; it must be a whole number"),
        ({"evaluate_every": 0}, "evaluate_every is 0; it must be between 1 and 9007199254740992"),
        ({"snapshots": 5}, "snapshots is 5; it must be a series of episodes"),
        ({"snapshots": [0]}, "snapshots[0] is 0; it must be between 1 and"),
        ({"snapshots": ["x"]}, "snapshots[0] is 'x'; it must be a whole number"),
    ],
    ids=str,
)
def test_an_argument_that_makes_no_sense_is_refused_before_anything_is_played(
    options: dict[str, Any], message: str
) -> None:
    cmdp = rich()
    learner = learner_of(cmdp)
    with pytest.raises(fd.ValidationError) as caught:
        fd.simulate(learner, cmdp, **options)
    assert message in str(caught.value)
    assert learner.episode == 0


def test_a_learner_of_another_problem_is_refused() -> None:
    with pytest.raises(fd.ValidationError, match=r"\(S, A, H, m\) = \(5, 3, 4, 1\); the CMDP has \(5, 3, 4, 2\)"):
        fd.simulate(learner_of(small_cmdp()), rich())
    with pytest.raises(fd.ValidationError, match="another initial distribution"):
        fd.simulate(learner_of(small_cmdp(initial=1)), small_cmdp(initial=2))


def test_what_is_no_learner_or_no_cmdp_is_refused() -> None:
    cmdp = rich()
    with pytest.raises(fd.ValidationError, match="learner is 3; it must be a Learner"):
        fd.simulate(3, cmdp)  # type: ignore[arg-type]
    with pytest.raises(fd.ValidationError, match=r"cmdp is .*; it must be a CMDP"):
        fd.simulate(learner_of(cmdp), cmdp.problem())  # type: ignore[arg-type]


def test_violations_of_several_constraints_are_put_together_in_three_ways():
    short = np.array([[0.5, -1.0, 0.25], [0.0, 2.0, -3.0]])
    history = fd.simulation.History(
        first=1,
        planned=3,
        episodes=np.arange(1, 4),
        reward_gap=np.zeros(3),
        violation=short,
        multipliers=np.zeros((2, 3)),
    )
    np.testing.assert_array_equal(history.strong_violations, [[0.5, 0.5, 0.75], [0.0, 2.0, 2.0]])
    np.testing.assert_array_equal(history.strong_violation, [0.5, 2.0, 2.0])
    np.testing.assert_array_equal(history.total_violation, [0.5, 2.5, 2.75])
    np.testing.assert_array_equal(history.worst_violation, [0.5, 2.5, 2.75])
    np.testing.assert_array_equal(history.weak_violation, [0.5, 2.0, -0.25])
