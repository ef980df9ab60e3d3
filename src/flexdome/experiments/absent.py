"""Learners of a store whose class is not here, or takes other options by now.

Results are found by what the store says of a learner's code; only a run needs the class.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import PrivateAttr, model_validator

from flexdome.cmdp import CMDP
from flexdome.errors import FlexDOMEError, ValidationError
from flexdome.experiments.code import Code
from flexdome.experiments.specs import LearnerSpec
from flexdome.experiments.worker import reason_of
from flexdome.learners import Learner

__all__ = ["AbsentLearner", "stored_learner"]


class AbsentLearner(LearnerSpec):
    """A learner that cannot be made here; its code is the one that its store has."""

    _code: Code = PrivateAttr(default_factory=dict)
    _reason: str = PrivateAttr("")

    @model_validator(mode="after")
    def _known(self) -> AbsentLearner:
        return self

    @property
    def code(self) -> Code:
        """Which code it was."""
        return dict(self._code)

    @property
    def absent(self) -> str:
        """Why it cannot be made."""
        return self._reason

    @property
    def saved_as(self) -> str | None:
        """Nobody knows."""
        return None

    def make(self, cmdp: CMDP, episodes: int, seed: int) -> Learner:
        """Refused."""
        raise ValidationError(self._reason)


def stored_learner(row: Any, code: Mapping[str, Code]) -> Any:
    """The learner in a row of a stored experiment; one that cannot be made here is an :class:`AbsentLearner`.

    ``code`` has by their names which code the experiment's learners were. A row that is no learner comes back as it is.
    """
    if not isinstance(row, dict):
        return row
    try:
        found = LearnerSpec(**row)
        _ = found.code  # also of the learner inside a guard
        return found
    except Exception as error:  # noqa: BLE001 (of somebody's package: whatever it is, it is why the learner is not there)
        reason = reason_of(error)
    try:
        absent = AbsentLearner(**row)
    except FlexDOMEError:
        return row
    if absent.name not in code:
        return row
    absent._code, absent._reason = dict(code[absent.name]), reason
    return absent
