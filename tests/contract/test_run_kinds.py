"""Every kind of learner in simulation: whose methods decide, and which series its history has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import flexdome as fd
from flexdome.learners.hooks import HOOKS
from flexdome.simulation.runners import OBSERVED, runner_of
from flexdome.simulation.runners.observed import Observed
from runs import same_history, small_cmdp

FAMILIES = ["flexdome", "anchordome", "optcmdp", "proxdome"]
CHEAP = {"sv-ops": {"replan": 5}, "s-ops": {"replan": 5}, "cpd-po": {"replan": 5}}
CHEAP["omdpd"] = {"replan": 5, "inner_steps": 5}


def public(name: str) -> list[str]:
    """The public methods and properties of a learner, but the hooks that are asked for outside a run."""
    cls = fd.LEARNERS[name].load()
    names = (n for n in dir(cls) if not n.startswith("_") and n not in HOOKS)
    return sorted(n for n in names if callable(getattr(cls, n)) or isinstance(getattr(cls, n), property))


CASES = [(name, method) for name in FAMILIES for method in public(name)]


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


def test_what_is_public_is_listed_by_hand_too() -> None:
    common = {"observe", "policy", "multipliers", "mixture", "episode", "problem"}
    common |= {"beliefs", "visits", "preload", "save", "set_thresholds", "act", "certify", "export", "status"}
    common |= {"checked_episode", "checked_episodes", "count_episode", "initial", "take_thresholds"}
    common |= {"checked_thresholds"}
    own = {"flexdome": {"schedule"}, "anchordome": {"schedule"}, "proxdome": {"reserve", "coins", "refuted"}}
    own["optcmdp"] = {"draws", "steady", "settle", "thresholds", "planned_at", "planned_values"}
    for name in FAMILIES:
        assert {method for of, method in CASES if of == name} == common | own[name]


@pytest.mark.parametrize(("name", "method"), CASES)
def test_a_subclass_with_a_public_method_of_its_own_is_run_through_observe(name: str, method: str) -> None:
    cmdp = small_cmdp(S=3, A=2, H=2)
    plain = fd.simulate(make(name, cmdp), cmdp)
    history = fd.simulate(make(name, cmdp, cls=with_its_own(fd.LEARNERS[name].load(), method)), cmdp)
    assert history.diagnostics == {}
    assert plain.diagnostics
    assert same_history(history, replace(plain, diagnostics={}))


@pytest.mark.parametrize("name", FAMILIES)
def test_a_learner_with_hooks_and_names_of_its_own_keeps_its_runner(name: str) -> None:
    cmdp = small_cmdp(S=3, A=2, H=2)
    plain = fd.LEARNERS[name].load()
    hooks = {name: getattr(plain, name) for name in HOOKS}
    named = type("Named", (plain,), {"id": "named", "explain": lambda self: "why", **hooks})
    assert runner_of(make(name, cmdp, cls=named)) is runner_of(make(name, cmdp))
    patched = make(name, cmdp)
    patched.observe = patched.observe
    assert runner_of(patched) is Observed


def test_a_runner_that_cannot_be_had_is_named() -> None:
    cmdp = small_cmdp(S=3, A=2, H=2)
    for target in ("nowhere:Runner", "flexdome.simulation.runners.observed:None_", "no colon", "flexdome.cmdp:CMDP", 3):
        lost = type("Lost", (fd.FlexDOME,), {"runner": target})
        with pytest.raises(fd.ValidationError, match=r"Lost\.runner is .*; it must"):
            fd.simulate(lost(cmdp.problem(), episodes=2), cmdp)


@pytest.mark.parametrize("name", FAMILIES)
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


@pytest.mark.parametrize("name", [*FAMILIES, "s-ops"])
def test_realised_sums_are_those_of_the_episodes_played(name: str) -> None:
    cmdp = small_cmdp(S=3, A=2, H=2, m=2, noise="bernoulli")
    told = fd.simulate(make(name, cmdp), cmdp, seed=4)
    plain = type("Plain", (fd.LEARNERS[name].load(),), {"runner": OBSERVED})
    seen: list[np.ndarray] = []

    class Watched(plain):  # type: ignore[misc, valid-type]
        def observe(self, episode: fd.Episode) -> None:
            seen.append(np.array([np.sum(episode.rewards), *np.sum(episode.utilities, axis=1)]))
            super().observe(episode)

    history = fd.simulate(make(name, cmdp, cls=Watched), cmdp, seed=4)
    np.testing.assert_array_equal(told.realised, np.array(seen).T)
    np.testing.assert_array_equal(history.realised, told.realised)
    np.testing.assert_array_equal(told.share_below, (told.realised[1:] < cmdp.alpha[:, None]).mean(axis=1))
    both = fd.simulate(make(name, cmdp), cmdp, 5, seed=4)
    assert both.realised.shape == (3, 5)


def test_a_history_without_realised_sums_says_so() -> None:
    cmdp = small_cmdp(S=3, A=2, H=2)
    history = fd.simulate(make("flexdome", cmdp), cmdp)
    halves = [replace(history, realised=np.zeros((0, 0))), history]
    with pytest.raises(fd.ValidationError, match="no realised sums"):
        _ = halves[0].share_below
