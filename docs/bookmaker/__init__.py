"""The pages that a registry determines: one for each learner, one with a picture for each environment.

Nothing of them is kept: a page says what the registry, the docstring and the package's own results say on the day the
book is made. A page is written only if it changed, so that Sphinx reads again what is new. Pictures are drawn again
when a source that they depend on has changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from hashlib import sha256
from pathlib import Path

import flexdome
import flexdome as fd

from . import environments, learners, pictures

__all__ = ["ENVIRONMENTS", "LEARNERS", "make", "snippets"]

LEARNERS = tuple(id for id in fd.LEARNERS if fd.LEARNERS[id].target.startswith("flexdome."))
ENVIRONMENTS = tuple(fd.ENVIRONMENTS)
DRAWN_FROM = ("families", "cmdp", "planning", "kernels", "figures")  # an environment's picture
PLAYED_WITH = (*DRAWN_FROM, "learners", "simulation", "analysis")  # a chapter's


def snippets() -> dict[str, str]:
    """The Python on the pages that are made, by page."""
    found = {f"learners/{id}": learners.snippet(id) for id in LEARNERS}
    return found | {f"environments/{id}": environments.snippet(id) for id in ENVIRONMENTS}


def make(folder: Path) -> None:
    """Write pages and pictures into the book's folder."""
    for name in ("learners", "environments", "pictures"):
        (folder / name).mkdir(exist_ok=True)
    draw(folder)
    for id in LEARNERS:
        write(folder / "learners" / f"{id}.md", learners.page(id))
    for id in ENVIRONMENTS:
        write(folder / "environments" / f"{id}.md", environments.page(id))
    write(folder / "learners" / "index.md", learners.contents(LEARNERS))
    write(folder / "environments" / "index.md", environments.contents(ENVIRONMENTS))


def write(path: Path, text: str) -> None:
    """Write a page if it says something new."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def draw(folder: Path) -> None:
    """Draw what is not there, and what a changed source may have changed."""
    maps = {id: partial(pictures.environment, id) for id in ENVIRONMENTS}
    for room, drawings, rooms in (("pictures", pictures.PICTURES, PLAYED_WITH), ("environments", maps, DRAWN_FROM)):
        stamp, now = folder / room / "sources.txt", sources(rooms)
        fresh = stamp.exists() and stamp.read_text() == now
        for name, drawing in drawings.items():
            if not fresh or not (folder / room / f"{name}.png").exists():
                pictures.keep(drawing(), folder / room / f"{name}.png")
        stamp.write_text(now)


def sources(rooms: Iterable[str]) -> str:
    """A fingerprint of everything that a picture is drawn from."""
    folders = [Path(flexdome.__file__).parent / room for room in rooms]
    files = [path for folder in folders for path in sorted(folder.rglob("*.py"))]
    files += [Path(__file__).with_name("pictures.py"), Path(__file__).parents[1] / "start.md"]
    return sha256(b"".join(path.read_bytes() for path in files)).hexdigest()
