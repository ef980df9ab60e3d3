"""Frozen policies in arrays: their lower sequences, the mixtures that these allow, and which one is played.

**Bets.** The capital of a lower sequence against a mean mu is K_n(mu) = prod (1 + b_r(mu) (x_r - mu)), as in
:mod:`flexdome.certificates.kernels`, with other bets. Those that serve all times alike are the same for every mu, and
slow where mu is far below the mean: a policy that is to be mixed in needs a first bound soon. Here

    b_r(mu) = min((m - mu) / v, c / mu) where mu < m, else 0,   c = 0.95

with m and v the mean and the variance of the x before r, a guess counting as ``GUESSED`` of them: Kelly's bet where
the edge m - mu is small, all but everything where it is not. m, v and the guess are known before x_r is seen, so that
K_n(mu) is a martingale that is never negative where mu is the mean, and a supermartingale where the mean is less. K_n
need not fall in mu. The bound is the last point of the grid before the first that was never refuted: for it to be above
the mean, the first point above the mean has to be refuted, which has probability a at most, as for one point.

**Mixtures.** With bounds l, a base j (l_j >= alpha) and another policy k, gamma_jk is the largest gamma in [0, 1] with
(1 - gamma) l_j + gamma l_k >= alpha in every constraint. :func:`decide` takes one of two pairs: the one that earns
most, or the one in which a given policy k costs least: each of its episodes takes (1 - gamma) / gamma of the base, each
of which earns r* - r_j less than the best.
"""

from typing import NamedTuple

import numpy as np

from flexdome.certificates.kernels import BOUND, COUNT, FIRST, SIZE, SQUARES, TOTAL, bernstein
from flexdome.kernels.jit import kernel
from flexdome.kernels.rollout import play
from flexdome.learners.guarded.threshold_kernels import note_samples, refused, upper_bounds
from flexdome.learners.seen.kernels import count, full

__all__ = [
    "Book", "Played", "bet", "choose", "decide", "freeze", "is_behind", "note", "refuted_by", "run_frozen",
    "run_guarded", "share",
]  # fmt: skip

GUESSED = 20.0  # observations that a guess counts as, of a utility and of a reward
NEARLY = 1e-3  # of H: what the best is held to earn more than is known
ERRORS = 2.0  # by so many a candidate of a guard must be behind to be given up
ENOUGH = 300  # episodes of a candidate of a guard before its reward is looked at
KEPT, FROZEN, CURRENT, MAIN, KEEN, AIM, UNTIL, EXPLORED = range(8)


class Book(NamedTuple):
    """The policies that are kept, in the order in which they were frozen; the first is the known safe one."""

    policies: np.ndarray  # (K, H, S, A)
    numbers: np.ndarray  # (K,) int64: the how-manieth each is
    bound: np.ndarray  # (K, m) lower bounds on utilities
    belief: np.ndarray  # (K,) what its reward was held to be when it was frozen
    guess: np.ndarray  # (K, m, 2) mean and variance of a total utility over H, when it was frozen
    earned: np.ndarray  # (K, 3) episodes, the sum of their rewards, and of the squares
    reward: np.ndarray  # (K,) estimated
    rows: np.ndarray  # (K, m, SIZE) its sequences; those of the first are upper ones, against what was promised
    capital: np.ndarray  # (K, m, G)
    level: np.ndarray  # (K,) log(1 / a) of a sequence
    grid: np.ndarray  # (2, G) points, and the largest bet against each
    now: np.ndarray  # (3,) base, other (places) and gamma: the next episode
    places: np.ndarray  # (8,) int64: kept, frozen so far, current, main (numbers), keen, aim, until, explored


class Played(NamedTuple):
    """Episodes as they were played, a row each."""

    states: np.ndarray  # (n, H + 1) int64
    actions: np.ndarray  # (n, H) int64
    rewards: np.ndarray  # (n, H)
    utilities: np.ndarray  # (n, m, H)


