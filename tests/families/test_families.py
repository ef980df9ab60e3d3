"""Every named family; ``python tests/test_families.py`` writes the table of ``docs/families.md`` anew."""

from __future__ import annotations

import inspect
import math
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import flexdome as fd
from flexdome.families.random import _distinct, between
from flexdome.planning.decomposition import greedy

DOCS = Path(__file__).parents[2] / "docs" / "families.md"
IDS = tuple(fd.ENVIRONMENTS)
RANDOM = tuple(
    id for id, row in fd.ENVIRONMENTS.items() if row.target.split(":")[0] in ("random", "several", "awkward")
)
OWN_SIZES = ("garnet-v1", "dosing-v1", "deep-sea-v1", "rapids-v1", "twins-v1", "rare-starts-v1")
UNITS = {"small-units-v1": 0.01, "rare-costs-v1": 0.05, "contexts-v1": 0.1}  # what a utility of 1 is elsewhere
OPPOSED = ("paper-v1", "paper-stochastic-v1", "kitamura-v1", "oscillator-v1")
SAFE_BY_ITSELF = ("cliff-walking-v1", "taxi-v1")  # the limit is about the way to the optimum
COLUMNS = ("id", "what it is", "S", "A", "H", "m", "alpha", "V_r*", "lambda*", "Slater gap")


@cache
def instance(id: str, seed: int = 0) -> fd.CMDP:
    return fd.make_cmdp(id, seed)


def cost_of(cmdp: fd.CMDP, utilities: np.ndarray) -> float:
    return cmdp.horizon - float(utilities[0])


def same_instance(one: fd.CMDP, other: fd.CMDP) -> bool:
    arrays = all(x.tobytes() == y.tobytes() for x, y in zip(one.model, other.model, strict=True))
    return arrays and one.thresholds == other.thresholds


# -- every id ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("id", IDS)
def test_every_id_builds_and_carries_its_name(id):
    cmdp = instance(id)
    assert cmdp.name == id
    assert (cmdp.alpha >= 0).all()
    assert (cmdp.alpha <= cmdp.horizon).all()


@pytest.mark.parametrize("id", IDS)
def test_the_same_seed_gives_the_same_instance_bit_for_bit(id):
    again = fd.make_cmdp(id, 0)
    assert same_instance(instance(id), again)
    assert (instance(id).noise, instance(id).stationary) == (again.noise, again.stationary)


@pytest.mark.parametrize("id", RANDOM)
def test_another_seed_gives_another_instance_of_a_random_family(id):
    assert not same_instance(instance(id), instance(id, 1))


@pytest.mark.parametrize("id", [id for id in IDS if id not in RANDOM])
def test_the_seed_of_a_fixed_family_does_not_matter_and_its_docstring_says_so(id):
    assert same_instance(instance(id), instance(id, 1))
    assert "the seed does not matter" in fd.ENVIRONMENTS[id].load().__doc__


@pytest.mark.parametrize("id", IDS)
def test_both_methods_agree_on_the_optimum(id):
    cmdp = instance(id)
    one, other = fd.solve(cmdp), fd.solve(cmdp, "lp")
    near = 1e-8 * cmdp.horizon  # HiGHS leaves out matrix entries below 1e-9, and Dirichlet(0.1) rows have some
    assert one.value == pytest.approx(other.value, abs=near, rel=0)
    assert one.slater_gap == pytest.approx(other.slater_gap, abs=near, rel=0)
    np.testing.assert_allclose(one.multipliers, other.multipliers, atol=1e-6 / UNITS.get(id, 1.0))


@pytest.mark.parametrize("id", IDS)
def test_the_slater_gap_is_positive_and_the_constraint_binds(id):
    best = fd.solve(instance(id))
    assert best.slater_gap > 0.04 * UNITS.get(id, 1.0)
    if id in SAFE_BY_ITSELF:
        assert (best.multipliers == 0.0).all()
        return
    assert best.multipliers.max() > 0.1
    assert best.value < fd.baselines(instance(id)).best[1].value - (0.03 if id == "contexts-v1" else 0.1)


