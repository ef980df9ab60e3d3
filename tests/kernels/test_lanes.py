"""The vector loops of a learner against their plain twins; their exponential and logarithm against the library's."""

from __future__ import annotations

import math

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flexdome.kernels import lanes
from flexdome.kernels.rollout import draw
from strategies import SEEDS


@numba.njit
def start_value(values, cell, W, share, q, entropy, psi):
    lanes.start_value(values, cell, W, share, q, entropy, psi)


@numba.njit
def row_value(cell, count, start, n, inverse, values, base, row, W, caps, h, weights, pi, c):
    return lanes.row_value(cell, count, start, n, inverse, values, base, row, W, caps, h, weights, pi, c)


@numba.njit
def row_values(
    tried, tried_cell, first, n, start, length, inverse, pi, cell, count, values, base, W, caps, h, weights, y
):  # fmt: skip
    lanes.row_values(
        tried, tried_cell, first, n, start, length, inverse, pi, cell, count, values, base, W, caps, h, weights, y
    )  # fmt: skip


@numba.njit
def mirror_step(logits, pi, y, inverse, entropy, untried, h, C, A, n, keep, eta):
    lanes.mirror_step(logits, pi, y, inverse, entropy, untried, h, C, A, n, keep, eta)


# -- values ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("W", [4, 8, 12])
def test_the_start_of_a_value_has_the_bits_of_its_plain_twin(W):
    rng = np.random.default_rng(W)
    fast, q = rng.normal(size=5 * W), rng.normal(size=W)
    plain = fast.copy()
    start_value(fast, 3, W, 0.3, q, 1.7, W - 2)
    lanes.start_value_plain(plain, 3, W, 0.3, q, 1.7, W - 2)
    assert (fast == plain).all()


