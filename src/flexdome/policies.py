"""A policy by itself: what to play, where it comes from, and plain files that need no learner.

Everything here needs NumPy and nothing else, so that what was learned can be played where nothing can be learned. A
policy is pi (H, S, A); with it go how often each action was tried and what it gave. Formats, by the file's suffix:

- ``.json``: an object with ``policy``, ``visits`` and ``provenance``;
- ``.csv``: a row for each (step, state, action), provenance in a line that begins with ``#``;
- ``.npz``: the arrays, and the provenance as JSON in bytes (no pickle);
- ``.h``: a C table of cumulated probabilities, exact, and ``flexdome_act(h, s, u)``.

All but the last are read back, bit for bit.
"""

from __future__ import annotations

import io
import json
import os
import reprlib
import zipfile
from collections.abc import Callable, Mapping, Sized
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from flexdome.errors import FileFormatError, ValidationError

__all__ = ["FORMATS", "Policy", "draw_action"]

Float = npt.NDArray[np.float64]
FORMAT, VERSION = "flexdome-policy", 1
ROWS = 1e-9
LONGEST_SERIES = 2**28  # entries of what is no array yet


def draw_action(pi: Float, u: float) -> int:
    """The first action a with pi(0) + ... + pi(a) > u: an action with probability 0 is never drawn."""
    total, last = 0.0, 0
    for a, p in enumerate(pi.tolist()):
        if p > 0.0:
            last, total = a, total + p
            if u < total:
                return a
    return last  # rounding left u above the sum


