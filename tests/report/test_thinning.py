"""What thinning leaves is the curve's own, and no peak is lost."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flexdome.errors import ValidationError
from flexdome.report import stretches, thin


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 600), st.integers(1, 20), st.sampled_from([1, 3, 10**6]))
def test_every_stretch_keeps_its_smallest_and_its_largest_value(seed, size, count, levels):
    values = np.random.default_rng(seed).integers(-levels, levels, size).astype(float)
    starts = stretches(len(values), count)
    kept = thin(values, starts)
    assert kept[0] == 0
    assert kept[-1] == len(values) - 1
    assert np.all(np.diff(kept) > 0)
    assert len(kept) <= 2 * len(starts) + 2
    for start, end in zip(starts, [*starts[1:], len(values)], strict=True):
        left = values[kept[(kept >= start) & (kept < end)]]
        assert min(left) == min(values[start:end])
        assert max(left) == max(values[start:end])


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 10**7), st.integers(1, 500))
def test_stretches_start_at_zero_ascend_and_are_about_as_many_as_asked_for(episodes, count):
    starts = stretches(episodes, count)
    assert starts[0] == 0
    assert np.all(np.diff(starts) > 0)
    assert starts[-1] < episodes
    assert len(starts) <= count + count // 4 + 2
    longest = np.diff([*starts, episodes]).max()
    assert longest <= episodes // count + 1


@given(st.integers(0, 9_999), st.sampled_from([1.0, -1.0]))
@settings(max_examples=50, deadline=None)
def test_a_single_spike_survives_up_or_down(where, size):
    values = np.zeros(10_000)
    values[where] = size
    assert where in thin(values, stretches(10_000, 12))


@pytest.mark.parametrize("starts", [[], [1], [0, 3], [0, 0], [0, 2, 1]])
def test_stretches_that_are_none_are_refused(starts):
    with pytest.raises(ValidationError, match="starts must ascend"):
        thin([1.0, 2.0, 3.0], np.array(starts, dtype=np.int64))


def test_a_table_is_no_curve():
    with pytest.raises(ValidationError, match=r"values has shape \(2, 2\)"):
        thin(np.zeros((2, 2)), np.array([0]))
