"""The workers of a cluster are strangers until they have said what they compute with."""

import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import flexdome as fd
from flexdome.experiments import (
    ExperimentSpec,
    Store,
    cluster,
    installation,
    load_experiment,
    make_engine,
    run_experiments,
)

distributed = pytest.importorskip("distributed")

SOURCES = Path(fd.__file__).parents[1]
SPEC = ExperimentSpec(
    name="tiny", episodes=40, seeds=[0, 1, 2], environments=[{"id": "media-v1"}], learners=[{"id": "flexdome"}]
)
PATIENCE = 90.0  # of the tests, on a busy machine


@pytest.fixture
def scheduler():
    with distributed.LocalCluster(
        n_workers=0, dashboard_address="127.0.0.1:0", host="127.0.0.1", silence_logs="CRITICAL"
    ) as cluster:
        yield cluster.scheduler


@pytest.fixture
def start(scheduler, tmp_path):
    """Start a worker of its own process whose flexdome comes from a folder, and wait until the scheduler has it."""
    started = []

    def worker(folder, name, wait=True):
        words = [
            "-m",
            "distributed.cli.dask_worker",
            scheduler.address,
            "--no-nanny",
            "--nthreads",
            "1",
            "--name",
            name,
        ]
        words += ["--host", "127.0.0.1", "--no-dashboard", "--local-directory", str(tmp_path), "--death-timeout", "60"]
        env = os.environ | {"PYTHONPATH": str(folder)}
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        started.append(subprocess.Popen([sys.executable, *words], env=env, cwd=tmp_path, **quiet))
        if wait:
            until(lambda: address(scheduler, name))
        return started[-1]

    yield worker
    for process in started:
        process.kill()
        process.wait()


def until(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.02)


def address(scheduler, name):
    return next((one.address for one in list(scheduler.workers.values()) if str(one.name) == name), None)


@pytest.fixture
def other_code(tmp_path):
    """A copy of the sources that would give other results: a version higher, and an edit to one learner."""
    folder = tmp_path / "other"
    shutil.copytree(SOURCES / "flexdome", folder / "flexdome", ignore=shutil.ignore_patterns("__pycache__"))
    for name, edit in (
        ("__init__.py", '__version__ = "9.9.9"\n'),
        ("learners/primal_dual/flexdome.py", "EDITED = True\n"),
    ):
        with open(folder / "flexdome" / name, "a") as file:
            file.write(edit)
    return folder


@pytest.fixture
def no_code(tmp_path):
    """A flexdome that cannot be imported."""
    folder = tmp_path / "none" / "flexdome"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("raise ImportError('a library is missing here')\n")
    return folder.parent


def test_workers_with_other_code_are_refused_and_those_that_fit_go_on(
    scheduler, start, other_code, no_code, tmp_path, caplog
):
    start(other_code, "other", wait=False)
    start(no_code, "none")
    until(lambda: address(scheduler, "other"))
    with pytest.raises(fd.FlexDOMEError) as caught:
        make_engine(cluster=scheduler.address, timeout=PATIENCE)
    said = str(caught.value)
    assert said.startswith("no worker of the cluster can be used: ")
    assert "\n" not in said
    assert f"worker {address(scheduler, 'other')} differs from this process" in said
    assert f"flexdome is 9.9.9 there and {fd.__version__} here" in said
    assert (
        f"sources is {installation.fingerprint(other_code / 'flexdome')} there and {installation.LOADED} here" in said
    )
    assert "flexdome is none (ImportError: a library is missing here) there" in said
    assert "numpy" not in said

    start(SOURCES, "fits")
    store = Store(tmp_path / "store")
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="flexdome"):
        engine = make_engine(cluster=scheduler.address, timeout=PATIENCE)
        assert engine.slots == 1
        outcome = run_experiments([SPEC], store, engine, chunk_seconds=0.0)
    assert outcome.computed == 3
    assert not outcome.failed
    refused = {record.args[0].split()[1] for record in caplog.records}
    assert refused == {address(scheduler, "other"), address(scheduler, "none")}
    reference = Store(tmp_path / "reference")
    run_experiments([SPEC], reference)
    for run in SPEC.runs():
        tables = [(one.folder(run) / "history.parquet").read_bytes() for one in (store, reference)]
        assert tables[0] == tables[1]


