"""How figures look, and how they get onto disk.

The paper's colours for its three learners, a colour-blind-safe extension (Okabe and Ito 2008, without the hues that
come too close to the paper's) for everything else, and line patterns so that nothing depends on colour alone. No
``pyplot``, no state: figures are drawn and saved under ``RC``, whatever the user's own settings are.

Files are the same bytes whenever and wherever they are written with the same versions: no dates, fixed ids in SVG,
Matplotlib's own fonts only (as outlines in SVG, embedded in PDF).
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, cast

import matplotlib as mpl
import matplotlib.colors
import polars as pl
from matplotlib.artist import Artist
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.mathtext import MathTextParser
from matplotlib.transforms import Bbox

from flexdome.analysis.frames import as_table
from flexdome.cmdp.archive import as_path, write_whole
from flexdome.cmdp.validation import as_float, as_items, as_positive, as_text, instance_of, one_of, shown
from flexdome.errors import OutputError, ValidationError

__all__ = [
    "COLOURS",
    "ONE_COLUMN",
    "RC",
    "TWO_COLUMNS",
    "LineStyle",
    "as_width",
    "drawing",
    "legend_above",
    "new_figure",
    "readable",
    "save",
    "styles_for",
]

ONE_COLUMN, TWO_COLUMNS = 3.25, 6.75  # inches
NARROWEST, WIDEST = 2.0, 100.0  # inches
MOST_NAMES = 10_000
FORMATS = ("png", "svg", "pdf")
COLOURS = {"crimson": "#DC143C", "royalblue": "#4169E1", "darkgrey": "#A9A9A9"}
Dashes = tuple[float, ...]

RC: dict[str, Any] = {
    "figure.dpi": 100,
    "savefig.dpi": 300,
    "savefig.bbox": "standard",
    "savefig.facecolor": "white",
    "figure.facecolor": "white",
    "figure.constrained_layout.h_pad": 0.03,
    "figure.constrained_layout.w_pad": 0.04,
    "font.family": "STIXGeneral",
    "mathtext.fontset": "stix",
    "font.size": 8,
    "axes.titlesize": 8.5,
    "axes.labelsize": 7.5,
    "axes.labelpad": 2.5,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.minor.size": 1.5,
    "ytick.minor.size": 1.5,
    "xtick.minor.width": 0.4,
    "ytick.minor.width": 0.4,
    "legend.fontsize": 7.5,
    "legend.handletextpad": 0.5,
    "legend.frameon": False,
    "legend.handlelength": 2.2,
    "legend.columnspacing": 1.4,
    "lines.linewidth": 1.2,
    "lines.markersize": 4,
    "path.simplify": True,
    "svg.fonttype": "path",
    "svg.hashsalt": "flexdome",
    "pdf.fonttype": 42,
    "pdf.compression": 6,
}
METADATA: dict[str, dict[str, str | None]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": "flexdome"},
    "pdf": {"CreationDate": None, "Creator": "flexdome", "Producer": None},
}


@dataclass(frozen=True)
class LineStyle:
    """Colour, dashes (on, off, ... in line widths; empty is solid), marker and width of one learner's line."""

    colour: str
    dashes: Dashes = ()
    marker: str = "o"
    width: float = 1.2

    def __post_init__(self) -> None:
        if not isinstance(self.colour, str) or not matplotlib.colors.is_color_like(self.colour):
            raise ValidationError(f"colour is {shown(self.colour)}; it must be the name of a colour")
        rule = "it must be lengths on and off, as many of each"
        dashes = as_items("dashes", self.dashes, rule, MOST_NAMES)
        if len(dashes) % 2:
            raise ValidationError(f"dashes has {len(dashes)} lengths; {rule}")
        object.__setattr__(
            self, "dashes", tuple(as_positive(f"dashes[{k}]", one, WIDEST) for k, one in enumerate(dashes))
        )
        markers = [name for name in Line2D.markers if isinstance(name, str)]
        one_of("marker", self.marker, markers, "a marker of Matplotlib")
        as_positive("width", self.width, WIDEST)

    @property
    def pattern(self) -> Any:
        """The dashes as Matplotlib has them."""
        return (0, self.dashes) if self.dashes else "-"


FLEXDOME = LineStyle(COLOURS["crimson"], (), "o", 1.5)
UOPT = LineStyle(COLOURS["royalblue"], (5.0, 1.2), "s")
VANILLA = LineStyle(COLOURS["darkgrey"], (), "^")
KNOWN = {
    "flexdome": FLEXDOME,
    "uopt-rpgpd": UOPT,
    "uopt-rpgp": UOPT,
    "vanilla pd": VANILLA,
    "optprimaldual": VANILLA,
}
MORE = (
    LineStyle("#E69F00", (3.0, 1.0), "D"),
    LineStyle("#009E73", (5.0, 1.0, 1.0, 1.0), "v"),
    LineStyle("#000000", (1.2, 1.2), "p"),
    LineStyle("#CC79A7", (7.0, 1.5), "X"),
    LineStyle("#56B4E9", (3.0, 1.0, 1.0, 1.0, 1.0, 1.0), "<"),
    LineStyle("#8C510A", (2.0, 1.0), ">"),
    LineStyle("#5E3C99", (8.0, 1.0, 2.0, 1.0), "P"),
    LineStyle("#666666", (1.0, 2.0), "h"),
)
AGAIN = ("s", "^", "*", "o", "D", "d", "8", "v")  # markers where a colour is used a second time


