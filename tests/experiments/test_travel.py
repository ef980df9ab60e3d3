"""Results that travel, and results that are not taken for what they are not."""

import importlib
import json
import shutil
import sys
import time

import pytest

import flexdome as fd
from flexdome.cli import main
from flexdome.experiments import (
    ExperimentSpec,
    LearnerSpec,
    Processes,
    Store,
    code,
    load_experiment,
    make_engine,
    run_experiments,
)
from flexdome.experiments.labels import sealed
from flexdome.report.again import curve_toml

LEARNER = """
import time

from flexdome import FlexDOME


class Mine(FlexDOME):
    id = "mine"

    def observe(self, episode):
        WAIT
        super().observe(episode)
"""


def experiment(**changes):
    learners = [{"id": "flexdome", "label": "ours"}]
    plain = {
        "name": "trip",
        "episodes": 20,
        "seeds": [0, 1],
        "environments": [{"id": "media-v1"}],
        "learners": learners,
    }
    return ExperimentSpec(**plain | changes)


@pytest.fixture
def model(tmp_path):
    fd.save_cmdp(fd.make_cmdp("media-v1"), tmp_path / "model.npz")
    return tmp_path / "model.npz"


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """Write a learner from elsewhere; as a new process would see it."""
    path = tmp_path / f"mine_{tmp_path.name.replace('-', '_')}.py"
    monkeypatch.syspath_prepend(tmp_path)

    def write(wait="pass"):
        path.write_text(LEARNER.replace("WAIT", wait))
        code._sources.cache_clear()
        return f"{path.stem}:Mine"

    yield write
    code._sources.cache_clear()


def forget(id, monkeypatch):
    """As a new process would find a learner's module."""
    monkeypatch.delitem(sys.modules, id.partition(":")[0])
    importlib.invalidate_caches()
    code._imported.cache_clear()
    code._sources.cache_clear()


def test_a_store_that_was_moved_and_lost_its_model_file_has_all_it_needs(tmp_path, model, capsys):
    asked = experiment(environments=[{"file": model}])
    run_experiments([asked], Store(tmp_path / "first"))
    shutil.move(tmp_path / "first", tmp_path / "second")
    model.unlink()
    where = str(tmp_path / "second")
    assert main(["status", where]) == 0
    assert "40 of 40" in capsys.readouterr().out
    assert main(["compare", "trip", "--out", where]) == 0
    assert main(["report", where]) == 0
    store = Store(where)
    (found,) = store.experiments()
    assert found.id == asked.id
    assert found.environments[0].name == "model"
    before = {run.id: (store.folder(run) / "history.parquet").read_bytes() for run in found.runs()}
    assert run_experiments([found], store, force=True).computed == 2
    assert before == {run.id: (store.folder(run) / "history.parquet").read_bytes() for run in found.runs()}
    assert "tmp" not in next(store.path.glob("experiments/*.json")).read_text()
    (store.path / "curve.toml").write_text(curve_toml(found, "model", "ours"))
    assert load_experiment(store.path / "curve.toml").id == asked.id


def test_a_request_from_before_models_were_copied_finds_its_results(tmp_path, model):
    store, asked = Store(tmp_path / "out"), experiment(environments=[{"file": model}])
    run_experiments([asked], store)
    shutil.rmtree(store.path / "models")
    (path,) = (store.path / "experiments").glob("*.json")
    old = {"format": 2, "experiment": asked.model_dump(mode="json", exclude_none=True)}
    path.write_bytes(sealed({**old, "models": {"model": asked.environments[0].digest}}))
    model.unlink()
    (found,) = store.experiments()
    assert found.id == asked.id
    assert all(store.has(run) for run in found.runs())
    with pytest.raises(fd.FileFormatError, match=r"model\.npz cannot be read"):
        run_experiments([found], store, force=True)


def test_a_copy_of_a_model_that_is_damaged_is_not_used(tmp_path, model):
    store = Store(tmp_path / "out")
    run_experiments([experiment(environments=[{"file": model}])], store)
    (copy,) = (store.path / "models").iterdir()
    fd.save_cmdp(fd.make_cmdp("inventory-v1"), copy)
    with pytest.raises(fd.FileFormatError, match="is not the model that it was"):
        run_experiments(store.experiments(), store, force=True)


def test_processes_are_given_the_model_with_the_task(tmp_path, model):
    asked = experiment(environments=[{"file": model}], episodes=300)
    reference, store = Store(tmp_path / "reference"), Store(tmp_path / "out")
    run_experiments([asked], reference)

    def hide(event):
        if event.kind == "started":
            model.unlink(missing_ok=True)

    run_experiments([asked], store, Processes(1), hide, chunk_seconds=0.0)
    for run in asked.runs():
        tables = [(one.folder(run) / "history.parquet").read_bytes() for one in (reference, store)]
        assert tables[0] == tables[1]


