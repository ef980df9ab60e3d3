"""Experiments: data in, the same bytes out, whatever happens in between."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import flexdome as fd
from flexdome.experiments import (
    EnvironmentSpec,
    ExperimentSpec,
    LearnerSpec,
    Processes,
    RunSpec,
    Serial,
    Store,
    experiment_names,
    find_experiment,
    load_experiment,
    make_engine,
    named_experiment,
    run_experiments,
)

MICRO = {
    "name": "micro",
    "episodes": 300,
    "seeds": [0, 1],
    "environments": [{"id": "paper-stochastic-v1"}, {"id": "multi-v1"}],
    "learners": [
        {"id": "flexdome", "label": "FlexDOME", "options": {"margin_scale": 5e-5}},
        {"id": "uopt-rpgpd", "options": {"tuning": "practical"}},
        {"id": "flexdome", "label": "oracle", "problem": {"reveal": ["thresholds"]}},
    ],
}

TOML = """
episodes = 300
seeds = [0, 1]

[[environments]]
id = "paper-stochastic-v1"

[[environments]]
id = "multi-v1"

[[learners]]
id = "flexdome"
label = "FlexDOME"
options = {margin_scale = 5e-5}

[[learners]]
id = "uopt-rpgpd"
options = {tuning = "practical"}

[[learners]]
id = "flexdome"
label = "oracle"
[learners.problem]
reveal = ["thresholds"]
"""


def spec(**fields):
    return ExperimentSpec(**{**MICRO, **fields})


def tables(store, experiment):
    """The bytes of every run's table."""
    return {run.id: (store.folder(run) / "history.parquet").read_bytes() for run in experiment.runs()}


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """The micro experiment run by this process in one go."""
    store = Store(tmp_path_factory.mktemp("reference"))
    outcome = run_experiments([spec()], store)
    assert outcome.computed == 12
    assert not outcome.failed
    return tables(store, spec())


# -- data ------------------------------------------------------------------------------------------------------------


def test_a_toml_file_and_python_give_the_same_experiment(tmp_path):
    path = tmp_path / "micro.toml"
    path.write_text(TOML)
    assert load_experiment(path) == spec()


def test_ids_depend_on_content_and_on_nothing_else():
    ids = [run.id for run in spec().runs()]
    assert len(set(ids)) == 12
    labelled = spec(name="other", learners=[{**row, "label": f"L{i}"} for i, row in enumerate(MICRO["learners"])])
    assert [run.id for run in labelled.runs()] == ids
    assert spec(learners=MICRO["learners"][::-1]).id == spec().id
    assert spec(episodes=301).id != spec().id
    one = RunSpec(environment={"id": "media-v1"}, learner={"id": "flexdome"}, instance=0, seed=0, episodes=10)
    assert one.id != one.model_copy(update={"instance": 1}).id  # another instance, another run


def test_a_learner_that_has_to_be_told_the_law_of_samples_is_told():
    """Where they lie, or how they are spread where they lie anywhere; one value is known without a range."""
    laws = [
        fd.Threshold.normal(1.0, 0.4), fd.Threshold.uniform(0.2, 0.9), fd.Threshold.fixed(0.5),
        fd.Threshold.bernoulli(1.0, 0.7), fd.Threshold.normal(0.5, 2.0, clip=(0.0, 1.5)),
    ]  # fmt: skip
    rng = np.random.default_rng(0)
    cmdp = fd.CMDP(rng.dirichlet(np.ones(3), size=(3, 2)), rng.random((3, 2)), 1 - rng.random((5, 3, 2)) / 9, laws, 0,
                   horizon=4)  # fmt: skip
    learner = LearnerSpec(id="suredome", problem={"safe_slack": 0.5, "threshold_laws": True}).make(cmdp, 9, 0)
    np.testing.assert_array_equal(learner.laws.low, [np.nan, 0.2, np.nan, np.nan, 0.0])
    np.testing.assert_array_equal(learner.laws.high, [np.nan, 0.9, np.nan, np.nan, 1.5])
    np.testing.assert_array_equal(learner.laws.scale, [0.4, np.nan, np.nan, 0.0, np.nan])
    assert fd.simulate(learner, cmdp).strong_violation[-1] == 0.0
    silent = LearnerSpec(id="suredome", problem={"safe_slack": 0.5}).make(cmdp, 9, 0)
    np.testing.assert_array_equal(silent.laws.high, [4.0, 4.0, np.nan, 4.0, 4.0])


