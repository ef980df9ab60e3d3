"""The ranking: rules on small tables, and published numbers that can be computed again.

``python tests/ranking/test_ranking.py`` writes the table of ``docs/ranking.md`` anew.
"""

import json
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import flexdome as fd
from flexdome.cli import main
from flexdome.experiments import LearnerSpec, RunSpec, Store, named_experiment, run_experiments
from flexdome.experiments.code import code_of
from flexdome.ranking import (
    QUICK,
    entrant,
    entry_experiment,
    entry_learner,
    family_table,
    final_numbers,
    outdated,
    overall_table,
    publish,
    published,
    suite_experiments,
    unpublished,
    versus_table,
)
from flexdome.ranking.published import NUMBERS, SCHEMA

DOCS = Path(__file__).parents[2] / "docs" / "ranking.md"
HEAD = "| learner | score | families | unbeaten on | runs without late violation |\n|---|---:|---:|---:|---:|\n"
SEEN = ("SureDOME",)  # made with instances of the ranking in sight


def finals(*rows):
    """Rows of family, learner, seed, regret, violation; a row without numbers failed."""
    plain = [
        {
            "family": family,
            "learner": learner,
            "seed": seed,
            "strong_regret": numbers[0] if numbers else None,
            "strong_violation": numbers[1] if numbers else None,
            "late_violation": numbers[1] / 2 if numbers else None,
            "regret_exponent": 0.5 if numbers else None,
            "violation_exponent": None,
            "failure": None if numbers else "it broke",
        }
        for family, learner, seed, *numbers in rows
    ]
    kinds = {name: kind for name, kind in SCHEMA.items() if name in plain[0]}
    return pl.DataFrame(plain, schema=kinds)


def test_beating_needs_both_and_a_failure_is_beaten():
    table = finals(
        ("f", "a", 0, 1.0, 1.0),
        ("f", "b", 0, 2.0, 1.0),  # beaten by a: more regret, as much violation
        ("f", "c", 0, 0.5, 2.0),  # less regret, more violation: neither
        ("f", "d", 0),
    )
    rows = {row["learner"]: row for row in overall_table(table).iter_rows(named=True)}
    assert rows["a"]["score"] == pytest.approx(2 / 3)
    assert rows["b"]["score"] == pytest.approx(0.0)
    assert rows["c"]["score"] == pytest.approx(1 / 3)
    assert rows["d"]["score"] == pytest.approx(-1.0)
    assert rows["d"]["failed"] == 1
    assert (rows["a"]["front"], rows["b"]["front"]) == (1, 0)
    assert overall_table(table)["learner"].to_list() == ["a", "c", "b", "d"]
    (mine,) = family_table(table, "a").iter_rows(named=True)
    assert (mine["beats"], mine["beaten"]) == ("b; d", "")
    (failed,) = family_table(table, "d").iter_rows(named=True)
    assert (failed["regret"], failed["failed"], failed["beaten"]) == (None, 1, "a; b; c")


def test_learners_are_compared_on_the_seeds_that_both_have():
    table = finals(("f", "a", 0, 5.0, 0.0), ("f", "a", 1, 1.0, 0.0), ("f", "b", 1, 2.0, 0.0))
    assert versus_table(table, "a").row(0) == ("b", 1, 1, 0)  # on seed 0 alone a would be far behind
    with pytest.raises(fd.FlexDOMEError, match="unknown learner 'c'"):
        versus_table(table, "c")


def grown(table, **exponents):
    """The table with violation exponents of learners, one for each of their rows in turn."""
    rows = {name: iter(values) for name, values in exponents.items()}
    found = [next(rows.get(name, iter(())), None) for name in table["learner"]]
    return table.with_columns(pl.Series("violation_exponent", found, dtype=pl.Float64))


