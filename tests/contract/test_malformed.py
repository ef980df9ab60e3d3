"""Every public callable, with one argument at a time replaced by what it should not be.

The rule is in :mod:`hostile`, the calls are made in :mod:`malformed`.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import flexdome as fd
import flexdome.cmdp.assembly
import flexdome.cmdp.episode
from flexdome import analysis as an
from flexdome import experiments as ex
from flexdome import figures as fg
from flexdome import theory
from flexdome.experiments import ExperimentSpec, Store
from flexdome.experiments.requests import Request
from flexdome.experiments.store import Failure
from flexdome.learners import Learner
from malformed import FILE, Call, episode, listed, policy, safe, told, world


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


def bits(learner: Learner) -> Any:
    """Everything a learner holds."""
    state = {name: (array.dtype.str, array.shape, array.tobytes()) for name, array in learner.state().items()}
    return state, learner.options(), learner.episode, learner.threshold_changes, id(learner.problem)


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
        "Quantity": Call(fd.Quantity, {"name": "flow", "low": 0.0, "high": 2.0, "limit": 3.0}, {"high": ("low",)}),
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
        "chance_constraint": Call(
            fd.chance_constraint, {"cmdp": cmdp, "probability": 0.5, "constraint": 0, "level": 1.0, "bins": 4}
        ),
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
                "observer": None,
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
               "slip": 0.1, "stationary": False, "scale": 0.5, "rate": 0.1, "spread": 0.5, "alike": 2, "starts": 2,
               "chance": 0.1, "bins": 6, "depth": 3}  # fmt: skip
        function = lambda id=id, **given: fd.make_cmdp(id, **given)  # noqa: E731
        published = id in (
            "frozen-lake-v1",
            "cliff-walking-v1",
            "taxi-v1",
            "propofol-v1",
            "grid-storage-v1",
            "admission-v1",
        )
        signature = inspect.signature(fd.ENVIRONMENTS[id].load()).parameters
        valid = {"seed": 0, **{name: signature[name].default if published else few[name] for name in options}}
        calls[id] = Call(
            function,
            valid,
            {"horizon": ("states",), "actions": ("states", "alike"), "states": ("successors", "starts")},
            fixed=("id",),
        )
    return calls


METHODS = {"observe": "episode", "preload": "episodes", "set_thresholds": "thresholds", "slater_gap": "slater_gap",
           "take_thresholds": "alpha", "restore": "state"}  # fmt: skip


def method(id: str, name: str) -> Call:
    """``observe``, ``preload`` or ``set_thresholds`` of a learner that has played."""
    options: dict[str, Any] = {"safe_policy": safe()} if "safe policy" in fd.LEARNERS[id].needs else {}
    learner = used(fd.LEARNERS[id].load(), problem=told(), episodes=50, **options)
    if name == "slater_gap":
        return _alone(learner, "set_thresholds", name, {"thresholds": [0.5, 0.5]})
    return _alone(learner, name, METHODS[name])


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
                             "thresholds": [0.5, 0.5], "slater_gap": 0.5, "alpha": np.array([0.5, 0.5]),
                             "state": learner.state()}  # fmt: skip
    return Call(call, {argument: valid[argument]}, {"alpha": ("thresholds",)})


class Ramp:
    """A store whose runs grow with the episode, each at its own pace."""

    def has(self, run: ex.RunSpec) -> bool:
        return True

    def read(self, run: ex.RunSpec, columns: Any = None) -> pl.DataFrame:
        t = np.arange(1.0, run.episodes + 1.0)
        return pl.DataFrame({"reward_gap": t * (1 + run.seed), "violation_0": t / 2.0 - run.seed})


def asked() -> dict[str, Any]:
    rows = [
        {"id": "flexdome", "label": label, "options": {"bonus_scale": scale}} for label, scale in (("a", 0.1), ("b", 1))
    ]
    return {"name": "small", "description": "", "episodes": 20, "seeds": [0, 1], "instance": 0,
            "environments": [{"id": "media-v1"}], "learners": rows}  # fmt: skip


@cache
def found() -> an.Results:
    return an.aggregate(Ramp(), ExperimentSpec(**asked()), points=5)


def parts() -> dict[str, Any]:
    return {name: getattr(found(), name) for name in ("experiment", "curves", "finals", "exponents", "missing")}


def readers(**given: Any) -> None:
    """Everything that reads results; the first refusal counts, and any other error."""
    results, refused = an.Results(**given), []
    for function, rest in (
        (an.sensitivity, {"option": "bonus_scale"}),
        (an.suite_table, {"ours": "a", "opponent": "b"}),
        (an.table1, {}),
        (an.verdicts, {"roles": an.Roles(("a",), ("b",), ("b",), ("b",), ("b",))}),
    ):
        try:
            function(results, **rest)
        except fd.FlexDOMEError as error:
            refused.append(error)
    if refused:
        raise refused[0]


def analyses() -> dict[str, Call]:
    results, finals = found(), found().finals
    values = np.array([1.0, 2.0, 4.0, 3.0])
    settings = {"level": 0.9, "resamples": 50, "seed": 1}
    suite = {"ours": "a", "opponent": "b"}
    cast = an.Roles(("a",), ("b",), ("b",), ("b",), ("b",))
    return {
        "mean_and_error": Call(an.mean_and_error, {"values": values, "axis": 0}),
        "iqm": Call(an.iqm, {"values": values, "axis": 0}),
        "bootstrap_interval": Call(
            an.bootstrap_interval, {"values": values, "statistic": np.mean, "strata": list("aabb"), **settings}
        ),
        "growth_exponent": Call(an.growth_exponent, {"cumulative": np.stack([values.cumsum()] * 2), **settings}),
        "near_constant": Call(an.near_constant, {"total": 1.0, "late": 0.5, "exponent": an.Exponent(0.5, 0.1, 0.6, 9)}),
        "near_constant.exponent": Call(
            lambda **given: an.near_constant(1.0, 0.5, an.Exponent(points=9, low=0.0, **given)),
            {"value": 0.5, "high": 0.6},
            {"value": ("exponent",), "high": ("exponent",)},
        ),
        "Series": Call(
            lambda **given: an.Series(**given).finals(), {"gap": values, "violations": np.stack([values, -values])}
        ),
        "series_of": Call(
            lambda frame: an.series_of(frame).finals(),
            {"frame": Ramp().read(next(results.experiment.runs()))},
            {"frame": ("the table", "of episode", "gap", "violations")},
        ),
        "aggregate": Call(
            an.aggregate,
            {
                "store": Ramp(),
                "experiment": results.experiment,
                "points": 5,
                "skip_missing": False,
                "threads": 1,
                "constraints": False,
            },
        ),
        "Results": Call(readers, parts(), {"finals": ("seed", "instance")}, each=1),
        "summary": Call(
            an.summary,
            {"finals": finals, "by": ["environment", "learner"], "metrics": ["strong_regret", "wobble"], "seed": 0},
            {"finals": ("by", "metrics")},
            each=1,
        ),
        "constraint_metrics": Call(an.constraint_metrics, {"constraints": 2}),
        "metric_label": Call(an.metric_label, {"metric": "gap"}),
        "Series.of": Call(an.Series(values, np.stack([values, -values])).of, {"metric": "violation_1"}),
        "parse_score": Call(an.parse_score, {"text": "strong_regret"}, {"text": ("score",)}),
        "ranked_settings": Call(
            an.ranked_settings,
            {"finals": finals, "score": "strong_regret", "over": "mean"},
            {"finals": ("score",)},
            each=1,
        ),
        "sensitivity": Call(an.sensitivity, {"results": results, "option": "bonus_scale", "metrics": ["wobble"]}),
        "paired_difference": Call(
            an.paired_difference,
            {"finals": finals, "metric": "wobble", "a": "a", "b": "b", "environment": "media-v1", "seed": 0},
            {"finals": ("unknown",)},
            each=1,
        ),
        "suite_table": Call(an.suite_table, {"results": results, **suite}, dict.fromkeys(suite, ("learner",))),
        "suite_targets": Call(an.suite_targets, {"table": an.suite_table(results, **suite)}),
        "dominance_table": Call(
            an.dominance_table, {"finals": finals, "ours": "a"}, {"ours": ("learner",), "finals": ("learner",)}, each=1
        ),
        "table1": Call(
            an.table1, {"results": results, "environments": ["media-v1"]}, {"environments": ("environment",)}
        ),
        "Roles": Call(lambda **given: an.verdicts(results, an.Roles(**given)), dict(cast.__dict__)),
        "roles_of": Call(an.roles_of, {"results": results}),
        "verdicts": Call(an.verdicts, {"results": results, "roles": cast}),
        "unlike_the_paper": Call(an.unlike_the_paper, {"results": results}),
        "of_few_runs": Call(an.of_few_runs, {"counts": [3, 20]}),
    }


def figures() -> dict[str, Call]:
    results = found()
    summary = an.summary(results.finals, metrics=["strong_regret", "strong_violation"])
    summary = summary.select("environment", "learner", "metric", "mean", "se")
    scales = an.sensitivity(results, "bonus_scale").drop("n")
    curves = results.curves.filter(~pl.col("metric").str.starts_with("weak")).drop("n")
    style = fg.LineStyle("red", (1.0, 2.0), "o", 1.0)
    inside = fd.simulate(fd.ProxDOME(told(), episodes=9), world())
    return {
        "styles_for": Call(fg.styles_for, {"names": ["a", "b"]}),
        "LineStyle": Call(fg.LineStyle, {"colour": "red", "dashes": (1.0, 2.0), "marker": "o", "width": 1.0}),
        "Row": Call(
            lambda title, curves: fg.curves_figure([fg.Row(title, curves)]),
            {"title": "one", "curves": curves},
            {"curves": ("row ",)},
            each=1,
        ),
        "curves_figure": Call(
            fg.curves_figure,
            {
                "rows": [fg.Row("one", curves)],
                "width": 6.0,
                "styles": {"a": style},
                "share_y": False,
                "note": "",
                "metrics": ["gap"],
                "log": "none",
            },
        ),
        "comparison_figure": Call(
            fg.comparison_figure, {"results": results, "width": 6.0, "metrics": ["gap"], "log": "none"}
        ),
        "sweep_figure": Call(
            fg.sweep_figure,
            {
                "table": an.ranked_settings(results.finals),
                "label": "x",
                "width": 6.0,
                "options": {"a": {"x": 1.0}, "b": {"x": 2.0}},
            },
            {"options": ("table",)},
        ),
        "sensitivity_figure": Call(
            fg.sensitivity_figure,
            {"bonus": scales, "margin": scales, "chosen": {"bonus": 0.1}, "width": 6.0},
            each=1,
        ),
        "sensitivity_figure.chosen": Call(
            lambda scale: fg.sensitivity_figure(scales, scales, {"bonus": scale}),
            {"scale": 0.1},
            {"scale": ("chosen",)},
        ),
        "pareto_front": Call(fg.pareto_front, {"points": np.array([[0.0, 5.0], [1.0, 6.0], [2.0, 1.0]])}),
        "pareto_figure": Call(fg.pareto_figure, {"summary": summary, "width": 6.0}, each=1),
        "inside_figure": Call(fg.inside_figure, {"history": inside, "constraint": 0, "width": 6.0}),
        "table_markdown": Call(fg.table_markdown, {"table": an.table1(results)}),
        "table_figure": Call(fg.table_figure, {"table": an.table1(results).filter(id="flexdome")}, each=1),
        "save": Call(
            fg.save,
            {"figure": fg.pareto_figure(summary), "stem": "x", "formats": [], "data": summary},
            {"stem": FILE},
            whole=True,
        ),
    }


def one_run() -> ex.RunSpec:
    return ex.RunSpec(**run_fields())


def run_fields() -> dict[str, Any]:
    rest = {"instance": 0, "seed": 0, "episodes": 3}
    return {"environment": asked()["environments"][0], "learner": asked()["learners"][0], **rest}


def columns(last: int) -> dict[str, Any]:
    t = np.arange(1, last + 1)
    return {"episode": t, "reward_gap": t / 2.0, "violation_0": t / 3.0, "multiplier_0": t / 4.0}


def everything() -> list[str]:
    """Every file and folder there is."""
    return sorted(str(path) for path in Path(".").rglob("*"))


def stored(method: str, **rest: Any) -> Callable[..., Any]:
    """A method of a store that has one run and may write another: what is refused leaves no file."""

    def call(**given: Any) -> None:
        store, other = Store("store"), one_run().model_copy(update={"seed": 7})
        if not store.has(one_run()):
            store.finish(one_run(), columns(3), {})
        held = everything()
        try:
            getattr(store, method)(**rest, **given)
        except Exception:
            assert everything() == held, "the call was refused but left a file"
            raise
        store.discard(other)

    return call


def no_model(**given: Any) -> None:
    """A model that the store does not have."""
    try:
        stored("model")(**given)
    except fd.FileFormatError as error:
        if "cannot be read: No such file" not in str(error):
            raise


def stores() -> dict[str, Call]:
    run, other = one_run(), one_run().model_copy(update={"seed": 7})
    reading = ("folder", "has", "marker", "damage", "checkpoint", "tidy", "discard", "failure", "forgive")
    return {
        "Store": Call(Store, {"path": "store"}, {"path": ("a store is a directory",)}),
        **{f"Store.{method}": Call(stored(method), {"run": run}) for method in reading},
        "Store.read": Call(stored("read"), {"run": run, "columns": ["reward_gap"]}, {"columns": ("column",)}),
        "Store.experiments": Call(stored("experiments"), {"skipped": None}),
        "Store.requests": Call(stored("requests"), {"skipped": None}),
        "Store.stale": Call(stored("stale"), {"request": Request(ExperimentSpec(**asked()), {})}),
        "Store.model": Call(no_model, {"digest": "0" * 64}),
        "Store.fail": Call(stored("fail"), {"run": other, "failure": Failure(0, "x", "")}),
        "Store.remember": Call(stored("remember"), {"experiment": ExperimentSpec(**asked())}),
        "Store.append": Call(
            stored("append"), {"run": other, "columns": columns(2), "learner": b"x", "seconds": 0.0}
        ),
        "Store.append.columns": Call(
            lambda **given: stored("append", run=other, learner=b"x")(columns=given),
            columns(2),
            dict.fromkeys(columns(2), ("columns",)),
        ),
        "Store.finish": Call(stored("finish"), {"run": other, "columns": columns(3), "facts": {"wall_seconds": 1.0}}),
        "Store.finish.facts": Call(lambda fact: stored("finish", run=other, columns=columns(3))(facts={"x": fact}),
                                   {"fact": 1.0}),
    }  # fmt: skip


def nowhere(**given: Any) -> None:
    """A cluster where there is none."""
    try:
        ex.Cluster(timeout=0.1, **given)
    except fd.FlexDOMEError as error:
        if "no Dask scheduler answers" not in str(error):
            raise


def experiments() -> dict[str, Call]:
    cmdp, run, fields = world(), one_run(), asked()
    key = ("unknown key",)
    return {
        **stores(),
        "experiment_names": Call(ex.experiment_names),
        "named_experiment": Call(ex.named_experiment, {"name": "fixed"}, {"name": ("unknown experiment",)}),
        "find_experiment": Call(ex.find_experiment, {"text": "fixed"}, {"text": ("unknown experiment", *FILE)}),
        "load_experiment": Call(ex.load_experiment, {"path": "small.toml"}, {"path": FILE}),
        "make_engine": Call(
            ex.make_engine,
            {"workers": 0, "cluster": None, "timeout": 1.0},
            {"cluster": ("client", "workers")},
            whole=True,
        ),
        "Processes": Call(ex.Processes, {"workers": 1}),
        "Serial": Call(ex.Serial, {"raises": False}),
        "Cluster": Call(nowhere, {"client": "tcp://127.0.0.1:1"}),
        "EnvironmentSpec": Call(
            lambda **given: ex.EnvironmentSpec(**given),
            {"id": "media-v1", "options": {}, "label": "x"},
            {"id": ("environment",), "options": ("option",)},
        ),
        "EnvironmentSpec.file": Call(
            lambda **given: ex.EnvironmentSpec(**given).make(0),
            {"file": "small.npz"},
            {"file": (*FILE, "environment", "path")},
        ),
        "EnvironmentSpec.sha256": Call(
            lambda **given: ex.EnvironmentSpec(file="small.npz", **given), {"sha256": "0" * 64}
        ),
        "EnvironmentSpec.make": Call(run.environment.make, {"seed": 0}),
        "ProblemSpec": Call(
            lambda **given: ex.ProblemSpec(**given),
            {"slater_gap": 0.5, "reveal": ["thresholds"], "hide": ["thresholds"], "safe_slack": 0.5}
            | {"threshold_laws": True},
        ),
        "ProblemSpec.make": Call(ex.ProblemSpec().make, {"cmdp": cmdp}),
        "ProblemSpec.handed": Call(ex.ProblemSpec(threshold_laws=True).handed, {"cmdp": cmdp}),
        "LearnerSpec": Call(
            lambda **given: ex.LearnerSpec(**given),
            {"id": "flexdome", "options": {}, "problem": {}, "label": "x"},
            {"id": ("learner",), "problem": key, "options": ("option",)},
        ),
        "LearnerSpec.options": Call(
            lambda value: ex.LearnerSpec(id="flexdome", options={"margin_scale": value}).make(cmdp, 10, 0),
            {"value": 0.1},
            {"value": ("margin_scale", "options")},
        ),
        "LearnerSpec.make": Call(run.learner.make, {"cmdp": cmdp, "episodes": 10, "seed": 0}),
        "RunSpec": Call(lambda **given: ex.RunSpec(**given).id, run_fields(), {"environment": key, "learner": key}),
        "RunSpec.make_learner": Call(run.make_learner, {"cmdp": cmdp}),
        "ExperimentSpec": Call(lambda **given: ExperimentSpec(**given).id, fields, long=("seeds",)),
        "ExperimentSpec.changed": Call(ExperimentSpec(**fields).changed, fields),
        "run_experiments": Call(
            ex.run_experiments,
            {
                "experiments": [],
                "store": Store("store"),
                "engine": ex.Serial(),
                "watch": print,
                "chunk_seconds": 0.0,
                "limit": 9.0,
                "force": False,
                "check": True,
            },
            own=("watch",),
            same=everything,
        ),
    }


def histories() -> dict[str, Call]:
    learner = fd.FlexDOME(told(), episodes=9)
    one, two = (fd.simulate(learner, world(), episodes=3) for _ in range(2))
    return {
        "History + later": Call(lambda later: one + later, {"later": two}, {"later": ("second history",)}),
        "earlier + History": Call(lambda earlier: earlier + two, {"earlier": one}, {"earlier": ("first history",)}),
    }


@cache
def rooms() -> dict[str, Call]:
    return {**analyses(), **figures(), **experiments(), **histories()}


@pytest.fixture(autouse=True)
def somewhere(tmp_path, monkeypatch):
    """A folder with a model and a learner in it; whatever is written stays there."""
    monkeypatch.chdir(tmp_path)
    fd.save_cmdp(world(), "small.npz")
    fd.FlexDOME(told(), episodes=20).save("learner.npz")
    Path("small.toml").write_text(
        'episodes = 5\nseeds = [0]\n[[environments]]\nid = "media-v1"\n[[learners]]\nid = "flexdome"\n'
    )


@pytest.mark.parametrize("name", public())
def test_a_public_callable_takes_a_value_or_refuses_it_by_name(name):
    found = public()[name].complaints()
    assert not found, listed(found)


SLOW = ("Results", "Row", "curves_figure", "comparison_figure", "sensitivity_figure", "sensitivity_figure.chosen",
        "pareto_figure", "table_figure", "Store.append", "Store.append.columns")  # fmt: skip


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in rooms()])
def test_what_reads_results_or_runs_experiments_takes_a_value_or_refuses_it_by_name(name):
    found = rooms()[name].complaints()
    assert not found, listed(found)


@pytest.mark.parametrize("id", fd.ENVIRONMENTS)
def test_a_family_takes_an_option_or_refuses_it_by_name(id):
    found = families()[id].complaints()
    assert not found, listed(found)


@pytest.mark.parametrize("id", fd.LEARNERS)
def test_a_learner_takes_an_option_or_refuses_it_by_name(id):
    found = learners()[id].complaints()
    assert not found, listed(found)


COUNTS = {
    "schedule": ({"first": 1, "count": 2}, ("flexdome", "anchordome", "uopt-rpgpd")),
    "draws": ({"count": 3}, ("s-ops", "optcmdp")),
    "coins": ({"count": 3}, ("suredome", "guard", "proxdome")),
}


@pytest.mark.parametrize(("id", "name"), [(id, name) for name, (_, ids) in COUNTS.items() for id in ids])
def test_how_many_numbers_are_asked_for_is_a_whole_number_or_refused_by_name(id, name):
    options: dict[str, Any] = {"safe_policy": safe()} if "safe policy" in fd.LEARNERS[id].needs else {}
    learner = fd.make_learner(id, told(), episodes=50, **options)
    asked = getattr(learner, name)
    found = Call(lambda **given: asked(**given), COUNTS[name][0], long=("count",)).complaints()
    assert not found, listed(found)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("id", fd.LEARNERS)
def test_what_a_learner_refuses_leaves_no_trace(id, name):
    if (id, name) == ("guard", "restore"):
        pytest.skip("only a guard that is being loaded takes a state; what it refuses is in tests/learners/guarded")
    found = method(id, name).complaints()
    assert not found, listed(found)


def test_every_public_name_is_tried():
    tried = {name.split(".")[0] for name in public()}
    kinds = {"FlexDOME", "ProxDOME", "SureDOME"}  # among the learners
    # These are tried in test_malformed_live.py, fd.learn in test_malformed_gym.py.
    elsewhere = {"Guard", "Journal", "Monitor", "Policy", "certify", "from_gymnasium", "learn", "play", "read_episodes"}
    elsewhere |= {"recover", "sample_episodes", "write_episodes"}
    errors = {name for name in dir(fd) if name.endswith("Error")}
    callables = {name for name in dir(fd) if callable(getattr(fd, name))}
    assert callables - errors - kinds - elsewhere <= tried


@pytest.mark.parametrize("room", [an, fg, ex], ids=["analysis", "figures", "experiments"])
def test_every_public_name_of_a_room_is_tried(room):
    tried = {name.split(".")[0] for name in rooms()}
    told = {"Event", "Outcome", "Exponent", "Interval", "PairedDifference", "Target", "Verdict"}  # made, never read
    told |= {"policy_figure", "table_cells"}  # tried in tests/figures
    callables = {name for name in room.__all__ if callable(getattr(room, name))}
    assert callables - told - {"Engine", "Reader"} <= tried


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
