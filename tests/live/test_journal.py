"""A journal: nothing that was acknowledged is lost."""

from __future__ import annotations

import errno
import logging
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import flexdome as fd
from flexdome.live.journal_records import HEAD, Torn, as_record, read_records

CMDP = fd.make_cmdp("factored-v1")
PROBLEM = CMDP.problem()
EPISODES = fd.sample_episodes(CMDP, np.full((6, 3, 2), 0.5), 40, seed=1)
NOISY = fd.make_cmdp("paper-stochastic-v1")


def learner(**change) -> fd.FlexDOME:
    return fd.FlexDOME(PROBLEM, episodes=1000, **change)


def told(episodes) -> fd.FlexDOME:
    made = learner()
    for episode in episodes:
        made.observe(episode)
    return made


def same(one, other) -> bool:
    mine, its = one.state(), other.state()
    return (
        one.episode == other.episode
        and mine.keys() == its.keys()
        and all(np.array_equal(array, its[name], equal_nan=True) for name, array in mine.items())
        and np.array_equal(one.policy, other.policy)
        and repr(one.threshold_changes) == repr(other.threshold_changes)  # NaN is not itself
    )


def journal_of(path: Path, count: int, **options) -> Path:
    with fd.Journal(path, learner(), **options) as journal:
        for episode in EPISODES[:count]:
            journal.observe(episode)
    return path


# -- recovery -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [0.0, 1e-3, 1e9])
@pytest.mark.parametrize("fsync", [False, True])
def test_what_is_recovered_is_the_learner_bit_for_bit(tmp_path, seconds, fsync):
    journal_of(tmp_path, 20, snapshot_seconds=seconds, fsync=fsync)
    assert same(fd.recover(tmp_path), told(EPISODES[:20]))
    with fd.Journal(tmp_path, snapshot_seconds=seconds) as journal:
        assert journal.dropped is None
        for episode in EPISODES[20:]:
            journal.observe(episode)
        assert same(journal.learner, told(EPISODES))
    assert same(fd.recover(tmp_path), told(EPISODES))


@pytest.mark.parametrize("id", ["flexdome", pytest.param("s-ops", marks=pytest.mark.slow), "optcmdp-bonus"])
def test_any_learner_is_recovered_and_goes_on_alike(tmp_path, id):
    options = {"safe_policy": fd.safe_policy(CMDP, 0.5)} if "safe policy" in fd.LEARNERS[id].needs else {}
    one, other = (fd.make_learner(id, PROBLEM, episodes=100, **options) for _ in range(2))
    with fd.Journal(tmp_path, one, snapshot_seconds=1e9) as journal:
        for episode in EPISODES[:12]:
            journal.observe(episode)
            other.observe(episode)
    again = fd.recover(tmp_path)
    assert same(again, other)
    for episode in EPISODES[12:20]:
        again.observe(episode)
        other.observe(episode)
    assert same(again, other)


def test_everything_that_a_learner_is_told_is_recovered(tmp_path):
    def tell(to):
        to.preload(EPISODES[:5])
        to.observe(EPISODES[5])
        to.set_thresholds([2.0], slater_gap=0.5)
        to.observe(EPISODES[6])
        to.set_thresholds([np.nan])
        to.observe(
            fd.Episode(*(getattr(EPISODES[7], name) for name in ("states", "actions", "rewards", "utilities")), [2.5])
        )

    one = learner()
    with fd.Journal(tmp_path, learner(), snapshot_seconds=1e9) as journal:
        tell(journal)
        tell(one)
        assert same(journal.learner, one)
        assert [e.states.tolist() for e in journal.episodes()] == [e.states.tolist() for e in EPISODES[5:8]]
    again = fd.recover(tmp_path)
    assert same(again, one)
    assert again.problem.slater_gap == 0.5


def test_threshold_samples_are_in_the_journal(tmp_path):
    episodes = fd.sample_episodes(NOISY, np.full((5, 20, 5), 0.2), 15, seed=2)
    one, other = (fd.FlexDOME(NOISY.problem(), episodes=100) for _ in range(2))
    with fd.Journal(tmp_path, one, snapshot_seconds=1e9) as journal:
        for episode in episodes:
            journal.observe(episode)
            other.observe(episode)
    assert same(fd.recover(tmp_path), other)


def test_an_old_learner_begins_a_journal_as_it_stands(tmp_path):
    with fd.Journal(tmp_path, told(EPISODES[:7])) as journal:
        journal.observe(EPISODES[7])
    assert same(fd.recover(tmp_path), told(EPISODES[:8]))


