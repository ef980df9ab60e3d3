"""What any learner must be able to do, ours or anyone's: ``fd.check_learner(MyLearner)``.

Each rule is a sentence (:mod:`flexdome.simulation.rules`). A learner that breaks some gets one :class:`CheckError` that
says which, what was seen of each, and which methods to look at.
"""

from __future__ import annotations

import inspect
import traceback
from pathlib import Path
from types import CodeType
from typing import Any

from flexdome.cmdp import CMDP, Threshold
from flexdome.cmdp.validation import shown, switch
from flexdome.errors import ValidationError
from flexdome.families import make_cmdp
from flexdome.learners import LEARNERS, Learner
from flexdome.planning import safe_policy, slater_gap
from flexdome.simulation.mask_rule import forbidden_actions_are_left_alone
from flexdome.simulation.rules import (
    CheckError,
    Failure,
    Rule,
    Subject,
    bad_episodes_are_refused,
    it_can_be_made,
    logged_data_are_taken,
    observe_is_simulate,
    policies_are_distributions,
    runs_are_seeded,
    runs_can_be_cut,
    saving_resumes,
    the_runner_tells_the_truth,
    the_truth_is_out_of_reach,
    thresholds_can_be_changed,
)

__all__ = ["CheckError", "check_learner"]

METHODS: dict[Rule, tuple[str, ...]] = {  # what each is about
    it_can_be_made: ("__init__",),
    policies_are_distributions: ("policy", "mixture", "multipliers"),
    observe_is_simulate: ("observe", "count_episode", "the runner"),
    the_runner_tells_the_truth: ("the runner",),
    runs_can_be_cut: ("observe", "the runner"),
    saving_resumes: ("options", "state", "restore"),
    bad_episodes_are_refused: ("observe", "preload", "checked_episode"),
    runs_are_seeded: ("policy", "observe"),
    logged_data_are_taken: ("preload", "multipliers", "beliefs"),
    thresholds_can_be_changed: ("set_thresholds", "thresholds_changed", "beliefs", "restore"),
    the_truth_is_out_of_reach: ("__init__", "the attributes of the class"),
    forbidden_actions_are_left_alone: ("policy", "observe", "preload", "status", "masks"),
}
MASKS = forbidden_actions_are_left_alone
HANDED = ("policy", "mixture", "multipliers")  # what is checked whenever it is handed over


def check_learner(
    learner: type[Learner], cmdp: CMDP | None = None, *, randomises: bool | None = None, **options: Any
) -> list[str]:
    """Check a learner class on a small CMDP (or on yours); the sentences that were checked come back.

    After them comes what could not be seen, if anything: a learner may randomise, and draw nothing in so few episodes.

    A learner that breaks some gets one :class:`~flexdome.simulation.check.CheckError` with all of them: what was seen,
    in which methods, and what could not be checked because of it.

    Parameters
    ----------
    learner : a subclass of :class:`flexdome.learners.Learner`, built as ``learner(problem, episodes=, seed=, ...)``
    cmdp : the CMDP to check it on; None is a small one of five states, with one known and one stochastic threshold
    randomises : whether the learner draws random numbers of its own, so that its seed matters; None asks the registry
    options : of the learner; one with an option ``safe_policy`` gets a policy with half the Slater gap if none is given

    Examples
    --------
    >>> import flexdome as fd
    >>> len(fd.check_learner(fd.FlexDOME)) > 5
    True
    """
    if not (isinstance(learner, type) and issubclass(learner, Learner)):
        raise ValidationError(f"learner is {shown(learner)}; it must be a subclass of flexdome.learners.Learner")
    if cmdp is not None and not isinstance(cmdp, CMDP):
        raise ValidationError(f"cmdp is a {type(cmdp).__name__}; it must be a CMDP")
    id = _named(learner)
    if randomises is not None:
        randomises = switch("randomises", randomises)
    else:
        randomises = id in LEARNERS and LEARNERS[id].randomises
    cmdp = small_cmdp() if cmdp is None else cmdp
    needs = id not in LEARNERS or "safe policy" in LEARNERS[id].needs
    if needs and "safe_policy" in inspect.signature(learner).parameters:
        options.setdefault("safe_policy", safe_policy(cmdp, 0.5 * slater_gap(cmdp)))
    subject = Subject(learner, cmdp, options, randomises)
    failures = _failures(subject)
    if failures:
        raise _error(learner, failures) from next((one.error for one in failures if one.error), None)
    return [*(str(rule.__doc__) for rule in METHODS), *subject.notes]