def test_what_is_told_of_laws_is_in_the_id_where_it_is_told():
    told = [{"safe_slack": 0.5}, {"safe_slack": 0.5, "threshold_laws": True}]
    silent, said = (spec(learners=[{"id": "suredome", "problem": problem}]) for problem in told)
    assert silent.id != said.id
    run = RunSpec(environment={"id": "paper-v1"}, learner={"id": "flexdome"}, instance=0, seed=0, episodes=9)
    assert run.id_by({"version": 1}) == "962c34360965c9e6"  # as before there were laws to tell,
    problem = {"slater_gap": None, "reveal": [], "hide": [], "safe_slack": None}
    assert run.model_dump(mode="json")["learner"]["problem"] == problem  # and so are the files of a store
    assert LearnerSpec(id="suredome", problem=told[1]).model_dump()["problem"]["threshold_laws"] is True


def test_ids_are_the_same_in_every_process_and_version_of_the_data():
    run = RunSpec(
        environment={"id": "media-v1"},
        learner={"id": "flexdome", "options": {"margin_scale": 1, "bonus_scale": 0.001}},
        instance=3,
        seed=4,
        episodes=500,
    )
    assert run.id == RunSpec(**json.loads(run.model_dump_json())).id
    again = run.model_copy(
        update={"learner": LearnerSpec(id="flexdome", options={"bonus_scale": 1e-3, "margin_scale": 1.0})}
    )
    assert again.id == run.id


def test_a_learners_version_is_part_of_the_id(monkeypatch):
    from dataclasses import replace

    run = next(spec().runs())
    before = run.id
    entry = replace(fd.LEARNERS["flexdome"], version=fd.LEARNERS["flexdome"].version + 1)
    monkeypatch.setitem(fd.LEARNERS._own, "flexdome", entry)
    assert next(spec().runs()).id != before


def test_seeds_pair_with_instances_unless_one_is_named():
    assert {(run.instance, run.seed) for run in spec().runs()} == {(0, 0), (1, 1)}
    assert {(run.instance, run.seed) for run in spec(instance=7).runs()} == {(7, 0), (7, 1)}


def test_a_model_file_is_known_by_its_content(tmp_path):
    first, second = tmp_path / "a.npz", tmp_path / "b.npz"
    fd.save_cmdp(fd.make_cmdp("media-v1"), first)
    second.write_bytes(first.read_bytes())
    runs = [
        RunSpec(environment={"file": path}, learner={"id": "flexdome"}, instance=0, seed=0, episodes=5)
        for path in (first, second)
    ]
    assert runs[0].id == runs[1].id
    fd.save_cmdp(fd.make_cmdp("inventory-v1"), second)
    other = RunSpec(environment={"file": second}, learner={"id": "flexdome"}, instance=0, seed=0, episodes=5)
    assert other.id != runs[0].id
    (tmp_path / "e.toml").write_text(
        'episodes = 5\nseeds = [0]\nenvironments = [{file = "a.npz"}]\nlearners = [{id = "flexdome"}]\n'
    )
    experiment = load_experiment(tmp_path / "e.toml")
    assert run_experiments([experiment], Store(tmp_path / "out")).computed == 1
    assert experiment.environments[0].name == "a"


def _on_file(path):
    return spec(environments=[{"file": path}], learners=[{"id": "flexdome"}], seeds=[0], episodes=20)


def test_a_model_file_that_is_written_anew_is_read_anew(tmp_path):
    path, store = tmp_path / "model.npz", Store(tmp_path / "out")
    for seed in (0, 1):
        cmdp = fd.make_cmdp("paper-v1", seed=seed)
        fd.save_cmdp(cmdp, path)
        run_experiments([_on_file(path)], store)
        run = next(_on_file(path).runs())
        expected = fd.simulate(fd.FlexDOME(cmdp.problem(), episodes=20, seed=0), cmdp, seed=0)
        np.testing.assert_array_equal(store.read(run)["reward_gap"].to_numpy(), expected.reward_gap)


def test_a_model_file_that_changes_before_its_runs_is_refused(tmp_path):
    path = tmp_path / "model.npz"
    fd.save_cmdp(fd.make_cmdp("paper-v1", seed=0), path)
    experiment = _on_file(path)
    assert experiment.id
    fd.save_cmdp(fd.make_cmdp("paper-v1", seed=1), path)
    with pytest.raises(fd.FileFormatError, match=r"model\.npz is not the model that it was"):
        run_experiments([experiment], Store(tmp_path / "out"))


