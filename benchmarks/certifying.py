"""The monitor's episode, a certificate, and an episode of the learners that are never unsafe: how fast.

    python -m benchmarks.certifying

Medians of thirty repeats after the kernels are compiled, on instance 0 of paper-v1 (S=20, A=H=5) unless said otherwise.
"""

from __future__ import annotations

import numpy as np

import flexdome as fd
from benchmarks.timing import human, machine, seconds
from flexdome.certificates import LowerSequence

REPEATS = 30


def shown(what: str, spent: list[float], goal: str) -> None:
    """Print one line of the table."""
    print(f"{what:<66} {human(float(np.median(spent))):>9}   {goal}", flush=True)


def monitor(family: str, n: int = 2_000) -> None:
    """An episode through ``Monitor.observe``."""
    cmdp = fd.make_cmdp(family)
    policy = fd.safe_policy(cmdp, 0.02).policy
    log = fd.play(policy, cmdp, n)
    episodes = [fd.Episode(log.states[k], log.actions[k], log.observed[k, 0], log.observed[k, 1:]) for k in range(n)]
    watch = fd.Monitor(cmdp.problem())

    def run() -> None:
        watch.reset()
        for episode in episodes:
            watch.observe(episode)

    run()
    shown(
        f"monitor, an episode, {family} (m={cmdp.constraints})", [seconds(run) / n for _ in range(REPEATS)], "< 20 µs"
    )


def certificates() -> None:
    """A certificate by each method."""
    cmdp = fd.make_cmdp("paper-v1")
    policy = fd.safe_policy(cmdp, 0.5).policy
    other = 0.5 * policy + 0.5 / cmdp.actions
    problem = cmdp.problem()
    for method, n, goal in (
        ("episodes", 1_000, "< 1 ms"),
        ("reweighted", 1_000, "< 1 ms"),
        ("model", 1_000, ""),
        ("episodes", 10_000, ""),
    ):
        log = fd.play(policy if method == "episodes" else other, cmdp, n)
        by = other if method == "reweighted" else None

        def run(method=method, log=log, by=by) -> None:  # type: ignore[no-untyped-def]
            fd.certify(policy, problem, log, played_by=by, method=method)

        run()
        shown(f"certificate, {n:,} episodes, method '{method}'", [seconds(run) for _ in range(REPEATS)], goal)
    learner = fd.FlexDOME(problem, episodes=2_000)
    fd.simulate(learner, cmdp)
    learner.certify()
    spent = [seconds(learner.certify) for _ in range(REPEATS)]
    shown("certificate, what a learner has seen in 2,000 episodes", spent, "")


def sequences(n: int = 10_000) -> None:
    """One observation of a compiled sequence, one side."""
    xs = np.random.default_rng(0).beta(4, 4, n)
    for method in ("bernstein", "betting"):

        def run(method=method) -> None:  # type: ignore[no-untyped-def]
            LowerSequence(0.05, method).extend(xs)

        run()
        shown(f"lower sequence, an observation, {method}", [seconds(run) / n for _ in range(REPEATS)], "")


def learners(episodes: int = 20_000) -> None:
    """An episode of each learner that starts from a safe policy, as ``simulate`` runs it, against ProxDOME's."""
    cmdp = fd.make_cmdp("paper-v1")
    problem, safe = cmdp.problem(), fd.safe_policy(cmdp, 0.5 * fd.slater_gap(cmdp))
    made = {
        "ProxDOME": lambda n: fd.ProxDOME(problem, episodes=n),
        "ProxDOME, from a safe policy": lambda n: fd.ProxDOME(problem, episodes=n, safe_policy=safe),
        "SureDOME": lambda n: fd.SureDOME(problem, episodes=n, safe_policy=safe),
        "ProxDOME, guarded": lambda n: fd.Guard(fd.ProxDOME(problem, episodes=n), safe),
    }
    goals = {"ProxDOME, from a safe policy": "< 1.5 times"}
    plain = None
    for name, make in made.items():
        fd.simulate(make(50), cmdp)
        learner = make(episodes)
        spent = seconds(lambda learner=learner: fd.simulate(learner, cmdp)) / episodes  # type: ignore[misc]
        plain = spent if plain is None else plain
        shown(f"an episode of {name}: {spent / plain:.2f} times ProxDOME's", [spent], goals.get(name, ""))


def main(full: bool | None = None) -> None:
    """Print the table."""
    print(machine())
    learners()
    monitor("paper-v1")
    monitor("multi-v1")
    certificates()
    sequences()


if __name__ == "__main__":
    main()