def test_ids_of_our_own_learners_are_what_they_were():
    ids = [run.id for run in experiment().runs()]
    assert ids == ["5376eb1d8805a910", "c965a6c8c0370938"]


@pytest.mark.parametrize(("options", "inside"), [({}, "proxdome"), ({"inside": "flexdome"}, "flexdome")])
def test_the_version_of_a_learner_in_a_guard_is_part_of_the_runs_id(options, inside):
    learner = LearnerSpec(id="guard", options=options)
    assert learner.code == {
        "version": fd.LEARNERS["guard"].version,
        "inside version": fd.LEARNERS[inside].version,
    }
    run = next(experiment(learners=[learner]).runs())
    assert run.id == run.id_by(learner.code)
    assert run.id != run.id_by({**learner.code, "inside version": 0})
    twice = LearnerSpec(id="guard", options={"inside": "guard", "options": options})
    assert twice.code["inside inside version"] == fd.LEARNERS[inside].version


def test_results_of_a_learner_that_was_edited_since_are_stale(tmp_path, mine, capsys):
    store = Store(tmp_path / "out")
    asked = experiment(learners=[{"id": mine(), "label": "mine"}, {"id": "flexdome"}])
    run_experiments([asked], store)
    run = next(asked.runs())
    told = json.loads((store.folder(run) / "run.json").read_text())["code"]
    assert told == {"version": 1, "package": "not installed", "sources": told["sources"]}
    before = run.id
    mine("_ = 1")
    assert run.id != before
    assert not store.has(run)
    assert main(["status", str(store.path)]) == 0
    out = capsys.readouterr().out
    now = run.learner.code["sources"]
    assert f"stale: 2 runs of mine made by sources {told['sources']}; it is sources {now} now; `flexdome run`" in out
    assert "--discard-stale" not in out
    assert run_experiments([asked], store).computed == 2
    assert store.has(run)
    assert len(store.experiments()) == 1


def test_stale_runs_are_removed_once_they_were_computed_anew_and_not_before(tmp_path, mine, capsys):
    store = Store(tmp_path / "out")
    asked = experiment(learners=[{"id": mine(), "label": "mine"}])
    run_experiments([asked], store)
    old = [store.folder(run) for run in asked.runs()]
    (old[1] / "notes.txt").write_text("of somebody else")
    mine("_ = 3")
    words = ["status", str(store.path), "--discard-stale"]
    assert main(words) == 0
    assert "0 stale runs removed" in capsys.readouterr().out
    assert all((folder / "run.json").exists() for folder in old)
    run_experiments([asked], store)
    assert main(words[:2]) == 0
    out = capsys.readouterr().out
    assert "now, and they were computed anew\n" in out
    assert f"`flexdome status {store.path} --discard-stale` removes" in out
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "2 stale runs removed" in out
    assert "stale: " not in out
    assert not old[0].exists()
    assert [path.name for path in old[1].iterdir()] == ["notes.txt"]
    assert all(store.has(run) for run in asked.runs())


def test_compare_says_that_runs_are_missing_because_the_learner_was_edited(tmp_path, mine, capsys):
    store = Store(tmp_path / "out")
    run_experiments([experiment(learners=[{"id": mine(), "label": "mine"}, {"id": "flexdome"}])], store)
    mine("_ = 2")
    assert main(["compare", "trip", "--out", str(store.path)]) == 2
    said = "2 of 4 runs of trip are not in"
    err = capsys.readouterr().err
    assert said in err
    assert "(2 stale: the code of mine has changed since they were made); `flexdome run` computes them" in err
    assert main(["compare", "trip", "--out", str(store.path), "--skip-missing"]) == 0
    assert "which are not there (2 stale: " in capsys.readouterr().err


@pytest.mark.parametrize("left", ["nothing", "a syntax error", "other options"])
def test_results_are_found_without_the_class_that_made_them(tmp_path, mine, monkeypatch, capsys, left):
    id, store = mine(), Store(tmp_path / "out")
    row = {"id": id, "label": "mine", "options": {"margin_scale": 1e-4}}
    asked = experiment(learners=[row, {"id": "flexdome"}])
    run_experiments([asked], store)
    module = tmp_path / f"{id.partition(':')[0]}.py"
    if left == "other options":
        module.write_text(
            LEARNER.replace("WAIT", "pass") + "\n    def __init__(self, problem, episodes, seed=0): ...\n"
        )
    else:
        module.write_text("class") if left == "a syntax error" else module.unlink()
    forget(id, monkeypatch)
    where = str(store.path)
    assert main(["status", where]) == 0
    out = capsys.readouterr().out
    assert "80 of 80" in out
    assert "cannot be run here: mine: " in out
    assert main(["compare", "trip", "--out", where]) == 0
    assert "mine" in capsys.readouterr().out
    assert main(["report", where]) == 0
    assert main(["resume", where, "--workers", "0"]) == 0
    captured = capsys.readouterr()
    assert "0 runs computed, 4 there already" in captured.out
    assert "skipped" not in captured.err
    with pytest.raises(fd.ValidationError, match="force is true; mine cannot be computed again: "):
        run_experiments(store.experiments(), store, force=True)
    assert all(store.has(run) for spec in store.experiments() for run in spec.runs())


