"""One page for each environment: what it is, a picture, exact numbers, options, versions."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import flexdome as fd

from .docstrings import options_table, parts, text_of

__all__ = ["contents", "page", "snippet"]

SHARED = {
    "states": "how many states there are",
    "actions": "how many actions there are",
    "horizon": "steps of an episode",
    "constraints": "how many constraints there are",
    "fraction": "where the threshold lies: 0 is the utility of the best policy for reward, 1 the largest utility",
}
PRACTICE = "what the safe optimum does there, and what learners do while they learn"
TOYS = "what learners do there"
SHOWN = {  # a figure of its own, the chapter that tells it, and what it shows
    "propofol-v1": ("propofol", "applications", PRACTICE),
    "grid-storage-v1": ("grid-storage", "applications", PRACTICE),
    "admission-v1": ("admission", "applications", PRACTICE),
    "frozen-lake-v1": ("toy-text", "gymnasium", TOYS),
    "cliff-walking-v1": ("toy-text", "gymnasium", TOYS),
    "taxi-v1": ("toy-taxi", "gymnasium", TOYS),
}


@cache
def truth(id: str) -> tuple[fd.CMDP, fd.planning.Solution, float]:
    """The instance of seed 0, its optimum and its Slater gap."""
    cmdp = fd.make_cmdp(id, seed=0)
    best = fd.solve(cmdp)
    return cmdp, best, best.slater_gap


def page(id: str) -> str:
    """The whole page, as Markdown."""
    entry = fd.ENVIRONMENTS[id]
    told = parts(text_of(entry.load()))
    body = "\n\n".join(text for text in (told.idea, told.steps) if text)
    sections = dict(told.sections)
    versions = sections.pop("Versions", "")
    table = options_table(entry.load(), ("seed",), SHARED)
    lines = [f"# {id}", "", f"**{told.title.rstrip('.')}.**", "", body, ""]
    lines += [f"![What can be had in {id}, and where the optimum goes]({id}.png)", "", caption(id), ""]
    if id in SHOWN:
        figure, chapter, what = SHOWN[id]
        lines += ["## While it is learned", "", f"![{id}: {what}](../figures/{figure}.png)", ""]
        lines += [f"How to read it, and the table: [{what}](../{chapter}.md).", ""]
    lines += ["## Numbers", "", "Exact, for the instance of seed 0 and the default options.", "", numbers(id), ""]
    lines += ["## Try it", "", "```python", snippet(id).rstrip(), "```", ""]
    if table:
        lines += ["## Options", "", f'Given to `fd.make_cmdp("{id}", seed, ...)`.', "", table, ""]
    for name, text in sections.items():
        if name not in ("Parameters", "Examples", "Returns"):
            lines += [f"## {name}", "", text, ""]
    lines += [
        "## Versions",
        "",
        "An edit that changes an instance makes a new version.",
        "",
        "```text",
        versions,
        "```",
        "",
    ]
    return "\n".join([*lines, "[All environments](index.md), [which one to choose](../families.md).", ""])


def caption(id: str) -> str:
    """What the picture shows."""
    many = truth(id)[0].constraints > 1
    first = "Left: everything that a policy can have" + (", one panel for each constraint" if many else "")
    return (
        f"*{first}. Every policy is a point of the grey area; those to the right of the dashed line meet the "
        f"threshold. The star is the constrained optimum, the circle the uniform policy, the triangle the best policy "
        f"without {'constraints' if many else 'the constraint'}. Right: where the optimum goes; darker is likelier.*"
    )


def numbers(id: str) -> str:
    """Sizes and the truth."""
    cmdp, best, gap = truth(id)
    _, uniform = fd.baselines(cmdp).uniform
    rows = [
        ("states, actions, steps", f"{cmdp.states}, {cmdp.actions}, {cmdp.horizon}"),
        ("constraints", str(cmdp.constraints)),
        ("thresholds", ", ".join(f"{alpha:.4f}" for alpha in cmdp.alpha)),
        ("observed", "means" if cmdp.noise == "none" else "0 or 1, with those means"),
        ("the same at every step", "yes" if cmdp.stationary else "no"),
        ("optimum V_r*", f"{best.value:.4f}"),
        ("its utilities", ", ".join(f"{value:.4f}" for value in best.utilities)),
        ("multipliers", ", ".join(f"{value:.4f}" for value in best.multipliers)),
        ("Slater gap", f"{gap:.4f}"),
        (
            "uniform policy",
            f"reward {uniform.value:.4f}, utilities " + ", ".join(f"{u:.4f}" for u in uniform.utilities),
        ),
    ]
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {text} |" for name, text in rows)])


def snippet(id: str) -> str:
    """A few lines that build and solve it."""
    lines = ["import flexdome as fd", "", f'cmdp = fd.make_cmdp("{id}", seed=0)', "best = fd.solve(cmdp)"]
    lines += ['print(f"{best.value:.4f}", best.multipliers, best.slater_gap)']
    return "\n".join(lines) + "\n"


def contents(ids: Iterable[str]) -> str:
    """The chapter that lists them all."""
    ids = list(ids)
    lines = [
        "# All environments",
        "",
        f"There are {len(ids)} named CMDPs. Each has a page with a picture and its exact numbers.",
    ]
    lines += ["[Which one to choose](../families.md) is a chapter of its own.", ""]
    lines += ["| id | what it is | S | A | H | m |", "|---|---|---:|---:|---:|---:|"]
    for id in ids:
        cmdp = truth(id)[0]
        sizes = f"{cmdp.states} | {cmdp.actions} | {cmdp.horizon} | {cmdp.constraints}"
        lines += [f"| [`{id}`]({id}.md) | {fd.ENVIRONMENTS[id].summary} | {sizes} |"]
    return "\n".join([*lines, "", "```{toctree}", ":hidden:", "", *ids, "```", ""])
