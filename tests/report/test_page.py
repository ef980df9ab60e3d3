"""The page: one file, everything in it, every name text."""

import base64
import hashlib
import html
import json
import re
import struct
import sys
import tomllib
from html.parser import HTMLParser

import numpy as np
import pytest

from flexdome.analysis import aggregate, paired_difference, series_of
from flexdome.cli import main
from flexdome.errors import FlexDOMEError
from flexdome.experiments import (
    EnvironmentSpec,
    ExperimentSpec,
    LearnerSpec,
    Store,
    find_experiment,
    load_experiment,
    named_experiment,
)
from flexdome.experiments.store import Failure
from flexdome.learners import LEARNERS
from flexdome.report import make_page, write_report
from flexdome.report import page as page_module
from flexdome.report.again import command, curve_toml
from flexdome.report.common import beaten_by
from flexdome.report.markup import as_json, element
from flexdome.report.sentences import notices

HOSTILE = "</script><script>window.broken=1</script>"
VOID = {"meta", "img", "input", "br", "link"}


class Reader(HTMLParser):
    """Tags with their attributes, text, the content of scripts; tags that are not balanced are an error."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.words, self.scripts, self.open, self.ids = [], [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.ids += [value for name, value in attributes if name == "id"]
        if tag not in VOID:
            self.open.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data
        elif "style" not in self.open:
            self.words.append(data)


@pytest.fixture(scope="module")
def read(page):
    return Reader(page.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def data(read):
    return json.loads(read.scripts[0])


def unpack(text, columns):
    raw = base64.b64decode(text)
    n = len(raw) // (4 * (columns + 1))
    return np.array(struct.unpack(f"<{n}I", raw[: 4 * n])), [
        np.array(struct.unpack(f"<{n}f", raw[4 * n * k : 4 * n * (k + 1)])) for k in range(1, columns + 1)
    ]


def test_the_page_names_no_address_and_loads_nothing(page, read):
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"(?:https?:|ftp:|wss?:|file:)//|@import|url\(", text)
    assert not {"img", "link", "iframe", "object", "embed", "form", "base"} & {tag for tag, _ in read.tags}
    for tag, attributes in read.tags:
        assert "src" not in attributes
        assert not any(name.startswith("on") for name in attributes), (tag, attributes)
        assert attributes.get("href", "#").startswith("#")


def test_only_the_two_scripts_of_the_page_may_run(read):
    (policy,) = (row["content"] for tag, row in read.tags if tag == "meta" and "http-equiv" in row)
    assert "default-src 'none'" in policy
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in read.scripts[1:]]
    assert len(digests) == 2
    assert re.search(r"script-src (.*)", policy)[1].split() == [f"'sha256-{digest}'" for digest in digests]


def test_hostile_names_stay_text(read, store):
    text = "".join(read.words)
    for name in (HOSTILE, *(row.name for spec in store.experiments() for row in (*spec.learners, *spec.environments))):
        assert name in text
    assert "<b onclick='x'>bold</b> <!-- <script> -->" in text
    assert "From the directory small & <odd>: 2 experiments, " in text
    assert len(read.scripts) == 3


def test_the_page_is_small_well_formed_and_has_what_a_reader_without_eyes_needs(page, read):
    assert page.stat().st_size < 5_000_000
    assert len(read.ids) == len(set(read.ids))
    assert dict(read.tags)["html"]["lang"] == "en"
    links = [row["href"][1:] for tag, row in read.tags if tag == "a"]
    assert set(links) <= set(read.ids)
    assert {"main", "experiment-0", "experiment-1"} <= set(links)
    for tag, attributes in read.tags:
        if tag == "table":
            assert attributes["aria-label"]
        if tag == "section":
            assert attributes["aria-labelledby"] in read.ids


def test_the_means_on_the_page_are_those_of_all_episodes(data, store):
    (spec,) = (spec for spec in store.experiments() if spec.name == "plain")
    (told,) = (row for row in data["experiments"] if row["name"] == "plain")
    for learner in ("FlexDOME", "Vanilla PD"):
        runs = [run for run in spec.runs() if run.learner.name == learner]
        all_series = [series_of(store.read(run)) for run in runs]
        for metric in ("gap", "violation", "strong_regret", "weak_violation"):
            values = np.stack([getattr(series, metric) for series in all_series])
            row = told["curves"]["paper-v1"][metric][learner]
            episodes, (mean, error) = unpack(row["mean"], 2)
            np.testing.assert_allclose(mean, values.mean(axis=0)[episodes - 1], rtol=1e-6, atol=1e-7)
            np.testing.assert_allclose(
                error, values.std(axis=0, ddof=1)[episodes - 1] / np.sqrt(3), rtol=1e-5, atol=1e-7
            )
            full = values.mean(axis=0)
            assert full.argmax() + 1 in episodes
            assert full.argmin() + 1 in episodes
            for k, run in enumerate(runs):
                episodes, (one,) = unpack(row["seeds"][str(run.seed)], 1)
                np.testing.assert_allclose(one, values[k][episodes - 1], rtol=1e-6, atol=1e-7)
                assert values[k].argmax() + 1 in episodes


def test_several_constraints_have_curves_of_their_own(data):
    (odd,) = (row for row in data["experiments"] if row["name"] == "odd")
    assert {"each_0", "each_1", "sum_0", "sum_1"} <= set(odd["curves"]["band-v1"])
    assert {metric for metric, _ in odd["metrics"]} == set(odd["curves"]["band-v1"])


def test_paired_differences_are_those_of_the_analysis(data, store):
    (spec,) = (spec for spec in store.experiments() if spec.name == "plain")
    finals = aggregate(store, spec).finals
    (told,) = (row for row in data["experiments"] if row["name"] == "plain")
    assert [row[1] for row in told["pairs"]] == ["strong_regret", "strong_violation", "late_violation"]
    for environment, metric, a, b, mean, low, high, *counts in told["pairs"]:
        pair = paired_difference(finals, metric, a, b, environment)
        exact = (pair.mean, pair.interval.low, pair.interval.high)
        assert (mean, low, high) == pytest.approx(exact, rel=1e-6)
        assert counts == [pair.lower, pair.equal, pair.higher]


def test_the_paper_and_the_measurement_are_compared_in_sentences(read, store, monkeypatch):
    text = "".join(read.words)
    assert "These runs have T = 600 and 3 seeds, where the paper has T = 80,000 and 5" in text
    assert "of 3 hold here" not in text
    assert {row["class"] for _, row in read.tags if row.get("class", "").startswith("mark ")} == {"mark elsewhere"}
    assert "Quick look" not in text  # "plain" is none of the paper's experiments
    monkeypatch.setattr(sys.modules["flexdome.analysis.verdicts"], "PAPER_EPISODES", 600)
    monkeypatch.setattr(sys.modules["flexdome.analysis.verdicts"], "PAPER_SEEDS", 3)
    assert "of 3 hold here" in make_page(store).html
    assert "FlexDOME (c_e = 1e-5 as stated) on paper-v1: strong violation" in text
    assert re.search(r"On paper-v1, \S+.* (is best in both|has the lowest strong regret)", text)


def test_intervals_of_few_runs_are_said_to_be_worth_little(read, data):
    said = "With 3 runs an interval goes at most from the least to the largest, which covers a median in 75 % of cases"
    assert any(text.startswith(said) for text in read.words)
    (told,) = (row for row in data["experiments"] if row["name"] == "plain")
    assert told["few"].startswith(said)
    assert told["enough"] == 6


def test_the_page_says_how_curves_were_thinned_and_gives_way_to_a_small_budget(store):
    wide, narrow, narrowest = (make_page(store, budget=budget) for budget in (10**7, 100_000, 10_000))
    assert wide.detail[0] > narrow.detail[0] >= 8
    assert narrowest.detail == (8, 0)
    assert len(wide.html) > len(narrow.html) > len(narrowest.html)
    assert f"means in {wide.detail[0]} equal ones, single seeds in {wide.detail[1]}" in wide.html
    assert "single seeds are left out" in narrowest.html


def test_curves_give_way_where_the_rest_of_the_page_is_large(store, monkeypatch):
    wide = make_page(store)
    for fewer in (20_000, 60_000):
        monkeypatch.setattr(page_module, "LARGEST_PAGE", len(wide.html.encode()) - fewer)
        narrow = make_page(store)
        assert len(narrow.html.encode()) <= page_module.LARGEST_PAGE
        assert narrow.detail < wide.detail


def test_the_same_store_gives_the_same_bytes(store):
    assert make_page(store).html == make_page(store).html


def test_what_is_missing_is_said_and_nothing_is_read_from_nothing(tmp_path, store):
    with pytest.raises(FlexDOMEError, match="holds no experiment"):
        make_page(Store(tmp_path / "empty"))
    (spec,) = (spec for spec in store.experiments() if spec.name == "plain")
    part = Store(tmp_path / "begun")
    with part.writing():
        part.remember(spec)
        with pytest.raises(FlexDOMEError, match="holds no complete run"):
            make_page(part)
    runs = [(learner.name, seed) for learner in spec.learners for seed in (0, 2)]
    part, _ = part_of(store, tmp_path / "part", runs)
    assert "2 of 6 runs are not there yet" in make_page(part).html


def part_of(store, path, runs, like=lambda run: run, **facts):
    """A store with some runs of "plain" and ``facts`` in their markers; ``like`` says whose numbers a run has."""
    (spec,) = (spec for spec in store.experiments() if spec.name == "plain")
    part = Store(path)
    everything = {(run.learner.name, run.seed): run for run in spec.runs()}
    with part.writing():
        part.remember(spec)
        for learner, seed in runs:
            frame = store.read(everything[like((learner, seed))])
            columns = {name: frame[name].to_numpy() for name in frame.columns}
            part.finish(everything[learner, seed], columns, facts)
    return part, spec


def test_learners_are_compared_over_the_runs_that_both_have(tmp_path, store):
    """Vanilla PD has FlexDOME's numbers, but one seed alone: neither is better."""
    runs = [*(("FlexDOME", seed) for seed in (0, 1, 2)), ("Vanilla PD", 1)]
    part, spec = part_of(store, tmp_path / "part", runs, like=lambda run: ("FlexDOME", run[1]))
    results = aggregate(part, spec, skip_missing=True)
    text = "".join(Reader(make_page(part).html).words)
    assert "over the 1 run that every learner has, FlexDOME and Vanilla PD are equal and best in both" in text
    assert set(map(tuple, beaten_by(results.finals).values())) == {()}
    assert text.count("beaten by nobody") == 2
    (told,) = json.loads(Reader(make_page(part).html).scripts[0])["experiments"]
    assert told["alike"] == []
    assert {name: row["n"] for name, row in told["pareto"]["paper-v1"].items()} == {"FlexDOME": 3, "Vanilla PD": 1}


