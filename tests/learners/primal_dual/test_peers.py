"""The primal-dual peers: against their slow twin, on hand-made problems, and by the public checker."""

import subprocess
import sys

import numpy as np
import pytest

import flexdome as fd
from flexdome.kernels.rollout import play
from flexdome.simulation.check import CheckError, small_cmdp
from flexdome.simulation.randomness import Randomness
from flexdome.simulation.runners import buffers_of
from naive_peers import TWINS
from runs import three_states

PEERS = ("optprimaldual", "uopt-rpgpd", "rpd-oe", "optpess-pd")


def cases():
    # A greedy plan breaks ties by the last bit, so optpess-pd is compared where there are none.
    for name in PEERS:
        for tuning in ("theory", "practical") if name != "optpess-pd" else ("practical",):
            for environment in ("paper-v1", "multi-v1", "bernoulli-v1", *(["river-v1"] * (name != "optpess-pd"))):
                yield pytest.param(name, {"tuning": tuning}, environment, id=f"{name}-{tuning}-{environment}")
    for name in ("optprimaldual", "rpd-oe", "optpess-pd"):
        for unvisited in ("paper", "optimistic"):
            options = {"tuning": "practical", "unvisited": unvisited}
            yield pytest.param(name, options, "independent-v1", id=f"{name}-{unvisited}")


