"""Three problems from published models, in cost form: an anaesthetic, a power station with a battery, a queue.

Each is a continuous model with published numbers, put on a grid by us. A point between grid points is rounded at
random to its neighbours so that its mean is kept (Kushner and Dupuis, *Numerical Methods for Stochastic Control
Problems in Continuous Time*, 2nd ed., Springer 2001): as long as nothing leaves the grid, the chain's expected state
is that of the linear model exactly, and the spread around it is the grid's. What is wanted (the reward) and what is
allowed (the limits) is ours in all three. They are for learners, and not for patients or power stations.
"""

from __future__ import annotations

import numpy as np

from flexdome.cmdp import CMDP
from flexdome.cmdp.validation import Float, as_float, as_int
from flexdome.errors import ValidationError

__all__ = ["admission", "grid_storage", "propofol"]

# Marsh et al. 1991: rates per minute, central volume in litres per kilogram
K10, K12, K13, K31, V1 = 0.119, 0.112, 0.042, 0.0033, 0.228
PRESSURE_HALF_TIME = 5.92  # minutes, Kazama et al. 1999, ages 40 to 59
E0, C50, GAMMA = 97.4, 4.47, 1.43  # Bouillon et al. 2004: BIS, ug/ml, slope
RATES = np.array([0.0, 4.0, 8.0, 12.0, 16.0])  # mg/kg/h
LEVELS = np.arange(1.0, 8.0)  # ug/ml
REFERENCE = 4.5  # ug/ml, at which the peripheral compartments were filled for an hour

# Saadat 1999, Example 12.1: a station of 250 MW and 60 Hz, per unit of both
STATION, NOMINAL, DAMPING, DROOP = 250.0, 60.0, 0.8, 0.05
UNIT = 0.05  # p.u.: the spacing of shortages and of the battery's power; a quarter of an hour of it is 3.125 MWh
BATTERY = 8  # units of energy
PERSISTENCE, EFFICIENCY = 0.8, 0.85

MOST_STEPS = 10_000  # of an episode


def propofol(seed: int, *, horizon: int = 12, depth: float = 1.0, hypotension: float = 2.0) -> CMDP:
    """Propofol for an hour of surgery, a new rate every five minutes; the seed does not matter.

    S = 49 (plasma concentration 1, 2, ..., 7 ug/ml, and the same of the site that lowers blood pressure), A = 5
    (0, 4, 8, 12 or 16 mg/kg/h), H = 12 steps of 5 minutes, m = 2, stationary. State 7 i + j is plasma level i,
    pressure level j. A patient comes with 2 ug/ml in plasma and 1 at the pressure site.

    The model, C in ug/ml, t in minutes, u in mg/kg/min:

        dC/dt   = u / V1 - (k10 + k12 + k13) C + k12 C_2 + k13 C_3
        dC_p/dt = k_p (C - C_p)
        BIS     = E0 / (1 + (C / C50)^gamma)

    - Pharmacokinetics: k10 = 0.119, k12 = 0.112, k13 = 0.042, k31 = 0.0033 per minute, V1 = 0.228 l/kg (B. Marsh,
      M. White, N. Morton, G. N. C. Kenny, "Pharmacokinetic model driven infusion of propofol in children", British
      Journal of Anaesthesia 67, 41-48, 1991; the "Marsh model" of infusion pumps for adults).
    - Pressure follows with a half-time of 5.92 minutes, k_p = ln 2 / 5.92 (T. Kazama et al., "Comparison of the
      effect-site ke0s of propofol for blood pressure and EEG bispectral index in elderly and younger patients",
      Anesthesiology 90, 1517-1527, 1999; ages 40 to 59).
    - Depth: the bispectral index with E0 = 97.4, C50 = 4.47 ug/ml, gamma = 1.43 (T. W. Bouillon et al.,
      "Pharmacodynamic interaction between propofol and remifentanil regarding hypnosis, tolerance of laryngoscopy,
      bispectral index, and electroencephalographic approximate entropy", Anesthesiology 100, 1353-1372, 2004; propofol
      alone).

    Ours: the two peripheral compartments are slow and held where an hour at 4.5 ug/ml leaves them (C_2 = 4.5, C_3 =
    4.5 (1 - e^(-60 k31))), which moves the plasma by less than 0.5 ug/ml in an hour at 8 or 12 mg/kg/h, and by 1.4
    without any; the brain follows the plasma within a step; five minutes at a constant rate are solved exactly and
    rounded to the grid at random, keeping the mean; nothing leaves the grid. The reward is the hypnotic
    effect 1 - BIS / E0, which a surgeon wants deep. The first cost is the distance of the BIS from the band of 40 to
    60, on either side, in units of 20 and at most 1; its limit is 1 an hour. The second is 1 in a step with more
    than 4.5 ug/ml at the pressure site, called hypotension here; its limit is 2 steps, ten minutes an hour.

    Parameters
    ----------
    depth : the limit of the first cost, the distance of the BIS from its band
    hypotension : the limit of the second, in steps with low blood pressure

    Versions
    --------
    v1 : first
    """
    H = as_int("horizon", horizon, 1, MOST_STEPS)
    limits = [_limit("depth", depth, H), _limit("hypotension", hypotension, H)]
    n, A = LEVELS.size, RATES.size
    plasma, pressure = np.repeat(LEVELS, n), np.tile(LEVELS, n)
    p = np.zeros((n * n, A, n * n))
    for a, rate in enumerate(RATES):
        after = five_minutes(plasma, pressure, rate)
        one, other = (_rounded(x, LEVELS) for x in after)
        p[:, a] = (one[:, :, None] * other[:, None, :]).reshape(n * n, n * n)
    bis = bispectral(plasma)
    outside = np.minimum(np.maximum(np.maximum(bis - 60.0, 40.0 - bis), 0.0) / 20.0, 1.0)
    c = np.stack([outside, (pressure > 4.5).astype(np.float64)])
    r, c = np.tile((1.0 - bis / E0)[:, None], (1, A)), np.tile(c[..., None], (1, 1, A))
    return CMDP.from_costs(p, r, c, limits, 1 * n + 0, horizon=H, name="propofol-v1")