@pytest.mark.slow
def test_workers_that_join_later_are_asked_too_and_take_over_from_those_that_are_lost(
    scheduler, start, other_code, tmp_path
):
    first = start(SOURCES, "first")
    with make_engine(cluster=scheduler.address, timeout=PATIENCE) as engine:
        start(other_code, "late")
        until(lambda: engine.tend() or address(scheduler, "late") in engine._refused)
        assert engine.slots == 1
        waiting = engine.submit(time.sleep, 30)  # not over when its worker is killed
        first.send_signal(signal.SIGKILL)
        first.wait()
        until(lambda: engine.tend() or not engine._fit)
        assert not waiting.done()
        queued = engine.submit(abs, -3)
        waiting.cancel()
        start(SOURCES, "second")
        until(lambda: engine.tend() or queued.done())
        assert queued.result() == 3


@pytest.mark.slow
def test_a_cluster_whose_last_worker_is_lost_is_an_error_after_a_while(scheduler, start, tmp_path):
    only = start(SOURCES, "only")

    def kill(event):
        if event.kind == "advanced" and only.poll() is None:
            engine._timeout = 1.0
            only.send_signal(signal.SIGKILL)
            only.wait()

    engine = make_engine(cluster=scheduler.address, timeout=PATIENCE)
    with pytest.raises(fd.FlexDOMEError, match="no worker that can be used for 1 s: it has none"):
        run_experiments([SPEC], Store(tmp_path / "store"), engine, kill, chunk_seconds=0.0)


@pytest.mark.slow
def test_a_worker_whose_files_were_edited_after_it_loaded_them_is_refused(scheduler, start, tmp_path):
    folder = tmp_path / "edited"
    shutil.copytree(SOURCES / "flexdome", folder / "flexdome", ignore=shutil.ignore_patterns("__pycache__"))
    with open(folder / "flexdome" / "learners" / "flexdome.py", "a") as file:
        file.write("EDITED = True\n")
    start(folder, "edited")
    with distributed.Client(scheduler.address) as client:
        assert client.submit(eval, "__import__('flexdome.experiments.worker') and 1").result(timeout=PATIENCE) == 1
        shutil.copy(SOURCES / "flexdome" / "learners" / "flexdome.py", folder / "flexdome" / "learners" / "flexdome.py")
        with pytest.raises(fd.FlexDOMEError, match=f"sources is {installation.LOADED} on disk, [0-9a-f]+ loaded there"):
            make_engine(cluster=client, timeout=PATIENCE)
        assert client.status == "running"


def test_a_cluster_without_workers_is_not_waited_for_without_end(scheduler):
    before = time.monotonic()
    with pytest.raises(fd.FlexDOMEError, match=r"no worker that can be used for 0\.5 s: it has none"):
        make_engine(cluster=scheduler.address, timeout=0.5)
    assert time.monotonic() - before < PATIENCE


def test_a_worker_that_comes_before_the_time_is_up_is_waited_for(scheduler, start):
    late = threading.Timer(0.3, start, (SOURCES, "late"))
    late.start()
    with make_engine(cluster=scheduler.address, timeout=PATIENCE) as engine:
        assert engine.submit(abs, -3).result(timeout=PATIENCE) == 3
    late.join()


@pytest.mark.parametrize("words", [b"", b"HTTP/1.1 200 OK\r\n\r\n" + bytes(64)])
def test_a_port_that_says_nothing_or_nonsense_is_one_sentence(words):
    with socket.create_server(("127.0.0.1", 0)) as server:
        kept = []

        def answer():
            while True:
                try:
                    kept.append(server.accept()[0])
                    kept[-1].sendall(words)
                except OSError:
                    return

        threading.Thread(target=answer, daemon=True).start()
        place = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        before = time.monotonic()
        with pytest.raises(fd.FlexDOMEError, match=f"^no Dask scheduler answers at '{place}': [^\n]+$"):
            make_engine(cluster=place, timeout=1.0)
        assert time.monotonic() - before < 30.0
        for one in kept:
            one.close()


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), "soon"])
def test_a_timeout_is_a_positive_number(timeout):
    with pytest.raises(fd.ValidationError, match="timeout"):
        make_engine(cluster="tcp://127.0.0.1:1", timeout=timeout)


def test_the_probe_needs_nothing_installed(tmp_path):
    """Python alone, without any package, can say what it has not."""
    words = [sys.executable, "-I", "-S", "-c", f"print({cluster.PROBE})"]
    told = eval(subprocess.run(words, capture_output=True, text=True, check=True, cwd=tmp_path).stdout)
    assert told["python"] == "{}.{}".format(*sys.version_info)
    assert told["numpy"].startswith("none (")
    assert told["flexdome"].startswith("none (ModuleNotFoundError")


