"""Every kind of learner in simulation: whose methods decide, and which series its history has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import flexdome as fd
from flexdome.learners.primal_dual.family import PrimalDualLearner
from flexdome.learners.programs.family import ProgramLearner
from runs import same_history, small_cmdp

TELLS = {"beliefs", "visits", "preload", "save", "set_thresholds", "problem"}  # and decides nothing
FAMILIES = [
    ("flexdome", PrimalDualLearner, TELLS),
    ("anchordome", PrimalDualLearner, TELLS),
    ("optcmdp", ProgramLearner, TELLS | {"thresholds", "planned", "planned_values", "notes"}),
    ("proxdome", fd.ProxDOME, TELLS | {"status"}),
]
CHEAP = {"sv-ops": {"replan": 5}, "s-ops": {"replan": 5}, "cpd-po": {"replan": 5}}
CHEAP["omdpd"] = {"replan": 5, "inner_steps": 5}


def deciding(family: type, tells: set[str]) -> list[str]:
    """The public methods and properties of a family that are not said to decide nothing."""
    names = {name for name in dir(family) if not name.startswith("_")}
    return sorted(n for n in names - tells if callable(getattr(family, n)) or isinstance(getattr(family, n), property))


CASES = [(name, method) for name, family, tells in FAMILIES for method in deciding(family, tells)]


def with_its_own(cls: Any, method: str) -> Any:
    """A subclass whose ``method`` does what the family's does: only that it is another one can be seen."""
    old = getattr(cls, method)
    if isinstance(old, property):
        return type("Own", (cls,), {method: property(lambda self: old.fget(self), old.fset)})
    return type("Own", (cls,), {method: lambda self, *given: old(self, *given)})


def make(name: str, cmdp: fd.CMDP, episodes: int = 12, cls: Any = None) -> Any:
    options = dict(CHEAP.get(name, {}))
    if "safe policy" in fd.LEARNERS[name].needs:
        options["safe_policy"] = fd.safe_policy(cmdp, 0.5 * fd.slater_gap(cmdp))
    return (fd.LEARNERS[name].load() if cls is None else cls)(cmdp.problem(), episodes=episodes, **options)


def test_what_decides_is_listed_by_hand_too() -> None:
    common = {"observe", "policy", "multipliers", "mixture", "episode"}
    own = {"flexdome": {"schedule"}, "anchordome": {"schedule"}, "proxdome": {"reserve"}}
    own["optcmdp"] = {"draws", "steady", "settle"}
    for name, _, _ in FAMILIES:
        assert {method for of, method in CASES if of == name} == common | own[name]


@pytest.mark.parametrize(("name", "method"), CASES)
def test_a_subclass_with_a_deciding_method_of_its_own_is_run_through_observe(name: str, method: str) -> None:
    cmdp = small_cmdp(S=3, A=2, H=2)
    plain = fd.simulate(make(name, cmdp), cmdp)
    history = fd.simulate(make(name, cmdp, cls=with_its_own(fd.LEARNERS[name].load(), method)), cmdp)
    assert history.diagnostics == {}
    assert plain.diagnostics
    assert same_history(history, replace(plain, diagnostics={}))


@pytest.mark.parametrize("name", [name for name, _, _ in FAMILIES])
def test_a_subclass_that_only_tells_other_things_keeps_its_chunks(name: str) -> None:
    cmdp = small_cmdp(S=3, A=2, H=2)
    for method in ("beliefs", "visits"):
        learner = make(name, cmdp, cls=with_its_own(fd.LEARNERS[name].load(), method))
        assert same_history(fd.simulate(learner, cmdp), fd.simulate(make(name, cmdp), cmdp))


@pytest.mark.parametrize("name", [name for name, _, _ in FAMILIES])
def test_the_mixture_of_a_subclass_is_what_its_history_evaluates(name: str) -> None:
    cmdp = small_cmdp(S=3, A=2, H=2)
    safest = fd.baselines(cmdp).safest[0]

    class Careful(fd.LEARNERS[name].load()):  # type: ignore[misc]
        @property
        def mixture(self) -> tuple[np.ndarray, np.ndarray]:
            return np.ones(1), safest[0][None]

    history = fd.simulate(make(name, cmdp, cls=Careful), cmdp)
    np.testing.assert_allclose(history.violation[0], cmdp.alpha[0] - safest[1].utilities[0], atol=1e-12)


# -- series ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(fd.LEARNERS))
def test_a_history_without_episodes_can_be_added_before_and_after(name: str) -> None:
    cmdp = small_cmdp(S=3, A=2, H=2, m=2)
    whole = fd.simulate(make(name, cmdp), cmdp)
    learner = make(name, cmdp)
    none, some = (fd.simulate(learner, cmdp, episodes=count) for count in (0, 5))
    rest, nothing = fd.simulate(learner, cmdp), fd.simulate(learner, cmdp)
    for empty in (none, nothing):
        assert {k: x.shape for k, x in empty.diagnostics.items()} == {
            k: (*x.shape[:-1], 0) for k, x in whole.diagnostics.items()
        }
    assert same_history(none + some + rest + nothing, whole)
    assert same_history(none + (some + (rest + nothing)), whole)
    assert (none + none).diagnostics.keys() == whole.diagnostics.keys()


def test_histories_that_tell_different_series_are_not_added() -> None:
    cmdp = small_cmdp(S=3, A=2, H=2)
    learner = make("dope", cmdp)
    one, two = (fd.simulate(learner, cmdp, episodes=3) for _ in range(2))
    few = {name: x for name, x in one.diagnostics.items() if name not in ("baseline", "replanned")}
    with pytest.raises(fd.ValidationError, match="first history's diagnostics have no 'replanned', 'baseline'; both"):
        replace(one, diagnostics=few) + two
    with pytest.raises(fd.ValidationError, match=r"second history's diagnostics have no 'value', 'util.*; both must"):
        one + replace(two, diagnostics={})
    assert (one + two).diagnostics["baseline"].tolist() == [1.0] * 6