@settings(max_examples=60)
@given(n=st.integers(0, 23), blocks=st.integers(1, 3), seed=SEEDS)
def test_the_value_of_a_row_has_the_bits_of_its_plain_twin(n, blocks, seed):
    W, cells, rows, H = 4 * blocks, 9, 6, 3
    rng = np.random.default_rng(seed)
    start = 4 * int(rng.integers(0, 4))
    size = start + -(-n // 4) * 4
    cell, count = np.zeros(size + 4, dtype=np.int32), np.zeros(size + 4)
    cell[start : start + n], count[start : start + n] = rng.integers(0, cells - 1, n), rng.integers(1, 50, n)
    inverse = 1.0 / max(count.sum(), 1.0)
    fast = rng.normal(size=cells * W)
    plain = fast.copy()
    base, caps, weights = rng.normal(size=rows * W), rng.normal(size=H * W), rng.normal(size=W)
    arguments = (cell, count, start, n, inverse)
    rest = (base, 2, W, caps, 1, weights, 0.4, cells - 1)
    assert row_value(*arguments, fast, *rest) == lanes.row_value_plain(*arguments, plain, *rest)
    assert (fast == plain).all()


@settings(max_examples=40)
@given(n=st.integers(0, 12), blocks=st.integers(1, 2), seed=SEEDS)
def test_the_values_of_a_step_have_the_bits_of_their_plain_twin(n, blocks, seed):
    """Rows and cells of the second of three steps, with A = 2 and C = 8; successors are cells of the third."""
    W, A, C, H = 4 * blocks, 2, 8, 3
    rng = np.random.default_rng(seed)
    rows, first = H * A * C, A * C
    tried, tried_cell = np.zeros(rows, dtype=np.int32), np.zeros(rows, dtype=np.int32)
    tried[first : first + n] = first + rng.permutation(A * C)[:n]
    tried_cell[first : first + n] = C + tried[first : first + n] % C
    length = rng.integers(0, 7, rows).astype(np.int32)
    start = 8 * np.arange(rows)
    cell, count = np.zeros(8 * rows, dtype=np.int32), np.zeros(8 * rows)
    for row in range(rows):
        at = slice(start[row], start[row] + length[row])
        cell[at], count[at] = rng.integers(2 * C, 3 * C, length[row]), rng.integers(1, 50, length[row])
    inverse, pi = rng.random(rows), rng.random(rows)
    base, caps, weights = rng.normal(size=rows * W), rng.normal(size=H * W), rng.normal(size=W)
    found = []
    for function in (row_values, lanes.row_values_plain):
        values, y = np.random.default_rng(seed).normal(size=H * C * W), np.full(A * C, np.nan)
        function(
            tried, tried_cell, first, n, start, length, inverse, pi, cell, count, values, base, W, caps, 1, weights, y
        )  # fmt: skip
        found.append((values.tobytes(), y.tobytes()))
    assert found[0] == found[1]
    assert np.isnan(y).sum() == A * C - n


def test_the_value_of_a_row_is_its_formula():
    """q = min(base + p^ V, caps), added with weight pi; the answer is q . weights."""
    W, values = 4, np.arange(12.0) / 10
    cell, count = np.array([1, 2, 0, 0], dtype=np.int32), np.array([3.0, 1.0, 0.0, 0.0])
    base, caps, weights = (
        np.array([0.5, 0.25, 0.0, 0.0]),
        np.array([1.0, 9.0, 9.0, 9.0]),
        np.array([1.0, 2.0, 0.5, 0.0]),
    )
    before = values.copy()
    mean = (3 * before[4:8] + before[8:12]) / 4
    q = np.minimum(base + mean, caps)
    assert row_value(cell, count, 0, 2, 0.25, values, base, 0, W, caps, 0, weights, 0.5, 0) == pytest.approx(
        q @ weights
    )
    np.testing.assert_allclose(values[:4], before[:4] + 0.5 * q, rtol=1e-15)
    assert (values[4:] == before[4:]).all()
    assert q[0] == 1.0


# -- the mirror step ------------------------------------------------------------------------------------


def policies(rng, H, A, C):
    logits = np.log(rng.dirichlet(np.ones(A), size=(H, C))).transpose(0, 2, 1).ravel().copy()
    inverse = (rng.random(H * A * C) < 0.6) / 7.0
    return logits, np.exp(logits), inverse, rng.random(H * C), rng.random(H * C)


@settings(max_examples=60)
@given(
    n=st.integers(0, 24),
    A=st.integers(1, 6),
    seed=SEEDS,
    keep=st.floats(0.0, 1.0),
    scale=st.sampled_from((0.0, 1e-6, 1.0, 30.0, 1e4, 1e100)),
)
def test_the_mirror_step_agrees_with_its_plain_twin(n, A, seed, keep, scale):
    H, C = 2, 24
    rng = np.random.default_rng(seed)
    logits, pi, inverse, entropy, untried = policies(rng, H, A, C)
    y = rng.normal(size=A * C)
    fast = [logits, pi, y, inverse, entropy, untried]
    plain = [array.copy() for array in fast]
    mirror_step(*fast, 1, C, A, n, keep, scale)
    lanes.mirror_step_plain(*plain, 1, C, A, n, keep, scale)
    for name, a, b in zip(("logits", "pi", "y", "inverse", "entropy", "untried"), fast, plain, strict=True):
        np.testing.assert_allclose(a, b, rtol=4e-15, atol=1e-14, err_msg=name)
    assert (y == plain[2]).all()


def test_the_mirror_step_touches_its_own_step_and_lanes_alone():
    rng = np.random.default_rng(0)
    H, A, C = 3, 2, 24
    arrays = policies(rng, H, A, C)
    logits, pi, inverse, entropy, untried = (array.copy() for array in arrays)
    mirror_step(logits, pi, rng.normal(size=A * C), inverse, entropy, untried, 1, C, A, 9, 0.9, 0.5)
    touched = np.zeros((H, A, C), dtype=bool)
    touched[1, :, :16] = True
    for after, before in ((logits, arrays[0]), (pi, arrays[1])):
        assert ((after != before) == touched.ravel()).all()
    for after, before in ((entropy, arrays[3]), (untried, arrays[4])):
        assert ((after != before) == touched[:, 0].ravel()).all()


def two_actions(x):
    """log pi and pi of two actions with logits 0 and x, by a mirror step that does not move."""
    n = -(-x.size // 8) * 8
    logits = np.zeros((2, n))
    logits[1, : x.size] = x
    pi, spare = np.zeros((2, n)), [np.zeros(2 * n), np.ones(2 * n), np.zeros(n), np.zeros(n)]
    flat, flat_pi = logits.ravel(), pi.ravel()
    mirror_step(flat, flat_pi, spare[0], spare[1], spare[2], spare[3], 0, n, 2, n, 1.0, 0.0)
    return flat.reshape(2, n)[:, : x.size], flat_pi.reshape(2, n)[:, : x.size], spare[2][: x.size]


def test_exponential_and_logarithm_are_accurate_to_a_few_units_in_the_last_place():
    """Against extended precision: pi = exp(x) / (1 + exp(x)) down to exp(-700), log pi = x - log(1 + exp(x))."""
    x = -np.concatenate([np.linspace(0.0, 700.0, 40_001), np.logspace(-300, 2, 5000)])
    exact = np.exp(x.astype(np.longdouble))
    log_pi, pi, entropy = two_actions(x)
    p1 = exact / (1 + exact)
    np.testing.assert_allclose(pi[1], p1.astype(float), rtol=6e-16)
    np.testing.assert_allclose(pi[0], (1 / (1 + exact)).astype(float), rtol=6e-16)
    np.testing.assert_allclose(log_pi[0], -np.log1p(exact).astype(float), rtol=1e-15, atol=3e-16)
    np.testing.assert_allclose(log_pi[1], (x - np.log1p(exact)).astype(float), rtol=6e-16)
    disorder = p1 * (np.log1p(exact) - x) + np.log1p(exact) / (1 + exact)
    np.testing.assert_allclose(entropy, disorder.astype(float), rtol=2e-15, atol=1e-15)


@pytest.mark.parametrize("A", [1, 2, 3, 7, 64, 1000])
def test_equal_logits_are_the_uniform_policy(A):
    logits, pi = np.full(A * 8, -3.0), np.zeros(A * 8)
    entropy, untried = np.zeros(8), np.zeros(8)
    mirror_step(logits, pi, np.zeros(A * 8), np.zeros(A * 8), entropy, untried, 0, 8, A, 3, 1.0, 0.0)
    np.testing.assert_allclose(pi, 1 / A, rtol=3e-16)
    np.testing.assert_allclose(logits, -math.log(A), rtol=3e-16, atol=1e-16)
    np.testing.assert_allclose(entropy, math.log(A), rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(untried, 1.0, rtol=1e-13)


def test_an_action_beyond_hope_keeps_a_positive_probability_and_its_logit():
    log_pi, pi, entropy = two_actions(np.array([-1e5, -1e100, -700.0, -701.0]))
    assert (pi[1] > 0).all()
    assert (pi[1] < 1e-303).all()
    assert log_pi[1].tolist() == [-1e5, -1e100, -700.0, -701.0]
    assert np.isfinite(entropy).all()


# -- draws ----------------------------------------------------------------------------------------------


@numba.njit
def drawn(p, at, step, n, u):
    return draw(p, at, step, n, u)


@settings(max_examples=60)
@given(n=st.integers(1, 9), step=st.integers(1, 3), seed=SEEDS, u=st.floats(0.0, 1.0, exclude_max=True))
def test_a_draw_is_the_inverse_distribution_function(n, step, seed, u):
    rng = np.random.default_rng(seed)
    weights = rng.random(n) * (rng.random(n) < 0.6)
    weights[rng.integers(0, n)] += 0.1
    weights /= weights.sum()
    p = rng.normal(size=4 + n * step)  # what lies between is not looked at
    p[4 : 4 + n * step : step] = weights
    k = drawn(p, 4, step, n, u)
    assert weights[k] > 0
    below, upto = weights[:k].sum(), weights[: k + 1].sum()
    assert below - 1e-12 <= u
    assert u <= upto + 1e-12


def test_rounding_never_draws_what_is_impossible():
    p = np.array([0.1] * 10 + [0.0])
    assert np.cumsum(p)[-1] < 1.0  # in the order in which a draw adds
    assert drawn(p, 0, 1, 11, 1 - 2**-53) == 9
