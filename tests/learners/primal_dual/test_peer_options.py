"""What the papers leave open is an option of each peer: it does what it says, is checked, and is kept in files."""

import math

import numpy as np
import pytest

import flexdome as fd
from flexdome.kernels.rollout import play
from flexdome.simulation.randomness import Randomness
from flexdome.simulation.runners import buffers_of
from naive_peers import TWINS

PEERS = ("optprimaldual", "uopt-rpgpd", "rpd-oe", "optpess-pd")
OPTIONS = [
    ("optprimaldual", {"reward_bonus_factor": 0.5, "reward_bonus_size": 12.0}),
    ("optprimaldual", {"dual_policy": "next", "dual_bound": 3.0}),
    ("uopt-rpgpd", {"bonus_horizon": True}),
    ("uopt-rpgpd", {"notebook_slips": True}),
    ("uopt-rpgpd", {"notebook_slips": True, "bonus_scale": 0.1}),
    ("uopt-rpgpd", {"dual_bound": 0.5, "exponent_eta": 0.6, "exponent_tau": 0.3}),
    ("rpd-oe", {"scale_entropy_bonus": False, "bonus_scale": 1e-3, "dual_bound": 2.0}),
    *((name, {"threshold_estimate": "last"}) for name in PEERS),
    ("optpess-pd", {"bonus_factor": 7.0, "margin_factor": 50.0, "event_delta": 0.01}),
]
CASES = [pytest.param(*case, id=f"{k}-{case[0]}-{'-'.join(case[1])}") for k, case in enumerate(OPTIONS)]


def played(learner, cmdp, count, first=1):
    """What ``learner`` plays and observes, episode by episode."""
    randomness = Randomness(cmdp, 5)
    uniforms, samples = randomness.uniforms(first, count), randomness.thresholds(first, count)
    buffers = buffers_of(cmdp)
    for t in range(count):
        play(np.ascontiguousarray(learner.policy), tuple(cmdp.model), uniforms, t, buffers)
        thresholds = None if learner.problem.thresholds_known else samples[t]
        episode = fd.Episode(*(x.copy() for x in buffers[:4]), thresholds)
        learner.observe(episode)
        yield episode


