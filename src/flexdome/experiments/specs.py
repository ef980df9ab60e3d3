"""An experiment is data: environments, learners with options, seeds, episodes.

Every run of it, one learner on one instance with one run seed, has an id that is a hash of everything its result
depends on, and of nothing else: the same run in two experiments is one run. Labels and file names are not part of it;
the version of the learner's registry entry is.

Written in TOML::

    name = "small"
    episodes = 5_000
    seeds = [0, 1, 2]                 # run seed k on instance k, unless `instance` names one for all

    [[environments]]
    id = "paper-v1"

    [[learners]]
    id = "flexdome"
    label = "FlexDOME"
    options = {margin_scale = 5e-5}

    [[learners]]
    id = "uopt-rpgpd"
    options = {tuning = "practical"}
"""

from __future__ import annotations

import hashlib
import inspect
import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)
from pydantic import ValidationError as PydanticError

from flexdome.cmdp import CMDP, Problem, load_cmdp
from flexdome.cmdp.archive import as_path
from flexdome.cmdp.validation import as_int, as_items, instance_of
from flexdome.errors import FileFormatError, FlexDOMEError, ValidationError, unknown_name
from flexdome.experiments.code import Code, code_of, entry_of
from flexdome.experiments.wording import Keys, sentence
from flexdome.families import ENVIRONMENTS, make_cmdp
from flexdome.learners import LEARNERS, Learner, make_learner
from flexdome.planning import safe_policy, slater_gap
from flexdome.theory.constants import LONGEST

__all__ = ["EnvironmentSpec", "ExperimentSpec", "LearnerSpec", "ProblemSpec", "RunSpec", "load_experiment"]

MOST = 10**6  # seeds, environments or learners
SEMANTICS = 1  # raised whenever the same data would give another result

Seed = Annotated[int, Field(ge=0, lt=2**63, strict=True)]
Episodes = Annotated[int, Field(ge=1, le=LONGEST, strict=True)]


def _visible(text: str) -> str:
    """No character that is not seen, or that turns the direction of the others round."""
    for k, character in enumerate(text):
        if not character.isprintable():
            raise ValueError(f"character {k}, {character!a}, cannot be printed")
    return text


Name = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$"), AfterValidator(_visible)]
Revealed = Literal["thresholds", "rewards", "utilities", "transitions"]


def _bounded(name: str, value: Any) -> Any:
    """``value``, or its entries: pydantic would take a range of 10**12 and make it a tuple."""
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes, bytearray, Mapping, list, tuple, BaseModel)):
        return as_items(name, value, "it must be a list", MOST)
    return value


class Spec(BaseModel):
    """Frozen, nothing unknown."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def __init__(self, **data: Any) -> None:
        try:
            super().__init__(**{name: _bounded(name, value) for name, value in data.items()})
        except PydanticError as error:
            raise ValidationError(sentence(error, _keys(type(self)))) from None
        except RecursionError:
            raise ValidationError(f"a field of {type(self).__name__} is nested too deeply") from None
        except TypeError as error:  # the fields of an inner table come as keywords
            raise ValidationError(f"{' or '.join(data)} of {type(self).__name__} cannot be read: {error}") from None


class EnvironmentSpec(Spec):
    """A registered family with its options, or a file that ``fd.save_cmdp`` wrote.

    The instance's seed of a family comes from the run; a file has none, and its content, not its name, is what counts.
    """

    id: str | None = None
    file: Path | None = None
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    options: dict[str, JsonValue] = {}
    label: Name | None = None

    @property
    def name(self) -> str:
        """What figures call it."""
        return self.label or self.id or Path(str(self.file)).stem

    @cached_property
    def digest(self) -> str | None:
        """SHA-256 of the file's bytes, as was said or as it is now; None for a family."""
        if self.file is None or self.sha256 is not None:
            return self.sha256
        return hashlib.sha256(self._bytes()).hexdigest()

    def _bytes(self) -> bytes:
        try:
            return as_path("file", str(self.file)).read_bytes()
        except OSError as error:
            raise FileFormatError(f"{self.file} cannot be read: {error.strerror or error}") from None

    def model(self) -> bytes | None:
        """The bytes of the model file, which must be those of :attr:`digest`; None for a family."""
        if self.file is None:
            return None
        data = self._bytes()
        if hashlib.sha256(data).hexdigest() != self.digest:
            raise FileFormatError(f"{self.file} is not the model that it was: its checksum is not {self.digest}")
        return data

    @field_validator("file")
    @classmethod
    def _anywhere(cls, file: Path | None) -> Path | None:
        """The same file for workers and later commands, wherever they are started."""
        return None if file is None else file.absolute()

    @model_validator(mode="after")
    def _known(self) -> EnvironmentSpec:
        if (self.id is None) == (self.file is None):
            raise ValidationError("an environment has either an id or a file")
        if self.id is not None and self.sha256 is not None:
            raise ValidationError(f"sha256 is {self.sha256!r}; only a model file has one")
        if self.id is None:
            if self.options:
                raise ValidationError(f"options is {self.options}; a model read from a file takes none")
            return self
        if self.id not in ENVIRONMENTS:
            raise unknown_name("environment", self.id, ENVIRONMENTS)
        allowed = [name for name in inspect.signature(ENVIRONMENTS[self.id].load()).parameters if name != "seed"]
        for name in self.options:
            if name not in allowed:
                raise unknown_name(f"option of {self.id}", name, allowed or ["none"])
        return self

    def make(self, seed: int) -> CMDP:
        """The instance ``seed``."""
        if self.id is not None:
            return make_cmdp(self.id, seed=seed, **self.options)
        as_int("seed", seed, 0)
        self.model()  # what is at that place now may be another model
        return load_cmdp(str(self.file))


