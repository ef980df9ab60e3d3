"""Actions that are not allowed: planning on a mask, against brute force and against the model without them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import flexdome as fd
import naive

SEEDS = st.integers(0, 2**32 - 1)


def random_mask(seed: int, H: int, S: int, A: int) -> np.ndarray:
    """Each action allowed with probability 0.6, and one at least."""
    rng = np.random.default_rng([seed, 9])
    mask = rng.random((H, S, A)) < 0.6
    mask[np.arange(H)[:, None], np.arange(S), rng.integers(0, A, size=(H, S))] = True
    return mask


def masked(seed: int, S: int = 2, A: int = 3, H: int = 2, m: int = 1, share: float = 0.5) -> fd.CMDP:
    """A random CMDP under a mask; its thresholds lie between the uniform policy and the safest mixture."""
    p, f, mu = naive.random_cmdp_arrays(seed, S, A, H, m)
    allowed = random_mask(seed, H, S, A)
    free = fd.CMDP(p, f[0], f[1:], np.zeros(m), mu, allowed=allowed)
    ends = fd.baselines(free)
    safest = fd.mix(free, [policy for policy, _ in ends.safest], np.full(m, 1 / m))
    low, high = ends.uniform[1].utilities, fd.evaluate(free, safest).utilities
    alpha = np.minimum(low + share * (high - low), high)
    return fd.CMDP(p, f[0], f[1:], alpha, mu, allowed=allowed)


def every_policy(cmdp: fd.CMDP) -> np.ndarray:
    """All deterministic policies that take allowed actions alone."""
    H, S, A = cmdp.rewards.shape
    mask = np.ones((H, S, A), dtype=bool) if cmdp.allowed is None else cmdp.allowed
    choices = [np.flatnonzero(mask[h, s]) for h in range(H) for s in range(S)]
    return np.array([np.eye(A)[list(actions)].reshape(H, S, A) for actions in itertools.product(*choices)])


@settings(max_examples=40)
@given(SEEDS, st.integers(1, 3))
def test_the_optimum_under_a_mask_is_that_of_every_mixture_of_allowed_policies(seed: int, m: int) -> None:
    cmdp = masked(seed, m=m)
    corners = np.array([naive.evaluate(cmdp.transitions, cmdp.model.f, cmdp.initial, pi) for pi in every_policy(cmdp)])
    rows = (cmdp.alpha - corners[:, 1:]).T
    best = linprog(-corners[:, 0], rows, np.zeros(m), np.ones((1, len(corners))), [1.0])
    slack = linprog(
        np.append(np.zeros(len(corners)), -1.0),
        np.hstack([rows, np.ones((m, 1))]),
        np.zeros(m),
        np.append(np.ones(len(corners)), 0.0)[None],
        [1.0],
        bounds=[(0, None)] * len(corners) + [(None, None)],
    )
    for method in ("decomposition", "lp"):
        found = fd.solve(cmdp, method)
        assert found.value == pytest.approx(-best.fun, abs=1e-8)
        assert found.slater_gap == pytest.approx(-slack.fun, abs=1e-8)
        assert (found.slack >= -1e-9).all()
        if cmdp.allowed is not None:
            assert (found.policy[~cmdp.allowed] == 0.0).all()
    ends = fd.baselines(cmdp)
    assert ends.best[1].value == pytest.approx(corners[:, 0].max(), abs=1e-12)
    assert ends.worst[1].value == pytest.approx(corners[:, 0].min(), abs=1e-12)
    for i, (policy, truth) in enumerate(ends.safest):
        assert truth.utilities[i] == pytest.approx(corners[:, 1 + i].max(), abs=1e-12)
        assert cmdp.allowed is None or (policy[~cmdp.allowed] == 0.0).all()


def narrowed(seed: int, k: int, m: int = 1) -> tuple[fd.CMDP, fd.CMDP, np.ndarray]:
    """A CMDP with k of its 4 actions allowed everywhere, the CMDP that has only those, and which they are."""
    H, S, A = 3, 4, 4
    p, f, mu = naive.random_cmdp_arrays(seed, S, A, H, m)
    rng = np.random.default_rng([seed, 4])
    kept = np.sort(np.argsort(rng.random((H, S, A)), axis=-1)[..., :k], axis=-1)
    allowed = np.zeros((H, S, A), dtype=bool)
    np.put_along_axis(allowed, kept, True, axis=-1)
    small_p = np.take_along_axis(p, kept[..., None], axis=2)
    small_f = np.take_along_axis(f, kept[None], axis=3)
    free = fd.CMDP(small_p, small_f[0], small_f[1:], np.zeros(m), mu)
    alpha = fd.baselines(free).uniform[1].utilities
    wide = fd.CMDP(p, f[0], f[1:], alpha, mu, allowed=allowed)
    return wide, fd.CMDP(small_p, small_f[0], small_f[1:], alpha, mu), kept


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_a_mask_plans_as_the_model_without_what_it_forbids(seed: int, k: int) -> None:
    wide, small, kept = narrowed(seed, k, m=2)

    def gathered(policy: np.ndarray) -> np.ndarray:
        return np.take_along_axis(policy, kept, axis=-1)

    assert fd.solve(wide).value == pytest.approx(fd.solve(small).value, abs=1e-9)
    assert fd.slater_gap(wide) == pytest.approx(fd.slater_gap(small), abs=1e-9)
    room = 0.3 * max(fd.slater_gap(small), 0.0)
    np.testing.assert_allclose(fd.safe_policy(wide, room).utilities.min(), fd.safe_policy(small, room).utilities.min())
    for tau in (0.5, 0.05):
        one, other = (fd.saddle_point(cmdp, tau, margin=0.01, dual_bound=4.0) for cmdp in (wide, small))
        assert one.value == pytest.approx(other.value, abs=1e-9)
        assert one.entropy == pytest.approx(other.entropy, abs=1e-7)
        assert (one.policy[~wide.allowed] == 0.0).all() if wide.allowed is not None else True
        np.testing.assert_allclose(gathered(one.policy), other.policy, atol=1e-7)
    schedules = fd.Schedules(lambda t: t ** (-5 / 6), lambda t: t ** (-1 / 6), 0.05)
    path, twin = (fd.iterate(cmdp, schedules, 50, dual_bound=3.0) for cmdp in (wide, small))
    np.testing.assert_allclose(path.reward_gap, twin.reward_gap, atol=1e-9)
    np.testing.assert_allclose(path.violation, twin.violation, atol=1e-9)
    np.testing.assert_allclose(gathered(path.policy), twin.policy, atol=1e-10)
    assert (path.policy[~wide.allowed] == 0.0).all()


def test_an_iteration_that_forgets_its_policy_at_once_keeps_to_the_mask() -> None:
    wide, _, _ = narrowed(0, 2)
    path = fd.iterate(wide, fd.Schedules(1.0, 1.0, 0.0), 5, dual_bound=1.0)  # eta tau = 1: the factor on log pi is 0
    assert np.isfinite(path.reward_gap).all()
    assert (path.policy[~wide.allowed] == 0.0).all()


def test_a_policy_that_may_play_what_is_forbidden_is_refused() -> None:
    wide, _, _ = narrowed(1, 2)
    uniform = np.full((3, 4, 4), 0.25)
    with pytest.raises(
        fd.ValidationError, match=r"policy\[0, 0, \d\] is 0.25; it must be 0: that action is not allowed"
    ):
        fd.evaluate(wide, uniform)
    with pytest.raises(fd.ValidationError, match="not allowed"):
        fd.sample_episodes(wide, uniform.tolist(), 3)
    with pytest.raises(fd.ValidationError, match=r"policies\[1, 0, 0"):
        fd.mix(wide, [fd.baselines(wide).uniform[0], uniform], [0.5, 0.5])


def test_episodes_of_the_uniform_policy_take_allowed_actions_alone() -> None:
    wide, _, _ = narrowed(2, 2)
    uniform, _ = fd.baselines(wide).uniform
    assert set(np.unique(uniform)) == {0.0, 0.5}
    np.testing.assert_array_equal(wide.problem().uniform, uniform)
    for episode in fd.sample_episodes(wide, uniform, 200):
        assert wide.allowed[np.arange(3), episode.states[:3], episode.actions].all()
        episode.checked(wide.problem())
