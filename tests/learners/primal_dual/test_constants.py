"""Every constant of the primal-dual learners and of the theory, as a number worked out apart from the code.

The numbers are literals, evaluated from the papers' formulas with forty digits at two sizes: that of the experiment of
Zuo et al. 2026, and one where S, A, H and m all differ, so that a factor that is missing or belongs to another shows.
Then the bounds of every argument, on both sides, and a few episodes of each learner beside its slow twin.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flexdome as fd
from flexdome.learners.options import checked, chosen, one_of, switch, unvisited_rule
from flexdome.learners.primal_dual.optpess_pd import QueueMargin
from flexdome.learners.seen.counts import OptimisticModel, _zeros, most_actions
from flexdome.learners.seen.kernels import count as counted
from flexdome.learners.seen.tally import Tally
from flexdome.theory import bonus_logs, burn_in, error_constant, margin_coefficient, theorem1, theorem2
from flexdome.theory.constants import as_confidence
from flexdome.theory.schedules import Margin, Power
from naive import evaluate
from naive_peers import TWINS
from runs import World, problem_of, small_cmdp

# S, A, H, s_1, alpha, Slater gap; T; delta
PAPER = fd.Problem(20, 5, 5, 0, [2.5], 2.5), 80_000, 0.1
OTHER = fd.Problem(7, 3, 4, 0, [1.0, 1.5, 2.0], 0.8), 3_000, 0.05
NAMES = ("flexdome", "optprimaldual", "uopt-rpgpd", "rpd-oe", "optpess-pd", "anchordome")
TIGHT = 1e-12  # relative: rounding of a dozen operations, nothing else


Read = Callable[[Any], float]


def made(name: str, size: tuple[fd.Problem, int, float], **options: Any) -> Any:
    problem, episodes, delta = size
    return fd.make_learner(name, problem, **{"episodes": episodes, "delta": delta, **options})


def seen(learner: Any, visits: int, other: int = 0) -> Any:
    """The learner after so many episodes in state 0 with action 0; in ``other`` state 1 follows the first and the last
    step."""
    H, m = learner.problem.horizon, learner.problem.constraints
    for k in range(visits):
        states = np.zeros(H + 1, dtype=int)
        states[1] = states[-1] = k < other
        learner.observe(fd.Episode(states, np.zeros(H, dtype=int), np.zeros(H), np.zeros((m, H))))
    return learner


# -- how a constant is read -----------------------------------------------------------------------------


def eta(t: int) -> Read:
    return lambda learner: float(learner.schedule(t, 1)[0][0])


def tau(t: int) -> Read:
    return lambda learner: float(learner.schedule(t, 1)[1][0])


def eps(t: int) -> Read:
    def read(learner: Any) -> float:
        margins = learner.schedule(t, 1)[2][0]
        assert (margins == margins[0]).all()
        return float(margins[0])

    return read


def bonus(visits: int, step: int = 0, other: int = 0) -> Read:
    """Of the first state and action at a step after so many visits, ``other`` of them with another state after."""
    return lambda learner: float(seen(learner, visits, other).beliefs().widths[step, 0, 0])


def part(k: int) -> Read:
    """Of the bonus of one visit: the mean's, the transitions', the entropy's, the transitions' of lower order."""
    return lambda learner: float(learner.settings.form.bonus[k])


def cap(step: int, value: int, episodes: int = 0) -> Read:
    """Where the value of the reward (0), a utility (1) or the entropy (-1) is truncated at a step."""

    def read(learner: Any) -> float:
        H, m = learner.problem.horizon, learner.problem.constraints
        return float(seen(learner, episodes).settings.caps.reshape(H, -1)[step, : m + 2][value])

    return read


def setting(name: str) -> Read:
    def read(learner: Any) -> float:
        settings = learner.settings
        return float(getattr(settings if hasattr(settings, name) else settings.form, name) or 0.0)

    return read


def option(name: str) -> Read:
    return lambda learner: float(learner.options()[name])


ZUO, ALG1, ALG2 = "Zuo et al. 2026, appendix, ", "Zuo et al. 2026, Alg. 1, input", "Zuo et al. 2026, Alg. 2"
THM1, EQ6 = "Zuo et al. 2026, Theorem 1", "Zuo et al. 2026, eq. 6"
EFRONI = "Efroni et al. 2020, "
KITAMURA = "Kitamura et al. 2024, notebook, "
MUELLER = "Müller et al. 2024, as in flexdome.learners.primal_dual.rpd_oe"
LIU = "Liu et al. 2021, OptPess-PrimalDual, "
ANCHOR = "flexdome.learners.primal_dual.anchordome"
SWEEP = "docs/tuning.md, "
THEORY, PRACTICAL = {"tuning": "theory"}, {"tuning": "practical"}

Row = tuple[str, Read, float, float, str]  # constant, how it is read, its value at the two sizes, its place
GOLDEN: list[tuple[str, dict[str, Any], list[Row]]] = [
    ("flexdome", {}, [
        ("phi_r", part(0), 0.003360027070375478, 0.0030739756458735386, ZUO + "L_r"),
        ("phi_p", part(1), 0.04538351543577918, 0.027608237032403178, ZUO + "L_p"),
        ("phi_p log A", part(2), 0.07304195034188122, 0.030330748472260115, EQ6),
        ("phi, n = 1", bonus(1), 0.04874354250615466, 0.030682212678276716, ZUO + "L_r, L_p"),
        ("phi, n = 10", bonus(10), 0.01541406155446807, 0.009702567571704947, ZUO + "L_r"),
        ("box", setting("dual_bound"), 8.0, 20.0, ALG1),
        ("eta_1", eta(1), 1.0, 1.0, THM1),
        ("eta_10", eta(10), 0.14677992676220694, 0.14677992676220694, THM1),
        ("eta_T", eta(80_000), 8.205247349318384e-05, 8.205247349318384e-05, THM1),
        ("tau_1", tau(1), 1.0, 1.0, THM1),
        ("tau_10", tau(10), 0.6812920690579612, 0.6812920690579612, THM1),
        ("tau_T", tau(80_000), 0.15234153789450824, 0.15234153789450824, THM1),
        ("eps_1", eps(1), 0.26369391200579663, 0.21950807891892677, THM1),
        ("eps_10", eps(10), 0.189291182429672, 0.1584843493519038, THM1),
        ("eps_T", eps(80_000), 0.04858708998071622, 0.04109632861747274, THM1),
        ("c_b", option("bonus_scale"), 1e-3, 1e-3, ZUO + "experiments"),
        ("c_e", option("margin_scale"), 1e-5, 1e-5, ZUO + "experiments"),
        ("Q_r at most", cap(0, 0), 5.0, 4.0, ALG2),
        ("Q_d at most", cap(0, 1), 5.0, 4.0, ALG2),
        ("Q_r at most, last step", cap(-1, 0), 1.0, 1.0, ALG2),
        ("Q_psi - psi at most", cap(0, -1), 8.047189562170503, 4.394449154672439, ALG2),
        ("N = 0 optimistic", setting("optimistic"), 0, 0, ALG2),
    ]),
    ("flexdome", {"scale_entropy_bonus": False}, [
        ("phi_p log A, unscaled", part(2), 73.04195034188122, 30.330748472260115, EQ6),
    ]),
    ("flexdome", THEORY, [
        ("phi_r", part(0), 3.360027070375478, 3.0739756458735386, ZUO + "L_r"),
        ("phi_p", part(1), 45.38351543577918, 27.608237032403178, ZUO + "L_p"),
        ("phi_p log A", part(2), 73.04195034188122, 30.330748472260115, EQ6),
        ("eta_10", eta(10), 0.14677992676220694, 0.14677992676220694, THM1),
        ("tau_10", tau(10), 0.6812920690579612, 0.6812920690579612, THM1),
        ("eps_1", eps(1), 26369.391200579663, 21950.807891892677, THM1),
        ("eps_T", eps(80_000), 4858.708998071622, 4109.632861747274, THM1),
        ("N = 0 optimistic", setting("optimistic"), 0, 0, ALG2),
    ]),
    ("flexdome", PRACTICAL, [
        ("phi_r", part(0), 0.0, 0.0, SWEEP + "bonus_scale"),
        ("phi_p", part(1), 0.0, 0.0, SWEEP + "bonus_scale"),
        ("eta_1", eta(1), 10.0, 10.0, SWEEP + "step_scale"),
        ("eta_10", eta(10), 1.4677992676220694, 1.4677992676220694, SWEEP + "step_scale"),
        ("tau_1", tau(1), 0.1, 0.1, SWEEP + "regularisation_scale"),
        ("eps_1", eps(1), 0.026369391200579663, 0.021950807891892677, SWEEP + "margin_scale"),
        ("N = 0 optimistic", setting("optimistic"), 1, 1, SWEEP + "unvisited"),
    ]),
    ("optprimaldual", THEORY, [
        ("rho", setting("dual_bound"), 2.0, 5.0, EFRONI + "Alg. 4 (H / gap)"),
        ("t_K", eta(1), 0.0004228787470598399, 0.00042286001685988453, EFRONI + "Alg. 4"),
        ("1 / t_lam", setting("dual_step"), 0.001414213562373095, 0.013176156917368247, EFRONI + "Alg. 4"),
        ("tau", tau(1), 0.0, 0.0, EFRONI + "Alg. 4"),
        ("margin", eps(1), 0.0, 0.0, EFRONI + "Alg. 4"),
        ("sqrt(L)", part(0), 6.67710742086126, 6.100978687128074, EFRONI + "bonus"),
        ("2 H sqrt(L_p)", part(1), 46.474438753254795, 33.2020973884729, EFRONI + "bonus"),
        ("bonus of the entropy", part(2), 0.0, 0.0, "no entropy there"),
        ("(14/3) H S L_p", part(3), 10079.409468006812, 2250.6910116120125, EFRONI + "bonus"),
        ("bonus, n = 1", bonus(1), 10086.086575427673, 2256.7919902991407, EFRONI + "bonus"),
        ("bonus, n = 10", bonus(10), 1010.0524335638346, 226.9984000219481, EFRONI + "bonus"),
        ("bonus, n = 7 + 3", bonus(10, other=3), 1023.522005584657, 236.62128206234877, EFRONI + "bonus"),
        ("last bonus, n = 10", bonus(10, step=-1), 1010.0524335638346, 226.9984000219481, EFRONI + "bonus"),
        ("last bonus, n = 7 + 3", bonus(10, -1, 3), 1010.0524335638346, 226.9984000219481, EFRONI + "bonus"),
        ("bonus, n = 0", bonus(0), 10086.086575427673, 2256.7919902991407, EFRONI + "bonus"),
        ("c", option("reward_bonus_factor"), 2.0, 2.0, EFRONI + "L"),
        ("k", option("reward_bonus_size"), 6.0, 6.0, EFRONI + "L"),
        ("N = 0 optimistic", setting("optimistic"), 0, 0, EFRONI + "Alg. 4"),
    ]),
    ("optprimaldual", PRACTICAL, [
        ("sqrt(L)", part(0), 6.67710742086126e-05, 6.100978687128074e-05, SWEEP + "bonus_scale"),
        ("bonus, n = 10", bonus(10), 0.010100524335638346, 0.002269984000219481, SWEEP + "bonus_scale"),
        ("t_K", eta(1), 0.03, 0.03, SWEEP + "policy_step"),
        ("1 / t_lam", setting("dual_step"), 100.0, 100.0, SWEEP + "dual_step"),
        ("rho", setting("dual_bound"), 2.0, 5.0, EFRONI + "Alg. 4 (H / gap)"),
        ("N = 0 optimistic", setting("optimistic"), 1, 1, SWEEP + "unvisited"),
    ]),
    ("uopt-rpgpd", THEORY, [
        ("2 log(48 S^2 A H / delta)", part(1), 30.76825295175624, 26.48732046472102, KITAMURA + "bonus"),
        ("bonus of the entropy", part(2), 0.0, 0.0, KITAMURA + "bonus"),
        ("bonus, n = 1", bonus(1), 159.38817858105716, 137.58318570141225, KITAMURA + "bonus"),
        ("bonus, n = 10", bonus(10), 18.29687653165043, 16.034416110768625, KITAMURA + "bonus"),
        ("bonus, n = 7 + 3", bonus(10, other=3), 18.9947466969237, 16.6853938389089, KITAMURA + "bonus"),
        ("last bonus, n = 10", bonus(10, step=-1), 16.48131517624307, 14.340848932725457, KITAMURA + "bonus"),
        ("last bonus, n = 7 + 3", bonus(10, -1, 3), 16.48131517624307, 14.340848932725457, KITAMURA + "bonus"),
        ("bonus, n = 0", bonus(0), 178.6478175026657, 146.05318204294161, KITAMURA + "bonus"),
        ("last bonus, n = 0", bonus(0, step=-1), 178.6478175026657, 146.05318204294161, KITAMURA + "bonus"),
        ("eta_1", eta(1), 0.5586319039406792, 0.5586319039406792, KITAMURA + "eta_k"),
        ("eta_10", eta(10), 0.26793777068032565, 0.26793777068032565, KITAMURA + "eta_k"),
        ("eta_T", eta(80_000), 0.0025197447706604543, 0.0025197447706604543, KITAMURA + "eta_k"),
        ("tau_1", tau(1), 0.6443940149772542, 0.6443940149772542, KITAMURA + "tau_k"),
        ("tau_10", tau(10), 0.37010717248715336, 0.37010717248715336, KITAMURA + "tau_k"),
        ("tau_T", tau(80_000), 0.010933511405138732, 0.010933511405138732, KITAMURA + "tau_k"),
        ("margin", eps(1), 0.0, 0.0, KITAMURA + "dual step"),
        ("box", setting("dual_bound"), 1e100, 1e100, KITAMURA + "none; what a float64 bears"),
        ("Q_r at most in episode 10", cap(0, 0, episodes=10), 7.978322575323058, 5.626417151274378, KITAMURA + "Q"),
        ("Q_d at most", cap(0, 1, episodes=10), 5.0, 4.0, KITAMURA + "Q"),
    ]),
    ("uopt-rpgpd", {"bonus_horizon": True}, [
        ("bonus, n = 0", bonus(0), 893.2390875133286, 584.2127281717665, KITAMURA + "with factor H"),
    ]),
    ("uopt-rpgpd", {"notebook_slips": True}, [
        ("last bonus, n = 10", bonus(10, step=-1), 18.29687653165043, 16.034416110768625, KITAMURA + "bonus"),
        ("last bonus, n = 7 + 3", bonus(10, -1, 3), 18.9947466969237, 16.6853938389089, KITAMURA + "bonus"),
    ]),
    ("uopt-rpgpd", PRACTICAL, [
        ("bonus, n = 1", bonus(1), 0.47816453574317147, 0.4127495571042368, SWEEP + "bonus_scale"),
        ("eta_10", eta(10), 0.26793777068032565, 0.26793777068032565, SWEEP + "exponent_eta"),
        ("tau_10", tau(10), 0.37010717248715336, 0.37010717248715336, SWEEP + "exponent_tau"),
    ]),
    ("rpd-oe", THEORY, [
        ("eta", eta(1), 0.00021022410381342862, 0.002466942681640951, MUELLER),
        ("eta later", eta(80_000), 0.00021022410381342862, 0.002466942681640951, MUELLER),
        ("tau", tau(1), 0.2438449420228684, 0.3675867455182565, MUELLER),
        ("margin", eps(1), 0.0, 0.0, MUELLER),
        ("phi_r", part(0), 3.360027070375478, 3.0739756458735386, MUELLER),
        ("phi_p", part(1), 45.38351543577918, 27.608237032403178, MUELLER),
        ("phi_p log A", part(2), 73.04195034188122, 30.330748472260115, MUELLER),
        ("phi, n = 10", bonus(10), 15.41406155446807, 9.702567571704947, MUELLER),
        ("box", setting("dual_bound"), 8.0, 20.0, MUELLER),
        ("N = 0 optimistic", setting("optimistic"), 0, 0, MUELLER),
    ]),
    ("rpd-oe", PRACTICAL, [
        ("eta", eta(1), 0.03381216689031207, 0.09054482289358796, SWEEP + "exponent_eta"),
        ("tau", tau(1), 0.03381216689031207, 0.09054482289358796, SWEEP + "exponent_tau"),
        ("phi, n = 1", bonus(1), 0.0, 0.0, SWEEP + "bonus_scale"),
        ("phi_p log A", part(2), 0.0, 0.0, SWEEP + "bonus_scale"),
        ("N = 0 optimistic", setting("optimistic"), 1, 1, SWEEP + "unvisited"),
    ]),
    ("rpd-oe", {**PRACTICAL, "scale_entropy_bonus": False}, [
        ("phi_p log A, unscaled", part(2), 73.04195034188122, 30.330748472260115, MUELLER),
    ]),
    ("optpess-pd", THEORY, [
        ("delta'", option("event_delta"), 6.25e-07, 5.314625850340136e-06, LIU + "delta'"),
        ("c_b", option("bonus_factor"), 23.360679774997898, 11.583005244258363, LIU + "bonus"),
        ("c_e", option("margin_factor"), 25000.0, 2566.2423891752705, LIU + "eps_k"),
        ("bonus, n = 1", bonus(1), 118.13968579210932, 51.996490505160594, LIU + "bonus"),
        ("bonus, n = 10", bonus(10), 37.3590489159699, 16.44273403316266, LIU + "bonus"),
        ("eps_1", eps(1), 101104.88108798956, 9679.662878221752, LIU + "eps_k"),
        ("eps_10", eps(10), 34139.77103617812, 3298.0806184409425, LIU + "eps_k"),
        ("eps_T", eps(80_000), 464.4754798126074, 45.79637446400518, LIU + "eps_k"),
        ("1 / eta_2", eta(1), 0.0565685424949238, 0.2209708691207961, LIU + "eta_k"),
        ("1 / eta_11", eta(10), 0.02412090756622109, 0.09422229518055113, LIU + "eta_k"),
        ("1 / eta_T+1", eta(80_000), 0.0002828409447242387, 0.0011048474403290575, LIU + "eta_k"),
        ("tau", tau(1), 0.0, 0.0, LIU + "no regularisation"),
        ("box", setting("dual_bound"), 1e100, 1e100, LIU + "none; what a float64 bears"),
        ("bonus of the entropy", part(2), 0.0, 0.0, "no entropy there"),
        ("N = 0 optimistic", setting("optimistic"), 0, 0, LIU + "bonus"),
    ]),
    ("optpess-pd", PRACTICAL, [
        ("bonus, n = 1", bonus(1), 0.011813968579210932, 0.00519964905051606, SWEEP + "bonus_scale"),
        ("eps_1", eps(1), 1.0110488108798956, 0.09679662878221752, SWEEP + "margin_scale"),
        ("1 / eta_2", eta(1), 0.0565685424949238, 0.2209708691207961, SWEEP + "weight_scale"),
        ("N = 0 optimistic", setting("optimistic"), 1, 1, SWEEP + "unvisited"),
    ]),
    ("anchordome", {}, [
        ("eta", eta(1), 0.1, 0.1, ANCHOR),
        ("tau", tau(1), 1.0, 1.0, ANCHOR),
        ("rho", option("anchor_rate"), 0.01, 0.01, ANCHOR),
        ("margin_1", eps(1), 3.0, 3.0, ANCHOR),
        ("margin_10", eps(10), 0.9486832980505138, 0.9486832980505138, ANCHOR),
        ("margin_T", eps(80_000), 0.010606601717798213, 0.010606601717798213, ANCHOR),
        ("phi_r", part(0), 0.003360027070375478, 0.0030739756458735386, ANCHOR),
        ("phi_p", part(1), 0.04538351543577918, 0.027608237032403178, ANCHOR),
        ("bonus of the entropy", part(2), 0.0, 0.0, ANCHOR),
        ("phi, n = 10", bonus(10), 0.01541406155446807, 0.009702567571704947, ANCHOR),
        ("box", setting("dual_bound"), 8.0, 20.0, ANCHOR),
        ("N = 0 optimistic", setting("optimistic"), 1, 1, ANCHOR),
    ]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "options", "read", "expected"),
    [
        pytest.param(name, options, read, (paper, other), id=f"{name}: {constant} {options or ''} ({place})")
        for name, options, rows in GOLDEN
        for constant, read, paper, other, place in rows
    ],
)
def test_a_constant_has_its_value(name: str, options: dict[str, Any], read: Any, expected: tuple[float, float]) -> None:
    for size, value in zip((PAPER, OTHER), expected, strict=True):
        assert read(made(name, size, **options)) == pytest.approx(value, rel=TIGHT, abs=0.0)


# -- the theory, in numbers -----------------------------------------------------------------------------

# constant, how it is found, its value at the two sizes
NUMBERS: list[tuple[str, Callable[[fd.Problem, int, float], float], float, float]] = [
    ("L_r", lambda p, T, delta: bonus_logs(p, T, delta)[0], 11.289781913656018, 9.449326271423638),
    ("L_p", lambda p, T, delta: bonus_logs(p, T, delta)[1], 82.3865389323843, 47.638422002334885),
    ("C_B", lambda p, T, delta: error_constant(p), 136392.69533941738, 195685.21556486338),
    ("(18/5) sqrt(H^3 C_B)", lambda p, T, delta: margin_coefficient(p), 14864.594392376004, 12740.060643423965),
    ("eta_1, delayed", lambda p, T, delta: delayed(p, delta, 1), 0.5, 0.5),
    ("eta_10, delayed", lambda p, T, delta: delayed(p, delta, 10), 0.39595934718958875, 0.39595934718958875),
    ("eta_T, delayed", lambda p, T, delta: delayed(p, delta, 80_000), 0.000656236199943705, 0.000656236199943705),
]


def delayed(problem: fd.Problem, delta: float, t: int) -> float:
    """eta_t where its scale is 8 and that of tau_t is 2: 8 (t - 1 + 16^(6/5))^(-5/6)."""
    return float(theorem1(problem, delta, step_scale=8.0, regularisation_scale=2.0).table(t, 1, 1)[0][0])


@pytest.mark.parametrize(("find", "expected"), [pytest.param(n[1], n[2:], id=n[0]) for n in NUMBERS])
def test_a_number_of_the_theory_has_its_value(find: Any, expected: tuple[float, float]) -> None:
    for size, value in zip((PAPER, OTHER), expected, strict=True):
        assert find(*size) == pytest.approx(value, rel=TIGHT, abs=0.0)


@pytest.mark.parametrize(
    ("size", "scale", "expected"),
    [
        (PAPER, 1.0, 1.7504951950873074e27),
        (PAPER, 1e-3, 461252848.2698346),
        (PAPER, 1e-5, 1.0),
        (OTHER, 1.0, 7.129498203161883e29),
        (OTHER, 1e-3, 215307816146.88983),
    ],
)
def test_a_burn_in_has_its_value(size: Any, scale: float, expected: float) -> None:
    problem, _, delta = size
    assert burn_in(problem, delta, scale) == pytest.approx(expected, rel=1e-10, abs=0.0)
    if scale == 1.0:
        assert burn_in(problem, delta) == burn_in(problem, delta, 1.0)


def test_a_burn_in_is_found_up_to_1e300_and_infinite_from_there_on() -> None:
    def scale_for(t: float) -> float:
        return 1.25 / float(theorem1(PAPER[0]).margin(t))  # type: ignore[operator]

    assert burn_in(PAPER[0], 0.1, scale_for(0.99e300)) == pytest.approx(0.99e300, rel=1e-8)
    assert burn_in(PAPER[0], 0.1, scale_for(1.01e300)) == math.inf
    assert burn_in(PAPER[0], 0.1, scale_for(1.0 + 1e-6)) == pytest.approx(1.0 + 1e-6, rel=1e-12)
    assert burn_in(PAPER[0], 0.1, 0.999 * scale_for(1.0)) == 1.0


def test_a_power_is_coefficient_shift_and_exponent_and_a_margin_its_formula() -> None:
    assert Power(3.0)(7.0) == 3.0
    assert Power(3.0, -2.0)(2.0) == 0.75
    assert Power(3.0, -2.0, shift=2.0)(2.0) == 0.1875
    assert Margin(2.0, math.e)(1.0) == pytest.approx(2.0, rel=1e-15)
    assert Margin(2.0, math.exp(16.0) / 64.0)(64.0) == pytest.approx(2.0, rel=1e-14)  # 2 x 1/2 x 16^(1/4)


def test_theorem_1_has_scales_of_one_and_a_confidence_of_one_tenth_unless_given() -> None:
    eta, tau, margin = (float(x.ravel()[0]) for x in theorem1(PAPER[0]).table(10, 1, 1))
    assert eta == pytest.approx(0.14677992676220694, rel=TIGHT)
    assert tau == pytest.approx(0.6812920690579612, rel=TIGHT)
    assert margin == pytest.approx(18929.1182429672, rel=TIGHT)


def test_theorem_2_takes_each_coefficient_as_one_unless_given() -> None:
    assert [float(x.ravel()[0]) for x in theorem2(0.5).table(1, 1, 1)] == [0.125, 0.5, 0.5]
    named = {"c_eta": 0, "c_tau": 1, "c_margin": 2}
    for name, k in named.items():
        doubled = [float(x.ravel()[0]) for x in theorem2(0.5, **{name: 2.0}).table(1, 1, 1)]
        assert doubled[k] == 2.0 * [0.125, 0.5, 0.5][k]


# -- both sides of every bound --------------------------------------------------------------------------

TINY, ABOVE = 5e-324, np.nextafter(1e100, math.inf)
BELOW_ONE, ABOVE_ONE = np.nextafter(1.0, 0.0), np.nextafter(1.0, 2.0)
AT_LEAST_0 = ([0.0, 0.5], [-TINY, -1.0, math.nan, math.inf])
UP_TO_LARGEST = ([0.0, 0.5, 1e100], [-TINY, ABOVE, math.nan, math.inf])
ABOVE_SCALE = np.nextafter(1e95, math.inf)
SCALE = ([0.0, 0.5, 1e95], [-TINY, ABOVE_SCALE, math.nan, math.inf])
EPISODES = ([1, 2**53], [0, -1, 2**53 + 1, 1.5])
DELTA = ([1e-100, 0.5, 1.0], [0.0, -TINY, np.nextafter(1e-100, 0.0), ABOVE_ONE, math.nan])
SEED = ([0, 7], [-1, 0.5])
COMMON = {"episodes": EPISODES, "delta": DELTA, "seed": SEED}

BOUNDS: dict[str, dict[str, tuple[list[Any], list[Any]]]] = {  # what is taken, what is refused
    "flexdome": {
        **COMMON,
        "bonus_scale": AT_LEAST_0,
        "margin_scale": AT_LEAST_0,
        "step_scale": SCALE,
        "regularisation_scale": SCALE,
        "dual_bound": UP_TO_LARGEST,
        "tuning": (["stated", "theory", "practical", "safe"], ["best", None, 1]),
        "unvisited": (["paper", "optimistic", None], ["maybe", 1]),
        "margin": ([True, False], [1, None]),
        "regularisation": ([True, False], [0, "x"]),
        "scale_entropy_bonus": ([True, False], [1.0, None]),
        "schedules": ([None, fd.Schedules(0.1, 0.1)], [0.1, "x"]),
    },
    "optprimaldual": {
        **COMMON,
        "bonus_scale": AT_LEAST_0,
        "policy_step": SCALE,
        "dual_step": AT_LEAST_0,
        "dual_bound": SCALE,
        "reward_bonus_factor": AT_LEAST_0,
        "reward_bonus_size": ([1.0, 7.0], [BELOW_ONE, 0.0, math.inf]),
        "dual_policy": (["current", "next"], ["last", None, 1]),
        "tuning": (["theory", "practical"], ["stated", None]),
        "unvisited": (["paper", "optimistic", None], ["maybe", 1]),
        "threshold_estimate": (["mean", "last"], ["median", None]),
    },
    "uopt-rpgpd": {
        **COMMON,
        "bonus_scale": AT_LEAST_0,
        "exponent_eta": AT_LEAST_0,
        "exponent_tau": AT_LEAST_0,
        "dual_bound": UP_TO_LARGEST,
        "notebook_slips": ([True, False], [1, None]),
        "bonus_horizon": ([True, False], [1, None]),
        "tuning": (["theory", "practical"], ["stated", None]),
        "threshold_estimate": (["mean", "last"], ["median", None]),
    },
    "rpd-oe": {
        **COMMON,
        "bonus_scale": AT_LEAST_0,
        "exponent_eta": AT_LEAST_0,
        "exponent_tau": AT_LEAST_0,
        "dual_bound": UP_TO_LARGEST,
        "scale_entropy_bonus": ([True, False], [1, None]),
        "tuning": (["theory", "practical"], ["stated", None]),
        "unvisited": (["paper", "optimistic", None], ["maybe", 1]),
        "threshold_estimate": (["mean", "last"], ["median", None]),
    },
    "optpess-pd": {
        **COMMON,
        "bonus_scale": AT_LEAST_0,
        "margin_scale": AT_LEAST_0,
        "weight_scale": AT_LEAST_0,
        "bonus_factor": AT_LEAST_0,
        "margin_factor": AT_LEAST_0,
        "event_delta": ([1e-200, 0.5, BELOW_ONE], [0.0, 0.99e-200, 1.0, -TINY, ABOVE_ONE, math.nan]),
        "tuning": (["theory", "practical"], ["stated", None]),
        "unvisited": (["paper", "optimistic", None], ["maybe", 1]),
        "threshold_estimate": (["mean", "last"], ["median", None]),
    },
    "anchordome": {
        **COMMON,
        "step_size": ([0.0, 0.5, 1.0], [-TINY, math.nan]),
        "regularisation": ([0.0, 10.0], [-TINY, math.nan]),
        "anchor_rate": ([0.0, 1.0], [-TINY, ABOVE_ONE]),
        "margin_scale": SCALE,
        "bonus_scale": AT_LEAST_0,
    },
}


@pytest.mark.parametrize(("name", "option"), [(name, option) for name, own in BOUNDS.items() for option in own])
def test_an_option_is_taken_up_to_its_bounds_and_refused_beyond(name: str, option: str) -> None:
    taken, refused = BOUNDS[name][option]
    for value in taken:
        # eta tau may not exceed 1: a large step goes with no regularisation.
        rest = {"regularisation": False} if option == "step_scale" else {}
        learner = made(name, OTHER, **{option: value, **rest})
        if option in learner.options() and value is not None:
            assert learner.options()[option] == value
    for value in refused:
        with pytest.raises(fd.ValidationError):
            made(name, OTHER, **{option: value})


@pytest.mark.parametrize("name", NAMES)
def test_a_learner_is_made_of_a_problem(name: str) -> None:
    with pytest.raises(fd.ValidationError, match="problem is a int; it must be a Problem"):
        fd.make_learner(name, 3)


@pytest.mark.parametrize("name", NAMES)
def test_a_run_is_planned_for_80_000_episodes_with_delta_01_and_seed_0_unless_said(name: str) -> None:
    options = fd.make_learner(name, PAPER[0]).options()
    assert (options["episodes"], options["delta"], options["seed"]) == (80_000, 0.1, 0)


def test_a_bonus_may_be_as_large_as_1e100() -> None:
    # log(T / delta') = 1, so that the bonus is its factor
    options = {"episodes": 1, "event_delta": math.exp(-1.0)}
    assert bonus(0)(made("optpess-pd", OTHER, bonus_scale=1e95, bonus_factor=1e5, **options)) == 1e100
    with pytest.raises(fd.ValidationError, match="bonus_scale is too large for this problem: the bonus it gives"):
        made("optpess-pd", OTHER, bonus_scale=1e95, bonus_factor=np.nextafter(1e5, 2e5), **options)


def test_the_slips_need_one_state_more() -> None:
    problem = OTHER[0]  # H = 4
    learner = fd.make_learner("uopt-rpgpd", problem, notebook_slips=True)
    short = fd.Episode(np.zeros(4, dtype=int), np.zeros(4, dtype=int), np.zeros(4), np.zeros((3, 4)))
    with pytest.raises(fd.ValidationError, match="states has length 4; with notebook_slips it must be 5, with the"):
        learner.observe(short)
    fd.make_learner("uopt-rpgpd", problem).observe(short)


def test_a_learner_knows_whether_its_schedules_are_the_users() -> None:
    assert fd.FlexDOME(PAPER[0]).own_schedules is False
    assert fd.FlexDOME(PAPER[0], schedules=fd.Schedules(0.1, 0.1)).own_schedules is True


@pytest.mark.parametrize("name", NAMES)
def test_one_sample_of_a_threshold_is_its_mean(name: str) -> None:
    learner = fd.make_learner(name, fd.Problem(2, 2, 1, 0, [math.nan], 0.5))
    assert learner.beliefs().thresholds.tolist() == [0.0]
    learner.observe(fd.Episode([0, 1], [1], [0.5], [[0.5]], [[0.3]]))
    assert learner.beliefs().thresholds.tolist() == [0.3]


@pytest.mark.parametrize("name", NAMES)
def test_a_learner_put_back_together_from_its_state_goes_on_alike(name: str) -> None:
    options = {"margin_scale": 20.0} if name == "anchordome" else {"bonus_scale": 0.0}
    learner, again = (made(name, OTHER, **options) for _ in range(2))
    seen(learner, 12, other=5)
    again.restore({part: array.copy() for part, array in learner.state().items()})
    again.episode = learner.episode
    for one in (learner, again):
        seen(one, 3, other=1)
    assert (learner.policy == again.policy).all()
    assert (learner.multipliers == again.multipliers).all()
    assert (learner.multipliers > 0).all()
    assert {k: x.tobytes() for k, x in learner.state().items()} == {k: x.tobytes() for k, x in again.state().items()}


# -- room in memory -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("states", "lanes"), [(1, 8), (7, 8), (8, 8), (9, 16), (20, 24)])
@pytest.mark.parametrize(("constraints", "block"), [(1, 4), (2, 4), (3, 8), (6, 8), (7, 12)])
def test_cells_come_in_eights_and_their_values_in_fours(states: int, lanes: int, constraints: int, block: int) -> None:
    model = OptimisticModel(fd.Problem(states, 2, 3, 0, np.zeros(constraints), 1.0))
    assert (model.C, model.W) == (lanes, block)
    assert model.core.policy.pi.size == 3 * 2 * lanes
    assert model.core.work.values.size == 3 * lanes * block


def test_a_fresh_model_has_room_for_1024_successors_and_none_after_the_last_step() -> None:
    core = OptimisticModel(OTHER[0]).core
    assert (core.counts.pool_cell.size, core.counts.pool_count.size) == (1024, 1024)
    assert (core.work.last.size, core.work.after.size) == (0, 0)
    slips = OptimisticModel(OTHER[0], slips=True).core
    assert (slips.work.last.shape, slips.work.after.shape) == ((7, 3, 7), (7,))


@pytest.mark.parametrize(
    ("used", "largest", "episodes", "size"),
    [
        (960, 8, 1, 1024),  # 960 + H x 2 x 8 = 1024: just enough
        (961, 8, 1, 2048),  # one too many: twice the room
        (1007, 1, 1, 1024),  # a list has room for four at least
        (1009, 1, 1, 2048),
        (1000, 8, 100, 7400),  # what is needed, where twice is not enough
    ],
)
def test_a_pool_of_successors_has_room_for_every_list_to_grow(
    used: int, largest: int, episodes: int, size: int
) -> None:
    model = OptimisticModel(OTHER[0])  # H = 4
    model.core.counts.pool[:] = used, largest
    model.core.counts.pool_cell[:used], model.core.counts.pool_count[:used] = np.arange(used), 2.0 * np.arange(used)
    model.reserve() if episodes == 1 else model.reserve(episodes)
    assert (model.core.counts.pool_cell.size, model.core.counts.pool_count.size) == (size, size)
    assert (model.core.counts.pool_cell[:used] == np.arange(used)).all()
    assert (model.core.counts.pool_count[:used] == 2.0 * np.arange(used)).all()
    assert not model.core.counts.pool_count[used:].any()


def test_known_transitions_are_lists_one_after_the_other() -> None:
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(6), (3, 6, 2))
    p[:, ::2] = np.eye(6)[rng.integers(6, size=(3, 3, 2))]  # of every other state one successor
    problem = fd.CMDP(p, np.zeros((3, 6, 2)), np.ones((1, 3, 6, 2)), [0.5], 0).problem(reveal=("transitions",))
    model = fd.FlexDOME(problem, episodes=10).model
    counts, used = model.counts, 0
    for h in range(2):
        for row, (a, s) in zip(model.rows(h), np.ndindex(2, 6), strict=True):
            after, place = np.flatnonzero(p[h, s, a]), slice(used, used + np.count_nonzero(p[h, s, a]))
            room = 4 if after.size == 1 else 8
            assert (counts.start[row], counts.length[row], counts.capacity[row]) == (used, after.size, room)
            np.testing.assert_array_equal(counts.pool_cell[place], (h + 1) * 8 + after)
            np.testing.assert_array_equal(counts.pool_count[place], p[h, s, a, after])
            used += room
    assert counts.pool.tolist() == [used, 0]


def test_what_was_never_tried_leads_evenly_to_every_state() -> None:
    model = OptimisticModel(OTHER[0], slips=True)  # H = 4, S = 7, A = 3
    model.lead_evenly()
    counts = model.counts
    for h in range(3):
        rows, place = model.rows(h), slice(8 * h, 8 * h + 7)
        assert {*zip(counts.start[rows], counts.length[rows], counts.capacity[rows], strict=True)} == {(8 * h, 7, 0)}
        assert counts.pool_cell[place].tolist() == [8 * (h + 1) + s for s in range(7)]
        assert counts.pool_count[place].tolist() == [1.0 / 7.0] * 7
    assert counts.pool[0] == 24
    assert (model.core.work.last == 1.0 / 7.0).all()
    assert not counts.length[model.rows(3)].any()


@pytest.mark.parametrize(("room", "size"), [(24, 1024), (25, 2050)])
def test_a_pool_that_is_too_small_is_made_twice_as_large_as_is_used(room: int, size: int) -> None:
    model = OptimisticModel(OTHER[0])
    model.counts.pool[0], model.counts.pool_cell[:], model.counts.pool_count[:] = 1000, 5, 0.5
    model._take(room)
    counts = model.counts
    assert (counts.pool[0], counts.pool_cell.size, counts.pool_count.size) == (1000 + room, size, size)
    assert (counts.pool_cell[:1024] == 5).all()
    assert (counts.pool_count[:1024] == 0.5).all()


@pytest.mark.parametrize("worth", [False, True])
def test_lists_are_tidied_once_a_third_of_the_pool_is_left_over(worth: bool) -> None:
    cmdp = small_cmdp(1, S=9, A=2, H=3)
    learner, world = fd.FlexDOME(cmdp.problem(), episodes=200), World(cmdp)
    for _ in range(200):
        learner.observe(world.play(learner.policy))
    model = learner.model
    tried = [int(row) for h in (2, 1, 0) for row in model.counts.tried[32 * h :][: model.counts.n_tried[h]]]

    def lists() -> list[list[tuple[int, float]]]:
        c = model.counts
        return [
            [(int(c.pool_cell[k]), float(c.pool_count[k])) for k in range(c.start[row], c.start[row] + c.length[row])]
            for row in tried
        ]

    before, third = lists(), -(-int(model.counts.pool[0]) // 3)
    model.counts.pool[0], model._tidy = 3 * third, 2 * third - worth
    model.tidy()
    assert lists() == before
    room = [-(-len(one) // 4) * 4 for one in before]
    assert sum(room) < 3 * third - 2
    assert model.counts.pool[0] == (sum(room) if worth else 3 * third)
    if not worth:
        return
    assert model._tidy == sum(room)
    assert model.counts.start[tried].tolist() == (np.cumsum(room) - room).tolist()
    assert model.counts.capacity[tried].tolist() == room
    assert not model.counts.pool_count[sum(room) :].any()
    assert not model.counts.pool_cell[sum(room) :].any()


def test_where_means_are_known_a_policy_begins_with_all_that_is_allowed_alike() -> None:
    allowed = np.ones((3, 4, 3), dtype=bool)
    allowed[..., 2] = allowed[0, 1, 0] = allowed[1, 2, 1] = allowed[2, 0, 1] = False
    cmdp = fd.CMDP(np.full((3, 4, 3, 4), 0.25), np.zeros((3, 4, 3)), np.ones((1, 3, 4, 3)), [0.5], 0, allowed=allowed)
    learner = fd.FlexDOME(cmdp.problem(reveal=("rewards",)), episodes=10)
    assert most_actions(learner.problem) == 2
    n = allowed.sum(axis=-1)
    np.testing.assert_array_equal(learner.policy, np.where(allowed, 1.0 / n[..., None], 0.0))
    np.testing.assert_allclose(learner.model.core.policy.entropy.reshape(3, 8)[:, :4], np.log(n))


def test_a_tally_makes_room_for_missing_samples_with_the_first_and_counts_them_from_then_on() -> None:
    tally = Tally(OTHER[0])  # m = 3, H = 4
    states, actions, utilities = np.array([0, 1, 2, 3, 4]), np.array([1, 0, 2, 0]), np.full((3, 4), 0.5)
    gone = np.where(np.eye(3, 4) == 1.0, np.nan, 0.25)  # utility i in step i
    for given, kept in ((utilities, False), (gone, True), (utilities, True), (gone, True)):
        data = states, actions, np.ones(4), given, np.zeros((0, 0))
        tally.expect([data])
        assert tally.counts.missing.shape == ((3, 4 * 3 * 8) if kept else (0, 0))
        counted(tally.counts, *data)
    assert tally.episodes == 4
    h = np.arange(4)
    assert tally.visits.sum() == tally.visits[h, states[:4], actions].sum() == 16.0
    of_cells = np.array([tally.by_state(row, 0.0)[h, states[:4], actions] for row in tally.samples()])
    np.testing.assert_array_equal(of_cells, 4.0 - 2.0 * np.eye(3, 4))
    np.testing.assert_allclose(tally.utility_means()[:, h, states[:4], actions], 0.375 + 0.125 * np.eye(3, 4))


@pytest.mark.skipif(not hasattr(mmap, "MAP_PRIVATE"), reason="pages are asked for by hand where mmap can")
def test_arrays_from_four_megabytes_on_are_made_of_ordinary_pages() -> None:
    small, large = _zeros(2**19 - 1), _zeros((2, 2**18))  # float64
    assert small.base.dtype == np.uint8  # NumPy's own, from a line of the cache on
    assert isinstance(large.base.base.obj, mmap.mmap)
    assert small.ctypes.data % 64 == large.ctypes.data % 64 == 0
    assert large.shape == (2, 2**18)
    assert large.dtype == small.dtype == np.float64
    assert not large.any()


# -- schedules as a learner asks for them ---------------------------------------------------------------


def test_the_schedules_of_our_own_are_worked_out_for_a_whole_table_at_once() -> None:
    assert Power.vectorised
    assert Margin.vectorised
    assert QueueMargin.vectorised


def test_a_learner_has_the_schedule_of_any_episodes_in_any_order() -> None:
    learner = made("flexdome", OTHER)
    for first, count in ((1, 1), (2, 5), (1, 3000), (1, 3001), (2999, 3), (5, 1), (4000, 5000), (4095, 3), (1, 2)):
        for got, expected in zip(learner.schedule(first, count), learner.schedules.table(first, count, 3), strict=True):
            assert got.shape == expected.shape
            assert (got == expected).all()


@pytest.mark.parametrize("episodes", [1, 30, 4096, 4097, 5000])
def test_a_schedule_that_ends_with_the_plan_is_not_asked_for_more(episodes: int) -> None:
    asked: list[float] = []

    def eta(t: float) -> float:
        asked.append(t)
        return 0.1

    problem = fd.Problem(1, 1, 1, 0, [0.5], 0.5)
    learner = fd.FlexDOME(problem, episodes=episodes, schedules=fd.Schedules(eta, 0.1))
    assert max(asked) == min(episodes, 4096)  # a table at a time
    for t in range(1, episodes + 1):
        learner.schedule(t, 1)
    assert sorted(asked) == list(range(1, episodes + 1))  # each once
    assert learner.schedule(episodes + 1, 2)[0].tolist() == [0.1, 0.1]  # past the plan, as far as it is asked
    assert max(asked) == episodes + 2


def test_a_schedule_is_taken_up_to_its_bounds_and_refused_beyond() -> None:
    for taken in ((1e100, 0.0, 0.0), (0.0, 1e100, 0.0), (0.0, 0.0, 1e100), (0.0, 0.0, -1e100), (1.0 + 1e-12, 1.0, 0.0)):
        assert [float(x.ravel()[0]) for x in fd.Schedules(*taken).table(1, 1, 1)] == list(taken)
    over = np.nextafter(1.0 + 1e-12, 2.0)
    for refused in ((ABOVE, 0.0, 0.0), (0.0, ABOVE, 0.0), (0.0, 0.0, ABOVE), (0.0, 0.0, -ABOVE), (over, 1.0, 0.0)):
        with pytest.raises(fd.ValidationError, match=r"1e\+100|must not exceed 1"):
            fd.Schedules(*refused).table(1, 1, 1)
    for refused in ((-TINY, 0.0, 0.0), (0.0, -TINY, 0.0)):
        with pytest.raises(fd.ValidationError, match=r"must lie in \[0, 1e\+100\]"):
            fd.Schedules(*refused).table(1, 1, 1)


def test_a_bad_schedule_is_named_with_the_episode_where_it_goes_wrong() -> None:
    for bad, message in (
        (fd.Schedules(lambda t: -1.0 if t == 6 else 0.1, 0.1), "eta at episode 6 is -1.0"),
        (fd.Schedules(lambda t: 20.0 if t == 6 else 0.1, 0.1), r"eta \* tau at episode 6 is 2;"),
        (fd.Schedules(0.1, 0.1, lambda t: [0.1, math.nan] if t == 6 else 0.1), "margin at episode 6 is nan"),
        (fd.Schedules(0.1, 0.1, lambda t: [0.1, 0.1, 0.1] if t == 6 else 0.1), r"margin at episode 6 has shape \(3,\)"),
        (fd.Schedules(0.1, 0.1, [0.1, 0.1, 0.1]), r"margin has shape \(3,\); it must be a number or have shape \(2,\)"),
        (fd.Schedules([0.1, 0.1], 0.1), r"eta has shape \(2,\); it must be a number"),
    ):
        with pytest.raises(fd.ValidationError, match=message):
            bad.table(4, 5, 2)


def test_the_arguments_of_the_theory_are_taken_up_to_their_bounds() -> None:
    problem = PAPER[0]
    for delta in (1e-100, 1.0):
        assert as_confidence(delta) == delta
    for delta in (0.0, -TINY, np.nextafter(1e-100, 0.0), ABOVE_ONE):
        with pytest.raises(fd.ValidationError, match="delta"):
            as_confidence(delta)
    for episodes in (1, 2**53):
        assert bonus_logs(problem, episodes, 0.1)[1] > 40
    for episodes in (0, 2**53 + 1):
        with pytest.raises(fd.ValidationError, match="episodes"):
            bonus_logs(problem, episodes, 0.1)
    assert burn_in(problem, 0.1, 0.0) == 1.0
    for call in (lambda: burn_in(problem, 0.1, -TINY), lambda: theorem1(problem, margin_scale=-TINY)):
        with pytest.raises(fd.ValidationError, match="margin_scale"):
            call()
    assert theorem1(problem, margin_scale=0.0).table(1, 1, 1)[2][0, 0] == 0.0
    for name in ("step_scale", "regularisation_scale"):
        for value in (0.0, 1e100):
            assert theorem1(problem, **{name: value})
        for value in (-TINY, ABOVE):
            with pytest.raises(fd.ValidationError, match=name):
                theorem1(problem, **{name: value})
    assert theorem2(TINY)
    assert theorem2(1e100, 0.0, 0.0, 0.0).table(1, 1, 1)[0][0] == 0.0
    for value in (0.0, -TINY, ABOVE):
        with pytest.raises(fd.ValidationError, match="epsilon"):
            theorem2(value)
    for name in ("c_eta", "c_tau", "c_margin"):
        with pytest.raises(fd.ValidationError, match=name):
            theorem2(0.5, **{name: -TINY})


def test_a_tuning_is_looked_up_by_name_and_what_is_given_wins() -> None:
    theory, practical = {"a": 1.0, "b": 2.0}, {"a": 3.0, "b": 4.0}
    assert chosen("theory", theory, practical, {"a": None, "b": None}) == theory
    assert chosen("practical", theory, practical, {"a": None, "b": 0.0}) == {"a": 3.0, "b": 0.0}
    with pytest.raises(fd.ValidationError, match=r"a is -5e-324; it must be at least 0"):
        chosen("theory", theory, practical, {"a": -TINY, "b": None})
    assert chosen("theory", theory, practical, {"a": 1e95, "b": None, "c": "else"}) == {"a": 1e95, "b": 2.0}
    with pytest.raises(fd.ValidationError, match=r"a is 1.0+2e.95; it must be"):
        chosen("theory", theory, practical, {"a": ABOVE_SCALE, "b": None})
    assert [unvisited_rule(tuning, None) for tuning in ("theory", "practical")] == ["paper", "optimistic"]
    for given in ("paper", "optimistic"):
        assert [unvisited_rule(tuning, given) for tuning in ("theory", "practical")] == [given, given]
    with pytest.raises(fd.ValidationError, match="unvisited is 'never'; it must be 'paper' or 'optimistic'"):
        unvisited_rule("theory", "never")  # type: ignore[arg-type]
    assert one_of("x", "b", ("a", "b")) == "b"
    assert switch("x", True) is True
    assert switch("x", False) is False
    assert checked(PAPER[0], 1, 1.0) == (1, 1.0)


# -- a few episodes beside the slow twin ----------------------------------------------------------------

BESIDE: list[tuple[str, dict[str, Any]]] = [
    ("flexdome", {"tuning": "stated"}),
    ("flexdome", {"tuning": "theory"}),
    ("flexdome", {"tuning": "practical"}),
    ("flexdome", {"tuning": "safe"}),
    ("flexdome", {"bonus_scale": 0.01, "margin_scale": 1e-4}),
    ("flexdome", {"bonus_scale": 0.01, "unvisited": "optimistic", "step_scale": 8.0, "regularisation_scale": 0.5}),
    ("flexdome", {"bonus_scale": 1e-4, "scale_entropy_bonus": False, "delta": 1e-12, "dual_bound": 0.05}),
    ("flexdome", {"margin": False}),
    ("flexdome", {"regularisation": False, "schedules": fd.Schedules(0.1, 0.2, lambda t: 0.1 / t)}),
    ("optprimaldual", {"tuning": "theory"}),
    ("optprimaldual", {"tuning": "practical", "dual_step": 1.0}),
    ("optprimaldual", {"bonus_scale": 1e-3, "policy_step": 0.1, "dual_step": 0.5, "dual_policy": "next"}),
    ("optprimaldual", {"bonus_scale": 1e-3, "policy_step": 0.1, "dual_step": 0.5, "reward_bonus_factor": 400.0}),
    ("uopt-rpgpd", {"tuning": "theory"}),
    ("uopt-rpgpd", {"tuning": "practical"}),
    ("uopt-rpgpd", {"tuning": "practical", "notebook_slips": True}),
    ("uopt-rpgpd", {"bonus_scale": 3e-4, "bonus_horizon": True, "dual_bound": 0.1}),
    ("rpd-oe", {"tuning": "theory"}),
    ("rpd-oe", {"tuning": "practical"}),
    ("rpd-oe", {"bonus_scale": 0.01, "exponent_eta": 0.3, "exponent_tau": 0.2, "dual_bound": 0.5}),
    ("rpd-oe", {"bonus_scale": 1e-4, "exponent_eta": 0.3, "exponent_tau": 0.2, "scale_entropy_bonus": False}),
    ("optpess-pd", {"tuning": "practical"}),
    ("optpess-pd", {"tuning": "practical", "bonus_scale": 1e-3, "unvisited": "paper"}),
    ("optpess-pd", {"bonus_scale": 1e-3, "margin_factor": 0.1, "event_delta": 0.01, "weight_scale": 3.0}),
    ("anchordome", {}),
    ("anchordome", {"bonus_scale": 0.02, "margin_scale": 0.5, "anchor_rate": 0.1, "regularisation": 0.5}),
]


@pytest.mark.parametrize("law", ["known", "steps"])
@pytest.mark.parametrize(("name", "options"), BESIDE)
def test_a_learner_starts_as_its_twin_does(name: str, options: dict[str, Any], law: str) -> None:
    cmdp = small_cmdp(2, S=4, m=2, law=law, noise="bernoulli", initial=np.array([0.6, 0.3, 0.0, 0.1]), fraction=1.05)
    problem = problem_of(cmdp, law)
    options = {"episodes": 40, **options}
    learner, twin, world = fd.make_learner(name, problem, **options), TWINS[name](problem, **options), World(cmdp)
    for _ in range(20):
        told = learner.beliefs()
        np.testing.assert_allclose(told.widths, twin.widths(), rtol=1e-11)
        np.testing.assert_allclose([told.value, *told.utilities], twin.values(), rtol=1e-10)
        np.testing.assert_allclose(told.thresholds, twin.alpha(), rtol=1e-12)
        np.testing.assert_array_equal(told.visits, twin.N)
        np.testing.assert_array_equal(told.margin, learner.schedule(learner.episode + 1, 1)[2][0])
        episode = world.play(learner.policy)
        learner.observe(episode)
        twin.observe(episode)
        np.testing.assert_allclose(learner.multipliers, twin.lam, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(learner.policy, twin.policy, atol=1e-10)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("episodes", [0, 5])
def test_a_twin_to_which_all_is_revealed_holds_the_truth(name: str, episodes: int) -> None:
    cmdp = small_cmdp(2, S=4, m=2)
    twin = TWINS[name](cmdp.problem(reveal=("rewards", "utilities", "transitions")), episodes=40)
    world = World(cmdp)
    for _ in range(episodes):
        twin.observe(world.play(twin.policy))
    truth = evaluate(cmdp.transitions, cmdp.model.f, cmdp.initial, twin.policy)
    np.testing.assert_allclose(twin.values(), truth, rtol=1e-12)


@pytest.mark.parametrize("name", ["flexdome", "optprimaldual", "rpd-oe", "optpess-pd"])
def test_a_twin_counts_a_known_mean_as_itself_and_the_most_after_it(name: str) -> None:
    cmdp = small_cmdp(2, S=4, m=2)  # H = 4
    twin = TWINS[name](cmdp.problem(reveal=("rewards",)), tuning="practical", unvisited="optimistic")
    expected = [(twin.policy[0] * (cmdp.rewards[0] + 3.0)).sum(axis=-1) @ cmdp.initial, 4.0, 4.0]
    np.testing.assert_allclose(twin.values(), expected, rtol=1e-12)
    known = TWINS[name](cmdp.problem(reveal=("transitions",)), tuning="practical", unvisited="optimistic")
    np.testing.assert_allclose(known.values(), [4.0, 4.0, 4.0], rtol=1e-12)  # an unknown mean is 1 at every step


def test_the_arguments_of_a_table_are_taken_up_to_their_bounds() -> None:
    schedules = fd.Schedules(0.1, 0.1)
    assert [part.shape for part in schedules.table(1, 0, 10**6)] == [(0,), (0,), (0, 10**6)]
    for arguments, field in (((0, 1, 1), "first"), ((1, -1, 1), "count"), ((1, 1, 0), "constraints")):
        with pytest.raises(fd.ValidationError, match=field):
            schedules.table(*arguments)
    with pytest.raises(fd.ValidationError, match="constraints is 1000001; it must be between 1 and 1000000"):
        schedules.table(1, 0, 10**6 + 1)


def test_scales_whose_product_is_below_one_delay_nothing_and_a_product_of_one_is_taken() -> None:
    eta, tau, _ = theorem1(PAPER[0], step_scale=0.5, regularisation_scale=0.5).table(1, 1, 1)
    assert (eta[0], tau[0]) == (0.5, 0.5)
    eta, tau, margin = theorem2(1.0, 1.0, 1.0, 1e100).table(1, 1, 1)
    assert (eta[0], tau[0], margin[0, 0]) == (1.0, 1.0, 1e100)
    with pytest.raises(fd.ValidationError, match=r"eta \* tau at most 1"):
        theorem2(1.0, 1.0, 1.5)
