"""The page of a directory of results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from flexdome.cli.experiments import DEFAULT, Directory

__all__ = ["report"]


def report(
    out: Directory = DEFAULT,
    /,
    page: Annotated[Path | None, tyro.conf.arg(metavar="PATH", help_behavior_hint="(default: DIR/report.html)")] = None,
) -> None:
    """Write one HTML file with everything in a directory of results: charts, tables, and what is behind them.

    The file opens from disk, without a network.

    For example:
      flexdome report results
      flexdome report results --page results.html

    Args:
        out: directory of the results
        page: where the file goes
    """
    from flexdome.cli.experiments import warn
    from flexdome.experiments import Store
    from flexdome.report import write_report

    target = write_report(Store(out), page, warn)
    print(f"{target} ({target.stat().st_size / 1e6:.1f} MB)")