@pytest.mark.parametrize("id", IDS)
def test_every_docstring_has_a_history_that_ends_with_the_version_of_its_id(id):
    text = inspect.getdoc(fd.ENVIRONMENTS[id].load())
    history = re.search(r"^Versions\n-{8}\n(.*)", text, re.DOTALL | re.MULTILINE)
    assert history, f"{id} has no Versions section"
    assert re.findall(r"(v\d+) :", history[1])[-1] == id.rsplit("-", 1)[1]


# -- names and options ---------------------------------------------------------------------------------


def test_an_unknown_id_is_refused_with_the_nearest_one():
    with pytest.raises(fd.ValidationError, match=r"unknown environment 'papr-v1'; did you mean paper-v1"):
        fd.make_cmdp("papr-v1")


def test_an_unknown_option_is_refused_with_the_nearest_one():
    with pytest.raises(fd.ValidationError, match=r"unknown option of garnet-v1 'sucessors'; did you mean successors"):
        fd.make_cmdp("garnet-v1", sucessors=3)


def test_an_option_of_a_family_without_options_is_refused():
    with pytest.raises(fd.ValidationError, match=r"unknown option 'horizon'; media-v1 takes none"):
        fd.make_cmdp("media-v1", horizon=3)


@pytest.mark.parametrize(
    ("id", "options", "field"),
    [
        ("paper-v1", {"states": 0}, "states"),
        ("kitamura-v1", {"actions": 2.5}, "actions"),
        ("independent-v1", {"fraction": 1.5}, "fraction"),
        ("multi-v1", {"constraints": 0}, "constraints"),
        ("tight-v1", {"gap": 6.0}, "gap"),
        ("tight-v1", {"gap": -0.1}, "gap"),
        ("garnet-v1", {"states": 4, "successors": 5}, "successors"),
        ("garnet-v1", {"stationary": 1}, "stationary"),
        ("oscillator-v1", {"horizon": 0}, "horizon"),
        ("grid-v1", {"slip": 1.1}, "slip"),
        ("opposed-v1", {"constraints": 0}, "constraints"),
        ("opposed-v1", {"fraction": 1.5}, "fraction"),
        ("band-v1", {"gap": 3.0}, "gap"),
        ("dosing-v1", {"bins": 5}, "bins"),
        ("dosing-v1", {"gap": 24.0}, "gap"),
        ("small-units-v1", {"scale": 2.0}, "scale"),
        ("rare-costs-v1", {"rate": 0.6}, "rate"),
        ("contexts-v1", {"spread": 1.1}, "spread"),
        ("twins-v1", {"alike": 21}, "alike"),
        ("rare-starts-v1", {"starts": 21}, "starts"),
        ("rare-starts-v1", {"chance": 0.3}, "chance"),
        ("traps-v1", {"states": 1}, "states"),
        ("deep-sea-v1", {"depth": 2}, "depth"),
        ("noisy-v1", {"spread": -1.0}, "spread"),
        ("lottery-v1", {"chance": 0.6}, "chance"),
        ("rapids-v1", {"states": 1}, "states"),
    ],
)
def test_an_option_outside_its_range_is_refused_by_name(id, options, field):
    with pytest.raises(fd.ValidationError, match=f"^{field} is "):
        fd.make_cmdp(id, **options)


@pytest.mark.parametrize("id", [id for id in RANDOM if id not in OWN_SIZES])
def test_random_families_come_in_other_sizes(id):
    cmdp = fd.make_cmdp(id, 3, states=4, actions=2, horizon=3)
    assert (cmdp.states, cmdp.actions, cmdp.horizon) == (4, 2, 3)


