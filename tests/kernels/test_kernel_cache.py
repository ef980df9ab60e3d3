"""A cache of compiled kernels that is damaged, full or not ours costs a compilation and a line, never a command."""

import fcntl
import importlib.util
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import flexdome
from flexdome.kernels import jit

MODULE = """
from flexdome.kernels.jit import kernel

@kernel
def twice(x):
    return 2.0 * x
"""
FULL = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512))  # a write ends as it does where the disk is full
import small
print(small.twice(21.0), sum(small.twice.stats.cache_hits.values()))
"""


@pytest.fixture
def call(tmp_path, monkeypatch, caplog):
    """Load and call a small kernel as a new process would: kernels found in the cache, and what was said."""
    script = tmp_path / "small.py"
    script.write_text(MODULE)

    def load(place=tmp_path / "cache"):
        monkeypatch.setenv("NUMBA_CACHE_DIR", str(place))
        jit.cache_directory.cache_clear()
        jit._say.cache_clear()
        caplog.clear()
        spec = importlib.util.spec_from_file_location("small", script)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        assert module.twice(21.0) == 42.0
        return sum(module.twice.stats.cache_hits.values()), [record.getMessage() for record in caplog.records]

    yield load
    jit.cache_directory.cache_clear()


def files(folder):
    return {path.suffix: path for path in (folder / "cache").rglob("small.twice*")}


def test_a_kernel_is_compiled_once_and_found_from_then_on(call, tmp_path):
    assert call() == (0, [])
    assert set(files(tmp_path)) == {".nbi", ".nbc"}
    assert call() == (1, [])


def test_two_processes_do_not_write_at_once(call, tmp_path):
    call()
    folder = files(tmp_path)[".nbi"].parent
    for path in files(tmp_path).values():
        path.unlink()
    with ThreadPoolExecutor() as pool:
        with open(folder / "lock") as other:  # closed, and so unlocked, before the pool waits for its thread
            fcntl.flock(other, fcntl.LOCK_EX)  # as another process has it
            done = pool.submit(call)
            with pytest.raises(TimeoutError):
                done.result(timeout=1.0)
            assert not files(tmp_path)
        assert done.result(timeout=60.0) == (0, [])
    assert set(files(tmp_path)) == {".nbi", ".nbc"}


@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
@pytest.mark.parametrize("wound", ["empty", "cut", "flip", "pipe"])
def test_a_damaged_entry_is_compiled_again_with_one_line(call, tmp_path, suffix, wound):
    call()
    path = files(tmp_path)[suffix]
    data = bytearray(path.read_bytes())
    if wound == "flip":
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    elif wound == "pipe":
        path.unlink()
        os.mkfifo(path)
    else:
        path.write_bytes(data[: 0 if wound == "empty" else len(data) // 2])
    hits, (said,) = call()
    assert hits == 0
    assert said.startswith("flexdome: the cache of compiled kernels is damaged (")
    assert path.name in said
    assert call() == (1, [])


def test_a_disk_that_is_full_costs_the_cache_alone_and_one_line_on_stderr(call, tmp_path):
    sources = f"{Path(flexdome.__file__).parents[1]}:{tmp_path}"
    env = os.environ | {"PYTHONPATH": sources, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, "-B", "-c", FULL], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["42.0", "0"]
    assert done.stderr.startswith("flexdome: compiled kernels cannot be kept in ")
    assert "File too large" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not list((tmp_path / "cache").rglob("*.tmp.*"))
    assert call() == (0, [])
    assert call() == (1, [])


@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
def test_a_directory_in_place_of_an_entry_costs_the_cache_alone(call, tmp_path, suffix):
    call()
    path = files(tmp_path)[suffix]
    path.unlink()
    path.mkdir()
    hits, said = call()
    assert hits == 0
    assert "compiled kernels cannot be kept in " in said[-1]


def test_a_place_that_cannot_be_written_costs_the_cache_alone(call, tmp_path):
    (tmp_path / "file").write_text("not a directory")
    hits, (said,) = call(tmp_path / "file")
    assert hits == 0
    assert "compiled kernels cannot be kept in " in said


def test_a_folder_of_the_cache_that_cannot_be_made_costs_the_cache_alone(call, tmp_path):
    """And numba's own places, whose names hold no hash of the sources, are not fallen back to."""
    call()
    folder = files(tmp_path)[".nbi"].parent
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    folder.write_text("a file")
    hits, (said,) = call()
    assert hits == 0
    assert "compiled kernels cannot be kept in " in said
    assert not list(tmp_path.rglob("*.nbi"))


def test_the_cache_is_keyed_by_every_module_that_uses_the_decorator(tmp_path, monkeypatch):
    package = tmp_path / "flexdome"
    texts = {
        "kernels/jit.py": "",
        "kernels/plain.py": "no decorator here",
        "learners/sweep.py": "from flexdome.kernels.jit import kernel\n",
        "learners/other.py": "import numpy\nfrom flexdome.kernels import jit\n",
        "learners/none.py": "# flexdome.kernels.jit is where it is\nfrom flexdome.kernels.vectors import dot\n",
    }
    for name, text in texts.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    monkeypatch.setattr(jit, "__file__", str(package / "kernels" / "jit.py"))
    names = [path.relative_to(package).as_posix() for path in jit.kernel_sources()]
    assert names == ["kernels/jit.py", "kernels/plain.py", "learners/other.py", "learners/sweep.py"]
    before = jit._fingerprint.__wrapped__()
    (package / "learners" / "none.py").write_text("x = 1")
    assert jit._fingerprint.__wrapped__() == before
    (package / "learners" / "sweep.py").write_text(texts["learners/sweep.py"] + "x = 1")
    assert jit._fingerprint.__wrapped__() != before


def test_every_kernel_of_the_package_is_among_the_sources():
    sources = set(jit.kernel_sources())
    for path in Path(flexdome.__file__).parent.rglob("*.py"):
        if "@kernel" in path.read_text():
            assert path in sources


def test_the_cache_of_another_package_is_keyed_by_all_its_sources(tmp_path):
    package = tmp_path / "theirs" / "deep"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").write_text("")
    (package / "kernels.py").write_text("x = 1")
    assert jit._package_of(package / "kernels.py") == package.parent
    assert jit._package_of(tmp_path / "alone.py") == tmp_path / "alone.py"
    before = jit._fingerprint.__wrapped__(package.parent)
    assert before != jit._fingerprint.__wrapped__()
    (package / "helper.py").write_text("y = 2")
    assert jit._fingerprint.__wrapped__(package.parent) != before