@pytest.mark.parametrize(("exponent", "beaten"), [(0.89, 0), (0.9, 1), (1.0, 1)])
def test_who_ignores_its_constraints_is_beaten_by_who_does_not(exponent, beaten):
    table = finals(("f", "greedy", 0, 0.0, 9000.0), ("f", "careful", 0, 500.0, 20.0), ("f", "costly", 0, 900.0, 9500.0))
    table = grown(table, greedy=[exponent], careful=[0.5], costly=[0.5])
    assert versus_table(table, "greedy").filter(pl.col("learner") == "careful").row(0) == ("careful", 1, 0, beaten)
    assert versus_table(table, "greedy").filter(pl.col("learner") == "costly").row(0) == ("costly", 1, 1, 0)
    (mine,) = family_table(table, "greedy").iter_rows(named=True)
    assert mine["unsafe"] is bool(beaten)
    rows = {row["learner"]: row for row in overall_table(table).iter_rows(named=True)}
    assert (rows["greedy"]["unsafe"], rows["careful"]["unsafe"]) == (beaten, 0)
    assert (rows["careful"]["score"] > rows["greedy"]["score"]) == bool(beaten)


def test_two_unsafe_learners_are_compared_as_others_are():
    table = finals(("f", "a", 0, 1.0, 9000.0), ("f", "b", 0, 2.0, 8000.0), ("f", "c", 0, 3.0, 9000.0))
    table = grown(table, a=[1.0], b=[1.0], c=[1.0])
    assert [row[1:] for row in versus_table(table, "a").sort("learner").iter_rows()] == [(1, 0, 0), (1, 1, 0)]


@pytest.mark.parametrize(
    ("violations", "exponents", "unsafe"),
    [
        ((100.0, 0.03), (0.5, 8.0), False),  # next to nothing begins late
        ((100.0, 100.0), (0.5, 1.0), False),  # half of it is not more than half
        ((100.0, 101.0), (0.5, 1.0), True),
        ((0.0, 100.0), (None, 1.0), True),
        ((0.0, 0.019), (None, 1.0), False),  # late violation below 0.01
        ((0.0, 0.0), (None, None), False),
    ],
)
def test_more_than_half_of_the_violation_must_be_linear(violations, exponents, unsafe):
    table = finals(*(("f", "a", seed, 1.0, value) for seed, value in enumerate(violations)))
    (row,) = family_table(grown(table, a=exponents), "a").iter_rows(named=True)
    assert row["unsafe"] is unsafe


def test_the_suite_has_more_than_twenty_families_and_its_quick_part_is_a_part_of_it():
    whole = named_experiment("ranking")
    assert len(whole.environments) >= 20
    learner = entry_learner("flexdome", {"margin_scale": 5e-5})
    small, full = entry_experiment(learner, quick=True), entry_experiment(learner)
    assert {row.name for row in small.environments} == set(QUICK)
    assert {run.id for run in small.runs()} < {run.id for run in full.runs()}
    assert entry_learner("dope").problem.safe_slack == 0.5
    assert entry_learner("flexdome").problem.safe_slack is None
    assert [entry_learner(id).problem.threshold_laws for id in ("suredome", "guard", "dope")] == [True, True, False]


def test_the_published_numbers_say_which_runs_they_are_of():
    """Every row is a run of the suite, whose id is that of the code which the row names."""
    known = {(run.environment.name, run.learner.name, run.seed): run for s in suite_experiments() for run in s.runs()}
    table = published()
    assert table.columns == list(SCHEMA)
    assert table["run"].n_unique() == table.height
    for row in table.iter_rows(named=True):
        run = known[row["family"], row["learner"], row["seed"]]
        assert run.id_by(json.loads(row["code"])) == row["run"]
        assert (row["failure"] is None) == (row["strong_regret"] is not None)


def table():
    """The table of the page: everybody's overall score, from the published numbers."""
    finals, rows = published(), []
    for row in overall_table(finals).iter_rows(named=True):
        own = finals.filter(pl.col("learner") == row["learner"])
        notes = ["one seed"] if own["seed"].n_unique() == 1 else []
        notes += [f"{row['failed']} runs failed"] if row["failed"] else []
        notes += ["instances seen before"] if row["learner"] in SEEN else []
        name = row["learner"]
        if own["id"][0] == "proxdome":
            name += ", version " + ", ".join(sorted({str(json.loads(code)["version"]) for code in own["code"]}))
        name += f" ({'; '.join(notes)})" if notes else ""
        safe = f"{100.0 * row['safe']:.0f} %"
        rows.append(f"| {name} | {row['score']:+.2f} | {row['families']} | {row['front']} | {safe} |\n")
    return HEAD + "".join(rows)


