"""What in the paper's proofs is not so, each with its number for a given problem.

A list to be read beside the audit: some slips change a constant, some a rate, one leaves a term out. None is about what
the algorithm does, which is measured elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from flexdome.audit.learned import Watched
from flexdome.audit.witness import drift_witness
from flexdome.cmdp.problem import Problem, as_problem
from flexdome.theory import (
    burn_in_episode,
    composite_bound,
    corrected_error_constant,
    dominance_episodes,
    dual_constant,
    dual_side,
    error_constant,
    initial_potential_bound,
    log_primal_constant,
    statistical_dominance_episode,
    step_weights,
    theorem1,
    uniform_threshold_width,
)

__all__ = ["Erratum", "errata"]

LOG10 = math.log(10.0)


@dataclass(frozen=True)
class Erratum:
    """A claim, where it stands, what is so instead, and by how much."""

    place: str
    claim: str
    instead: str
    number: str


def errata(problem: Problem, episodes: int, delta: float = 0.1, runs: Sequence[Watched] = ()) -> list[Erratum]:
    """All of them, for ``problem`` and T = ``episodes``; ``runs`` add what was measured."""
    S, A, H, m = as_problem(problem).states, problem.actions, problem.horizon, problem.constraints
    margin = theorem1(problem, delta).margin
    first = float(margin(1))  # type: ignore[operator]
    published, corrected = error_constant(problem), corrected_error_constant(problem)
    steps = [t ** (-5.0 / 6.0) for t in (1.0, float(episodes))]
    exponents = [eta * composite_bound(problem, eta**0.2) for eta in steps]
    logs = [log_primal_constant(problem, eta, eta**0.2) / LOG10 for eta in steps]
    ratio = [step_weights([j ** (-5 / 6), (j + 1) ** (-5 / 6)], [j ** (-1 / 6), (j + 1) ** (-1 / 6)]) for j in (1, 2)]
    burn_in = burn_in_episode(problem, delta)
    below = burn_in_episode(problem, delta, 0.5 * problem.slater_gap / H)  # of a margin of H
    seen = max((float(run.record.over_cap.max()) for run in runs), default=None)
    measured = "" if seen is None else f"; measured: {seen:.3g}"
    width = uniform_threshold_width(problem, 1000, episodes, delta)
    alone = dual_side(problem) * m * 2.0 * episodes * uniform_threshold_width(problem, episodes, episodes, delta)
    edge = (1.7**4 - 1.0) * math.log(4.0 * S * A * H / delta) / LOG10
    far = statistical_dominance_episode(problem, 100.0 * LOG10, delta) / LOG10
    spent = [x / LOG10 for x in dominance_episodes(problem)]
    witness = drift_witness(1e8)
    root = initial_potential_bound(problem)
    return [
        Erratum("appendix D, sum of delta_t", "C_B bounds reward, utilities, entropy and thresholds",
                "the entropy part (C) is bounded, without its log A, and not added",
                f"C_B is {published:,.0f}; with the entropy {corrected:,.0f}, {corrected / published:.3f} times it"),
        Erratum("Lemma 1", "C stands before the sum over j", "C depends on eta_j: each step has its own",
                f"exponent {exponents[0]:.1f} at t = 1, {exponents[1]:.2g} at t = {episodes:,}; "
                f"log10 C {logs[0]:.1f} and {logs[1]:.1f}"),
        Erratum("Lemma 1", "Phi_{t+1} is bounded by the step from Phi_t",
                "what is bounded is the distance to the saddle point of t, not of t + 1: the drift is missing",
                f"fails on a two-armed bandit, alpha = 0.1: at t = 1e8 by {witness.excess:.2g}, "
                f"{witness.excess / witness.error:.2g} times the error term"),
        Erratum("appendix D, Q-value bounds", "eta tau <= 1/2", "eta_t tau_t = 1 / t is 1 at t = 1",
                "one episode, whose policy is uniform: harmless"),
        Erratum("Lemma 1, D", "|V_d - eps - alpha| <= H", f"eps_1 is {first:,.0f}, H is {H}",
                f"eps_t > H until t = {float(below):.2g}; D_1 is {dual_constant(problem, 1.0):,.0f}, "
                f"with the margin {dual_constant(problem, 1.0, first):.2g}"),
        Erratum("Lemma 1, delta_t", "two definitions of delta_t", "Lemma 1's has no threshold term, appendix D's has",
                f"the missing part sums to at most {alone:,.0f} over {episodes:,} episodes"),
        Erratum("appendix D, after the Q-value bounds", "Q^_y <= H - h + 1 by definition",
                "its parts are truncated one by one; their weighted sum may reach 1 + 4mH/Xi + tau log A times that",
                f"up to {composite_bound(problem, 1.0) / H:.3g} times{measured}"),
        Erratum("appendix E, (c')", "the margin dominates the statistical error",
                "the margin has log t, the bound log T: dominance starts at a t_0 that grows as T^0.12",
                f"harmless up to T = 10^{edge:.1f}; at T = 10^100 t_0 = 10^{far:.1f}"),
        Erratum("appendix D, statistical error", "f_{t,j+1} / f_{t,j} > 1 for all j", "not at j = 1 and j = 2",
                "ratios " + " and ".join(f"{f[1] / f[0]:.3f}" for f in ratio)),
        Erratum("appendix E, (b')", "an arbitrarily small constant suffices", "with C_1 in it, but from when?",
                f"below half of what the margin has to spare from t = 10^{spent[1]:.0f} on; "
                f"C'' is 10^{math.log10(burn_in):.1f}"),
        Erratum("appendix D, statistical error", "the sum has sqrt(8 H^3 C_B) before it",
                "sqrt(2 H^3) times the sqrt(2 C_B) of the line above is sqrt(4 H^3 C_B)",
                f"a factor sqrt(2) too much; with it t_0 of (c') would grow as T^{(math.sqrt(8.0) / 3.4) ** 4:.2f}"),
        Erratum("proof of Lemma 2", "lambda* is inside the box", "the argument needs tau log A < 1",
                f"t > (log A)^6 = {math.log(A) ** 6:.3g}: long before C''"),
        Erratum("appendix F", "Phi_1 <= (H log A + (m/2)(4H/Xi)^2)^(1/2)", "the root belongs to sqrt(Phi_1)",
                f"Phi_1 <= {root:.4g}, not {math.sqrt(root):.3g}"),
        Erratum("appendix F", "sum_a pi exp(Q) Q^2 <= C", "exp(eta Q), as in appendix D", "a slip of the pen"),
        Erratum("appendix A and Section 5", "samples of the threshold are independent across steps and in [0, H]",
                "the experiment draws one normal number an episode, repeated at every step",
                f"H times fewer samples: the width at t = 1,000 is {math.sqrt(H) * width:.3g}, not {width:.3g}"),
    ]  # fmt: skip
