"""A learner made with any option that is allowed can be saved, and its own file is read again."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

import flexdome as fd
from flexdome.learners import Learner
from runs import small_cmdp

CMDP = small_cmdp(3, S=2, A=2, H=2, law="steps")
EXTREMES = (0.0, 1e-300, 1e-30, 1e9, 1e30, 1e95, 1e100)
SKIPPED = {"problem", "seed", "safe_policy", "replan", "schedules", "episodes"}


def numbers(name: str) -> list[str]:
    """The options that may be given a number."""
    parameters = inspect.signature(fd.LEARNERS[name].load()).parameters
    return [
        option
        for option, given in parameters.items()
        if option not in SKIPPED and (given.default is None or isinstance(given.default, float))
    ]


def made_or_refused(name: str, option: str, value: float, needs: dict[str, Any]) -> Learner | None:
    try:
        return fd.make_learner(name, CMDP.problem(), episodes=5, **needs, **{option: value})
    except fd.ValidationError as error:
        message = str(error)
    assert option in message or "too large" in message, message
    return None


@pytest.mark.parametrize("name", list(fd.LEARNERS))
def test_a_learners_own_file_is_read_again_at_every_allowed_number(name: str, tmp_path: Path) -> None:
    path, made = tmp_path / "learner", 0
    needs: dict[str, Any] = {}
    if "safe policy" in fd.LEARNERS[name].needs:
        needs["safe_policy"] = fd.safe_policy(CMDP, 0.02)
    for option in numbers(name):
        for value in EXTREMES:
            learner = made_or_refused(name, option, value, needs)
            if learner is None:
                continue
            made += 1
            try:
                fd.simulate(learner, CMDP)
            except fd.ConvergenceError:  # a program whose numbers differ by 1e30 may have no solution in float64
                assert value > 1e6
            learner.save(path)
            again = fd.load_learner(path)
            assert (again.policy == learner.policy).all(), (option, value)
            assert (again.multipliers == learner.multipliers).all(), (option, value)
            assert again.episode == learner.episode
    assert made >= 3


@pytest.mark.parametrize("name", ["optcmdp", "dope", "s-ops", "cpd-po", "omdpd", "optdual"])
def test_a_file_is_checked_before_anything_is_planned(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs = {"safe_policy": fd.safe_policy(CMDP, 0.02)} if "safe policy" in fd.LEARNERS[name].needs else {}
    learner = fd.make_learner(name, CMDP.problem(), episodes=5, **needs)
    fd.simulate(learner, CMDP)
    learner.save(tmp_path / "learner")
    larger = small_cmdp(3, S=2, A=200, H=2, law="steps").problem()
    monkeypatch.setattr(learner, "first_problem", larger)
    monkeypatch.setattr(learner, "_problem", larger)
    learner.save(tmp_path / "enlarged")

    def plan(*_: Any) -> None:
        raise AssertionError("planned")

    monkeypatch.setattr(type(learner), "_plan", plan)
    assert fd.load_learner(tmp_path / "learner").episode == 5
    with pytest.raises(fd.FileFormatError):
        fd.load_learner(tmp_path / "enlarged")
