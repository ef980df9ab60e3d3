"""FlexDOME's episode: how fast, against what.

    python -m benchmarks.learning            the quick rows (about a minute)
    python -m benchmarks.learning --full     also large sparse models, memory and two workers (some minutes)

The C loop (plain_dense_loop.c, ``gcc -O3 -march=native -ffast-math``) does the same dense work and nothing else; its
row is skipped where there is no compiler. Ours includes drawing the random numbers, exact metrics and the history.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import flexdome as fd
from benchmarks.planning import numpy_evaluate
from benchmarks.timing import apart, human, machine, processor_seconds, row, seconds
from flexdome.learners.primal_dual.reference import NumpyFlexDOME

T = 80_000


def run(seed: int = 0, episodes: int = T, **options: Any) -> fd.CMDP:
    """One run at the paper's size, stochastic thresholds, exact metrics in every episode."""
    cmdp = fd.make_cmdp("paper-stochastic-v1", seed=0)
    learner = fd.FlexDOME(cmdp.problem(), episodes=episodes, **(options or {"margin_scale": 5e-5}))
    fd.simulate(learner, cmdp, seed=seed)
    return cmdp


def against_c() -> None:
    """The paper's size against the plain dense C loop: processor time, the least of ten interleaved runs each."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        print("plain dense C loop: skipped, no compiler")
        return
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "loop"
        source = Path(__file__).with_name("plain_dense_loop.c")
        command = [compiler, "-O3", "-march=native", "-ffast-math", str(source), "-o", str(program), "-lm"]
        subprocess.run(command, check=True)

        def c_loop() -> None:
            subprocess.run([str(program), "20", "5", "5", str(T)], capture_output=True, check=True)

        rows: tuple[tuple[str, dict[str, Any], str], ...] = (
            ("S=20 A=H=5", {}, ">= 1.2, aim 2"),
            ("practical tuning", {"tuning": "practical"}, "aim 1.5"),
        )
        for what, options, goal in rows:
            ours_alone = partial(run, **options)
            ours_alone()
            pairs = [[processor_seconds(c_loop), processor_seconds(ours_alone)] for _ in range(10)]
            reference, ours = np.min(pairs, axis=0) / T
            row(f"plain dense C loop / simulate, an episode, {what}", reference, ours, reference / ours, goal)


def against_numpy(episodes: int = 1500) -> None:
    """The same episode in vectorised NumPy: roll-out, exact metrics, learning."""
    cmdp = fd.make_cmdp("paper-stochastic-v1", seed=0)
    p, f, mu = cmdp.transitions, cmdp.model.f, cmdp.initial
    H, S, A = cmdp.horizon, cmdp.states, cmdp.actions
    sums = p.cumsum(axis=-1)

    def reference() -> None:
        twin = NumpyFlexDOME(cmdp.problem(), episodes=T, margin_scale=5e-5)
        rng = np.random.default_rng(0)
        start = int(np.argmax(mu))
        for _ in range(episodes):
            pi = twin.policy
            numpy_evaluate(p, f, mu, pi)
            chosen = pi.cumsum(axis=-1)
            states, actions = [start], []
            for h, (u, v) in enumerate(rng.random((H, 2))):
                s = states[-1]
                actions.append(min(int(np.searchsorted(chosen[h, s], u)), A - 1))
                states.append(min(int(np.searchsorted(sums[h, s, actions[-1]], v)), S - 1))
            h, s, a = np.arange(H), np.array(states), np.array(actions)
            sample = np.full((1, H), cmdp.thresholds[0].sample(rng.random((1, 1)))[0, 0])
            twin.observe(fd.Episode(s, a, f[0, h, s[:-1], a], f[1:, h, s[:-1], a], sample))

    pairs = np.array([(seconds(reference) / episodes, seconds(run) / T) for _ in range(3)])
    reference_time, ours = (float(x) for x in np.median(pairs, axis=0))
    ratio = float(np.median(pairs[:, 0] / pairs[:, 1]))
    row("vectorised NumPy / simulate, an episode, S=20 A=H=5", reference_time, ours, ratio, ">= 25")


def peers() -> None:
    """An episode of every primal-dual learner against one of FlexDOME, both with practical tuning.

    Like with like: an episode's cost follows the actions that were ever tried, and with the paper's own scales FlexDOME
    tries half of them.
    """
    cmdp = fd.make_cmdp("paper-stochastic-v1", seed=0)

    def spent(name: str, **options: object) -> float:
        learner = fd.make_learner(name, cmdp.problem(), episodes=T, **options)
        return seconds(lambda: fd.simulate(learner, cmdp)) / T

    spent("flexdome", tuning="practical")
    for name in ("optprimaldual", "uopt-rpgpd", "rpd-oe", "optpess-pd"):
        pairs = np.array([[spent(one, tuning="practical") for one in (name, "flexdome")] for _ in range(5)])
        theirs, ours = (float(x) for x in np.median(pairs, axis=0))
        row(f"{name} / FlexDOME, an episode", theirs, ours, float(np.median(pairs[:, 0] / pairs[:, 1])), "<= 1.5")


def proximal() -> None:
    """An episode of our own learners against one of FlexDOME, and ProxDOME on larger problems."""
    cmdp = fd.make_cmdp("paper-stochastic-v1", seed=0)

    def spent(name: str, cmdp: fd.CMDP, episodes: int = T) -> float:
        learner = fd.make_learner(name, cmdp.problem(), episodes=episodes)
        return seconds(lambda: fd.simulate(learner, cmdp)) / episodes

    for name in ("flexdome", "proxdome", "anchordome"):
        spent(name, cmdp, 10)
    for name, goal in (("proxdome", "<= 3"), ("anchordome", "")):
        pairs = np.array([(spent(name, cmdp), spent("flexdome", cmdp)) for _ in range(5)])
        theirs, ours = (float(x) for x in np.median(pairs, axis=0))
        row(f"{name} / FlexDOME, an episode", theirs, ours, float(np.median(pairs[:, 0] / pairs[:, 1])), goal)
    large = fd.make_cmdp("independent-v1", states=50, actions=5, horizon=10)
    fd.solve(large)
    whole = T * spent("proxdome", large)
    print(f"{'ProxDOME, 80,000 episodes at S=50 A=5 H=10':<66} {human(whole):>9}   < 20 s", flush=True)
    proximal_shared()


def proximal_shared(episodes: int = 250) -> None:
    """The first episodes of ProxDOME on a large stationary problem, exact metrics included: the least of three runs."""
    for m in (1, 2):
        large = fd.make_cmdp(
            "garnet-v1", states=500, actions=10, horizon=24, successors=4, stationary=True, constraints=m
        )
        fd.solve(large)

        def first(count: int, cmdp: fd.CMDP = large) -> float:
            learner = fd.ProxDOME(cmdp.problem(slater_gap=1.0))
            return processor_seconds(lambda: fd.simulate(learner, cmdp, count)) / count

        first(2)
        spent = min(first(episodes) for _ in range(3))
        what = f"ProxDOME, an episode, S=500 A=10 H=24 stationary, m={m}"
        print(f"{what:<66} {human(spent):>9}   < 10 ms", flush=True)


def compilation() -> None:
    """Processor time of the first run of a process: with an empty cache, and with a filled one."""
    code = (
        "import time, flexdome as fd\n"
        "c = fd.make_cmdp('paper-v1'); fd.solve(c); l = fd.FlexDOME(c.problem(), episodes=10)\n"
        "t = time.process_time(); fd.simulate(l, c); print(time.process_time() - t)"
    )
    with tempfile.TemporaryDirectory() as folder:
        for what, goal in (
            ("first simulate, empty cache (compiles)", "aim 10 s"),
            ("first simulate, filled cache", ""),
        ):
            env = {**os.environ, "NUMBA_CACHE_DIR": folder}
            done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
            print(f"{what:<66} {human(float(done.stdout)):>9}   {goal}", flush=True)


def large_dense(episodes: int = 1000) -> None:
    """S = 500, dense, exact metrics in every episode: the truth is 50 MB; beside it the episode without them."""
    cmdp = fd.make_cmdp("paper-v1", states=500)
    learner = fd.FlexDOME(cmdp.problem(slater_gap=1.0), episodes=100 * episodes)
    fd.simulate(learner, cmdp, episodes=episodes)  # every state is visited, and the CMDP is solved
    exact = seconds(lambda: fd.simulate(learner, cmdp, episodes=episodes)) / episodes
    plain = seconds(lambda: fd.simulate(learner, cmdp, episodes=episodes, evaluate_every=episodes)) / episodes
    row("exact metrics / learning alone, an episode, S=500 A=H=5 dense", exact, plain, exact / plain, "< 1 ms")


def visited_cost(episodes: int = 50_000) -> None:
    """Learning cost per episode and visited state-step, S = 5,000 against S = 500, sparse."""
    cost = []
    for S in (500, 5_000):
        cmdp = fd.make_cmdp("garnet-v1", states=S, actions=4, horizon=10, successors=5)
        fd.solve(cmdp)
        learner = fd.FlexDOME(cmdp.problem(), episodes=episodes)
        visited, start = 0.0, time.perf_counter()
        for _ in range(10):
            fd.simulate(learner, cmdp, episodes=episodes // 10, evaluate_every=10 * episodes)
            visited += float(learner.model.core.counts.n_cells.sum()) / 10
        per_episode = (time.perf_counter() - start) / episodes
        cost.append(per_episode / visited)
        print(
            f"  garnet S={S:,}: {human(per_episode)} an episode, {visited:,.0f} state-steps visited (mean), "
            f"{human(cost[-1])} each",
            flush=True,
        )
    row("learning per visited state-step, S=5,000 / S=500", cost[1], cost[0], cost[1] / cost[0], "<= 3")


def memory() -> None:
    """Learner and truth together at S = 20,000, in a process of its own."""
    code = (
        "import time, flexdome as fd\n"
        "from benchmarks.timing import peak_memory\n"
        "c = fd.make_cmdp('garnet-v1', states=20_000, actions=4, horizon=10, successors=5)\n"
        "l = fd.FlexDOME(c.problem(), episodes=50_000)\n"
        "t = time.perf_counter(); fd.simulate(l, c, episodes=10_000, evaluate_every=5_000)\n"
        "print(time.perf_counter() - t, l.model.core.counts.n_cells.sum(), peak_memory())"
    )
    spent, cells, peak = apart(code)
    print(
        f"S=20,000 A=4 H=10, 10,000 episodes in {spent:.0f} s, {cells:,.0f} state-steps visited: peak {peak:.0f} MB"
        "   < 1,000 MB",
        flush=True,
    )


def _job(seed: int) -> None:
    run(seed, 200_000)


def two_workers() -> None:
    """Eight runs of 200,000 episodes on two warmed workers against one."""
    spent = {}
    run(episodes=10)  # the parent compiles, the workers load
    for workers in (1, 2):
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            list(pool.map(_job, range(workers)))
            spent[workers] = seconds(lambda: list(pool.map(_job, range(8))))
    row("8 runs of 200,000 episodes, two workers / one", spent[2], spent[1], spent[2] / spent[1], "<= 0.55")


def main(full: bool | None = None) -> None:
    """Print the table."""
    if full is None:
        parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--full", action="store_true", help="also the rows that take minutes")
        full = bool(parser.parse_args().full)
    print(machine())
    print(f"{'':<66} {'reference':>9} {'ours':>9} {'ratio':>9}   goal")
    compilation()
    against_c()
    against_numpy()
    peers()
    proximal()
    large_dense()
    if full:
        two_workers()
        visited_cost()
        memory()


if __name__ == "__main__":
    main()
