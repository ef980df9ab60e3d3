"""Who notices a wrong constant? Every number, comparison and operator of a formula is changed, one at a time.

    python -m benchmarks.mutants                         everything (``make mutants``)
    python -m benchmarks.mutants learners/flexdome.py    files whose path ends so
    python -m benchmarks.mutants --list                  what would be changed, and nothing run
    python -m benchmarks.mutants --sample 50 --seed 3    fifty of them
    python -m benchmarks.mutants --unlisted              without those that are listed as harmless

``mutants.toml`` beside this file says which sources are changed and which tests (as pytest takes them: a file, and
perhaps ``-k``), the quickest first, are to notice. Each mutant is a child of this process, in which the changed text
stands for the source file when it is imported, and which runs those tests until one fails. Children are forked after
the libraries were imported and the kernels loaded, so that a mutant takes about a second: mutation tools that start an
interpreter for each take hours here, and those that switch between versions of a function do not reach tables of
constants at the top of a module. Machine code is kept for the text on disk and would hide a change, so a target of
kernels says ``compiled = false``: its children run them, and whatever was not imported before, as plain Python.

A mutant that no test notices is a survivor. Survivors that change no formula (a tolerance inside a solver, the size of
a chunk) are listed in ``mutants.toml``, each with its reason; any other is printed and the command exits with 1. So
does an entry of that list which matches nothing any more.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import importlib.machinery
import os
import random
import resource
import shlex
import signal
import sys
import time
import tomllib
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src" / "flexdome"
LIBRARIES = ("numpy", "scipy.optimize", "scipy.stats", "numba", "polars", "pydantic", "matplotlib.pyplot", "rich.table")
LONGEST_TESTS = 600  # seconds of processor time for tests that nothing was changed for
LIBRARIES += ("pytest", "hypothesis", "hypothesis.extra.numpy", "highspy", "tyro")
NEIGHBOURS = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.Pow: ("**", "*"),
}
STAYING = ("errors", "kernels", "cmdp", "planning", "families")  # rooms that stay imported from mutant to mutant
PATIENCE = 3.0  # times the tests' own processor time, and ten seconds: a mutant that takes longer does not end


@dataclass(frozen=True)
class Mutant:
    """One change: ``old`` becomes ``new`` at a place of a file."""

    path: Path
    line: int
    column: int
    begin: int  # in bytes of the file
    old: str
    new: str
    text: str  # the line as it stands

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.path.relative_to(SOURCES)}:{self.line}:{self.column}: {self.old} -> {self.new}   | {self.text}"

    def applied(self) -> bytes:
        """The changed file."""
        source = self.path.read_bytes()
        return source[: self.begin] + self.new.encode() + source[self.begin + len(self.old.encode()) :]


def numbers(value: float) -> tuple[str, ...]:
    """Two other numbers of the same kind."""
    if isinstance(value, int):
        return str(value + 1), str(value - 1)
    return ("1.0", "-1.0") if value == 0.0 else (repr(2.0 * value), repr(0.5 * value))


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Every change of a file, in the order of the text."""
    source = path.read_bytes()
    lines = source.splitlines(keepends=True)
    offsets = [0]
    for line in lines:
        offsets.append(offsets[-1] + len(line))

    def place(line: int, column: int) -> int:
        return offsets[line - 1] + column

    def change(begin: int, line: int, old: str, new: str) -> Mutant:
        return Mutant(path, line, begin - offsets[line - 1] + 1, begin, old, new, lines[line - 1].decode().strip())

    def between(left: ast.expr, right: ast.expr, old: str, new: str) -> Iterator[Mutant]:
        begin, end = place(left.end_lineno, left.end_col_offset), place(right.lineno, right.col_offset)
        at = source[begin:end].find(old.encode())
        if at >= 0:
            line = source[: begin + at].count(b"\n") + 1
            yield change(begin + at, line, old, new)

    found = []
    for node in _formulas(ast.parse(source)):
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            old = source[place(node.lineno, node.col_offset) : place(node.end_lineno, node.end_col_offset)].decode()
            found += [change(place(node.lineno, node.col_offset), node.lineno, old, n) for n in numbers(node.value)]
        elif isinstance(node, ast.Compare):
            for left, sign, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
                if type(sign) in NEIGHBOURS:
                    found += between(left, right, *NEIGHBOURS[type(sign)])
        elif isinstance(node, ast.BinOp) and type(node.op) in NEIGHBOURS:
            found += between(node.left, node.right, *NEIGHBOURS[type(node.op)])
    yield from sorted(found, key=lambda mutant: mutant.begin)