@pytest.mark.parametrize(("name", "options"), CASES)
def test_a_peer_with_other_options_agrees_with_its_slow_twin(name, options):
    cmdp = fd.make_cmdp("paper-stochastic-v1", seed=1)
    if name == "optprimaldual":
        options = {**options, "dual_step": 3.0}  # the practical one, 100, grows rounding by as much in every episode
    options = {**options, "episodes": 150, "tuning": "practical"}
    learner, twin = fd.make_learner(name, cmdp.problem(), **options), TWINS[name](cmdp.problem(), **options)
    for episode in played(learner, cmdp, 150):
        twin.observe(episode)
        np.testing.assert_allclose(learner.multipliers, twin.lam, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(learner.policy, np.exp(twin.log_pi), atol=1e-9)


@pytest.mark.parametrize(("name", "options"), CASES)
def test_an_option_changes_the_run_and_is_kept_in_files(name, options, tmp_path):
    cmdp = fd.make_cmdp("paper-stochastic-v1", seed=1)
    problem = cmdp.problem()
    common = {"episodes": 200, "tuning": "practical"}
    if name != "uopt-rpgpd":
        common["unvisited"] = "paper"  # full optimism keeps the multipliers at zero for long
    learner, plain = (fd.make_learner(name, problem, **common, **own) for own in (options, {}))
    for one in (learner, plain):
        fd.simulate(one, cmdp, episodes=100)
    assert (learner.policy != plain.policy).any() or (learner.multipliers != plain.multipliers).any()
    learner.save(tmp_path / "learner")
    again = fd.load_learner(tmp_path / "learner")
    assert {option: again.options()[option] for option in options} == options
    for one in (learner, again):
        fd.simulate(one, cmdp, episodes=100)
    assert (learner.policy == again.policy).all()
    assert (learner.multipliers == again.multipliers).all()


def test_the_reward_bonus_of_optprimaldual_is_its_formula():
    problem = fd.make_cmdp("paper-v1").problem()  # S = 20, A = H = 5, m = 1
    learner = fd.make_learner(
        "optprimaldual", problem, episodes=1000, delta=0.1, reward_bonus_factor=3.0, reward_bonus_size=8.0
    )
    assert learner.settings.form.bonus[0] == pytest.approx(math.sqrt(3 * math.log(8 * 20 * 5 * 5 * 2 * 1000 / 0.1)))
    known = fd.make_learner("optprimaldual", problem, episodes=1000, reward_bonus_factor=0.0)
    assert known.settings.form.bonus[0] == 0.0
    assert known.settings.form.bonus[1] > 0.0


def test_the_factor_h_of_uopt_rpgpd_multiplies_its_widths():
    problem = fd.make_cmdp("paper-v1").problem()
    plain, wide = (fd.make_learner("uopt-rpgpd", problem, bonus_horizon=on) for on in (False, True))
    np.testing.assert_allclose(wide.beliefs().widths, 5 * plain.beliefs().widths, rtol=1e-12)


def test_the_constants_of_optpess_are_its_formulas():
    problem = fd.make_cmdp("paper-v1").problem()
    learner = fd.make_learner("optpess-pd", problem, episodes=1000, delta=0.1)
    each = 0.1 / (16 * 20**2 * 5 * 5)
    assert learner.options()["event_delta"] == pytest.approx(each)
    assert learner.beliefs().widths.max() == pytest.approx((1 + 5 * math.sqrt(20)) * math.sqrt(math.log(1000 / each)))
    log = math.log(1 / each)
    assert learner.beliefs().margin[0] == pytest.approx(5 * 25 * math.sqrt(20**3 * 5) * (log + 1) / math.sqrt(log))
    other = fd.make_learner(
        "optpess-pd", problem, episodes=1000, bonus_factor=2.0, margin_factor=3.0, event_delta=math.exp(-4)
    )
    assert other.beliefs().widths.max() == pytest.approx(2 * math.sqrt(math.log(1000) + 4))
    assert other.beliefs().margin[0] == pytest.approx(3 * 5 / 2)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("optprimaldual", {"reward_bonus_factor": -1.0}, "reward_bonus_factor is -1.0; it must be at least 0"),
        ("optprimaldual", {"reward_bonus_size": 0.5}, "reward_bonus_size is 0.5; it must be at least 1"),
        ("optprimaldual", {"dual_policy": "last"}, "dual_policy is 'last'; it must be 'current' or 'next'"),
        ("rpd-oe", {"threshold_estimate": "median"}, "threshold_estimate is 'median'; it must be 'mean' or 'last'"),
        ("uopt-rpgpd", {"bonus_horizon": 1}, "bonus_horizon is 1; it must be True or False"),
        ("uopt-rpgpd", {"notebook_slips": "yes"}, "notebook_slips is 'yes'; it must be True or False"),
        ("rpd-oe", {"scale_entropy_bonus": "no"}, "scale_entropy_bonus is 'no'; it must be True or False"),
        ("rpd-oe", {"dual_bound": -1.0}, "dual_bound is -1.0"),
        ("optpess-pd", {"bonus_factor": -2.0}, "bonus_factor is -2.0; it must be at least 0"),
        ("optpess-pd", {"margin_factor": math.nan}, "margin_factor is nan; it must be finite"),
        ("optpess-pd", {"event_delta": 1.0}, "event_delta is 1.0; it must lie between 0 and 1"),
        ("optpess-pd", {"event_delta": 0.0}, "event_delta is 0.0; it must lie between 0 and 1"),
    ],
)
def test_a_bad_value_is_refused_with_field_value_and_rule(name, options, message):
    with pytest.raises(fd.ValidationError, match=message):
        fd.make_learner(name, fd.make_cmdp("media-v1").problem(), **options)


@pytest.mark.parametrize("name", PEERS)
def test_an_unknown_threshold_is_the_mean_of_all_samples_or_of_the_last_episode(name):
    cmdp = fd.make_cmdp("paper-stochastic-v1", seed=1)
    samples = {}
    for estimate in ("mean", "last"):
        learner = fd.make_learner(name, cmdp.problem(), episodes=20, threshold_estimate=estimate)
        samples[estimate] = [episode.thresholds.mean() for episode in played(learner, cmdp, 20)]
        expected = np.mean(samples[estimate]) if estimate == "mean" else samples[estimate][-1]
        assert learner.beliefs().thresholds[0] == pytest.approx(expected, rel=1e-12)
    assert np.ptp(samples["last"]) > 0


