"""Every public callable, with one argument at a time replaced by what it should not be.

The rule is in :mod:`hostile`; the values depend on one seed. What is wrong with a call is listed whole, so that one run
shows every hole there is.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flexdome as fd
import flexdome.cmdp.assembly
import flexdome.cmdp.episode
from flexdome import theory
from flexdome.learners import Learner
from hostile import EVERYWHERE, changed, complaint

SEED = 20260
FILE = ("cannot be", "does not exist", "is not a regular file", "not a flexdome file", "has format")


def small(law: str = "known") -> fd.CMDP:
    """Three states, two actions, three steps, two constraints."""
    rng = np.random.default_rng(5)
    p, r, d = rng.dirichlet(np.ones(3), size=(3, 3, 2)), rng.random((3, 3, 2)), rng.random((2, 3, 3, 2))
    laws: list[Any] = [0.6, 0.7]
    if law == "sampled":
        laws[1] = fd.Threshold.uniform(0.4, 1.0)
    return fd.CMDP(p, r, d, laws, 0, name="small")


@cache
def world(law: str = "known") -> fd.CMDP:
    return small(law)


@cache
def told(law: str = "known") -> fd.Problem:
    return world(law).problem()


@cache
def safe() -> fd.SafePolicy:
    return fd.safe_policy(world(), 0.5 * fd.slater_gap(world()))


def arrays() -> dict[str, Any]:
    cmdp = world()
    return {
        "transitions": cmdp.transitions,
        "rewards": cmdp.rewards,
        "utilities": cmdp.utilities,
        "thresholds": [0.6, 0.7],
        "initial": cmdp.initial,
    }


def lists() -> dict[str, Any]:
    cmdp = world()
    nxt = np.broadcast_to(np.arange(3), cmdp.transitions.shape)
    rest = {name: value for name, value in arrays().items() if name != "transitions"}
    return {"next_states": nxt, "probabilities": cmdp.transitions, **rest}


def sizes() -> dict[str, Any]:
    return {"states": 3, "actions": 2, "horizon": 3, "initial": world().initial, "thresholds": np.array([0.6, 0.7]),
            "slater_gap": 0.5}  # fmt: skip


def episode(law: str = "known") -> dict[str, Any]:
    samples = {"thresholds": np.full((2, 3), 0.5)} if law == "sampled" else {}
    return {
        "states": np.array([0, 1, 2, 0]),
        "actions": np.array([0, 1, 0]),
        "rewards": np.array([0.5, 0.25, 1.0]),
        "utilities": np.array([[0.5, 0.25, 1.0], [0.0, 1.0, 0.5]]),
        **samples,
    }


def policy() -> Any:
    return np.full((3, 3, 2), 0.5)


@dataclass(frozen=True)
class Call:
    """A function and arguments with which it works.

    ``named`` are other names that an error may use for an argument; ``same`` tells, before and after a refused call,
    what must be the same. ``long`` are arguments whose large values are right, and take as long as they say.
    """

    function: Callable[..., Any]
    valid: Mapping[str, Any] = field(default_factory=dict)
    named: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    fixed: tuple[str, ...] = ()
    long: tuple[str, ...] = ()
    same: Callable[[], Any] | None = None

    def arguments(self) -> list[str]:
        """What can be replaced."""
        kinds = inspect.signature(self.function).parameters.values()
        own = [one.name for one in kinds if one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)]
        return [name for name in dict.fromkeys((*own, *self.valid)) if name not in self.fixed]

    def complaints(self, seed: int = SEED) -> list[str]:
        """Every value of every argument that is not taken as the rule says."""
        found = []
        self.function(**self.valid)
        before = self.same() if self.same else None
        for argument in self.arguments():
            rng = np.random.default_rng([seed, *argument.encode()])
            valid = self.valid.get(argument)
            made = {**EVERYWHERE, **(changed(valid, rng) if isinstance(valid, np.ndarray | list) else {})}
            names = (argument, *self.named.get(argument, ()))
            for label, make in made.items():
                if argument in self.long and isinstance(make(), int) and make() > 1000:
                    continue
                wrong = complaint(
                    lambda value, name=argument: self.function(**{**self.valid, name: value}), make, names
                )
                if wrong is not None:
                    found.append(f"{argument} = {label} {wrong}")
                if self.same is not None and self.same() != before:
                    found.append(f"{argument} = {label} was refused but left a trace")
                    before = self.same()
        return found


def bits(learner: Learner) -> Any:
    """Everything a learner holds."""
    state = {name: (array.dtype.str, array.shape, array.tobytes()) for name, array in learner._state().items()}
    return state, learner._options(), learner.episode, learner.threshold_changes, id(learner.problem)


def used(make: Callable[..., Learner], **options: Any) -> Learner:
    """A learner that has played, so that whatever its options do is done."""
    learner = make(**options)
    for _ in range(2):
        learner.observe(fd.Episode(**episode()))
    learner.beliefs()
    return learner


def public() -> dict[str, Call]:
    cmdp, problem = world(), told()
    own = fd.Schedules(eta=0.1, tau=0.1, margin=0.0)
    calls = {
        "CMDP": Call(fd.CMDP, arrays(), {"transitions": ("rewards",)}),
        "CMDP.from_successors": Call(fd.CMDP.from_successors, lists()),
        "CMDP.problem": Call(cmdp.problem),
        "Problem": Call(fd.Problem, sizes(), {"states": ("initial",), "horizon": ("slater_gap",)}),
        "Threshold": Call(
            fd.Threshold,
            {"law": "uniform", "parameters": (0.4, 1.0)},
            {"parameters": ("threshold low", "threshold high")},
        ),
        "Threshold.fixed": Call(fd.Threshold.fixed, {"value": 1.0}),
        "Threshold.normal": Call(fd.Threshold.normal, {"mean": 1.0, "std": 0.5}),
        "Threshold.uniform": Call(fd.Threshold.uniform, {"low": 0.4, "high": 1.0}),
        "Threshold.bernoulli": Call(fd.Threshold.bernoulli, {"p": 0.4, "scale": 1.0}),
        "Threshold.sample": Call(fd.Threshold.uniform(0.0, 1.0).sample, {"uniforms": np.full((2, 3), 0.5)}),
        "Threshold.reflected": Call(fd.Threshold.uniform(0.0, 1.0).reflected, {"total": 3.0}),
        "make_cmdp": Call(fd.make_cmdp, {"id": "media-v1"}, {"id": ("environment",)}),
        "make_learner": Call(fd.make_learner, {"id": "flexdome", "problem": problem}, {"id": ("learner",)}),
        "solve": Call(fd.solve, {"cmdp": cmdp}),
        "slater_gap": Call(fd.slater_gap, {"cmdp": cmdp}),
        "safe_policy": Call(fd.safe_policy, {"cmdp": cmdp, "slack": 0.1}),
        "evaluate": Call(fd.evaluate, {"cmdp": cmdp, "policy": policy()}),
        "occupancy": Call(fd.occupancy, {"cmdp": cmdp, "policy": policy()}),
        "baselines": Call(fd.baselines, {"cmdp": cmdp}),
        "mix": Call(fd.mix, {"cmdp": cmdp, "policies": np.full((2, 3, 3, 2), 0.5), "weights": np.array([0.5, 0.5])}),
        "saddle_point": Call(fd.saddle_point, {"cmdp": cmdp, "tau": 0.1}),
        "iterate": Call(fd.iterate, {"cmdp": cmdp, "schedules": own, "iterations": 5}),
        "simulate": Call(
            lambda learner, **rest: fd.simulate(learner, **rest),
            {
                "learner": fd.FlexDOME(problem, episodes=20),
                "cmdp": cmdp,
                "episodes": 0,
                "seed": 0,
                "evaluate_every": 1,
                "snapshots": (),
            },
            long=("episodes",),
        ),
        "bonus_logs": Call(theory.bonus_logs, {"problem": problem, "episodes": 10, "delta": 0.1}),
        "burn_in": Call(theory.burn_in, {"problem": problem, "delta": 0.1}),
        "error_constant": Call(theory.error_constant, {"problem": problem}),
        "margin_coefficient": Call(theory.margin_coefficient, {"problem": problem}),
        "theorem1": Call(
            lambda **k: theory.theorem1(**k).table(1, 3, 2),
            {"problem": problem, "delta": 0.1, "margin_scale": 1.0, "step_scale": 1.0, "regularisation_scale": 1.0},
        ),
        "theorem2": Call(
            lambda **k: theory.theorem2(**k).table(1, 3, 2),
            {"epsilon": 0.1, "c_eta": 1.0, "c_tau": 1.0, "c_margin": 1.0},
        ),
        "Schedules": Call(lambda **k: fd.Schedules(**k).table(1, 3, 2), {"eta": 0.1, "tau": 0.1, "margin": 0.0}),
        "Schedules.table": Call(own.table, {"first": 1, "count": 3, "constraints": 2}),
        "check_learner": Call(
            fd.check_learner,
            {"learner": fd.FlexDOME, "cmdp": cmdp, "randomises": False},
            {"randomises": ("breaks a rule",)},
        ),
        "load_cmdp": Call(fd.load_cmdp, {"path": "small.npz"}, {"path": FILE}),
        "load_learner": Call(fd.load_learner, {"path": "learner.npz"}, {"path": FILE}),
        "save_cmdp": Call(fd.save_cmdp, {"cmdp": cmdp, "path": "x"}, {"path": FILE}),
        "Learner.save": Call(fd.FlexDOME(problem, episodes=20).save, {"path": "x"}, {"path": FILE}),
        "Episode": Call(lambda **k: fd.Episode(**k).checked(told("sampled")), episode("sampled")),
        "Episode.checked": Call(fd.Episode(**episode()).checked, {"problem": problem}),
        "Episode.padded": Call(
            lambda **k: fd.Episode.padded(**k).checked(told("sampled")),
            {
                "horizon": 3,
                "absorbing": 2,
                **{n: v[..., :2] for n, v in episode("sampled").items()},
                "reward": 0.0,
                "utility": 0.0,
            },
            {"absorbing": ("states",)},
        ),
        "SafePolicy": Call(
            lambda **k: fd.make_learner("dope", problem, episodes=50, safe_policy=fd.SafePolicy(**k)),
            {"policy": np.array(safe().policy), "utilities": np.array(safe().utilities)},
        ),
    }
    costs = {name: value for name, value in arrays().items() if name not in ("utilities", "thresholds")}
    calls["CMDP.from_costs"] = Call(
        fd.CMDP.from_costs,
        {**costs, "costs": arrays()["utilities"], "limits": [2.0, 2.0]},
        {"transitions": ("rewards",)},
    )
    return calls


def learners() -> dict[str, Call]:
    calls = {}
    for id in fd.LEARNERS:
        kind = fd.LEARNERS[id].load()
        options = {name: one.default for name, one in inspect.signature(kind).parameters.items() if name != "problem"}
        if "safe_policy" in options:
            options["safe_policy"] = safe()
        function = lambda kind=kind, **given: used(kind, **given)  # noqa: E731
        calls[id] = Call(function, {"problem": told(), **options, "episodes": 50}, fixed=("kind",))
    return calls


def families() -> dict[str, Call]:
    calls = {}
    for id in fd.ENVIRONMENTS:
        options = [name for name in inspect.signature(fd.ENVIRONMENTS[id].load()).parameters if name != "seed"]
        few = {"states": 3, "actions": 2, "horizon": 3, "successors": 2, "constraints": 2, "fraction": 0.5, "gap": 0.1,
               "slip": 0.1, "stationary": False}  # fmt: skip
        function = lambda id=id, **given: fd.make_cmdp(id, **given)  # noqa: E731
        valid = {"seed": 0, **{name: few[name] for name in options}}
        calls[id] = Call(
            function, valid, {"horizon": ("states",), "actions": ("states",), "states": ("successors",)}, fixed=("id",)
        )
    return calls


def methods() -> dict[str, Call]:
    """``observe``, ``preload`` and ``set_thresholds`` of every learner: what is refused leaves no trace."""
    calls = {}
    for id in fd.LEARNERS:
        options: dict[str, Any] = {"safe_policy": safe()} if "safe policy" in fd.LEARNERS[id].needs else {}
        learner = used(fd.LEARNERS[id].load(), problem=told(), episodes=50, **options)
        calls[f"{id}.observe"] = _alone(learner, "observe", "episode")
        calls[f"{id}.preload"] = _alone(learner, "preload", "episodes")
        calls[f"{id}.set_thresholds"] = _alone(learner, "set_thresholds", "thresholds")
        calls[f"{id}.slater_gap"] = _alone(learner, "set_thresholds", "slater_gap", {"thresholds": [0.5, 0.5]})
    return calls


def _alone(learner: Learner, method: str, argument: str, rest: Mapping[str, Any] | None = None) -> Call:
    """The method, taken back where it worked: only what is refused must leave no trace."""

    def call(**given: Any) -> None:
        held = bits(learner)
        try:
            getattr(learner, method)(**{**(rest or {}), **given})
        except Exception:
            assert bits(learner) == held, "the call was refused but left a trace"
            raise

    valid: dict[str, Any] = {"episode": fd.Episode(**episode()), "episodes": [fd.Episode(**episode())],
                             "thresholds": [0.5, 0.5], "slater_gap": 0.5}  # fmt: skip
    return Call(call, {argument: valid[argument]})


@pytest.fixture(autouse=True)
def somewhere(tmp_path, monkeypatch):
    """A folder with a model and a learner in it; whatever is written stays there."""
    monkeypatch.chdir(tmp_path)
    fd.save_cmdp(world(), "small.npz")
    fd.FlexDOME(told(), episodes=20).save("learner.npz")


def listed(found: list[str]) -> str:
    return "\n".join(text.encode("ascii", "backslashreplace").decode() for text in found)


@pytest.mark.parametrize("name", public())
def test_a_public_callable_takes_a_value_or_refuses_it_by_name(name):
    found = public()[name].complaints()
    assert not found, listed(found)


@pytest.mark.parametrize("id", fd.ENVIRONMENTS)
def test_a_family_takes_an_option_or_refuses_it_by_name(id):
    found = families()[id].complaints()
    assert not found, listed(found)


@pytest.mark.parametrize("id", fd.LEARNERS)
def test_a_learner_takes_an_option_or_refuses_it_by_name(id):
    found = learners()[id].complaints()
    assert not found, listed(found)


@pytest.mark.parametrize("name", methods())
def test_what_a_learner_refuses_leaves_no_trace(name):
    found = methods()[name].complaints()
    assert not found, listed(found)


def test_every_public_name_is_tried():
    tried = {name.split(".")[0] for name in public()}
    kinds = {"FlexDOME", "ProxDOME"}  # among the learners
    errors = {name for name in dir(fd) if name.endswith("Error")}
    callables = {name for name in dir(fd) if callable(getattr(fd, name))}
    assert callables - errors - kinds <= tried


class Written(np.ndarray):
    """An array that a second thread writes to as soon as it has been compared with a bound."""

    def __ge__(self, other):
        found = np.asarray(self) >= other
        np.asarray(self)[...] = 99
        return found


def test_indices_are_copied_before_they_are_checked(monkeypatch):
    for module in (flexdome.cmdp.episode, flexdome.cmdp.assembly):
        monkeypatch.setattr(module, "as_raw", lambda name, value: np.asarray(value).view(Written))
    given = {name: np.array([0, 1, 2, 0])[: 4 - k] % 2 for k, name in enumerate(("states", "actions"))}
    states, actions, *_ = fd.Episode(**{**episode(), **given}).checked(told())
    assert states.max() <= 2
    assert actions.max() <= 1
    made = fd.CMDP.from_successors(**{**lists(), "next_states": lists()["next_states"].copy()})
    assert made.model.nxt.max() <= 2


def test_thirty_thousand_seeds_are_checked_at_once():
    from flexdome.experiments import ExperimentSpec

    rest = {"name": "x", "episodes": 5, "environments": [{"id": "media-v1"}], "learners": [{"id": "flexdome"}]}
    began = time.process_time()
    assert len(ExperimentSpec(seeds=list(range(30_000)), **rest).seeds) == 30_000
    assert time.process_time() - began < 2.0  # it was a minute
    with pytest.raises(fd.ValidationError, match="7 appears 2 times; each may appear once"):
        ExperimentSpec(seeds=[*range(30_000), 7], **rest)


@pytest.mark.parametrize("depth", [300, 3_000, 100_000])
def test_a_deeply_nested_experiment_is_refused(depth):
    from flexdome.experiments import load_experiment

    head = 'name = "x"\nepisodes = 5\nseeds = [0]\n[[environments]]\nid = "media-v1"\n[[learners]]\nid = "flexdome"\n'
    Path("deep.toml").write_text(f"{head}options = {{bonus_scale = {'[' * depth}{']' * depth}}}\n")
    with pytest.raises(fd.FlexDOMEError, match=r"deep\.toml"):
        load_experiment("deep.toml").check()


@pytest.mark.parametrize("label", ["a\x1b[31m", "a\u202eb", "a\u2066b", "a\u200fb", "a\u2028b", "a\x85b", "a\ud800"])
def test_a_label_with_invisible_characters_is_refused(label):
    from flexdome.experiments import LearnerSpec

    with pytest.raises(fd.ValidationError, match="label"):
        LearnerSpec(id="flexdome", label=label)


@pytest.mark.parametrize("command", ["run", "compare", "status", "resume"])
def test_an_empty_directory_name_is_refused(command, capsys):
    from flexdome.cli import main

    words = ["fixed", "--out", ""] if command in ("run", "compare") else [""]
    assert main([command, *words]) == 2
    assert f"{'--out' if len(words) == 3 else command} is empty" in capsys.readouterr().err
    assert not Path("runs").exists()
    assert not Path("experiments").exists()