# -- random families -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seed", "alpha", "value"),
    [
        (0, 2.497120139767863, 2.502879860232136),
        (1, 2.499454724791854, 2.500545275208146),
        (2, 1.9979398076364785, 3.002060192363522),
        (3, 2.4993265752858793, 2.500673424714120),
        (4, 2.499731694725701, 2.500268305274299),
    ],
)
def test_the_papers_instances_stay_what_they_are(seed, alpha, value):
    cmdp = instance("paper-v1", seed)
    assert cmdp.alpha[0] == pytest.approx(alpha, abs=1e-12)
    assert fd.solve(cmdp).value == pytest.approx(value, abs=1e-9)


@pytest.mark.parametrize("id", OPPOSED)
def test_reward_and_utility_add_up_to_the_horizon_where_d_is_one_minus_r(id):
    cmdp = instance(id)
    shape = (8, cmdp.horizon, cmdp.states)
    policies = np.random.default_rng(0).dirichlet(np.full(cmdp.actions, 0.3), size=shape)
    values = fd.evaluate(cmdp, policies)
    np.testing.assert_allclose(values.value + values.utilities[:, 0], cmdp.horizon, atol=1e-12)
    best = fd.solve(cmdp)
    assert best.value == pytest.approx(cmdp.horizon - cmdp.alpha[0])
    assert best.multipliers[0] == pytest.approx(1.0)


@pytest.mark.parametrize("id", ["paper-v1", "kitamura-v1"])
def test_the_papers_threshold_is_half_of_what_can_be_had(id):
    cmdp = instance(id)
    assert fd.baselines(cmdp).safest[0][1].utilities[0] == pytest.approx(2 * cmdp.alpha[0])
    assert fd.solve(cmdp).slater_gap == pytest.approx(cmdp.alpha[0])


@pytest.mark.parametrize("seed", range(5))
def test_stochastic_thresholds_lie_outside_the_horizon_as_often_as_the_docstring_says(seed):
    cmdp = fd.make_cmdp("paper-stochastic-v1", seed)
    law = cmdp.thresholds[0]
    mean, std = law.parameters
    assert (law.law, law.per, law.clip, std) == ("normal", "episode", None, 0.5 * mean)
    below, above = mean / std, (cmdp.horizon - mean) / std
    outside = 0.5 * math.erfc(below / math.sqrt(2)) + 0.5 * math.erfc(above / math.sqrt(2))
    assert round(1 / outside) == (42 if seed == 2 else 22)
    assert cmdp.alpha[0] == instance("paper-v1", seed).alpha[0]


@pytest.mark.parametrize("id", ["independent-v1", "conflict-v1", "garnet-v1"])
def test_the_threshold_lies_seven_tenths_of_the_way_to_the_safest_policy(id):
    cmdp = instance(id)
    extremes = fd.baselines(cmdp)
    low, high = extremes.best[1].utilities[0], extremes.safest[0][1].utilities[0]
    assert cmdp.alpha[0] == pytest.approx(low + 0.7 * (high - low))
    assert fd.solve(cmdp).slater_gap == pytest.approx(0.3 * (high - low))


def test_thresholds_between_two_policies_are_met_by_their_mixture():
    cmdp = instance("multi-v1")
    assert np.array_equal(between(cmdp.model, 0.7), cmdp.alpha)
    np.testing.assert_allclose(
        between(cmdp.model, 0.7), 0.3 * between(cmdp.model, 0.0) + 0.7 * between(cmdp.model, 1.0)
    )


def test_reward_and_utility_are_uncorrelated_or_opposed_as_their_names_say():
    correlation = {
        id: np.corrcoef(instance(id).rewards.ravel(), instance(id).utilities.ravel())[0, 1]
        for id in ("independent-v1", "conflict-v1")
    }
    assert abs(correlation["independent-v1"]) < 0.15
    assert correlation["conflict-v1"] == pytest.approx(-math.sqrt(0.5), abs=0.1)


def test_three_constraints_bind_at_once():
    best = fd.solve(instance("multi-v1"))
    assert best.multipliers.shape == (3,)
    assert (best.multipliers > 0.1).all()


@pytest.mark.parametrize("gap", [0.01, 0.05, 0.5])
def test_the_slater_gap_of_tight_is_what_was_asked_for(gap):
    assert fd.slater_gap(fd.make_cmdp("tight-v1", gap=gap)) == pytest.approx(gap, abs=1e-12)


