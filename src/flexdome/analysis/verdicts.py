"""Which of the paper's statements about its experiments hold in the results at hand, in one sentence each.

The rules, all computed from the runs; "after the first tenth" is that of
:mod:`flexdome.analysis.metrics`, intervals are 95 % bootstrap intervals over seeds:

1. *FlexDOME's strong violation is flat.* Near-constant means that less than 5 % of it falls after the first tenth of
   the episodes, or that the upper end of its growth exponent is below 0.1, or that it is zero.
2. *The baselines' strong violation grows.* It is not near-constant.
3. *FlexDOME's strong violation is below a baseline's.* The interval of the paired difference lies below zero.
4. *That costs a little strong regret against UOpt-RPGPD.* The interval of the paired difference lies above zero, and
   FlexDOME's regret is at most twice the other's. There is no trade-off to speak of where FlexDOME's violation is not
   the lower one.
5. *Without regularisation oscillations come back.* After the first tenth the violation wobbles (standard deviation
   about its straight line) at least twice as much as FlexDOME's, the interval of the paired difference lies above
   zero, and the wobble is at least a tenth of the violation's own size at the end: a ripple is not an oscillation.
6. *FlexDOME tracks an oracle that knows the threshold.* In regret and in violation the paired difference is at most
   10 % of the oracle's regret and violation together.

Where an interval that has to lie on one side of zero contains it, the statement is neither confirmed nor refuted
(``holds`` is None). With one seed there are no intervals; the one number decides, and the sentence says so.

A verdict judges the paper only where the runs are as long and as many as the paper's, T = 80,000 and five seeds:
:func:`unlike_the_paper` says where they are not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields

import polars as pl

from flexdome.analysis.aggregation import Results
from flexdome.analysis.comparison import PairedDifference, paired_difference
from flexdome.analysis.frames import only_row
from flexdome.analysis.statistics import Exponent
from flexdome.cmdp.validation import as_float, as_items, as_text, instance_of
from flexdome.experiments import LearnerSpec

__all__ = [
    "CLAIMS",
    "PAPER_EPISODES",
    "PAPER_SEEDS",
    "Roles",
    "Verdict",
    "near_constant",
    "roles_of",
    "unlike_the_paper",
    "verdicts",
]

MOST_NAMES = 10_000
PAPER_EPISODES, PAPER_SEEDS = 80_000, 5
LATE_SHARE = 0.05
FLAT_EXPONENT = 0.1
SLIGHT = 2.0
OSCILLATING = 2.0
RIPPLE = 0.1
TRACKED = 0.1
UNSETTLED = "not settled by these seeds"
CLAIMS = {
    1: "FlexDOME's strong violation is flat",
    2: "the baselines' strong violation grows",
    3: "FlexDOME's strong violation is below the baselines'",
    4: "this costs a slight increase of strong regret against UOpt-RPGPD",
    5: "without regularisation oscillations come back",
    6: "FlexDOME closely tracks an oracle that knows the threshold",
}


@dataclass(frozen=True)
class Verdict:
    """One statement of the paper, checked.

    Attributes
    ----------
    claim : its number in ``CLAIMS``
    environment, learner : where, and whose
    holds : whether it holds by the rule of this module; None where the seeds do not settle it
    text : one sentence with the numbers
    """

    claim: int
    environment: str
    learner: str
    holds: bool | None
    text: str


@dataclass(frozen=True)
class Roles:
    """Which learner of an experiment plays which part in the paper's statements, by name."""

    flexdome: tuple[str, ...] = ()
    uopt: tuple[str, ...] = ()
    vanilla: tuple[str, ...] = ()
    no_regularisation: tuple[str, ...] = ()
    oracle: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for part in (field.name for field in fields(self)):
            names = as_items(part, getattr(self, part), "it must be names of learners", MOST_NAMES)
            object.__setattr__(self, part, tuple(as_text(f"{part}[{k}]", name) for k, name in enumerate(names)))

    @property
    def baselines(self) -> tuple[str, ...]:
        """UOpt-RPGPD and Vanilla PD."""
        return self.uopt + self.vanilla