@kernel
def bet(row, capital, grid, guess, x, log_level):
    """One more observation in [0, 1]; the lower bound comes back."""
    weight = GUESSED + row[COUNT]
    mean = (GUESSED * guess[0] + row[TOTAL]) / weight
    per = weight / (GUESSED * guess[1] + row[SQUARES])
    first, size = int(row[FIRST]), capital.size
    for g in range(first, min(size, int(mean * (size + 1)))):
        mu = grid[0, g]
        capital[g] *= 1.0 + min(max(mean - mu, 0.0) * per, grid[1, g]) * (x - mu)
    enough = np.exp(log_level)
    while first < size and capital[first] >= enough:
        row[BOUND] = grid[0, first]
        first += 1
    row[FIRST] = first
    row[COUNT] += 1.0
    row[TOTAL] += x
    row[SQUARES] += (x - mean) * (x - mean)
    return row[BOUND]


@kernel
def share(base, other, alpha):
    """gamma: how much of a policy with bounds ``other`` may be mixed with one with bounds ``base``, 0 if no base."""
    gamma = 1.0
    for i in range(alpha.size):
        if base[i] < alpha[i]:
            return 0.0
        if other[i] < alpha[i]:
            gamma = min(gamma, (base[i] - alpha[i]) / (base[i] - other[i]))
    return gamma


@kernel
def _is_base(bound, alpha):
    safe = True
    for i in range(alpha.size):
        safe = safe and bound[i] >= alpha[i]
    return safe


@kernel
def _earn_most(book, alpha):
    """The pair with the largest estimated reward; the safe policy alone where there is no base."""
    kept, best = book.places[KEPT], -np.inf
    book.now[0], book.now[1], book.now[2] = 0.0, 0.0, 1.0
    for j in range(kept):
        if _is_base(book.bound[j], alpha):
            for k in range(kept):
                gamma = 1.0 if j == k else share(book.bound[j], book.bound[k], alpha)
                value = (1.0 - gamma) * book.reward[j] + gamma * book.reward[k]
                if value > best:
                    best = value
                    book.now[0], book.now[1], book.now[2] = j, k, gamma
    return best


@kernel
def _cost_least(book, alpha, k):
    """The base that the policy at place k leans on; the safe policy, with gamma = 0, where there is no room."""
    kept = book.places[KEPT]
    top = -np.inf
    for j in range(kept):
        top = max(top, book.reward[j])
    top += NEARLY * book.policies.shape[1]
    least = np.inf
    book.now[0], book.now[1], book.now[2] = 0.0, k, 0.0
    for j in range(kept):
        gamma = share(book.bound[j], book.bound[k], alpha)
        if j != k and gamma > 0.0:
            price = (top - book.reward[j]) * (1.0 - gamma) / gamma
            if price < least:
                least = price
                book.now[0], book.now[2] = j, gamma


@kernel
def decide(book, alpha, k, least):
    """The mixture of the next episode, in ``book.now``; what the best is held to earn comes back, where that was asked.

    It is the one that the policy at place k costs least in, or with k = 0 the one that earns most. With ``least`` >= 0
    a policy that is certified, or has played so many episodes, is not favoured any more: what earns most is played
    then, if k is part of it.
    """
    best = 0.0
    free = k == 0 or (least >= 0.0 and (book.earned[k, 0] >= least or _is_base(book.bound[k], alpha)))
    if free:
        best = _earn_most(book, alpha)
    if k > 0 and not (free and (int(book.now[0]) == k or int(book.now[1]) == k)):
        _cost_least(book, alpha, k)
    return best


@kernel
def is_behind(book, alpha, k):
    """Whether the candidate at place k earns less than what is known, by ``ERRORS`` standard errors of its mean."""
    n, total, squares = book.earned[k, 0], book.earned[k, 1], book.earned[k, 2]
    if n < ENOUGH:
        return False
    error = np.sqrt(max(squares - total * total / n, 0.0) / n / (n - 1.0))
    return book.reward[k] + ERRORS * error < _earn_most(book, alpha)