@dataclass(frozen=True, eq=False)
class Policy:
    """What to play at each step and state, and what is known of it.

    Attributes
    ----------
    policy : (H, S, A)
    visits : (H, S, A) how often each action was tried, or None
    utilities : (m, H, S, A) the mean utilities that it gave, NaN where it was never tried, or None
    provenance : which learner it comes from, its options, how many episodes it had seen, the problem's sizes
    """

    policy: Float
    visits: Float | None = None
    utilities: Float | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        pi = _floats("policy", self.policy)
        if pi.ndim != 3 or 0 in pi.shape:
            raise ValidationError(f"policy has shape {pi.shape}; it must be (H, S, A)")
        bad = ~((pi >= 0.0).all(axis=-1) & (np.abs(pi.sum(axis=-1) - 1.0) <= ROWS))
        if bad.any():
            h, s = np.argwhere(bad)[0]
            raise ValidationError(f"policy[{h}, {s}] is {pi[h, s].tolist()}; it must be probabilities that sum to one")
        self._put("policy", pi)
        for name, shape in (("visits", pi.shape), ("utilities", (-1, *pi.shape))):
            given = getattr(self, name)
            if given is None:
                continue
            array = _floats(name, given)
            if array.shape != (shape if name == "visits" else (*array.shape[:1], *pi.shape)):
                raise ValidationError(f"{name} has shape {array.shape}; that does not go with a policy of {pi.shape}")
            self._put(name, array)
        if not isinstance(self.provenance, Mapping):
            raise ValidationError(f"provenance is {_shown(self.provenance)}; it must be a mapping")

    def __repr__(self) -> str:
        known = [name for name in ("learner", "episode") if name in self.provenance]
        made = "".join(f", {name} {self.provenance[name]}" for name in known)
        return f"Policy(H, S, A = {', '.join(map(str, self.policy.shape))}{made})"

    def _put(self, name: str, array: Float) -> None:
        array.flags.writeable = False
        object.__setattr__(self, name, array)

    def act(self, h: int, s: int | str, u: float) -> Any:
        """The action at step ``h`` in state ``s`` for a uniform number ``u`` in [0, 1).

        A state that is called by its name is answered with the name of an action, where actions have names.
        """
        H, _, A = self.policy.shape
        _check("h", h, H)
        number = isinstance(u, (int, float, np.integer, np.floating)) and not isinstance(u, (bool, np.timedelta64))
        if not number or not 0.0 <= u < 1.0:
            raise ValidationError(f"u is {_shown(u)}; it must lie in [0, 1)")
        a = draw_action(self.policy[h, self._state(s)], u)
        return self._names("action", A)[a] if isinstance(s, str) and "action_names" in self.provenance else a

    @property
    def state_names(self) -> list[str]:
        """What the states are called: as it was declared, or by their numbers."""
        return self._names("state", self.policy.shape[1])

    @property
    def action_names(self) -> list[str]:
        """What the actions are called, likewise."""
        return self._names("action", self.policy.shape[2])

    def _names(self, kind: str, size: int) -> list[str]:
        """What states or actions are called: as it was declared, or by their numbers."""
        given = self.provenance.get(f"{kind}_names")
        if isinstance(given, list) and len(given) == size:
            return [str(name) for name in given]
        return [f"{kind} {k}" for k in range(size)]

    def _state(self, s: int | str) -> int:
        S = self.policy.shape[1]
        names = self.provenance.get("state_names", [])
        if isinstance(s, str):
            if s not in names:
                known = ", ".join(map(str, names))
                raise ValidationError(f"s is {s!r}; it must be a number{f', or one of {known}' if names else ''}")
            return int(names.index(s))
        _check("s", s, S)
        return s

    def _quantity(self, i: int) -> Mapping[str, Any] | None:
        """The quantity of constraint i, or None where none was declared."""
        declared = self.provenance.get("units", {}).get("subject_to", [])
        return declared[i] if declared else None

    def _paid(self, i: int, d: float) -> str:
        """The mean utility d of constraint i, told."""
        one = self._quantity(i)
        if one is None:
            return f"costs {1.0 - d:.3g} of constraint {i} (utility {d:.3g})"
        x = one["low"] + (one["high"] - one["low"]) * (1.0 - d if "limit" in one else d)
        return f"{one['name']} {x:.3g} {one['unit']}".rstrip()

    def _price(self, i: int, price: float) -> str:
        """A multiplier, told."""
        one, paid = self._quantity(i), self.provenance.get("units", {}).get("reward")
        if one is None:
            return f"a unit of constraint {i} is worth {price:.4g} units of reward"
        worth = price / (one["high"] - one["low"]) * (1.0 if paid is None else paid["high"] - paid["low"])
        what = "units of reward" if paid is None else f"{paid['unit']} of {paid['name']}".removeprefix(" of ")
        return f"{'1 ' + one['unit'] if one['unit'] else 'a unit'} of {one['name']} is worth {worth:.4g} {what}"

    def explain(self, h: int, s: int | str) -> str:
        """What is played at step ``h`` in state ``s``, how often it was tried, and what the constraints cost there."""
        H, S, A = self.policy.shape
        _check("h", h, H)
        s = self._state(s)
        states, actions = self._names("state", S), self._names("action", A)
        lines = [f"step {h}, {states[s]}:{self._seen(h, s)}"]
        for a in sorted(range(A), key=lambda a: (-self.policy[h, s, a], a)):
            if not self._allowed(h, s, a):
                lines.append(f"  {actions[a]}: not allowed")
                continue
            parts = [f"played {100 * self.policy[h, s, a]:.3g} %"]
            if self.visits is not None:
                n = int(self.visits[h, s, a])
                parts.append(f"tried {n:,} time{'s' * (n != 1)}" if n else "never tried")
            if self.utilities is not None:
                means = enumerate(self.utilities[:, h, s, a])
                parts += [self._paid(i, float(d)) for i, d in means if not np.isnan(d)]
            lines.append(f"  {actions[a]}: {', '.join(parts)}")
        lines += [f"  {self._price(i, price)}" for i, price in enumerate(self.provenance.get("multipliers", []))]
        return "\n".join(lines)

    def _allowed(self, h: int, s: int, a: int) -> bool:
        """Whether the action was: ``provenance["allowed"]`` has 0 and 1 in a text for each state, or step and state."""
        H, S, _ = self.policy.shape
        rows = self.provenance.get("allowed")
        if isinstance(rows, list) and len(rows) == H and isinstance(rows[h], list):
            rows = rows[h]
        row = rows[s] if isinstance(rows, list) and len(rows) == S else ""
        return not (isinstance(row, str) and row[a : a + 1] == "0")

    def _seen(self, h: int, s: int) -> str:
        if self.visits is None:
            return ""
        n = int(self.visits[h, s].sum())
        if n:
            return f" seen {n:,} time{'s' * (n != 1)}"
        if self.utilities is not None and not np.isnan(self.utilities[:, h, s]).all():
            return " never seen at this step; what is known of it was seen at others"
        return " never seen, so every action is as good as another"

    # -- files -----------------------------------------------------------------------------------------------------

    def to_bytes(self, suffix: str) -> bytes:
        """The file of this policy, by its suffix: ``.json``, ``.csv``, ``.npz`` or ``.h``."""
        known = str.__str__(suffix) if isinstance(suffix, str) else ""
        if known not in FORMATS:
            raise ValidationError(f"suffix is {_shown(suffix)}; it must be {' or '.join(FORMATS)}")
        return FORMATS[known](self)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Policy:
        """Read a ``.json``, ``.csv`` or ``.npz`` file; one that is damaged or of another kind is refused."""
        try:
            target = Path(os.fsdecode(path))
        except Exception as error:  # what is no path, or one whose methods fail
            raise ValidationError(f"path is {_shown(path)}; it must be the path of a file") from error
        if target.suffix not in READERS:
            raise ValidationError(f"path is {str(target)!r}; it must end in {' or '.join(READERS)}")
        try:
            data = target.read_bytes()
            header, arrays = READERS[target.suffix](data)
            if header.get("format") != FORMAT or header.get("version") != VERSION:
                raise FileFormatError("it is not a policy, or of another version")
            policy, visits, utilities = (arrays.get(name) for name in ("policy", "visits", "utilities"))
            if policy is None:
                raise FileFormatError("it has no policy")
            return cls(policy, visits, utilities, header.get("provenance", {}))
        except OSError as error:
            raise FileFormatError(f"{target} cannot be read: {error.strerror or error}") from None
        except (FileFormatError, ValueError, KeyError, TypeError, IndexError, EOFError, zipfile.BadZipFile) as error:
            raise FileFormatError(f"{target} does not hold a policy: {error}") from None

    def _header(self) -> dict[str, Any]:
        return {"format": FORMAT, "version": VERSION, "provenance": dict(self.provenance)}

    def _arrays(self) -> dict[str, Float]:
        named = {"policy": self.policy, "visits": self.visits, "utilities": self.utilities}
        return {name: array for name, array in named.items() if array is not None}


