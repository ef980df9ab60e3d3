"""Online learners, one file for each algorithm, over a shared optimistic model.

The registry holds names only; a learner's module is imported when it is asked for.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from typing import Any

from flexdome.cmdp import Problem
from flexdome.cmdp.validation import shown
from flexdome.errors import ValidationError, unknown_name
from flexdome.learners.base import Beliefs, Learner
from flexdome.learners.files import read_learner
from flexdome.learners.registry import UNCLAIMED, Entry, Registry

__all__ = ["LEARNERS", "Beliefs", "Entry", "Learner", "load_learner", "make_learner"]

_ROWS = (
    Entry(
        id="flexdome",
        target="flexdome.learners.primal_dual.flexdome:FlexDOME",
        version=2,
        summary="decaying safety margin and time-varying regularisation",
        citation="Zuo, Wang and He 2026, arXiv 2602.10917",
        regret="T^(5/6), strong",
        violation="near-constant, strong",
        needs=("Slater gap",),
        last_iterate=True,
    ),
    Entry(
        id="optprimaldual",
        target="flexdome.learners.primal_dual.optprimaldual:OptPrimalDual",
        version=2,
        summary="unregularised primal-dual, the paper's Vanilla PD",
        citation="Efroni, Mannor and Pirotta 2020, arXiv 2003.02189",
        regret="sqrt(T), weak",
        violation="sqrt(T), weak",
        needs=("Slater gap", "known thresholds"),
        reconstructed=("bonus of the reward", "rho", "policy of the dual step"),
    ),
    Entry(
        id="uopt-rpgpd",
        target="flexdome.learners.primal_dual.uopt_rpgpd:UOptRPGPD",
        version=1,
        summary="decaying regularisation with a uniform-PAC bonus",
        citation="Kitamura et al. 2024, arXiv 2401.17780",
        regret="T^(6/7), strong",
        violation="T^(6/7), strong",
        needs=("known thresholds",),
        reconstructed=("exponents of the theorem", "factor H of the bonus", "bound on the multipliers"),
        last_iterate=True,
    ),
    Entry(
        id="rpd-oe",
        target="flexdome.learners.primal_dual.rpd_oe:RPDOE",
        version=1,
        summary="constant regularisation, no margin",
        citation="Müller, Alatur, Cevher, Ramponi and He 2024, arXiv 2402.15776",
        regret="T^0.93, strong",
        violation="T^0.93, strong",
        needs=("Slater gap", "known thresholds"),
        reconstructed=("exponents of the schedules", "bonus", "dual box"),
        last_iterate=True,
    ),
    Entry(
        id="optpess-pd",
        target="flexdome.learners.primal_dual.optpess_pd:OptPessPrimalDual",
        version=1,
        summary="optimistic planning with a pessimistic queue",
        citation="Liu, Zhou, Kalathil, Kumar and Tian 2021, arXiv 2106.02684",
        regret="sqrt(T), weak",
        violation="near-constant, weak",
        needs=("Slater gap", "known thresholds"),
        reconstructed=("every constant", "the bonus"),
    ),
    Entry(
        id="optcmdp-bonus",
        target="flexdome.learners.programs.optcmdp_bonus:OptCMDPBonus",
        version=1,
        summary="optimistic occupancy program with bonuses",
        citation="Efroni, Mannor and Pirotta 2020, arXiv 2003.02189",
        regret="sqrt(T), strong",
        violation="sqrt(T), strong",
        needs=("known thresholds",),
        reconstructed=("bonus of the reward",),
        replanning="program of S A H variables",
    ),
    Entry(
        id="optpess-lp",
        target="flexdome.learners.programs.optpess_lp:OptPessLP",
        version=1,
        summary="optimistic reward, pessimistic costs, from a known safe policy",
        citation="Liu, Zhou, Kalathil, Kumar and Tian 2021, arXiv 2106.02684",
        regret="sqrt(T), strong",
        violation="zero, strong",
        needs=("safe policy", "known thresholds"),
        reconstructed=("several constraints",),
        replanning="program of S A H variables",
    ),
    Entry(
        id="optdual",
        target="flexdome.learners.programs.optdual:OptDual",
        version=1,
        summary="dual steps and extended value iteration",
        citation="Efroni, Mannor and Pirotta 2020, arXiv 2003.02189",
        regret="sqrt(T), weak",
        violation="sqrt(T), weak",
        needs=("Slater gap", "known thresholds"),
        reconstructed=("bonus of the reward", "rho"),
        replanning="one pass over S^2 A H",
    ),
    Entry(
        id="optcmdp",
        target="flexdome.learners.programs.optcmdp:OptCMDP",
        version=1,
        summary="optimistic program over a confidence set of models",
        citation="Efroni, Mannor and Pirotta 2020, arXiv 2003.02189",
        regret="sqrt(T), strong",
        violation="sqrt(T), strong",
        needs=("known thresholds",),
        reconstructed=("bonus of the reward",),
        replanning="program of S^2 A H variables",
    ),
    Entry(
        id="dope",
        target="flexdome.learners.programs.dope:DOPE",
        version=1,
        summary="optimistic reward and model, pessimistic costs, from a known safe policy",
        citation="Bura, HasanzadeZonuzy, Kalathil, Shakkottai and Chamberland 2022, arXiv 2112.00885",
        regret="sqrt(T), strong",
        violation="zero, strong",
        needs=("safe policy", "known thresholds"),
        reconstructed=("bonus of the reward", "length of the first phase", "several constraints"),
        replanning="program of S^2 A H variables",
    ),
    Entry(
        id="optaug",
        target="flexdome.learners.programs.optaug:OptAug",
        version=1,
        summary="augmented Lagrangian over a confidence set of models",
        citation="Müller, Alatur, Ramponi and He 2023, arXiv 2306.07001",
        regret="sqrt(T), strong",
        violation="sqrt(T), strong",
        needs=("safe policy", "Slater gap", "known thresholds"),
        reconstructed=("the program", "penalty", "use of the safe policy", "bonus of the reward"),
        replanning="quadratic program of S^2 A H variables",
    ),
    Entry(
        id="sv-ops",
        target="flexdome.learners.programs.sv_ops:SVOPS",
        version=2,  # one exact projection for a step, and a cost of -1 where nothing was seen
        summary="mirror descent on optimistically safe occupancies",
        citation="Stradi, Castiglioni, Marchesi and Gatti 2025, arXiv 2403.03672",
        regret="sublinear, weak",
        violation="sublinear, strong",
        needs=("known thresholds",),
        reconstructed=("every step, from S-OPS",),
        replanning="KL projection, S^2 A H variables",
    ),
    Entry(
        id="s-ops",
        target="flexdome.learners.programs.s_ops:SOPS",
        version=2,  # as SV-OPS's
        summary="mirror descent, mixed with a known safe policy",
        citation="Stradi, Castiglioni, Marchesi and Gatti 2025, arXiv 2403.03672",
        regret="sqrt(T), weak",
        violation="zero, strong",
        needs=("safe policy", "known thresholds"),
        reconstructed=("occupancy bound of the mixture",),
        randomises=True,
        replanning="KL projection, S^2 A H variables",
    ),
    Entry(
        id="cpd-po",
        target="flexdome.learners.programs.cpd_po:CPDPO",
        version=2,  # a cost of -1 where nothing was seen
        summary="policy optimisation with dilated bonuses and a binary dual",
        citation="Stradi, Castiglioni, Marchesi and Gatti 2025, arXiv 2410.02275",
        regret="sqrt(T), strong",
        violation="sqrt(T), strong",
        needs=("exact Slater gap", "known thresholds"),
        reconstructed=("the dual's bound", "the loss", "every constant", "epochs"),
        replanning="2 H S passes over S^2 A H",
    ),
    Entry(
        id="omdpd",
        target="flexdome.learners.programs.omdpd:OMDPD",
        version=2,  # exact steps, whatever their length
        summary="optimistic mirror descent on an exponential penalty",
        citation="Zhu, Yu, Lee, Liu and Wei 2025, arXiv 2505.21841",
        regret="sqrt(T), strong",
        violation="sqrt(T), strong",
        needs=("known thresholds",),
        reconstructed=("divergence", "step size", "scale and growth", "order of the steps"),
        replanning="two KL projections, S^2 A H variables",
    ),
    Entry(
        id="proxdome",
        target="flexdome.learners.proximal.proxdome:ProxDOME",
        version=3,
        summary="exact soft planning under optimism, multipliers solved for under pessimism; ours",
        citation="this library; no theorem",
        regret=UNCLAIMED,
        violation=UNCLAIMED,
    ),
    Entry(
        id="anchordome",
        target="flexdome.learners.primal_dual.anchordome:AnchorDOME",
        version=1,
        summary="one mirror step an episode towards a moving anchor, ProxDOME's one-step relative; ours",
        citation="this library; no theorem",
        regret=UNCLAIMED,
        violation=UNCLAIMED,
        needs=("Slater gap",),
    ),
)

LEARNERS: Mapping[str, Entry] = Registry(_ROWS)


def make_learner(id: str, problem: Problem, **options: Any) -> Learner:
    """Build the registered learner ``id`` for ``problem``.

    >>> import flexdome as fd
    >>> problem = fd.make_cmdp("media-v1").problem()
    >>> fd.make_learner("flexdome", problem, episodes=1000, margin_scale=5e-5).episode
    0
    """
    if not isinstance(id, str):
        raise ValidationError(f"learner is {shown(id)}; it must be a name such as 'flexdome'")
    if id not in LEARNERS:
        raise unknown_name("learner", id, LEARNERS)
    learner = LEARNERS[id].load()
    known = [name for name in inspect.signature(learner).parameters if name != "problem"]
    for name in options:
        if name not in known:
            raise unknown_name(f"option of {id}", name, known)
    return learner(problem, **options)


def load_learner(path: str | os.PathLike[str]) -> Learner:
    """Read a learner that :meth:`Learner.save` wrote; it continues bit for bit where the saved one stood."""
    return read_learner(path, LEARNERS)