@kernel
def choose(book, alpha):
    """The mixture of a guard's next episode; a candidate that is certified, or behind, is none any more."""
    places, k = book.places, 0
    if places[KEEN]:
        for j in range(places[KEPT]):
            if book.numbers[j] == places[CURRENT]:
                k = j
    if k > 0 and (_is_base(book.bound[k], alpha) or is_behind(book, alpha, k)):
        places[KEEN] = k = 0
    decide(book, alpha, k, -1.0)


@kernel
def note(book, k, reward, totals):
    """One episode that the policy at place k played, with its total reward and utilities (m,)."""
    H = book.policies.shape[1]
    weight = GUESSED if k > 0 else 0.0
    book.earned[k, 0] += 1.0
    book.earned[k, 1] += reward
    book.earned[k, 2] += reward * reward
    book.reward[k] = (weight * book.belief[k] + book.earned[k, 1]) / (weight + book.earned[k, 0])
    for i in range(totals.size):
        x = min(totals[i] / H, 1.0)
        if k == 0:
            bernstein(book.rows[0, i], 1.0 - x, book.level[0])
        else:
            book.bound[k, i] = H * bet(
                book.rows[k, i], book.capital[k, i], book.grid, book.guess[k, i], x, book.level[k]
            )


@kernel
def refuted_by(book, totals, row):
    """Which promise one more episode of the safe policy, with ``totals`` (m,), refutes, or -1; ``row`` is work."""
    H = book.policies.shape[1]
    for i in range(totals.size):
        for j in range(SIZE):
            row[j] = book.rows[0, i, j]
        x = min(totals[i] / H, 1.0)
        missing = bernstein(row, 1.0 - x, book.level[0])
        if H * (1.0 - missing) < book.bound[0, i]:
            return i
    return -1


@kernel
def freeze(book, alpha, policy, belief, guess, level, main, keen, aim, until, explored):
    """Take one more policy as the current one; its place comes back.

    Where there is no room the oldest goes, but for the safe policy, the main one, and the pair that earns most. With
    ``main`` the new one is the main one.
    """
    places = book.places
    if places[KEPT] == book.numbers.size:
        _earn_most(book, alpha)
        out = 1
        while out == int(book.now[0]) or out == int(book.now[1]) or book.numbers[out] == places[MAIN]:
            out += 1
        for k in range(out, places[KEPT] - 1):
            book.policies[k] = book.policies[k + 1]
            book.numbers[k] = book.numbers[k + 1]
            book.bound[k] = book.bound[k + 1]
            book.belief[k] = book.belief[k + 1]
            book.guess[k] = book.guess[k + 1]
            book.earned[k] = book.earned[k + 1]
            book.reward[k] = book.reward[k + 1]
            book.rows[k] = book.rows[k + 1]
            book.capital[k] = book.capital[k + 1]
            book.level[k] = book.level[k + 1]
        places[KEPT] -= 1
    k = places[KEPT]
    places[KEPT] += 1
    places[FROZEN] += 1
    book.policies[k] = policy
    book.numbers[k] = places[FROZEN]
    book.bound[k] = 0.0
    book.belief[k] = belief
    book.guess[k] = guess
    book.earned[k] = 0.0
    book.reward[k] = belief
    book.rows[k] = 0.0
    book.capital[k] = 1.0
    book.level[k] = level
    places[CURRENT] = places[FROZEN]
    if main:
        places[MAIN] = places[FROZEN]
    places[KEEN], places[AIM], places[UNTIL], places[EXPLORED] = keen, aim, until, explored
    return k


