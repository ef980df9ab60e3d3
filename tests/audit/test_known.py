"""The known-model statements: on twenty instances each, and that a wrong bound is found out."""

from dataclasses import replace

import mpmath as mp
import numpy as np
import pytest

import flexdome as fd
from flexdome import theory as th
from flexdome.audit import drift_witness, known, last_iterates, margin_cover, sweep_exponents
from flexdome.audit.figures import exponents_figure, last_iterate_figure
from flexdome.audit.theorem_2 import LastIterates, last_iterate_findings, steps_needed
from flexdome.audit.trajectory import known_steps


def small(seed, **options):
    return fd.make_cmdp("paper-v1", seed=seed, **{"states": 4, "actions": 3, "horizon": 3, **options})


def steps_of(seeds, schedules, episodes=300, points=25):
    made = []
    for seed in seeds:
        cmdp = small(seed)
        problem = cmdp.problem()
        made.append(known_steps(cmdp, problem, schedules(problem), episodes, points, f"instance {seed}"))
    return made


@pytest.fixture(scope="module")
def decaying():
    return steps_of(range(20), lambda problem: th.theorem1(problem, margin_scale=5e-5))


@pytest.fixture(scope="module")
def constant():
    return steps_of(range(20), lambda problem: th.theorem2(0.2, c_margin=2.0))


def words(findings):
    return {finding.key: finding.word for finding in findings}


def test_drift_is_the_difference_between_two_saddle_points(decaying):
    one = decaying[3]
    for k in (0, 7, len(one.t) - 1):
        t = int(one.t[k])
        cold = [
            fd.saddle_point(one.cmdp, float(n) ** (-1 / 6), float(one.schedules.margin(float(n)))) for n in (t, t + 1)
        ]
        there = one.run.snapshots[t + 1]
        phis = [th.potential(one.cmdp, there.policy, there.multipliers, point).total for point in cold]
        assert one.held[k] == pytest.approx(phis[0], rel=1e-6, abs=1e-12)
        assert one.drift[k] == pytest.approx(phis[1] - phis[0], rel=1e-4, abs=1e-11)


def test_constant_schedules_do_not_drift(constant):
    assert all((one.drift == 0.0).all() for one in constant)
    assert known.drift_findings(constant, "x") == []


def test_what_is_proved_of_one_step_holds_on_twenty_instances(decaying, constant):
    for steps in (decaying, constant):
        found = known.recursion_findings(steps, "x")
        assert "fails" not in words(found).values()
        assert found[0].key == "lemma-1-one-step-held"
        assert found[0].checked >= 20 * 20
        assert found[0].excess < 0.0


def test_lemma_2_and_the_lemmas_about_policies_hold_on_twenty_instances(decaying, constant):
    for steps in (decaying, constant):
        findings = (
            known.lemma2_findings(steps, "x") + known.saddle_findings(steps, "x") + known.step_findings(steps, "x")
        )
        assert set(words(findings).values()) <= {"holds", "vacuous"}
        assert len(findings) == 10


def test_a_recursion_without_its_error_term_is_found_to_fail(decaying, monkeypatch):
    monkeypatch.setattr(known, "step_error", lambda *_: 0.0)
    found = {f.key: f for f in known.recursion_findings(decaying, "x")}
    assert found["lemma-1-one-step"].word == "fails"
    assert found["lemma-1-one-step"].where == 1


def test_a_saddle_point_that_is_none_is_found_out(decaying):
    one = decaying[0]
    wrong = tuple(replace(point, multipliers=point.multipliers + 0.5) for point in one.points)
    found = words(known.saddle_findings([replace(one, points=wrong)], "x"))
    assert found["saddle-multipliers"] == "fails"


