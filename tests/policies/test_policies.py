"""Policies by themselves: what they play, what they say, and their files."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flexdome as fd
from flexdome.policies import draw_action
from strategies import SEEDS

SUFFIXES = (".json", ".csv", ".npz")


def random_policy(seed: int, shape=(3, 4, 3), m: int = 2) -> fd.Policy:
    rng = np.random.default_rng(seed)
    pi = rng.dirichlet(np.ones(shape[2]), size=shape[:2]) * (rng.random(shape) < 0.7)
    pi[pi.sum(axis=-1) == 0.0] = np.eye(shape[2])[1]
    pi /= pi.sum(axis=-1, keepdims=True)
    visits = rng.integers(0, 5, shape).astype(float)
    utilities = np.where(visits > 0, rng.random((m, *shape)), np.nan)
    return fd.Policy(pi, visits, utilities, {"learner": "some */ one", "multipliers": [0.5, 0.0]})


def learned(episodes: int = 30) -> fd.FlexDOME:
    learner = fd.FlexDOME(fd.make_cmdp("inventory-v1").problem(), episodes=100)
    fd.simulate(learner, fd.make_cmdp("inventory-v1"), episodes=episodes)
    return learner


@settings(max_examples=40)
@given(seed=SEEDS, suffix=st.sampled_from(SUFFIXES), bare=st.booleans())
def test_a_file_is_read_back_bit_for_bit(seed, suffix, bare, tmp_path_factory):
    policy = random_policy(seed)
    policy = fd.Policy(policy.policy) if bare else policy
    path = tmp_path_factory.getbasetemp() / f"policy{suffix}"
    path.write_bytes(policy.to_bytes(suffix))
    again = fd.Policy.load(path)
    assert np.array_equal(again.policy, policy.policy)
    assert dict(again.provenance) == dict(policy.provenance)
    for name in ("visits", "utilities"):
        one, other = getattr(again, name), getattr(policy, name)
        assert (one is None and other is None) or np.array_equal(one, other, equal_nan=True)


@given(seed=SEEDS, u=st.floats(0.0, 1.0, exclude_max=True))
def test_an_action_is_the_first_whose_cumulated_probability_exceeds_u(seed, u):
    pi = random_policy(seed).policy[0, 0]
    a = draw_action(pi, u)
    assert pi[a] > 0.0
    below = float(np.sum(pi[:a]))
    assert below <= u + 1e-12
    assert u < below + pi[a] + 1e-12


def test_frequencies_are_the_probabilities():
    policy = random_policy(3)
    drawn = np.bincount([policy.act(1, 2, u) for u in np.linspace(0, 1, 10_000, endpoint=False)], minlength=3)
    np.testing.assert_allclose(drawn / 10_000, policy.policy[1, 2], atol=2e-4)


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_the_c_table_plays_the_same(tmp_path):
    policy = random_policy(5)
    (tmp_path / "policy.h").write_bytes(policy.to_bytes(".h"))
    numbers = [*np.linspace(0.0, 1.0, 41, endpoint=False).tolist(), 1.0 - 2.0**-53]
    rows = policy.policy.reshape(-1, 3)
    numbers += [float(x) for row in rows[:4] for x in np.cumsum(row) if x < 1.0]  # on the edges
    listed = ", ".join(x.hex() for x in numbers)
    (tmp_path / "main.c").write_text(
        '#include <stdio.h>\n#include "policy.h"\n'
        f"static const double u[] = {{{listed}}};\n"
        "int main(void) { int h, s; size_t k;\n"
        " for (h = 0; h < FLEXDOME_STEPS; ++h) for (s = 0; s < FLEXDOME_STATES; ++s)\n"
        '  for (k = 0; k < sizeof u / sizeof *u; ++k) printf("%d\\n", flexdome_act(h, s, u[k]));\n'
        ' printf("%d %d\\n", flexdome_act(-1, 0, 0.0), flexdome_act(0, FLEXDOME_STATES, 0.0)); return 0; }\n'
    )
    subprocess.run(["cc", "-Wall", "-Werror", "-o", tmp_path / "main", tmp_path / "main.c"], check=True)
    *out, last = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout.splitlines()
    expected = [policy.act(h, s, u) for h in range(3) for s in range(4) for u in numbers]
    assert [int(line) for line in out] == expected
    assert last == "-1 -1"


def test_a_learner_exports_what_it_is_about_to_play(tmp_path):
    learner = learned()
    for suffix in SUFFIXES:
        learner.export(tmp_path / f"policy{suffix}")
        policy = fd.Policy.load(tmp_path / f"policy{suffix}")
        assert np.array_equal(policy.policy, learner.policy)
        assert np.array_equal(policy.visits, learner.visits)
        assert policy.provenance["learner"] == "flexdome"
        assert policy.provenance["episode"] == 30
        assert policy.provenance["options"]["episodes"] == 100
        seen = policy.visits > 0
        assert np.isfinite(policy.utilities[:, seen]).all()
        assert np.isnan(policy.utilities[:, ~seen]).all()
    learner.export(tmp_path / "policy.h")
    assert b"flexdome_act" in (tmp_path / "policy.h").read_bytes()


def test_mean_utilities_are_those_of_the_model_where_means_are_observed(tmp_path):
    cmdp, learner = fd.make_cmdp("inventory-v1"), learned()
    learner.export(tmp_path / "policy.npz")
    policy = fd.Policy.load(tmp_path / "policy.npz")
    seen = policy.visits > 0
    np.testing.assert_allclose(policy.utilities[0][seen], cmdp.utilities[0][seen], atol=1e-12)


def test_loading_and_playing_needs_numpy_alone(tmp_path):
    learned().export(tmp_path / "policy.json")
    code = (
        "import sys, flexdome as fd\n"
        f"policy = fd.Policy.load({str(tmp_path / 'policy.json')!r})\n"
        "policy.act(0, 1, 0.5); policy.explain(0, 1)\n"
        "print([m for m in ('numba', 'scipy', 'polars', 'highspy', 'pydantic', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_explanation_says_what_is_played_how_often_it_was_tried_and_what_it_costs():
    policy = fd.Policy(
        [[[0.25, 0.75], [0.5, 0.5]]],
        [[[0, 12], [0, 0]]],
        [[[[np.nan, 0.7], [np.nan, np.nan]]]],
        {"multipliers": [0.25]},
    )
    first, best, other, price = policy.explain(0, 0).splitlines()
    assert first == "step 0, state 0: seen 12 times"
    assert best == "  action 1: played 75 %, tried 12 times, costs 0.3 of constraint 0 (utility 0.7)"
    assert other == "  action 0: played 25 %, never tried"
    assert price == "  a unit of constraint 0 is worth 0.25 units of reward"
    assert "never seen" in policy.explain(0, 1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda policy: fd.Policy([[0.5, 0.5]]), r"policy has shape \(1, 2\)"),
        (lambda policy: fd.Policy([[[0.5, 0.6]]]), r"policy\[0, 0\] is \[0.5, 0.6\]"),
        (lambda policy: fd.Policy([[[1.5, -0.5]]]), r"policy\[0, 0\]"),
        (lambda policy: fd.Policy([[[np.nan, 1.0]]]), r"policy\[0, 0\]"),
        (lambda policy: fd.Policy([[[1.0]]], visits=[1.0]), "visits has shape"),
        (lambda policy: fd.Policy([[[1.0]]], utilities=[[[1.0]]]), "utilities has shape"),
        (lambda policy: policy.act(3, 0, 0.5), "h is 3; it must be a whole number from 0 to 2"),
        (lambda policy: policy.act(0, -1, 0.5), "s is -1"),
        (lambda policy: policy.act(0, True, 0.5), "s is True"),
        (lambda policy: policy.act(0, 0, 1.0), r"u is 1.0; it must lie in \[0, 1\)"),
        (lambda policy: policy.act(0, 0, np.nan), "u is nan"),
        (lambda policy: policy.explain(0, 4), "s is 4"),
        (lambda policy: policy.to_bytes(".txt"), "suffix is '.txt'"),
        (lambda policy: fd.Policy.load("policy.h"), "it must end in .json or .csv or .npz"),
        (lambda policy: learned(0).export("policy.txt"), "it must end in .json or .csv or .npz or .h"),
    ],
)
def test_bad_arguments_are_refused_by_name(call, message):
    with pytest.raises(fd.ValidationError, match=message):
        call(random_policy(0))


@settings(max_examples=80)
@given(suffix=st.sampled_from(SUFFIXES), data=st.data())
def test_a_file_that_is_cut_is_refused(suffix, data, tmp_path_factory):
    whole = random_policy(1).to_bytes(suffix).rstrip(b"\n")
    path = tmp_path_factory.getbasetemp() / f"cut{suffix}"
    size = data.draw(st.integers(0, len(whole) - (30 if suffix == ".csv" else 1)))
    path.write_bytes(whole[:size])
    with pytest.raises(fd.FileFormatError, match=re.escape(str(path))):
        fd.Policy.load(path)


def test_files_of_another_kind_are_refused(tmp_path):
    for content in ({}, {"format": "flexdome-policy", "version": 2}, {"format": "flexdome-policy", "version": 1}):
        (tmp_path / "policy.json").write_text(json.dumps(content))
        with pytest.raises(fd.FileFormatError):
            fd.Policy.load(tmp_path / "policy.json")
    with pytest.raises(fd.FileFormatError, match="cannot be read"):
        fd.Policy.load(tmp_path / "absent.npz")
