"""The store at its border: what lies in its directory may have been damaged, moved, or put there by somebody else."""

import hashlib
import json
import os
import shutil

import numpy as np
import polars as pl
import pytest

import flexdome as fd
from flexdome.cli import main
from flexdome.experiments import ExperimentSpec, Store, run_experiments

EPISODES = 60
SPEC = ExperimentSpec(
    name="tiny", episodes=EPISODES, seeds=[0, 1], environments=[{"id": "media-v1"}], learners=[{"id": "flexdome"}]
)
RUNS = list(SPEC.runs())


class Stop(Exception):
    pass


def interrupt(store, after=2):
    """Stop, as Ctrl-C would, when ``after`` chunks of the first run are stored."""
    seen = []

    def watch(event):
        seen.append(event.kind)
        if seen.count("advanced") == after:
            raise Stop

    with pytest.raises(Stop):
        run_experiments([SPEC], store, watch=watch, chunk_seconds=0.0)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A complete store."""
    path = tmp_path_factory.mktemp("whole")
    run_experiments([SPEC], Store(path))
    return path


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """A store whose first run is at episode 32."""
    path = tmp_path_factory.mktemp("begun")
    interrupt(Store(path))
    return path


@pytest.fixture(scope="module")
def tables(whole):
    return [(Store(whole).folder(run) / "history.parquet").read_bytes() for run in RUNS]


@pytest.fixture
def store(whole, tmp_path):
    return Store(shutil.copytree(whole, tmp_path / "store", symlinks=True))


@pytest.fixture
def under_way(begun, tmp_path):
    return Store(shutil.copytree(begun, tmp_path / "under way", symlinks=True))


def rerun(store):
    """Run what is missing; the kinds of what happened, and what was said."""
    events = []
    run_experiments([SPEC], store, watch=events.append)
    return [event.kind for event in events], " ".join(event.text for event in events)


def tables_of(store):
    return [(store.folder(run) / "history.parquet").read_bytes() for run in RUNS]


def seal(path, **changes):
    """Change a marker or checkpoint and give it a checksum that matches again."""
    content = json.loads(path.read_bytes()) | changes
    content.pop("sha256")
    as_json = lambda content: (json.dumps(content, indent=2, sort_keys=True) + "\n").encode()  # noqa: E731
    path.write_bytes(as_json(content | {"sha256": hashlib.sha256(as_json(content)).hexdigest()}))


# -- every byte counts -----------------------------------------------------------------------------------------------


def flips(data, count, seed):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        wounded = bytearray(data)
        wounded[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
        yield bytes(wounded)
    for place in range(0, len(data), 23):
        yield data[:place]


def test_every_flipped_bit_of_a_marker_is_noticed(store):
    path = store.folder(RUNS[0]) / "run.json"
    for data in flips(path.read_bytes(), 300, seed=0):
        path.write_bytes(data)
        assert str(path) in (store.damage(RUNS[0]) or "")


def test_every_flipped_bit_of_a_checkpoint_is_noticed(under_way):
    path = under_way.folder(RUNS[0]) / "checkpoint.json"
    for data in flips(path.read_bytes(), 300, seed=1):
        path.write_bytes(data)
        found, damage = under_way.checkpoint(RUNS[0])
        assert found is None
        assert str(path) in damage


def test_every_flipped_bit_of_a_request_is_noticed(store):
    (path,) = (store.path / "experiments").iterdir()
    for data in flips(path.read_bytes(), 200, seed=2):
        path.write_bytes(data)
        with pytest.raises(fd.FileFormatError, match=r"tiny-.*\.json"):
            store.experiments()


@pytest.mark.parametrize("name", ["run.json", "checkpoint.json"])
def test_a_flipped_bit_costs_the_run_and_no_result(whole, begun, tables, tmp_path, name):
    source = whole if name == "run.json" else begun
    for k, place in enumerate((5, 100, 333)):
        store = Store(shutil.copytree(source, tmp_path / str(k)))
        path = store.folder(RUNS[0]) / name
        data = bytearray(path.read_bytes())
        data[place] ^= 1
        path.write_bytes(data)
        kinds, said = rerun(store)
        assert kinds.count("damaged") == 1
        assert name in said
        assert tables_of(store) == tables


# -- whose a file is -------------------------------------------------------------------------------------------------


def test_two_run_directories_that_changed_places_are_found(store, tables, capsys):
    first, second = (store.folder(run) for run in RUNS)
    first.rename(store.path / "aside")
    second.rename(first)
    (store.path / "aside").rename(second)
    assert main(["status", str(store.path), "--verify"]) == 2
    assert "2 runs damaged" in capsys.readouterr().err
    with pytest.raises(fd.FileFormatError, match=f"it is of run '{RUNS[1].id}', not of {RUNS[0].id}"):
        store.read(RUNS[0])
    kinds, _ = rerun(store)
    assert kinds.count("damaged") == 2
    assert tables_of(store) == tables


def test_a_marker_that_names_the_run_but_says_something_else_was_run_is_damaged(store):
    path = store.folder(RUNS[0]) / "run.json"
    seal(path, run=json.loads(path.read_bytes())["run"] | {"seed": 1})
    assert "what it says was run is not this run" in store.damage(RUNS[0])


def test_the_checkpoint_of_another_run_is_not_gone_on_from(under_way, tables):
    shutil.copytree(under_way.folder(RUNS[0]), under_way.folder(RUNS[1]))
    assert under_way.checkpoint(RUNS[1])[0] is None
    kinds, said = rerun(under_way)
    assert kinds.count("damaged") == 1
    assert f"not of {RUNS[1].id}" in said
    assert tables_of(under_way) == tables


def test_the_file_of_another_learner_is_not_gone_on_from(under_way, tables):
    folder = under_way.folder(RUNS[0])
    cmdp = RUNS[0].make_cmdp()
    for other in (
        fd.make_learner("rpd-oe", cmdp.problem(), episodes=EPISODES, seed=0),
        fd.FlexDOME(cmdp.problem(), episodes=EPISODES, seed=1),
        fd.FlexDOME(cmdp.problem(), episodes=EPISODES + 1, seed=0),
    ):
        fd.simulate(other, cmdp, episodes=32)
        other.save(folder / "learner-000000000032.npz")
        files = json.loads((folder / "checkpoint.json").read_bytes())["files"]
        digest = hashlib.sha256((folder / "learner-000000000032.npz").read_bytes()).hexdigest()
        seal(folder / "checkpoint.json", files=files | {"learner-000000000032.npz": digest})
        found, damage = under_way.checkpoint(RUNS[0])
        assert found is None
        assert "learner-000000000032.npz is not of this run" in damage
    rerun(under_way)
    assert tables_of(under_way) == tables


def test_a_marker_of_the_first_format_counts_if_its_contents_do(store, tables):
    path = store.folder(RUNS[0]) / "run.json"
    content = json.loads(path.read_bytes()) | {"format": 1}
    del content["sha256"]
    path.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n")
    assert store.damage(RUNS[0]) is None
    assert store.read(RUNS[0]).height == EPISODES
    assert rerun(store)[0] == ["stored", "stored"]
    path.write_text(json.dumps(content | {"id": RUNS[1].id}))
    assert store.damage(RUNS[0]) is not None
    path.write_text(json.dumps(content | {"files": {"history.parquet": "0" * 64}}))
    assert store.damage(RUNS[0]) is not None


def test_a_checkpoint_of_the_first_format_starts_the_run_anew(under_way, tables):
    path = under_way.folder(RUNS[0]) / "checkpoint.json"
    content = json.loads(path.read_bytes())
    old = {name: content[name] for name in ("episode", "seconds", "files")} | {"learner": "learner-000000000032.npz"}
    path.write_text(json.dumps(old))
    kinds, said = rerun(under_way)
    assert kinds.count("damaged") == 1
    assert "checkpoint.json" in said
    assert tables_of(under_way) == tables


# -- names stay inside -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["../../../victim.npz", "/victim.npz", "victim.npz", "..", "run.json"])
def test_a_checkpoint_names_no_file_but_its_own(under_way, tables, tmp_path, name):
    victim = tmp_path / "victim.npz"
    folder = under_way.folder(RUNS[0])
    shutil.copy(folder / "learner-000000000032.npz", victim)
    shutil.copy(victim, folder / "victim.npz")
    name = str(victim) if name.startswith("/") else name
    files = json.loads((folder / "checkpoint.json").read_bytes())["files"]
    digest = files.pop("learner-000000000032.npz")
    seal(folder / "checkpoint.json", files=files | {name: digest}, learner=name)
    assert under_way.checkpoint(RUNS[0])[0] is None
    run_experiments([SPEC], under_way, chunk_seconds=0.0)
    assert victim.exists()
    assert (folder / "victim.npz").exists()
    assert tables_of(under_way) == tables


def test_what_the_store_did_not_write_is_never_removed(store, under_way, tables):
    for folder in (store.folder(RUNS[0]), under_way.folder(RUNS[0])):
        (folder / "notes.txt").write_text("mine")
        (folder / "learner-backup.npz").write_text("mine")
        (folder / "part-000000000001.parquet.bak").write_text("mine")
    (store.folder(RUNS[0]) / ".0123456789abcdef.tmp").write_text("left by a kill")
    store.discard(RUNS[1])
    rerun(store)
    store.discard(RUNS[0])
    rerun(under_way)
    mine = {"notes.txt", "learner-backup.npz", "part-000000000001.parquet.bak"}
    assert set(os.listdir(store.folder(RUNS[0]))) == mine
    assert set(os.listdir(under_way.folder(RUNS[0]))) == {*mine, "history.parquet", "run.json"}


def test_a_run_directory_that_is_a_link_is_refused_and_nothing_behind_it_is_touched(store, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    store.folder(RUNS[0]).rename(elsewhere)
    store.folder(RUNS[0]).symlink_to(elsewhere)
    (elsewhere / "part-000000000009.parquet").write_text("of somebody else")
    before = {path.name: path.read_bytes() for path in elsewhere.iterdir()}
    assert not store.has(RUNS[0])
    with pytest.raises(fd.FileFormatError, match=f"{RUNS[0].id} is a link"):
        run_experiments([SPEC], store)
    for act in (store.tidy, store.discard, store.marker):
        with pytest.raises(fd.FileFormatError, match=f"{RUNS[0].id} is a link"):
            act(RUNS[0])
    assert {path.name: path.read_bytes() for path in elsewhere.iterdir()} == before


@pytest.mark.parametrize("name", ["runs", "experiments"])
def test_a_linked_part_of_a_store_is_refused_before_anything_is_computed(tmp_path, name):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / name).symlink_to(tmp_path / "elsewhere")
    events = []
    with pytest.raises(fd.FileFormatError, match=f"{name} is a link"):
        run_experiments([SPEC], Store(tmp_path / "store"), watch=events.append)
    assert not events
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_store_that_is_itself_reached_by_a_link_works(store, tmp_path):
    (tmp_path / "runs").symlink_to(store.path)
    assert rerun(Store(tmp_path / "runs"))[0] == ["stored", "stored"]


@pytest.mark.parametrize("name", ["run.json", "history.parquet"])
def test_a_file_that_is_a_link_is_not_followed(store, tables, tmp_path, name):
    target, path = tmp_path / "target", store.folder(RUNS[0]) / name
    path.rename(target)
    path.symlink_to(target)
    before = target.read_bytes()
    assert not store.has(RUNS[0])
    assert "it is a link" in store.damage(RUNS[0])
    rerun(store)
    assert target.read_bytes() == before
    assert not path.is_symlink()
    assert tables_of(store) == tables


def test_nothing_is_written_through_a_link(tmp_path, tables):
    store, target = Store(tmp_path / "store"), tmp_path / "target"
    target.write_text("mine")
    store.folder(RUNS[0]).mkdir(parents=True)
    for name in ("history.parquet", "part-000000000016.parquet", "learner-000000000016.npz"):
        (store.folder(RUNS[0]) / name).symlink_to(target)
    run_experiments([SPEC], store, chunk_seconds=0.0)
    assert target.read_text() == "mine"
    assert tables_of(store) == tables


@pytest.mark.parametrize("name", ["run.json", "history.parquet", "checkpoint.json", "learner-000000000032.npz"])
def test_a_pipe_in_place_of_a_file_is_not_waited_for(store, begun, tables, tmp_path, name):
    if name not in ("run.json", "history.parquet"):
        store = Store(shutil.copytree(begun, tmp_path / "begun"))
    path = store.folder(RUNS[0]) / name
    path.unlink()
    os.mkfifo(path)
    kinds, said = rerun(store)
    assert kinds.count("damaged") == 1
    assert f"{path} cannot be read: it is not a regular file" in said
    assert tables_of(store) == tables


def test_a_pipe_among_the_requests_or_as_the_lock_is_not_waited_for(store):
    os.mkfifo(store.path / "experiments" / "pipe.json")
    said = []
    assert len(store.experiments(said.append)) == 1
    assert "pipe.json cannot be read: it is not a regular file" in said[0]
    (store.path / ".lock").unlink()
    os.mkfifo(store.path / ".lock")
    with pytest.raises(fd.OutputError, match=r"\.lock cannot be written: it is not a regular file"):
        run_experiments([SPEC], store)


# -- tables ----------------------------------------------------------------------------------------------------------


def test_a_store_may_have_brackets_in_its_path(tmp_path, tables):
    store = Store(tmp_path / "results [1] *")
    run_experiments([SPEC], store, chunk_seconds=0.0)
    assert tables_of(store) == tables
    assert store.read(RUNS[0]).height == EPISODES


def test_a_marker_without_its_table_is_computed_again(store, tables):
    (store.folder(RUNS[0]) / "history.parquet").unlink()
    assert not store.has(RUNS[0])
    kinds, _ = rerun(store)
    assert kinds.count("damaged") == 1
    assert kinds.count("finished") == 1
    assert tables_of(store) == tables


def tamper(store, data):
    """Put ``data`` in place of a table, with checksums that match."""
    folder = store.folder(RUNS[0])
    (folder / "history.parquet").write_bytes(data)
    seal(folder / "run.json", files={"history.parquet": hashlib.sha256(data).hexdigest()})


def test_a_table_with_the_right_checksum_that_is_none_is_an_error_with_its_name(store, tables, capfd):
    """Among these are bytes that make polars panic, which no ``except Exception`` catches."""
    rng = np.random.default_rng(0)
    for _ in range(40):
        data = bytearray(tables[0])
        for place in rng.integers(len(data) - 2000, len(data), size=3):
            data[place] ^= 1 << int(rng.integers(8))
        tamper(store, bytes(data))
        try:
            store.read(RUNS[0])
        except fd.FileFormatError as error:
            assert "history.parquet" in str(error)  # noqa: PT017
            assert "\n" not in str(error)  # noqa: PT017
            assert store.damage(RUNS[0]) is not None
    tamper(store, b"PAR1" + bytes(100) + b"PAR1")
    assert main(["compare", "tiny", "--out", str(store.path)]) == 2
    assert "history.parquet is damaged" in capfd.readouterr().err
    rerun(store)
    assert tables_of(store) == tables


def test_a_panic_of_polars_is_an_error_with_the_files_name(store, monkeypatch):
    def panic(*_, **__):
        raise pl.exceptions.PanicException("range end index 9 out of range\nnote: ...")

    monkeypatch.setattr(pl, "read_parquet", panic)
    with pytest.raises(fd.FileFormatError, match=r"history\.parquet is damaged.*range end index 9 out of range; "):
        store.read(RUNS[0])


def test_an_interrupt_while_a_table_is_read_stays_one(store, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(pl, "read_parquet", interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.read(RUNS[0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame: frame.head(EPISODES - 1), "its episodes are not 1 to 60"),
        (lambda frame: frame.reverse(), "its episodes are not 1 to 60"),
        (lambda frame: frame.drop("reward_gap"), "its columns are not those of a run"),
        (lambda frame: frame.with_columns(pl.col("reward_gap").cast(pl.String)), "its columns are not those of a run"),
    ],
)
def test_a_table_of_something_else_is_damaged(store, change, message, tmp_path):
    change(store.read(RUNS[0])).write_parquet(tmp_path / "other.parquet")
    tamper(store, (tmp_path / "other.parquet").read_bytes())
    assert message in store.damage(RUNS[0])


def test_parts_that_are_damaged_under_a_run_cost_its_start_and_not_the_others(tmp_path, tables):
    store, kinds = Store(tmp_path), []

    def watch(event):
        kinds.append(event.kind)
        if kinds.count("advanced") == 2 and event.kind == "advanced":
            path = store.folder(RUNS[0]) / "part-000000000016.parquet"
            path.write_bytes(path.read_bytes()[:-1])

    outcome = run_experiments([SPEC], store, watch=watch, chunk_seconds=0.0)
    assert kinds.count("damaged") == 1
    assert outcome.computed == 2
    assert tables_of(store) == tables