def _failures(subject: Subject) -> list[Failure]:
    """All rules that are broken; where the same comes in between again, a rule is unchecked."""
    missing = tuple(sorted(subject.learner.__abstractmethods__))
    if missing:
        seen = f"{subject.learner.__name__} does not have {', '.join(missing)}, which a learner must have"
        return [Failure(str(it_can_be_made.__doc__), seen, missing)]
    first: dict[str, Failure] = {}
    found: list[Failure] = []
    for rule in METHODS:
        failure, why = _failure(rule, subject)
        if failure is None:
            continue
        if rule is it_can_be_made:
            return [failure]
        if why in HANDED and why not in first and rule not in (policies_are_distributions, MASKS):
            first[why] = failure._replace(rule=str(policies_are_distributions.__doc__))
            found.append(first[why])
        if why in first:
            failure = first[why]._replace(rule=failure.rule, unchecked=True)
        first.setdefault(why, failure)
        found.append(failure)
    return found


def _failure(rule: Rule, subject: Subject) -> tuple[Failure | None, str]:
    """What is wrong, if the rule is broken, and why: what the learner handed over, or what was seen."""
    sentence = str(rule.__doc__)
    try:
        rule(subject)
    except CheckError as error:
        return Failure(sentence, str(error), METHODS[rule]), str(error)
    except Exception as error:  # noqa: BLE001 (whatever a learner of somebody else's raises is what was seen)
        frames = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
        handed = next((name for name in HANDED if f"handed_{name}" in frames), None)
        where = _raised_in(error, subject.learner)
        if handed is not None and not where:
            return Failure(sentence, str(error), (handed,), error), handed
        seen = f"{type(error).__name__} was raised: {error}"
        return Failure(sentence, seen, where or METHODS[rule], error), f"{seen} {where}"
    return None, ""


def _raised_in(error: Exception, learner: type[Learner]) -> tuple[str, ...]:
    """The method that the author wrote in which ``error`` was raised, with its place, if there is one."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        for kind in learner.__mro__[: learner.__mro__.index(Learner)]:
            written = inspect.unwrap(_function(vars(kind).get(frame.name)))
            code = getattr(written, "__code__", None)
            if code is not None and code.co_filename == frame.filename and _lines(code, frame.lineno):
                return (f"{kind.__name__}.{frame.name}, {Path(frame.filename).name} line {frame.lineno}",)
    return ()


def _function(member: Any) -> Any:
    return member.fget if isinstance(member, property) else member


def _lines(code: CodeType, line: int | None) -> bool:
    return line is not None and line in {at for *_, at in code.co_lines() if at is not None}


def _error(learner: type[Learner], failures: list[Failure]) -> CheckError:
    """All of them in one message; rules that could not be checked are told with what came in between."""
    broken, name = [one for one in failures if not one.unchecked], learner.__name__
    lines = []
    for failure in broken:
        same = (failure.seen, failure.methods)
        rest = [one.rule for one in failures if one.unchecked and (one.seen, one.methods) == same]
        text = f"{failure.rule} But {failure.seen}. Look at {', '.join(failure.methods)}."
        lines.append(text + (f" Because of that this could not be checked: {' '.join(rest)}" if rest else ""))
    if len(broken) == 1:
        message = f"{name} breaks a rule. {lines[0]}"
    else:
        many = f"{name} breaks {len(broken)} of {len(METHODS)} rules."
        message = "\n".join([many, *(f"{number}. {line}" for number, line in enumerate(lines, 1))])
    error = CheckError(message)
    error.failures = tuple(failures)
    return error


def _named(learner: type[Learner]) -> str:
    """The learner's id."""
    name = getattr(learner, "id", None)
    if not isinstance(name, str) or not name:
        has = "no id" if name is None else f"the id {shown(name)}"
        raise ValidationError(
            f"learner {learner.__name__} has {has}; write one in the class, id: ClassVar[str] = "
            f'"{learner.__name__.lower()}": by that name it is registered, and its files are read'
        )
    return name


def small_cmdp() -> CMDP:
    """Five states, three actions, four steps, two constraints: one threshold known, one drawn at every step."""
    base = make_cmdp("multi-v1", states=5, actions=3, horizon=4, constraints=2)
    alpha = base.alpha
    laws = [float(alpha[0]), Threshold.bernoulli(float(alpha[1]) / 4.0, 4.0, per="step")]
    return CMDP(base.transitions, base.rewards, base.utilities, laws, base.initial, name="small")