def test_a_fingerprint_is_of_names_and_contents(tmp_path):
    (tmp_path / "a.py").write_text("x")
    first = installation.fingerprint(tmp_path)
    (tmp_path / "notes.txt").write_text("not code")
    assert installation.fingerprint(tmp_path) == first
    (tmp_path / "a.py").rename(tmp_path / "b.py")
    assert installation.fingerprint(tmp_path) != first
    (tmp_path / "b.py").write_text("y")
    assert installation.fingerprint(tmp_path) != first


# -- machines that share nothing -----------------------------------------------------------------------------------

APART = """
set -e
ip link set lo up
unshare --net --mount sh -c 'mount -t tmpfs none "$FOLDER" && test ! -e "$FOLDER/model.npz" || exit 9
    until ip -o -4 addr show dev there 2>/dev/null | grep -q 10.77.0.2; do sleep 0.1; done
    cd "$FOLDER" && exec "$PYTHON" -m distributed.cli.dask_worker tcp://10.77.0.1:8786 --no-nanny --nthreads 1 \
        --host 10.77.0.2 --no-dashboard --local-directory "$FOLDER" --death-timeout 120' >"$FOLDER/worker.log" 2>&1 &
worker=$!
trap 'kill -9 $worker $scheduler 2>/dev/null' EXIT
until test "$(readlink /proc/$worker/ns/net)" != "$(readlink /proc/self/ns/net)"; do sleep 0.05; done
ip link add here type veth peer name there netns $worker
ip addr add 10.77.0.1/24 dev here
ip link set here up
nsenter --target $worker --net ip addr add 10.77.0.2/24 dev there
nsenter --target $worker --net ip link set there up
"$PYTHON" -m distributed.cli.dask_scheduler --host 10.77.0.1 --port 8786 --no-dashboard >"$FOLDER/scheduler.log" 2>&1 &
scheduler=$!
cd "$FOLDER"
"$PYTHON" -m flexdome run asked.toml --out store --cluster tcp://10.77.0.1:8786 --timeout 120
"""


def why_not_apart():
    tools = ("unshare", "nsenter", "ip", "mount", "readlink")
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        return f"{', '.join(missing)} is not there"
    probe = "unshare --net --mount sh -c 'mount -t tmpfs none /mnt && ip link add near type veth peer name far'"
    done = subprocess.run(["sh", "-c", probe], capture_output=True, text=True)
    return f"namespaces are not allowed here: {done.stderr.strip()}" if done.returncode else None


def test_machines_that_share_no_network_and_no_directory_compute_on_a_model_file(tmp_path):
    """The worker is in a network and a mount namespace of its own: neither the model nor the store is there."""
    reason = why_not_apart()
    if reason:
        pytest.skip(reason)
    fd.save_cmdp(fd.make_cmdp("media-v1"), tmp_path / "model.npz")
    asked = 'episodes = 400\nseeds = [0, 1]\nenvironments = [{file = "model.npz"}]\nlearners = [{id = "flexdome"}]\n'
    (tmp_path / "asked.toml").write_text(asked)
    env = os.environ | {"FOLDER": str(tmp_path), "PYTHON": sys.executable, "PYTHONPATH": str(SOURCES)}
    words = ["unshare", "--net", "--mount", "bash", "-c", APART]
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr + (tmp_path / "worker.log").read_text()[-2000:]
    spec = load_experiment(tmp_path / "asked.toml")
    store, reference = Store(tmp_path / "store"), Store(tmp_path / "reference")
    run_experiments([spec], reference)
    for run in spec.runs():
        tables = [(one.folder(run) / "history.parquet").read_bytes() for one in (store, reference)]
        assert tables[0] == tables[1]


def test_a_worker_that_dies_is_mentioned_and_one_whose_call_does_not_end_gets_no_more(scheduler, start, caplog):
    first = start(SOURCES, "first")
    with (
        caplog.at_level(logging.WARNING, logger="flexdome"),
        make_engine(cluster=scheduler.address, timeout=PATIENCE) as engine,
    ):
        stuck = engine.submit(time.sleep, 600)
        until(lambda: engine.tend() or any(engine._processing().values()))
        assert engine.drop(stuck) is False
        where = address(scheduler, "first")
        assert any(
            record.getMessage() == f"flexdome: worker {where} has a call that does not end; it gets no more work"
            for record in caplog.records
        )
        assert not engine._fit
        second = start(SOURCES, "second")
        until(lambda: engine.tend() or engine._fit)
        where = address(scheduler, "second")
        second.kill()
        until(lambda: engine.tend() or not engine._fit)
        assert any(f"worker {where} is gone" in record.getMessage() for record in caplog.records)
    first.kill()
