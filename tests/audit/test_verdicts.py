"""The rule of the audit: holds, fails at, or says nothing; and what is counted over runs."""

import numpy as np
import pytest

import flexdome as fd
from flexdome.audit import Series, counted, judged
from flexdome.audit.figures import counts_figure, finding_figure, statements_figure
from flexdome.audit.findings import numbered

T = np.array([1, 10, 100, 1000])


def found(left, right, trivial=None, label="seed 0", **options):
    series = [Series(label, T, np.array(left, float), np.array(right, float))]
    return judged("key", "a statement", "somewhere", "a setting", series, trivial, **options)


def test_a_statement_holds_where_left_is_below_right():
    one = found([1, 1, 1, 1], [2, 2, 1, 3])
    assert (one.word, one.verdict, one.excess, one.checked) == ("holds", "holds", 0.0, 4)


def test_a_statement_fails_at_its_first_episode_by_its_worst_amount():
    one = found([1, 3, 9, 1], [2, 2, 2, 2])
    assert one.word == "fails"
    assert (one.where, one.run, one.excess) == (10, "seed 0", 7.0)
    assert one.verdict == "fails at t = 10 (seed 0), by 7 at worst"


def test_a_failure_is_a_failure_even_where_the_bound_is_trivial_elsewhere():
    assert found([1, 1, 1, 1], [9, 9, 9, 0.5], trivial=5.0).word == "fails"


def test_rounding_is_no_failure():
    assert found([1 + 1e-12, 0, 0, 0], [1, 1, 1, 1]).word == "holds"
    assert found([1 + 1e-6, 0, 0, 0], [1, 1, 1, 1]).word == "fails"


def test_a_bound_above_what_is_always_true_is_vacuous():
    assert found([1, 1, 1, 1], [9, 8, 7, 6], trivial=5.0).verdict == "vacuous"


def test_a_bound_that_comes_down_says_from_when_on_it_speaks():
    one = found([1, 1, 1, 1], [9, 3, 7, 4], trivial=5.0)
    assert (one.word, one.speaks_from) == ("holds", 1000)
    assert one.verdict == "holds, and says something from t = 1,000 on"
    assert found([1, 1, 1, 1], [4, 4, 4, 4], trivial=5.0).verdict == "holds"


def test_the_last_run_to_speak_decides_from_when_on():
    series = [
        Series(f"seed {k}", T, np.zeros(4), np.array(right)) for k, right in enumerate(([9.0, 1, 1, 1], [9.0, 9, 1, 1]))
    ]
    assert judged("k", "s", "p", "x", series, 5.0).speaks_from == 100
    series.append(Series("seed 2", T, np.zeros(4), np.full(4, 9.0)))
    mixed = judged("k", "s", "p", "x", series, 5.0)
    assert (mixed.word, mixed.speaks_from) == ("holds", None)


def test_series_of_different_lengths_are_refused():
    with pytest.raises(fd.ValidationError, match="have shapes"):
        Series("seed 0", T, np.zeros(3), np.zeros(4))
    with pytest.raises(fd.ValidationError, match="looked at nowhere"):
        judged("k", "s", "p", "x", [])


def test_failures_are_held_to_the_probability_that_is_claimed():
    rare = counted("k", "s", "p", "x", [None] * 99 + [7], 0.025)
    assert (rare.word, rare.where, rare.share) == ("holds", None, 0.01)
    often = counted("k", "s", "p", "x", [3, 5, None, 4], 0.025)
    assert (often.word, often.where) == ("fails", 3)
    assert often.verdict == "fails in 75 % of runs, first at t = 3"
    assert counted("k", "s", "p", "x", [None] * 20, 0.025).word == "holds"
    with pytest.raises(fd.ValidationError, match="no run"):
        counted("k", "s", "p", "x", [], 0.1)


def test_figures_show_both_sides_and_the_level():
    plain = finding_figure(found([1, 2, 3, 4], [5, 6, 7, 8], trivial=6.5, axis="size"))
    (axes,) = plain.axes
    assert [line.get_ydata()[-1] for line in axes.lines[:2]] == [4.0, 8.0]
    assert axes.get_yscale() == "log"
    assert axes.get_ylabel() == "Size"
    signed = finding_figure(found([-1, 1, -1, 1], [0, 0, 0, 0]))
    assert signed.axes[0].get_yscale() == "linear"
    many = statements_figure([found([1, 1, 1, 1], [2, 2, 2, 2])] * 4)
    assert sum(axes.get_visible() for axes in many.axes) == 4
    events = counts_figure([counted("k", "s", "p", "x", [None, 1], 0.1)])
    assert events.axes[0].lines[0].get_xdata()[0] == 0.5
    with pytest.raises(fd.ValidationError, match="no series"):
        finding_figure(counted("k", "s", "p", "x", [None], 0.1))


def test_one_is_counted_in_the_singular():
    assert [numbered(count, "run") for count in (0, 1, 2, 2000)] == ["0 runs", "1 run", "2 runs", "2,000 runs"]
