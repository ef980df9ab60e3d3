"""With what confidence a policy is safe, from the command line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

if TYPE_CHECKING:
    from flexdome.certificates import Recorded
    from flexdome.cmdp import Problem
    from flexdome.cmdp.validation import Float
    from flexdome.learners import Learner

__all__ = ["certify"]

File = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
Log = Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="(default: what the learner has seen)")]
Where = Annotated[str | None, tyro.conf.arg(metavar="ENVIRONMENT", help_behavior_hint="(default: the learner's own)")]


def certify(
    policy: File,
    /,
    episodes: Log = None,
    environment: Where = None,
    seed: int = 0,
    thresholds: tuple[float, ...] = (),
    delta: float = 0.05,
    played_by: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None,
    chosen_from_data: bool = False,
    threshold_range: tuple[float, float] | None = None,
    threshold_scale: float | None = None,
) -> None:
    """Say with what confidence a policy meets its thresholds, and how many more episodes would settle it.

    Episodes are a .csv or .parquet as fd.write_episodes writes it, or an uncompressed .npz: states (n, H), actions
    (n, H), rewards (n, H), utilities (n, m, H), where thresholds are sampled thresholds (n, m), and, if other policies
    played them, played_by (n, H, S, A) or (H, S, A).

    For example:
      flexdome certify learner.npz
      flexdome certify learner.npz --episodes log.csv
      flexdome certify exported.json --episodes log.csv
      flexdome certify policy.npy --episodes log.npz --thresholds 2.5
      flexdome certify policy.npy --episodes log.npz --thresholds nan --threshold-range 0 10
      flexdome certify policy.npy --episodes log.npz --environment media-v1 --chosen-from-data

    Args:
        policy: a saved learner, what a learner exported (.json, .csv or .npz), an .npy of shape (H, S, A), or an .npz
            with such an array named policy
        episodes: recorded episodes; of a learner, those that its present policy played
        environment: a registered id or a file that `fd.save_cmdp` wrote, whose sizes and thresholds are known
        seed: the environment's seed
        thresholds: of a policy file without an environment; nan where the episodes have samples of it
        delta: the probability with which anything that is said may be wrong
        played_by: file of the policy that played the episodes, if it was another
        chosen_from_data: the policy was chosen by looking at these episodes
        threshold_range: samples of thresholds lie between these numbers
        threshold_scale: or are sub-Gaussian of this scale
    """
    import flexdome as fd

    declared: dict[str, Any] = {"threshold_range": threshold_range, "threshold_scale": threshold_scale}
    pi, learner, told = _read(policy)
    if learner is not None and (environment is not None or thresholds):
        which = " and ".join(["--environment"] * (environment is not None) + ["--thresholds"] * bool(thresholds))
        raise fd.ValidationError(f"{policy} is a learner, which has a problem of its own; leave out {which}")
    if learner is not None and episodes is None:
        print(learner.certify(delta, **declared))
        return
    if episodes is None:
        raise fd.ValidationError("episodes is missing; a policy alone says nothing about what it does")
    if learner is not None:
        problem = learner.problem
    elif environment is not None:
        problem = _environment(environment, seed, thresholds)
    else:
        problem = _problem(policy, pi, told, thresholds, chosen_from_data)
    log, other = _episodes(episodes, problem)
    if played_by is not None:
        other = _read(played_by)[0]
    if learner is not None and other is None and not chosen_from_data:
        print(learner.certify(delta, log, **declared))
        return
    print(fd.certify(pi, problem, log, delta, other, chosen_from_data=chosen_from_data, **declared))


def _read(path: Path) -> tuple[Float, Learner | None, Mapping[str, Any]]:
    """The policy of a file, the learner if it is one, and what an exported policy says of its problem."""
    import numpy as np

    import flexdome as fd
    from flexdome.cmdp.archive import HEADER, read_arrays

    exported = path.suffix in (".json", ".csv")
    arrays = {} if exported else read_arrays(path)
    if exported or (HEADER in arrays and "policy" in arrays):
        policy = fd.Policy.load(path)
        return policy.policy, None, policy.provenance
    if HEADER in arrays:
        learner = fd.load_learner(path)
        return learner.policy, learner, {}
    if set(arrays) not in ({"array"}, {"policy"}):
        raise fd.FileFormatError(f"{path} has {', '.join(sorted(arrays))}; a policy file has one array, named policy")
    return np.array(next(iter(arrays.values())), dtype=np.float64), None, {}


def _episodes(path: Path, problem: Problem) -> tuple[Recorded, Float | None]:
    """The episodes of a file, and the policy or policies that played them, if it says so."""
    import flexdome as fd
    from flexdome.certificates import Recorded, load_episodes

    if path.suffix not in (".csv", ".parquet"):
        return load_episodes(path, problem)
    try:
        return Recorded.from_episodes(problem, fd.read_episodes(path, problem=problem)), None
    except fd.ValidationError as error:
        raise fd.FileFormatError(f"{path} does not hold episodes of this problem: {error}") from None


def _environment(named: str, seed: int, thresholds: tuple[float, ...]) -> Problem:
    """The problem of a registered environment, or of a file."""
    import flexdome as fd

    if thresholds:
        raise fd.ValidationError("give a policy file either an environment or its thresholds, not both")
    path = Path(named)
    known = named in fd.ENVIRONMENTS or not (path.suffix or path.exists())
    cmdp = fd.make_cmdp(named, seed=seed) if known else fd.load_cmdp(path)
    return cmdp.problem(slater_gap=_gap(float(cmdp.alpha.max()), cmdp.horizon))


def _problem(path: Path, pi: Float, told: Mapping[str, Any], thresholds: tuple[float, ...], chosen: bool) -> Problem:
    """A problem of the policy's sizes, with what its file says of thresholds, units and names.

    It does not say where episodes begin; ``thresholds``, where they are given, are in those units.
    """
    import numpy as np

    import flexdome as fd
    from flexdome.cmdp.units import Units

    if not thresholds and "thresholds" not in told:
        raise fd.ValidationError("thresholds is missing; give a policy file either an environment or its thresholds")
    if chosen:
        raise fd.ValidationError(
            "thresholds alone do not say where episodes begin, which is needed where the policy was chosen from them; "
            "give an environment"
        )
    if pi.ndim != 3:
        raise fd.ValidationError(f"policy has shape {pi.shape}; it must be (H, S, A)")
    H, S, A = pi.shape
    if "thresholds" not in told:
        return fd.Problem(S, A, H, thresholds=np.array(thresholds))
    names = {name: told[name] for name in ("state_names", "action_names") if name in told}
    try:
        units = Units.from_stored(told["units"]) if "units" in told else Units(None, (), H)
        own = np.array([np.nan if alpha is None else alpha for alpha in told["thresholds"]])
        problem = fd.Problem(S, A, H, thresholds=own, reward=units.reward, subject_to=units.constraints, **names)
    except (fd.FlexDOMEError, KeyError, TypeError) as error:
        raise fd.FileFormatError(f"{path} does not say rightly what its problem is: {error}") from None
    return problem.changed(thresholds=problem.as_thresholds(thresholds)) if thresholds else problem


def _gap(alpha: float, horizon: int) -> float:
    """A Slater gap that a problem accepts; no certificate depends on it."""
    return max(0.5 * (horizon - alpha), 1e-12)
