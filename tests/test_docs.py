"""What the pages say is run."""

import ast
import doctest
import inspect
import re
import runpy
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import polars as pl
import pytest

import flexdome as fd
from flexdome.experiments import load_experiment
from flexdome.ranking.published import SCHEMA

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs"))

import bookmaker  # noqa: E402
from bookmaker.docstrings import parts  # noqa: E402
from bookmaker.environments import page as environment_page  # noqa: E402
from bookmaker.learners import page as learner_page  # noqa: E402
from bookmaker.measured import measured  # noqa: E402
from bookmaker.pictures import PICTURES  # noqa: E402

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
WRITTEN = [
    pytest.param(code, id=f"{page.name}-{k}")
    for page in PAGES
    for k, code in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.S))
]
MADE = [pytest.param(code, id=page) for page, code in bookmaker.snippets().items()]
SNIPPETS = WRITTEN + MADE
MODULES = sorted(
    ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
    for path in (ROOT / "src" / "flexdome").rglob("*.py")
    if path.name not in ("__init__.py", "__main__.py") and ">>>" in path.read_text()
)


@pytest.mark.parametrize("code", SNIPPETS)
def test_every_snippet_runs(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "snippet.py"
    script.write_text(code)
    if "__main__" in code:  # its own workers import it
        subprocess.run([sys.executable, script.name], cwd=tmp_path, check=True, timeout=300)
    else:
        runpy.run_path(str(script))


def test_the_experiment_on_the_first_page_is_valid(tmp_path):
    (text,) = re.findall(r"```toml\n(.*?)```", (ROOT / "docs" / "start.md").read_text(), re.S)
    (tmp_path / "first.toml").write_text(text)
    load_experiment(tmp_path / "first.toml").check()


def test_the_experiment_on_the_page_is_valid(tmp_path):
    (text,) = re.findall(r"```toml\n(.*?)```", (ROOT / "docs" / "experiments.md").read_text(), re.S)
    (tmp_path / "inventory.toml").write_text(text)
    fd.save_cmdp(fd.make_cmdp("media-v1"), tmp_path / "my-model.npz")
    experiment = load_experiment(tmp_path / "inventory.toml")
    experiment.check()
    assert [environment.name for environment in experiment.environments] == ["inventory-v1", "our warehouse"]


@pytest.mark.parametrize("module", [*MODULES, "flexdome.families"])
def test_every_docstring_example_holds(module):
    failed, tried = doctest.testmod(import_module(module))
    assert tried > 0
    assert failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text()):
        made = (page.parent / target).relative_to(ROOT / "docs").parts if page.parent.name == "docs" else ()
        if made[:1] in (("learners",), ("environments",), ("pictures",)):  # not kept, but written with the book
            assert made[1].split(".")[0] in (*bookmaker.LEARNERS, *bookmaker.ENVIRONMENTS, *PICTURES, "index"), target
        else:
            assert (page.parent / target).exists(), target


def test_a_heading_of_a_docstring_stands_on_a_line_of_its_own():
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                found = re.search(r"-{5,} \w.*", ast.get_docstring(node) or "")
                assert found is None, f"{path.name}: {found and found.group()}"


def test_every_public_name_is_importable_and_documented():
    for name in fd.__all__:
        value = getattr(fd, name)
        if callable(value):
            assert value.__doc__, name


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = fd.nothing


def test_importing_flexdome_loads_nothing_heavy():
    code = "import sys, flexdome; print([m for m in ('numpy', 'numba', 'scipy', 'highspy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
def test_the_table_of_the_paper_settings_is_what_is_measured():
    sys.path.insert(0, str(ROOT))
    from benchmarks.paper_settings import table

    page = (ROOT / "docs" / "flexdome.md").read_text()
    stated = page.split("<!-- table -->\n")[1].split("\n<!-- end -->")[0]
    assert stated == table()


@pytest.mark.parametrize("id", bookmaker.LEARNERS)
def test_a_learner_says_what_changed_between_its_versions(id):
    entry = fd.LEARNERS[id]
    assert len(entry.changes) == entry.version - 1
    page = learner_page(id)
    for version, change in enumerate(entry.changes, 2):
        assert f"- `{id}`, version {version}: {change}." in page


@pytest.mark.parametrize("id", bookmaker.LEARNERS)
def test_the_page_of_a_learner_tells_every_option_and_what_it_is(id):
    options = learner_page(id).split("## Options\n")[1].split("\n## ")[0]
    rows = [row for row in options.splitlines() if row.startswith("| `")]
    assert len(rows) >= 2
    assert [row for row in rows if not row.split("|")[3].strip()] == []


def test_scales_of_flexdome_are_told_apart():
    rows = {row.split("|")[1].strip(): row for row in learner_page("flexdome").splitlines() if row.startswith("| `")}
    assert "of eta_t of Theorem 1" in rows["`step_scale`"]
    assert "of tau_t of Theorem 1" in rows["`regularisation_scale`"]