def _formulas(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a module outside annotations, f-strings and error messages."""
    for name, child in ast.iter_fields(tree):
        if name in ("annotation", "returns", "type_params"):
            continue
        for node in child if isinstance(child, list) else [child]:
            if isinstance(node, ast.AST) and not isinstance(node, ast.JoinedStr | ast.Raise):
                yield node
                yield from _formulas(node)


class _Changed(importlib.machinery.SourceFileLoader):
    """Imports a module from the changed text."""

    text: bytes

    def get_data(self, path: str) -> bytes:
        return self.text if path == self.path else super().get_data(path)

    def path_stats(self, path: str) -> dict[str, float]:
        raise OSError("no compiled file is read or written")


class _Finder:
    """Finds the changed module, and no other."""

    def __init__(self, mutant: Mutant) -> None:
        parts = mutant.path.relative_to(SOURCES).with_suffix("").parts
        package = parts[-1] == "__init__"
        self.name = ".".join(("flexdome", *(parts[:-1] if package else parts)))
        self.mutant, self.package = mutant, package

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        if name != self.name:
            return None
        loader = _Changed(name, str(self.mutant.path))
        loader.text = self.mutant.applied()
        return importlib.util.spec_from_file_location(
            name, self.mutant.path, loader=loader,
            submodule_search_locations=[str(self.mutant.path.parent)] if self.package else None,
        )  # fmt: skip


def _warm(learners: bool) -> None:
    """Import what no mutant changes, and load the kernels: planning's, and by a few episodes those of each learner."""
    for name in LIBRARIES:
        importlib.import_module(name)
    import flexdome as fd

    cmdp = fd.make_cmdp("independent-v1", states=3, actions=2, horizon=2)
    safe = fd.safe_policy(cmdp, 0.5 * fd.slater_gap(cmdp))
    fd.iterate(cmdp, fd.Schedules(0.1, 0.1), 2)
    for id in fd.LEARNERS if learners else ():
        needs = {"safe_policy": safe} if "safe policy" in fd.LEARNERS[id].needs else {}
        learner = fd.make_learner(id, cmdp.problem(), episodes=3, **needs)
        fd.simulate(learner, cmdp)
        learner.beliefs()
    for name in [name for name in sys.modules if name.partition(".")[0] == "flexdome"]:
        if name.split(".")[1:2] not in [[room] for room in STAYING]:
            del sys.modules[name]


def _child(mutant: Mutant | None, tests: list[str], log: Path, limit: int, compiled: bool) -> None:
    """Run the tests in this (forked) process, file after file, and leave it; 0 means that none failed."""
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))  # ends by itself, whatever the change does
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    code = 1
    try:
        import pytest

        os.chdir(ROOT)
        if not compiled:
            importlib.import_module("numba").config.DISABLE_JIT = True
            for name in [name for name in sys.modules if name.startswith("flexdome.kernels")]:
                del sys.modules[name]  # those that plain Python calls are to be plain Python too
        if mutant is not None:
            sys.meta_path.insert(0, _Finder(mutant))
        options = ["-x", "-q", "-p", "no:cacheprovider", "-m", "not slow", "--no-header"]
        options += ["--assert=plain", "--tb=line", "-p", "no:unraisableexception", "-p", "pytest_timeout"]
        for test in tests:
            code = int(pytest.main([*options, *shlex.split(test)]))
            if code != 0:
                break
    except BaseException:  # noqa: BLE001 (whatever the change does, this process ends here)
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0 if code == 0 else 1)


@dataclass(frozen=True)
class Tests:
    """What is to notice: tests, as pytest takes them, with kernels compiled or as plain Python."""

    tests: tuple[str, ...]
    compiled: bool
    learners: bool  # whether they run learners, whose kernels are then loaded before


Work = tuple[Mutant | None, Tests]


@dataclass
class _Running:
    work: Work
    log: Path


@dataclass(frozen=True)
class Outcome:
    """Whether the tests failed, and how many seconds of processor time they took."""

    mutant: Mutant | None
    tests: Tests
    noticed: bool
    seconds: float


def run(work: list[Work], workers: int, logs: Path, limits: dict[Tests, int]) -> Iterator[Outcome]:
    """The outcome of each, as they come."""
    running: dict[int, _Running] = {}
    queue = list(reversed(work))
    count = 0
    try:
        while queue or running:
            while queue and len(running) < workers:
                mutant, tests = queue.pop()
                log = logs / f"{count:05d}.log"
                count += 1
                pid = os.fork()
                if pid == 0:
                    _child(mutant, list(tests.tests), log, limits.get(tests, LONGEST_TESTS), tests.compiled)
                running[pid] = _Running((mutant, tests), log)
            pid, status, used = os.wait4(-1, 0)
            item = running.pop(pid)
            if status != 0 and item.work[0] is not None:
                item.log.unlink(missing_ok=True)
            yield Outcome(*item.work, status != 0, used.ru_utime + used.ru_stime)
    finally:
        for left in running:
            os.killpg(left, signal.SIGKILL)


