"""A safe policy that was given: with what weight the plan is played beside it, and what its own episodes say of it."""

import numpy as np

from flexdome.certificates.kernels import REFUTED, bernstein
from flexdome.kernels.jit import kernel
from flexdome.learners.proximal.noise_kernels import shrinkage

__all__ = [
    "bound_given",
    "note_given",
    "refuted_by",
    "total_of",
    "weigh_given",
]

BESIDE = 0.4  # of the margin, times what noise shrinks means by: taken off too, beside a safe policy that was given
FEW = 30  # episodes with samples of a threshold: before, only the safe policy that was given is played


@kernel(inline=True)
def total_of(utilities, i):
    """Sum of utility i over an episode."""
    total = 0.0
    for h in range(utilities.shape[1]):
        total += utilities[i, h]
    return total


@kernel(inline=True)
def bound_given(row, total, H, m):
    """Upper bound on a utility of the safe policy that was given, after one more episode of it with that total.

    1 - total / H has a lower confidence sequence (empirical Bernstein), so that its mean has an upper one.
    """
    return H * (1.0 - bernstein(row, 1.0 - min(max(total / H, 0.0), 1.0), np.log(m / REFUTED)))


@kernel
def refuted_by(own, choices, utilities):
    """Which promise one more episode of the safe policy that was given refutes, or -1. Nothing is taken of it."""
    m, work = choices.given.size, own.promise[0]
    for i in range(m):
        total = total_of(utilities, i)
        if not np.isnan(total):
            work[:] = own.promise[1 + i]
            if bound_given(work, total, float(utilities.shape[1]), m) < choices.given[i]:
                return i
    return -1


@kernel
def note_given(own, choices, utilities):
    """One more episode of the safe policy that was given."""
    m = choices.given.size
    for i in range(m):
        total = total_of(utilities, i)
        if not np.isnan(total):
            bound_given(own.promise[1 + i], total, float(utilities.shape[1]), m)


@kernel(inline=True)
def unseen_starts(core, settings):
    """The probability of first states that were never visited."""
    total = 0.0
    for k in range(settings.starts.size):
        total += settings.start_p[k] if core.counts.cell_of[0, settings.starts[k]] == 0 else 0.0
    return total


@kernel(inline=True)
def weigh_given(core, own, settings, choices, scene, tries):
    """With what probability the policy just judged may be played, and the safe policy that was given otherwise.

    The largest with which the mixture meets the thresholds if every utility is as small as it may be, and no smaller
    than 0: w low + (1 - w) v_0 >= alpha. As small as it may be is less than its margin allows: what follows an action
    never tried, or begins in a state never seen, counts as nothing, all that the plan may owe to lucky estimates is
    taken off, and of the margin more, as far as means had to be shrunk. ``tries`` are the first tries it expects.
    """
    dual, report, weight, H = own.dual, own.report, 1.0, core.counts.n_cells.size
    blind = tries + unseen_starts(core, settings) if choices.given.size > 0 else 0.0
    for i in range(choices.given.size):
        alpha = report.thresholds[i] + scene.z * choices.samples * np.sqrt(dual.error[i])
        more = blind * own.scales.middle[i] * H + (1.0 - choices.luck) * dual.luck[i]
        more += BESIDE * shrinkage(own, i) * report.margin[i]
        room, short = choices.given[i] - alpha, min(more - dual.g[i], alpha)
        few = np.isnan(settings.thresholds[i]) and core.counts.alpha_count[i] < FEW * H
        if few or room <= 0.0:
            weight = 0.0 if few or short > 0.0 else weight
        elif short > 0.0:
            weight = min(weight, room / (room + short))
    report.weight[0] = weight