@pytest.mark.parametrize(("name", "options", "environment"), list(cases()))
def test_every_peer_agrees_with_its_slow_twin(name, options, environment):
    cmdp = fd.make_cmdp(environment, seed=1)
    if name == "optprimaldual" and options["tuning"] == "practical":
        options = {**options, "dual_step": 3.0}  # the practical one, 100, grows rounding by as much in every episode
    T = 250
    learner = fd.make_learner(name, cmdp.problem(), episodes=T, **options)
    twin = TWINS[name](cmdp.problem(), episodes=T, **options)
    randomness = Randomness(cmdp, 5)
    uniforms, samples = randomness.uniforms(1, T), randomness.thresholds(1, T)
    buffers = buffers_of(cmdp)
    for t in range(T):
        play(learner.policy, tuple(cmdp.model), uniforms, t, buffers)
        arrays = (buffers.states, buffers.actions, buffers.rewards, buffers.utilities)
        thresholds = None if learner.problem.thresholds_known else samples[t]
        episode = fd.Episode(*(x.copy() for x in arrays), thresholds)
        learner.observe(episode)
        twin.observe(episode)
        np.testing.assert_allclose(learner.multipliers, twin.lam, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(learner.policy, np.exp(twin.log_pi), atol=1e-9)


@pytest.mark.parametrize("name", list(fd.LEARNERS))
def test_every_registered_learner_passes_the_checker(name):
    entry = fd.LEARNERS[name]
    cmdp, options = small_cmdp(), {}
    if name in ("suredome", "guard"):  # a sampled threshold keeps them with the safe policy for all of the check
        cmdp = fd.CMDP(cmdp.transitions, cmdp.rewards, cmdp.utilities, cmdp.alpha, cmdp.initial)
        options = {"safe_policy": fd.safe_policy(cmdp, 0.99 * fd.slater_gap(cmdp))}  # with room for draws
    sentences = fd.check_learner(entry.load(), cmdp, randomises=entry.randomises, **options)
    assert len(sentences) >= 9


@pytest.mark.parametrize("name", list(fd.LEARNERS))
def test_every_learner_says_whose_it_is_and_what_it_needs(name):
    entry = fd.LEARNERS[name]
    assert entry.citation
    assert entry.regret
    assert entry.violation
    assert entry.load().id == name
    assert sys.modules[entry.load().__module__].__doc__


def test_the_checker_names_what_a_broken_learner_does_wrong():
    class Broken(fd.FlexDOME):
        id = "broken"

        @property
        def policy(self):
            return 1.1 * super().policy

    with pytest.raises(CheckError, match="Every policy it plays, and every one it may draw, is a distribution"):
        fd.check_learner(Broken)


def test_the_checker_finds_a_learner_that_forgets():
    class Forgetful(fd.FlexDOME):
        id = "forgetful"

        def restore(self, state):
            pass

    with pytest.raises(CheckError, match="continues bit for bit"):
        fd.check_learner(Forgetful)


def test_the_checker_finds_a_learner_deaf_to_new_thresholds():
    class Deaf(fd.FlexDOME):
        id = "deaf"

        def thresholds_changed(self):
            pass

    class Silent(fd.FlexDOME):
        id = "silent"

        def set_thresholds(self, thresholds, slater_gap=None):
            super().set_thresholds(thresholds, slater_gap)
            self.threshold_changes.clear()

    with pytest.raises(CheckError, match=r"New thresholds are taken .* beliefs has the old thresholds"):
        fd.check_learner(Deaf)
    with pytest.raises(CheckError, match="the change is not recorded"):
        fd.check_learner(Silent)


def test_the_checker_holds_a_learner_to_what_it_says_of_its_seed():
    class Random(fd.FlexDOME):
        id = "random"

        def __init__(self, problem, **options):
            super().__init__(problem, **options)
            self.model.core.policy.lam[:] = np.random.default_rng(self.seed).random(problem.constraints)

    fd.check_learner(Random, randomises=True)
    with pytest.raises(CheckError, match="not said to randomise"):
        fd.check_learner(Random)
    with pytest.raises(CheckError, match="though it is said to randomise"):
        fd.check_learner(fd.FlexDOME, randomises=True)


def test_the_checker_finds_a_learner_that_holds_the_truth():
    class Cheat(fd.FlexDOME):
        id = "cheat"

        def __init__(self, problem, **options):
            super().__init__(problem, **options)
            self.secret = [fd.make_cmdp("media-v1")]

    with pytest.raises(CheckError, match="a CMDP is reachable"):
        fd.check_learner(Cheat)


@pytest.mark.parametrize("name", [*PEERS, "flexdome"])
def test_believed_widths_are_the_bonuses_in_use(name):
    cmdp = fd.make_cmdp("independent-v1")
    options = {} if name == "flexdome" else {"tuning": "theory"}
    learner = fd.make_learner(name, cmdp.problem(), episodes=200, **options)
    fd.simulate(learner, cmdp, episodes=100)
    twin = TWINS[name](cmdp.problem(), episodes=200, **options)
    twin.N = learner.beliefs().visits
    core, C = learner.model.core, learner.model.C
    for row in range(core.counts.n_visits.size):
        h, a, c = row // (5 * C), row // C % 5, row % C
        if c < core.counts.n_cells[h]:
            for k in range(core.counts.start[row], core.counts.start[row] + core.counts.length[row]):
                twin.N_next[
                    h, core.counts.state_of[h, c], a, core.counts.state_of[h + 1, core.counts.pool_cell[k] % C]
                ] = core.counts.pool_count[k]
    np.testing.assert_allclose(learner.beliefs().widths, twin.widths(), rtol=1e-9)


def test_a_subclass_with_an_observe_of_its_own_is_simulated_through_it():
    class Counting(fd.FlexDOME):
        id = "counting"
        calls = 0

        def observe(self, episode):
            self.calls += 1
            super().observe(episode)

    cmdp = fd.make_cmdp("media-v1")
    learner, plain = (cls(cmdp.problem(), episodes=20) for cls in (Counting, fd.FlexDOME))
    fd.simulate(learner, cmdp)
    fd.simulate(plain, cmdp)
    assert learner.calls == 20
    assert (learner.policy == plain.policy).all()


@pytest.mark.parametrize("name", PEERS)
def test_numbers_of_numpy_are_saved_like_any(name, tmp_path):
    problem = fd.make_cmdp("media-v1").problem()
    learner = fd.make_learner(name, problem, episodes=np.int64(50), seed=np.int64(3), delta=np.float32(0.1))
    learner.save(tmp_path / "learner")
    assert fd.load_learner(tmp_path / "learner").seed == 3


def test_the_dual_moves_even_if_the_policy_does_not():
    cmdp = fd.make_cmdp("tight-v1")
    learner = fd.make_learner(
        "optprimaldual", cmdp.problem(), episodes=50, policy_step=0.0, dual_step=0.5, bonus_scale=0
    )
    fd.simulate(learner, cmdp)
    assert learner.multipliers[0] > 0


def test_the_checker_looks_into_class_attributes_and_closures():
    truth = fd.make_cmdp("media-v1")

    class InClass(fd.FlexDOME):
        id = "in-class"
        table = truth

    class InClosure(fd.FlexDOME):
        id = "in-closure"

        def peek(self):
            return truth

    for cheat in (InClass, InClosure):
        with pytest.raises(CheckError, match="a CMDP is reachable"):
            fd.check_learner(cheat)


def test_the_checker_finds_a_learner_that_takes_a_bad_log():
    class Credulous(fd.FlexDOME):
        id = "credulous"

        def preload(self, episodes):
            for episode in episodes:
                super().preload([episode])

    with pytest.raises(CheckError, match=r"left a trace|changed the learner"):
        fd.check_learner(Credulous)


def test_the_checker_reports_any_exception_as_a_broken_rule():
    class Raising(fd.FlexDOME):
        id = "raising"

        def observe(self, episode):
            raise KeyError("oops")

    with pytest.raises(CheckError, match="KeyError was raised"):
        fd.check_learner(Raising)


@pytest.mark.parametrize(
    ("id", "options", "message"),
    [
        (["x"], {}, "must be a name"),
        ("flexdom", {}, "did you mean flexdome"),
        ("rpd-oe", {"etta": 1}, "unknown option"),
    ],
)
def test_unknown_learners_and_options_are_refused(id, options, message):
    with pytest.raises(fd.ValidationError, match=message):
        fd.make_learner(id, fd.make_cmdp("media-v1").problem(), **options)


def test_what_is_not_a_learner_is_refused():
    with pytest.raises(fd.ValidationError, match="subclass of flexdome"):
        fd.check_learner(fd.CMDP)


@pytest.mark.slow
def test_without_regularisation_the_oscillator_oscillates_and_with_it_settles():
    # Two states, reward and constraint the same value: the last 2,000 episodes of the unregularised method still
    # swing by a third of H, those of the regularised ones stay within a tenth.
    cmdp = fd.make_cmdp("oscillator-v1", horizon=5)
    problem = cmdp.problem(reveal=("rewards", "utilities"))
    T = 20_000

    def swing(learner):
        return float(np.ptp(fd.simulate(learner, cmdp, seed=0).reward_gap[-2000:]))

    vanilla = fd.make_learner(
        "optprimaldual", problem, episodes=T, tuning="practical", policy_step=0.1, dual_step=0.1, bonus_scale=1e-4
    )
    assert swing(vanilla) > 5 / 3
    for name in ("uopt-rpgpd", "rpd-oe"):
        assert swing(fd.make_learner(name, problem, episodes=T, tuning="practical")) < 0.5
    assert swing(fd.FlexDOME(problem, episodes=T)) < 0.5


def test_the_three_state_problem_is_solved_by_hand():
    best = fd.solve(three_states())
    assert best.value == pytest.approx(0.6, abs=1e-12)
    assert best.multipliers[0] == pytest.approx(1.0, abs=1e-9)
    assert best.policy[0, 0].tolist() == pytest.approx([0.6, 0.4], abs=1e-12)


@pytest.mark.parametrize("name", ["uopt-rpgpd", "rpd-oe", "flexdome"])
def test_regularised_learners_come_as_near_the_optimum_as_their_regularisation_lets_them(name):
    cmdp = three_states()
    options = {} if name == "flexdome" else {"tuning": "practical"}
    learner = fd.make_learner(name, cmdp.problem(), episodes=20_000, **options)
    history = fd.simulate(learner, cmdp, seed=0)
    _, tau, eps = learner.schedule(20_000, 1)
    point = fd.saddle_point(cmdp, float(tau[0]), margin=float(eps[0, 0]))
    assert history.violation[0, -1] == pytest.approx(0.4 - point.utilities[0], abs=0.03)
    assert history.reward_gap[-1] == pytest.approx(0.6 - point.reward, abs=0.03)
    assert point.multipliers[0] == pytest.approx(history.multipliers[0, -1], abs=0.05)


@pytest.mark.parametrize("name", ["optprimaldual", "optpess-pd"])
def test_unregularised_learners_come_near_the_optimum_on_average(name):
    cmdp = three_states()
    learner = fd.make_learner(name, cmdp.problem(), episodes=20_000, tuning="practical")
    history = fd.simulate(learner, cmdp, seed=0)
    assert abs(history.reward_gap[-10_000:].mean()) < 0.1
    assert history.violation[0, -10_000:].mean() < 0.1


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("optprimaldual", {"tuning": "best"}, "tuning is 'best'"),
        ("optprimaldual", {"policy_step": -1.0}, "policy_step"),
        ("rpd-oe", {"unvisited": "maybe"}, "unvisited is 'maybe'"),
        ("uopt-rpgpd", {"delta": 0.0}, "delta is 0"),
        ("optpess-pd", {"episodes": 0}, "episodes is 0"),
    ],
)
def test_bad_options_are_refused(name, options, message):
    problem = fd.make_cmdp("media-v1").problem()
    with pytest.raises(fd.ValidationError, match=message):
        fd.make_learner(name, problem, **options)


