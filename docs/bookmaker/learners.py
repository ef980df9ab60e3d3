"""One page for each learner: its row of the registry, its docstring, its options, what was measured, its versions."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterable

import flexdome as fd
from flexdome.cli.pages import SHARED
from flexdome.learners import Entry
from flexdome.learners.registry import UNCLAIMED

from .docstrings import options_table, parts, text_of
from .measured import measured, numbers, theory_alone

__all__ = ["contents", "name_of", "page", "snippet"]

FAMILIES = {  # in the book's order: heading, chapter, a sentence
    "primal_dual": (
        "Primal-dual learners",
        "peers",
        "A few passes over what was visited in each episode: a step of the policy, a step of the multipliers.",
    ),
    "programs": (
        "Learners that solve a program",
        "programs",
        "A linear or convex program, or dynamic programs over a confidence set, whenever they plan.",
    ),
    "proximal": ("ProxDOME", "proxdome", "Ours: plans exactly in every episode. No theorem, many measurements."),
    "guarded": ("Never unsafe, with a proof", "suredome", "Ours: safety is a theorem, the rate of regret is not."),
}
WORDS = {
    "Slater gap": "a lower bound on the Slater gap",
    "exact Slater gap": "the exact Slater gap",
    "known thresholds": "thresholds that are known, as its paper assumes",
    "safe policy": "a policy that is known to be safe",
}


def family_of(entry: Entry) -> str:
    """The folder that the learner lives in."""
    return entry.target.split(".")[2]


def name_of(id: str) -> str:
    """What its paper calls it."""
    cls = fd.LEARNERS[id].load()
    name = re.split(r" \(|:|\.|,", text_of(sys.modules[cls.__module__]))[0]
    return name if " " not in name else cls.__name__.removesuffix("ed")


def page(id: str) -> str:
    """The whole page, as Markdown."""
    entry = fd.LEARNERS[id]
    cls = entry.load()
    told = parts(text_of(sys.modules[cls.__module__]))
    sections = dict(told.sections)
    own = sections.pop("Reconstructed", "")
    lines = [f"# {name_of(id)}", "", f"**{told.title.rstrip('.')}.**", "", card(entry), ""]
    lines += ["## The idea", "", f"In a few words: {entry.summary}.", "", told.idea, ""]
    lines += ["## Step by step", "", told.steps, ""] if told.steps else []
    lines += ["## Try it", "", "```python", snippet(id).rstrip(), "```", "", *caution(id)]
    lines += ["## Options", "", options_table(cls, ("problem",), SHARED), ""]
    lines += ["## What it needs", "", *needs(entry), "", "## What is claimed", "", *claims(entry), ""]
    lines += ["## What is reconstructed", "", *reconstructed(entry, own), ""]
    lines += ["## What was measured", "", *measured(id, numbers()), ""]
    for name, text in sections.items():
        lines += [f"## {name}", "", text, ""]
    lines += ["## Versions", "", *versions(entry), "", "## More", "", more(entry)]
    return "\n".join(lines) + "\n"


def card(entry: Entry) -> str:
    """What one wants to see first."""
    rows = [
        ("id", f"`{entry.id}`, version {entry.version}"),
        ("source", entry.citation.replace("docs/suredome.md", "[the proof](../suredome.md)")),
        ("regret", entry.regret),
        ("violation", entry.violation),
        ("last iterate", "claimed to converge" if entry.last_iterate else "no claim"),
        ("draws", "random numbers of its own" if entry.randomises else "nothing: the same episodes, the same policy"),
        ("planning", entry.replanning or "a few passes over what was visited"),
    ]
    head, *rest = (f"| {name} | {text} |" for name, text in rows)
    return "\n".join([head, "|---|---|", *rest])


def snippet(id: str) -> str:
    """A few lines that run it."""
    entry = fd.LEARNERS[id]
    known = inspect.signature(entry.load()).parameters
    options = ["episodes=300"] if "episodes" in known else []
    lines = ["import flexdome as fd", "", 'cmdp = fd.make_cmdp("media-v1")']
    if "safe policy" in entry.needs:
        lines += [
            "safe = fd.safe_policy(cmdp, 0.5 * fd.slater_gap(cmdp))  # of your own: fd.SafePolicy(policy, utilities)"
        ]
        options += ["safe_policy=safe"]
    if id == "guard":
        lines += ['inside = fd.FlexDOME(cmdp.problem(), episodes=300, tuning="practical")']
        lines += ["learner = fd.Guard(inside, safe, delta=0.05)"]
    else:
        options += ['tuning="practical"'] if "tuning" in known else []
        options += ["replan=1.1"] if "replan" in known else []
        lines += [f'learner = fd.make_learner("{id}", cmdp.problem(), {", ".join(options)})']
    lines += ["history = fd.simulate(learner, cmdp, episodes=300, seed=0)"]
    lines += ['print(f"regret {history.strong_regret[-1]:.1f}, violation {history.strong_violation[-1]:.1f}")']
    return "\n".join([*lines, "print(learner.status())"]) + "\n"


def caution(id: str) -> list[str]:
    """That the lines to try are not in the tuning of the theorem."""
    if theory_alone(id, {"tuning": "practical"}) is None:
        return []
    known = inspect.signature(fd.LEARNERS[id].load()).parameters
    also = " and `replan`" if "replan" in known else ""
    theory = f"without `tuning`{also}" if known["tuning"].default == "theory" else 'with `tuning="theory"`'
    return [
        f"Practical tuning learns within a few hundred episodes, and voids what is claimed below: {theory} its "
        "constants are those of its theorem.",
        "",
    ]


def needs(entry: Entry) -> list[str]:
    """What it must be told beside the sizes."""
    if not entry.needs:
        return ["Nothing but the problem: sizes, first states, and thresholds or samples of them."]
    return [f"- {WORDS.get(one, one)}" for one in entry.needs]


def claims(entry: Entry) -> list[str]:
    """What its paper claims, in sentences."""
    if not entry.claims:
        return ["Nothing is claimed: there is no theorem about it. What was measured is all there is."]
    rows = [f"- **Regret**: {entry.regret}.", f"- **Violation**: {entry.violation}."]
    rows += ["- **Last iterate**: the last policy itself converges."] if entry.last_iterate else []
    if UNCLAIMED in (entry.regret, entry.violation):
        rows += ["", "Where nothing is claimed, what was measured is all there is."]
    return [
        *rows,
        "",
        "*Strong* sums positive parts; *weak* lets good episodes cancel bad ones ([the words](../problem.md)).",
    ]


def reconstructed(entry: Entry, own: str) -> list[str]:
    """Which parts are not the paper's own words."""
    if not entry.reconstructed:
        return [
            "Nothing: the formulas are those of its source."
            if "this library" not in entry.citation
            else "Nothing: it is ours."
        ]
    said = "Not every constant is printed in the paper. These parts are a guess, a derivation or a memory:"
    return [said, "", *(f"- {part}" for part in entry.reconstructed), "", own]


