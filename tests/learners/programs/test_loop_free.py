"""SV-OPS, S-OPS, CPD-PO and OMDPD against slow twins that share no code; interrupts; extreme options."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from test_programs import random_box

import flexdome as fd
import naive_loop_free as naive
from flexdome.learners.programs.projection import FLOOR, STEEPEST_STEP, Occupancy, first_occupancy, mirror_step, project
from flexdome.learners.programs.transition_sets import TransitionSet
from naive_programs import extended_best

MASK = np.array([[[True, True], [True, False]], [[False, True], [True, True]], [[True, True], [False, True]]])


def tiny(seed=0, m=1, share=0.6, allowed=None):
    """Two states, two actions, three steps, a fixed first state; utilities that compete with the reward."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(2, 0.5), size=(3, 2, 2))
    r = rng.random((3, 2, 2))
    d = np.clip(1 - r + 0.3 * rng.normal(size=(m, 3, 2, 2)), 0, 1)
    cmdp = fd.CMDP(p, r, d, np.zeros(m), 0, allowed=allowed)
    uniform = fd.baselines(cmdp).uniform[1].utilities
    best = np.mean([policy[1].utilities for policy in fd.baselines(cmdp).safest], axis=0)
    alpha = np.minimum(uniform, best) * (1 - share) + share * best - 1e-3
    return fd.CMDP(p, r, d, alpha, 0, noise="bernoulli", allowed=allowed)


def played(name, cmdp, count, **options):
    """The learner after each of ``count`` episodes of its own, those episodes, and what it held each time."""
    learner = fd.make_learner(name, cmdp.problem(slater_gap=0.2), **options)
    rng = np.random.default_rng(7)
    held, episodes = [(learner.mixture, learner.multipliers, learner._carried)], []
    for _ in range(count):
        episodes.append(an_episode(cmdp, learner.policy, rng))
        learner.observe(episodes[-1])
        held.append((learner.mixture, learner.multipliers, learner._carried))
    return learner, episodes, held


def an_episode(cmdp, pi, rng):
    H, m = cmdp.horizon, cmdp.constraints
    states, actions = [int(np.argmax(cmdp.initial))], []
    for h in range(H):
        actions.append(int(rng.random() > pi[h, states[h], 0]))
        states.append(int(rng.integers(2)))
    return fd.Episode(np.array(states), np.array(actions), rng.random(H), rng.random((m, H)))


SETTINGS = [{"tuning": "theory"}, {"tuning": "practical"}, {"tuning": "practical", "bonus_scale": 0.03}]


@pytest.mark.parametrize("m", [1, 2])
@pytest.mark.parametrize("options", SETTINGS)
def test_the_plans_of_sv_ops_are_the_slow_ones(options, m):
    cmdp = tiny(m=m)
    learner, episodes, held = played("sv-ops", cmdp, 7, episodes=60, **options)
    twin = naive.sv_ops(learner.problem, episodes, T=60, **options)
    for ((_, policies), lam, own), slow in zip(held, twin, strict=True):
        np.testing.assert_allclose(policies[0], slow["pi"], atol=1e-6)
        np.testing.assert_allclose(own.upper, slow["upper"], atol=1e-6)
        np.testing.assert_allclose(lam, slow["lam"], atol=1e-4, rtol=1e-4)
        assert own.safe == slow["safe"]


@pytest.mark.parametrize("m", [1, 2])
@pytest.mark.parametrize("options", SETTINGS)
def test_the_plans_of_s_ops_are_the_slow_ones(options, m):
    cmdp = tiny(m=m)
    safe = fd.safe_policy(cmdp, 0.5 * fd.slater_gap(cmdp))
    learner, episodes, held = played("s-ops", cmdp, 7, episodes=60, safe_policy=safe, **options)
    twin = naive.sv_ops(learner.problem, episodes, T=60, safe_policy=safe, **options)
    for ((weights, policies), _, own), slow in zip(held, twin, strict=True):
        assert weights[0] == pytest.approx(slow["weight"], abs=1e-6)
        np.testing.assert_allclose(policies, [safe.policy, slow["pi"]], atol=1e-6)
        np.testing.assert_allclose(own.upper, slow["upper"], atol=1e-6)


