"""The audit as a table, as text and as files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from flexdome.audit.errata import Erratum
from flexdome.audit.figures import counts_figure, finding_figure, last_iterate_figure
from flexdome.audit.findings import Finding
from flexdome.audit.theorem_2 import LastIterates
from flexdome.cmdp.archive import write_whole
from flexdome.figures import save

__all__ = ["Audit", "Part"]


@dataclass(frozen=True)
class Part:
    """The findings for one setting of FlexDOME on one environment, and the errata with its numbers."""

    environment: str
    learner: str
    findings: tuple[Finding, ...]
    errata: tuple[Erratum, ...]
    last: tuple[LastIterates, ...] = ()


@dataclass(frozen=True)
class Audit:
    """Every statement in every setting; ``skipped`` says which learners are no FlexDOME, or none that this is about."""

    name: str
    parts: tuple[Part, ...]
    skipped: tuple[str, ...] = ()

    @property
    def findings(self) -> list[Finding]:
        """All of them."""
        return [finding for part in self.parts for finding in part.findings]

    def table(self) -> pl.DataFrame:
        """One row for each statement and setting."""
        rows = [
            {
                "environment": part.environment,
                "learner": part.learner,
                "key": finding.key,
                "statement": finding.statement,
                "place": finding.place,
                "setting": finding.setting,
                "word": finding.word,
                "verdict": finding.verdict,
                "where": finding.where,
                "run": finding.run,
                "excess": finding.excess,
                "speaks_from": finding.speaks_from,
                "checked": finding.checked,
                "note": finding.note,
            }
            for part in self.parts
            for finding in part.findings
        ]
        return pl.DataFrame(rows, infer_schema_length=None)

    def markdown(self) -> str:
        """Tables to read: what was found, and the errata."""
        lines = [f"# Audit of {self.name}", ""]
        for part in self.parts:
            lines += [f"## {part.learner} on {part.environment}", ""]
            lines += ["| statement | place | setting | verdict | looked at | |", "|---|---|---|---|---|---|"]
            lines += [
                _row(f.statement, f.place, f.setting, f.verdict, f"{f.checked:,}", f.note) for f in part.findings
            ]  # fmt: skip
            lines += ["", "### Errata, with the numbers of this problem", ""]
            lines += ["| place | claim | instead | here |", "|---|---|---|---|"]
            lines += [_row(e.place, e.claim, e.instead, e.number) for e in part.errata]
            lines.append("")
        if self.skipped:
            lines += ["Not looked at: " + "; ".join(self.skipped) + ".", ""]
        return "\n".join(lines)

    def write(self, out: Path, figures: bool = True) -> list[Path]:
        """``audit.csv``, ``audit.md`` and, with ``figures``, a PNG for each statement under ``out``; the paths."""
        out.mkdir(parents=True, exist_ok=True)
        files = [out / "audit.csv", out / "audit.md"]
        write_whole(files[0], self.table().write_csv().encode())
        write_whole(files[1], self.markdown().encode())
        for part in self.parts if figures else ():
            folder = out / "figures" / _name(f"{part.environment}-{part.learner}")
            for finding in part.findings:
                if finding.series:
                    stem = folder / _name(f"{finding.key}-{finding.setting}")
                    files += save(finding_figure(finding), stem, formats=("png",))
            if part.last:
                files += save(last_iterate_figure(part.last), folder / "theorem-2", formats=("png",))
            counted = [finding for finding in part.findings if finding.share is not None]
            if counted:
                files += save(counts_figure(counted), folder / "events", formats=("png",))
        return files


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _name(text: str) -> str:
    kept = "".join(c if c.isalnum() or c in "-._" else "-" for c in text)
    while "--" in kept:
        kept = kept.replace("--", "-")
    return kept.strip("-.") or "audit"
