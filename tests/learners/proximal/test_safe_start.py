"""ProxDOME from a safe policy: what is played is drawn, and the mixture is safe from the first episode on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import flexdome as fd
from flexdome.certificates import LowerSequence
from flexdome.certificates.kernels import BOUND
from flexdome.learners.proximal.proxdome import ProxDOME
from flexdome.simulation.check import small_cmdp
from naive_proxdome import weight_by_hand
from runs import World

SMALL = {"states": 4, "actions": 3, "horizon": 3}
UNSEEN = [("paper-v1", seed) for seed in range(610, 617)] + [("independent-v1", seed) for seed in range(610, 617)]
UNSEEN += [("opposed-v1", seed) for seed in range(610, 616)]


def made(name: str, seed: int, episodes: int = 600, **options: object) -> tuple[fd.CMDP, ProxDOME]:
    cmdp = fd.make_cmdp(name, seed=seed, **({} if name == "inventory-v1" else SMALL))
    safe = fd.safe_policy(cmdp, 0.5 * fd.slater_gap(cmdp))
    return cmdp, fd.ProxDOME(cmdp.problem(), episodes=episodes, seed=seed, safe_policy=safe, **options)


def test_it_keeps_every_rule_of_a_learner() -> None:
    cmdp = fd.make_cmdp("paper-v1", seed=3, **SMALL)
    safe = fd.safe_policy(cmdp, 0.5 * fd.slater_gap(cmdp))
    fd.check_learner(fd.ProxDOME, cmdp, randomises=True, safe_policy=safe)
    small = small_cmdp()
    fd.check_learner(fd.ProxDOME, small, safe_policy=fd.safe_policy(small, 0.5 * fd.slater_gap(small)))


@pytest.mark.parametrize("name", ["paper-v1", "opposed-v1", "bernoulli-v1", "paper-stochastic-v1", "inventory-v1"])
def test_the_weight_is_the_largest_that_is_safe_in_the_worst_case(name: str) -> None:
    cmdp, learner = made(name, 5, episodes=10_000)
    seen = []
    for k in range(25):
        fd.simulate(learner, cmdp, 4 if k < 10 else 120, seed=5)
        seen.append(learner.status().weight)
        assert seen[-1] == pytest.approx(weight_by_hand(learner), abs=1e-9)
    assert min(seen) < 0.9 * max(seen)
    assert max(seen) > (0.5 if name == "bernoulli-v1" else 0.9)


def test_states_never_seen_and_thresholds_hardly_sampled_leave_nothing_to_the_plan() -> None:
    cmdp = fd.make_cmdp("contexts-v1", seed=201)  # 200 first states: few are seen in ten episodes
    safe = fd.safe_policy(cmdp, 0.5 * fd.slater_gap(cmdp))
    run = fd.simulate(fd.ProxDOME(cmdp.problem(), episodes=300, seed=201, safe_policy=safe), cmdp, seed=201)
    assert run.diagnostics["weight"][:10].max() < 0.1
    assert run.strong_violation[-1] == 0.0
    cmdp = fd.make_cmdp("noisy-v1", seed=201)
    safe = fd.safe_policy(cmdp, 0.5 * fd.slater_gap(cmdp))
    run = fd.simulate(fd.ProxDOME(cmdp.problem(), episodes=300, seed=201, safe_policy=safe), cmdp, seed=201)
    assert (run.diagnostics["weight"][:30] == 0.0).all()
    assert run.strong_violation[-1] == 0.0


def test_a_plan_that_is_safe_by_far_does_not_end_the_search() -> None:
    cmdp = fd.make_cmdp("grid-v1", seed=613)  # a corner is safe, earns nothing, and is known long before the rest
    safe = fd.safe_policy(cmdp, 0.5 * fd.slater_gap(cmdp))
    run = fd.simulate(fd.ProxDOME(cmdp.problem(), episodes=8_000, seed=613, safe_policy=safe), cmdp, seed=613)
    assert run.strong_violation[-1] == 0.0
    assert run.reward_gap[-1] < 0.1 < fd.solve(cmdp).value - fd.evaluate(cmdp, safe.policy).value


def test_no_episode_is_unsafe_on_twenty_problems_never_looked_at() -> None:
    worst, plain = [], []
    for name, seed in UNSEEN:
        cmdp, learner = made(name, seed)
        worst.append(fd.simulate(learner, cmdp, seed=seed).strong_violation[-1])
        plain.append(fd.simulate(fd.ProxDOME(cmdp.problem(), episodes=600), cmdp, seed=seed).strong_violation[-1])
    assert len(UNSEEN) == 20
    assert max(worst) == 0.0
    assert np.median(plain) > 1.0


def test_before_anything_is_known_the_plan_may_be_worth_nothing() -> None:
    cmdp, learner = made("independent-v1", 7)
    assert learner.safe_policy is not None
    v, alpha = learner.safe_policy.utilities[0], cmdp.alpha[0]
    assert learner.status().weight == pytest.approx((v - alpha) / v)
    weights, policies = learner.mixture
    assert weights == pytest.approx([1.0 - learner.status().weight, learner.status().weight])
    assert np.array_equal(policies[0], learner.safe_policy.policy)
    assert "the safe policy that was given otherwise" in str(learner.status())


def test_what_is_played_is_drawn_with_the_weight_and_by_the_seed() -> None:
    cmdp, learner = made("independent-v1", 8)
    assert learner.safe_policy is not None
    drawn = 0
    for _ in range(300):
        drawn += np.array_equal(learner.policy, learner.safe_policy.policy)
        learner.episode += 1
    assert drawn == pytest.approx(300 * (1.0 - learner.status().weight), abs=4 * np.sqrt(300) / 2)
    one, other = (
        fd.ProxDOME(cmdp.problem(), seed=seed, safe_policy=learner.safe_policy).coins(5) for seed in (0, 1)
    )  # fmt: skip
    assert not np.array_equal(one, other)


def test_only_a_safe_policy_that_was_given_is_refuted_and_by_one_number_for_each_step() -> None:
    cmdp, learner = made("independent-v1", 8)
    m, H = cmdp.constraints, cmdp.horizon
    learner.refuted(np.ones((m, H)))
    with pytest.raises(fd.ValidationError, match=rf"utilities has shape \({H},\); it must be \({m}, {H}\)"):
        learner.refuted(np.ones(H))
    with pytest.raises(fd.ValidationError, match="safe_policy is None; only a policy that was given can be refuted"):
        fd.ProxDOME(cmdp.problem(), episodes=9).refuted(np.ones((m, H)))


def test_a_file_brings_back_the_safe_policy_and_the_draws(tmp_path: Path) -> None:
    cmdp, learner = made("opposed-v1", 9)
    fd.simulate(learner, cmdp, 50, seed=2)
    learner.save(tmp_path / "learner.npz")
    again = fd.load_learner(tmp_path / "learner.npz")
    one, other = fd.simulate(learner, cmdp, 50, seed=2), fd.simulate(again, cmdp, 50, seed=2)
    assert np.array_equal(one.diagnostics["weight"], other.diagnostics["weight"])
    assert np.array_equal(one.realised, other.realised)
    assert isinstance(again, ProxDOME)
    assert again.status().weight == learner.status().weight


def test_a_threshold_that_the_safe_policy_does_not_exceed_is_refused_and_changes_nothing() -> None:
    cmdp, learner = made("independent-v1", 10)
    _, twin = made("independent-v1", 10)
    assert learner.safe_policy is not None
    for one in (learner, twin):
        fd.simulate(one, cmdp, 50, seed=1)
    for above in (0.0, 0.1):
        with pytest.raises(fd.ValidationError, match=r"safe_policy.utilities\[0\] is .*must exceed the threshold"):
            learner.set_thresholds(learner.safe_policy.utilities + above)
    assert learner.threshold_changes == []
    assert learner.problem is learner.first_problem
    assert str(learner.status()) == str(twin.status())
    fd.simulate(learner, cmdp, 50, seed=1)
    fd.simulate(twin, cmdp, 50, seed=1)
    assert (learner.policy == twin.policy).all()


def test_a_journal_does_not_record_a_threshold_that_the_safe_policy_does_not_exceed(tmp_path: Path) -> None:
    _, learner = made("independent-v1", 10)
    assert learner.safe_policy is not None
    with fd.Journal(tmp_path, learner) as journal:
        before = (tmp_path / "journal.log").read_bytes()
        with pytest.raises(fd.ValidationError, match="must exceed the threshold"):
            journal.set_thresholds(learner.safe_policy.utilities)
        assert (tmp_path / "journal.log").read_bytes() == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"utilities": [0.0]}, r"safe_policy.utilities\[0\] is 0.0; it must exceed the threshold"),
        ({"utilities": [np.nan]}, r"safe_policy.utilities\[0\] is nan"),
        ({"policy": np.zeros((1, 1, 1))}, r"safe_policy.policy has shape \(1, 1, 1\)"),
    ],
)
def test_a_safe_policy_that_is_none_is_refused(change: dict[str, object], message: str) -> None:
    cmdp = fd.make_cmdp("paper-v1", seed=1, **SMALL)
    safe = fd.safe_policy(cmdp, 0.5 * fd.slater_gap(cmdp))
    given = {"policy": safe.policy, "utilities": safe.utilities, **change}
    with pytest.raises(fd.FlexDOMEError, match=message):
        fd.ProxDOME(cmdp.problem(), safe_policy=given)


@pytest.mark.parametrize("simulated", [True, False])
def test_a_safe_policy_that_does_not_keep_its_promise_is_an_error(simulated: bool) -> None:
    cmdp = fd.make_cmdp("independent-v1", seed=0)
    safe = fd.safe_policy(cmdp, 0.5 * fd.slater_gap(cmdp))
    worst = fd.SafePolicy(np.full(safe.policy.shape, 1.0 / cmdp.actions), safe.utilities)
    assert fd.evaluate(cmdp, worst.policy).utilities[0] < cmdp.alpha[0]
    learner = fd.ProxDOME(cmdp.problem(), safe_policy=worst)
    message = r"safe_policy.utilities\[0\] is .*; its \d+ episodes show at most .* less than what was promised"
    if simulated:
        with pytest.raises(fd.ValidationError, match=message):
            fd.simulate(learner, cmdp, 3_000)
        assert 20 < learner.episode < 3_000
        return
    monitor, world = fd.Monitor(cmdp.problem()), World(cmdp, 1)

    def live() -> None:
        for _ in range(3_000):
            episode = world.play(learner.policy)
            if np.array_equal(learner.policy, worst.policy):
                monitor.observe(episode)
            kept.append(learner.own.promise[1:].tobytes())
            learner.observe(fd.Episode(episode.states, episode.actions, episode.rewards, episode.utilities))

    kept: list[bytes] = []
    with pytest.raises(fd.ValidationError, match=message):
        live()
    assert len(kept) == learner.episode + 1
    assert learner.own.promise[1:].tobytes() == kept[-1]  # refused, and nothing changed
    while monitor.alarm is None:
        monitor.observe(world.play(worst.policy))
    assert monitor.alarm.kind == "violation"


def test_the_promise_is_held_to_the_sequence_of_the_certificates(tmp_path: Path) -> None:
    cmdp, learner = made("opposed-v1", 3)
    assert learner.safe_policy is not None
    world, m = World(cmdp, 5), cmdp.constraints
    sequences = [LowerSequence(1e-6 / m, "bernstein") for _ in range(m)]
    for t in range(200):
        if t == 100:
            learner.save(tmp_path / "learner")
            learner = fd.load_learner(tmp_path / "learner")
        given = np.array_equal(learner.policy, learner.safe_policy.policy)
        episode = world.play(learner.policy)
        learner.observe(fd.Episode(episode.states, episode.actions, episode.rewards, episode.utilities))
        for i in range(m if given else 0):
            sequences[i].update(1.0 - float(np.sum(episode.utilities[i])) / cmdp.horizon)
    assert learner.own.promise[1:, BOUND] == pytest.approx([one.bound for one in sequences], abs=1e-12)
    assert learner.own.promise[1, 0] > 20.0