@pytest.mark.parametrize("m", [1, 2])
@pytest.mark.parametrize("options", SETTINGS)
def test_the_plans_of_cpd_po_are_the_slow_ones(options, m):
    cmdp = tiny(m=m, share=0.9)
    learner, episodes, held = played("cpd-po", cmdp, 12, episodes=60, **options)
    twin = naive.cpd_po(learner.problem, episodes, T=60, **options)
    for ((_, policies), lam, own), slow in zip(held, twin, strict=True):
        np.testing.assert_allclose(policies[0], slow["pi"], atol=1e-9)
        np.testing.assert_allclose(own.score, slow["score"], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(lam, slow["lam"], rtol=1e-12)


@pytest.mark.parametrize("m", [1, 2])
@pytest.mark.parametrize("options", [*SETTINGS, {"tuning": "practical", "scale": 0.5, "growth": 1.0}])
def test_the_plans_of_omdpd_are_the_slow_ones(options, m):
    cmdp = tiny(m=m, share=0.95)
    learner, episodes, held = played("omdpd", cmdp, 6, episodes=60, **options)
    twin = naive.omdpd(learner.problem, episodes, K=60, **options)
    for ((_, policies), weight, own), slow in zip(held, twin, strict=True):
        np.testing.assert_allclose(policies[0], slow["pi"], atol=1e-6)
        np.testing.assert_allclose(weight, slow["weight"], rtol=1e-7)
        np.testing.assert_allclose(own.lam, slow["lam"], rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("options", [{"tuning": "theory"}, {"tuning": "practical", "bonus_scale": 0.03}])
def test_the_plans_under_a_mask_are_the_slow_ones(options):
    cmdp = tiny(share=0.7, allowed=MASK)
    safe = fd.safe_policy(cmdp, 0.5 * fd.slater_gap(cmdp))
    for name, count in (("sv-ops", 5), ("s-ops", 5), ("cpd-po", 8), ("omdpd", 5)):
        more = {"safe_policy": safe} if name == "s-ops" else {}
        learner, episodes, held = played(name, cmdp, count, episodes=60, **more, **options)
        slow = getattr(naive, name.replace("-", "_") if name != "s-ops" else "sv_ops")
        twin = slow(learner.problem, episodes, **{"K" if name == "omdpd" else "T": 60}, **more, **options)
        for ((_, policies), lam, _), expected in zip(held, twin, strict=True):
            assert (policies[:, ~MASK] == 0.0).all()
            np.testing.assert_allclose(policies[-1], expected["pi"], atol=1e-6)
            if name in ("cpd-po", "omdpd"):
                key = "lam" if name == "cpd-po" else "weight"
                np.testing.assert_allclose(lam, expected[key], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("tuning", ["theory", "practical"])
def test_a_step_of_cpd_po_for_three_episodes_is_the_slow_one(tuning):
    cmdp = tiny(share=0.9)
    learner, episodes, held = played("cpd-po", cmdp, 9, episodes=60, replan=3, tuning=tuning)
    twin = naive.cpd_po(learner.problem, episodes, T=60, replan=3, tuning=tuning)
    for ((_, policies), lam, own), slow in zip(held, twin, strict=True):
        np.testing.assert_allclose(policies[0], slow["pi"], atol=1e-9)
        np.testing.assert_allclose(own.score, slow["score"], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(lam, slow["lam"], rtol=1e-12)


@pytest.mark.parametrize("inner_steps", [1, 2, 10])
def test_the_steps_of_omdpd_for_three_episodes_are_the_slow_ones(inner_steps):
    cmdp = tiny(share=0.95)
    options = {"replan": 3, "inner_steps": inner_steps, "tuning": "practical", "scale": 0.5, "growth": 1.0}
    learner, episodes, held = played("omdpd", cmdp, 9, episodes=60, **options)
    twin = naive.omdpd(learner.problem, episodes, K=60, **options)
    for ((_, policies), _, own), slow in zip(held, twin, strict=True):
        np.testing.assert_allclose(policies[0], slow["pi"], atol=1e-6)
        np.testing.assert_allclose(own.lam, slow["lam"], rtol=1e-7, atol=1e-9)
        assert own.variation == pytest.approx(slow["variation"], rel=1e-6)


def test_what_omdpd_expects_is_the_gradient_where_it_steps_from_and_not_where_it_was():
    # One step, costs -1/2 and 1/2: q_k = (0.1, 0.9) violates, so that its gradient moves q^ = (1/2, 1/2) towards
    # action 0, where nothing is violated. M_{k+1} is then that of the reward alone.
    learner = fd.make_learner("omdpd", fd.Problem(1, 2, 1, [1.0], [0.4], 0.1), episodes=10, scale=1.0, growth=1.0)
    r, costs = np.array([[[0.25, 0.25]]]), np.array([[[[-0.5, 0.5]]]])
    row = TransitionSet(np.ones((2, 1)), np.ones((2, 1)), np.zeros(2), np.zeros(0))
    before = replace(learner._carried, x=np.array([[[0.1, 0.9]]]))
    before = learner._met_by(before, r, costs)
    assert before.met.ravel().tolist() == [-0.75, 0.25]  # -r + Phi'(0) c
    after = learner._advanced(before, row, r, costs, 1.0)
    assert after.hat.x[0, 0, 0] > 0.6
    assert after.expected.ravel().tolist() == [-0.25, -0.25]
    np.testing.assert_allclose(after.x, after.hat.x, atol=1e-9)  # both actions earn the same


# -- the step ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1.0, 15.0, 40.0])
@pytest.mark.parametrize("width", [0.05, 0.6])
def test_a_step_of_any_length_is_exact(size, width):
    # OMDPD's objective, slope . x + KL, against an interior-point method on the written-out program.
    transitions, lo, up, _, mu, rng = random_box(5, S=2, A=2, H=3, width=width)
    start = first_occupancy(3, 2, 2, mu)
    slope = size * rng.random((3, 2, 2))
    found = mirror_step(transitions, start, slope, mu)
    x, p = found.x, found.p
    np.testing.assert_allclose(x.sum(axis=(1, 2)), 1.0, atol=1e-10)
    *_, best = naive.kl_projection(lo, up, mu, start.x, start.p, slope)
    reached = (x * (np.log(np.maximum(x, 1e-300) / start.x) + slope)).sum()
    reached += (x[:-1, ..., None] * p[:-1] * np.log(np.maximum(p[:-1], 1e-300) / start.p[:-1])).sum()
    assert reached == pytest.approx(best, rel=1e-8)


def test_a_step_starts_from_at_least_the_floor():
    transitions, _, _, _, mu, rng = random_box(5, S=2, A=2, H=3)
    slope = rng.random((3, 2, 2))
    x, p = np.full((3, 2, 2), 0.25), np.full((3, 2, 2, 2), 0.5)
    low_x, low_p = x.copy(), p.copy()
    x[1, 0, 0], low_x[1, 0, 0] = 0.0, 1e-30
    p[0, 1, 1], low_p[0, 1, 1] = (0.0, 1.0), (1e-30, 1.0)
    found = mirror_step(transitions, Occupancy(x, p, np.zeros(0)), slope, mu)
    same = project(transitions, np.log(low_x) - slope, low_p, mu)
    assert (found.x == same.x).all()
    assert FLOOR == 1e-30


def test_a_slope_beyond_the_longest_is_scaled_down_to_it():
    transitions, _, _, _, mu, rng = random_box(5, S=2, A=2, H=3)
    start, slope = first_occupancy(3, 2, 2, mu), rng.random((3, 2, 2))
    slope[0, 0, 0], slope[0, 1, 1] = 0.0, 1.0
    longest = mirror_step(transitions, start, 1e4 * slope, mu)
    assert (mirror_step(transitions, start, 4e4 * slope, mu).x == longest.x).all()
    assert not (mirror_step(transitions, start, 0.5e4 * slope, mu).x == longest.x).all()
    # A constant of a step does not count.
    shifted = 10.0 * slope + np.array([0.0, 9e3, 2e4])[:, None, None]
    short = mirror_step(transitions, start, 10.0 * slope, mu).x
    np.testing.assert_allclose(mirror_step(transitions, start, shifted, mu).x, short, atol=1e-8)
    assert STEEPEST_STEP == 1e4


def test_states_out_of_reach_have_no_mass_and_may_come_back():
    def exactly(row):
        rows = np.tile(row, (3 * 2 * 2, 1))
        return TransitionSet(rows, rows, np.zeros(len(rows)), np.zeros(0))

    mu, none = np.array([1.0, 0.0]), np.zeros((3, 2, 2))
    out = mirror_step(exactly((1.0, 0.0)), first_occupancy(3, 2, 2, mu), none, mu)
    assert (out.x[:, 1] == 0).all()
    np.testing.assert_allclose(out.x[:, 0], 0.5, atol=1e-9)
    back = mirror_step(exactly((0.5, 0.5)), out, none, mu)
    np.testing.assert_allclose(back.x[1:], 0.25, atol=1e-9)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("seed", range(8))
def test_cells_that_were_given_up_are_brought_back_where_the_constraint_needs_them(seed):
    # x~ of 1e-290 in half of the cells, and a utility near the most possible: what runs of 30,000 episodes come to.
    transitions, lo, up, f, mu, rng = random_box(seed, S=4, A=2, H=3, width=0.02)
    start = first_occupancy(3, 4, 2, mu)
    log_x = np.log(start.x) - 668.0 * (rng.random((3, 4, 2)) < 0.5)
    most = extended_best(lo, up, f[1], mu)
    found = project(transitions, log_x, start.p, mu, f[1:], np.array([most - 1e-3]))
    assert (found.x * f[1]).sum() >= most - 1e-3 - 1e-7
    np.testing.assert_allclose(found.x[0].sum(axis=1), mu, atol=1e-7)


# -- robustness --------------------------------------------------------------------------------------------------------


def rare(seed):
    """A random CMDP with rows from Dirichlet(0.1) and a threshold near the most possible."""
    rng = np.random.default_rng(seed)
    S, A, H = int(rng.integers(3, 6)), int(rng.integers(2, 4)), int(rng.integers(3, 5))
    p = rng.dirichlet(np.full(S, 0.1), size=(H, S, A))
    cmdp = fd.CMDP(p, rng.random((H, S, A)), rng.random((1, H, S, A)), [0.0], 0)
    sides = fd.baselines(cmdp)
    least, most = sides.uniform[1].utilities[0], sides.safest[0][1].utilities[0]
    return fd.CMDP(cmdp.transitions, cmdp.rewards, cmdp.utilities, [least + 0.9 * (most - least)], 0)


@pytest.mark.parametrize("seed", range(2))
def test_sv_ops_goes_on_where_transitions_are_rare(seed):
    cmdp = rare(seed)
    learner = fd.make_learner("sv-ops", cmdp.problem(), episodes=100, tuning="practical")
    assert np.isfinite(fd.simulate(learner, cmdp, seed=seed).violation).all()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("sv-ops", {"step_size": 1e6}),
        ("s-ops", {"step_size": 1e6}),
        ("sv-ops", {"step_size": 1e30, "exploration": 1e-30}),
        ("sv-ops", {"step_size": 0.0}),
        ("sv-ops", {"step_size": 1e-320}),
        ("sv-ops", {"bonus_scale": 1e30}),
        ("sv-ops", {"exploration": 1e30}),
        ("cpd-po", {"exploration": 1e30}),
        ("cpd-po", {"exploration": 1e-30, "step_size": 1e30, "dual_scale": 1e30}),
        ("cpd-po", {"bonus_scale": 1e30}),
        ("omdpd", {"scale": 1e30, "growth": 1e30, "bonus_scale": 1e30}),
        ("omdpd", {"scale": 1e-30, "growth": 1e-30, "bonus_scale": 0.0}),
    ],
)
def test_extreme_constants_give_a_policy_or_an_error_of_ours(name, options):
    cmdp = tiny()
    if name == "s-ops":
        options = {**options, "safe_policy": fd.safe_policy(cmdp, 0.5 * fd.slater_gap(cmdp))}
    try:
        learner, _, _ = played(name, cmdp, 6, episodes=60, **options)
    except fd.FlexDOMEError:
        return
    np.testing.assert_allclose(learner.policy.sum(axis=-1), 1.0, atol=1e-9)
    assert np.isfinite(learner.multipliers).all()


# -- plans are transactions --------------------------------------------------------------------------------------------


FILES = ("sv_ops.py", "s_ops.py", "cpd_po.py", "omdpd.py", "projection.py", "loop_free.py", "confidence.py")


def interrupted(learner, episode, at):
    """Observe, with Ctrl-C at the ``at``-th line of our files while the plan is not complete; whether it came."""
    before, seen = learner._carried, 0

    def trace(frame, event, _):
        nonlocal seen
        if frame.f_code.co_filename.endswith(FILES):
            if event == "line" and learner._carried is before:
                seen += 1
                if seen == at:
                    raise KeyboardInterrupt
            return trace
        return None

    sys.settrace(trace)
    try:
        learner.observe(episode)
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)
    return False


@pytest.mark.parametrize("name", ["sv-ops", "s-ops", "cpd-po", "omdpd"])
def test_a_plan_that_is_interrupted_anywhere_changes_nothing(name):
    cmdp = tiny()
    options = {"episodes": 60, "tuning": "practical"}
    if name == "s-ops":
        options["safe_policy"] = fd.safe_policy(cmdp, 0.5 * fd.slater_gap(cmdp))
    whole, episodes, _ = played(name, cmdp, 5, **options)
    at, came = 1, True
    while came:
        learner = fd.make_learner(name, cmdp.problem(slater_gap=0.2), **options)
        for episode in episodes[:3]:
            learner.observe(episode)
        own = learner._carried
        came = interrupted(learner, episodes[3], at)
        assert not came or learner._carried is own
        learner.observe(episodes[4])
        for key, array in whole.state().items():
            assert (learner.state()[key] == array).all(), (at, key)
        at = at + 1 if at < 12 else at + 23
    assert at > 40
