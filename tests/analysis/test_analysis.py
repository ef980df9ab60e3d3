"""What results say: exact series, aggregation over seeds, intervals, exponents, paired differences."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import flexdome as fd
from flexdome import analysis as an
from flexdome.errors import FlexDOMEError, ValidationError
from flexdome.experiments import ExperimentSpec, Store, run_experiments
from flexdome.experiments.worker import columns_of
from flexdome.figures import table_markdown

SPEC = ExperimentSpec(
    name="micro",
    episodes=120,
    seeds=[0, 1, 2],
    environments=[{"id": "media-v1"}, {"id": "conflict-v1"}],
    learners=[{"id": "flexdome", "label": "FlexDOME"}, {"id": "optprimaldual", "label": "Vanilla PD"}],
)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    store = Store(tmp_path_factory.mktemp("store"))
    run_experiments([SPEC], store)
    return store


@pytest.fixture(scope="module")
def results(store):
    return an.aggregate(store, SPEC, points=13)


class Stub:
    """A store whose runs are made up: ``table(run)`` gives reward gaps (T,) and violations (m, T)."""

    def __init__(self, table, missing=()):
        self.table, self.missing = table, missing

    def has(self, run):
        return (run.learner.name, run.seed) not in self.missing

    def read(self, run, columns=None):
        gap, violations = self.table(run)
        return pl.DataFrame({"reward_gap": gap, **{f"violation_{i}": row for i, row in enumerate(violations)}})


def two_constraints():
    rng = np.random.default_rng(0)
    kernel = rng.dirichlet(np.ones(4), size=(4, 2))
    return fd.CMDP(kernel, rng.random((4, 2)), rng.random((2, 4, 2)), [0.9, 0.7], 0, horizon=3)


# -- series ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cmdp", [fd.make_cmdp("media-v1"), two_constraints()], ids=["m=1", "m=2"])
def test_series_are_those_of_the_history_bit_for_bit(cmdp):
    history = fd.simulate(fd.FlexDOME(cmdp.problem(), episodes=300), cmdp, seed=3)
    series = an.series_of(pl.DataFrame(columns_of(history)))
    for name in an.CUMULATIVE:
        assert getattr(series, name).tobytes() == getattr(history, name).tobytes()
    assert series.gap.tobytes() == history.reward_gap.tobytes()
    assert series.violation.tobytes() == history.violation.max(axis=0).tobytes()


def test_late_metrics_are_the_strong_metrics_of_the_episodes_after_the_first_tenth():
    rng = np.random.default_rng(1)
    gap, violations = rng.normal(size=50), rng.normal(size=(3, 50))
    found = an.Series(gap, violations).finals()
    late = an.Series(gap[5:], violations[:, 5:])
    assert found["late_regret"] == pytest.approx(late.strong_regret[-1])
    assert found["late_violation"] == pytest.approx(late.strong_violation[-1])
    assert found["late_violation"] <= found["strong_violation"]


def test_late_violation_is_exactly_zero_when_nothing_is_violated_late():
    violation = np.full((1, 100), -1.0)
    violation[0, :10] = 1 / 3
    assert an.Series(np.zeros(100), violation).finals()["late_violation"] == 0.0


def test_crossings_count_changes_between_safe_and_unsafe_after_the_first_tenth():
    violation = np.ones((1, 100))
    violation[0, :9:2] = -1
    violation[0, 90:] = [1, -1, 1, 1, -1, -1, 0, 1, 1, 1]
    assert an.Series(np.zeros(100), violation).finals()["crossings"] == 4


def test_wobble_ignores_a_straight_line():
    ramp = np.linspace(-1.0, 1.0, 100)[np.newaxis]
    saw = ramp + 0.5 * (-1.0) ** np.arange(100)
    assert an.Series(np.zeros(100), ramp).finals()["wobble"] == pytest.approx(0.0, abs=1e-12)
    assert an.Series(np.zeros(100), saw).finals()["wobble"] == pytest.approx(0.5, rel=0.05)


@pytest.mark.parametrize("episodes", [1, 2, 9])
def test_short_runs_have_final_numbers(episodes):
    found = an.Series(np.ones(episodes), np.ones((2, episodes))).finals()
    assert found["late_regret"] == found["strong_regret"] == episodes
    assert all(np.isfinite(value) for value in found.values())


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"reward_gap": [1.0]}, "no column violation_0"),
        ({"violation_0": [1.0]}, "no column reward_gap"),
        ({"reward_gap": [1.0], "violation_0": [0.0], "violation_2": [0.0]}, "no column violation_1"),
        ({"reward_gap": [], "violation_0": []}, "no episodes"),
        ({"reward_gap": [0.0, 0.0], "violation_0": [0.0, np.nan]}, "violation of episode 2 is nan"),
    ],
)
def test_a_table_that_is_not_a_history_is_refused(columns, message):
    with pytest.raises(ValidationError, match=message):
        an.series_of(pl.DataFrame(columns))


# -- aggregation -------------------------------------------------------------------------------------------------------


def test_curves_are_the_mean_and_standard_error_of_the_exact_series(store, results):
    runs = [run for run in SPEC.runs() if run.environment.id == "conflict-v1" and run.learner.id == "flexdome"]
    exact = [an.series_of(store.read(run)) for run in runs]
    assert results.curves.columns == ["environment", "learner", "metric", "episode", "mean", "se", "n"]
    for metric in an.METRICS:
        curve = results.curves.filter(environment="conflict-v1", learner="FlexDOME", metric=metric)
        t = curve["episode"].to_numpy()
        values = np.stack([getattr(series, metric)[t - 1] for series in exact])
        np.testing.assert_array_equal(curve["mean"], values.mean(axis=0))
        np.testing.assert_allclose(curve["se"], values.std(axis=0, ddof=1) / np.sqrt(3), rtol=1e-14)
        assert (t[0], t[-1], curve.height) == (1, 120, 13)
        assert set(curve["n"]) == {3}


def test_finals_have_a_row_for_every_run_in_the_order_of_the_experiment(store, results):
    assert results.finals["run"].to_list() == [run.id for run in SPEC.runs()]
    row = results.finals.row(4, named=True)
    series = an.series_of(store.read(list(SPEC.runs())[4]))
    assert row["strong_violation"] == series.strong_violation[-1]
    assert row["weak_regret"] == series.weak_regret[-1]
    assert (row["last_gap"], row["last_violation"]) == (series.gap[-1], series.violation[-1])


def test_threads_change_nothing(store, results):
    again = an.aggregate(store, SPEC, points=13, threads=1)
    assert again.curves.equals(results.curves)
    assert again.finals.equals(results.finals)


def test_one_seed_has_no_standard_error_and_no_interval(store):
    alone = an.aggregate(store, SPEC.changed(seeds=[0]))
    assert alone.curves["se"].null_count() == alone.curves.height
    assert not alone.curves["mean"].is_nan().any()
    table = an.summary(alone.finals)
    assert table["low"].null_count() == table["se"].null_count() == table.height
    assert alone.exponents["low"].null_count() == alone.exponents.height


def test_missing_runs_are_an_error_that_names_the_first(store):
    more = SPEC.changed(seeds=[0, 1, 2, 7])
    with pytest.raises(FlexDOMEError, match=r"4 of 16 runs of micro .* FlexDOME on media-v1 with seed 7"):
        an.aggregate(store, more)


def test_missing_runs_can_be_left_out_and_are_listed(store):
    found = an.aggregate(store, SPEC.changed(seeds=[0, 1, 2, 7]), skip_missing=True)
    assert {run.seed for run in found.missing} == {7}
    assert set(found.curves["n"]) == {3}


def test_an_empty_store_gives_empty_tables(tmp_path):
    found = an.aggregate(Store(tmp_path), SPEC, skip_missing=True)
    assert found.curves.is_empty()
    assert found.finals.is_empty()
    assert found.exponents.is_empty()
    assert len(found.missing) == 12


def test_a_run_of_another_length_is_refused():
    with pytest.raises(ValidationError, match="7 episodes; it must have 120"):
        an.aggregate(Stub(lambda run: (np.zeros(7), np.zeros((1, 7)))), SPEC)


def test_the_aggregate_handles_several_constraints():
    found = an.aggregate(Stub(lambda run: (np.zeros(120), np.array([[1.0] * 120, [-1.0] * 60 + [3.0] * 60]))), SPEC)
    assert set(found.finals["strong_violation"]) == {180.0}
    assert set(found.finals["late_violation"]) == {180.0}


def test_summary_has_mean_error_middle_and_intervals(results):
    row = an.summary(results.finals).filter(environment="conflict-v1", learner="Vanilla PD", metric="strong_regret")
    values = results.finals.filter(environment="conflict-v1", learner="Vanilla PD")["strong_regret"].to_numpy()
    found = row.row(0, named=True)
    assert found["mean"] == pytest.approx(values.mean())
    assert values.min() <= found["low"] <= found["mean"] <= found["high"] <= values.max()
    assert found["iqm"] == pytest.approx(values.mean())  # three runs are too few to cut a quarter
    assert found["n"] == 3


def test_pooled_summaries_resample_within_environments():
    frame = pl.DataFrame(
        {"environment": ["a"] * 3 + ["b"] * 3, "learner": ["x"] * 6, "strong_regret": [1.0] * 3 + [100.0] * 3}
    )
    found = an.summary(frame, by=("learner",), metrics=["strong_regret"]).row(0, named=True)
    assert (found["low"], found["mean"], found["high"]) == (50.5, 50.5, 50.5)


def test_sensitivity_reads_the_option_of_each_learner():
    scales = [1e-4, 0, 1e-5]
    spec = SPEC.changed(
        environments=[{"id": "media-v1"}],
        learners=[{"id": "flexdome", "label": f"c{k}", "options": {"margin_scale": c}} for k, c in enumerate(scales)],
    )
    stub = Stub(lambda run: (np.full(120, 1.0 + float(run.learner.options["margin_scale"])), np.zeros((1, 120))))
    frame = an.sensitivity(an.aggregate(stub, spec), "margin_scale")
    regret = frame.filter(metric="strong_regret")
    assert regret["scale"].to_list() == [0.0, 1e-5, 1e-4]
    assert regret["mean"].to_list() == pytest.approx([120.0, 120.0012, 120.012])
    with pytest.raises(ValidationError, match="bonus_scale of c0 is None"):
        an.sensitivity(an.aggregate(stub, spec), "bonus_scale")


# -- statistics --------------------------------------------------------------------------------------------------------


def test_the_error_of_one_value_is_unknown():
    mean, error = an.mean_and_error([[2.0, 4.0]])
    assert mean.tolist() == [2.0, 4.0]
    assert np.isnan(error).all()


@given(arrays(np.float64, st.integers(2, 12), elements=st.floats(-1e3, 1e3)), st.integers(0, 5))
def test_bootstrap_intervals_are_reproducible_and_inside_the_data(values, seed):
    interval = an.bootstrap_interval(values, seed=seed)
    assert interval == an.bootstrap_interval(values, seed=seed)
    assert values.min() - 1e-9 <= interval.low <= interval.high <= values.max() + 1e-9


def test_bootstrap_intervals_cover_about_as_often_as_they_say():
    rng = np.random.default_rng(5)
    found = (an.bootstrap_interval(rng.normal(size=30), resamples=400) for _ in range(200))
    hits = sum(interval.low <= 0.0 <= interval.high for interval in found)
    assert 0.88 <= hits / 200 <= 0.99


def test_strata_narrow_the_interval_when_they_explain_the_spread():
    values, strata = np.array([0.0, 1.0, 100.0, 101.0]), ["a", "a", "b", "b"]
    apart, together = an.bootstrap_interval(values, strata=strata), an.bootstrap_interval(values)
    assert apart.high - apart.low <= 1.0
    assert together.high - together.low > 50.0


@pytest.mark.parametrize("power", [0.0, 0.5, 5 / 6, 1.0])
def test_the_exponent_of_a_power_is_the_power(power):
    t = np.arange(1.0, 20_001.0)
    scale = np.array([[0.5], [1.0], [2.0]])
    found = an.growth_exponent(scale * t**power)
    assert found.value == pytest.approx(power, abs=1e-9)
    assert found.low == pytest.approx(power, abs=1e-9)
    assert found.points == 50


def test_the_exponent_is_that_of_the_late_series():
    t = np.arange(1.0, 16_001.0)
    assert an.growth_exponent(np.where(t < 1000, t, 1000.0)).value == pytest.approx(0.0, abs=1e-12)


def test_a_zero_series_has_no_exponent():
    assert an.growth_exponent(np.zeros((3, 100))) is None


def test_a_series_that_begins_late_is_fitted_where_it_is_positive():
    t = np.arange(1, 1601)
    found = an.growth_exponent(np.maximum(t - 400.0, 0.0))
    assert found.points < 50
    assert found.value > 1.0


def test_a_series_with_too_few_positive_points_has_no_exponent():
    late = np.zeros(1600)
    late[-100:] = np.arange(100)
    assert an.growth_exponent(late) is None


def test_resamples_of_zero_runs_count_as_no_growth():
    t = np.arange(1.0, 1601.0)
    found = an.growth_exponent(np.stack([t, *np.zeros((4, 1600))]))
    assert found.value == pytest.approx(1.0)
    assert (found.low, found.high) == (pytest.approx(0.0), pytest.approx(1.0))


def test_signed_series_have_no_exponent():
    with pytest.raises(ValidationError, match="need values >= 0"):
        an.growth_exponent(-np.ones(100))


@pytest.mark.parametrize("episodes", [1, 2, 3, 40])
def test_short_series_do_not_break_the_fit(episodes):
    found = an.growth_exponent(np.ones((2, episodes)))
    assert found is None or found.value == pytest.approx(0.0, abs=1e-12)


# -- comparison --------------------------------------------------------------------------------------------------------


def pairs(a, b, environment="e"):
    rows = [("a", k, value) for k, value in enumerate(a)] + [("b", k, value) for k, value in enumerate(b)]
    return pl.DataFrame(
        [{"environment": environment, "learner": n, "instance": k, "seed": k, "strong_regret": v} for n, k, v in rows]
    )


def test_pairing_removes_what_the_seeds_have_in_common():
    found = an.paired_difference(pairs([10.0, 200.0, 3000.0], [11.0, 201.0, 3001.0]), "strong_regret", "a", "b")
    assert (found.mean, found.error, found.interval) == (-1.0, 0.0, an.Interval(-1.0, -1.0))
    assert (found.lower, found.equal, found.higher, found.n) == (3, 0, 0, 3)


def test_only_common_runs_are_paired():
    found = an.paired_difference(pairs([1.0, 2.0, 9.0], [1.0, 3.0]), "strong_regret", "a", "b")
    assert (found.n, found.equal, found.lower) == (2, 1, 1)


def test_one_pair_has_no_interval():
    found = an.paired_difference(pairs([1.0], [2.0]), "strong_regret", "a", "b")
    assert (found.mean, found.error, found.interval) == (-1.0, None, None)


def test_unknown_metrics_and_learners_are_named():
    with pytest.raises(ValidationError, match=r"unknown metric 'strong_regre'.*strong_regret"):
        an.paired_difference(pairs([1.0], [2.0]), "strong_regre", "a", "b")
    with pytest.raises(ValidationError, match="unknown learner 'c'"):
        an.paired_difference(pairs([1.0], [2.0]), "strong_regret", "a", "c")


# -- the table ---------------------------------------------------------------------------------------------------------


ROOT, NEAR, ZERO, NOTHING = "Õ(√T)", "Õ(1)", "0", "\N{EN DASH}"
# Regret, violation, and whether: last iterate, unknown safe policy, stochastic threshold.
PAPER = [  # Table 1 of Zuo, Wang and He 2026
    ("OPTAUG-CMDP", ROOT, ROOT, "✗✗✗"),
    ("CPD-PO", ROOT, ROOT, "✗✓✗"),
    ("OMDPD", ROOT, ROOT, "✗✓✗"),
    ("RPD-OE", "Õ(T^0.93)", "Õ(T^0.93)", "✓✓✗"),
    ("UOpt-RPGPD", "Õ(T^(6/7))", "Õ(T^(6/7))", "✓✓✗"),
    ("FlexDOME", "Õ(T^(5/6))", NEAR, "✓✓✓"),
]
MORE = [
    ("Vanilla PD", f"{ROOT} (weak)", f"{ROOT} (weak)", "✗✓✗"),
    ("OptPess-PD", f"{ROOT} (weak)", f"{NEAR} (weak)", "✗✓✗"),
    ("OptCMDP-bonus", ROOT, ROOT, "✗✓✗"),
    ("OptPess-LP", ROOT, ZERO, "✗✗✗"),
    ("OptDual", f"{ROOT} (weak)", f"{ROOT} (weak)", "✗✓✗"),
    ("OptCMDP", ROOT, ROOT, "✗✓✗"),
    ("DOPE", ROOT, ZERO, "✗✗✗"),
    ("SV-OPS", "sublinear (weak)", "sublinear", "✗✓✗"),
    ("S-OPS", f"{ROOT} (weak)", ZERO, "✗✗✗"),
    ("ProxDOME", NOTHING, NOTHING, 3 * NOTHING),
    ("AnchorDOME", NOTHING, NOTHING, 3 * NOTHING),
    ("SureDOME", NOTHING, ZERO, "✗✗✓¹"),
    ("Guard", NOTHING, ZERO, "✗✗✓¹"),
]


def test_the_table_claims_what_the_paper_says_row_by_row():
    table = an.table1()
    lines = [line for line in table_markdown(table).splitlines() if line.startswith("|")][2:]
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    found = [(name, regret, violation, "".join(flags)) for name, regret, violation, *flags, _, _, _ in cells]
    assert found[: len(PAPER) + len(MORE)] == [*PAPER, *MORE]  # another package may announce more
    assert set(fd.LEARNERS) == set(table["id"])
    assert table["part"].to_list() == ["paper"] * len(PAPER) + ["more"] * (table.height - len(PAPER))
    assert set(table["status"]) == {"not run"}


def test_a_learner_that_claims_nothing_has_no_ticks_and_no_crosses():
    flags = ["last_iterate", "unknown_safe_policy", "stochastic_threshold"]
    table = an.table1()
    assert table.filter(id="proxdome").select(flags).row(0) == (None, None, None)
    assert table.filter(id="flexdome").select(flags).row(0) == (True, True, True)


def test_the_table_knows_how_a_program_was_measured_unlike_in_its_paper():
    options = {"tuning": "practical", "replan": 1.1}
    spec = SPEC.changed(
        environments=[{"id": "media-v1"}],
        learners=[
            {"id": "optaug", "label": "OPTAUG-CMDP", "options": options, "problem": {"safe_slack": 0.5}},
            {"id": "optcmdp", "options": {"replan": 10}},
            {"id": "flexdome"},
        ],
    )
    table = an.table1(an.aggregate(Stub(lambda run: (np.ones(120), np.ones((1, 120)))), spec))
    rows = table.filter(status="measured").select("id", "tuning", "replan", "safe_slack").rows()
    assert rows == [
        ("optaug", "practical", "1.1", 0.5),
        ("flexdome", None, None, None),
        ("optcmdp", None, "10", None),
    ]


def test_measured_rows_carry_the_exponents_of_every_setting_and_environment(results):
    table = an.table1([results, results])
    rows = table.filter(id="flexdome")
    assert rows["environment"].to_list() == ["media-v1", "conflict-v1"]
    assert set(rows["status"]) == {"measured"}
    assert set(rows["episodes"]) == {120}
    expected = results.exponents.filter(environment="conflict-v1", learner="FlexDOME", metric="strong_regret")
    assert rows["regret_exponent"][1] == expected["exponent"][0]
    assert table.filter(id="rpd-oe")["status"].to_list() == ["not run"]
    assert an.table1(results, environments=["media-v1"]).filter(id="flexdome").height == 1
    with pytest.raises(ValidationError, match="'nowhere' was not measured"):
        an.table1(results, environments=["nowhere"])


# -- verdicts ----------------------------------------------------------------------------------------------------------

T = 1000
PARTS = SPEC.changed(
    episodes=T,
    environments=[{"id": "paper-v1"}],
    learners=[
        {"id": "flexdome", "label": "FlexDOME"},
        {"id": "uopt-rpgpd", "label": "UOpt-RPGPD", "options": {"tuning": "practical"}},
        {"id": "optprimaldual", "label": "Vanilla PD"},
        {"id": "flexdome", "label": "free", "options": {"regularisation": False}},
        {"id": "flexdome", "label": "bare", "options": {"margin": False}},
        {"id": "flexdome", "label": "oracle", "problem": {"reveal": ["thresholds"]}},
    ],
)


def told(gap, violation, spec=PARTS):
    """The verdicts when learners have the given constant gaps and violations (numbers or functions of t and seed)."""

    def table(run):
        t = np.arange(1, T + 1)
        one, two = gap.get(run.learner.name, 0.0), violation.get(run.learner.name, 0.0)
        made = [value(t, run.seed) if callable(value) else np.full(T, value) for value in (one, two)]
        return made[0], made[1][np.newaxis]

    found = an.verdicts(an.aggregate(Stub(table), spec))
    return {k: [verdict for verdict in found if verdict.claim == k] for k in an.CLAIMS}


def test_parts_follow_from_ids_and_options():
    roles = an.roles_of(an.aggregate(Stub(lambda run: (np.zeros(T), np.zeros((1, T)))), PARTS))
    assert roles == an.Roles(("FlexDOME",), ("UOpt-RPGPD",), ("Vanilla PD",), ("free",), ("oracle",))


def test_early_violation_alone_is_flat():
    (verdict,) = told({}, {"FlexDOME": lambda t, seed: np.where(t <= 20, 1.0 + seed, -0.1)})[1]
    assert verdict.holds
    assert verdict.text == (
        "FlexDOME (c_e = 1e-5 as stated) on paper-v1: strong violation 40.0 ± 11.5 at T = 1,000, 0% of it after the "
        "first tenth of the episodes: the paper's flat curve holds here."
    )


def test_violation_at_every_episode_is_not_flat_and_says_how_it_grows():
    (verdict,) = told({}, {"FlexDOME": 0.125})[1]
    assert not verdict.holds
    assert "strong violation 125 ± 0 at T = 1,000, 90% of it" in verdict.text
    assert "growing as T^1.00 [1.00, 1.00]: the paper's flat curve is not reproduced in this setting." in verdict.text


@pytest.mark.parametrize(
    ("total", "late", "exponent", "flat"),
    [
        (0.0, 0.0, None, True),
        (100.0, 4.9, None, True),
        (100.0, 5.0, None, False),
        (100.0, 20.0, an.Exponent(0.05, 0.0, 0.09, 50), True),
        (100.0, 20.0, an.Exponent(0.05, 0.0, 0.11, 50), False),
        (100.0, 20.0, an.Exponent(0.05, None, None, 50), True),
    ],
)
def test_near_constant_is_a_rule_on_late_share_and_exponent(total, late, exponent, flat):
    assert an.near_constant(total, late, exponent) is flat


def test_growing_baselines_and_lower_violation_are_confirmed():
    found = told({}, {"UOpt-RPGPD": lambda t, seed: np.full(T, 0.2 + 0.01 * seed), "Vanilla PD": 0.0})
    assert [verdict.holds for verdict in found[2]] == [True, False]
    assert [verdict.holds for verdict in found[3]] == [True, False]
    assert "lower in 3 of 3 runs): lower, as the paper says." in found[3][0].text


def test_differences_that_change_sign_are_not_settled():
    (verdict, _) = told({}, {"FlexDOME": lambda t, seed: np.full(T, 1.0 * seed), "UOpt-RPGPD": 1.0})[3]
    assert verdict.holds is None
    assert verdict.text.endswith("not settled by these seeds.")


@pytest.mark.parametrize(
    ("ours", "theirs", "holds", "end"),
    [
        (0.15, 0.1, True, "a slight trade-off, as the paper says."),
        (0.9, 0.1, False, "a trade-off that is not slight, unlike in the paper."),
        (0.1, 0.2, False, "lower violation at no cost in regret, better than the paper says."),
        (0.1, 0.0, False, "a trade-off that is not slight, unlike in the paper."),
    ],
)
def test_the_price_in_regret_is_weighed(ours, theirs, holds, end):
    (verdict,) = told({"FlexDOME": ours, "UOpt-RPGPD": theirs}, {"UOpt-RPGPD": 1.0})[4]
    assert verdict.holds is holds
    assert verdict.text.endswith(end)


def test_there_is_no_trade_off_without_less_violation():
    (verdict,) = told({"FlexDOME": 0.15, "UOpt-RPGPD": 0.1}, {"FlexDOME": 1.0})[4]
    assert "no trade-off to speak of" in verdict.text


def test_a_trade_off_is_not_settled_where_the_violations_are_not():
    violations = {"FlexDOME": lambda t, seed: np.full(T, 1.0 * seed), "UOpt-RPGPD": 1.0}
    (verdict,) = told({"FlexDOME": 0.15, "UOpt-RPGPD": 0.1}, violations)[4]
    assert verdict.holds is None
    assert verdict.text.endswith("not settled by these seeds.")


def test_oscillations_without_regularisation_are_seen():
    saw = told({}, {"free": lambda t, seed: (1.0 + seed) * (-1.0) ** t})[5][0]
    assert saw.holds
    assert "free (c_e = 1e-5 as stated, no regularisation) on paper-v1: after the first tenth" in saw.text
    assert told({}, {})[5][0].holds is False


def test_a_ripple_far_from_the_threshold_is_no_oscillation():
    ripple = told({}, {"free": lambda t, seed: -1.0 + 0.001 * (1.0 + seed) * (-1.0) ** t})[5][0]
    assert ripple.holds is False
    assert ripple.text.endswith("no oscillations come back, unlike in the paper.")


@pytest.mark.parametrize(("flips", "said"), [(1, "unsafe 1 time, "), (2, "unsafe 2 times, ")])
def test_one_change_between_safe_and_unsafe_is_one_time(flips, said):
    steps = lambda t, seed: np.where((t > 500) & ((t <= 700) | (flips == 1)), 1.0, -1.0)  # noqa: E731
    assert said in told({}, {"free": steps})[5][0].text


def test_ablations_are_compared_with_the_setting_that_they_ablate():
    more = {"id": "flexdome", "label": "FlexDOME 5e-5", "options": {"margin_scale": 5e-5}}
    found = told({}, {}, PARTS.changed(learners=[*PARTS.learners, more]))
    assert [verdict.learner for verdict in found[1]] == ["FlexDOME", "FlexDOME 5e-5"]
    assert [verdict.learner for verdict in found[5] + found[6]] == ["FlexDOME", "FlexDOME"]


def test_the_oracle_is_tracked_within_a_tenth():
    assert told({"FlexDOME": 1.05, "oracle": 1.0}, {})[6][0].holds
    assert not told({"FlexDOME": 1.2, "oracle": 1.0}, {})[6][0].holds


def test_verdicts_of_one_seed_say_so():
    spec = PARTS.changed(seeds=[0])
    found = told({"FlexDOME": 0.1}, {"UOpt-RPGPD": 0.1, "FlexDOME": 0.05}, spec)
    assert "(one seed)" in found[1][0].text
    assert "in one pair" in found[3][0].text
    assert all("nan" not in verdict.text for rows in found.values() for verdict in rows)


def test_verdicts_leave_out_what_is_missing():
    stub = Stub(lambda run: (np.zeros(T), np.zeros((1, T))), missing=[("UOpt-RPGPD", k) for k in range(3)])
    found = an.verdicts(an.aggregate(stub, PARTS, skip_missing=True))
    assert {verdict.claim for verdict in found} == {1, 2, 3, 5, 6}


def test_the_verdicts_of_real_runs_are_sentences(results):
    for verdict in an.verdicts(results):
        assert verdict.text.endswith(".")
        assert verdict.environment in verdict.text


# -- the suite ---------------------------------------------------------------------------------------------------------


def suite_row(**changes):
    row = {
        "environment": "a",
        "n": 5,
        "regret": 10.0,
        "opponent_regret": 200.0,
        "violation": 1.0,
        "opponent_violation": 2.0,
        "ratio": 0.05,
        "worst_late": 0.0,
        "exponent": 0.4,
        "gap_share": 0.001,
    }
    return {**row, **changes}


def test_every_target_is_met_by_good_numbers():
    assert all(target.met for target in an.suite_targets(pl.DataFrame([suite_row(), suite_row(environment="b")])))


@pytest.mark.parametrize(
    ("target", "changes", "words"),
    [
        (1, {"worst_late": 0.02}, "at most 0.02 in one run (bad), exceeded on 1 of 3"),
        (2, {"ratio": 0.3}, "at most 0.3 times the opponent's regret (bad)"),
        (3, {"ratio": 0.24}, "0.24 times"),
        (4, {"exponent": 0.6}, "at most 0.6 as the exponent (bad)"),
        (5, {"gap_share": 0.01}, "at most 0.01 of the horizon (bad)"),
        (6, {"violation": 3.0}, "on 2 of 3"),
    ],
)
def test_a_missed_target_names_the_family_that_misses_it(target, changes, words):
    bad = suite_row(environment="bad", **changes)
    table = pl.DataFrame([suite_row(), bad if target == 3 else suite_row(), bad])
    missed = {found.target: found.text for found in an.suite_targets(table) if not found.met}
    assert list(missed) == [target]
    assert words in missed[target]


def test_the_suites_table_compares_two_learners_on_every_family(tmp_path):
    spec = ExperimentSpec(
        name="suite",
        episodes=40,
        seeds=[0, 1],
        environments=[{"id": "media-v1"}, {"id": "factored-v1"}],
        learners=[{"id": "flexdome", "label": "FlexDOME"}, {"id": "rpd-oe", "options": {"tuning": "practical"}}],
    )
    store = Store(tmp_path)
    run_experiments([spec], store)
    results = an.aggregate(store, spec)
    table = an.suite_table(results, "rpd-oe", "FlexDOME")
    assert table["environment"].to_list() == ["media-v1", "factored-v1"]
    row = table.row(0, named=True)
    mine = results.finals.filter(pl.col("environment") == "media-v1", pl.col("learner") == "rpd-oe")
    assert row["regret"] == pytest.approx(mine["strong_regret"].mean())
    assert row["gap_share"] == pytest.approx(mine["last_gap"].mean() / 10)
    with pytest.raises(fd.ValidationError, match="unknown learner 'nobody'"):
        an.suite_table(results, "nobody", "FlexDOME")


def test_who_has_less_of_what_is_counted_over_environments():
    def row(environment, learner, regret, violation, seed=0):
        metrics = {"strong_regret": regret, "strong_violation": violation}
        return {"environment": environment, "learner": learner, "instance": seed, "seed": seed, **metrics}

    finals = pl.DataFrame(
        [
            *(row("a", "ours", x, 1.0, seed) for seed, x in enumerate((8.0, 12.0))),  # a mean of 10
            *(row(e, "ours", 10.0, 1.0) for e in "bcde"),
            *(row("a", "theirs", 11.0, 1.0, seed) for seed in (0, 1)),  # as much violation, more regret
            row("b", "theirs", 9.0, 2.0),
            row("c", "theirs", 11.0, 0.5),
            row("d", "theirs", 9.0, 0.5),
            row("e", "theirs", 10.0, 1.0),  # the same
            row("a", "third", 9.0, 1.0),  # seed 0 alone, where ours has 8
            row("f", "third", 0.0, 0.0),  # ours did not run there
        ]
    )
    table = an.dominance_table(finals, "ours")
    assert table.rows() == [("theirs", 5, 1, 1, 1, 2), ("third", 1, 1, 0, 0, 0)]
    with pytest.raises(fd.ValidationError, match="unknown learner 'nobody'"):
        an.dominance_table(finals, "nobody")