class ProblemSpec(Spec):
    """What a learner is told of the truth.

    Attributes
    ----------
    slater_gap : a lower bound on the Slater gap in place of the exact one
    reveal, hide : as in ``cmdp.problem``
    safe_slack : hand over a safe policy whose slack is this part of the exact Slater gap, to learners that need one
    threshold_laws : hand over what is true of the samples of thresholds, to learners that have to be told: the interval
        that they lie in or, where that is infinite, the standard deviation
    """

    slater_gap: Annotated[float, Field(gt=0.0)] | None = None
    reveal: tuple[Revealed, ...] = ()
    hide: tuple[Literal["thresholds"], ...] = ()
    safe_slack: Annotated[float, Field(gt=0.0, le=1.0)] | None = None
    threshold_laws: bool = False

    @model_serializer(mode="wrap")
    def _as_ever(self, dumped: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Ids and stores are older than ``threshold_laws``: where it is not asked for, nothing is said of it."""
        fields: dict[str, Any] = dumped(self)
        if not self.threshold_laws:
            fields.pop("threshold_laws", None)
        return fields

    def make(self, cmdp: CMDP) -> Problem:
        """The problem of ``cmdp``."""
        return instance_of("cmdp", cmdp, CMDP).problem(slater_gap=self.slater_gap, reveal=self.reveal, hide=self.hide)

    def handed(self, cmdp: CMDP) -> dict[str, Any]:
        """What a learner is handed over besides, as options."""
        instance_of("cmdp", cmdp, CMDP)
        options: dict[str, Any] = {}
        if self.safe_slack is not None:
            options["safe_policy"] = safe_policy(cmdp, self.safe_slack * slater_gap(cmdp))
        if self.threshold_laws:
            ends = np.array([law.support for law in cmdp.thresholds])
            wide = np.isinf(ends).any(axis=1)
            scales = [law.parameters[1] if normal else 0.0 for law, normal in zip(cmdp.thresholds, wide, strict=True)]
            single = ends[:, 0] == ends[:, 1]  # of one value, which any sample tells
            ends[wide | single] = np.nan
            options["threshold_range"] = ends
            options["threshold_scale"] = np.where(wide | single, scales, np.nan)
        return options


class LearnerSpec(Spec):
    """A registered learner, or ``"my_package:MyLearner"``, with its options, and what it is told."""

    id: str
    options: dict[str, JsonValue] = {}
    problem: ProblemSpec = ProblemSpec()
    label: Name | None = None

    @property
    def name(self) -> str:
        """What figures call it."""
        return self.label or self.id

    @model_validator(mode="after")
    def _known(self) -> LearnerSpec:
        if self.absent:
            return self
        parameters = inspect.signature(entry_of(self.id).load()).parameters
        taken = ("problem", "episodes", "seed", "safe_policy")
        allowed = [name for name in parameters if name not in taken]
        for name in self.options:
            if name in taken:
                raise ValidationError(f"option {name!r} of {self.id} is the experiment's to give, not the learner's")
            if name not in allowed:
                raise unknown_name(f"option of {self.id}", name, allowed)
        if self.problem.safe_slack is not None and "safe_policy" not in parameters:
            raise ValidationError(f"problem.safe_slack is {self.problem.safe_slack}; {self.id} takes no safe policy")
        if self.problem.threshold_laws and not {"threshold_range", "threshold_scale"} <= set(parameters):
            raise ValidationError(f"problem.threshold_laws is true; {self.id} takes no laws of thresholds")
        return self

    def make(self, cmdp: CMDP, episodes: int, seed: int) -> Learner:
        """The learner, for one run on ``cmdp``."""
        options: dict[str, Any] = dict(self.options) | self.problem.handed(cmdp)
        if self.id in LEARNERS:
            return make_learner(self.id, self.problem.make(cmdp), episodes=episodes, seed=seed, **options)
        return entry_of(self.id).load()(self.problem.make(cmdp), episodes=episodes, seed=seed, **options)

    @property
    def code(self) -> Code:
        """Which code it is, as the run's id has it."""
        return code_of(self.id, self.options)

    @property
    def absent(self) -> str:
        """Why it cannot be made here; empty where it can."""
        return ""

    @property
    def saved_as(self) -> str | None:
        """The name that its own files have; None where nobody knows."""
        return self.id if self.id in LEARNERS else entry_of(self.id).load().id


class RunSpec(Spec):
    """One learner on one instance with one run seed: everything its result depends on."""

    environment: EnvironmentSpec
    learner: LearnerSpec
    instance: Seed
    seed: Seed
    episodes: Episodes

    @property
    def id(self) -> str:
        """Sixteen hexadecimal digits, from the content without its labels."""
        return self.id_by(self.learner.code)

    def id_by(self, code: Mapping[str, int | str]) -> str:
        """The id that this run has, or had, where the learner's code is ``code``."""
        left_out = {"environment": {"label", "file", "sha256"}, "learner": {"label"}}
        content = self.model_dump(mode="json", exclude=left_out)
        if self.environment.digest is not None:
            content["environment"]["sha256"] = self.environment.digest
        content["learner"] |= code
        content["semantics"] = SEMANTICS
        text = json.dumps(_plain(content), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def make_cmdp(self) -> CMDP:
        """The instance."""
        return self.environment.make(self.instance)

    def make_learner(self, cmdp: CMDP) -> Learner:
        """A new learner, before its first episode."""
        return self.learner.make(cmdp, self.episodes, self.seed)


class ExperimentSpec(Spec):
    """Every learner on every environment with every seed.

    Attributes
    ----------
    seeds : run seeds. All learners meet the same random numbers in runs with the same seed
    instance : the instance's seed of all runs; None pairs run seed k with instance k
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
    description: str = ""
    episodes: Episodes
    seeds: Annotated[tuple[Seed, ...], Field(min_length=1)]
    instance: Seed | None = None
    environments: Annotated[tuple[EnvironmentSpec, ...], Field(min_length=1)]
    learners: Annotated[tuple[LearnerSpec, ...], Field(min_length=1)]

    @field_validator("seeds", "environments", "learners")
    @classmethod
    def _distinct(cls, rows: tuple[Any, ...]) -> tuple[Any, ...]:
        counts = Counter(getattr(row, "name", row) for row in rows)
        for name, count in counts.items():
            if count > 1:
                rule = "each must have a label of its own" if isinstance(name, str) else "each may appear once"
                raise ValidationError(f"{name!r} appears {count} times; {rule}")
        return rows

    def runs(self) -> Iterator[RunSpec]:
        """All runs: seeds within learners within environments."""
        for environment in self.environments:
            for learner in self.learners:
                for seed in self.seeds:
                    instance = seed if self.instance is None else self.instance
                    yield RunSpec(
                        environment=environment,
                        learner=learner,
                        instance=instance,
                        seed=seed,
                        episodes=self.episodes,
                    )

    @property
    def id(self) -> str:
        """Sixteen hexadecimal digits, from the runs' ids: stable under any order, label or name."""
        text = ",".join(sorted({run.id for run in self.runs()}))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def check(self) -> None:
        """Build every learner once, on its first instance, so that a bad option is found before anything runs.

        A learner of a store that is absent is left out: its runs may all be there.
        """
        for environment in self.environments:
            cmdp = environment.make(self.seeds[0] if self.instance is None else self.instance)
            for learner in (row for row in self.learners if not row.absent):
                try:
                    learner.make(cmdp, self.episodes, self.seeds[0])
                except FlexDOMEError as error:
                    raise ValidationError(f"{learner.name} on {environment.name}: {error}") from error

    def changed(self, **fields: Any) -> ExperimentSpec:
        """A copy with other fields, validated like any other."""
        return ExperimentSpec(**{**{name: getattr(self, name) for name in type(self).model_fields}, **fields})


def load_experiment(path: str | Path) -> ExperimentSpec:
    """Read an experiment from a TOML file; everything wrong with it is one sentence with the file's name."""
    target = as_path("path", path)
    try:
        content = tomllib.loads(target.read_text(encoding="utf-8"))
    except OSError as error:
        raise FileFormatError(f"{target} cannot be read: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FileFormatError(f"{target} is not TOML: {error}") from None
    except RecursionError:
        raise FileFormatError(f"{target} is not an experiment: it is nested too deeply") from None
    rows = content.get("environments")
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict) and isinstance(row.get("file"), str):
            row["file"] = target.parent / row["file"]
    try:
        return ExperimentSpec(**{"name": _as_name(target.stem), **content})
    except ValidationError as error:
        raise ValidationError(f"{target}: {error}") from None


def _as_name(stem: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-._") or "experiment"


def _keys(model: type[BaseModel]) -> Keys:
    """The valid keys of the table at some place within ``model``."""
    inner: dict[str, type[BaseModel]] = {
        "environments": EnvironmentSpec,
        "environment": EnvironmentSpec,
        "learners": LearnerSpec,
        "learner": LearnerSpec,
        "problem": ProblemSpec,
    }

    def keys(parents: Sequence[int | str]) -> list[str]:
        found = model
        for part in parents:
            found = inner.get(str(part), found)
        return list(found.model_fields)

    return keys


def _plain(value: Any) -> Any:
    """Numbers that are equal get one spelling: 1 and 1.0 are the same option."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53:
        return float(value)
    return value