@pytest.mark.parametrize("tuning", ["theory", "practical"])
@pytest.mark.parametrize("environment", ["paper-v1", "multi-v1", "river-v1"])
def test_the_slips_of_the_notebook_agree_with_their_slow_twin(tuning, environment):
    cmdp = fd.make_cmdp(environment, seed=1)
    options = {"episodes": 150, "tuning": tuning, "notebook_slips": True}
    learner = fd.make_learner("uopt-rpgpd", cmdp.problem(), **options)
    twin = TWINS["uopt-rpgpd"](cmdp.problem(), **options)
    for episode in played(learner, cmdp, 150):
        twin.observe(episode)
        np.testing.assert_allclose(learner.multipliers, twin.lam, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(learner.policy, np.exp(twin.log_pi), atol=1e-9)


def test_the_slips_of_the_notebook_pass_the_checker():
    assert fd.check_learner(fd.LEARNERS["uopt-rpgpd"].load(), notebook_slips=True)


def test_the_slips_need_the_state_after_the_last_step():
    cmdp = fd.make_cmdp("media-v1")
    learner = fd.make_learner("uopt-rpgpd", cmdp.problem(), notebook_slips=True)
    H, m = cmdp.horizon, cmdp.constraints
    short = fd.Episode(np.zeros(H, dtype=int), np.zeros(H, dtype=int), np.zeros(H), np.zeros((m, H)))
    with pytest.raises(fd.ValidationError, match=f"states has length {H}; with notebook_slips it must be {H + 1}"):
        learner.observe(short)
    assert learner.episode == 0


def test_a_file_with_other_transitions_after_the_last_step_is_refused(tmp_path):
    cmdp = fd.make_cmdp("media-v1")
    learner = fd.make_learner("uopt-rpgpd", cmdp.problem(), episodes=20, notebook_slips=True)
    fd.simulate(learner, cmdp)
    learner.model.core.work.last[0, 0, 0] += 1.0
    learner.save(tmp_path / "learner")
    with pytest.raises(fd.FlexDOMEError, match="does not sum to the visits of the last step"):
        fd.load_learner(tmp_path / "learner")


@pytest.mark.parametrize("name", [*PEERS, "flexdome"])
def test_a_threshold_made_unknown_later_is_estimated_from_its_own_samples_only(name):
    # Constraint 1 is known for three episodes, without samples, and unknown for two.
    problem = fd.Problem(2, 2, 1, 0, [np.nan, 0.5], 0.5)
    learner = fd.make_learner(name, problem, episodes=10)

    def observe(*thresholds):
        learner.observe(fd.Episode([0, 1], [1], [0.5], np.ones((2, 1)), thresholds))

    for k in range(3):
        observe(0.1 * k, np.nan)
    np.testing.assert_allclose(learner.beliefs().thresholds, [0.1, 0.5], rtol=1e-12)
    learner.set_thresholds([np.nan, np.nan])
    assert learner.beliefs().thresholds[1] == 0.0
    observe(0.1, 0.2)
    observe(0.1, 0.4)
    np.testing.assert_allclose(learner.beliefs().thresholds, [0.1, 0.3], rtol=1e-12)


@pytest.mark.parametrize(("factor", "divided"), [(3.0, 3.0), (1.5, 1.5), (1.0, 1.0), (0.7, 1.0)])
def test_optpess_gives_means_the_one_of_its_factor_where_a_part_is_known(factor, divided):
    cmdp = fd.make_cmdp("paper-v1")
    root = factor * math.sqrt(math.log(1000) + 4)
    options = {"episodes": 1000, "bonus_factor": factor, "event_delta": math.exp(-4)}
    known = fd.make_learner("optpess-pd", cmdp.problem(reveal=("transitions",)), **options)
    assert known.beliefs().widths.max() == pytest.approx(root / divided)
    assert fd.make_learner("optpess-pd", cmdp.problem(), **options).beliefs().widths.max() == pytest.approx(root)


@pytest.mark.parametrize("name", ["flexdome", "optpess-pd", "anchordome"])
def test_a_schedule_begins_with_episode_one_and_may_be_of_no_episode(name):
    learner = fd.make_learner(name, fd.make_cmdp("paper-v1").problem(), episodes=20)
    for first in (0, -1):
        with pytest.raises(fd.ValidationError, match=f"first is {first}; it must be between 1 and"):
            learner.schedule(first, 1)
    with pytest.raises(fd.ValidationError, match="count is -1; it must be between 0 and"):
        learner.schedule(1, -1)
    assert [part.shape[0] for part in learner.schedule(1, 0)] == [0, 0, 0]


def test_the_width_of_a_known_reward_is_that_of_the_first_utility():
    # sqrt(2 log 16000) + (14/3) log(8000) / 4 for one sample of the first in four visits, whatever the second has
    problem = fd.Problem(1, 1, 1, [1.0], [0.2, 0.1], 0.4, rewards=[[[0.5]]])
    learner = fd.make_learner("optprimaldual", problem, episodes=100, delta=0.1)
    for first, second in ((math.nan, 0.1), (0.6, 0.2), (math.nan, 0.3), (math.nan, math.nan)):
        learner.observe(fd.Episode([0, 0], [0], [0.5], [[first], [second]]))
    one = fd.Problem(1, 1, 1, [1.0], [0.2], 0.4, rewards=[[[0.5]]])
    alone = fd.make_learner("optprimaldual", one, episodes=100, delta=0.1)
    for first in (math.nan, 0.6, math.nan, math.nan):
        alone.observe(fd.Episode([0, 0], [0], [0.5], [[first]]))
    said, of_one = learner.beliefs().widths.item(), alone.beliefs().widths.item()
    assert 1.0 < said / of_one < 1.1  # one more mean in the logarithms, and no more


def test_a_learner_of_one_step_is_certified():
    cmdp = fd.make_cmdp("paper-v1", horizon=1)
    learner = fd.make_learner("flexdome", cmdp.problem(), episodes=30)
    fd.simulate(learner, cmdp)
    assert learner.certify(0.1).episodes == 30
