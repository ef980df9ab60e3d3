"""The slips of a notebook: what UOpt-RPGPD's does other than its paper, with ``notebook_slips=True``.

The entropy of a state is averaged with pi^2, and it is added once more after the last step, as if it were earned there;
for that the transitions after the last step are counted (``work.last``). The family's kernels ask for these where
``settings.form.slips`` is set, and are compiled without them where it is not.
"""

import numpy as np

from flexdome.kernels.jit import kernel
from flexdome.learners.seen.kernels import n_allowed, row_of

__all__ = ["add_slip", "count_slip", "slip_after", "slipped_deviation", "slipped_entropy", "slipped_uniform_entropy"]


@kernel(inline="late")
def count_slip(core, settings, states, actions):
    """Count the transition after the last step of an episode whose other data are counted."""
    counts, work, H = core.counts, core.work, actions.size
    s, a = states[H - 1], actions[H - 1]
    if counts.n_visits[row_of(core, settings, H - 1, s, a)] == 1.0:
        work.last[s, a] = 0.0  # every state alike until now, where something is known
    work.last[s, a, states[H]] += 1.0


@kernel(inline="late")
def slipped_deviation(core, settings, row):
    """The sum of sqrt(p) over the successors after a row of the last step; 0 for other rows."""
    counts, work = core.counts, core.work
    total = 0.0
    if row // (settings.A * settings.C) + 1 == counts.n_cells.size:
        s, a = counts.state_of[counts.n_cells.size - 1, row % settings.C], row // settings.C % settings.A
        for following in range(settings.S):
            total += np.sqrt(work.last[s, a, following] * counts.inverse[row])
    return total


@kernel(inline="late")
def slipped_uniform_entropy(settings, h, s):
    """The entropy of a state never visited, averaged with pi^2."""
    n = settings.A
    if settings.masked:
        n = n_allowed(settings, h, s)
    return np.log(float(n)) / n


@kernel(inline="late")
def slipped_entropy(core, settings, h, cell):
    """The entropy of a cell of step h, averaged with pi^2."""
    policy = core.policy
    total = 0.0
    for a in range(settings.A):
        row = (h * settings.A + a) * settings.C + cell - h * settings.C
        total -= policy.pi[row] * policy.pi[row] * policy.logits[row]
    return total


@kernel(inline="late")
def slip_after(core, settings, tau, q):
    """``core.work.after``: the values after the last step, which should be zero; ``q`` receives their mean."""
    counts, work = core.counts, core.work
    h = counts.n_cells.size - 1
    total = 0.0
    for s in range(settings.S):
        c = np.int64(counts.cell_of[h, s]) - 1
        disorder = slipped_uniform_entropy(settings, h, s)
        if c >= 0:
            disorder = slipped_entropy(core, settings, h, h * settings.C + c)
        work.after[s] = tau * disorder
        total += work.after[s]
    q[0] = total / settings.S


@kernel(inline="late")
def add_slip(core, settings):
    """Add the expectation of ``core.work.after`` to the base of every listed row of the last step."""
    counts, work = core.counts, core.work
    h = counts.n_cells.size - 1
    first = h * settings.A * settings.C
    for k in range(first, first + counts.n_tried[h]):
        row = np.int64(counts.tried[k])
        s, a = counts.state_of[h, row % settings.C], row // settings.C % settings.A
        total = 0.0
        for following in range(settings.S):
            total += work.last[s, a, following] * work.after[following]
        work.base[row * settings.W] += total * counts.inverse[row]
