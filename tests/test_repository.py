"""The repository itself: its checks say what they do, and its files name no machine and no place to download from."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
ARTICLE = "https://arxiv.org/abs/"  # a page to read is no address to download from
READ = re.escape(ARTICLE.partition("://")[2])
LEAKS = {
    "a download address": re.compile(rf"(?:https?|ftp|ssh|git\+\w+)://(?!{READ})\S+", re.I),
    "a package registry": re.compile(
        r"py" + r"pi\b|python" + r"hosted|ana" + r"conda|conda-" + r"forge|(?:extra-)?index-" + r"url|find-" + r"links",
        re.I,
    ),
    "a path of one machine": re.compile(
        r"(?<![\w.~-])(?:/(?:ho" + r"me|Use" + r"rs|ro" + r"ot|wo" + r"rk|mn" + r"t|sr" + r"v|t" + r"mp)/\w|[A-Z]:\\\w)"
    ),
}


def leaks(text):
    """What a text names that it must not, as ``(kind, words)``."""
    return [(kind, found.group()) for kind, pattern in LEAKS.items() for found in pattern.finditer(text)]


def tracked_texts():
    """Path and content of every tracked file that is text."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("which files are tracked is known to git alone, and this is no checkout with git at hand")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        path = ROOT / name
        data = path.read_bytes() if path.is_file() else b""
        if b"\0" not in data:
            yield name, data.decode()


def test_no_tracked_file_names_a_download_address_a_registry_or_a_path_of_one_machine():
    texts = dict(tracked_texts())
    assert {"README.md", "constraints.txt", "src/flexdome/__init__.py", "tests/test_repository.py"} <= set(texts)
    assert [(name, *leak) for name, text in texts.items() for leak in leaks(text)] == []


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("a download address", "numpy @ https" + "://example.org/numpy.whl"),
        ("a download address", "git+ssh" + "://git@example.org/flexdome"),
        ("a package registry", "--index-" + "url"),
        ("a package registry", "files.python" + "hosted.org"),
        ("a package registry", "py" + "pi.org"),
        ("a path of one machine", "see /ho" + "me/someone/flexdome"),
        ("a path of one machine", "'/Use" + "rs/someone'"),
        ("a path of one machine", "(/t" + "mp/results)"),
        ("a path of one machine", "C:" + "\\Users"),
    ],
)
def test_what_must_not_be_named_is_seen(kind, text):
    assert kind in {found for found, _ in leaks(text)}


@pytest.mark.parametrize("text", [f"{ARTICLE}2602.10917", "/usr/bin/env bash", "docs/home/page", "results/tmp/x"])
def test_articles_and_relative_paths_may_be_named(text):
    assert leaks(text) == []


def test_every_constraint_is_an_exact_version():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert len(lines) > 20
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!_]+", line)] == []


def test_the_pythons_that_are_tested_are_those_that_the_package_names():
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    named = [row.rpartition(" ")[2] for row in told if re.search(r":: 3\.\d+$", row)]
    made = re.search(r"^PYTHONS := (.*)$", (ROOT / "Makefile").read_text(), re.M)[1].split()
    assert named == made == ["3.11", "3.12", "3.13"]


def test_the_hooks_before_a_commit_run_what_make_lint_and_make_types_run():
    rules = (ROOT / "Makefile").read_text()
    made = [
        command
        for target in ("lint", "types")
        for command in re.search(rf"^{target}:.*\n((?:\t.*\n)+)", rules, re.M)[1].splitlines()
    ]
    hooks = [
        hook
        for repository in yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
        for hook in repository["hooks"]
    ]
    assert [command.strip().replace("$(BIN)", ".venv/bin") for command in made] == [hook["entry"] for hook in hooks]
    for hook in hooks:  # whole, and from the project's environment
        assert (hook["language"], hook["pass_filenames"]) == ("system", False)
        assert not {"types", "files", "exclude"} & set(hook)


def test_every_change_that_is_listed_as_harmless_can_be_made_and_every_test_that_is_to_notice_is_there():
    from benchmarks import mutants

    settings = tomllib.loads((ROOT / "benchmarks" / "mutants.toml").read_text())
    work, entries = mutants.plan(settings, [])
    for mutant, _ in work:
        mutants.harmless(mutant, entries)
    assert not [
        (one["file"], line) for one in entries for line in mutants.lines(one) if line not in one.get("used", ())
    ]
    files = {word for _, tests in work for test in tests.tests for word in test.split() if word.startswith("tests/")}
    assert files
    assert not [file for file in files if not (ROOT / file).is_file()]


@pytest.mark.parametrize(
    "source", ["errors.py", "kernels/bellman.py", "cmdp/mask.py", "planning/*.py", "families/*.py"]
)
def test_a_source_that_stays_imported_cannot_be_changed_and_is_refused_by_name(source):
    from benchmarks import mutants

    target = {"sources": [source], "tests": ["tests/planning/test_planning.py"]}
    room = source.split("/")[0].removesuffix(".py")
    with pytest.raises(SystemExit, match=rf"{re.escape(source)}' is below {room}, which stays imported"):
        mutants.plan({"target": [target]}, [])