@pytest.mark.parametrize("id", ["tight-v1", "bernoulli-v1"])
def test_tight_and_bernoulli_share_the_model_of_independent(id):
    twin, cmdp = instance("independent-v1"), instance(id)
    assert all(x.tobytes() == y.tobytes() for x, y in zip(twin.model, cmdp.model, strict=True))


def test_bernoulli_observes_zeros_and_ones_and_a_sample_of_the_threshold_each_step():
    cmdp = instance("bernoulli-v1")
    law = cmdp.thresholds[0]
    assert (cmdp.noise, law.law, law.per) == ("bernoulli", "two-point", "step")
    assert law.parameters[1:] == (0.0, cmdp.horizon)
    assert law.mean == pytest.approx(instance("independent-v1").alpha[0])


@pytest.mark.parametrize("stationary", [False, True])
def test_garnet_rows_have_k_distinct_successors(stationary):
    cmdp = fd.make_cmdp("garnet-v1", 1, states=30, horizon=4, successors=7, stationary=stationary)
    assert cmdp.stationary == stationary
    p, nxt = cmdp.model.p, cmdp.model.nxt
    assert p.shape == nxt.shape == (1 if stationary else 4, 30, 4, 7)
    assert (np.diff(np.sort(nxt, axis=-1), axis=-1) > 0).all()
    assert (p > 0).all()


def test_garnet_takes_every_state_as_successor_when_asked_for():
    cmdp = fd.make_cmdp("garnet-v1", states=6, successors=6)
    assert (np.sort(cmdp.model.nxt, axis=-1) == np.arange(6)).all()


def test_garnet_takes_several_constraints():
    cmdp = fd.make_cmdp("garnet-v1", constraints=3)
    assert cmdp.constraints == 3
    assert fd.slater_gap(cmdp) > 0


def test_every_set_of_successors_is_equally_likely():
    draws = np.sort(_distinct(np.random.default_rng(0), 5, (50_000, 2)), axis=-1)
    counts = np.unique(draws @ np.array([5, 1]), return_counts=True)[1]
    assert counts.shape == (10,)
    assert ((counts - 5_000) ** 2 / 5_000).sum() < 28  # chi-square with 9 degrees of freedom, level 0.001


def test_a_garnet_of_twenty_thousand_states_is_never_dense():
    cmdp = fd.make_cmdp("garnet-v1", states=20_000, actions=4, horizon=20, successors=5)
    assert cmdp.is_sparse
    assert cmdp.model.p.shape == (20, 20_000, 4, 5)
    assert fd.slater_gap(cmdp) > 0


# -- constraints that pull apart -------------------------------------------------------------------------


@pytest.mark.parametrize("constraints", [1, 2, 5])
def test_opposed_thresholds_are_a_share_of_the_largest_smallest_utility(constraints):
    cmdp = fd.make_cmdp("opposed-v1", 1, constraints=constraints, fraction=0.9)
    assert (cmdp.alpha == cmdp.alpha[0]).all()
    assert fd.slater_gap(cmdp) == pytest.approx(cmdp.alpha[0] / 9.0, rel=1e-6)


def test_the_policy_of_the_largest_sum_does_not_meet_the_opposed_thresholds():
    cmdp = fd.make_cmdp("opposed-v1", 1)
    _, most = greedy(cmdp.model, np.array([0.0, 1.0, 1.0, 1.0]))
    assert (most[1:] < cmdp.alpha).any()


@pytest.mark.parametrize(("id", "gap"), [("band-v1", 0.1), ("dosing-v1", 0.5)])
def test_the_slater_gap_of_a_band_is_what_was_asked_for(id, gap):
    assert fd.slater_gap(fd.make_cmdp(id, 2, gap=gap)) == pytest.approx(gap, abs=1e-6)