def roles_of(results: Results) -> Roles:
    """The parts that follow from the learners' ids and options; FlexDOME without a margin plays none."""
    parts: dict[str, list[str]] = {}
    for learner in instance_of("results", results, Results).experiment.learners:
        part = _part(learner)
        if part is not None:
            parts.setdefault(part, []).append(learner.name)
    return Roles(**{part: tuple(names) for part, names in parts.items()})


def near_constant(total: float, late: float, exponent: Exponent | None) -> bool:
    """Whether a strong violation ``total``, ``late`` of it after the first tenth, is near-constant (rule 1)."""
    total, late = as_float("total", total), as_float("late", late)
    if total == 0.0 or late < LATE_SHARE * total:
        return True
    if exponent is None:
        return False
    high = instance_of("exponent", exponent, Exponent).high
    return as_float("exponent", exponent.value if high is None else high) < FLAT_EXPONENT


def verdicts(results: Results, roles: Roles | None = None) -> tuple[Verdict, ...]:
    """Every statement that the learners of ``results`` allow to check, in the order of ``CLAIMS``.

    Where there are several settings of FlexDOME an ablation is compared with the one that has the same options.
    """
    instance_of("results", results, Results)
    roles = roles_of(results) if roles is None else instance_of("roles", roles, Roles)
    found: list[Verdict] = []
    for environment in results.finals["environment"].unique(maintain_order=True):
        seen = set(results.finals.filter(pl.col("environment") == environment)["learner"])
        case = _Case(results, environment)
        ours = [name for name in roles.flexdome if name in seen]
        found += [case.flat(name) for name in ours]
        found += [case.growing(name) for name in roles.baselines if name in seen]
        found += [case.safer(name, other) for name in ours for other in roles.baselines if other in seen]
        found += [case.trade_off(name, other) for name in ours for other in roles.uopt if other in seen]
        for check, others in ((case.oscillating, roles.no_regularisation), (case.tracking, roles.oracle)):
            pairs = [(name, other) for name in ours for other in others if other in seen]
            found += [check(name, other) for name, other in pairs if len(ours) == 1 or case.alike(name, other)]
    return tuple(sorted(found, key=lambda verdict: verdict.claim))


def unlike_the_paper(results: Results) -> str | None:
    """How episodes and seeds differ from the paper's, in words; None where T is the paper's and no learner has fewer.

    ``"T = 4,000 and 3 seeds, where the paper has T = 80,000 and 5"``
    """
    episodes = instance_of("results", results, Results).experiment.episodes
    runs = results.finals.group_by("environment", "learner").len()["len"].to_list()
    seeds = min(runs, default=0)
    if episodes == PAPER_EPISODES and seeds >= PAPER_SEEDS:
        return None
    counted = f"{seeds} seed{'s' * (seeds != 1)}"
    return f"T = {episodes:,} and {counted}, where the paper has T = {PAPER_EPISODES:,} and {PAPER_SEEDS}"


