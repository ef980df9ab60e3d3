"""The paper's statements, measured: what holds, what fails and by how much, and what says nothing."""

from flexdome.audit.auditing import Depth, audit
from flexdome.audit.cover import Cover, margin_cover
from flexdome.audit.errata import Erratum, errata
from flexdome.audit.explain import explain
from flexdome.audit.exponents import ExponentRow, sweep_exponents
from flexdome.audit.findings import Finding, Series, counted, judged
from flexdome.audit.outputs import Audit, Part
from flexdome.audit.theorem_2 import LastIterates, last_iterates
from flexdome.audit.witness import Witness, drift_witness

__all__ = [
    "Audit",
    "Cover",
    "Depth",
    "Erratum",
    "ExponentRow",
    "Finding",
    "LastIterates",
    "Part",
    "Series",
    "Witness",
    "audit",
    "counted",
    "drift_witness",
    "errata",
    "explain",
    "judged",
    "last_iterates",
    "margin_cover",
    "sweep_exponents",
]
