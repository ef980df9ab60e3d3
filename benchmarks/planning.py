"""The truth of a known model: how fast, against what.

    python -m benchmarks.planning            the quick rows
    python -m benchmarks.planning --full     also the occupancy program at S=100 (minutes) and S=500

Rows are ratios measured in one run. The occupancy program is scipy's HiGHS on the same instance, and both must
find the same optimum.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array

import flexdome as fd
from benchmarks.timing import apart, human, machine, paired, peak_memory, row, seconds
from flexdome.cmdp.model import NO_SUCCESSORS, Model
from flexdome.families.random import between
from flexdome.planning.decomposition import Oracle, best_mixture
from flexdome.planning.lp import flow_matrix


def dense_model(S: int, A: int, H: int, m: int, seed: int = 0) -> tuple[Model, np.ndarray]:
    """Dirichlet(0.1) rows, independent reward and utilities, thresholds 0.7 of the way."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(S, 0.1), size=(H, S, A))
    model = Model(p, NO_SUCCESSORS, rng.random((1 + m, H, S, A)), np.eye(S)[0])
    return model, between(model, 0.7)


def scipy_program(model: Model, alpha: np.ndarray) -> float:
    """The occupancy-measure program by scipy's HiGHS."""
    n_f, H, S, _A = model.f.shape
    answer = linprog(
        -model.f[0].ravel(),
        A_ub=csr_array(-model.f[1:].reshape(n_f - 1, -1)),
        b_ub=-alpha,
        A_eq=flow_matrix(model),
        b_eq=np.concatenate([model.mu, np.zeros((H - 1) * S)]),
        method="highs",
    )
    return float(-answer.fun)


def against_highs(S: int, A: int, H: int, m: int, goal: str) -> None:
    """The decomposition (with its Slater gap) against the occupancy program."""
    model, alpha = dense_model(S, A, H, m)
    best, _ = best_mixture(model, alpha)
    ours = float(np.median([seconds(lambda: best_mixture(model, alpha)) for _ in range(5)]))
    values: list[float] = []
    reference = seconds(lambda: values.append(scipy_program(model, alpha)))
    assert best is not None
    assert abs(values[0] - best.value) < 1e-6, (values, best.value)
    row(f"HiGHS / decomposition, S={S} A={A} H={H} m={m}", reference, ours, reference / ours, goal)


def against_one_pass(S: int, A: int, H: int, m: int, goal: str) -> None:
    """The decomposition in units of one unconstrained backward induction on the same arrays."""
    model, alpha = dense_model(S, A, H, m)
    weights = np.append(1.0, np.zeros(m))
    oracle = Oracle(model)
    oracle.price(weights, cheap=False)
    best_mixture(model, alpha)
    solve, one, ratio = paired(lambda: best_mixture(model, alpha), lambda: oracle.price(weights, cheap=False), 5)
    row(f"decomposition / backward induction, S={S} A={A} H={H} m={m} dense", solve, one, ratio, goal)


def numpy_evaluate(p: np.ndarray, f: np.ndarray, mu: np.ndarray, pi: np.ndarray) -> np.ndarray:
    """One policy's values by vectorised NumPy: the forward pass, one einsum a step."""
    values = np.zeros(f.shape[0])
    q = mu
    for h in range(pi.shape[0]):
        x = q[:, None] * pi[h]
        values += np.einsum("jsa,sa->j", f[:, h], x)
        q = np.einsum("sa,sat->t", x, p[h])
    return values


def batch_evaluation() -> None:
    """Exact evaluation of many policies at the paper's size."""
    cmdp = fd.make_cmdp("paper-v1")
    policies = np.random.default_rng(0).dirichlet(np.ones(5), size=(2000, 5, 20))
    p, f, mu = cmdp.transitions, cmdp.model.f, cmdp.initial
    answer = fd.evaluate(cmdp, policies)
    ours = np.column_stack([answer.value, answer.utilities])
    theirs = np.array([numpy_evaluate(p, f, mu, pi) for pi in policies])
    assert np.allclose(ours, theirs, atol=1e-12)
    n = len(policies)
    reference, fast, ratio = paired(
        lambda: [numpy_evaluate(p, f, mu, pi) for pi in policies],
        lambda: fd.evaluate(cmdp, policies),
        7,
    )
    row("NumPy / evaluation of a batch, per policy, S=20 A=H=5", reference / n, fast / n, ratio, ">= 12")

    def batched() -> np.ndarray:
        values = np.zeros((n, f.shape[0]))
        q = np.broadcast_to(mu, (n, mu.size))
        for h in range(5):
            x = (q[:, :, None] * policies[:, h]).reshape(n, -1)
            values += x @ f[:, h].reshape(f.shape[0], -1).T
            q = x @ p[h].reshape(-1, mu.size)
        return values

    assert np.allclose(ours, batched(), atol=1e-12)
    reference, fast, ratio = paired(batched, lambda: fd.evaluate(cmdp, policies), 7)
    row("NumPy batched through BLAS / the same", reference / n, fast / n, ratio, "(reported)")


def large_sparse() -> None:
    """S = 20,000 with five successors: seconds and megabytes, in a process of its own."""
    code = (
        "import time, flexdome as fd\n"
        "from benchmarks.timing import peak_memory\n"
        "fd.solve(fd.make_cmdp('garnet-v1', states=50))\n"
        "t = time.perf_counter()\n"
        "c = fd.make_cmdp('garnet-v1', states=20_000, actions=4, horizon=20, successors=5)\n"
        "b = time.perf_counter(); s = fd.solve(c); e = time.perf_counter()\n"
        "print(b - t, e - b, peak_memory(), s.duality_gap)\n"
    )
    build, solve, memory, gap = apart(code)
    print(
        f"S=20,000 A=4 H=20, 5 successors: build {build:.2f} s, solve {solve:.2f} s, gap {gap:.0e}, "
        f"peak {memory:.0f} MB   (goal: seconds, a few hundred MB)"
    )


def start_up() -> None:
    """Import and help, in fresh processes."""
    for what, command, goal in (
        ("import flexdome", [sys.executable, "-c", "import flexdome"], "< 0.5 s"),
        ("flexdome --help", [sys.executable, "-m", "flexdome", "--help"], "< 1 s"),
    ):
        run = lambda: subprocess.run(command, capture_output=True, check=True)  # noqa: B023, E731
        print(f"{what:<66} {human(float(np.median([seconds(run) for _ in range(5)]))):>9}   {goal}")


def main(full: bool | None = None) -> None:
    """Print the table."""
    if full is None:
        parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--full", action="store_true", help="also the rows that take minutes")
        full = bool(parser.parse_args().full)
    print(machine())
    print(f"{'':<66} {'reference':>9} {'ours':>9} {'ratio':>9}   goal")
    start_up()
    batch_evaluation()
    against_highs(30, 5, 10, 1, "(reported)")
    against_highs(30, 5, 10, 3, "(reported)")
    large_sparse()
    if full:
        against_highs(100, 10, 20, 1, ">= 300")
        against_highs(100, 10, 20, 3, ">= 50")
        against_one_pass(500, 10, 20, 1, "<= 20")
        against_one_pass(500, 10, 20, 3, "<= 80")
    print(f"peak memory of this process {peak_memory():.0f} MB")


if __name__ == "__main__":
    main()