@dataclass(frozen=True)
class _Case:
    """One environment of an experiment."""

    results: Results
    environment: str

    def mean(self, learner: str, metric: str) -> float:
        return float(self._runs(learner)[metric].to_numpy().mean())

    def estimate(self, learner: str, metric: str) -> str:
        """``10,234 ± 364``."""
        runs = self._runs(learner)[metric]
        error = runs.std()
        mean = self.mean(learner, metric)
        if not isinstance(error, float):
            return f"{number(mean)} (one seed)"
        if mean == error == 0.0:
            return "0 in every run"
        return f"{number(mean)} ± {number(error / runs.len() ** 0.5)}"

    def alike(self, learner: str, ablation: str) -> bool:
        """Whether two FlexDOMEs differ in what is ablated only."""
        specs = {spec.name: spec for spec in self.results.experiment.learners}
        settings = [
            ({**specs[name].options, "regularisation": None}, specs[name].problem.slater_gap)
            for name in (learner, ablation)
        ]
        return settings[0] == settings[1]

    def exponent(self, learner: str, metric: str) -> Exponent | None:
        where = {"environment": self.environment, "learner": learner, "metric": metric}
        row = only_row("exponents", self.results.exponents, **where)
        if row["exponent"] is None:
            return None
        return Exponent(row["exponent"], row["low"], row["high"], row["points"])

    def flat(self, learner: str) -> Verdict:
        holds, growth = self._growth(learner)
        end = (
            "the paper's flat curve holds here" if holds else "the paper's flat curve is not reproduced in this setting"
        )
        return self._verdict(1, learner, holds, f"{self._subject(learner)}: {growth}: {end}.")

    def growing(self, learner: str) -> Verdict:
        flat, growth = self._growth(learner)
        end = "it does not grow, unlike in the paper" if flat else "it grows, as the paper says"
        return self._verdict(2, learner, not flat, f"{self._subject(learner)}: {growth}: {end}.")

    def safer(self, learner: str, other: str) -> Verdict:
        pair = self._pair("strong_violation", learner, other)
        holds = _sign(pair, below=True)
        end = {True: "lower, as the paper says", False: "higher, unlike in the paper", None: UNSETTLED}[holds]
        text = (
            f"{self._subject(learner)}: strong violation {self.estimate(learner, 'strong_violation')} against "
            f"{self.estimate(other, 'strong_violation')} of {other} "
            f"(difference {difference(pair)}; lower in {pair.lower} of {pair.n} runs): {end}."
        )
        return self._verdict(3, learner, holds, text)

    def trade_off(self, learner: str, other: str) -> Verdict:
        pair = self._pair("strong_regret", learner, other)
        ours, theirs = self.mean(learner, "strong_regret"), self.mean(other, "strong_regret")
        safer = _sign(self._pair("strong_violation", learner, other), below=True)
        more = _sign(pair, below=False)
        holds: bool | None = False
        if safer is None:
            holds, end = None, UNSETTLED
        elif not safer:
            end = "there is no trade-off to speak of, since its strong violation is not the lower one"
        elif more is None:
            holds, end = None, UNSETTLED
        elif not more:
            end = "lower violation at no cost in regret, better than the paper says"
        elif ours <= SLIGHT * theirs:
            holds, end = True, "a slight trade-off, as the paper says"
        else:
            end = "a trade-off that is not slight, unlike in the paper"
        ratio = f"{number(ours / theirs)} times the" if theirs > 0.0 else "against the"
        text = (
            f"{self._subject(learner)}: strong regret {self.estimate(learner, 'strong_regret')}, {ratio} "
            f"{self.estimate(other, 'strong_regret')} of {other} (difference {difference(pair)}): {end}."
        )
        return self._verdict(4, learner, holds, text)

    def oscillating(self, learner: str, other: str) -> Verdict:
        more = _sign(self._pair("wobble", other, learner), below=False)
        ours, theirs = self.mean(learner, "wobble"), self.mean(other, "wobble")
        level = self.mean(other, "last_violation")
        holds = more if theirs >= OSCILLATING * ours and theirs >= RIPPLE * abs(level) else False
        ends = {
            True: "oscillations come back, as the paper says",
            False: "no oscillations come back, unlike in the paper",
            None: UNSETTLED,
        }
        crossings = number(self.mean(other, "crossings"))
        text = (
            f"{self._subject(other)}: after the first tenth of the episodes its violation, {number(level)} at the end, "
            f"varies by {number(theirs)} (standard deviation about its trend) and changes between safe and unsafe "
            f"{crossings} {'time' if crossings == '1' else 'times'}, against {number(ours)} and "
            f"{number(self.mean(learner, 'crossings'))} of {learner}: {ends[holds]}."
        )
        return self._verdict(5, learner, holds, text)

    def tracking(self, learner: str, other: str) -> Verdict:
        regret, violation = (self._pair(metric, learner, other) for metric in ("strong_regret", "strong_violation"))
        scale = self.mean(other, "strong_regret") + self.mean(other, "strong_violation")
        holds = max(abs(regret.mean), abs(violation.mean)) <= TRACKED * scale
        end = (
            "it tracks the oracle, as the paper says" if holds else "it does not track the oracle, unlike in the paper"
        )
        text = (
            f"{self._subject(learner)}: strong regret differs by {difference(regret)} and strong violation by "
            f"{difference(violation)} from those of {other} "
            f"({self.estimate(other, 'strong_regret')} and {self.estimate(other, 'strong_violation')}): {end}."
        )
        return self._verdict(6, learner, holds, text)

    def _growth(self, learner: str) -> tuple[bool, str]:
        total, late = self.mean(learner, "strong_violation"), self.mean(learner, "late_violation")
        exponent = self.exponent(learner, "strong_violation")
        flat = near_constant(total, late, exponent)
        text = (
            f"strong violation {self.estimate(learner, 'strong_violation')} at T = {self.results.experiment.episodes:,}"
        )
        if total > 0.0:
            text += f", {late / total:.0%} of it after the first tenth of the episodes"
        if exponent is not None and not flat:
            text += f", growing as T^{exponent}"
        return flat, text

    def _subject(self, learner: str) -> str:
        spec = next(spec for spec in self.results.experiment.learners if spec.name == learner)
        return f"{learner}{_setting(spec)} on {self.environment}"

    def _runs(self, learner: str) -> pl.DataFrame:
        return self.results.finals.filter(pl.col("environment") == self.environment, pl.col("learner") == learner)

    def _pair(self, metric: str, a: str, b: str) -> PairedDifference:
        return paired_difference(self.results.finals, metric, a, b, self.environment)

    def _verdict(self, claim: int, learner: str, holds: bool | None, text: str) -> Verdict:
        return Verdict(claim, self.environment, learner, holds, text)


