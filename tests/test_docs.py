"""What the pages say is run."""

import doctest
import re
import runpy
from importlib import import_module
from pathlib import Path

import pytest

import flexdome as fd
from flexdome.experiments import load_experiment

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SNIPPETS = [
    pytest.param(code, id=f"{page.name}-{k}")
    for page in PAGES
    for k, code in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.S))
]
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
    runpy.run_path(str(script))


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
        assert (page.parent / target).exists(), target


def test_every_public_name_is_importable_and_documented():
    for name in fd.__all__:
        value = getattr(fd, name)
        if callable(value):
            assert value.__doc__, name


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = fd.nothing


def test_importing_flexdome_loads_nothing_heavy():
    import subprocess
    import sys

    code = "import sys, flexdome; print([m for m in ('numpy', 'numba', 'scipy', 'highspy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
def test_the_table_of_the_paper_settings_is_what_is_measured():
    import sys

    sys.path.insert(0, str(ROOT))
    from benchmarks.paper_settings import table

    page = (ROOT / "docs" / "flexdome.md").read_text()
    stated = page.split("<!-- table -->\n")[1].split("\n<!-- end -->")[0]
    assert stated == table()


@pytest.mark.parametrize("id", list(fd.LEARNERS))
def test_a_learner_says_what_changed_between_its_versions(id):
    entry = fd.LEARNERS[id]
    assert len(entry.changes) == entry.version - 1
    pages = "\n".join(page.read_text() for page in PAGES)
    for version, change in enumerate(entry.changes, 2):
        assert f"- `{id}`, version {version}: {change}." in pages