def test_a_margin_beyond_the_slater_gap_puts_the_multiplier_on_the_edge_of_its_box():
    steps = steps_of([0], lambda problem: th.theorem1(problem, margin_scale=1.0), episodes=20)
    found = {f.key: f for f in known.saddle_findings(steps, "x", every=1)}
    assert found["interior"].word == "fails"
    assert found["strong-duality"].word == "holds"
    assert known.lemma2_findings(steps, "x") == []


def test_the_drift_is_compared_with_what_the_step_gains(decaying):
    found = {f.key: f for f in known.drift_findings(decaying, "x")}
    worst = max(float((one.drift - ((1 - one.eta * one.tau) * one.phi - one.held)).max()) for one in decaying)
    assert found["drift-gained"].excess == worst
    assert found["drift-gained"].word == "fails"
    assert found["drift-multipliers"].word == "holds"
    assert found["drift-bound"].word in ("holds", "vacuous")


# -- the bandit ----------------------------------------------------------------------------------------------------


def exact_witness(t, alpha, margin):
    """The same step in fifty digits, with formulas of its own."""
    with mp.workdps(50):
        alpha, gap, t = mp.mpf(alpha), 1 - mp.mpf(alpha), mp.mpf(t)

        def saddle(n):
            tau = n ** (-mp.mpf(1) / 6)
            slack = lambda lam: 1 / (1 + mp.exp((1 - lam) / tau)) - margin * tau - alpha + tau * lam  # noqa: E731
            low, high = mp.mpf(0), 4 / gap
            for _ in range(180):
                middle = (low + high) / 2
                low, high = (low, middle) if slack(middle) > 0 else (middle, high)
            return tau, 1 / (1 + mp.exp(-(1 - low) / tau)), low

        def kl(p, q):
            return p * mp.log(p / q) + (1 - p) * mp.log((1 - p) / (1 - q))

        (tau, p, star), (_, p2, star2) = saddle(t), saddle(t + 1)
        eta, lam = t ** (-mp.mpf(5) / 6), star - t * (star2 - star)
        weights = p * mp.exp(eta * (1 - tau * mp.log(p))), (1 - p) * mp.exp(eta * (lam - tau * mp.log(1 - p)))
        after = (1 - eta * tau) * lam - eta * ((1 - p) - margin * tau - alpha)
        b = 1 + 4 / gap + tau * mp.log(2)
        C = mp.exp(eta * b) * (2 * 2 ** (eta * tau) * b**2 + 128 * tau**2 * mp.sqrt(2) / mp.e**2)
        bound = (1 - eta * tau) * (star - lam) ** 2 / 2 + eta**2 / 2 * (C + (1 + tau * 4 / gap) ** 2)
        return float(kl(p2, weights[0] / sum(weights)) + (star2 - after) ** 2 / 2 - bound)


@pytest.mark.parametrize(
    ("t", "margin", "holds"), [(1e6, 0, True), (1e7, 0, False), (1e8, 0, False), (1e8, 2, True), (1e9, 2, False)]
)
def test_the_published_recursion_fails_on_a_bandit_in_fifty_digits_too(t, margin, holds):
    exact = exact_witness(t, "0.1", margin)
    found = drift_witness(t, margin=float(margin))
    assert found.excess == pytest.approx(exact, rel=0.05)
    assert (exact <= 0) == holds


# -- the margin, the last iterate, the exponents -------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_the_least_margin_keeps_every_saddle_point_safe_and_a_little_less_does_not(seed):
    cmdp = small(seed)
    problem = cmdp.problem()
    cover = margin_cover(cmdp, problem, episodes=2000, first=50)
    assert cover.margin_scale is not None
    t = [50, 80, 300, 1000, 2000]

    def worst(scale):
        points = [
            fd.saddle_point(cmdp, n ** (-1 / 6), float(th.theorem1(problem, margin_scale=scale).margin(float(n))))
            for n in t
        ]
        return max(float((cmdp.alpha - point.utilities).max()) for point in points)

    assert worst(cover.margin_scale * 1.0001) <= 1e-6
    if cover.margin_scale > 0.0:
        assert worst(cover.margin_scale * 0.98) > 0.0