def test_theory_and_practice_are_different_numbers_and_an_option_overrides_both():
    problem = fd.make_cmdp("paper-v1").problem()
    theory, practical = (
        fd.make_learner("optprimaldual", problem, tuning=tuning).options() for tuning in ("theory", "practical")
    )
    assert 5e-5 < theory["policy_step"] < 5e-4  # about 1e-4 at T = 80,000: it hardly moves
    assert practical["policy_step"] > 10 * theory["policy_step"]
    mine = fd.make_learner("optprimaldual", problem, tuning="practical", policy_step=0.02)
    assert mine.options()["policy_step"] == 0.02


def test_learners_of_other_packages_are_found_by_their_entry_points(tmp_path):
    from pathlib import Path

    packages = [Path(__file__).parents[3] / "examples" / name for name in ("uniform_learner", "lagrangian_q")]
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    done = subprocess.run(
        [*install, "--disable-pip-version-check", "--target", str(tmp_path), *map(str, packages)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import flexdome as fd\n"
        "from flexdome.simulation.runners import runner_of\n"
        "cmdp = fd.make_cmdp('media-v1')\n"
        "for id in ('uniform', 'lagrangian-q'):\n"
        "    learner = fd.make_learner(id, cmdp.problem(), episodes=50)\n"
        "    fd.simulate(learner, cmdp)\n"
        "    learner.save(sys.argv[1]); again = fd.load_learner(sys.argv[1])\n"
        "    checked = len(fd.check_learner(fd.LEARNERS[id].load()))\n"
        "    print(checked, again.episode, id in list(fd.LEARNERS), runner_of(learner).__name__)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "learner.npz")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["12", "50", "True", "Observed", "12", "50", "True", "QRunner"]
