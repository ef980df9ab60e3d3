"""Compiled loops against their plain twins, and the cache that holds them."""

import os
import subprocess
import sys
import textwrap

import numba
import numpy as np
import pytest

from flexdome.kernels import vectors

DENSE = np.empty(0, dtype=np.int32)


@numba.njit
def compiled_expectation(p, nxt, row, K, v):
    return vectors.expectation(p, nxt, row, K, v)


@numba.njit
def compiled_propagate(p, nxt, row, K, x, y):
    vectors.propagate(p, nxt, row, K, x, y)


@numba.njit
def compiled_propagate_rows(p, nxt, row, K, x, at, n, y):
    vectors.propagate_rows(p, nxt, row, K, x, at, n, y)


@pytest.mark.parametrize("K", [1, 2, 3, 4, 7, 8, 9, 12, 16, 20, 23, 100])
@pytest.mark.parametrize("sparse", [False, True])
def test_vector_loops_have_the_bits_of_their_plain_twins(K, sparse):
    rng = np.random.default_rng(K)
    p, v = rng.normal(size=3 * K), rng.normal(size=K)
    nxt = rng.integers(0, K, size=3 * K).astype(np.int32) if sparse else DENSE
    for row in range(3):
        assert compiled_expectation(p, nxt, row, K, v) == vectors.expectation_plain(p, nxt, row, K, v)
        fast, plain = v.copy(), v.copy()
        compiled_propagate(p, nxt, row, K, 0.3, fast)
        vectors.propagate_plain(p, nxt, row, K, 0.3, plain)
        assert (fast == plain).all()
    masses = rng.normal(size=5)
    fast, plain = v.copy(), v.copy()
    compiled_propagate_rows(p, nxt, 0, K, masses, 1, 3, fast)
    vectors.propagate_rows_plain(p, nxt, 0, K, masses, 1, 3, plain)
    assert (fast == plain).all()


def run(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_same_numbers_come_out_with_compilation_off(tmp_path):
    code = """
        import numpy as np, flexdome as fd
        from flexdome.families.random import generator
        cmdp = fd.make_cmdp("media-v1")
        sparse = fd.make_cmdp("garnet-v1", states=6, actions=2, horizon=3, successors=2)
        for c in (cmdp, sparse):
            pi = np.random.default_rng(0).dirichlet(np.ones(c.actions), size=(c.horizon, c.states))
            print(fd.evaluate(c, pi).value.hex(), fd.solve(c).value.hex())
            print(fd.saddle_point(c, 0.3, dual_bound=3.0).value.hex())
    """
    assert run(code) == run(code, NUMBA_DISABLE_JIT="1")


def test_an_edit_to_any_kernel_starts_a_new_cache(tmp_path):
    import shutil
    from pathlib import Path

    import flexdome

    copy = tmp_path / "src" / "flexdome"
    shutil.copytree(Path(flexdome.__file__).parent, copy)
    code = """
        import numpy as np, flexdome as fd
        from flexdome.kernels import jit
        c = fd.make_cmdp("oscillator-v1")
        print(jit.cache_directory(), fd.evaluate(c, np.full((c.horizon, c.states, c.actions), 0.5)).value)
    """
    env = {"PYTHONPATH": str(tmp_path / "src"), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    first_cache, first = run(code, **env).split()
    source = copy / "kernels" / "vectors.py"  # a callee in another module than the cached kernel's
    text = source.read_text()
    assert "product = builder.fmul(" in text
    source.write_text(text.replace("product = builder.fmul(", "product = builder.fadd("))
    second_cache, second = run(code, **env).split()
    assert first_cache != second_cache
    assert first != second


def test_decorating_leaves_numba_alone():
    from numba.core import config

    from flexdome.kernels.jit import kernel

    before = config.CACHE_DIR
    kernel(lambda x: x)
    assert before == config.CACHE_DIR


def test_kernels_work_where_no_cache_can_be_written(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a directory")
    code = "import flexdome as fd; print(fd.slater_gap(fd.make_cmdp('oscillator-v1', horizon=2)))"
    assert run(code, NUMBA_CACHE_DIR=str(blocked)).strip() == "1.0"