@pytest.mark.parametrize(("rounds", "seed"), [(30, 0), pytest.param(1000, 1, marks=pytest.mark.slow)])
def test_kills_at_random_instants_lose_nothing(tmp_path, rounds, seed):
    script = Path(__file__).with_name("kills.py")
    command = [sys.executable, "-W", "error", str(script), str(tmp_path / "journal"), str(rounds), str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3600)
    assert done.returncode == 0, done.stderr
    episodes, _, _ = map(int, done.stdout.split())
    assert episodes > 10 * rounds


@pytest.mark.slow
def test_recovery_after_a_million_episodes_takes_less_than_a_second(tmp_path):
    with fd.Journal(tmp_path, fd.FlexDOME(PROBLEM, episodes=10**6)) as journal:
        for t in range(10**6):
            journal.observe(EPISODES[t % 40])
    taken = []
    for _ in range(3):
        begun = time.perf_counter()
        assert fd.recover(tmp_path).episode == 10**6
        taken.append(time.perf_counter() - begun)
    assert min(taken) < 1.0


@pytest.mark.slow
def test_an_episode_costs_less_than_a_hundred_microseconds(tmp_path):
    """The processor's time for 1,000 episodes in a journal, less that without one: the best of five."""

    def seconds(observe) -> float:
        begun = time.process_time()
        for t in range(1000):
            observe(EPISODES[t % 40])
        return time.process_time() - begun

    extra = []
    for k in range(5):
        plain = seconds(learner().observe)
        with fd.Journal(tmp_path / str(k), learner()) as journal:
            extra.append((seconds(journal.observe) - plain) / 1000)
    assert min(extra) < 100e-6


def test_snapshots_bound_what_is_learned_again_and_only_the_last_is_kept(tmp_path):
    journal_of(tmp_path, 20, snapshot_seconds=0.0)
    (snapshot,) = tmp_path.glob("snapshot-*")
    assert snapshot.name.startswith("snapshot-000000000020-")
    assert int(snapshot.stem.rsplit("-", 1)[1]) == (tmp_path / "journal.log").stat().st_size


# -- torn and damaged -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A journal of five episodes, and where each record ends."""
    path = journal_of(tmp_path_factory.mktemp("journal") / "five", 5, snapshot_seconds=1e9)
    with open(path / "journal.log", "rb") as file:
        return path, [end for end, _ in read_records(file, 19)]


def copied(path: Path, to: Path) -> Path:
    shutil.rmtree(to, ignore_errors=True)
    return Path(shutil.copytree(path, to))


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_torn_last_record_is_dropped_and_said(data, written, tmp_path, caplog):
    path, ends = written
    kept = data.draw(st.integers(0, 4))
    size = data.draw(st.integers(([19, *ends])[kept] + 1, ends[kept] - 1))
    broken = copied(path, tmp_path / "torn")
    with open(broken / "journal.log", "r+b") as file:
        file.truncate(size)
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        assert same(fd.recover(broken), told(EPISODES[:kept]))
    assert "is torn and was dropped" in caplog.text
    assert (broken / "journal.log").stat().st_size == size  # recover changes nothing
    with fd.Journal(broken) as journal:
        assert f"from byte {([19, *ends])[kept]} on" in journal.dropped
        for episode in EPISODES[kept:8]:
            journal.observe(episode)
    assert same(fd.recover(broken), told(EPISODES[:8]))


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_changed_byte_is_never_learned_from(data, written, tmp_path):
    """In the middle it is refused; in the last record it cannot be told from a tear, and is dropped."""
    path, ends = written
    at = data.draw(st.integers(0, ends[-1] - 1))
    broken = copied(path, tmp_path / "damaged")
    content = bytearray((broken / "journal.log").read_bytes())
    content[at] ^= data.draw(st.integers(1, 255))
    (broken / "journal.log").write_bytes(content)
    if at >= ends[-2]:
        assert same(fd.recover(broken), told(EPISODES[:4]))
        return
    with pytest.raises(fd.FileFormatError, match=r"damaged|not a journal"):
        fd.recover(broken)
    with pytest.raises(fd.FileFormatError):
        fd.Journal(broken)
    assert (broken / "journal.log").read_bytes() == bytes(content)


def test_zeros_that_a_file_system_leaves_at_the_end_are_a_tear(written, tmp_path):
    broken = copied(written[0], tmp_path / "zeros")
    with open(broken / "journal.log", "ab") as file:
        file.write(bytes(5000))
    assert same(fd.recover(broken), told(EPISODES[:5]))


def test_a_record_that_is_missing_or_twice_there_is_refused(written, tmp_path):
    path, ends = written
    content = (path / "journal.log").read_bytes()
    missing = content[: ends[1]] + content[ends[2] :]
    twice = content[: ends[2]] + content[ends[1] :]
    for k, data in enumerate((missing, twice)):
        broken = copied(path, tmp_path / str(k))
        (broken / "journal.log").write_bytes(data)
        with pytest.raises(fd.FileFormatError, match=r"record \d stands where \d belongs"):
            fd.recover(broken)


