"""Lower confidence sequences for the mean of a variable that is never negative, one observation at a time.

For x_1, x_2, ... in [0, inf) with E[x_t | past] = mu in [0, 1], each of these keeps a number L_t with

    P(there is a t with L_t > mu) <= a                                                                            (1)

so that it may be looked at after every observation and acted upon (Waudby-Smith and Ramdas, "Estimating means of
bounded random variables by betting", 2024). An upper sequence of x in [0, 1] is 1 minus the lower sequence of 1 - x;
both at level a / 2 are a confidence sequence at level a. With l = log(1 / a), both use the predictable bets

    lam_t = sqrt(2 l / (v_{t-1} t log(1 + t))),   m_t = (1/2 + sum_{i <= t} x_i) / (t + 1),
    v_t = (1/4 + sum_{i <= t} (x_i - m_i)^2) / (t + 1)                                                   (their 15, 24)

**Empirical Bernstein** (their Theorem 2): with b_t = lam_t ^ 1/2,

    L_t = (sum b_i x_i - l - sum (x_i - m_{i-1})^2 (-log(1 - b_i) - b_i)) / sum b_i

**Betting** (their Theorem 3, the upward half of the hedged capital): for every mu on a grid the capital

    K_t(mu) = prod (1 + (lam_i ^ c / mu) (x_i - mu)),   c = 1/2

is a non-negative martingale if mu is the mean, so K_t(mu) >= 1 / a refutes it. K_t decreases in mu: all means up to a
refuted one are refuted, and L_t is the largest refuted point of the grid. No point is refuted too early for its
being on a grid; a coarse grid only says less.

Both are non-negative supermartingales too where E[x_t | past] <= mu, and neither needs x <= 1 (m is cut at 1): this is
what reweighted episodes rely on. The running largest L_t is kept, as (1) allows.

A sequence is a row of ``SIZE`` numbers, zero at first; a betting one has a row of capital besides, one at first. The
means m_i of v_t are cut at 1 like those of the bound. Where all observations are there at once no grid is needed:
:func:`betting_bound` finds the largest refuted mean by repeated division, since K_t decreases in mu.
"""

import numpy as np

from flexdome.kernels.jit import kernel

__all__ = [
    "REFUTED",
    "SIZE",
    "bernstein",
    "bernstein_all",
    "bernstein_both",
    "betting",
    "betting_all",
    "betting_bound",
    "episodes_needed",
    "mixture_width",
]

COUNT, TOTAL, SQUARES, BETS, GAINS, PRICE, FIRST, DEAD, BOUND = range(9)
MISSING = FIRST  # of a two-sided empirical Bernstein sequence: the lower bound on 1 minus the mean
SIZE = 9
CUT = 0.5  # of the bets: b_t <= 1/2, and lam_t mu <= 1/2
REFUTED = 1e-6  # how often a promise that is kept may be held for broken
WORTHLESS = 1e-200  # a capital below it is given up
LANES, PASSES = 8, 7  # a mean is found within 9^-7, or 2e-7


@kernel(inline=True)
def _bet(state, log_level):
    """lam_t, before observation t."""
    return np.sqrt(2.0 * log_level / ((0.25 + state[SQUARES]) * np.log(2.0 + state[COUNT])))


@kernel(inline=True)
def _count(state, x):
    """Observation x, in the mean and the spread."""
    state[COUNT] += 1.0
    state[TOTAL] += x
    off = x - min((0.5 + state[TOTAL]) / (state[COUNT] + 1.0), 1.0)
    state[SQUARES] += off * off


@kernel(inline=True)
def bernstein(state, x, log_level):
    """One more observation; the lower bound comes back."""
    bet = min(_bet(state, log_level), CUT)
    off = x - min((0.5 + state[TOTAL]) / (state[COUNT] + 1.0), 1.0)
    state[BETS] += bet
    state[GAINS] += bet * x
    state[PRICE] += off * off * (-np.log1p(-bet) - bet)
    _count(state, x)
    state[BOUND] = max(state[BOUND], (state[GAINS] - log_level - state[PRICE]) / state[BETS])
    return state[BOUND]


@kernel(inline=True)
def bernstein_both(state, x, log_level):
    """One more observation in [0, 1] for both sides, which have the same bets: each at its level.

    The lower bounds on the mean and on 1 minus the mean are ``state[BOUND]`` and ``state[MISSING]``.
    """
    bernstein(state, x, log_level)
    missing = (state[BETS] - state[GAINS] - log_level - state[PRICE]) / state[BETS]
    state[MISSING] = max(state[MISSING], missing)


