"""Frozen policies, each with lower bounds on its utilities that hold at all times, and the mixtures that they allow.

A policy that is frozen before its episodes are played has episodes whose totals are bounded and have one mean, whatever
S, A and the model are. Each constraint i of the k-th policy has a betting sequence of its own
(:mod:`flexdome.learners.guarded.kernels`) at the level

    delta_k = 6 delta / (pi^2 k^2 m),   k = 1, 2, ...,   so that sum_k m delta_k = delta

and only episodes that this policy played move it. Policy 0 is the known safe one, whose utilities are given. With
l_k (m,) the bounds of policy k, a *base* is a policy with l_k >= alpha, and for a base j and any policy k

    gamma_jk = the largest gamma in [0, 1] with (1 - gamma) l_j + gamma l_k >= alpha
             = min over {i : l_ki < alpha_i} of (l_ji - alpha_i) / (l_ji - l_ki), and 1 where there is none

so that "k with probability gamma_jk, j otherwise" is safe wherever the bounds hold.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from flexdome.certificates import kernels
from flexdome.certificates.sequences import betting_grid
from flexdome.cmdp.validation import Float
from flexdome.errors import ValidationError
from flexdome.learners.guarded.kernels import aimed_betting
from flexdome.learners.state import EXACT, Arrays, StateReader
from flexdome.planning import SafePolicy

__all__ = ["Frozen", "Ledger"]

POINTS = 2048  # of the grid of a sequence: a bound is rounded down by H / 2048 at most
MOST = 16  # policies that are kept
REFUTED = 1e-6  # how often a promise that is kept may be held for broken
NEARLY = 1e-3  # of H: what the best is held to earn more than is known
WEIGHT = 20.0  # episodes that count as much as what was believed of a policy's reward when it was frozen
NONE = np.zeros(0)


@dataclass
class Frozen:
    """A policy that does not change, and what its own episodes show.

    Attributes
    ----------
    policy : (H, S, A)
    number : k; 0 is the safe policy that was given
    belief : what its reward was held to be when it was frozen
    aim : the episodes within which it is to be certified
    bound : (m,) lower bounds on its utilities
    rows, capital : (m, SIZE) and (m, G) its sequences; those of policy 0 are upper ones, against what was promised
    earned : its episodes, the sum of their rewards, and of the squares
    """

    policy: Float
    number: int
    belief: float
    aim: int
    bound: Float
    rows: Float
    capital: Float
    earned: Float = field(default_factory=lambda: np.zeros(3))

    @property
    def count(self) -> float:
        """Episodes that it played."""
        return float(self.earned[0])

    @property
    def reward(self) -> float:
        """Its estimated reward: the mean of its episodes, with the belief as a few more."""
        weight = 0.0 if self.number == 0 and self.count else WEIGHT
        return float((weight * self.belief + self.earned[1]) / (weight + self.earned[0]))

    @property
    def error(self) -> float:
        """The standard error of the mean of its episodes' rewards."""
        n, total, squares = self.earned
        return math.sqrt(max(squares - total * total / n, 0.0) / n / max(n - 1.0, 1.0)) if n > 0.0 else math.inf

    @property
    def variance(self) -> Float:
        """(m,) of an episode's total utility over H, as its sequences hold it."""
        spread: Float = (0.25 + self.rows[:, kernels.SQUARES]) / (self.rows[:, kernels.COUNT] + 1.0)
        return spread