def test_the_page_shows_what_is_published():
    finals, text = published(), DOCS.read_text(encoding="utf-8")
    assert table() in text
    failed = int(finals["failure"].is_not_null().sum())
    assert f"All {finals.height:,} runs are there. {failed} failed" in text


def test_a_published_learner_whose_version_is_not_the_present_one_is_said_to_be_so():
    table = published()
    name = table["learner"][0]
    older = table.with_columns(
        pl.when(pl.col("learner") == name).then(pl.lit('{"version": 0}')).otherwise(pl.col("code")).alias("code")
    )
    assert f"{name} (version 0, now version " in ", ".join(outdated(older))


def test_a_guard_is_of_another_version_where_the_learner_inside_is():
    table = published().filter(pl.col("learner") == "Guard of FlexDOME")
    now = code_of("guard", json.loads(table["options"][0]))
    assert outdated(table.with_columns(pl.lit(json.dumps(now)).alias("code"))) == []
    older = table.with_columns(pl.lit(json.dumps({**now, "inside version": 0})).alias("code"))
    assert outdated(older) == [
        f"Guard of FlexDOME (version {now['version']}, inside version 0, "
        f"now version {now['version']}, inside version {now['inside version']})"
    ]


def ids(parts):
    return {run.id for part in parts for run in part.runs()}


def test_what_is_not_published_is_all_that_is_run():
    table, dope = published(), pl.col("learner") == "DOPE"
    before = ids(unpublished(table))
    gone = table.filter(dope & ((pl.col("seed") == 301) | (pl.col("family") == "media-v1")))
    assert gone.height == 24 + 2
    rest = table.filter(~pl.col("run").is_in(gone["run"].to_list()))
    assert ids(unpublished(rest)) == before | set(gone["run"].to_list())
    everything = ids(suite_experiments())
    assert ids(unpublished(table.head(0))) == everything
    assert before == everything - set(table["run"].to_list())


def test_rows_of_runs_of_the_present_suite_are_kept_and_no_others(tmp_path):
    table, path = published(), tmp_path / "again.parquet"
    present = table.filter(pl.col("run").is_in(list(ids(suite_experiments()))))
    assert present.height > 1000
    other = present.with_row_index().with_columns(
        pl.when(pl.col("index") == 5).then(pl.lit("0" * 16)).otherwise(pl.col("run")).alias("run"),
        pl.lit("another name").alias("learner"),
    )
    there, frame = publish(Store(tmp_path / "empty"), path, other.drop("index").sample(fraction=1.0, shuffle=True))
    assert there == path
    expected = present.filter(pl.col("run") != present["run"][5]).sort("family", "learner", "seed")
    assert frame.equals(expected)
    assert pl.read_parquet(path).equals(expected)


@pytest.mark.parametrize(
    ("learner", "family"),
    [
        ("FlexDOME, practical", "independent-v1"),
        ("RPD-OE", "conflict-v1"),
        ("DOPE", "paper-v1"),
        ("ProxDOME", "media-v1"),
        ("Guard of FlexDOME", "media-v1"),
    ],
)
def test_published_numbers_come_again(learner, family, tmp_path):
    rows = published().filter(pl.col("learner") == learner, pl.col("family") == family)
    if not rows.height or outdated(rows):
        pytest.skip(f"{learner} on {family} is not published with its present version")
    row = rows.row(0, named=True)
    run = RunSpec(
        environment={"id": family},
        learner=LearnerSpec(id=row["id"], options=json.loads(row["options"]), problem=json.loads(row["told"])),
        instance=row["instance"],
        seed=row["seed"],
        episodes=row["episodes"],
    )
    assert run.id == row["run"]
    spec = named_experiment("ranking").changed(
        seeds=(run.seed,), environments=(run.environment,), learners=(run.learner,)
    )
    store = Store(tmp_path)
    run_experiments([spec], store)
    (again,) = final_numbers(store, [spec]).iter_rows(named=True)
    others = published().filter(pl.col("run") != run.id)
    frame = publish(store, tmp_path / "published.parquet", others)[1]
    (beside,) = frame.filter(pl.col("run") == run.id).iter_rows(named=True)
    assert {name: again[name] for name in NUMBERS} == {name: beside[name] for name in NUMBERS}
    assert beside["learner"] == learner
    assert run.id not in ids(unpublished(frame))
    for name in NUMBERS:
        if row[name] is None:  # no exponent where there was no violation
            assert again[name] is None, name
        else:
            assert again[name] == pytest.approx(row[name], rel=1e-6, abs=1e-9), name


