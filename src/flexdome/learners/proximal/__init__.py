"""ProxDOME: exact soft planning under optimism, multipliers solved for under pessimism."""

from flexdome.learners.registry import UNCLAIMED, Entry

__all__ = ["ROWS"]

ROWS = (
    Entry(
        id="proxdome",
        target="flexdome.learners.proximal.proxdome:ProxDOME",
        version=7,
        changes=(
            "variances shrunk towards those of the step, and a margin of 1.3",
            "multipliers that are short are raised where no dual trial is shown safe",
            "no heat, measured units, one ceiling for all multipliers, luck in the margin, a safe policy kept",
            "means shrunk by their noise, units of the means; where observations are noisy a cautious plan is mixed in",
            "half the bonus where observations are noisy; the sums of its own episodes are counted",
            "at a jump of the multipliers the plan beyond it is mixed in, as far as it can be shown safe; mixtures of "
            "whole episodes; multipliers that stop at 0, and begin there again; more care beside a safe policy, and "
            "after a log, where what was tried is played",
        ),
        summary="exact soft planning under optimism, multipliers solved for under pessimism; ours",
        citation="this library; no theorem",
        regret=UNCLAIMED,
        violation=UNCLAIMED,
    ),
)
