"""Gymnasium, both ways: arguments, one at a time, and what an environment answers. The rule is in :mod:`hostile`."""

from __future__ import annotations

from functools import cache
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

import flexdome as fd
from flexdome.gym import (
    CMDPEnv,
    CMDPVectorEnv,
    Grid,
    SixTuple,
    TableCMDP,
    fit_grid,
    gymnasium_id,
    problem_for,
)
from malformed import Call, listed, told, world


class Answers(gymnasium.Env[Any, Any]):
    """Three observations, two actions; every answer may be replaced."""

    observation_space, action_space = Discrete(3), Discrete(2)

    def __init__(self, **answers: Any) -> None:
        self.given = {"observation": 1, "reward": 0.5, "terminated": False, "truncated": False, "info": {"cost": 0.2}}
        self.given |= answers
        self.first = answers.get("first", 0)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self.first, {}

    def step(self, action: Any) -> Any:
        return tuple(self.given[name] for name in ("observation", "reward", "terminated", "truncated", "info"))


class Line(Answers):
    """Observations on a line."""

    observation_space: Any = Box(-1.0, 1.0, (1,))

    def __init__(self) -> None:
        super().__init__()
        self.x = 0.0

    def step(self, action: Any) -> Any:
        self.x = (0.1 - self.x) * 0.9
        return np.array([self.x]), 0.5, False, False, {"cost": 0.2}


def learner(problem: fd.Problem) -> fd.FlexDOME:
    return fd.FlexDOME(problem, episodes=20)


@cache
def plain() -> fd.Problem:
    return problem_for(Answers(), horizon=3, limit=2.0, slater_gap=0.5)


def learned(**given: Any) -> None:
    """A learner of its own for each call, which is left as it was where its environment is refused at once."""
    fd.learn(**{"learner": learner(told()), **given})


def answered(**given: Any) -> None:
    """Two episodes of an environment that answers with what is given."""
    fd.learn(Answers(**given), learner(plain()), 2)


def sent(**given: Any) -> None:
    """What ``info`` holds."""
    fd.learn(Answers(info=given), learner(plain()), 2)


def sampled(**given: Any) -> None:
    """What ``info`` holds where a threshold must be estimated."""
    problem = fd.Problem(4, 2, 3, 0, [float("nan")], 0.4)
    fd.learn(Answers(info={"cost": 0.2, **given}), learner(problem), 2)


def stepped(**given: Any) -> None:
    env = CMDPEnv(world())
    env.reset(seed=0)
    env.step(**given)


def all_stepped(**given: Any) -> None:
    env = CMDPVectorEnv(2, world())
    env.reset(seed=0)
    env.step(**given)


def calls() -> dict[str, Call]:
    cmdp, env = world(), CMDPEnv(world())
    play = {"episodes": 1, "cost": None, "discretize": None, "reward_range": (0.0, 1.0), "evaluate": 0, "seed": 0,
            "each": None}  # fmt: skip
    spaces = ("action_space", "observation_space", "env", "the environment")
    pose = {
        "horizon": 3,
        "limit": 2.0,
        "slater_gap": 0.5,
        "discretize": None,
        "stationary": True,
        "resets": 2,
        "seed": 0,
    }
    grid = Grid([[0.0], [-1.0, 1.0]])
    made = {"environment": "media-v1", "instance": 0, "render_mode": None}
    unknown = {"environment": ("environment",)}
    return {
        "learn": Call(
            learned,
            {"env": env, "learner": learner(told()), **play},
            {"env": spaces, "discretize": ("bins", "observation", "states"), "reward_range": ("reward",)},
            long=("episodes", "evaluate"),
            own=("cost", "discretize", "each"),
        ),
        "learn.answers": Call(
            answered,
            {**Answers().given, "first": 0},
            {"first": ("observation",), "truncated": ("cut an episode",), "terminated": ("end",), "info": ("cost",)},
        ),
        "learn.info": Call(sent, {"cost": 0.2}),
        "learn.threshold": Call(sampled, {"threshold": 0.5}),
        "problem_for": Call(
            problem_for,
            {"env": Answers(), **pose},
            {"env": spaces, "discretize": ("bins", "observation"), "limit": ("threshold",), "horizon": ("threshold",)},
            long=("resets",),
            own=("discretize",),
        ),
        "Grid": Call(Grid, {"edges": [[0.0], [1.0]]}),
        "Grid.call": Call(grid.__call__, {"observation": [0.0, 0.5]}),
        "fit_grid": Call(
            fit_grid, {"env": Line(), "bins": (3,), "episodes": 2, "steps": 3, "seed": 0}, {"env": spaces},
            long=("episodes", "steps"),
        ),
        "CMDPEnv": Call(CMDPEnv, made, unknown),
        "CMDPEnv.own": Call(CMDPEnv, {"environment": cmdp}),
        "CMDPEnv.reset": Call(env.reset, {"seed": 0, "options": None}),
        "CMDPEnv.step": Call(stepped, {"action": 1}),
        "CMDPVectorEnv": Call(
            CMDPVectorEnv, {"num_envs": 2, "autoreset_mode": "SameStep", **made}, unknown, long=("num_envs",)
        ),
        "CMDPVectorEnv.reset": Call(CMDPVectorEnv(2, cmdp).reset, {"seed": 0, "options": None}),
        "CMDPVectorEnv.reset_mask": Call(
            lambda reset_mask: CMDPVectorEnv(2, cmdp).reset(seed=0, options={"reset_mask": reset_mask}),
            {"reset_mask": np.array([True, False])},
        ),
        "CMDPVectorEnv.step": Call(all_stepped, {"actions": np.array([0, 1])}),
        "SixTuple": Call(SixTuple, {"env": env, "constraint": 0}),
        "SixTuple.cost": Call(lambda cost: _six(info={"cost": cost}), {"cost": 0.2}),
        "gymnasium_id": Call(gymnasium_id, {"id": "paper-v1"}),
    }  # fmt: skip


def _six(**given: Any) -> None:
    env = SixTuple(Answers(**given))
    env.reset(seed=0)
    env.step(0)


@pytest.mark.parametrize("name", calls())
def test_gymnasium_in_either_direction_takes_a_value_or_refuses_it_by_name(name):
    found = calls()[name].complaints()
    assert not found, listed(found)


def test_every_public_name_of_the_room_is_tried():
    import flexdome.gym as room

    tried = {name.split(".")[0] for name in calls()}
    told = {"Estimate", "Learned", "Units"}  # made, never read
    elsewhere = {"from_gymnasium", "register", TableCMDP.__name__}  # in test_malformed_live.py; takes nothing; a CMDP
    callables = {name for name in room.__all__ if callable(getattr(room, name))}
    assert callables - told - elsewhere <= tried


def test_an_environment_that_is_refused_leaves_its_learner_alone():
    one = learner(plain())
    before = {name: array.tobytes() for name, array in one.state().items()}
    for answers in ({"reward": "x"}, {"observation": 7}, {"info": None}, {"truncated": True}):
        with pytest.raises(fd.ValidationError):
            fd.learn(Answers(**answers), one, 2)
    assert {name: array.tobytes() for name, array in one.state().items()} == before
    assert one.episode == 0