def test_a_constraint_that_never_binds_needs_no_margin():
    base = small(1)
    loose = fd.CMDP(base.transitions, base.rewards, base.rewards[None], 0.01, base.initial)
    cover = margin_cover(loose, loose.problem(), episodes=100)
    assert (cover.multiplier, cover.margin_scale) == (0.0, 0.0)


def test_the_last_iterate_is_safe_where_the_margin_covers_the_multiplier_and_not_where_it_does_not():
    epsilons = (0.5, 0.4, 0.3, 0.25)
    safe = [last_iterates(small(seed), epsilons, multiple=8.0, c_margin=2.0, label=str(seed)) for seed in range(20)]
    found = words(last_iterate_findings(safe, "x"))
    assert found["theorem-2-violation"] == "holds"
    short = [last_iterates(small(seed), epsilons, multiple=8.0, c_margin=0.2, label=str(seed)) for seed in range(20)]
    assert words(last_iterate_findings(short, "x"))["theorem-2-violation"] == "fails"
    assert 0.5 < np.mean([run.order[0] for run in safe]) < 1.6
    assert found["theorem-2-gap"] == "holds"
    assert found["theorem-2-zero"] == "vacuous"
    assert len(last_iterate_figure(safe).axes) == 2


def test_the_steps_of_theorem_2():
    assert steps_needed(0.1, 1.0) == 23_026
    with pytest.raises(fd.ValidationError, match="below 1"):
        steps_needed(1.0)


def test_a_sweep_over_exponents_is_the_runs_it_says():
    from fractions import Fraction

    from flexdome.theory.schedules import Power

    etas, taus = (Fraction(2, 3), Fraction(5, 6)), (Fraction(1, 6),)
    rows = sweep_exponents(small, [0, 1], 200, etas=etas, taus=taus)
    assert [(row.eta, row.tau, row.instances) for row in rows] == [(etas[0], taus[0], 2), (etas[1], taus[0], 2)]
    schedules = fd.Schedules(Power(1.0, -5 / 6), Power(1.0, -1 / 6), Power(2.0, -1 / 6))
    runs = [
        fd.simulate(fd.FlexDOME(small(s).problem(), episodes=200, schedules=schedules), small(s), seed=s)
        for s in (0, 1)
    ]
    assert rows[1].regret == pytest.approx(np.mean([run.strong_regret[-1] for run in runs]))
    assert rows[1].violation == pytest.approx(np.mean([run.strong_violation[-1] for run in runs]))
    assert len(exponents_figure(rows).axes) == 2


def test_where_its_own_constants_say_zero_the_theorem_is_held_to_it():
    """On numbers made up: a margin of 0.2 to 0.4, of which 0.15 suffices and 0.45 is half the gap."""

    def run(violation: float, gap: float = 0.1) -> LastIterates:
        epsilon, ones = np.array([0.1, 0.2]), np.ones(2)
        return LastIterates("x", epsilon, 10 * ones, gap * ones, violation * ones, ones, 0.3 * ones, 0.15 * ones, 0.45,
                            1.0, 2.0, 1.0)  # fmt: skip

    assert words(last_iterate_findings([run(-0.1)], "x"))["theorem-2-zero"] == "holds"
    assert words(last_iterate_findings([run(-0.1), run(0.01)], "x"))["theorem-2-zero"] == "fails"
    assert words(last_iterate_findings([replace(run(0.01), half_gap=0.1)], "x"))["theorem-2-zero"] == "vacuous"
    assert words(last_iterate_findings([replace(run(0.01), c_margin=0.5)], "x"))["theorem-2-zero"] == "vacuous"
    assert words(last_iterate_findings([run(-0.1), run(-0.1, gap=0.31)], "x"))["theorem-2-gap"] == "fails"