def test_the_two_sides_of_a_band_add_up_to_the_horizon():
    cmdp = instance("band-v1")
    np.testing.assert_allclose(cmdp.utilities.sum(axis=0), 1.0)
    assert cmdp.alpha.sum() == pytest.approx(cmdp.horizon - 0.3)


def test_a_dose_raises_the_level_and_the_rate_costs():
    cmdp = instance("dosing-v1")
    assert (cmdp.states, cmdp.actions, cmdp.horizon, cmdp.stationary) == (12, 5, 24, True)
    drift = (cmdp.transitions[0] @ np.arange(12) - np.arange(12)[:, None])[2:-2]
    assert (np.diff(drift, axis=1) > 0).all()
    assert cmdp.utilities[0, 0, :, 0].tolist() == pytest.approx([0, 0.25, 0.5, 0.75, 1, 1, 1, 1, 0.75, 0.5, 0.25, 0])
    assert cmdp.utilities[1, 0, 3].tolist() == pytest.approx([1, 0.75, 0.5, 0.25, 0])


# -- awkward families ----------------------------------------------------------------------------------


def test_small_units_change_the_units_and_nothing_else():
    twin, cmdp = instance("independent-v1"), instance("small-units-v1")
    one, other = fd.solve(twin), fd.solve(cmdp)
    assert other.value == pytest.approx(one.value)
    assert other.slater_gap == pytest.approx(0.01 * one.slater_gap)
    assert other.multipliers[0] == pytest.approx(100 * one.multipliers[0])


def test_accidents_are_rare_and_seen_as_zero_or_one():
    cmdp = instance("rare-costs-v1")
    assert cmdp.noise == "bernoulli"
    assert (1 - cmdp.utilities).mean() == pytest.approx(0.02, abs=0.002)
    assert (1 - cmdp.utilities).max() <= 0.04


def test_nothing_that_is_done_changes_the_next_context():
    cmdp = instance("contexts-v1")
    assert np.ptp(cmdp.model.p) == 0
    assert np.ptp(cmdp.initial) == 0


def test_twins_are_the_same_action_with_the_best_utility():
    cmdp = instance("twins-v1")
    p, r, d = cmdp.transitions, cmdp.rewards, cmdp.utilities[0]
    assert (p[:, :, :10] == p[:, :, :1]).all()
    assert (r[:, :, :10] == r[:, :, :1]).all()
    assert (d[:, :, :10] == d.max(axis=-1, keepdims=True)).all()


def test_rare_starts_come_up_once_in_five_hundred_episodes():
    mu = np.sort(instance("rare-starts-v1").initial)
    assert mu[-6:-1].tolist() == pytest.approx([0.002] * 5)
    assert mu.sum() == pytest.approx(1.0)


def test_there_is_no_way_out_of_a_trap():
    p = instance("traps-v1").transitions[0]
    assert (p[-1, :, -1] == 1).all()
    assert ((p[:-1, :, -1] > 0).sum(axis=1) == 1).all()


def test_only_the_way_right_reaches_the_reward_of_the_deep_sea():
    cmdp = instance("deep-sea-v1")
    assert fd.baselines(cmdp).best[1].value == pytest.approx(1.0, abs=0.1)
    assert np.flatnonzero(cmdp.rewards.max(axis=(0, 2)) == 1).tolist() == [7]


@pytest.mark.parametrize("id", ["noisy-v1", "lottery-v1"])
def test_hardly_known_thresholds_have_the_mean_of_independent(id):
    assert instance(id).alpha[0] == pytest.approx(instance("independent-v1").alpha[0])
    assert not instance(id).thresholds[0].is_fixed


def test_the_stream_of_the_rapids_differs_from_seed_to_seed():
    one, other = instance("rapids-v1"), instance("rapids-v1", 1)
    assert not np.array_equal(one.model.p, other.model.p)
    assert fd.solve(one).slater_gap == pytest.approx(5.0)


