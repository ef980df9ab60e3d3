"""Who watches a run sees every episode once, and changes nothing."""

import importlib.util
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import flexdome as fd
from flexdome.experiments import ExperimentSpec, Store, run_experiments

EXAMPLE = Path(__file__).parents[2] / "examples" / "observers" / "observers.py"


def learner(cmdp, cls=fd.FlexDOME):
    return cls(cmdp.problem(), episodes=20_000)


@pytest.fixture
def adapters():
    spec = importlib.util.spec_from_file_location("observers", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_an_observer_sees_every_episode_once_and_changes_nothing():
    cmdp = fd.make_cmdp("media-v1")
    alone = fd.simulate(learner(cmdp), cmdp, 17_000, seed=3, snapshots=[100])
    seen = []
    watched = fd.simulate(learner(cmdp), cmdp, 17_000, seed=3, snapshots=[100], observer=seen.append)
    assert len(seen) > 2
    assert np.array_equal(np.concatenate([piece.episodes for piece in seen]), watched.episodes)
    assert np.concatenate([piece.reward_gap for piece in seen]).tobytes() == alone.reward_gap.tobytes()
    assert watched.violation.tobytes() == alone.violation.tobytes()
    assert np.concatenate([piece.multipliers for piece in seen], axis=1).tobytes() == alone.multipliers.tobytes()


def test_what_an_observer_raises_ends_the_run_and_the_learner_goes_on_from_there():
    cmdp = fd.make_cmdp("media-v1")
    one, other = learner(cmdp), learner(cmdp)

    def stop(history):
        raise InterruptedError("enough")

    with pytest.raises(InterruptedError):
        fd.simulate(one, cmdp, seed=3, observer=stop)
    assert 0 < one.episode < 20_000
    fd.simulate(one, cmdp, seed=3)
    fd.simulate(other, cmdp, seed=3)
    assert one.policy.tobytes() == other.policy.tobytes()


def test_an_observer_must_not_change_the_learner():
    cmdp = fd.make_cmdp("media-v1")
    one = learner(cmdp)
    episode = fd.sample_episodes(cmdp, one.policy, 1, seed=0)[0]
    with pytest.raises(fd.ValidationError, match="observer changed the learner"):
        fd.simulate(one, cmdp, seed=3, observer=lambda history: one.observe(episode))
    with pytest.raises(fd.ValidationError, match="observer is 3"):
        fd.simulate(one, cmdp, seed=3, observer=3)


def test_the_adapter_for_tensorboard_ends_with_the_history_s_numbers(adapters):
    cmdp, told = fd.make_cmdp("multi-v1", constraints=2), {}
    writer = SimpleNamespace(add_scalar=lambda tag, value, step: told.__setitem__(tag, (value, step)))
    history = fd.simulate(learner(cmdp), cmdp, 300, seed=0, observer=adapters.ToTensorBoard(writer, "x"))
    assert told["x/strong_regret"] == (pytest.approx(history.strong_regret[-1]), 300)
    assert told["x/strong_violation"] == (pytest.approx(history.strong_violation[-1]), 300)


def test_the_adapter_for_weights_and_biases_has_a_run_for_every_run(adapters, tmp_path):
    made = []

    def start(**facts):
        run = SimpleNamespace(facts=facts, rows=[], code=None)
        run.log = lambda numbers, step: run.rows.append((step, numbers))
        run.finish = lambda exit_code: setattr(run, "code", exit_code)
        made.append(run)
        return run

    plain = {"name": "w", "episodes": 60, "seeds": [0, 1], "environments": [{"id": "media-v1"}]}
    spec = ExperimentSpec(**plain, learners=[{"id": "flexdome"}])
    store = Store(tmp_path)
    run_experiments([spec], store, watch=adapters.ToWandB(start, "p"), chunk_seconds=0.0)
    assert [run.code for run in made] == [0, 0]
    for run, asked in zip(made, spec.runs(), strict=True):
        gap = store.read(asked)["reward_gap"].to_numpy()
        assert run.rows[-1][0] == 60
        assert run.rows[-1][1]["strong_regret"] == pytest.approx(np.maximum(gap, 0.0).sum())
