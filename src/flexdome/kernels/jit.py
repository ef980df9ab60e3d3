"""The one decorator under which kernels are compiled, and the cache that can never be stale.

Numba's ``cache=True`` looks at the source file of the decorated function only: after an edit to a callee in
another module it goes on serving the old machine code. Here the cache directory's name is a hash of *every*
kernel source and of the compiler's versions, so any edit starts a new one.
"""

from __future__ import annotations

import hashlib
import os
from functools import cache
from pathlib import Path

import llvmlite
import numba
import numpy as np
from numba.core import config

__all__ = ["cache_directory", "kernel"]


@cache
def _fingerprint():
    """Hash of all kernel sources and of the versions that turn them into machine code."""
    digest = hashlib.sha256()
    for version in (numba.__version__, llvmlite.__version__, np.__version__):
        digest.update(version.encode() + b"\0")
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


@cache
def cache_directory():
    """Where compiled kernels are kept, or None where no directory can be written."""
    base = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME")
    root = Path(base) if base else Path.home() / ".cache"
    directory = root / "flexdome" / f"kernels-{_fingerprint()}"
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return directory if os.access(directory, os.W_OK) else None


def kernel(function=None, *, inline=False):
    """Compile ``function`` on first use: nopython, no GIL, IEEE arithmetic in the order it is written.

    ``inline`` copies it into its callers: a call counts references to every array it is given, atomically. With
    ``True`` Numba copies, before types are known; that takes as long as blocks times variables, anew at every level.
    With ``"late"`` LLVM does, and the function is compiled by itself, once: for the large ones.
    """
    if function is None:
        return lambda function: kernel(function, inline=inline)
    directory = cache_directory()
    before = config.CACHE_DIR
    config.CACHE_DIR = "" if directory is None else str(directory)  # read while decorating; ours alone
    try:
        return numba.njit(
            cache=directory is not None,
            nogil=True,
            error_model="numpy",
            inline="always" if inline is True else "never",
            forceinline=inline == "late",
        )(function)
    finally:
        config.CACHE_DIR = before
