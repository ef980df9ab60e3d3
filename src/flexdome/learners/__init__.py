"""Online learners, one file for each algorithm, over a shared optimistic model.

The registry holds names only; a learner's module is imported when it is asked for.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from typing import Any

from flexdome.cmdp import Problem
from flexdome.errors import ValidationError, unknown_name
from flexdome.learners.base import Beliefs, Learner
from flexdome.learners.registry import Entry, Registry
from flexdome.learners.storage import read_learner

__all__ = ["LEARNERS", "Beliefs", "Entry", "Learner", "load_learner", "make_learner"]

_ROWS = (
    Entry(
        id="flexdome",
        target="flexdome.learners.flexdome:FlexDOME",
        version=1,
        summary="decaying safety margin and time-varying regularisation",
        citation="Zuo, Wang and He 2026, arXiv 2602.10917",
        regret="T^(5/6), strong",
        violation="near-constant, strong",
        needs=("Slater gap",),
        last_iterate=True,
    ),
    Entry(
        id="optprimaldual",
        target="flexdome.learners.optprimaldual:OptPrimalDual",
        version=1,
        summary="unregularised primal-dual, the paper's Vanilla PD",
        citation="Efroni, Mannor and Pirotta 2020, arXiv 2003.02189",
        regret="sqrt(T), weak",
        violation="sqrt(T), weak",
        needs=("Slater gap", "known thresholds"),
        reconstructed=("bonus of the reward", "rho"),
    ),
    Entry(
        id="uopt-rpgpd",
        target="flexdome.learners.uopt_rpgpd:UOptRPGPD",
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
        id="uopt-rpgpd-notebook",
        target="flexdome.learners.uopt_notebook:UOptNotebook",
        version=1,
        summary="UOpt-RPGPD with the slips of its authors' notebook, for comparison",
        citation="Kitamura et al. 2024, notebook of matsuolab/Uniform-PAC-Primal-Dual-CMDP",
        regret="none",
        violation="none",
        needs=("known thresholds",),
    ),
    Entry(
        id="rpd-oe",
        target="flexdome.learners.rpd_oe:RPDOE",
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
        target="flexdome.learners.optpess_pd:OptPessPrimalDual",
        version=1,
        summary="optimistic planning with a pessimistic queue",
        citation="Liu, Zhou, Kalathil, Kumar and Tian 2021, arXiv 2106.02684",
        regret="sqrt(T), weak",
        violation="constant, weak",
        needs=("Slater gap", "known thresholds"),
        reconstructed=("every constant", "the bonus"),
    ),
    Entry(
        id="proxdome",
        target="flexdome.learners.proxdome:ProxDOME",
        version=1,
        summary="exact soft planning under optimism, multipliers solved for under pessimism; ours",
        citation="this library; no theorem",
        regret="none claimed",
        violation="none claimed",
    ),
    Entry(
        id="anchordome",
        target="flexdome.learners.anchordome:AnchorDOME",
        version=1,
        summary="one mirror step an episode towards a moving anchor, ProxDOME's one-step relative; ours",
        citation="this library; no theorem",
        regret="none claimed",
        violation="none claimed",
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
        raise ValidationError(f"learner is {id!r}; it must be a name such as 'flexdome'")
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