def styles_for(names: Iterable[str]) -> dict[str, LineStyle]:
    """A style for every name: the paper's for the paper's learners, the others in the order they come.

    >>> styles_for(["FlexDOME", "mine"])["FlexDOME"].colour
    '#DC143C'
    """
    styles: dict[str, LineStyle] = {}
    taken = 0
    for k, item in enumerate(as_items("names", names, "it must be names of lines", MOST_NAMES)):
        name = as_text(f"names[{k}]", item)
        if name in styles:
            continue
        known = KNOWN.get(name.lower())
        if known is not None and known not in styles.values():
            styles[name] = known
            continue
        again, which = divmod(taken, len(MORE))
        base = MORE[which]
        dashes = (*base.dashes, 1.0, 2.0 + again)
        marker = AGAIN[(which + again - 1) % len(AGAIN)]
        styles[name] = base if not again else LineStyle(base.colour, dashes, marker)
        taken += 1
    return styles


@contextmanager
def drawing() -> Iterator[None]:
    """Our settings in place of the user's, for as long as a figure is drawn or saved."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(cast(Any, RC))
        yield


def as_width(width: Any) -> float:
    """The width of a figure, in inches."""
    return as_float("width", width, NARROWEST, WIDEST)


def new_figure(width: float, height: float) -> Figure:
    """An empty figure in inches, laid out so that nothing overlaps; call it while :func:`drawing`."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def extent(figure: Figure, artist: Artist) -> Bbox:
    """Where an artist is, in pixels, as Agg draws it."""
    return artist.get_window_extent(cast(Any, figure.canvas).get_renderer())


@cache
def readable(text: str) -> str:
    """``text`` itself, or with its dollar signs as they stand where it is no mathematics that can be drawn."""
    try:
        for line in text.split("\n"):  # as they are drawn: mathematics has no line breaks
            MathTextParser("path").parse(line)
    except ValueError:
        return text.replace("\\$", "$").replace("$", "\\$")
    return text


def legend_above(figure: Figure, handles: Sequence[Artist], names: Sequence[str]) -> None:
    """One legend over all panels, in as many lines as its width needs; the figure grows by them."""
    width, height = figure.get_size_inches()
    names = [readable(name) for name in names]

    def put(columns: int) -> Legend:
        return figure.legend(handles, names, loc="outside upper center", ncols=columns, borderaxespad=0.0)

    columns = len(names)
    while columns > 1:
        legend = put(columns)
        fits = extent(figure, legend).width <= 0.97 * width * figure.dpi
        legend.remove()
        if fits:
            break
        columns -= 1
    lines = -(-len(names) // columns)
    legend = put(-(-len(names) // lines))  # lines of about the same length
    figure.set_size_inches(width, height + extent(figure, legend).height / figure.dpi)


def save(
    figure: Figure,
    stem: str | os.PathLike[str],
    formats: Sequence[str] = FORMATS,
    data: pl.DataFrame | None = None,
) -> list[Path]:
    """Write ``<stem>.png``, ``.svg`` and ``.pdf``, and the data behind as ``<stem>.parquet``: each whole or not at all.

    Everything is drawn before anything is written.
    """
    instance_of("figure", figure, Figure)
    rule = f"one of {', '.join(FORMATS)}"
    items = as_items("formats", formats, f"each must be {rule}", MOST_NAMES)
    formats = list(dict.fromkeys(one_of(f"formats[{k}]", name, FORMATS, rule) for k, name in enumerate(items)))
    target = as_path("stem", stem)
    if target.name in ("", ".."):
        raise ValidationError(f"stem is {shown(stem)}; it must end with a name")
    contents: dict[str, bytes] = {}
    with drawing():
        for name in formats:
            buffer = io.BytesIO()
            figure.savefig(buffer, format=cast(Literal["png"], name), metadata=cast(Any, METADATA[name]))
            contents[name] = buffer.getvalue()
    if data is not None:
        buffer = io.BytesIO()
        try:
            as_table("data", data, {}).write_parquet(buffer, compression="zstd", statistics=False)
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            raise ValidationError(f"data cannot be stored as a table: {error}") from None
        contents["parquet"] = buffer.getvalue()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{target.parent} cannot be written: {error.strerror or error}") from error
    paths = []
    for name, content in contents.items():
        path = target.with_name(f"{target.name}.{name}")
        write_whole(path, content)
        paths.append(path)
    return paths