# -- structured families and grids ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("id", "sign", "optimal", "unconstrained", "budget", "baseline"),
    [
        ("factored-v1", 1, 2.0, 4.0, 0.6, 0.4),
        ("media-v1", -1, 6.7467, 5.3931, 1.0, 8.9835),
        ("inventory-v1", 1, 6.6653, 7.0, 0.7, 1.5557),
    ],
)
def test_published_benchmarks_have_their_known_values(id, sign, optimal, unconstrained, budget, baseline):
    cmdp = instance(id)
    known = lambda value: value if sign > 0 else cmdp.horizon - value  # noqa: E731
    limit = cmdp.limits[0].mean
    best = fd.solve(cmdp)
    assert best.value == pytest.approx(known(optimal), abs=1e-4)
    assert cost_of(cmdp, best.utilities) == pytest.approx(limit, abs=1e-9)
    assert fd.baselines(cmdp).best[1].value == pytest.approx(known(unconstrained), abs=1e-4)
    safe = fd.safe_policy(cmdp, slack=limit - budget)
    assert fd.evaluate(cmdp, safe.policy).value == pytest.approx(known(baseline), abs=1e-4)
    assert cost_of(cmdp, safe.utilities) == pytest.approx(budget, abs=1e-9)


@pytest.mark.parametrize(("id", "cost"), [("factored-v1", 6.0), ("inventory-v1", 4.5053), ("grid-v1", 3.3888)])
def test_without_the_limit_far_more_would_be_spent(id, cost):
    cmdp = instance(id)
    assert cost_of(cmdp, fd.baselines(cmdp).best[1].utilities) == pytest.approx(cost, abs=1e-4)


def test_a_full_or_empty_buffer_reflects():
    p = instance("media-v1").transitions[0]
    np.testing.assert_allclose(p[0, 0, :2], [1 - 0.18, 0.18])
    np.testing.assert_allclose(p[9, 1, 8:], [0.72, 1 - 0.72])
    np.testing.assert_allclose(p[4, 0, 3:6], [0.08, 0.74, 0.18])


def test_illegal_orders_act_as_the_largest_legal_one():
    cmdp = instance("inventory-v1")
    for s in range(6):
        for a in range(5 - s, 6):
            assert np.array_equal(cmdp.transitions[0, s, a], cmdp.transitions[0, s, 5 - s])
            assert cmdp.rewards[0, s, a] == cmdp.rewards[0, s, 5 - s]
            assert cmdp.costs[0, 0, s, a] == cmdp.costs[0, 0, s, 5 - s]


def test_revenue_at_an_emptied_shelf_counts_every_demand_that_empties_it():
    cmdp = instance("inventory-v1")
    for s in range(6):
        for a in range(6 - s):
            p = cmdp.transitions[0, s, a]
            revenue = sum(p[s + a - d] * 0.08 * d for d in range(s + a + 1))
            assert cmdp.rewards[0, s, a] == pytest.approx(revenue / 0.132)


def test_the_largest_order_costs_most():
    assert instance("inventory-v1").costs[0, 0, 0].tolist() == pytest.approx([x / 19 for x in (0, 7, 10, 13, 16, 19)])


@pytest.mark.parametrize("horizon", [1, 7, 10])
def test_the_oscillators_optimum_is_half_its_horizon(horizon):
    best = fd.solve(fd.make_cmdp("oscillator-v1", horizon=horizon))
    assert best.value == pytest.approx(0.5 * horizon)
    assert best.slater_gap == pytest.approx(0.5 * horizon)


@pytest.mark.parametrize("id", ["river-v1", "rover-v1", "grid-v1"])
def test_the_optimum_randomises_in_a_state_that_is_reached(id):
    cmdp = instance(id)
    best = fd.solve(cmdp)
    reached = fd.occupancy(cmdp, best.policy).sum(axis=-1) > 1e-6
    split = (best.policy.max(axis=-1) < 1 - 1e-6) & reached
    assert split.any()