@pytest.mark.parametrize("id", bookmaker.ENVIRONMENTS)
def test_the_page_of_an_environment_tells_every_option_and_what_it_is(id):
    page = environment_page(id)
    known = [name for name in inspect.signature(fd.ENVIRONMENTS[id].load()).parameters if name != "seed"]
    options = page.split("## Options\n")[1].split("\n## ")[0] if known else ""
    rows = [row for row in options.splitlines() if row.startswith("| `")]
    assert [row.split("`")[1] for row in rows] == known
    assert [row for row in rows if not row.split("|")[3].strip()] == []


@pytest.mark.parametrize(
    ("id", "options", "said"),
    [
        ("optpess-lp", '{"tuning": "practical"}', "practical tuning, which voids the guarantee"),
        ("optpess-lp", "{}", None),  # the default is the theory's
        ("flexdome", "{}", "stated tuning, which voids the guarantee"),
        ("flexdome", '{"tuning": "theory"}', None),
        ("proxdome", "{}", None),  # claims nothing
        ("suredome", "{}", None),  # has no tunings
    ],
)
def test_numbers_in_another_tuning_than_the_theorems_say_that_they_have_no_guarantee(id, options, said):
    row = {"learner": "Mine", "id": id, "code": "{}", "options": options, "told": "{}", "seed": 300, "episodes": 20}
    row |= {"family": "media-v1", "strong_regret": 1.0, "strong_violation": 0.5, "late_violation": 0.0}
    page = "\n".join(measured(id, pl.DataFrame([row], schema=SCHEMA)))
    assert ("voids the guarantee" in page) == (said is not None)
    assert said is None or said in page


def test_the_lines_to_try_say_where_their_tuning_has_no_guarantee():
    said = "voids what is claimed below: without `tuning` and `replan` its constants are those of its theorem"
    assert said in learner_page("optpess-lp")
    assert 'with `tuning="theory"` its constants' in learner_page("flexdome")
    assert "voids what is claimed" not in learner_page("proxdome")


def test_the_page_of_a_learner_has_its_rows_of_the_ranking():
    row = {
        "learner": "Mine",
        "id": "mine",
        "code": "{}",
        "options": '{"c": 2}',
        "told": "{}",
        "seed": 300,
        "episodes": 20,
    }
    rows = [
        row | {"family": "media-v1", "strong_regret": 1234.0, "strong_violation": 0.5, "late_violation": 0.0},
        row | {"family": "media-v1", "learner": "Other", "id": "other", "strong_regret": 9.0, "strong_violation": 0.1},
        row | {"family": "tight-v1", "failure": "no plan"},
    ]
    page = measured("mine", pl.DataFrame(rows, schema=SCHEMA))
    assert page[0] == (
        "Published for [the ranking](../ranking.md): 2 of its 24 families, on which its score is -1.00. "
        "20 episodes, seeds 300; failed runs: 1. With `c = 2`."
    )
    assert page[-2:] == ["| `media-v1` | 1 | 1,234 | 0.5 | 0 |", "| `tight-v1` | 0 | failed | failed | failed |"]
    assert measured("nobody", pl.DataFrame(rows, schema=SCHEMA))[0].startswith("No run of it")


def test_a_docstring_is_taken_apart_where_its_formula_begins():
    told = parts(
        "Name (Who).\n\nOne idea. With n = 1\n\n    x = n\n\nand ``y``.\n\nLoose ends\n----------\nIt costs $1.\n"
    )
    assert (told.title, told.idea) == ("Name (Who).", "One idea.")
    assert told.steps == "With n = 1\n\n```text\nx = n\n```\n\nand `y`."
    assert told.sections == {"Loose ends": "It costs \\$1."}


def test_every_public_name_is_in_the_reference():
    page = (ROOT / "docs" / "reference.md").read_text()
    assert (
        set(dir(fd)) - set(re.findall(r"^   (\w+)$", page, re.M)) - set(re.findall(r"py:data:: (\w+)", page)) == set()
    )


def test_every_chapter_is_in_the_book():
    listed = re.findall(r"^([\w/-]+)$", (ROOT / "docs" / "index.md").read_text(), re.M)
    assert {page.stem for page in PAGES[1:]} - set(listed) == {"index"}


def test_every_line_of_the_paper_lives_where_the_chapter_says():
    named = re.findall(r"`([\w/]+\.py):(\w+)`", (ROOT / "docs" / "paper.md").read_text())
    assert len(named) >= 12
    for path, name in named:
        tree = ast.parse((ROOT / "src" / "flexdome" / path).read_text())
        assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}, (path, name)


def test_the_first_page_is_short_and_counts_right():
    page = (ROOT / "README.md").read_text()
    assert len(page.splitlines()) < 120
    assert f"| {len(bookmaker.LEARNERS)} learners |" in page
    assert f"| {len(bookmaker.ENVIRONMENTS)} environments |" in page