def test_a_log_that_is_shorter_than_its_snapshot_is_refused(tmp_path):
    journal_of(tmp_path, 5, snapshot_seconds=0.0)
    with open(tmp_path / "journal.log", "r+b") as file:
        file.truncate(100)
    with pytest.raises(fd.FileFormatError, match="it has 100 bytes; snapshot-"):
        fd.recover(tmp_path)


def test_a_damaged_snapshot_is_refused(tmp_path):
    journal_of(tmp_path, 5)
    (snapshot,) = tmp_path.glob("snapshot-*")
    snapshot.write_bytes(snapshot.read_bytes()[:-100])
    with pytest.raises(fd.FileFormatError, match=snapshot.name):
        fd.recover(tmp_path)


def test_a_last_record_that_the_learner_refuses_was_never_acknowledged(written, tmp_path):
    path, ends = written
    content = (path / "journal.log").read_bytes()
    body = bytearray(content[ends[-2] + HEAD.size :])
    body[18:22] = (99).to_bytes(4, "little")  # a first state that there is not
    for k, after in enumerate((b"", content[ends[0] : ends[1]])):
        broken = copied(path, tmp_path / str(k))
        (broken / "journal.log").write_bytes(content[: ends[-2]] + as_record(bytes(body)) + after)
        if after:
            with pytest.raises(fd.FileFormatError, match="record"):
                fd.recover(broken)
        else:
            assert same(fd.recover(broken), told(EPISODES[:4]))