def _check(name: str, value: Any, size: int) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not 0 <= value < size:
        raise ValidationError(f"{name} is {_shown(value)}; it must be a whole number from 0 to {size - 1}")


def _shown(value: Any) -> str:
    try:
        return reprlib.repr(value)
    except ValueError:  # Python does not print integers of thousands of digits
        return f"a very large {type(value).__name__}"


def _floats(name: str, value: Any) -> Float:
    """A fresh float64 array of real numbers; NaN is one."""
    try:
        if not isinstance(value, np.ndarray) and isinstance(value, Sized) and len(value) > LONGEST_SERIES:
            raise ValidationError(f"{name} has {len(value)} entries; at most {LONGEST_SERIES} are made an array")
        raw = np.asarray(value)
    except ValidationError:
        raise
    except Exception as error:  # whatever the methods of a foreign object raise
        raise ValidationError(f"{name} is not a rectangular array: {type(error).__name__}") from error
    if raw.dtype.kind not in "buif" or np.ma.is_masked(value):
        raise ValidationError(f"{name} has dtype {raw.dtype}; it must hold real numbers, none of them masked")
    with np.errstate(over="ignore"):  # an extended-precision number may become infinite
        return np.array(raw, dtype=np.float64)


def _as_json(policy: Policy) -> bytes:
    arrays = {name: _plain(array) for name, array in policy._arrays().items()}
    return (json.dumps({**policy._header(), **arrays}, allow_nan=False) + "\n").encode()


def _plain(array: Float) -> Any:
    """Nested lists, with None where there is no number."""
    boxed = array.astype(object)
    boxed[np.isnan(array)] = None
    return boxed.tolist()


def _from_json(data: bytes) -> tuple[dict[str, Any], dict[str, Float]]:
    content = json.loads(data)
    names = [name for name in ("policy", "visits", "utilities") if name in content]
    return content, {name: np.array(content[name], dtype=np.float64) for name in names}


def _as_csv(policy: Policy) -> bytes:
    lines = ["# " + json.dumps({**policy._header(), "shape": policy.policy.shape}, allow_nan=False)]
    names, columns = ["step", "state", "action", "probability"], [policy.policy]
    if policy.visits is not None:
        names, columns = [*names, "visits"], [*columns, policy.visits]
    if policy.utilities is not None:
        names += [f"utility_{i}" for i in range(len(policy.utilities))]
        columns += list(policy.utilities)
    lines.append(",".join(names))
    for h, s, a in np.ndindex(policy.policy.shape):
        values = (float(column[h, s, a]) for column in columns)
        lines.append(",".join([str(h), str(s), str(a), *("" if np.isnan(x) else repr(x) for x in values)]))
    return ("\n".join(lines) + "\n").encode()