def test_a_sprint_is_the_quick_and_costly_way_across_the_river():
    cmdp = instance("river-v1")
    p = cmdp.transitions[0]
    assert np.array_equal(p[2], [[0, 1, 0, 0, 0, 0], [0, 0.05, 0.6, 0.35, 0, 0], [0, 0, 1 - 0.85, 0.85, 0, 0]])
    assert cmdp.costs[0, 0].sum(axis=0).tolist() == [0, 0, 6]


def test_the_goal_and_the_pits_of_the_rover_absorb():
    cmdp = instance("rover-v1")
    ends = [19, 22, 41, 42, 49, 52, 54, 59, 63]
    p = cmdp.transitions[0]
    assert [s for s in range(64) if (p[s, :, s] == 1).all()] == ends
    np.testing.assert_allclose(cmdp.rewards[0, ends], 1 / 30)
    np.testing.assert_allclose(cmdp.costs[0, 0, ends[:-1]], 1 / 30)
    assert (cmdp.costs[0, 0, 63] == 0).all()


def test_a_rover_beside_a_pit_is_paid_and_charged_what_it_expects():
    cmdp = instance("rover-v1")
    above = 11  # (1, 3), over the pit (2, 3); action 2 moves down
    assert cmdp.rewards[0, above].tolist() == pytest.approx([0.025, 0.025, 0.925, 0.025])
    assert np.array_equal(cmdp.rewards[0, above], cmdp.costs[0, 0, above])
    assert cmdp.rewards[0, 62, 1] == pytest.approx(0.925 + 0.025)  # (7, 6): goal to the right, pit above


def test_a_grid_that_does_not_slip_moves_as_told():
    p = fd.make_cmdp("grid-v1", slip=0.0).transitions[0]
    assert p[0].argmax(axis=-1).tolist() == [0, 1, 5, 0]
    assert (p.max(axis=-1) == 1).all()


@pytest.mark.parametrize("slip", np.linspace(0, 1, 12))
def test_a_grid_slips_to_either_side_alike(slip):
    p = fd.make_cmdp("grid-v1", slip=slip).transitions[0]
    np.testing.assert_allclose(p[6, 0, [1, 5, 7]], [1 - slip, slip / 2, slip / 2], atol=1e-15)


# -- the table of docs/families.md ---------------------------------------------------------------------


def facts(id: str) -> list[list[float]]:
    """The numbers of a row: S, A, H, m, alpha, optimum, multipliers, Slater gap."""
    cmdp, best = instance(id), fd.solve(instance(id))
    sizes = [[cmdp.states], [cmdp.actions], [cmdp.horizon], [cmdp.constraints]]
    return [*sizes, cmdp.alpha.tolist(), [best.value], best.multipliers.tolist(), [best.slater_gap]]


def table() -> str:
    """The table as it stands in the documentation."""
    lines = ["| " + " | ".join(COLUMNS) + " |", "|---|---" + "|---:" * 8 + "|"]
    for id, row in fd.ENVIRONMENTS.items():
        cells = [", ".join(f"{x:.4f}" if isinstance(x, float) else str(x) for x in xs) for xs in facts(id)]
        lines.append(f"| `{id}` | {row.summary} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def written() -> list[list[str]]:
    """The rows of the table in the documentation, as text."""
    rows = [line for line in DOCS.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def test_the_documentation_lists_every_family_in_the_registrys_words():
    assert [(row[0], row[1]) for row in written()] == [(f"`{id}`", row.summary) for id, row in fd.ENVIRONMENTS.items()]


@pytest.mark.parametrize("id", IDS)
def test_the_numbers_in_the_documentation_are_true(id):
    row = next(row for row in written() if row[0] == f"`{id}`")
    for column, cell, numbers in zip(COLUMNS[2:], row[2:], facts(id), strict=True):
        told = [float(x) for x in cell.split(",")]
        assert told == pytest.approx(numbers, abs=6e-5), f"{id}: {column}"


if __name__ == "__main__":
    before, after = re.split(r"\| id \|(?:.*\n)(?:\|.*\n)*", DOCS.read_text(encoding="utf-8"))
    DOCS.write_text(before + table() + "\n" + after, encoding="utf-8")
