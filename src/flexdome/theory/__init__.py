"""The paper's schedules, constants and bounds: formulas only."""

from flexdome.theory.constants import bonus_logs, burn_in, error_constant, margin_coefficient
from flexdome.theory.schedules import Schedules, theorem1, theorem2

__all__ = [
    "Schedules",
    "bonus_logs",
    "burn_in",
    "error_constant",
    "margin_coefficient",
    "theorem1",
    "theorem2",
]