@kernel
def _play_drawn(book, coins, truth, uniforms, t, buffers, values, exact, weights, realised, totals, row):
    """Play the episode of row t and tell of it; the place of the policy that played comes back.

    It is -1 where the episode refutes what was promised of the safe policy. ``row`` is work.
    """
    base, other, gamma = int(book.now[0]), int(book.now[1]), book.now[2]
    drawn = other if coins[t] < gamma else base
    play(book.policies[drawn], truth, uniforms, t, buffers)
    reward = 0.0
    for h in range(buffers.rewards.size):
        reward += buffers.rewards[h]
    for i in range(totals.size):
        totals[i] = 0.0
        for h in range(buffers.rewards.size):
            totals[i] += buffers.utilities[i, h]
    if drawn == 0 and refuted_by(book, totals, row) >= 0:
        return -1  # no place
    weights[t] = gamma
    for j in range(1 + totals.size):
        exact[t, j] = (1.0 - gamma) * values[base, j] + gamma * values[other, j]
        realised[t, j] = reward if j == 0 else totals[j - 1]
    return drawn


@kernel
def _note_all(book, samples, means, t, k, reward, totals, alpha):
    """The episode of row t, which the policy at place k played, and its samples; ``alpha`` follows."""
    note(book, k, reward, totals)
    if means.size > 0:
        note_samples(samples, means[t])
        upper_bounds(samples, alpha)


@kernel
def run_frozen(
    book, counts, samples, k, least, coins, truth, uniforms, thresholds, means, begin, end, buffers, values, exact,
    weights, realised, played,
):  # fmt: skip
    """Play and learn episodes ``begin`` to ``end`` (rows) while the policy at place k is the current one.

    ``values`` (K, 1 + m) are V_r and V_d of all policies; rows of ``exact`` receive those of the mixtures, rows of
    ``realised`` what was brought. Where thresholds are sampled, ``thresholds`` (episodes, m, H) are their samples and
    ``means`` (episodes, m) these over an episode; both are of size 0 otherwise. The row after the last comes back, or
    -1 minus the row of an episode that was refused: it refutes what was promised of the safe policy, or has a sample
    outside of what was declared. Nothing was taken of it.
    """
    alpha, row, none = np.zeros(samples.known.size), np.zeros(SIZE), np.zeros((0, 0))
    totals, places = np.zeros(alpha.size), book.places
    upper_bounds(samples, alpha)
    for t in range(begin, end):
        if book.earned[k, 0] >= places[AIM] or played[0] >= places[UNTIL] or full(counts):
            return t
        if means.size > 0 and refused(samples, means[t]) >= 0:
            return -1 - t
        drawn = _play_drawn(book, coins, truth, uniforms, t, buffers, values, exact, weights, realised, totals, row)
        if drawn < 0:
            return -1 - t
        observed = thresholds[t] if thresholds.size > 0 else none
        count(counts, buffers.states, buffers.actions, buffers.rewards, buffers.utilities, observed)
        _note_all(book, samples, means, t, drawn, realised[t, 0], totals, alpha)
        played[0] += 1
        decide(book, alpha, k, least)
    return end


@kernel
def run_guarded(
    book, samples, coins, truth, uniforms, means, begin, end, buffers, values, exact, weights, realised, episodes,
    played,
):  # fmt: skip
    """Play episodes ``begin`` to ``end`` (rows) of an epoch of a guard, whatever the learner inside makes of them.

    As :func:`run_frozen`; rows of ``episodes``, from 0 on, receive what was seen.
    """
    alpha, row = np.zeros(samples.known.size), np.zeros(SIZE)
    totals = np.zeros(alpha.size)
    upper_bounds(samples, alpha)
    for t in range(begin, end):
        if played[0] >= book.places[UNTIL]:
            return t
        if means.size > 0 and refused(samples, means[t]) >= 0:
            return -1 - t
        drawn = _play_drawn(book, coins, truth, uniforms, t, buffers, values, exact, weights, realised, totals, row)
        if drawn < 0:
            return -1 - t
        n = t - begin
        episodes.states[n], episodes.actions[n] = buffers.states, buffers.actions
        episodes.rewards[n], episodes.utilities[n] = buffers.rewards, buffers.utilities
        _note_all(book, samples, means, t, drawn, realised[t, 0], totals, alpha)
        played[0] += 1
        if played[0] < book.places[UNTIL]:
            choose(book, alpha)
    return end