def versions(entry: Entry) -> list[str]:
    """How it changed."""
    rows = [f"- `{entry.id}`, version {number}: {change}." for number, change in enumerate(entry.changes, 2)]
    return [
        "A learner gets a new version when its results change.",
        "",
        f"- `{entry.id}`, version 1: the first.",
        *rows,
    ]


def more(entry: Entry) -> str:
    """Where to read on."""
    heading, chapter, _ = FAMILIES[family_of(entry)]
    own = (
        "[FlexDOME, measured](../flexdome.md), [the paper, line by line](../paper.md), "
        if entry.id == "flexdome"
        else ""
    )
    module = entry.target.split(":")[0].replace(".", "/")
    return f"{own}[{heading.lower()}](../{chapter}.md). The source: `src/{module}.py`."


def contents(ids: Iterable[str]) -> str:
    """The chapter that lists them all."""
    ids = list(ids)
    lines = [
        "# All learners",
        "",
        f"There are {len(ids)}. Each has a page of its own, made from its row of the registry.",
    ]
    lines += ["`flexdome list learners` prints the same table, `flexdome show ID` one row of it.", ""]
    for folder, (heading, chapter, sentence) in FAMILIES.items():
        mine = [id for id in ids if family_of(fd.LEARNERS[id]) == folder]
        lines += [f"## {heading}", "", f"{sentence} [More](../{chapter}.md).", ""]
        lines += ["| learner | | regret claimed | violation claimed | needs |", "|---|---|---|---|---|"]
        for id in mine:
            entry = fd.LEARNERS[id]
            row = (
                f"[{name_of(id)}]({id}.md)",
                entry.summary,
                entry.regret,
                entry.violation,
                ", ".join(entry.needs) or "nothing",
            )
            lines += ["| " + " | ".join(row) + " |"]
        lines += [""]
    lines += ["```{toctree}", ":hidden:", "", *ids, "```"]
    return "\n".join(lines) + "\n"
