"""The paper's figures and ours."""

from flexdome.figures.curves import Row, comparison_figure, curves_figure
from flexdome.figures.inside import inside_figure
from flexdome.figures.pareto import pareto_figure, pareto_front
from flexdome.figures.policy_map import policy_figure
from flexdome.figures.sensitivity import sensitivity_figure
from flexdome.figures.style import ONE_COLUMN, TWO_COLUMNS, LineStyle, save, styles_for
from flexdome.figures.sweep_scores import sweep_figure
from flexdome.figures.table import table_cells, table_figure, table_markdown

__all__ = [
    "ONE_COLUMN",
    "TWO_COLUMNS",
    "LineStyle",
    "Row",
    "comparison_figure",
    "curves_figure",
    "inside_figure",
    "pareto_figure",
    "pareto_front",
    "policy_figure",
    "save",
    "sensitivity_figure",
    "styles_for",
    "sweep_figure",
    "table_cells",
    "table_figure",
    "table_markdown",
]