def test_a_model_file_is_found_from_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fd.save_cmdp(fd.make_cmdp("media-v1"), "model.npz")
    run_experiments([_on_file("model.npz")], Store(tmp_path / "out"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    store = Store(tmp_path / "out")
    assert all(store.has(run) for run in store.experiments()[0].runs())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"episode": 3}, "unknown key 'episode'; did you mean episodes?"),
        ({"episodes": 0}, "episodes is 0; "),
        ({"episodes": "many"}, "episodes is 'many'; "),
        ({"seeds": []}, "seeds is "),
        ({"seeds": [1, 1]}, "seeds: 1 appears 2 times; each may appear once"),
        ({"learners": [{"id": "flexdome", "options": {"margin_scale": float("nan")}}]}, "margin_scale is nan"),
        ({"learners": [{"id": "flexdome", "problem": {"safe_slack": 0.5}}]}, "flexdome takes no safe policy"),
        ({"learners": [{"id": "dope", "problem": {"threshold_laws": True}}]}, "dope takes no laws of thresholds"),
        ({"seeds": [-1]}, "seeds[0] is -1; "),
        ({"name": "a/b"}, "name is 'a/b'; "),
        (
            {"environments": [{"id": "papr-v1"}]},
            "environments[0]: unknown environment 'papr-v1'; did you mean paper-v1",
        ),
        ({"environments": [{"id": "paper-v1", "seed": 1}]}, "environments[0]: unknown key 'seed'"),
        ({"environments": [{"id": "paper-v1", "options": {"sates": 4}}]}, "unknown option of paper-v1 'sates'"),
        ({"environments": [{}]}, "environments[0]: an environment has either an id or a file"),
        ({"learners": [{"id": "flexdom"}]}, "learners[0]: unknown learner 'flexdom'; did you mean flexdome"),
        ({"learners": [{"id": "flexdome", "options": {"margin_scal": 1}}]}, "did you mean margin_scale"),
        ({"learners": [{"id": "flexdome", "options": {"seed": 1}}]}, "option 'seed' of flexdome is the experiment's"),
        ({"learners": [{"id": "flexdome", "problem": {"revel": []}}]}, "unknown key 'revel'; did you mean reveal"),
        ({"learners": [{"id": "flexdome", "problem": {"slater_gap": 0}}]}, "slater_gap is 0; "),
        ({"learners": [{"id": "flexdome"}, {"id": "flexdome"}]}, "'flexdome' appears 2 times; each must have a label"),
    ],
)
def test_wrong_data_is_one_sentence_with_field_value_and_rule(change, message):
    with pytest.raises(fd.ValidationError) as caught:
        spec(**change)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_wrong_file_names_itself(tmp_path):
    path = tmp_path / "broken.toml"
    path.write_text("episodes = = 3")
    with pytest.raises(fd.FileFormatError, match=r"broken\.toml is not TOML"):
        load_experiment(path)
    with pytest.raises(fd.FileFormatError, match="cannot be read"):
        load_experiment(tmp_path / "missing.toml")
    path.write_text("episodes = 3\nseds = [1]")
    with pytest.raises(fd.ValidationError, match=r"broken\.toml: unknown key 'seds'; did you mean seeds"):
        load_experiment(path)
    path.write_text('episodes = 3\nseeds = [1]\nenvironments = 3\nlearners = [{id = "flexdome"}]')
    with pytest.raises(fd.ValidationError, match=r"broken\.toml: environments is 3; it must be a list"):
        load_experiment(path)


