"""Which actions are allowed at each step and state.

A mask is boolean, (H, S, A), and every (h, s) has at least one action that is allowed; None means that all are. A
policy puts 0 on what is forbidden, so that it is never planned and never drawn; the uniform policy is uniform over the
rest. Kernels take a mask, or :data:`ALL`, which has no entries, where every action is allowed.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from flexdome.cmdp.validation import Float, as_raw, check_room, frozen, shown
from flexdome.errors import ValidationError

__all__ = ["ALL", "Bool", "as_allowed", "kernel_mask", "refuse_forbidden", "uniform_policy"]

Bool = npt.NDArray[np.bool_]
ALL: Bool = frozen(np.zeros((0, 0, 0), dtype=np.bool_))


def as_allowed(given: Any, shape: tuple[int, int, int]) -> Bool | None:
    """``allowed``, (S, A) or (H, S, A), as a read-only (H, S, A); None where everything is allowed."""
    if given is None:
        return None
    H, S, A = shape
    raw = as_raw("allowed", given)
    if raw.dtype.kind != "b":
        raise ValidationError(f"allowed has dtype {raw.dtype}; it must hold True and False")
    if raw.shape not in (shape, shape[1:]):
        raise ValidationError(f"allowed has shape {raw.shape}; it must be ({H}, {S}, {A}) or ({S}, {A})")
    none = ~raw.any(axis=-1)
    if none.any():
        where = ", ".join(str(int(k)) for k in np.argwhere(none)[0])
        raise ValidationError(f"allowed[{where}] is {shown([False] * A)}; at least one action must be allowed")
    if raw.all():
        return None
    check_room(f"horizon is {H}; allowed, {shape},", math.prod(shape) // 8)
    mask: Bool = frozen(np.array(np.broadcast_to(raw, shape), dtype=np.bool_, order="C"))
    return mask


def kernel_mask(allowed: Bool | None) -> Bool:
    """``allowed`` as kernels take it."""
    return ALL if allowed is None else allowed


def uniform_policy(shape: tuple[int, int, int], allowed: Bool | None) -> Float:
    """(H, S, A): every allowed action alike."""
    if allowed is None:
        return np.full(shape, 1.0 / shape[2])
    pi: Float = allowed / allowed.sum(axis=-1, keepdims=True)
    return pi


def refuse_forbidden(name: str, policy: Float, allowed: Bool | None) -> None:
    """An error where ``policy``, (..., H, S, A), may play what is not allowed."""
    if allowed is None:
        return
    bad = (policy != 0.0) & ~allowed
    if bad.any():
        where = tuple(np.argwhere(bad)[0])
        place = ", ".join(str(int(k)) for k in where)
        raise ValidationError(
            f"{name}[{place}] is {shown(policy[where])}; it must be 0: that action is not allowed there"
        )