def test_what_is_missing_of_a_learner_that_is_not_here_fails_and_the_others_are_computed(
    tmp_path, mine, monkeypatch, capsys
):
    id, store = mine(), Store(tmp_path / "out")
    asked = experiment(learners=[{"id": id, "label": "mine"}, {"id": "flexdome"}])

    class Enough(Exception):
        pass

    def stop(event):
        if event.kind == "advanced":
            raise Enough

    with pytest.raises(Enough):
        run_experiments([asked], store, watch=stop, chunk_seconds=0.0)
    (tmp_path / f"{id.partition(':')[0]}.py").unlink()
    forget(id, monkeypatch)
    assert main(["status", str(store.path)]) == 0
    assert "16 of 80" in capsys.readouterr().out  # its checkpoint counts
    assert main(["resume", str(store.path), "--workers", "0"]) == 5
    assert "2 runs failed: learner is" in capsys.readouterr().err
    assert [store.has(run) for spec in store.experiments() for run in spec.runs()] == [False, False, True, True]


def test_a_learner_inside_a_guard_that_is_not_here_hides_nothing(tmp_path, mine, monkeypatch):
    id, store = mine(), Store(tmp_path / "out")
    asked = experiment(learners=[{"id": "guard", "options": {"inside": id}}], seeds=[0])
    run_experiments([asked], store, check=False)
    before = asked.id
    (tmp_path / f"{id.partition(':')[0]}.py").unlink()
    forget(id, monkeypatch)
    assert [spec.id for spec in store.experiments()] == [before]


def test_a_learner_from_elsewhere_goes_on_from_its_checkpoint(tmp_path, mine):
    asked = experiment(learners=[{"id": mine(), "label": "mine"}])
    store, reference = Store(tmp_path / "out"), Store(tmp_path / "reference")

    class Enough(Exception):
        pass

    def stop(event):
        if event.kind == "advanced":
            raise Enough

    with pytest.raises(Enough):
        run_experiments([asked], store, watch=stop, chunk_seconds=0.0)
    events = []
    run_experiments([asked], store, watch=lambda event: events.append(event.kind))
    assert "resumed" in events
    run_experiments([asked], reference)
    for run in asked.runs():
        tables = [(one.folder(run) / "history.parquet").read_bytes() for one in (reference, store)]
        assert tables[0] == tables[1]


@pytest.mark.parametrize("id", ["nowhere_to_be_found:Mine", "flexdome:CMDP", "flexdome:nothing"])
def test_a_learner_that_is_none_is_refused(id):
    with pytest.raises(fd.ValidationError, match=f"learner is '{id}'"):
        experiment(learners=[{"id": id}])


def test_a_call_that_does_not_end_is_given_up_and_the_others_go_on(tmp_path, mine):
    slow = mine("time.sleep(600) if self.episode > 17 else None")
    asked = experiment(learners=[{"id": slow, "label": "slow"}, {"id": "flexdome"}], seeds=[0])
    store = Store(tmp_path / "out")
    began = time.monotonic()
    outcome = run_experiments([asked], store, make_engine(1), limit=8.0)
    assert time.monotonic() - began < 300.0
    assert outcome.computed == 1
    assert list(outcome.failed.values()) == ["a call had not ended after 8 s, at episode 0 or later"]
    assert store.failure(next(asked.runs())).reason.startswith("a call had not ended")


def test_watchers_are_told_the_numbers_of_every_episode(tmp_path):
    asked, told = experiment(seeds=[0]), []
    run_experiments([asked], Store(tmp_path), watch=told.append, chunk_seconds=0.0)
    episodes = [int(t) for event in told for t in event.columns.get("episode", ())]
    assert episodes == list(range(1, 21))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"episodes": "many"}, "episodes is 'many'; it must be a whole number"),
        ({"episodes": 0}, "episodes is 0; it must be at least 1"),
        ({"seeds": []}, "it must have at least 1 entry"),
        ({"seeds": [1.5]}, r"seeds\[0\] is 1.5; it must be a whole number"),
        ({"name": "a b"}, "it must match"),
        ({"learners": [{"id": "flexdome", "problem": {"reveal": ["all"]}}]}, "it must be 'thresholds', 'rewards'"),
        ({"learners": [{"id": "flexdome", "problem": 3}]}, "problem is 3; it must be a table"),
        ({"environments": [{"id": 3}]}, "id is 3; it must be a text"),
    ],
)
def test_errors_have_words_of_our_own(changes, message):
    with pytest.raises(fd.ValidationError, match=message) as caught:
        experiment(**changes)
    assert "nput should" not in str(caught.value)
