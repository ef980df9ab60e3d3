"""Figures on micro data: what is on them, that nothing overlaps, and that files are the same bytes every time."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import flexdome as fd
from flexdome import analysis as an
from flexdome import figures as fg
from flexdome.analysis.aggregation import EXPONENT_SCHEMA, FINAL_SCHEMA
from flexdome.errors import OutputError, ValidationError
from flexdome.experiments import ExperimentSpec
from flexdome.figures.axes import robust_limits
from flexdome.figures.style import drawing, extent, readable

LEARNERS = ("FlexDOME", "UOpt-RPGPD", "Vanilla PD")
WAVE = {"FlexDOME": 0.0, "UOpt-RPGPD": 0.05, "Vanilla PD": 0.3}


def series(name, seed, constraints=1, episodes=200, zero=False):
    t = np.arange(1, episodes + 1)
    rng = np.random.default_rng(seed)
    wave = WAVE.get(name, 0.1) * np.sin(t / 5.0) + 0.02 * rng.normal(size=(constraints + 1, episodes))
    made = 0.0 * wave if zero else wave + 1.0 / np.sqrt(t)
    return an.Series(made[0], -made[1:] + 0.1 if not zero else made[1:])


def curves(names=LEARNERS, seeds=3, environment="e", **options):
    """Curves as ``analysis.curves`` makes them."""
    grid = np.arange(1, 201)
    parts = []
    for name in names:
        runs = [series(name, seed, **options) for seed in range(seeds)]
        for metric in an.METRICS:
            mean, error = an.mean_and_error(np.stack([getattr(run, metric)[grid - 1] for run in runs]))
            part = pl.DataFrame({"episode": grid, "mean": mean, "se": error}).with_columns(pl.col("se").fill_nan(None))
            constants = {"environment": environment, "learner": name, "metric": metric, "n": seeds}
            parts.append(part.with_columns(**{key: pl.lit(value) for key, value in constants.items()}))
    return pl.concat(parts)


def finals(environments=("e",), names=LEARNERS, seeds=3, **options):
    return pl.DataFrame(
        [
            {"environment": e, "learner": n, "instance": s, "seed": s, **series(n, s + 10 * k, **options).finals()}
            for e in environments
            for k, n in enumerate(names)
            for s in range(seeds)
        ]
    )


def scales(values, environments=("e",), seeds=3):
    rows = [
        {"environment": e, "scale": c, "metric": m, "mean": 100.0 * k, "se": 3.0 if seeds > 1 else None, "n": seeds}
        for e in environments
        for k, c in enumerate(values)
        for m in ("strong_regret", "strong_violation")
    ]
    return pl.DataFrame(rows, schema_overrides={"se": pl.Float64})


BONUS, MARGIN = (0.0, 1e-4, 1e-3, 1e-2), (0.0, 1e-6, 1e-5, 1e-4)
TABLE = an.table1().with_columns(
    pl.when(pl.col("id") == "flexdome").then(pl.lit("measured")).otherwise("status").alias("status"),
    pl.when(pl.col("id") == "flexdome").then(pl.lit("FlexDOME")).alias("setting"),
    pl.when(pl.col("id") == "flexdome").then(pl.lit("paper-v1")).alias("environment"),
    pl.when(pl.col("id") == "flexdome").then(80_000).cast(pl.Int64).alias("episodes"),
    pl.when(pl.col("id") == "flexdome").then(5).cast(pl.Int64).alias("n"),
    pl.when(pl.col("id") == "flexdome").then(0.83).alias("regret_exponent"),
    pl.when(pl.col("id") == "flexdome").then(0.8).alias("regret_low"),
    pl.when(pl.col("id") == "flexdome").then(0.86).alias("regret_high"),
)
FIGURES = {
    "paper": lambda: fg.curves_figure([fg.Row("(a) One", curves()), fg.Row("(b) Two", curves(("FlexDOME", "free")))]),
    "sensitivity": lambda: fg.sensitivity_figure(scales(BONUS), scales(MARGIN)),
    "pareto": lambda: fg.pareto_figure(an.summary(finals(("e", "f")))),
    "table": lambda: fg.table_figure(TABLE),
}


def drawn(figure):
    with drawing():
        figure.draw_without_rendering()
        figure.canvas.draw()
    return figure


def texts(figure):
    return [text.get_text() for text in figure.findobj(lambda artist: hasattr(artist, "get_text")) if text.get_text()]


def check_layout(figure):
    """Every legend inside the figure and off the axes; axes off each other."""
    drawn(figure)
    with drawing():
        boxes = [axes.get_tightbbox(figure.canvas.get_renderer()) for axes in figure.axes]
        for legend in figure.legends:
            box = extent(figure, legend)
            assert box.x0 >= 0.0
            assert box.x1 <= figure.bbox.x1 + 0.5
            assert box.y1 <= figure.bbox.y1 + 0.5
            assert not any(box.overlaps(other) for other in boxes)
    for k, one in enumerate(boxes):
        for other in boxes[k + 1 :]:
            assert not one.padded(-1.0).overlaps(other.padded(-1.0))


# -- all of them -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FIGURES)
def test_files_are_the_same_bytes_when_written_again(name, tmp_path):
    first = fg.save(FIGURES[name](), tmp_path / "one")
    second = fg.save(FIGURES[name](), tmp_path / "two")
    assert [path.name for path in first] == ["one.png", "one.svg", "one.pdf"]
    for one, two in zip(first, second, strict=True):
        assert one.read_bytes() == two.read_bytes()
        assert one.stat().st_size > 1000


def test_files_are_the_same_bytes_in_another_process_with_other_settings(tmp_path):
    code = (
        "import sys, matplotlib as mpl; sys.path[:0] = sys.argv[2:]\n"
        "mpl.rcParams.update({'font.size': 20, 'svg.fonttype': 'none', 'axes.grid': True})\n"
        "import test_figures as t; t.fg.save(t.FIGURES['paper'](), sys.argv[1])\n"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    here = fg.save(FIGURES["paper"](), tmp_path / "here")
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "MPLBACKEND": "svg"}
        target = tmp_path / f"there-{hash_seed}"
        subprocess.run(
            [sys.executable, "-c", code, target, *map(str, Path(__file__).parents[:2])], check=True, env=environment
        )
        for path in here:
            assert path.read_bytes() == target.with_suffix(path.suffix).read_bytes()


@pytest.mark.parametrize("name", FIGURES)
def test_files_hold_no_dates(name, tmp_path):
    for path in fg.save(FIGURES[name](), tmp_path / "figure"):
        data = path.read_bytes()
        assert b"Date" not in data
        assert b"dc:date" not in data


@pytest.mark.parametrize("name", FIGURES)
def test_nothing_overlaps(name):
    check_layout(FIGURES[name]())


@pytest.mark.parametrize("name", ["paper", "sensitivity", "pareto"])
def test_axes_are_labelled(name):
    figure = drawn(FIGURES[name]())
    assert any(axes.get_xlabel() for axes in figure.axes)
    for axes in figure.axes:
        same_row = [other for other in figure.axes if abs(other.get_position().y0 - axes.get_position().y0) < 0.01]
        assert any(other.get_ylabel() for other in same_row)


def test_drawing_leaves_the_settings_of_the_user_alone():
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    FIGURES["paper"]()
    assert dict(mpl.rcParams) == before


# -- saving ------------------------------------------------------------------------------------------------------------


def test_the_data_behind_a_figure_are_saved_beside_it(tmp_path):
    frame = curves()
    paths = fg.save(FIGURES["paper"](), tmp_path / "deep" / "figure.1", formats=("png",), data=frame)
    assert [path.name for path in paths] == ["figure.1.png", "figure.1.parquet"]
    assert pl.read_parquet(paths[1]).equals(frame)
    assert sorted(path.name for path in (tmp_path / "deep").iterdir()) == ["figure.1.parquet", "figure.1.png"]


def test_an_unknown_format_is_refused(tmp_path):
    with pytest.raises(ValidationError, match=r"formats\[0\] is 'gif'"):
        fg.save(FIGURES["pareto"](), tmp_path / "figure", formats=("gif",))


def test_a_file_in_the_way_is_an_error_of_ours(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot be written"):
        fg.save(FIGURES["pareto"](), tmp_path / "file" / "figure", formats=("svg",))


@pytest.mark.parametrize("where", ["os.fsync", "os.replace"])
def test_a_full_disk_is_an_output_error_that_leaves_the_previous_figure(where, tmp_path, monkeypatch):
    (path,) = fg.save(FIGURES["pareto"](), tmp_path / "figure", formats=("svg",))
    before = path.read_bytes()

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(where, full)
    with pytest.raises(OutputError, match=r"figure.svg cannot be written: No space left on device"):
        fg.save(FIGURES["sensitivity"](), tmp_path / "figure", formats=("svg",))
    assert [path.name for path in tmp_path.iterdir()] == ["figure.svg"]
    assert path.read_bytes() == before


# -- styles ------------------------------------------------------------------------------------------------------------


def test_the_learners_of_the_paper_have_its_colours():
    styles = fg.styles_for(["mine", "Vanilla PD", "UOpt-RPGPD", "FlexDOME"])
    assert [styles[name].colour for name in LEARNERS] == ["#DC143C", "#4169E1", "#A9A9A9"]


def test_every_learner_has_a_look_of_its_own():
    styles = fg.styles_for([*LEARNERS, *(f"learner {k}" for k in range(20))])
    lines = {(style.colour, style.dashes) for style in styles.values()}
    points = {(style.colour, style.marker) for style in styles.values()}
    assert len(lines) == len(points) == len(styles) == 23


def test_a_second_learner_with_a_known_name_is_not_mistaken_for_the_first():
    styles = fg.styles_for(["Vanilla PD", "optprimaldual"])
    assert styles["Vanilla PD"] != styles["optprimaldual"]


# -- curves ------------------------------------------------------------------------------------------------------------


def test_the_figure_has_four_columns_and_one_legend_of_all_learners():
    figure = FIGURES["paper"]()
    assert len(figure.axes) == 8
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [*LEARNERS, "free"]
    assert {"(a) One", "(b) Two"} <= set(texts(figure))


def test_a_note_stands_below_the_panels():
    figure = fg.curves_figure([fg.Row("one", curves())], note="practical tuning")
    check_layout(figure)
    (note,) = [text for text in figure.texts if text.get_text() == "practical tuning"]
    box = extent(figure, note)
    assert box.y0 >= 0.0
    assert not any(box.overlaps(axes.get_tightbbox(figure.canvas.get_renderer())) for axes in figure.axes)


def test_lines_are_the_means_and_bands_one_standard_error():
    frame = curves()
    figure = fg.curves_figure([fg.Row("one", frame)])
    (line,) = [line for line in figure.axes[3].lines if line.get_label() == "FlexDOME"]
    rows = frame.filter(learner="FlexDOME", metric="strong_violation")
    np.testing.assert_array_equal(line.get_ydata(), rows["mean"])
    np.testing.assert_array_equal(line.get_xdata(), rows["episode"])
    band = figure.axes[3].collections[0].get_paths()[0].vertices[:, 1]
    assert band.max() == pytest.approx((rows["mean"] + rows["se"]).max())


@pytest.mark.parametrize(
    "options",
    [{"constraints": 2}, {"seeds": 1}, {"zero": True}, {"names": [f"learner {k}" for k in range(12)]}],
    ids=str,
)
def test_unusual_data_are_drawn_without_warning(options, tmp_path):
    figure = fg.curves_figure([fg.Row("row", curves(**options))])
    check_layout(figure)
    fg.save(figure, tmp_path / "figure", formats=("png",))
    for axes in figure.axes:
        assert np.isfinite([*axes.get_xlim(), *axes.get_ylim()]).all()
        assert not any("nan" in text.get_text() for text in axes.get_xticklabels() + axes.get_yticklabels())


def test_large_numbers_have_their_factor_in_the_label():
    frame = curves().with_columns(pl.col("mean") * 1e6, pl.col("episode") * 400)
    axes = drawn(fg.curves_figure([fg.Row("row", frame)])).axes[2]
    assert axes.get_xlabel() == r"Episode ($\times 10^{4}$)"
    assert axes.get_ylabel().startswith(r"Strong regret ($\times 10^{")
    assert all(len(text.get_text()) <= 5 for text in axes.get_yticklabels())
    lengths = {len(text.get_text().partition(".")[2]) for text in axes.get_yticklabels()}
    assert len(lengths) == 1


def test_an_early_spike_is_cut_and_said_so():
    spike = pl.when((pl.col("metric") == "gap") & (pl.col("episode") == 1)).then(50.0).otherwise(pl.col("mean"))
    figure = fg.curves_figure([fg.Row("row", curves().with_columns(spike.alias("mean")))])
    assert figure.axes[0].get_ylim()[1] < 5.0
    assert any(text.startswith("cut: up to 50") for text in texts(figure))
    check_layout(figure)
    (title,) = figure.axes[0].findobj(lambda artist: getattr(artist, "get_text", str)() == "row")
    assert not extent(figure, figure.axes[0].texts[0]).overlaps(extent(figure, title))
    assert not any(text.startswith("cut") for text in texts(FIGURES["paper"]()))


def test_limits_always_show_zero_and_the_core():
    band = np.linspace(2.0, 3.0, 100)
    low, high, clipped = robust_limits([(band, band)])
    assert low <= 0.0
    assert high >= 3.0
    assert not clipped


def test_rows_can_share_limits():
    loud = curves().with_columns(pl.col("mean") * 10.0)
    figure = fg.curves_figure([fg.Row("a", curves()), fg.Row("b", loud)], share_y=True)
    assert figure.axes[3].get_ylim() == figure.axes[7].get_ylim()


def test_rows_of_different_length_keep_their_own_episodes():
    longer = curves().with_columns(pl.col("episode") * 2)
    figure = drawn(fg.curves_figure([fg.Row("a", curves()), fg.Row("b", longer)]))
    assert figure.axes[0].get_xlim()[1] == 200
    assert figure.axes[4].get_xlim()[1] == 400
    assert figure.axes[0].get_xlabel() == "Episode"
    check_layout(figure)


@pytest.mark.parametrize("fewer_last", [False, True])
def test_a_constraint_that_an_environment_does_not_have_is_an_empty_panel(fewer_last):
    second = curves().filter(pl.col("metric") == "violation").with_columns(pl.lit("violation_1").alias("metric"))
    rows = [fg.Row("few", curves()), fg.Row("many", pl.concat([curves(), second]))]
    if not fewer_last:
        rows.reverse()
    figure = drawn(fg.curves_figure(rows[::-1], metrics=["violation_1", "gap"], share_y=True))
    empty, full = (figure.axes[2 * k] for k in ((1, 0) if fewer_last else (0, 1)))
    assert not empty.axison
    assert not empty.lines
    assert full.lines
    assert full.get_xlabel() == "Episode"
    assert full.xaxis.get_tick_params()["labelbottom"]
    assert {"few", "many"} <= set(texts(figure))
    check_layout(figure)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "no rows"),
        ([fg.Row("a", curves().head(0))], "row 'a' has no curves"),
        ([fg.Row("a", pl.concat([curves(), curves(environment="f")]))], "curves of e, f; a row shows one"),
        ([fg.Row("a", curves().filter(pl.col("metric") != "gap"))], "no curves of gap"),
    ],
)
def test_rows_that_cannot_be_drawn_are_refused(rows, message):
    with pytest.raises(ValidationError, match=message):
        fg.curves_figure(rows)


def test_the_comparison_has_a_row_for_each_environment():
    environments = [{"id": "media-v1", "label": name} for name in "ef"]
    rows = [{"id": "flexdome", "label": name} for name in LEARNERS]
    spec = ExperimentSpec(name="x", episodes=200, seeds=[0], environments=environments, learners=rows)
    both = pl.concat([curves(), curves(environment="f")])
    empty = (pl.DataFrame(schema=schema) for schema in (FINAL_SCHEMA, EXPONENT_SCHEMA))
    figure = fg.comparison_figure(an.Results(spec, both, *empty))
    assert len(figure.axes) == 8
    assert {"e", "f"} <= set(texts(figure))


# -- sensitivity -------------------------------------------------------------------------------------------------------


def test_scale_zero_has_a_slot_and_the_selected_scale_a_line():
    figure = drawn(fg.sensitivity_figure(scales(BONUS), scales(MARGIN), chosen={"bonus": 1e-3, "margin": 5e-5}))
    bonus, margin = figure.axes[2], figure.axes[3]
    assert [text.get_text() for text in margin.get_xticklabels()] == ["0", "$10^{-6}$", "$10^{-5}$", "$10^{-4}$"]
    assert margin.get_xlim()[0] < 0.0 < margin.get_xlim()[1]
    assert any(np.all(np.asarray(line.get_xdata()) == 1e-3) for line in bonus.lines)
    assert any(np.all(np.asarray(line.get_xdata()) == 5e-5) for line in margin.lines)


def test_both_metrics_have_panels_of_their_own():
    labels = [axes.get_ylabel() for axes in FIGURES["sensitivity"]().axes]
    assert labels == ["Strong regret"] * 2 + ["Strong violation"] * 2


@pytest.mark.parametrize("options", [{"seeds": 1}, {"environments": ("e", "f")}], ids=str)
def test_sensitivities_of_one_seed_or_several_environments_are_drawn(options, tmp_path):
    figure = fg.sensitivity_figure(scales(BONUS, **options), scales((1e-6, 1e-5), **options))
    check_layout(figure)
    fg.save(figure, tmp_path / "figure", formats=("png",))


def test_a_sensitivity_without_violation_is_refused():
    with pytest.raises(ValidationError, match="margin's scale has no strong_violation"):
        fg.sensitivity_figure(scales(BONUS), scales(MARGIN).filter(pl.col("metric") == "strong_regret"))


# -- pareto ------------------------------------------------------------------------------------------------------------


def test_the_front_holds_what_no_other_point_beats():
    rng = np.random.default_rng(0)
    points = rng.integers(0, 6, size=(40, 2)).astype(float)
    front = fg.pareto_front(points)
    for k in front:
        assert not any((other <= points[k]).all() and (other < points[k]).any() for other in points)
    for other in points:
        assert any((points[k] <= other).all() for k in front)


def test_what_rounding_leaves_of_a_sum_is_zero_in_a_pareto_figure():
    table = an.summary(finals(("e",), seeds=2))
    first = pl.col("learner") == table["learner"][0]
    noise = table.with_columns(mean=pl.when(first).then(3e-7).otherwise(pl.col("mean")))
    (axes,) = fg.pareto_figure(noise).axes
    for ticks in (axes.get_xticks(), axes.get_yticks()):
        assert 0.0 in ticks
        assert min(tick for tick in ticks if tick > 0.0) > 1e-3


@pytest.mark.parametrize(
    "options",
    [
        {"zero": True},
        {"seeds": 1},
        {"environments": tuple("abcde")},
        {"names": ("FlexDOME",)},
        pytest.param(
            {"environments": tuple("abcdefghijklmnopqrs"), "names": tuple(f"learner {k}" for k in range(18))},
            marks=pytest.mark.slow,
        ),
    ],
    ids=str,
)
def test_pareto_figures_of_unusual_data_are_drawn(options, tmp_path):
    figure = fg.pareto_figure(an.summary(finals(**options)))
    check_layout(figure)
    fg.save(figure, tmp_path / "figure", formats=("png",))


def test_a_dial_is_one_curve_down_to_a_violation_of_exactly_zero():
    rows = [("bold", 10.0, 50.0), ("middle", 20.0, 5.0), ("cautious", 40.0, 0.0), ("other", 30.0, 7.0)]
    table = pl.DataFrame(
        [
            {"environment": "e", "learner": name, "metric": metric, "mean": mean, "se": 0.0}
            for name, regret, violation in rows
            for metric, mean in (("strong_regret", regret), ("strong_violation", violation))
        ]
    )
    figure = fg.pareto_figure(table, curve=["bold", "middle", "cautious"])
    (axes,) = figure.axes
    curves = [line for line in axes.lines if list(line.get_xdata()) == [10.0, 20.0, 40.0]]
    assert [list(line.get_ydata()) for line in curves] == [[50.0, 5.0, 0.0]]
    assert axes.get_ylim()[0] < 0.0
    assert 0.0 in axes.get_yticks()
    told = [text.get_text() for text in figure.legends[0].get_texts()]
    assert told == ["cautious", "other", "Pareto front", "cautious, its dial turned"]
    check_layout(figure)
    with pytest.raises(fd.ValidationError, match=r"curve\[0\]"):
        fg.pareto_figure(table, curve=[3])


BROKEN = (r"$\frac{$", "$x^$ and $5", r"\$ $ $", "a cost of $5", r"$\alpha$ well said")


def test_labels_with_broken_mathematics_are_drawn_as_they_stand(tmp_path):
    figure = fg.pareto_figure(an.summary(finals(names=BROKEN, environments=BROKEN[:2], seeds=1)))
    fg.save(figure, tmp_path / "pareto", formats=("png",))
    rows = [fg.Row(BROKEN[1], curves(names=BROKEN[:3], seeds=1))]
    fg.save(fg.curves_figure(rows), tmp_path / "curves", formats=("png",))
    fg.save(fg.curves_figure(rows, note=BROKEN[0]), tmp_path / "note", formats=("png",))
    assert readable(BROKEN[0]) == r"\$\frac{\$"
    assert readable(BROKEN[3]) == r"a cost of \$5"
    assert readable(BROKEN[4]) == BROKEN[4]


def test_a_summary_without_strong_metrics_is_refused():
    with pytest.raises(ValidationError, match="neither strong_regret"):
        fg.pareto_figure(an.summary(finals(), metrics=["last_gap"]))


# -- the table ---------------------------------------------------------------------------------------------------------


def test_the_table_shows_claims_and_what_was_measured():
    shown = texts(FIGURES["table"]())
    assert {"OPTAUG-CMDP", "not run", "none", "0.83 [0.80, 0.86]", r"$\tilde{O}(T^{5/6})$"} <= set(shown)
    assert any("T = 80,000, n = 5" in text for text in shown)


def test_every_text_of_the_table_is_inside_the_figure():
    figure = drawn(FIGURES["table"]())
    for text in figure.texts:
        if text.get_text():
            box = extent(figure, text)
            assert box.x0 >= -0.5
            assert box.x1 <= figure.bbox.x1 + 0.5
            assert box.y0 >= -0.5


def test_the_table_in_markdown_is_a_table():
    lines = fg.table_markdown(TABLE).splitlines()
    end = lines.index("")
    assert {line.count("|") for line in lines[:end]} == {10}
    assert "| FlexDOME | Õ(T^(5/6)) | Õ(1) | ✓ | ✓ | ✓ | paper-v1 | 0.83 [0.80, 0.86] | none |" in lines


HOW = (
    "Exponent: slope of log mean cumulative series over log t for t in [T/16, T], with a 95 % bootstrap interval over "
    "seeds; T = 80,000, n = 5. None: the series is zero for nearly all of these t."
)
DECLARED = "Only where the range or the scale of the threshold's samples is declared."
GROWN = "Plans anew when the number of episodes has grown by the factor 1.1; its paper plans in every episode."
GIVEN = "Was given a safe policy whose slack is 0.5 of the exact Slater gap."


def measured_with(**columns):
    """The table with what FlexDOME was measured with."""
    rows = pl.col("id") == "flexdome"
    return TABLE.with_columns(pl.when(rows).then(pl.lit(value)).alias(name) for name, value in columns.items())


def test_the_note_says_how_programs_were_measured_and_the_rows_refer_to_it():
    programs = measured_with(replan="1.1", safe_slack=0.5)
    text = fg.table_markdown(programs)
    assert "| paper-v1 ¹ ² | 0.83" in text
    few = an.of_few_runs([5])
    quiet, law = "\N{EN DASH}: nothing is claimed.", f"³ {DECLARED}\n"
    assert text.split("\n\n")[1:] == [HOW, few, quiet, f"¹ {GROWN}", f"² {GIVEN}", law]
    shown = texts(fg.table_figure(programs))
    assert {"paper-v1 ¹ ²", HOW, f"¹ {GROWN}", f"² {GIVEN}"} <= set(shown)


@pytest.mark.parametrize(
    ("replan", "words"),
    [("doubling", "when the visits of some cell have doubled"), ("10", "every 10 episodes"), ("2.0", "the factor 2.0")],
)
def test_the_note_names_the_rule_by_which_plans_were_made(replan, words):
    assert words in fg.table_markdown(measured_with(replan=replan))


@pytest.mark.parametrize("replan", [None, "episode"])
def test_the_note_is_silent_about_plans_made_as_published(replan):
    assert "Plans" not in fg.table_markdown(measured_with(replan=replan) if replan else TABLE)


def test_a_table_with_nothing_measured_is_drawn(tmp_path):
    fg.save(fg.table_figure(an.table1()), tmp_path / "table", formats=("png",))


def test_the_table_says_in_which_tuning_a_learner_was_measured():
    tuned = TABLE.with_columns(pl.when(pl.col("id") == "flexdome").then(pl.lit("practical")).alias("tuning"))
    assert ", practical tuning | " in next(line for line in fg.table_markdown(tuned).splitlines() if "FlexDOME" in line)
    assert "tuning" not in fg.table_markdown(TABLE)


# -- inside ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("environment", ["paper-stochastic-v1", "multi-v1"])
def test_a_run_of_proxdome_is_shown_from_the_inside(environment):
    cmdp = fd.make_cmdp(environment)
    history = fd.simulate(fd.ProxDOME(cmdp.problem(), episodes=150), cmdp)
    figure = fg.inside_figure(history, constraint=cmdp.constraints - 1)
    check_layout(figure)
    true = figure.axes[0].lines[-1]
    np.testing.assert_allclose(true.get_ydata()[-1], -history.violation[-1, -1])


def test_the_inside_of_another_learner_is_refused():
    cmdp = fd.make_cmdp("media-v1")
    history = fd.simulate(fd.FlexDOME(cmdp.problem(), episodes=5), cmdp)
    with pytest.raises(fd.ValidationError, match="it must be of a run of proxdome"):
        fg.inside_figure(history)
    prox = fd.simulate(fd.ProxDOME(cmdp.problem(), episodes=5), cmdp)
    with pytest.raises(fd.ValidationError, match="constraint is 1"):
        fg.inside_figure(prox, constraint=1)


# -- a policy ----------------------------------------------------------------------------------------------------------


def test_a_policy_and_its_visits_are_shown_as_maps():
    cmdp = fd.make_cmdp("frozen-lake-v1")
    learner = fd.FlexDOME(cmdp.problem(), episodes=100)
    fd.simulate(learner, cmdp)
    policy = fd.Policy(learner.policy, learner.visits)
    figure = fg.policy_figure(policy)
    check_layout(figure)
    colours, visits = (axes.images[0].get_array() for axes in figure.axes[:2])
    seen = learner.visits.sum(axis=-1).T
    assert colours.shape == (16, 40, 3)
    np.testing.assert_array_equal(np.ma.filled(visits, 0.0), seen)
    assert (np.asarray(colours)[seen == 0] == 0.92).all()
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [f"action {a}" for a in range(4)]


def test_a_certain_action_has_its_full_colour_and_a_draw_is_pale():
    figure = fg.policy_figure(fd.Policy([[[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]]))
    ((first,), (draw,), (second,)) = np.asarray(figure.axes[0].images[0].get_array())
    legend = [patch.get_facecolor()[:3] for patch in figure.legends[0].legend_handles]
    np.testing.assert_allclose([first, second], legend, atol=1e-12)
    assert draw.min() > 0.85
    assert len(figure.axes) == 1


def test_a_map_speaks_the_names_of_the_problem():
    named = {"state_names": ["low", "a" * 40, "high"], "action_names": ["wait", "dose"]}
    figure = fg.policy_figure(fd.Policy([[[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]], provenance=named))
    figure.canvas.draw()
    assert {"low", "a" * 23 + "…", "high"} <= {text.get_text() for text in figure.axes[0].get_yticklabels()}
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["wait", "dose"]


def test_a_map_of_something_else_is_refused():
    with pytest.raises(fd.ValidationError, match="policy is 3"):
        fg.policy_figure(3)
    with pytest.raises(fd.ValidationError, match="at most 32 can be told apart"):
        fg.policy_figure(fd.Policy(np.full((1, 1, 33), 1 / 33)))


@pytest.mark.parametrize("label", ["Score", "strong_regret + 10 * late_violation", "x" * 60])
def test_a_long_score_is_inside_the_figure_of_a_sweep(label):
    table = pl.DataFrame({"learner": ["a", "b"], "score": [1.0, 20.0]})
    figure = drawn(fg.sweep_figure(table, {"a": {"step": 0.1}, "b": {"step": 1.0}}, label))
    box = extent(figure, figure.axes[0].yaxis.label)
    assert box.y0 >= 0.0
    assert box.y1 <= figure.bbox.height
    assert box.x0 >= 0.0
    assert figure.axes[0].yaxis.label.get_text().replace("\n", "").replace(" ", "") == label.replace(" ", "")


@pytest.mark.parametrize("name", FIGURES)
def test_drawing_logs_no_warning(name, caplog, tmp_path):
    readable.cache_clear()
    fg.save(FIGURES[name](), tmp_path / name)
    assert caplog.records == []


def test_a_table_of_another_size_than_the_papers_says_so():
    said = "Not the paper's setting, which is T = 80,000 and 5 seeds."
    assert said not in fg.table_markdown(TABLE)
    for other in ({"episodes": 4_000}, {"n": 3}):
        assert said in fg.table_markdown(measured_with(**other))
        assert said in texts(fg.table_figure(measured_with(**other)))


def test_a_sensitivity_figure_has_a_note_below_its_panels():
    figure = drawn(fg.sensitivity_figure(scales(BONUS), scales(MARGIN), note="Quick look"))
    assert "Quick look" in texts(figure)


def test_a_tick_that_presumes_a_declared_law_says_so_and_scales_have_names():
    scaled = measured_with(setting="FlexDOME, c_e = 5e-5")
    text = fg.table_markdown(scaled)
    (row,) = (line for line in text.splitlines() if line.startswith("| SureDOME |"))
    assert "| ✓¹ |" in row
    assert f"¹ {DECLARED}" in text
    assert "paper-v1, FlexDOME, margin scale = 5e-5" in text
    assert "c_e" not in text
    without = TABLE.filter(~pl.col("id").is_in(["suredome", "guard"]))
    assert "declared" not in fg.table_markdown(without)
    assert any("$\\checkmark$¹" in shown for shown in texts(fg.table_figure(TABLE)))


@pytest.mark.parametrize(("log", "said"), [("y", 4), ("both", 4), ("x", 0), ("none", 0)])
def test_a_logarithmic_axis_says_that_it_has_no_values_below_zero(log, said):
    signed = curves().with_columns((pl.col("mean").abs() * -1.0 - 1.0).alias("mean"))
    note = "values below 0 are drawn as 0"
    assert texts(drawn(fg.curves_figure([fg.Row("One", signed)], log=log))).count(note) == said
    positive = curves().with_columns(pl.col("mean").abs().alias("mean"))
    assert note not in texts(drawn(fg.curves_figure([fg.Row("One", positive)], log=log)))