def test_learners_without_a_common_run_are_not_compared(tmp_path, store):
    part, spec = part_of(store, tmp_path / "part", [("FlexDOME", 0), ("Vanilla PD", 1)])
    lines = notices(aggregate(part, spec, skip_missing=True), part)
    assert "On paper-v1 no run is one that every learner has, so that nobody is called the best." in lines
    assert not any("best in both" in line or "lowest" in line for line in lines)


def test_a_run_that_failed_is_said_to_have_failed_and_why(tmp_path, store):
    runs = [("FlexDOME", 0), ("FlexDOME", 1), ("FlexDOME", 2), ("Vanilla PD", 0)]
    part, spec = part_of(store, tmp_path / "part", runs)
    (broken,) = (run for run in spec.runs() if (run.learner.name, run.seed) == ("Vanilla PD", 2))
    with part.writing():
        part.fail(broken, Failure(7, "ValueError: it broke\nfurther lines", "Traceback"))
    text = "".join(Reader(make_page(part).html).words)
    assert "1 of 6 runs failed" in text
    assert "Vanilla PD on paper-v1 failed with seed 2: ValueError: it broke" in text
    assert "further lines" not in text
    assert "1 of 6 runs is not there yet" in text


def test_the_code_of_a_learner_stands_behind_its_curves(read, store, tmp_path):
    version = LEARNERS["flexdome"].version
    assert read.words[read.words.index("Code") + 1] == f"version {version}"
    code = {"version": 3, "package": "mine 1.2", "sources": "0123456789abcdef"}
    part, _ = part_of(store, tmp_path / "part", [("FlexDOME", 0)], code=code)
    words = Reader(make_page(part).html).words
    assert words[words.index("Code") + 1] == "version 3, package mine 1.2, sources 0123456789abcdef"


