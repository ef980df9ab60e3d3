"""With what confidence a policy is safe, from the command line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

if TYPE_CHECKING:
    from flexdome.cmdp import Problem
    from flexdome.cmdp.validation import Float

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

    Episodes are an uncompressed .npz: states (n, H), actions (n, H), rewards (n, H), utilities (n, m, H), where
    thresholds are sampled thresholds (n, m), and, if other policies played them, played_by (n, H, S, A) or (H, S, A).

    For example:
      flexdome certify learner.npz
      flexdome certify learner.npz --episodes log.npz
      flexdome certify policy.npy --episodes log.npz --thresholds 2.5
      flexdome certify policy.npy --episodes log.npz --environment media-v1 --chosen-from-data

    Args:
        policy: a saved learner, an .npy of shape (H, S, A), or an .npz with such an array named policy
        episodes: recorded episodes; of a learner, those that its present policy played
        environment: a registered id or a file that `fd.save_cmdp` wrote, whose sizes and thresholds are known
        seed: the environment's seed
        thresholds: known thresholds instead (of a policy file without an environment)
        delta: the probability with which anything that is said may be wrong
        played_by: file of the policy that played the episodes, if it was another
        chosen_from_data: the policy was chosen by looking at these episodes
        threshold_range: samples of thresholds lie between these numbers
        threshold_scale: or are sub-Gaussian of this scale
    """
    import flexdome as fd
    from flexdome.certificates import load_episodes

    declared: dict[str, Any] = {"threshold_range": threshold_range, "threshold_scale": threshold_scale}
    pi, learner = _read(policy)
    if learner is not None and (environment is not None or thresholds):
        raise fd.ValidationError(f"{policy} is a learner, which has a problem of its own; leave out the environment")
    if learner is not None and episodes is None:
        print(learner.certify(delta, **declared))  # type: ignore[attr-defined]
        return
    if episodes is None:
        raise fd.ValidationError("episodes is missing; a policy alone says nothing about what it does")
    if learner is not None:
        pi, problem = learner.policy, learner.problem  # type: ignore[attr-defined]
    else:
        problem = _problem(pi, environment, seed, thresholds, chosen_from_data)
    log, other = load_episodes(episodes, problem)
    if played_by is not None:
        other, _ = _read(played_by)
    if learner is not None and other is None and not chosen_from_data:
        print(learner.certify(delta, log, **declared))  # type: ignore[attr-defined]
        return
    print(fd.certify(pi, problem, log, delta, other, chosen_from_data=chosen_from_data, **declared))


def _read(path: Path) -> tuple[Float, object | None]:
    """The policy of a file, and the learner if it is one."""
    import numpy as np

    import flexdome as fd
    from flexdome.cmdp.archive import HEADER, read_arrays

    arrays = read_arrays(path)
    if HEADER in arrays:
        learner = fd.load_learner(path)
        return learner.policy, learner
    if set(arrays) not in ({"array"}, {"policy"}):
        raise fd.FileFormatError(f"{path} has {', '.join(sorted(arrays))}; a policy file has one array, named policy")
    return np.array(next(iter(arrays.values())), dtype=np.float64), None


def _problem(pi: Float, environment: str | None, seed: int, thresholds: tuple[float, ...], chosen: bool) -> Problem:
    import numpy as np

    import flexdome as fd

    if (environment is None) is (not thresholds):
        raise fd.ValidationError("give a policy file either an environment or its thresholds")
    if environment is not None:
        path = Path(environment)
        known = environment in fd.ENVIRONMENTS or not (path.suffix or path.exists())
        cmdp = fd.make_cmdp(environment, seed=seed) if known else fd.load_cmdp(path)
        return cmdp.problem(slater_gap=_gap(float(cmdp.alpha.max()), cmdp.horizon))
    if chosen:
        raise fd.ValidationError(
            "thresholds alone do not say where episodes begin, which is needed where the policy was chosen from them; "
            "give an environment"
        )
    if pi.ndim != 3:
        raise fd.ValidationError(f"policy has shape {pi.shape}; it must be (H, S, A)")
    H, S, A = pi.shape
    return fd.Problem(S, A, H, thresholds=np.array(thresholds))  # where episodes begin is as the log says


def _gap(alpha: float, horizon: int) -> float:
    """A Slater gap that a problem accepts; no certificate depends on it."""
    return max(0.5 * (horizon - alpha), 1e-12)