@kernel(inline=True)
def betting(state, capital, grid, x, log_level):
    """One more observation; the lower bound comes back.

    ``grid`` (2, G) has the points in (0, 1), rising, and below them 1 / 2 divided by each. Those refuted are behind
    ``state[FIRST]``, those whose capital is worthless are the last ``state[DEAD]``.
    """
    bet, enough = _bet(state, log_level), np.exp(log_level)
    first, last = int(state[FIRST]), capital.size - int(state[DEAD])
    held, mean, most = capital[first:last], grid[0, first:last], grid[1, first:last]
    for g in range(held.size):
        held[g] *= 1.0 + min(most[g], bet) * (x - mean[g])
    while first < last and capital[first] >= enough:
        state[BOUND] = grid[0, first]
        first += 1
    while last > first and capital[last - 1] < WORTHLESS:
        last -= 1
    state[FIRST], state[DEAD] = first, capital.size - last
    _count(state, x)
    return state[BOUND]


@kernel
def bernstein_all(state, xs, log_level, bounds):
    """Many observations; the bound after each in ``bounds``, unless that has size 0."""
    for t in range(xs.size):
        bound = bernstein(state, xs[t], log_level)
        if bounds.size > 0:
            bounds[t] = bound


@kernel
def betting_all(state, capital, grid, xs, log_level, bounds):
    """Many observations; the bound after each in ``bounds``, unless that has size 0."""
    for t in range(xs.size):
        bound = betting(state, capital, grid, xs[t], log_level)
        if bounds.size > 0:
            bounds[t] = bound


@kernel
def betting_bound(state, xs, log_level, target, bets):
    """All observations of a betting sequence at once, without a grid: its bound, and K_n(``target``), come back.

    ``state`` is new, and receives count, total and squares; ``bets`` (n,) is work. A capital that ever reaches 1 / a
    counts, as one at a time.
    """
    for t in range(xs.size):
        bets[t] = _bet(state, log_level)
        _count(state, xs[t])
    enough = np.exp(log_level)
    low, high = 0.0, 1.0
    mean, most = np.empty(LANES), np.empty(LANES)
    held, best = np.empty(LANES), np.empty(LANES)
    for _ in range(PASSES):
        step = (high - low) / (LANES + 1)
        for k in range(LANES):
            mean[k] = low + (k + 1) * step
            most[k] = CUT / mean[k]
            held[k] = 1.0
            best[k] = 1.0
        for t in range(xs.size):
            bet, x = bets[t], xs[t]
            for k in range(LANES):
                held[k] *= 1.0 + min(most[k], bet) * (x - mean[k])
                best[k] = max(best[k], held[k])
        refuted = 0
        while refuted < LANES and best[refuted] >= enough:
            refuted += 1
        if refuted < LANES:
            high = mean[refuted]
        if refuted > 0:
            low = mean[refuted - 1]
    capital, reached = 1.0, False
    if target > 0.0 and target < 1.0:
        for t in range(xs.size):
            capital *= 1.0 + min(CUT / target, bets[t]) * (xs[t] - target)
            reached = reached or capital >= enough
    state[BOUND] = max(low, target) if reached else low
    return state[BOUND], capital


@kernel(inline=True)
def mixture_width(n, log_level, scale, tuned):
    """Half the width after n observations that are sub-Gaussian of ``scale``, both sides at once, at every n at once.

    exp(S_n^2 / (2 (n + rho) scale^2)) sqrt(rho / (n + rho)) is a non-negative supermartingale (Robbins 1970: a normal
    mixture), so that |S_n| < scale sqrt((n + rho) (2 l + log((n + rho) / rho))) for all n with probability 1 - a.
    ``tuned`` is rho.
    """
    if n == 0.0:
        return np.inf
    return scale * np.sqrt((n + tuned) * (2.0 * log_level + np.log((n + tuned) / tuned))) / n


@kernel
def episodes_needed(state, log_capital, mean, log_level, most):
    """How many more observations refute ``mean`` if they go on as they did, or ``most``.

    With the present mean x^ and variance v, the logarithm of the capital against ``mean`` grows in each by about
    b (x^ - mean) - b^2 (v + (x^ - mean)^2) / 2. Steps grow by a thirty-second, so that even 10^12 take no time.
    """
    n, squares = state[COUNT], 0.25 + state[SQUARES]
    ahead = state[TOTAL] / n - mean
    variance = squares / (n + 1.0)
    if ahead <= 0.0:
        return most
    t = n
    while t - n < most:
        if log_capital >= log_level:
            return t - n
        step = max(1.0, np.floor(t / 32.0))
        bet = min(np.sqrt(2.0 * log_level / (squares * np.log(2.0 + t))), CUT / mean)
        log_capital += step * (bet * ahead - 0.5 * bet * bet * (variance + ahead * ahead))
        squares += step * variance
        t += step
    return most
