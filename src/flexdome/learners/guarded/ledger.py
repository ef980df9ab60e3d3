"""Frozen policies, each with lower bounds on its utilities that hold at all times, and the mixtures that they allow.

A policy that is frozen before its episodes are played has episodes whose totals are bounded and have one mean, whatever
S, A and the model are. Each constraint i of the k-th policy has a betting sequence of its own
(:mod:`flexdome.learners.guarded.kernels`) at the level

    delta_k = 10 delta / ((k + 9) (k + 10) m),   k = 1, 2, ...,   so that sum_k m delta_k = delta

and only episodes that this policy played move it. Policy 0 is the known safe one, whose utilities are given. With
l_k (m,) the bounds of policy k, a *base* is a policy with l_k >= alpha, and for a base j and any policy k

    gamma_jk = the largest gamma in [0, 1] with (1 - gamma) l_j + gamma l_k >= alpha
             = min over {i : l_ki < alpha_i} of (l_ji - alpha_i) / (l_ji - l_ki), and 1 where there is none

so that "k with probability gamma_jk, j otherwise" is safe wherever the bounds hold.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from flexdome.certificates import kernels as sequences
from flexdome.certificates.sequences import betting_grid
from flexdome.cmdp.validation import Float
from flexdome.errors import ValidationError
from flexdome.learners.guarded import kernels
from flexdome.learners.guarded.kernels import Book
from flexdome.learners.state import EXACT, Arrays, StateReader
from flexdome.planning import SafePolicy

__all__ = ["Frozen", "Ledger"]

POINTS = 2048  # of the grid of a sequence: a bound is rounded down by H / 2048 at most
MOST = 10  # policies that are kept
CUT = 0.95  # c: a bet against mu is at most c / mu
SPREAD = 0.02  # the variance of a total over H before any is known
ENOUGH = 30  # episodes of a policy whose variance is taken for that of the next
NARROW = 1e-5  # the least variance that is guessed
BY_POLICY = ("policies", "numbers", "bound", "belief", "guess", "earned", "reward", "rows", "capital", "level")


@dataclass(frozen=True)
class Frozen:
    """What is kept of one policy.

    Attributes
    ----------
    policy : (H, S, A)
    number : k; 0 is the safe policy that was given
    bound : (m,) lower bounds on its utilities
    guess : (m, 2) mean and variance of a total utility over H, as they were guessed when it was frozen
    count : episodes that it played
    reward, error : its estimated reward, and the standard error of the mean of its episodes
    """

    policy: Float
    number: int
    bound: Float
    guess: Float
    count: int
    reward: float
    error: float


class Ledger:
    """The policies that were frozen and are kept, policy 0 first.

    Parameters
    ----------
    safe : the known safe policy and its utilities
    delta : the probability with which any bound of any policy may ever be wrong
    """

    def __init__(self, safe: SafePolicy, delta: float) -> None:
        H, S, A = safe.policy.shape
        self.horizon, self.delta, m = H, delta, safe.utilities.size
        self.constraints = m
        grid = betting_grid(POINTS)
        grid[1] = CUT / grid[0]
        self.book = Book(
            policies=np.zeros((MOST, H, S, A)),
            numbers=np.zeros(MOST, dtype=np.int64),
            bound=np.zeros((MOST, m)),
            belief=np.zeros(MOST),
            guess=np.zeros((MOST, m, 2)),
            earned=np.zeros((MOST, 3)),
            reward=np.zeros(MOST),
            rows=np.zeros((MOST, m, sequences.SIZE)),
            capital=np.ones((MOST, m, grid.shape[1])),
            level=np.zeros(MOST),
            grid=grid,
            now=np.array([0.0, 0.0, 1.0]),
            places=np.array([1, 0, 0, 0, 0, 0, 0, 0], dtype=np.int64),
        )
        self.book.policies[0], self.book.bound[0] = safe.policy, safe.utilities
        self.book.level[0] = -math.log(sequences.REFUTED)

    # -- what is known -------------------------------------------------------------------------------------------------

    def level(self, k: int) -> float:
        """log(1 / delta_k) of a sequence of policy k."""
        return math.log((k + 9.0) * (k + 10.0) * self.constraints / (10.0 * self.delta))

    def __len__(self) -> int:
        return int(self.book.places[kernels.KEPT])

    @property
    def frozen(self) -> int:
        """How many policies were frozen so far."""
        return int(self.book.places[kernels.FROZEN])

    @property
    def policies(self) -> list[Frozen]:
        """Those that are kept."""
        return [self.at(k) for k in range(len(self))]

    def at(self, k: int) -> Frozen:
        """The policy at place ``k``."""
        b = self.book
        n, total, squares = b.earned[k]
        error = math.sqrt(max(squares - total * total / n, 0.0) / n / max(n - 1.0, 1.0)) if n > 0.0 else math.inf
        number = int(b.numbers[k])
        return Frozen(b.policies[k], number, b.bound[k], b.guess[k], int(n), float(b.reward[k]), error)

    def place(self, number: int) -> int:
        """Where the policy of that number is; 0, the safe policy, where it is not kept."""
        return int(np.argmax(self.book.numbers[: len(self)] == number))

    def is_base(self, k: int, alpha: Float) -> bool:
        """Whether the bounds of the policy at place ``k`` show it safe."""
        return bool((self.book.bound[k] >= alpha).all())

    def bases(self, alpha: Float) -> list[int]:
        """The places of the policies that are shown safe."""
        return [k for k in range(len(self)) if self.is_base(k, alpha)]

    def share(self, base: int, other: int, alpha: Float) -> float:
        """gamma: how much of ``other`` may be mixed with ``base``; 0 where that is not shown safe."""
        return float(kernels.share(self.book.bound[base], self.book.bound[other], alpha))

    def variance(self) -> Float:
        """(m,) of a total utility over H: as the last policy that has played enough shows it."""
        n = self.book.earned[: len(self), 0].copy()
        n[0] = 0.0
        good = np.flatnonzero(n >= ENOUGH)
        if not good.size:
            return np.full(self.constraints, SPREAD)
        k = int(good[-1])
        spread: Float = np.maximum(self.book.rows[k, :, sequences.SQUARES] / n[k], NARROW)
        return spread

    def mean(self, k: int) -> Float:
        """(m,) estimated utilities of the policy at place ``k``."""
        rows, guess = self.book.rows[k], self.book.guess[k]
        n, total = rows[:, sequences.COUNT], rows[:, sequences.TOTAL]
        means: Float = self.horizon * (kernels.GUESSED * guess[:, 0] + total) / (kernels.GUESSED + n)
        return means

    # -- what changes it -----------------------------------------------------------------------------------------------

    def freeze(
        self,
        policy: Float,
        values: Float,
        alpha: Float,
        *,
        main: bool = False,
        keen: bool = False,
        aim: int = 0,
        until: int = 0,
        explored: int = 0,
    ) -> int:
        """Take one more policy, held to have ``values`` (1 + m,); its place comes back."""
        guess = np.column_stack([np.clip(values[1:] / self.horizon, 0.01, 0.99), self.variance()])
        level = self.level(self.frozen + 1)
        epoch = (main, int(keen), aim, until, explored)
        return int(kernels.freeze(self.book, alpha, np.array(policy), float(values[0]), guess, level, *epoch))

    def observe(self, k: int, reward: float, totals: Float) -> None:
        """One episode that the policy at place ``k`` played, with its total reward and utilities (m,)."""
        kernels.note(self.book, k, reward, totals)

    def decide(self, alpha: Float, k: int = 0, least: float = -1.0) -> float:
        """Which mixture is played next, in ``now``; what the best one is held to earn comes back."""
        return float(kernels.decide(self.book, alpha, k, least))

    @property
    def now(self) -> tuple[int, int, float]:
        """Base and other, by their places, and gamma."""
        base, other, gamma = self.book.now
        return int(base), int(other), float(gamma)

    # -- for files -----------------------------------------------------------------------------------------------------

    def state(self) -> Arrays:
        """Everything, as arrays."""
        kept = len(self)
        return {
            **{name: getattr(self.book, name)[:kept].copy() for name in BY_POLICY},
            "now": self.book.now.copy(),
            "places": self.book.places.copy(),
        }

    def restore(self, read: StateReader) -> None:
        """Take back what :meth:`state` gave."""
        kept, book, safe = read.length("numbers"), self.book, self.book.bound[0].copy()
        if not 1 <= kept <= MOST:
            raise ValidationError(f"state.numbers has {kept} entries; 1 to {MOST} policies are kept")
        _, m, G = book.capital.shape
        H = float(self.horizon)
        places = read.count("places", book.places.shape, 0, EXACT)
        if places[kernels.KEPT] != kept:
            raise ValidationError(f"state.places[0] is {places[kernels.KEPT]}; there are {kept} policies")
        numbers = read.count("numbers", (kept,), 0, int(places[kernels.FROZEN]))
        read.agree("numbers", np.append(numbers[:1] == 0, np.diff(numbers) > 0), "must rise from 0 on")
        taken = {
            "numbers": numbers,
            "policies": read.rows("policies", book.policies[:kept].shape),
            "bound": read.take("bound", (kept, m), 0.0, H * (1.0 + 1e-9)),
            "belief": read.take("belief", (kept,), -EXACT, EXACT),
            "guess": read.take("guess", (kept, m, 2), 0.0, 1.0),
            "earned": read.take("earned", (kept, 3), 0.0, EXACT),
            "reward": read.take("reward", (kept,), -EXACT, EXACT),
            "rows": read.take("rows", (kept, m, sequences.SIZE), -EXACT, EXACT),
            "capital": read.take("capital", (kept, m, G), 0.0, math.inf),
            "level": read.take("level", (kept,), 0.0, EXACT),
        }
        first = taken["rows"][:, :, sequences.FIRST]
        read.agree("rows", (first >= 0.0) & (first <= G), "is not a sequence")
        read.agree("guess", (taken["guess"][..., 1] > 0.0) | (numbers == 0)[:, None], "has a variance of 0")
        read.agree("bound", np.append(taken["bound"][:1] == safe, taken["bound"][1:] <= H, axis=0), "is not a bound")
        now = read.take("now", (3,), 0.0, float(kept - 1) if kept > 1 else 1.0)
        read.agree("now", np.append(now[:2] < kept, now[2] <= 1.0), "is not a mixture")
        for name, array in taken.items():
            getattr(book, name)[:kept] = array
        book.now[:], book.places[:] = now, places