def test_a_run_of_two_experiments_is_counted_once(store, tmp_path):
    part, spec = part_of(store, tmp_path / "part", [("FlexDOME", 0), ("FlexDOME", 1)])
    with part.writing():
        part.remember(spec.changed(name="again"))
    assert "2 experiments, 2 runs." in make_page(part).html


def test_one_seed_has_no_intervals_and_the_page_says_so(tmp_path):
    (tmp_path / "one.toml").write_text(
        'episodes = 20\nseeds = [3]\n[[environments]]\nid = "media-v1"\n[[learners]]\nid = "flexdome"\n'
    )
    assert main(["run", str(tmp_path / "one.toml"), "--out", str(tmp_path / "s"), "--workers", "0"]) == 0
    path = write_report(Store(tmp_path / "s"))
    text = path.read_text(encoding="utf-8")
    assert path == tmp_path / "s" / "report.html"
    assert "There is one seed" in text
    assert "nobody to compare it with" in text
    assert "NaN" not in Reader(text).scripts[0]


def test_a_target_that_cannot_be_written_is_one_line(store, tmp_path, capsys):
    assert main(["report", str(store.path), "--page", str(tmp_path / "none" / "x.html")]) == 1
    assert "cannot be written" in capsys.readouterr().err


@pytest.mark.parametrize("instance", [None, 4])
def test_the_file_behind_a_curve_makes_the_same_runs(tmp_path, instance):
    spec = ExperimentSpec(
        name="odd",
        episodes=40,
        seeds=(0, 7),
        instance=instance,
        environments=(EnvironmentSpec(id="garnet-v1", label='a "b" \\ c', options={"states": 7}),),
        learners=(
            LearnerSpec(id="flexdome", label="x = '1' </script>", options={"margin_scale": 5e-5, "margin": True}),
            LearnerSpec(id="flexdome", label="told", problem={"reveal": ["thresholds"], "slater_gap": 0.25}),
            LearnerSpec(id="optprimaldual", label="é 日本", options={"tuning": "practical"}),
        ),
    )
    ids = {run.learner.name: set() for run in spec.runs()}
    for run in spec.runs():
        ids[run.learner.name].add(run.id)
    for name, expected in ids.items():
        path = tmp_path / "curve.toml"
        path.write_text(curve_toml(spec, spec.environments[0].name, name), encoding="utf-8")
        found = load_experiment(path)
        assert {run.id for run in found.runs()} == expected
        assert found.learners[0].name == name