def test_a_learner_that_fails_on_a_family_is_ranked_with_that_said(tmp_path):
    spec = entry_experiment(entry_learner("flexdome"), quick=True)
    here = (pl.col("learner") == "FlexDOME", pl.col("family").is_in(QUICK), pl.col("seed") == 300)
    own = published().filter(*here).head(2)
    own = own.with_columns(pl.lit("flexdome").alias("learner"), pl.lit("x").alias("run"))
    broken = own.with_row_index().with_columns(
        *(pl.when(pl.col("index") == 0).then(None).otherwise(pl.col(name)).alias(name) for name in NUMBERS),
        pl.when(pl.col("index") == 0).then(pl.lit("it broke")).alias("failure"),
    )
    standing = entrant(spec, broken.drop("index"), quick=True)
    assert standing.families["failed"].to_list() == [1, 0]
    assert standing.families["beaten"][0].count(";") > 5
    from flexdome.ranking.standing_page import sentences_of

    assert any("it broke" in text for text in sentences_of(standing))
    assert any("quick part" in text for text in sentences_of(standing))
    assert "It is honest about one thing alone: whether the learner works." in DOCS.read_text(encoding="utf-8")
    assert any("It tells whether the learner works, and nothing else" in text for text in sentences_of(standing))
    assert any("exponent 0.9 or more" in text for text in sentences_of(standing))
    assert "exponent of at least 0.9" in DOCS.read_text(encoding="utf-8")


def test_the_command_prints_draws_and_writes_a_page(tmp_path, capsys, monkeypatch):
    from flexdome.ranking import entering

    def small(learner, quick=False):
        spec = entry_experiment(learner, quick=True)
        return spec.changed(environments=spec.environments[-1:], seeds=spec.seeds[:1])

    monkeypatch.setattr(entering, "entry_experiment", small)
    monkeypatch.setattr("flexdome.ranking.entry_experiment", small)
    words = ["rank", "optcmdp-bonus", "--option", "replan=1.1", "--quick", "--workers", "0", "--out", str(tmp_path)]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "optcmdp-bonus, replan=1.1 is " in out
    assert "against every other learner" in out
    assert (tmp_path / "figures" / "rank-quick.png").stat().st_size > 1000
    page = (tmp_path / "rank-quick.html").read_text()
    assert "Where optcmdp-bonus, replan=1.1 stands" in page
    assert "Claimed and measured rates" not in page
    assert ">not run<" not in page
    names = re.search(r"<tr><th scope=.row.>\S+-v1</th>.*?</tr>", page)[0]
    assert re.search(r'<td class="words">[^<]*, [^<]*</td></tr>', names)
    numbers = pl.read_parquet(tmp_path / "figures" / "rank-quick.parquet")
    assert np.isfinite(numbers["strong_regret"].drop_nulls().to_numpy()).all()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "LEARNER is missing"),
        (["flexdom"], "did you mean flexdome"),
        (["flexdome", "--option", "margin_scale=0,1"], "one setting is ranked at a time"),
        (["flexdome", "--publish"], "publish takes no learner"),
        (["--stored"], "stored is true without publish"),
        (["--anew"], "anew is true without publish"),
    ],
)
def test_wrong_words_are_one_line(words, message, capsys):
    assert main(["rank", *words]) == 2
    assert message in capsys.readouterr().err


if __name__ == "__main__":
    before, after = re.split(r"\| learner \| score \|(?:.*\n)(?:\|.*\n)*", DOCS.read_text(encoding="utf-8"))
    DOCS.write_text(before + table() + after, encoding="utf-8")
