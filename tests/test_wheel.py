"""The package as others get it: built, installed where nothing else is, and tried outside the checkout."""

import ast
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from email import message_from_bytes
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
TRIED = """
import flexdome as fd
from importlib.metadata import version

assert version("flexdome") == fd.__version__
cmdp = fd.make_cmdp("media-v1")
assert abs(fd.solve(cmdp).value - 3.2533) < 1e-4
history = fd.simulate(fd.FlexDOME(cmdp.problem(), episodes=50), cmdp)
assert history.strong_violation.shape == (50,)
assert all(entry.load() for entry in fd.LEARNERS.values())
from flexdome.experiments import named_experiment
assert named_experiment("fixed").seeds
from flexdome.report import make_page
print("whole", fd.__file__.partition("/lib/")[0])
"""


def run(*command, **options):
    """What a command prints; its complaint is that of the test."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=600, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", folder, ROOT)
    (path,) = folder.glob("flexdome-*.whl")
    return path


@pytest.fixture(scope="module")
def metadata(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return message_from_bytes(archive.read(name))


@pytest.mark.parametrize("fetch", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["ours", "fetched"])
def test_a_wheel_works_in_a_clean_environment_outside_the_checkout(wheel, tmp_path, fetch):
    """With the libraries of this environment, of which it sees the modules and no installed package; or its own."""
    venv.create(tmp_path / "clean", with_pip=False, symlinks=True)
    python = tmp_path / "clean" / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-compile"]
    if fetch:
        install += ["-c", ROOT / "constraints.txt"]
    else:
        install += ["--no-deps"]
        (site,) = (tmp_path / "clean" / "lib").glob("python*/site-packages")
        (site / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    done = subprocess.run([*map(str, install), str(wheel)], capture_output=True, text=True, timeout=600)
    if done.returncode and re.search(r"No matching distribution|Temporary failure|Connection|timed out", done.stderr):
        pytest.skip(f"the dependencies cannot be fetched here: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    elsewhere = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if not fetch:
        elsewhere["NUMBA_DISABLE_JIT"] = "1"  # kernels are kept by their path: there they would all be compiled anew
    assert run(python, "-c", TRIED, cwd=tmp_path, env=elsewhere).strip() == f"whole {tmp_path / 'clean'}"
    said = run(tmp_path / "clean" / "bin" / "flexdome", "--version", cwd=tmp_path, env=elsewhere)
    assert PROJECT["version"] in said


def test_every_library_that_is_imported_is_declared():
    declared = [
        *PROJECT["dependencies"],
        *(one for extra in PROJECT["optional-dependencies"].values() for one in extra),
    ]
    names = {re.match(r"[\w.-]+", line)[0].lower().replace("_", "-") for line in declared} | {"flexdome"}
    owners = packages_distributions()
    imported = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                imported.add(node.module.partition(".")[0])
    foreign = imported - sys.stdlib_module_names - {"flexdome"}
    assert "numpy" in foreign
    missing = {name for name in foreign if not {one.lower().replace("_", "-") for one in owners[name]} & names}
    assert not missing


def test_the_page_of_a_package_has_no_link_to_a_file_beside_it(metadata):
    text = metadata.get_payload()
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert links
    assert [link for link in links if not re.match("https?:", link)] == []


def test_links_to_files_lead_into_the_repository_where_it_is_named(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from hatch_build import absolute

    text = "![A figure](docs/a.png), [words](docs/b.md), [an article](https" + "://arxiv.org/abs/1), [here](#part)"
    there = "there"
    assert absolute(text, there) == (
        "![A figure](there/raw/main/docs/a.png), [words](there/blob/main/docs/b.md), "
        "[an article](https" + "://arxiv.org/abs/1), [here](#part)"
    )
    assert absolute(text, None) == "A figure, words, [an article](https" + "://arxiv.org/abs/1), [here](#part)"


def test_the_metadata_name_authors_pages_and_the_pythons_that_were_tried(metadata):
    assert metadata["Author"] == "The flexdome developers"
    assert {"Paper"} <= {line.partition(",")[0] for line in metadata.get_all("Project-URL")}
    stated = [line.rpartition(" ")[2] for line in metadata.get_all("Classifier") if re.search(r":: 3\.\d+$", line)]
    assert stated == ["3.11", "3.12", "3.13"]


def test_the_citation_is_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert (citation["version"], citation["license"]) == (PROJECT["version"], PROJECT["license"])
    assert citation["references"][0]["identifiers"][0]["value"] == "arXiv:2602.10917"
    assert f"## {PROJECT['version']} ({citation['date-released']})" in (ROOT / "CHANGELOG.md").read_text()