def bispectral(concentration: Float) -> Float:
    """The BIS at an effect-site concentration in ug/ml."""
    bis: Float = E0 / (1.0 + (concentration / C50) ** GAMMA)
    return bis


def five_minutes(plasma: Float, pressure: Float, rate: float) -> tuple[Float, Float]:
    """Both concentrations after five minutes at ``rate`` mg/kg/h: the linear model of :func:`propofol`, solved."""
    k, k_p = K10 + K12 + K13, np.log(2.0) / PRESSURE_HALF_TIME
    slow = REFERENCE * (1.0 - np.exp(-60.0 * K31))
    steady = (rate / 60.0 / V1 + K12 * REFERENCE + K13 * slow) / k
    fast, lagged = np.exp(-5.0 * k), np.exp(-5.0 * k_p)
    above = plasma - steady
    return (
        steady + above * fast,
        steady + (pressure - steady) * lagged + above * k_p / (k - k_p) * (lagged - fast),
    )


def grid_storage(seed: int, *, horizon: int = 16, outside: float = 3.0, reserve: float = 1.0) -> CMDP:
    """A battery that keeps the frequency of a power station and wears with use; the seed does not matter.

    S = 45 (a shortage of -25, -12.5, 0, 12.5 or 25 MW, and 0, 1, ..., 8 units of 3.125 MWh in the battery), A = 5
    (charge with 25 or 12.5 MW, rest, deliver 12.5 or 25 MW), H = 16 quarters of an hour, m = 2, stationary. State 9 i
    + j is shortage i, charge j; a shift starts with no shortage and half a charge.

    The station: 250 MW at 60 Hz, inertia H = 5 s, load damping D = 0.8, droop R = 0.05, governor 0.2 s, turbine 0.5 s
    (H. Saadat, *Power System Analysis*, McGraw-Hill 1999, Example 12.1). With P the battery's power and x the
    shortage, per unit,

        10 d(df)/dt = P_m + P - x - D df,     P_m follows -df / R through governor and turbine.

    All time constants are below a few seconds, so that for a quarter of an hour the frequency is where it settles,

        df = 60 Hz (P - x) / (D + 1 / R) = 60 Hz (P - x) / 20.8:

    12.5 MW are 0.144 Hz. There is no other secondary control.

    Ours: the shortage is Gaussian with a standard deviation of 5 % of the station and a correlation of 0.8 from one
    quarter of an hour to the next, put on five points by Rouwenhorst's method (K. A. Kopecky and R. M. H. Suen,
    "Finite state Markov-chain approximations to highly persistent processes", Review of Economic Dynamics 13,
    701-714, 2010), whose points are these. The battery has 25 MW and 25 MWh and gives back 85 % of what it takes: a
    unit that is charged arrives with that probability. It delivers no more than it has and takes no more than it has
    room for. It wears with the energy that goes through it, and the reward is what is spared, 1 - |P| / 25 MW. A step
    costs 1 if the frequency is more than 0.1 Hz off, with a limit of 3 of 16; and 1 in the second constraint if it
    begins with less than a quarter of the charge, with a limit of 1.

    Parameters
    ----------
    outside : how many steps may have the frequency off, on average
    reserve : how many may begin with less than a quarter of the charge, on average

    Versions
    --------
    v1 : first
    """
    H = as_int("horizon", horizon, 1, MOST_STEPS)
    limits = [_limit("outside", outside, H), _limit("reserve", reserve, H)]
    n, levels = 5, np.arange(BATTERY + 1.0)
    moves = rouwenhorst(n, PERSISTENCE)
    S = n * levels.size
    shortage, charge = np.repeat(np.arange(n) - n // 2, levels.size), np.tile(levels, n)
    p, r, c = np.zeros((S, 5, S)), np.zeros((S, 5)), np.zeros((2, S, 5))
    for a in range(5):
        units = np.clip(a - 2.0, charge - BATTERY, charge)  # delivered, negative where it charges
        left = _rounded(charge - np.where(units < 0.0, EFFICIENCY, 1.0) * units, levels)
        p[:, a] = (np.repeat(moves, levels.size, axis=0)[:, :, None] * left[:, None, :]).reshape(S, S)
        r[:, a] = 1.0 - 0.5 * np.abs(units)
        c[0, :, a] = np.abs(frequency(UNIT * (units - shortage))) > 0.1
        c[1, :, a] = charge < BATTERY / 4.0
    first = n // 2 * levels.size + BATTERY // 2
    return CMDP.from_costs(p, r, c, limits, first, horizon=H, name="grid-storage-v1")


def frequency(surplus: Float) -> Float:
    """Where the frequency settles, in Hz off 60, with ``surplus`` per unit of the station's power."""
    settled: Float = NOMINAL * surplus / (DAMPING + 1.0 / DROOP)
    return settled


def rouwenhorst(n: int, persistence: float) -> Float:
    """(n, n) transitions of Rouwenhorst's chain: n - 1 coins, each turned over with probability (1 - rho) / 2."""
    stay = 0.5 * (1.0 + persistence)
    p = np.ones((1, 1))
    for size in range(2, n + 1):
        wider = np.zeros((size, size))
        wider[:-1, :-1] += stay * p
        wider[:-1, 1:] += (1.0 - stay) * p
        wider[1:, :-1] += (1.0 - stay) * p
        wider[1:, 1:] += stay * p
        wider[1:-1] *= 0.5
        p = wider
    return p


def admission(seed: int, *, room: int = 10, horizon: int = 30, delay: float = 6.0) -> CMDP:
    """Who is let into a queue whose mean delay is limited; the seed does not matter.

    S = ``room`` + 1 = 11 customers in the system, A = 3 (admit nobody, the valuable, everybody), H = 30 minutes, m =
    1, stationary, starting empty. In a minute a valuable customer comes with probability 0.2, an ordinary one with
    probability 0.3, or nobody; then, if somebody is there, one is served with probability 0.4: more come than can be
    served. A valuable customer earns 1, an ordinary one 0.4; one that finds the room full is turned away.

    A customer who is admitted as number n + 1 stays (n + 1) / 0.4 minutes on average. The mean of that over those who
    are admitted may be ``delay`` = 6 minutes at most: the sum of (stay - 6) over the admitted is at most 0, which
    is linear in the occupancy. The cost of a step is 1/2 + (stay - 6) P(admitted) / 19 minutes, and the limit H / 2.

    Admission of several classes is after B. L. Miller, "A queueing reward system with several customer classes",
    Management Science 16, 234-245, 1969; with a constraint, after A. Hordijk and F. Spieksma, "Constrained admission
    control to a queueing system", Advances in Applied Probability 21, 409-431, 1989. Theirs are queues that go on for
    ever; the minutes and all numbers are ours.

    Parameters
    ----------
    room : how many customers the system holds
    delay : the longest mean stay of those who are admitted, in minutes

    Versions
    --------
    v1 : first
    """
    K, H = as_int("room", room, 2, 1_000), as_int("horizon", horizon, 1, MOST_STEPS)
    served, chances, worth = 0.4, np.array([0.2, 0.3]), np.array([1.0, 0.4])
    longest = K / served
    delay = as_float("delay", delay, 1.0 / served, longest)
    p, r, c = np.zeros((K + 1, 3, K + 1)), np.zeros((K + 1, 3)), np.full((1, K + 1, 3), 0.5)
    scale = max(longest - delay, delay)
    for s in range(K + 1):
        for a in range(3):
            comes = chances[:a].sum() if s < K else 0.0
            r[s, a] = (chances[:a] @ worth[:a]) if s < K else 0.0
            c[0, s, a] += comes * ((s + 1) / served - delay) / scale
            for there, chance in ((s + 1, comes), (s, 1.0 - comes)):
                p[s, a, max(there - 1, 0)] += chance * served
                p[s, a, min(there, K)] += chance * (1.0 - served)
    return CMDP.from_costs(p, r, c, 0.5 * H, 0, horizon=H, name="admission-v1")


def _limit(name: str, limit: float, horizon: int) -> float:
    """A limit on a cost that is at most 1 in each of ``horizon`` steps."""
    number = as_float(name, limit, 0.0)
    if number > horizon:
        raise ValidationError(f"{name} is {number:g}; it must be at most the horizon, which is {horizon}")
    return number


def _rounded(x: Float, grid: Float) -> Float:
    """(n, grid): the probabilities of the grid points beside each ``x``, whose mean is ``x``."""
    below = np.clip(np.searchsorted(grid, x, side="right") - 1, 0, grid.size - 2)
    share = np.clip((x - grid[below]) / (grid[below + 1] - grid[below]), 0.0, 1.0)
    p = np.zeros((x.size, grid.size))
    rows = np.arange(x.size)
    p[rows, below], p[rows, below + 1] = 1.0 - share, share
    return p