def number(value: float) -> str:
    """Four digits or so, with separators: ``10,234``, ``12.3``, ``0.0042``."""
    if value == 0.0:
        return "0"
    if abs(value) >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 9.995 else f"{value:.2g}"


def difference(pair: PairedDifference) -> str:
    """``-120 [-180, -60]``."""
    if pair.interval is None:
        return f"{number(pair.mean)} in one pair"
    return f"{number(pair.mean)} [{number(pair.interval.low)}, {number(pair.interval.high)}]"


def _sign(pair: PairedDifference, below: bool) -> bool | None:
    """Whether the difference lies below (or above) zero; None where its interval contains zero and more."""
    low, high = (pair.mean, pair.mean) if pair.interval is None else (pair.interval.low, pair.interval.high)
    if low == high == 0.0:
        return False
    if high < 0.0:
        return below
    return not below if low > 0.0 else None


def _part(learner: LearnerSpec) -> str | None:
    if learner.id == "uopt-rpgpd":
        return "uopt"
    if learner.id == "optprimaldual":
        return "vanilla"
    if learner.id != "flexdome":
        return None
    if learner.options.get("regularisation") is False:
        return "no_regularisation"
    if learner.options.get("margin") is False:
        return None
    return "oracle" if "thresholds" in learner.problem.reveal else "flexdome"


def _setting(learner: LearnerSpec) -> str:
    """What is set and not left at its default, in brackets."""
    options = dict(learner.options)
    if learner.id == "flexdome" and not {"margin", "margin_scale", "tuning"} & options.keys():
        options = {"margin_scale": "1e-5 as stated", **options}
    parts = [_option(name, value) for name, value in options.items()]
    if learner.problem.slater_gap is not None:
        parts.append(f"Slater gap bounded by {learner.problem.slater_gap:g}")
    return f" ({', '.join(parts)})" if parts else ""


def _option(name: str, value: object) -> str:
    if name == "tuning":
        return f"{value} tuning"
    if value is False:
        return f"no {name.replace('_', ' ')}"
    symbol = {"margin_scale": "c_e", "bonus_scale": "c_b"}.get(name, name.replace("_", " "))
    text = re.sub(r"e([+-])0*", r"e\1", f"{value:g}") if isinstance(value, float) else str(value)
    return f"{symbol} = {text}"
