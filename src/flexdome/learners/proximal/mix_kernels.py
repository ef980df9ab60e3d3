"""Two policies in one: in every state, or as if one of them were drawn for the whole episode."""

import numpy as np

from flexdome.kernels.jit import kernel

__all__ = ["copy_rows", "mix_by_reach", "mix_by_state"]

NOWHERE = 1e-12  # occupancy of a state to which neither of two policies comes


@kernel
def copy_rows(core, settings, source, target):
    """The numbers of the visited states: log-probabilities, or occupancies."""
    A, C = settings.A, settings.C
    for h in range(core.counts.n_cells.size):
        for a in range(A):
            first = (h * A + a) * C
            for k in range(first, first + core.counts.n_cells[h]):
                target[k] = source[k]


@kernel
def mix_by_state(core, own, settings, share):
    """``core.policy.logits``: in every state the plan with probability ``share``, else the policy that is kept."""
    A, C = settings.A, settings.C
    for h in range(core.counts.n_cells.size):
        for a in range(A):
            first = (h * A + a) * C
            for k in range(first, first + core.counts.n_cells[h]):
                both = (1.0 - share) * np.exp(own.kept[k]) + share * np.exp(own.hope[k])
                core.policy.logits[k] = np.log(max(both, 1e-300))


@kernel
def mix_by_reach(core, own, settings, share):
    """``core.policy.logits``: what plays the plan in a ``share`` of the episodes does, else the policy that is kept.

    Its occupancies are the mixture of theirs, which are in ``reach`` and ``beyond``: Altman's lemma. Where neither
    comes, both are mixed in the state.
    """
    A, C = settings.A, settings.C
    for h in range(core.counts.n_cells.size):
        for c in range(core.counts.n_cells[h]):
            total = 0.0
            for k in range(h * A * C + c, (h + 1) * A * C, C):
                total += (1.0 - share) * own.reach[k] + share * own.beyond[k]
            for k in range(h * A * C + c, (h + 1) * A * C, C):
                if total > NOWHERE:
                    both = ((1.0 - share) * own.reach[k] + share * own.beyond[k]) / total
                else:
                    both = (1.0 - share) * np.exp(own.kept[k]) + share * np.exp(own.hope[k])
                core.policy.logits[k] = np.log(max(both, 1e-300))