def test_a_wrong_value_of_an_option_is_found_before_anything_runs(tmp_path):
    wrong = spec(learners=[{"id": "flexdome"}, {"id": "rpd-oe", "options": {"bonus_scale": -1}}])
    with pytest.raises(fd.ValidationError, match=r"rpd-oe on paper-stochastic-v1: bonus_scale is -1"):
        run_experiments([wrong], Store(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", experiment_names())
def test_every_experiment_of_ours_is_valid(name):
    experiment = named_experiment(name)
    assert experiment.name == name
    assert experiment.description
    experiment.changed(seeds=(0,), episodes=10).check()


def test_experiments_are_found_by_name_or_by_file(tmp_path):
    assert find_experiment("fixed").name == "fixed"
    with pytest.raises(fd.ValidationError, match="did you mean fixed"):
        find_experiment("fixd")
    (tmp_path / "x.toml").write_text(TOML)
    assert find_experiment(str(tmp_path / "x.toml")).name == "x"


# -- results ---------------------------------------------------------------------------------------------------------


def test_a_stored_run_is_what_simulate_gives(tmp_path):
    store = Store(tmp_path)
    run = RunSpec(
        environment=EnvironmentSpec(id="multi-v1"), learner=LearnerSpec(id="flexdome"), instance=1, seed=5, episodes=200
    )
    experiment = ExperimentSpec(
        name="one", episodes=200, seeds=[5], instance=1, environments=[run.environment], learners=[run.learner]
    )
    run_experiments([experiment], store, chunk_seconds=0.0)
    cmdp = fd.make_cmdp("multi-v1", seed=1)
    history = fd.simulate(fd.FlexDOME(cmdp.problem(), episodes=200, seed=5), cmdp, seed=5)
    columns = store.read(run)
    np.testing.assert_array_equal(columns["episode"], np.arange(1, 201))
    np.testing.assert_array_equal(columns["reward_gap"], history.reward_gap)
    for i in range(cmdp.constraints):
        np.testing.assert_array_equal(columns[f"violation_{i}"], history.violation[i])
        np.testing.assert_array_equal(columns[f"multiplier_{i}"], history.multipliers[i])


def test_the_marker_says_what_was_run_and_where(tmp_path):
    store = Store(tmp_path)
    experiment = spec(environments=[{"id": "media-v1"}], seeds=[0], episodes=5)
    run_experiments([experiment], store)
    run = next(experiment.runs())
    marker = store.marker(run)
    assert RunSpec(**marker["run"]) == run
    assert marker["id"] == run.id
    assert marker["versions"]["numpy"] == np.__version__
    assert marker["wall_seconds"] >= 0.0
    assert set(marker["machine"]) == {"system", "processor", "cores"}


def test_a_run_that_exists_is_not_run_again(tmp_path):
    store = Store(tmp_path)
    run_experiments([spec(seeds=[0])], store)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("runs/*/*")}
    outcome = run_experiments([spec(seeds=[0]), spec(name="more", seeds=[0, 1])], store)
    assert (outcome.computed, outcome.stored) == (6, 6)
    assert all(path.stat().st_mtime_ns == when for path, when in before.items())


@pytest.mark.parametrize("chunk_seconds", [0.0, 0.002])
def test_cutting_a_run_into_chunks_changes_no_byte(tmp_path, reference, chunk_seconds):
    store = Store(tmp_path)
    events = []
    run_experiments([spec()], store, watch=events.append, chunk_seconds=chunk_seconds)
    assert any(event.kind == "advanced" for event in events)
    assert tables(store, spec()) == reference
    assert {path.name for path in tmp_path.glob("runs/*/*")} == {"history.parquet", "run.json"}


def test_two_processes_give_the_same_bytes(tmp_path, reference):
    store = Store(tmp_path)
    assert run_experiments([spec()], store, make_engine(2), chunk_seconds=0.05).computed == 12
    assert tables(store, spec()) == reference


@pytest.fixture
def cluster():
    """A Dask cluster of two processes on loopback."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0", host="127.0.0.1", silence_logs="CRITICAL"
    ) as cluster:
        yield cluster


def test_a_dask_cluster_gives_the_same_bytes_even_when_a_worker_dies(tmp_path, reference, cluster):
    store, events = Store(tmp_path), []

    def watch(event):
        events.append(event)
        if sum(one.kind == "advanced" for one in events) == 3:
            os.kill(next(iter(cluster.workers.values())).process.pid, signal.SIGKILL)

    engine = make_engine(cluster=cluster.scheduler_address)
    outcome = run_experiments([spec()], store, engine, watch, chunk_seconds=0.0)
    assert outcome.computed == 12
    assert tables(store, spec()) == reference


def test_a_ready_client_is_used_and_left_open(tmp_path, cluster):
    from distributed import Client

    with Client(cluster) as client:
        experiment = spec(environments=[{"id": "media-v1"}], seeds=[0], episodes=20)
        assert run_experiments([experiment], Store(tmp_path), make_engine(cluster=client)).computed == 3
        assert client.status == "running"


def test_a_cluster_that_does_not_answer_is_one_sentence():
    pytest.importorskip("distributed")
    with pytest.raises(fd.FlexDOMEError, match="no Dask scheduler answers at 'nonsense://x'"):
        make_engine(cluster="nonsense://x")


@pytest.mark.parametrize(("workers", "message"), [(-1, "workers is -1")])
def test_a_wrong_number_of_workers_is_refused(workers, message):
    with pytest.raises(fd.ValidationError, match=message):
        make_engine(workers)
    with pytest.raises(fd.ValidationError, match="a cluster has its own"):
        make_engine(2, "tcp://127.0.0.1:1")
    assert isinstance(make_engine(0), Serial)


def _signals():
    return signal.getsignal(signal.SIGINT), signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_workers_leave_ctrl_c_to_their_parent_from_their_first_moment():
    with Processes(1) as engine:
        handler, blocked = engine.submit(_signals).result(timeout=60)
    assert handler == signal.SIG_IGN
    assert signal.SIGINT in blocked  # inherited: also before the handler is set
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_a_dead_worker_is_replaced_and_its_run_taken_up(tmp_path, reference):
    store, engine, events = Store(tmp_path), Processes(2), []

    def watch(event):
        events.append(event)
        if sum(one.kind == "advanced" for one in events) == 3 and not any(one.kind == "retried" for one in events):
            os.kill(engine.pids[0], signal.SIGKILL)

    outcome = run_experiments([spec()], store, engine, watch, chunk_seconds=0.0)
    assert any(event.kind == "retried" for event in events)
    assert outcome.computed == 12
    assert not outcome.failed
    assert tables(store, spec()) == reference


def test_a_worker_that_dies_between_two_calls_costs_the_next_call_only():
    with Processes(1) as engine:
        assert engine.submit(abs, -1).result(timeout=60) == 1
        os.kill(engine.pids[0], signal.SIGKILL)
        deadline = time.monotonic() + 60
        while not engine._pool._broken and time.monotonic() < deadline:
            time.sleep(0.01)
        assert isinstance(engine.submit(abs, -2).exception(timeout=60), engine.lost)
        engine.recover()
        assert engine.submit(abs, -3).result(timeout=60) == 3


def _dies():
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_run_that_kills_every_worker_is_given_up(tmp_path, monkeypatch):
    from flexdome.experiments import driver

    engine = Processes(1)
    submit = engine.submit
    monkeypatch.setattr(engine, "submit", lambda function, *arguments: submit(_dies))
    experiment = spec(environments=[{"id": "media-v1"}], learners=[{"id": "flexdome"}], seeds=[0], episodes=5)
    outcome = run_experiments([experiment], Store(tmp_path), engine)
    assert len(outcome.failed) == 1
    assert outcome.computed == 0
    assert driver.ATTEMPTS == 3


def _dies_later():
    time.sleep(0.2)
    _dies()


def test_a_run_that_kills_its_workers_takes_no_other_with_it(tmp_path, monkeypatch):
    engine = Processes(3)
    submit = engine.submit

    def deadly(function, run, *arguments):
        if run["seed"] == 0:
            return submit(_dies_later)
        return submit(function, run, *arguments)

    monkeypatch.setattr(engine, "submit", deadly)
    experiment = spec(
        environments=[{"id": "paper-v1"}], learners=[{"id": "flexdome"}], seeds=[0, 1, 2, 3], episodes=60_000
    )
    outcome = run_experiments([experiment], Store(tmp_path), engine)
    assert list(outcome.failed) == [next(experiment.runs()).id]
    assert outcome.computed == 3


def test_a_cluster_that_goes_away_is_one_sentence(tmp_path, cluster):
    def watch(event):
        if event.kind == "advanced":
            cluster.close(timeout=5)

    engine = make_engine(cluster=cluster.scheduler_address)
    with pytest.raises(fd.FlexDOMEError, match="the cluster is gone"):
        run_experiments([spec(episodes=5_000)], Store(tmp_path), engine, watch, chunk_seconds=0.0)


def test_one_failing_learner_does_not_stop_the_others(tmp_path, monkeypatch):
    def broken(self, episode):
        raise RuntimeError("a bug of its own")

    from flexdome.learners.primal_dual.rpd_oe import RPDOE

    monkeypatch.setattr(RPDOE, "observe", broken)
    experiment = spec(environments=[{"id": "media-v1"}], learners=[{"id": "rpd-oe"}, {"id": "flexdome"}])
    events = []
    outcome = run_experiments([experiment], Store(tmp_path), watch=events.append)
    assert outcome.computed == 2
    assert set(outcome.failed.values()) == {"RuntimeError: a bug of its own"}
    assert [event.run.learner.id for event in events if event.kind == "failed"] == ["rpd-oe"] * 2


# -- faults ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wound", ["flip", "cut", "remove"])
def test_a_damaged_table_is_found_and_computed_again(tmp_path, reference, wound):
    store = Store(tmp_path)
    run_experiments([spec()], store)
    run = list(spec().runs())[4]
    path = store.folder(run) / "history.parquet"
    data = bytearray(path.read_bytes())
    if wound == "flip":
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    elif wound == "cut":
        path.write_bytes(data[:-10])
    else:
        path.unlink()
    assert store.damage(run) is not None
    events = []
    outcome = run_experiments([spec()], store, watch=events.append)
    assert (outcome.computed, outcome.stored) == (1, 11)
    (told,) = [event for event in events if event.kind == "damaged"]
    assert told.run == run
    assert "history.parquet" in told.text
    assert tables(store, spec()) == reference


class Stop(Exception):
    pass


def _interrupted(store, experiment, after):
    """Run until ``after`` chunks are stored, then stop as Ctrl-C would."""
    seen = []

    def watch(event):
        seen.append(event.kind)
        if seen.count("advanced") == after:
            raise Stop

    with pytest.raises(Stop):
        run_experiments([experiment], store, watch=watch, chunk_seconds=0.0)


def test_an_interrupted_run_continues_where_it_stood(tmp_path, reference):
    store = Store(tmp_path)
    _interrupted(store, spec(), 5)
    events = []
    run_experiments([spec()], store, watch=events.append)
    (resumed,) = [event for event in events if event.kind == "resumed"]
    assert resumed.episode == 5 * 16
    assert tables(store, spec()) == reference


@pytest.mark.parametrize("pattern", ["part-*", "learner-*", "checkpoint.json"])
def test_a_damaged_checkpoint_starts_the_run_anew(tmp_path, reference, pattern):
    store = Store(tmp_path)
    _interrupted(store, spec(), 5)
    path = sorted(tmp_path.glob(f"runs/*/{pattern}"))[0]
    path.write_bytes(b"x" + path.read_bytes()[1:])
    events = []
    run_experiments([spec()], store, watch=events.append)
    assert [event.kind for event in events].count("damaged") == 1
    assert tables(store, spec()) == reference


KILLED = """
import sys
from flexdome.experiments import Store, load_experiment, make_engine, run_experiments

if __name__ == "__main__":
    experiment, store = load_experiment(sys.argv[1]), Store(sys.argv[2])
    run_experiments([experiment], store, make_engine(int(sys.argv[3])), chunk_seconds=0.0)
"""


@pytest.mark.parametrize("workers", [0, 2])
def test_kill_9_in_the_middle_loses_nothing_that_was_stored(tmp_path, reference, workers):
    (tmp_path / "micro.toml").write_text(TOML)
    (tmp_path / "killed.py").write_text(KILLED)
    out = tmp_path / "out"
    words = [sys.executable, str(tmp_path / "killed.py"), str(tmp_path / "micro.toml"), str(out), str(workers)]
    process = subprocess.Popen(words)
    try:
        deadline = time.monotonic() + 120.0
        while len(list(out.glob("runs/*/run.json"))) < 2 and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.002)
    finally:
        process.kill()
        process.wait()
    store = Store(out)
    complete = [run for run in spec().runs() if store.has(run)]
    assert 2 <= len(complete) < 12, "the kill came too early or too late"
    outcome = run_experiments([spec()], store)
    assert outcome.stored >= 2
    assert tables(store, spec()) == reference


def test_workers_end_when_their_parent_is_killed(tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(
        "import time\nfrom flexdome.experiments import Processes\n"
        "if __name__ == '__main__':\n"
        "    engine = Processes(1)\n    engine.submit(time.sleep, 0).result()\n"
        "    print(*engine.pids, flush=True)\n    time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    try:
        worker = int(parent.stdout.readline())
    finally:
        parent.kill()
        parent.wait()
        parent.stdout.close()
    deadline = time.monotonic() + 20.0
    while _alive(worker) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _alive(worker)


def _alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("wound", ["table", "marker"])
def test_a_damaged_run_is_not_read(tmp_path, wound):
    store, experiment = Store(tmp_path), spec(environments=[{"id": "media-v1"}], seeds=[0], episodes=2000)
    run_experiments([experiment], store)
    run = next(experiment.runs())
    path = store.folder(run) / ("history.parquet" if wound == "table" else "run.json")
    data = bytearray(path.read_bytes())
    if wound == "table":
        data[2000] ^= 64  # among the numbers: polars reads this file
    path.write_bytes(data if wound == "table" else b"{}")
    with pytest.raises(fd.FileFormatError, match=r"is damaged.*flexdome resume .* computes the run again"):
        store.read(run)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", r"odd.json cannot be read"),
        ("{}", r"odd.json holds no experiment"),
        ('{"experiment": {"name": 3}}', r"odd.json: name is 3"),
    ],
)
def test_a_damaged_experiment_is_one_sentence_with_its_file(tmp_path, text, message):
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "odd.json").write_text(text)
    with pytest.raises(fd.FileFormatError, match=message):
        Store(tmp_path).experiments()


def test_a_second_writer_is_refused(tmp_path):
    store = Store(tmp_path)
    with store.writing(), pytest.raises(fd.FlexDOMEError, match="being written by another process"):
        run_experiments([spec()], Store(tmp_path))


def test_experiments_of_one_name_are_all_remembered(tmp_path):
    store = Store(tmp_path)
    for episodes in (3, 4):
        run_experiments([spec(environments=[{"id": "media-v1"}], seeds=[0], episodes=episodes)], store)
    assert [found.episodes for found in store.experiments()] == [3, 4]


def test_a_request_that_cannot_be_read_is_skipped_and_said_so(tmp_path):
    store, model, said = Store(tmp_path / "out"), tmp_path / "model.npz", []
    fd.save_cmdp(fd.make_cmdp("media-v1"), model)
    small = {"seeds": [0], "episodes": 3, "learners": [{"id": "flexdome"}]}
    run_experiments([spec(name="file", environments=[{"file": model}], **small)], store)
    run_experiments([spec(name="good", environments=[{"id": "media-v1"}], **small)], store)
    (damaged,) = (tmp_path / "out" / "experiments").glob("file-*.json")
    damaged.write_text(damaged.read_text().replace("media", "medium").replace('"model"', '"other"'))
    assert [found.name for found in store.experiments(said.append)] == ["good"]
    assert "its checksum of itself does not match" in said[0]
    with pytest.raises(fd.FileFormatError, match="its checksum of itself"):
        store.experiments()


def test_what_a_kill_after_the_marker_leaves_behind_is_removed(tmp_path):
    store = Store(tmp_path)
    experiment = spec(environments=[{"id": "media-v1"}], seeds=[0], episodes=3)
    run_experiments([experiment], store)
    (store.folder(next(experiment.runs())) / "part-000000000002.parquet").write_bytes(b"")
    run_experiments([experiment], store)
    assert {path.name for path in tmp_path.glob("runs/*/*")} == {"history.parquet", "run.json"}


def test_the_time_before_an_interruption_counts(tmp_path):
    store = Store(tmp_path)
    _interrupted(store, spec(), 5)
    (run,) = [run for run in spec().runs() if store.checkpoint(run)[0]]
    before = store.checkpoint(run)[0].seconds
    assert before > 0.0
    run_experiments([spec()], store)
    assert store.marker(run)["wall_seconds"] > before


def test_a_store_is_a_directory(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(fd.ValidationError, match="is a file"):
        Store(tmp_path / "file")


def test_reading_a_run_that_is_not_there_says_so(tmp_path):
    with pytest.raises(fd.FlexDOMEError, match="is not in"):
        Store(tmp_path).read(next(spec().runs()))


def test_learners_meet_the_same_random_numbers(tmp_path):
    """Two learners that both play uniformly see the same episodes, so that differences are the learners' own."""
    store = Store(tmp_path)
    rows = [{"id": "flexdome", "options": {"margin_scale": c}, "label": str(c)} for c in (1e-5, 5e-5)]
    experiment = spec(environments=[{"id": "paper-v1"}], learners=rows, episodes=1)
    run_experiments([experiment], store)
    first, second = ([store.read(run) for run in experiment.runs() if run.learner.name == str(c)] for c in (1e-5, 5e-5))
    assert all(a.equals(b) for a, b in zip(first, second, strict=True))