class Ledger:
    """The policies that were frozen and are kept, policy 0 first.

    Parameters
    ----------
    safe : the known safe policy and its utilities
    delta : the probability with which any bound of any policy may ever be wrong
    """

    def __init__(self, safe: SafePolicy, delta: float) -> None:
        self.horizon, self.delta = safe.policy.shape[0], delta
        self.constraints = safe.utilities.size
        self.grid = betting_grid(POINTS)
        self.frozen = 0  # policies so far
        rows = np.zeros((self.constraints, kernels.SIZE))
        self.policies = [Frozen(safe.policy, 0, 0.0, 0, np.array(safe.utilities), rows, np.ones((self.constraints, 0)))]

    def level(self, k: int) -> float:
        """log(1 / delta_k) of a sequence of policy k."""
        return math.log(math.pi**2 * k * k * self.constraints / (6.0 * self.delta))

    def freeze(self, policy: Float, belief: float, aim: int, keep: set[int]) -> int:
        """Take one more policy; its place comes back. Where there are too many the oldest goes that is not in ``keep``.

        ``keep`` are numbers, and policy 0 is never dropped.
        """
        m = self.constraints
        if len(self.policies) >= MOST:
            oldest = next(at for at, one in enumerate(self.policies) if one.number > 0 and one.number not in keep)
            del self.policies[oldest]
        self.frozen += 1
        rows, capital = np.zeros((m, kernels.SIZE)), np.ones((m, self.grid.shape[1]))
        self.policies.append(Frozen(np.array(policy), self.frozen, belief, aim, np.zeros(m), rows, capital))
        return len(self.policies) - 1

    def refuted(self, totals: Float) -> None:
        """An error where one more episode of the safe policy, with these ``totals`` (m,), refutes what was promised."""
        safe = self.policies[0]
        for i, total in enumerate(totals):
            row = safe.rows[i].copy()
            missing = kernels.bernstein(row, 1.0 - min(total / self.horizon, 1.0), -math.log(REFUTED))
            most = self.horizon * (1.0 - missing)
            if most < safe.bound[i]:
                raise ValidationError(
                    f"safe_policy.utilities[{i}] is {safe.bound[i]:g}; its {int(row[kernels.COUNT])} episodes show at "
                    f"most {most:.4g} with confidence {1.0 - REFUTED:.6f}: less than what was promised"
                )

    def observe(self, at: int, reward: float, totals: Float) -> None:
        """One episode that the policy ``at`` played, with its total reward and utilities (m,)."""
        one = self.policies[at]
        one.earned += (1.0, reward, reward * reward)
        units = np.minimum(totals / self.horizon, 1.0)
        for i, x in enumerate(units):
            if one.number == 0:
                kernels.bernstein(one.rows[i], 1.0 - x, -math.log(REFUTED))
            else:
                level = self.level(one.number)
                low = aimed_betting(one.rows[i], one.capital[i], self.grid, x, level, float(one.aim))
                one.bound[i] = self.horizon * low

    def is_base(self, at: int, alpha: Float) -> bool:
        """Whether the bounds of the policy ``at`` show it safe."""
        return bool((self.policies[at].bound >= alpha).all())

    def has_found(self, alpha: Float) -> bool:
        """Whether there is a base beside the known safe policy."""
        return any(self.is_base(at, alpha) for at in range(1, len(self.policies)))

    def share(self, base: int, other: int, alpha: Float) -> float:
        """gamma: how much of ``other`` may be mixed with ``base``; 0 where that is not shown safe."""
        return float(self.shares(alpha, [other])[base, 0])

    def shares(self, alpha: Float, others: list[int] | None = None) -> Float:
        """(bases, others) gamma of every pair, 0 where the base is not shown safe; all others where None is given."""
        b = np.array([one.bound for one in self.policies])
        low = b if others is None else b[others]
        room, need = (b - alpha)[:, None], (b[:, None] - low)
        gamma = np.where(low < alpha, room / np.where(need > 0.0, need, 1.0), 1.0).min(axis=2)
        return np.where((room >= 0.0).all(axis=2), gamma, 0.0)

    def rewards(self) -> Float:
        """The estimated reward of every policy."""
        return np.array([one.reward for one in self.policies])

    def cheapest(self, other: int, alpha: Float) -> tuple[int, float]:
        """The base that ``other`` leans on, and gamma; (0, 0) where there is none with room.

        An episode of ``other`` costs (1 - gamma) / gamma of the base, each of them what the base earns less than the
        best: the base with the smallest cost is taken.
        """
        gamma, rewards = self.shares(alpha, [other])[:, 0], self.rewards()
        gamma[other] = 0.0
        if not (gamma > 0.0).any():
            return 0, 0.0
        behind = rewards.max() + NEARLY * self.horizon - rewards
        price = np.where(gamma > 0.0, behind * (1.0 - gamma) / np.maximum(gamma, 1e-300), np.inf)
        base = int(np.argmin(price))
        return base, float(gamma[base])

    def best(self, alpha: Float) -> tuple[int, int, float]:
        """The base, the other policy and gamma with the largest estimated reward; the safe policy where no base is."""
        gamma, rewards = self.shares(alpha), self.rewards()
        base = np.array([self.is_base(at, alpha) for at in range(len(self.policies))])
        if not base.any():
            return 0, 0, 1.0
        value = np.where(base[:, None], (1.0 - gamma) * rewards[:, None] + gamma * rewards, -np.inf)
        j, k = np.unravel_index(int(np.argmax(value)), value.shape)
        return int(j), int(k), float(gamma[j, k])

    # -- for files -------------------------------------------------------------------------------------------------

    def state(self) -> Arrays:
        """Everything, as arrays."""
        kept, safe = self.policies[1:], self.policies[0]
        H, S, A = safe.policy.shape
        m, G = self.constraints, self.grid.shape[1]
        return {
            "frozen": np.array([self.frozen], dtype=np.int64),
            "numbers": np.array([one.number for one in kept], dtype=np.int64),
            "policies": np.array([one.policy for one in kept]).reshape(-1, H, S, A),
            "belief": np.array([one.belief for one in self.policies]),
            "aim": np.array([one.aim for one in self.policies], dtype=np.int64),
            "bound": np.array([one.bound for one in kept]).reshape(-1, m),
            "rows": np.array([one.rows for one in self.policies]),
            "capital": np.array([one.capital for one in kept]).reshape(-1, m, G),
            "earned": np.array([one.earned for one in self.policies]),
        }

    def restore(self, read: StateReader) -> None:
        """Take back what :meth:`state` gave."""
        kept = read.length("numbers")
        if kept >= MOST:
            raise ValidationError(f"state.numbers has {kept} entries; at most {MOST - 1} policies are kept")
        H, S, A = self.policies[0].policy.shape
        m, G = self.constraints, self.grid.shape[1]
        self.frozen = int(read.count("frozen", (1,), 0, EXACT)[0])
        numbers = read.count("numbers", (kept,), 1, max(self.frozen, 1))
        read.agree("numbers", np.diff(numbers, prepend=0) > 0, "must rise")
        policies = read.rows("policies", (kept, H, S, A))
        belief = read.take("belief", (1 + kept,), -EXACT, EXACT)
        aim = read.count("aim", (1 + kept,), 0, EXACT)
        bound = read.take("bound", (kept, m), 0.0, float(H))
        rows = read.take("rows", (1 + kept, m, kernels.SIZE), -EXACT, EXACT)
        capital = read.take("capital", (kept, m, G), 0.0, math.inf)
        earned = read.take("earned", (1 + kept, 3), 0.0, EXACT)
        read.agree("rows", (rows[:, :, kernels.FIRST] >= 0.0) & (rows[:, :, kernels.FIRST] <= G), "is not a sequence")
        read.agree("rows", (rows[:, :, kernels.DEAD] >= 0.0) & (rows[:, :, kernels.DEAD] <= G), "is not a sequence")
        safe = self.policies[0]
        safe.belief, safe.rows, safe.earned = float(belief[0]), rows[0].copy(), earned[0].copy()
        self.policies = [safe] + [
            Frozen(
                policies[k].copy(),
                int(numbers[k]),
                float(belief[1 + k]),
                int(aim[1 + k]),
                bound[k].copy(),
                rows[1 + k].copy(),
                capital[k].copy(),
                earned[1 + k].copy(),
            )
            for k in range(kept)
        ]