def test_a_model_file_is_named_without_its_folder(tmp_path):
    import flexdome as fd

    fd.save_cmdp(fd.make_cmdp("media-v1"), tmp_path / "model.npz")
    place = EnvironmentSpec(file=tmp_path / "model.npz")
    spec = ExperimentSpec(
        name="x", episodes=5, seeds=(0,), environments=(place,), learners=(LearnerSpec(id="flexdome"),)
    )
    text = curve_toml(spec, "model", "flexdome")
    assert tomllib.loads(text)["environments"] == [{"file": "model.npz"}]
    (tmp_path / "curve.toml").write_text(text)
    assert [run.id for run in load_experiment(tmp_path / "curve.toml").runs()] == [run.id for run in spec.runs()]


def test_the_command_of_one_of_our_experiments_makes_the_same_runs():
    fixed = named_experiment("fixed")
    assert command(fixed) == "flexdome run fixed --out ."
    changed = fixed.changed(episodes=100, seeds=(1, 2), instance=0)
    assert command(changed) == "flexdome run fixed --episodes 100 --seeds 1 2 --instance 0 --out ."
    assert command(fixed.changed(learners=fixed.learners[:1])) is None
    assert command(fixed.changed(name="other")) is None


def test_in_the_directory_of_the_results_the_commands_compute_nothing(tmp_path, store, monkeypatch, capsys):
    """Every command of a page, as it stands there; the runs of one of our experiments are another's."""
    part, plain = part_of(store, tmp_path / "part", [(name, 1) for name in ("FlexDOME", "Vanilla PD")])
    fixed = named_experiment("fixed").changed(episodes=600, seeds=(1,), environments=plain.environments)
    fixed = fixed.changed(learners=plain.learners)
    monkeypatch.setattr("flexdome.report.again.named_experiment", lambda name: fixed)
    monkeypatch.setattr(
        "flexdome.experiments.find_experiment", lambda name: fixed if name == "fixed" else find_experiment(name)
    )
    with part.writing():
        part.remember(fixed)
    text = make_page(part).html
    commands = re.findall(r"<code>(flexdome run [^<]*)</code>", text)
    files = [html.unescape(inner) for inner in re.findall(r"<pre[^>]*><code>([^<]*)</code>", text)]
    assert [line for line in commands if "curve.toml" not in line] == ["flexdome run fixed --out ."]
    assert len(files) == 4
    monkeypatch.chdir(part.path)
    before = {path: path.stat().st_mtime_ns for path in part.path.glob("runs/*/*")}
    capsys.readouterr()
    for content in files:
        (part.path / "curve.toml").write_text(content.replace("seeds = [0, 1, 2]", "seeds = [1]"), encoding="utf-8")
        assert main([*commands[-1].split()[1:], "--workers", "0"]) == 0
    assert main([*commands[0].split()[1:], "--workers", "0"]) == 0
    assert {path: path.stat().st_mtime_ns for path in part.path.glob("runs/*/*")} == before
    assert not (part.path / "results").exists()


def test_text_becomes_markup_only_where_it_is_made():
    assert element("p", "<i>", element("b", "&"), title='"') == '<p title="&quot;">&lt;i&gt;<b>&amp;</b></p>'
    text = as_json({"</script>": "<!-- & \u2028"})
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {"</script>": "<!-- & \u2028"}


def test_a_page_changes_nothing_in_the_store(store):
    def state():
        return {path: path.read_bytes() for path in store.path.rglob("*") if path.is_file()}

    before = state()
    make_page(store)
    assert before == state()
    assert len(before) > 10
