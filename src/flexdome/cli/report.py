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
    serve: bool = False,
    port: int = 8765,
) -> None:
    """Write one HTML file with everything in a directory of results: charts, tables, and what is behind them.

    The file opens from disk, without a network. While runs are under way, --serve shows them to a browser on this
    machine, as they finish, until it is interrupted.

    For example:
      flexdome report results
      flexdome report results --page results.html
      flexdome report results --serve

    Args:
        out: directory of the results
        page: where the file goes
        serve: write no file, but serve the page on the loopback address, up to date
        port: where it is served; 0: wherever there is room
    """
    from flexdome.cli.experiments import warn
    from flexdome.experiments import Store
    from flexdome.report import ReportServer, write_report

    if serve:
        with ReportServer(Store(out), port) as server:
            print(f"{server.address} (Ctrl-C ends it)", flush=True)
            server.serve_forever()
        return
    target = write_report(Store(out), page, warn)
    print(f"{target} ({target.stat().st_size / 1e6:.1f} MB)")
