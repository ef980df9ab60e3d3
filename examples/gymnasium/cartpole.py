"""CartPole, with a cost on leaving the middle: a learner loose on an environment without a model.

    python examples/gymnasium/cartpole.py [episodes]

The pole must be kept up for 60 steps (1.2 seconds) while the cart is outside of the middle, |x| > 0.15, for at most 2
of them on average. The learner is told neither the physics nor where the middle is: it sees bins of position,
velocity, angle and angular velocity, a reward of 1 for every step that the pole is up, and the cost.
"""

import sys

import gymnasium
import numpy as np

import flexdome as fd
from flexdome.gym import Grid, problem_for

HORIZON, LIMIT = 60, 2.0
GRID = Grid([[-0.15, 0.15], [0.0], [-0.04, 0.0, 0.04], [-0.3, 0.0, 0.3]])


def outside(observation, action, after):
    """What a step costs: 1 outside of the middle."""
    return float(abs(after[0]) > 0.15)


def main(episodes: int = 6000) -> None:
    """Learn, say how it goes, and estimate what the last policy does."""
    env = gymnasium.make("CartPole-v1")
    problem = problem_for(env, horizon=HORIZON, limit=LIMIT, slater_gap=1.0, discretize=GRID)
    learner = fd.FlexDOME(problem, episodes=episodes, tuning="practical")
    log = []

    def each(t: int, reward: float, costs: np.ndarray) -> None:
        log.append((reward, costs[0]))
        if t % max(episodes // 10, 1) == 0:
            up, out = np.mean(log[-episodes // 10 :], axis=0)
            print(f"episode {t:6,}: up for {up:4.1f} of {HORIZON} steps, outside for {out:4.1f} (limit {LIMIT:g})")

    result = fd.learn(env, learner, episodes, cost=outside, discretize=GRID, evaluate=1000, each=each)
    print(result)


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:2]))
