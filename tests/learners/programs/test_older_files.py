"""Files of learners that plan, as they were when what was seen was dense in them."""

import numpy as np
import pytest

import flexdome as fd
from flexdome.learners.state import EXACT
from flexdome.planning import slater_gap
from runs import World, small_cmdp

CMDP = small_cmdp(1, S=3, A=2, H=3, m=2)
SAFE = fd.safe_policy(CMDP, 0.5 * slater_gap(CMDP))
SEEN = ("n_cells", "state_of", "n_tried", "tried", "length", "pool_cell", "pool_count", "n_visits", "sum_r", "sum_d")


def with_gaps(e, seed):
    missing = np.random.default_rng(seed).random(np.shape(e.utilities)) < 0.3
    return fd.Episode(e.states, e.actions, e.rewards, np.where(missing, np.nan, e.utilities), e.thresholds)


def taught(name, gaps=False):
    options = {"safe_policy": SAFE} if "safe policy" in fd.LEARNERS[name].needs else {}
    options |= {"replan": "doubling"} if fd.LEARNERS[name].replanning else {}
    learner, world = fd.make_learner(name, CMDP.problem(), episodes=60, **options), World(CMDP, 3)
    for k in range(25):
        episode = world.play(learner.policy)
        learner.observe(with_gaps(episode, k) if gaps else episode)
    return learner


def as_before(learner):
    """The state of a learner in the older layout."""
    seen, state = learner.seen_counts(), learner.state()
    before = {name: array for name, array in state.items() if name not in (*SEEN, "missing")}
    before |= {"n_visits": seen.visits, "n_next": seen.successors, "sums": seen.sums}
    if seen.missing is not None:
        before["missing"] = seen.missing
    H, S, A = seen.visits.shape
    if learner.id == "suredome":  # it had all of these, and no use for some
        zeros = np.zeros((3, H, S, A))
        unused = {"new_visits": zeros[0], "new_sums": zeros, "new_returns": zeros, "limit": np.ones((H, S, A))}
        return {"missing": zeros, **before, **unused}
    return {**before, "limit": learner.tally.by_state(learner.since.limit, 1.0)}


def again(learner, state):
    other = fd.make_learner(learner.id, learner.problem, **learner.options())
    other.episode = learner.episode
    other.restore(state)
    return other


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("name", ["optcmdp-bonus", "optdual", "optaug", "suredome"])
def test_a_learner_of_an_older_file_goes_on_alike(name, gaps):
    learner = taught(name, gaps)
    older, world = again(learner, as_before(learner)), World(CMDP, 4)
    for _ in range(35):
        assert (older.policy == learner.policy).all()
        assert (older.multipliers == learner.multipliers).all()
        episode = world.play(learner.policy)
        learner.observe(episode)
        older.observe(episode)
    assert (older.visits == learner.visits).all()
    for mine, its in zip(learner.seen_counts(), older.seen_counts(), strict=True):
        assert mine is its or np.array_equal(mine, its)


BAD = {
    "a visit too many": ("n_visits", (0, 0, 0), 1.0, "every step must have one|n_next does not count"),
    "half a visit": ("n_visits", (0, 0, 0), 0.5, "n_visits"),
    "a successor too many": ("n_next", (0, 0, 0, 0), 1.0, "n_next does not count one next state"),
    "a successor after the last step": ("n_next", (-1, 0, 0, 0), 1.0, "n_next does not count one next state"),
    "a reward too large": ("sums", (0, 0, 0, 0), 1e6, "sum_r.* exceeds the number of visits"),
    "a utility too large": ("sums", (1, 0, 0, 0), 1e6, "sum_d.* exceeds the number of visits"),
    "a new visit too many": ("new_visits", (0, 0, 0), 1e6, "new_visits exceeds"),
    "a limit beyond all counts": ("limit", (0, 0, 0), 4 * EXACT, "limit"),
}


@pytest.mark.parametrize("case", BAD)
def test_an_older_file_that_does_not_fit_together_is_refused(case):
    name, at, more, message = BAD[case]
    learner = taught("optcmdp-bonus")
    state = as_before(learner)
    state[name] = np.array(state[name])
    state[name][at] += more
    with pytest.raises(fd.FlexDOMEError, match=message):
        again(learner, state)


def test_an_older_file_whose_successors_arrive_elsewhere_is_refused():
    learner = taught("optcmdp-bonus")
    state = as_before(learner)
    state["n_next"] = state["n_next"].copy()
    h, s, a, k = np.argwhere(state["n_next"])[0]
    state["n_next"][h, s, a, k] -= 1
    state["n_next"][h, s, a, (k + 1) % CMDP.states] += 1
    with pytest.raises(fd.FlexDOMEError, match="does not lead to each state as often as it was visited"):
        again(learner, state)


def test_an_older_file_in_which_a_reward_is_missing_is_refused():
    learner = taught("optcmdp-bonus", gaps=True)
    state = as_before(learner)
    state["missing"] = state["missing"].copy()
    state["missing"][0, 0, 0, 0] = 1
    with pytest.raises(fd.FlexDOMEError, match="never missing"):
        again(learner, state)