def plan(
    settings: dict[str, list[dict[str, object]]], wanted: list[str]
) -> tuple[list[tuple[Mutant, Tests]], list[dict[str, object]]]:
    """All mutants with the tests that are to notice, and the list of those that change no formula."""
    work, seen = [], set()
    for target in settings["target"]:
        tests = Tests(tuple(target["tests"]), bool(target.get("compiled", True)), bool(target.get("learners", True)))
        for pattern in target["sources"]:
            paths = sorted(SOURCES.glob(pattern))
            if not paths:
                raise SystemExit(f"mutants.toml: no source matches {pattern!r}")
            for path in paths:
                room = path.relative_to(SOURCES).parts[0].removesuffix(".py")
                if room in STAYING:
                    raise SystemExit(
                        f"mutants.toml: {pattern!r} is below {room}, which stays imported from mutant to mutant: its "
                        "changes would never run; a source must be in another room"
                    )
                if path in seen or (wanted and not any(str(path).endswith(end) for end in wanted)):
                    continue
                seen.add(path)
                work += [(mutant, tests) for mutant in mutants_of(path)]
    return work, settings.get("harmless", [])


def lines(entry: dict[str, object]) -> list[str]:
    """The parts of lines that an entry names."""
    line = entry["line"]
    return list(line) if isinstance(line, list) else [str(line)]


def harmless(mutant: Mutant, entries: list[dict[str, object]]) -> str | None:
    """Why this change may go unnoticed, if the list says so; that part of the entry is marked as used."""
    for entry in entries:
        of = mutant.old == entry.get("old", mutant.old) and mutant.new == entry.get("new", mutant.new)
        if of and str(mutant.path).endswith(entry["file"]):
            for part in lines(entry):
                if part in mutant.text:
                    entry.setdefault("used", set()).add(part)
                    return str(entry["why"])
    return None


def main() -> int:
    """Print who survives."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("files", nargs="*", help="ends of paths below src/flexdome; all where none is given")
    parser.add_argument("--list", action="store_true", help="print the mutants and run nothing")
    parser.add_argument("--unlisted", action="store_true", help="leave out those that mutants.toml lists as harmless")
    parser.add_argument("--sample", type=int, help="only so many of them, drawn at random")
    parser.add_argument("--seed", type=int, default=0, help="of that draw")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--logs", type=Path, default=ROOT / ".mutants", help="where survivors' test output is kept")
    options = parser.parse_args()
    settings = tomllib.loads((Path(__file__).parent / "mutants.toml").read_text())
    work, entries = plan(settings, options.files)
    listed = [harmless(mutant, entries) is not None for mutant, _ in work]
    if options.unlisted:
        work = [item for item, known in zip(work, listed, strict=True) if not known]
    if options.sample is not None:
        work = random.Random(options.seed).sample(work, min(options.sample, len(work)))
    if options.list:
        for mutant, _ in work:
            print(mutant.name)
        print(f"{len(work)} mutants")
        return 0
    options.logs.mkdir(exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    _warm(any(tests.learners for _, tests in work))
    began = time.monotonic()
    limits: dict[Tests, int] = {}
    sets = list(dict.fromkeys(tests for _, tests in work))
    for unchanged in run([(None, tests) for tests in sets], options.workers, options.logs, {}):
        limits[unchanged.tests] = int(PATIENCE * unchanged.seconds) + 10
        if unchanged.noticed:
            print(f"the tests fail without any change: see {options.logs}")
            return 1
    survivors, excused = [], 0
    for done, outcome in enumerate(run(work, options.workers, options.logs, limits), start=1):
        mutant = outcome.mutant
        if mutant is not None and not outcome.noticed:
            if harmless(mutant, entries) is not None:
                excused += 1
            else:
                survivors.append(mutant)
                print(f"survives  {mutant.name}", flush=True)
        if done % 100 == 0:
            minutes = (time.monotonic() - began) / 60.0
            print(
                f"{done} of {len(work)}, {len(survivors)} survivors, {minutes:.0f} minutes", file=sys.stderr, flush=True
            )
    named = [] if options.files else [(entry, line) for entry in entries for line in lines(entry)]
    stale = [(entry["file"], line) for entry, line in named if line not in entry.get("used", ())]
    for file, line in stale:
        print(f"mutants.toml: matches nothing any more: {file}: {line}")
    print(
        f"{len(work)} mutants, {len(work) - len(survivors) - excused} noticed, {excused} that change no formula, "
        f"{len(survivors)} survivors"
    )
    return 1 if survivors or stale else 0


if __name__ == "__main__":
    sys.exit(main())