@given(bodies=st.lists(st.binary(max_size=60), max_size=8), cut=st.integers(0, 300))
def test_records_come_back_whole_or_not_at_all(bodies, cut, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "records"
    content = b"".join(map(as_record, bodies))
    path.write_bytes(content[: len(content) - min(cut, len(content))])
    with open(path, "rb") as file:
        found = list(read_records(file, 0))
    torn = [entry for entry in found if isinstance(entry, Torn)]
    whole = [body for entry in found if not isinstance(entry, Torn) for body in [entry[1]]]
    assert whole == bodies[: len(whole)]
    assert torn == found[len(whole) :]
    assert sum(HEAD.size + len(body) for body in whole) + sum(one.size for one in torn) == path.stat().st_size


# -- one writer, no surprises ---------------------------------------------------------------------------------------


def test_a_second_writer_is_refused_and_may_follow(tmp_path):
    journal = fd.Journal(tmp_path, learner())
    for again in (lambda: fd.Journal(tmp_path), lambda: fd.recover(tmp_path), lambda: fd.Journal(tmp_path, learner())):
        with pytest.raises(fd.FlexDOMEError, match="is being written by another process"):
            again()
    code = f"import flexdome as fd; fd.Journal({str(tmp_path)!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "is being written by another process" in done.stderr
    journal.observe(EPISODES[0])
    journal.close()
    journal.close()
    assert fd.recover(tmp_path).episode == 1
    with pytest.raises(fd.FlexDOMEError, match="is closed"):
        journal.observe(EPISODES[1])


def test_a_bad_episode_changes_neither_learner_nor_log(tmp_path):
    with fd.Journal(tmp_path, learner()) as journal:
        journal.observe(EPISODES[0])
        before = (tmp_path / "journal.log").read_bytes()
        for bad in (
            lambda: journal.observe(3),
            lambda: journal.observe(fd.Episode([0], [0], [2.0], [0.5])),
            lambda: journal.preload([EPISODES[0], 3]),
            lambda: journal.set_thresholds([99.0]),
            lambda: journal.set_thresholds([1.0, 2.0]),
            lambda: journal.set_thresholds([1.0], slater_gap=-1.0),
        ):
            with pytest.raises(fd.ValidationError):
                bad()
        assert (tmp_path / "journal.log").read_bytes() == before
        journal.observe(EPISODES[1])
    assert same(fd.recover(tmp_path), told(EPISODES[:2]))


def test_a_learner_that_was_told_something_behind_the_journals_back_is_refused(tmp_path):
    with fd.Journal(tmp_path, learner()) as journal:
        journal.learner.observe(EPISODES[0])
        with pytest.raises(fd.FlexDOMEError, match="it is at episode 1, the journal at 0"):
            journal.observe(EPISODES[1])


def test_what_the_learner_does_not_learn_is_taken_back(tmp_path):
    with fd.Journal(tmp_path, learner()) as journal:
        observe = journal.learner.observe

        def interrupted(episode):
            raise KeyboardInterrupt

        journal.learner.observe = interrupted
        with pytest.raises(KeyboardInterrupt):
            journal.observe(EPISODES[0])
        journal.learner.observe = lambda episode: (observe(episode), interrupted(episode))
        with pytest.raises(KeyboardInterrupt):
            journal.observe(EPISODES[0])  # learned, and interrupted after that
        journal.learner.observe = observe
        journal.observe(EPISODES[1])
        assert journal.learner.episode == 2
    assert same(fd.recover(tmp_path), told(EPISODES[:2]))


def test_a_preload_that_is_interrupted_ends_the_journal(tmp_path):
    with fd.Journal(tmp_path, learner()) as journal:
        journal.observe(EPISODES[0])

        def interrupted(episodes):
            raise KeyboardInterrupt

        journal.learner.preload = interrupted
        with pytest.raises(KeyboardInterrupt):
            journal.preload(EPISODES[:3])
        with pytest.raises(fd.FlexDOMEError, match="is closed"):
            journal.observe(EPISODES[1])
    assert same(fd.recover(tmp_path), told(EPISODES[:1]))


class Full:
    """A file on a disk with room for half a record."""

    def __init__(self, file, error):
        self.file, self.error = file, error

    def write(self, data):
        self.file.write(data[: len(data) // 2])
        if self.error:
            raise OSError(errno.ENOSPC, "No space left on device")
        return len(data) // 2

    def __getattr__(self, name):
        return getattr(self.file, name)


@pytest.mark.parametrize("error", [True, False])
def test_a_full_disk_acknowledges_nothing_and_leaves_whole_records(tmp_path, error):
    with fd.Journal(tmp_path, learner()) as journal:
        journal.observe(EPISODES[0])
        file = journal._file
        journal._file = Full(file, error)
        with pytest.raises(fd.OutputError, match=r"journal\.log cannot be written"):
            journal.observe(EPISODES[1])
        journal._file = file
        journal.observe(EPISODES[2])
    assert same(fd.recover(tmp_path), told([EPISODES[0], EPISODES[2]]))


def test_a_snapshot_that_cannot_be_written_costs_no_episode(tmp_path, monkeypatch, caplog):
    with fd.Journal(tmp_path, learner(), snapshot_seconds=0.0) as journal:

        def full(path):
            raise fd.OutputError(f"{path} cannot be written: No space left on device")

        journal.learner.save = full
        with caplog.at_level(logging.WARNING):
            journal.observe(EPISODES[0])
        assert "no snapshot was taken" in caplog.text
    assert same(fd.recover(tmp_path), told(EPISODES[:1]))


def test_orphaned_temporary_files_are_swept_and_nothing_else(tmp_path):
    journal_of(tmp_path, 1)
    orphan, other = tmp_path / ".0123456789abcdef.tmp", tmp_path / "mine.tmp"
    for path in (orphan, other):
        path.write_text("x")
    fd.Journal(tmp_path).close()
    assert (orphan.exists(), other.exists()) == (False, True)


def test_a_second_thread_is_refused_while_one_is_in_the_journal(tmp_path):
    inside, go_on = threading.Event(), threading.Event()
    with fd.Journal(tmp_path, learner()) as journal:
        observe = journal.learner.observe

        def slow(episode):
            inside.set()
            go_on.wait(20)
            observe(episode)

        journal.learner.observe = slow
        first = threading.Thread(target=journal.observe, args=(EPISODES[0],))
        first.start()
        inside.wait(20)
        with pytest.raises(fd.BusyError):
            journal.observe(EPISODES[1])
        go_on.set()
        first.join()
    assert same(fd.recover(tmp_path), told(EPISODES[:1]))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda path: fd.recover(path), fd.FileFormatError, "holds no journal"),
        (lambda path: fd.Journal(path), fd.FileFormatError, "holds no journal"),
        (lambda path: fd.Journal(path, 3), fd.ValidationError, "learner is 3"),
        (lambda path: fd.Journal(path, learner(), fsync=1), fd.ValidationError, "fsync is 1"),
        (lambda path: fd.Journal(path, learner(), snapshot_seconds=-1), fd.ValidationError, "snapshot_seconds is -1"),
        (lambda path: fd.Journal(journal_of(path, 1), learner()), fd.ValidationError, "holds a journal already"),
        (lambda path: fd.Journal("/dev/null/x", learner()), fd.OutputError, "cannot be made"),
    ],
)
def test_bad_arguments_are_refused(tmp_path, call, error, message):
    with pytest.raises(error, match=message):
        call(tmp_path / "journal")


def test_a_journal_that_was_killed_before_its_first_snapshot_may_begin_again(tmp_path):
    (tmp_path / "journal.log").write_bytes(b"flexdome journal 1\n")
    with pytest.raises(fd.FileFormatError, match="never begun"):
        fd.recover(tmp_path)
    fd.Journal(tmp_path, learner()).close()
    assert fd.recover(tmp_path).episode == 0
