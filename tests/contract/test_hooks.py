"""What a writer of a learner relies on: public hooks, options read from the constructor, old names refused."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flexdome as fd
from flexdome.learners import Learner
from flexdome.learners.options import option_names
from flexdome.learners.programs.family import ProgramLearner
from flexdome.simulation import CheckError

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def uniform(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The smallest learner."""
    monkeypatch.syspath_prepend(str(EXAMPLES / "uniform_learner" / "src"))
    from uniform_learner.learner import UniformLearner

    yield UniformLearner
    for name in [name for name in sys.modules if name.startswith("uniform_learner")]:
        del sys.modules[name]


def test_options_are_the_attributes_named_like_the_constructors_parameters(uniform):
    class Mine(uniform):
        def __init__(self, problem, episodes=100, seed=0, *, step=0.1, name="x", table=(1.0, 2.0), safe=None):
            super().__init__(problem, episodes, seed)
            self.step, self.name, self.table, self.safe = np.float64(step), name, np.array(table), safe

    cmdp = fd.make_cmdp("media-v1")
    safe = fd.safe_policy(cmdp, 0.1)
    learner = Mine(cmdp.problem(), step=0.5, safe=safe)
    stored = learner.options()
    assert stored == {
        "episodes": 100, "seed": 0, "step": 0.5, "name": "x", "table": [1.0, 2.0],
        "safe": {"policy": safe.policy.tolist(), "utilities": safe.utilities.tolist()},
    }  # fmt: skip
    assert type(stored["step"]) is float


def test_options_handed_on_are_those_of_the_next_class(uniform):
    class Mine(uniform):
        def __init__(self, problem, *, twist=2, **options):
            super().__init__(problem, **options)
            self.twist = twist

    assert option_names(Mine) == ["twist", "episodes", "seed"]
    assert Mine(fd.make_cmdp("media-v1").problem(), seed=4).options() == {"twist": 2, "episodes": 1000, "seed": 4}


def test_an_option_that_was_not_kept_or_is_not_json_is_named(uniform):
    class Forgetful(uniform):
        def __init__(self, problem, episodes=10, seed=0, *, step=0.1):
            super().__init__(problem, episodes, seed)

    class Odd(Forgetful):
        step = object()

    problem = fd.make_cmdp("media-v1").problem()
    with pytest.raises(fd.ValidationError, match="Forgetful has an option step and no attribute step"):
        Forgetful(problem).options()
    with pytest.raises(fd.ValidationError, match=r"option step of Odd is .*not JSON"):
        Odd(problem).options()


def test_a_learner_that_writes_the_private_hooks_is_told_their_names():
    with pytest.raises(
        fd.ValidationError, match=r"Old writes _state, _seen; .*_state is state.*_count is count_episode"
    ):
        type("Old", (Learner,), {"_state": lambda self: {}, "_seen": lambda self: None})
    type("Both", (Learner,), {"_state": lambda self: {}, "state": lambda self: {}})  # a private name of one's own


@pytest.mark.parametrize("name", list(fd.LEARNERS))
def test_what_a_file_has_are_the_constructors_own_options(name):
    cmdp = fd.make_cmdp("media-v1")
    options = {"safe_policy": fd.safe_policy(cmdp, 0.1)} if "safe policy" in fd.LEARNERS[name].needs else {}
    learner = fd.make_learner(name, cmdp.problem(), episodes=7, **options)
    assert set(learner.options()) <= set(option_names(type(learner)))
    if type(learner).options in (Learner.options, ProgramLearner.options):
        assert learner.options().keys() == set(option_names(type(learner)))
    else:
        assert name in ("proxdome", "suredome", "guard")  # whose options are kept elsewhere


# -- check_learner -----------------------------------------------------------------------------------------------------


def test_all_broken_rules_are_told_at_once_with_their_methods(uniform):
    class Broken(uniform):
        id = "broken"

        @property
        def multipliers(self):
            return -np.ones(self.problem.constraints)

        def restore(self, state):
            raise KeyError("nothing is taken back")

        def beliefs(self):
            return super().beliefs().missing

    with pytest.raises(CheckError) as caught:
        fd.check_learner(Broken)
    failures = caught.value.failures
    message = str(caught.value)
    broken = [one for one in failures if not one.unchecked]
    assert message.startswith(f"Broken breaks {len(broken)} of 12 rules.\n1. Every policy")
    assert len(failures) >= 4
    assert all(one.rule in message and one.seen in message for one in failures)
    assert failures[0].methods == ("policy", "mixture", "multipliers")
    assert failures[0].seen == "a multiplier is negative"
    saved = next(one for one in failures if one.rule.startswith("A saved learner"))
    assert saved.methods[0].startswith("Broken.restore, test_hooks.py line ")
    logged = next(one for one in failures if one.rule.startswith("Preload"))
    assert logged.methods[0].startswith("Broken.beliefs, test_hooks.py line ")
    assert isinstance(caught.value.__cause__, Exception)


def test_what_is_raised_everywhere_is_told_once(uniform):
    class Raising(uniform):
        id = "raising"

        def observe(self, episode):
            raise KeyError("oops")

    with pytest.raises(CheckError) as caught:
        fd.check_learner(Raising)
    assert len(caught.value.failures) > 5
    assert str(caught.value).count("KeyError was raised") == 1
    assert "Raising.observe, test_hooks.py line" in str(caught.value)


@pytest.mark.parametrize("begin", [0, 35])
def test_one_bad_policy_is_one_broken_rule_and_the_others_could_not_be_checked(uniform, begin):
    class Twice(uniform):
        id = "twice"

        @property
        def policy(self):
            return super().policy * (2.0 if self.episode >= begin else 1.0)

    with pytest.raises(CheckError) as caught:
        fd.check_learner(Twice)
    message, failures = str(caught.value), caught.value.failures
    assert message.startswith(
        "Twice breaks a rule. Every policy it plays, and every one it may draw, is a distribution"
    )
    assert message.count("sums to 2.0") == 1
    assert "Look at policy. Because of that this could not be checked: Observe and simulate" in message
    assert "__init__" not in message
    assert [one.unchecked for one in failures] == [False, *[True] * (len(failures) - 1)]
    assert {one.methods for one in failures} == {("policy",)}
    assert len({one.rule for one in failures}) == len(failures)


def test_a_learner_that_cannot_be_made_is_told_that_alone(uniform):
    class Missing(Learner):
        id = "missing"

    class Picky(uniform):
        id = "picky"

        def __init__(self, problem, episodes, seed, must):
            super().__init__(problem, episodes, seed)

    whole = "Missing does not have beliefs, multipliers, observe, policy, preload, restore, state, which"
    for learner, why in ((Missing, whole), (Picky, "must")):
        with pytest.raises(CheckError, match=rf"{learner.__name__} breaks a rule. It is made as .*{why}") as caught:
            fd.check_learner(learner)
        assert len(caught.value.failures) == 1


def test_a_learner_without_an_id_is_told_what_it_is_for(uniform):
    class Nameless(Learner):
        pass

    with pytest.raises(fd.ValidationError, match=r"Nameless has no id; write one in the class.*registered"):
        fd.check_learner(Nameless)
    with pytest.raises(fd.ValidationError, match="has the id 3"):
        fd.check_learner(type("Numbered", (uniform,), {"id": 3}))


def test_the_smallest_learner_keeps_every_rule(uniform):
    assert len(fd.check_learner(uniform)) == 12
