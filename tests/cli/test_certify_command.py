"""`flexdome certify`: verdicts in plain words."""

import numpy as np
import pytest

import flexdome as fd
from flexdome.certificates import Recorded, save_episodes
from flexdome.cli import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A policy, its episodes, those of another, and a learner."""
    root = tmp_path_factory.mktemp("certify")
    cmdp = fd.make_cmdp("media-v1")
    problem, safe = cmdp.problem(), fd.safe_policy(cmdp, 0.5)
    uniform = np.full_like(safe.policy, 1.0 / cmdp.actions)
    np.save(root / "policy.npy", safe.policy)
    np.savez(root / "policy.npz", policy=safe.policy)
    np.save(root / "uniform.npy", uniform)
    fd.save_cmdp(cmdp, root / "cmdp.npz")
    save_episodes(root / "own.npz", problem, fd.play(safe.policy, cmdp, 2000))
    save_episodes(root / "other.npz", problem, fd.play(uniform, cmdp, 500))
    save_episodes(root / "said.npz", problem, fd.play(uniform, cmdp, 500), played_by=uniform)
    learner = fd.FlexDOME(problem, episodes=200)
    fd.simulate(learner, cmdp)
    learner.save(root / "learner.npz")
    save_episodes(root / "fresh.npz", problem, fd.play(learner.policy, cmdp, 500))
    for suffix in ("json", "csv", "npz"):
        learner.export(root / f"exported.{suffix}")
    for suffix in ("csv", "parquet"):
        fd.write_episodes(fd.sample_episodes(cmdp, learner.policy, 500), root / f"fresh.{suffix}")
    (root / "wrong.json").write_text(
        (root / "exported.json").read_text().replace('"thresholds": [', '"thresholds": [-')
    )
    sampled = fd.Problem(cmdp.states, cmdp.actions, cmdp.horizon, thresholds=[np.nan])
    log = fd.play(safe.policy, cmdp, 2000)
    arrays = (log.states, log.actions, log.observed[:, 0], log.observed[:, 1:], np.full((2000, 1), 4.9))
    save_episodes(root / "samples.npz", sampled, Recorded.from_arrays(sampled, *arrays))
    drug = fd.Quantity("drug used", 0, 150, "ml", limit=50.0)
    in_units = fd.Problem(1, 1, 2, 0, reward=fd.Quantity("effect", 0, 2), subject_to=drug, state_names=["ward"])
    asked = fd.ProxDOME(in_units)
    asked.export(root / "units.json")
    wards = [fd.Episode(["ward", "ward"], [0, 0], [1.0, 1.0], [20.0, 20.0]) for _ in range(300)]
    fd.write_episodes(wards, root / "units.csv", problem=in_units)
    away = fd.CMDP(
        cmdp.transitions, cmdp.rewards, cmdp.utilities, cmdp.alpha, [0.0, 0.5, 0.5, *[0.0] * (cmdp.states - 3)]
    )
    save_episodes(root / "away.npz", away.problem(), fd.play(uniform, away, 500))
    return root


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["policy.npy", "--episodes", "own.npz", "--thresholds", "5"], "safe with confidence 0.95, from 2,000"),
        (["policy.npz", "--episodes", "own.npz", "--environment", "media-v1"], "constraint 0: certified safe"),
        (["policy.npy", "--episodes", "own.npz", "--environment", "cmdp.npz", "--delta", "0.01"], "confidence 0.99"),
        (["policy.npy", "--episodes", "own.npz", "--thresholds", "6"], "UNSAFE with confidence 0.95"),
        (["uniform.npy", "--episodes", "away.npz", "--thresholds", "1"], "safe with confidence 0.95, from 500"),
        (["policy.npy", "--episodes", "said.npz", "--thresholds", "5"], "method 'reweighted'"),
        (["policy.npy", "--episodes", "other.npz", "--thresholds", "5", "--played-by", "uniform.npy"], "'reweighted'"),
        (
            ["policy.npy", "--episodes", "own.npz", "--environment", "media-v1", "--chosen-from-data"],
            "from 2,000 episodes by method 'model'",
        ),
        *[
            ([f"exported.{suffix}", "--episodes", "fresh.csv", "--thresholds", "5"], "from 500 episodes by")
            for suffix in ("json", "csv", "npz")
        ],
        (["exported.json", "--episodes", "fresh.parquet"], "threshold 5\n"),
        (["exported.json", "--episodes", "fresh.csv", "--environment", "media-v1"], "threshold 5\n"),
        (
            ["policy.npy", "--episodes", "other.npz", "--thresholds", "5", "--played-by", "exported.npz"],
            "method 'reweighted'",
        ),
        (["learner.npz", "--episodes", "fresh.csv"], "from 500 episodes by method 'episodes'"),
        (["units.json", "--episodes", "units.csv"], "drug used: certified safe; in ["),
        (["units.json", "--episodes", "units.csv", "--thresholds", "30"], "limit 30 ml"),
        (["policy.npy", "--episodes", "samples.npz", "--thresholds", "nan"], "vacuous; utility in"),
        (
            ["policy.npy", "--episodes", "samples.npz", "--thresholds", "nan", "--threshold-range", "0", "10"],
            "threshold in [4.",
        ),
        (["learner.npz"], "from 200 episodes by method 'model'"),
        (["learner.npz", "--episodes", "fresh.npz"], "from 500 episodes by method 'episodes'"),
    ],
)
def test_the_verdict_is_printed_in_plain_words(words, said, folder, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    assert main(["certify", *words]) == 0
    printed = capsys.readouterr().out
    assert said in printed
    assert "holds if the p" in printed


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["policy.npy"], "episodes is missing"),
        (["policy.npy", "--episodes", "own.npz"], "either an environment or its thresholds"),
        (["policy.npy", "--episodes", "own.npz", "--thresholds", "5", "--chosen-from-data"], "where episodes begin"),
        (["policy.npy", "--episodes", "none.npz", "--thresholds", "5"], "none.npz does not exist"),
        (["policy.npy", "--episodes", "other.npz", "--thresholds", "5"], "which policy never does"),
        (["own.npz", "--episodes", "own.npz", "--thresholds", "5"], "a policy file has one array"),
        (["learner.npz", "--environment", "media-v1"], "has a problem of its own; leave out --environment"),
        (["learner.npz", "--thresholds", "5"], "has a problem of its own; leave out --thresholds"),
        (["policy.npy", "--episodes", "own.npz", "--thresholds", "5", "--environment", "media-v1"], "not both"),
        (["exported.json", "--episodes", "own.npz", "--thresholds", "5", "5"], "thresholds has 2 entries"),
        (["exported.json", "--episodes", "exported.csv"], "exported.csv does not hold episodes of this problem: "),
        (["fresh.csv", "--episodes", "fresh.csv"], "fresh.csv does not hold a policy: "),
        (
            ["wrong.json", "--episodes", "fresh.csv"],
            "wrong.json does not say rightly what its problem is: thresholds[0] is",
        ),
        (["policy.npy", "--episodes", "own.npz", "--thresholds", "nan"], "thresholds is missing"),
        (["policy.npy", "--episodes", "own.npz", "--thresholds", "99"], r"thresholds\[0\] is 99"),
    ],
)
def test_what_is_missing_or_wrong_is_one_line(words, message, folder, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    assert main(["certify", *words]) == 2
    assert message.replace("\\", "") in capsys.readouterr().err
