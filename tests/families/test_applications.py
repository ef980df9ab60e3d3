"""The problems from published models against those models, with numbers and integrators of their own."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import flexdome as fd
from flexdome.families.applications import rouwenhorst

PATIENT, STATION, QUEUE = (fd.make_cmdp(id) for id in ("propofol-v1", "grid-storage-v1", "admission-v1"))


def marsh(state: np.ndarray, rate: float, minutes: float, frozen: bool, dt: float = 0.001) -> np.ndarray:
    """Plasma, two peripheral compartments and the pressure site after so many minutes, by small steps."""
    x = np.array(state, dtype=float)
    k10, k12, k13, k21, k31, v1, kp = 0.119, 0.112, 0.042, 0.055, 0.0033, 0.228, math.log(2) / 5.92
    for _ in range(round(minutes / dt)):
        plasma, second, third, pressure = x
        flows = [
            rate / 60 / v1 - (k10 + k12 + k13) * plasma + k12 * second + k13 * third,
            0.0 if frozen else k21 * (plasma - second),
            0.0 if frozen else k31 * (plasma - third),
            kp * (plasma - pressure),
        ]
        x = x + dt * np.array(flows)
    return x


THIRD = 4.5 * (1 - math.exp(-60 * 0.0033))


@pytest.mark.parametrize(("plasma", "pressure", "action"), [(1, 1, 4), (7, 1, 0), (2, 6, 2), (7, 7, 4), (4, 5, 1)])
def test_five_minutes_of_the_chain_have_the_mean_of_the_pharmacokinetic_model(plasma, pressure, action):
    after = PATIENT.transitions[0, 7 * (plasma - 1) + pressure - 1, action].reshape(7, 7)
    levels = np.arange(1.0, 8.0)
    told = marsh(np.array([plasma, 4.5, THIRD, pressure]), [0, 4, 8, 12, 16][action], 5, frozen=True)
    assert after.sum(axis=1) @ levels == pytest.approx(told[0], abs=2e-3)
    assert after.sum(axis=0) @ levels == pytest.approx(told[3], abs=2e-3)


def test_an_hour_at_one_rate_has_the_mean_of_the_model_because_nothing_leaves_the_grid():
    at, levels = PATIENT.initial, np.arange(1.0, 8.0)
    for _ in range(12):
        at = at @ PATIENT.transitions[0, :, 3]
    told = marsh(np.array([2.0, 4.5, THIRD, 1.0]), 12, 60, frozen=True)
    assert at.reshape(7, 7).sum(axis=1) @ levels == pytest.approx(told[0], abs=2e-3)
    assert at.reshape(7, 7).sum(axis=0) @ levels == pytest.approx(told[3], abs=2e-3)


def test_holding_the_peripheral_compartments_is_as_wrong_as_the_docstring_says():
    start = np.array([2.0, 4.5, THIRD, 1.0])
    wrong = [abs(marsh(start, u, 60, True, 0.01)[0] - marsh(start, u, 60, False, 0.01)[0]) for u in (0, 8, 12)]
    assert wrong[0] == pytest.approx(1.4, abs=0.05)
    assert max(wrong[1:]) < 0.5


def test_depth_is_a_cost_on_both_sides_of_the_band_and_pressure_above_a_level():
    bis = [97.4 / (1 + (c / 4.47) ** 1.43) for c in range(1, 8)]
    outside = [min(max(b - 60, 40 - b, 0) / 20, 1) for b in bis]
    costs = PATIENT.costs[:, 0, :, 0].reshape(2, 7, 7)
    np.testing.assert_allclose(costs[0], np.tile(np.array(outside)[:, None], 7), atol=1e-12)
    assert outside[2] > 0 == outside[3] == outside[4] < outside[5]
    np.testing.assert_array_equal(costs[1], np.tile([0, 0, 0, 0, 1, 1, 1], (7, 1)))


def test_both_limits_of_the_patient_and_of_the_station_bind():
    for cmdp in (PATIENT, STATION):
        best = fd.solve(cmdp)
        assert (best.multipliers > 0.04).all()
        limits = [limit.mean for limit in cmdp.limits]
        assert cmdp.horizon - best.utilities == pytest.approx(limits, abs=1e-8)


def test_the_stations_frequency_settles_where_the_chain_says_within_half_a_minute():
    for shortage, outside in ((0.05, True), (0.2, True), (0.025, False)):
        df, valve, turbine, dt = 0.0, 0.0, 0.0, 0.001
        for _ in range(30_000):
            valve, turbine, df = (
                valve + dt * (-df / 0.05 - valve) / 0.2,
                turbine + dt * (valve - turbine) / 0.5,
                df + dt * (turbine - shortage - 0.8 * df) / 10.0,
            )
        assert 60 * df == pytest.approx(-60 * shortage / 20.8, abs=1e-3)
        assert (abs(60 * df) > 0.1) == outside


def test_a_quarter_of_an_hour_costs_where_battery_and_shortage_differ():
    costs, half = STATION.costs[0, 0].reshape(5, 9, 5), 4
    assert costs[:, half].tolist() == [[float(i != a) for a in range(5)] for i in range(5)]
    assert costs[3, 0].tolist() == [1.0] * 5  # a shortage, and nothing to deliver
    assert costs[1, 8].tolist() == [1.0] * 5  # a surplus, and no room for it


def test_the_battery_gives_back_eighty_five_of_a_hundred():
    charge = np.tile(np.arange(9.0), 5)
    for a, gained in ((0, 1.7), (1, 0.85), (2, 0.0), (3, -1.0), (4, -2.0)):
        after = STATION.transitions[0, :, a] @ charge
        roomy = (charge >= 2) & (charge <= 6)
        np.testing.assert_allclose((after - charge)[roomy], gained, atol=1e-12)
    assert STATION.rewards[0, 22].tolist() == [0.0, 0.5, 1.0, 0.5, 0.0]


def test_the_shortage_has_its_correlation_and_its_spread():
    p, levels = rouwenhorst(5, 0.8), np.arange(-2, 3) * 0.05
    share = np.array([math.comb(4, k) for k in range(5)]) / 16
    np.testing.assert_allclose(share @ p, share, atol=1e-15)
    np.testing.assert_allclose(p @ levels, 0.8 * levels, atol=1e-15)
    assert math.sqrt(share @ levels**2) == pytest.approx(0.05)
    np.testing.assert_allclose(STATION.transitions[0].reshape(5, 9, 5, 5, 9).sum(axis=-1)[:, 3, 2], p, atol=1e-15)


def test_the_mean_stay_of_those_admitted_to_the_queue_is_its_limit():
    best = fd.solve(QUEUE)
    at, stay, admitted = np.zeros(11), 0.0, 0.0
    at[0] = 1.0
    for h in range(30):
        after = np.zeros(11)
        for n in range(11):
            for chance, a in zip(best.policy[h, n], range(3), strict=True):
                comes = 0.0 if n == 10 else (0.0, 0.2, 0.5)[a]
                stay += at[n] * chance * comes * (n + 1) / 0.4
                admitted += at[n] * chance * comes
                for there, q in ((n + 1, comes), (n, 1 - comes)):
                    if q:
                        served = 0.4 if there else 0.0
                        after[there - 1 if there else 0] += at[n] * chance * q * served
                        after[there] += at[n] * chance * q * (1 - served)
        at = after
    assert stay / admitted == pytest.approx(6.0, abs=1e-6)
    assert fd.baselines(QUEUE).best[1].value > best.value + 0.5


def test_the_page_says_what_the_optima_do():
    page = (Path(__file__).parents[2] / "docs" / "applications.md").read_text(encoding="utf-8")
    page = " ".join(page.split())
    free = [fd.baselines(cmdp).best[1] for cmdp in (PATIENT, STATION)]
    best = [fd.solve(cmdp) for cmdp in (PATIENT, STATION)]
    assert f"{5 * (12 - free[0].utilities[1]):.0f} minutes of hypotension" in page
    assert f"a BIS of about {97.4 * (1 - best[0].value / 12):.0f}" in page
    assert f"off for {15 * (16 - free[1].utilities[0]):.0f} minutes of 240" in page
    assert f"puts {6.25 * (16 - best[1].value):.1f} MWh through it" in page


@pytest.mark.parametrize(
    ("id", "options", "field"),
    [
        ("propofol-v1", {"depth": -1}, "depth"),
        ("propofol-v1", {"hypotension": 13}, "hypotension"),
        ("grid-storage-v1", {"outside": 17.0}, "outside"),
        ("grid-storage-v1", {"horizon": 0}, "horizon"),
        ("admission-v1", {"delay": 1.0}, "delay"),
        ("admission-v1", {"room": 1}, "room"),
    ],
)
def test_a_bad_option_is_refused_by_name(id, options, field):
    with pytest.raises(fd.ValidationError, match=field):
        fd.make_cmdp(id, **options)