def _from_csv(data: bytes) -> tuple[dict[str, Any], dict[str, Float]]:
    first, second, *rows = data.decode().splitlines()
    if not first.startswith("# "):
        raise FileFormatError("its first line is not that of a policy")
    header, names = json.loads(first[2:]), second.split(",")
    shape = tuple(int(n) for n in header["shape"])
    table = np.full((len(names) - 3, *shape), np.nan)
    if len(rows) != np.prod(shape):
        raise FileFormatError(f"it has {len(rows)} rows; it must have {np.prod(shape)}")
    for place, row in zip(np.ndindex(shape), rows, strict=True):
        h, s, a, *values = row.split(",")
        if (int(h), int(s), int(a)) != place or len(values) != len(table):
            raise FileFormatError(f"the row {row!r} stands where that of {place} belongs")
        table[(slice(None), *place)] = [float(x) if x else np.nan for x in values]
    found = dict(zip(names[3:], table, strict=True))
    arrays = {"policy": found.pop("probability")}
    if "visits" in found:
        arrays["visits"] = found.pop("visits")
    if found:
        arrays["utilities"] = np.array([found[f"utility_{i}"] for i in range(len(found))])
    return header, arrays


def _as_npz(policy: Policy) -> bytes:
    buffer = io.BytesIO()
    text = json.dumps(policy._header(), allow_nan=False).encode()
    np.savez(buffer, allow_pickle=False, header=np.frombuffer(text, dtype=np.uint8), **policy._arrays())
    return buffer.getvalue()


def _from_npz(data: bytes) -> tuple[dict[str, Any], dict[str, Float]]:
    with np.load(io.BytesIO(data), allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    return json.loads(arrays.pop("header").tobytes()), arrays


def _as_c(policy: Policy) -> bytes:
    """Cumulated probabilities as hexadecimal floats; what cannot be drawn has a sum that nothing is below."""
    H, S, A = policy.policy.shape
    note = json.dumps(policy._header()["provenance"], allow_nan=False).replace("*/", "* /")
    lines = [
        f"/* A policy of flexdome: {note} */",
        "#ifndef FLEXDOME_POLICY_H",
        "#define FLEXDOME_POLICY_H",
        f"enum {{ FLEXDOME_STEPS = {H}, FLEXDOME_STATES = {S}, FLEXDOME_ACTIONS = {A} }};",
        f"static const double flexdome_cumulated[{H}][{S}][{A}] = {{",
    ]
    for h in range(H):
        rows = (", ".join(float(x).hex() for x in _cumulated(row)) for row in policy.policy[h])
        lines.append("  {" + ",\n   ".join("{" + row + "}" for row in rows) + "},")
    lines += [
        "};",
        "/* The action at step h in state s for a uniform number u in [0, 1); -1 where there is none such. */",
        "static int flexdome_act(int h, int s, double u) {",
        "  int a;",
        "  if (h < 0 || h >= FLEXDOME_STEPS || s < 0 || s >= FLEXDOME_STATES) return -1;",
        "  for (a = 0; a < FLEXDOME_ACTIONS - 1; ++a)",
        "    if (u < flexdome_cumulated[h][s][a]) return a;",
        "  return a;",
        "}",
        "#endif",
    ]
    return ("\n".join(lines) + "\n").encode()


def _cumulated(pi: Float) -> Float:
    """What :func:`draw_action` compares with: -1 where pi is 0, and 2 from the last action that can be drawn."""
    sums, total = np.full(pi.size, -1.0), 0.0
    for a, p in enumerate(pi.tolist()):
        if p > 0.0:
            total += p
            sums[a] = total
    sums[np.flatnonzero(pi)[-1] :] = 2.0
    return sums


FORMATS: Mapping[str, Callable[[Policy], bytes]] = {".json": _as_json, ".csv": _as_csv, ".npz": _as_npz, ".h": _as_c}
READERS: Mapping[str, Callable[[bytes], tuple[dict[str, Any], dict[str, Float]]]] = {
    ".json": _from_json,
    ".csv": _from_csv,
    ".npz": _from_npz,
}
