"""The one decorator under which kernels are compiled, and the cache that can never be stale.

Numba's ``cache=True`` looks at the source file of the decorated function only: after an edit to a callee in
another module it goes on serving the old machine code. Here the cache directory's name is a hash of *every*
kernel source and of the compiler's versions, so any edit starts a new one. A package from elsewhere may use the
decorator too; the name of its directory is a hash of ours and of every source in it.

Nor is the cache believed for its name. Its files end in a checksum (unpickling stops before it); an entry that is
empty, cut or changed is dropped and compiled again, and where nothing can be written, kernels are compiled and not
kept. Either is said once, in the log. Processes that compile side by side write one after the other: Numba numbers the
data of a kernel's variants by what its index has, and two that look at once would take one number for two.
"""

from __future__ import annotations

import hashlib
import io
import logging
import os
import re
import stat
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import llvmlite
import numba
import numpy as np
from numba.core import config
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile, UserProvidedCacheLocator

from flexdome.kernels.switches import Compiler

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

__all__ = ["cache_directory", "kernel", "kernel_sources"]

USES = re.compile(rb"^\s*(?:from|import)\s+flexdome\.kernels(?:\.jit\b|\s+import\s.*\bjit\b)", re.MULTILINE)
SHA256 = 32  # bytes

log = logging.getLogger(__name__)


def kernel_sources():
    """All files that machine code is made of: this folder's, and any of the package's that imports the decorator."""
    here = Path(__file__).parent
    return [path for path in sorted(here.parent.rglob("*.py")) if path.parent == here or USES.search(path.read_bytes())]


def _package_of(path):
    """The outermost package that a source file is in, or the file itself where it is in none."""
    package = Path(path).resolve()
    while (package.parent / "__init__.py").is_file():
        package = package.parent
    return package


@cache
def _fingerprint(other=None):
    """Hash of all kernel sources and of the versions that turn them into machine code; also of ``other``, a package."""
    digest = hashlib.sha256()
    for version in (numba.__version__, llvmlite.__version__, np.__version__):
        digest.update(version.encode() + b"\0")
    sources = [(Path(__file__).parents[1], kernel_sources())]
    if other is not None:
        sources.append((other.parent, sorted(other.rglob("*.py")) if other.is_dir() else [other]))
    for folder, paths in sources:
        for path in paths:
            data = path.read_bytes()
            digest.update(f"{path.relative_to(folder).as_posix()}\0{len(data)}\0".encode() + data)
    return digest.hexdigest()[:16]


@cache
def _say(text):
    """Once in a process: what ails one kernel's cache mostly ails all."""
    log.warning("flexdome: %s", text)


def _not_kept(directory, error):
    reason = getattr(error, "strerror", None) or error
    _say(f"compiled kernels cannot be kept in {directory} ({reason}); every process compiles its own")


@cache
def cache_directory(other=None):
    """Where compiled kernels (of the package ``other``) are kept, or None where no directory can be written."""
    base = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME")
    directory = Path(base or "~/.cache") / "flexdome" / f"kernels-{_fingerprint(other)}"
    try:
        directory = directory if base else directory.expanduser()
        directory.mkdir(parents=True, exist_ok=True)
        if not os.access(directory, os.W_OK):
            raise PermissionError("it is not ours to write")
    except (OSError, RuntimeError) as error:  # expanduser: there is no home
        _not_kept(directory, error)
        return None
    return directory


class _CheckedFile(IndexDataCacheFile):
    """Index and data of a kernel, in files that end in a checksum of what is before."""

    @contextmanager
    def _open_for_write(self, filepath):
        buffer = io.BytesIO()
        yield buffer
        data = buffer.getvalue()
        with super()._open_for_write(filepath) as file:
            file.write(data + hashlib.sha256(data).digest())

    def _load_index(self):
        if os.path.lexists(self._index_path):
            _check(self._index_path)
        return super()._load_index()

    def _load_data(self, name):
        _check(self._data_path(name))
        return super()._load_data(name)

    def drop(self):
        """Forget all that is kept of the kernel; data files without an index are written over."""
        with suppress(FileNotFoundError):
            os.unlink(self._index_path)


def _check(path):
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError(f"{path} is not a regular file")
        data = file.read()
    if hashlib.sha256(data[:-SHA256]).digest() != data[-SHA256:]:
        raise ValueError(f"{path} is damaged")


@contextmanager
def _alone(folder):
    """One process at a time writes kernels to ``folder``, where the system has locks."""
    if fcntl is None:
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


class _OurPlace(CompileResultCacheImpl):
    _locator_classes = [UserProvidedCacheLocator]  # noqa: RUF012 (numba's own: elsewhere no hash is in the name)


class _CheckedCache(FunctionCache):
    """A kernel's cache, whose damage costs a compilation and nothing else."""

    _impl_class = _OurPlace

    def __init__(self, function):
        super().__init__(function)
        known = self._cache_file
        self._cache_file = _CheckedFile(self._cache_path, self._impl.filename_base, known._source_stamp)

    def load_overload(self, sig, target_context):
        """The compiled kernel, or None where there is none that is whole."""
        try:
            return super().load_overload(sig, target_context)
        except Exception as error:  # noqa: BLE001 (no closed list of what bytes of any kind make unpickling raise)
            _say(f"the cache of compiled kernels is damaged ({error}); what is damaged is compiled again")
        try:
            self._cache_file.drop()
        except OSError as error:
            self._give_up(error)
        return None

    def save_overload(self, sig, data):
        """Keep a compiled kernel, if that is possible."""
        try:
            with _alone(Path(self._cache_path)):
                super().save_overload(sig, data)
        except (OSError, ValueError) as error:
            self._give_up(error)

    def _give_up(self, error):
        _not_kept(self._cache_path, error)
        self.disable()


def kernel(function=None, *, inline=False):
    """Compile ``function`` on first use: nopython, no GIL, IEEE arithmetic in the order it is written.

    ``inline`` copies it into its callers: a call counts references to every array it is given, atomically. With
    ``True`` Numba copies, before types are known; that takes as long as blocks times variables, anew at every level.
    With ``"late"`` LLVM does, and the function is compiled by itself, once: for the large ones.
    """
    if function is None:
        return lambda function: kernel(function, inline=inline)
    compiled = numba.njit(
        nogil=True,
        error_model="numpy",
        inline="always" if inline is True else "never",
        forceinline=inline == "late",
        pipeline_class=Compiler,
    )(function)
    package = _package_of(function.__code__.co_filename)
    directory = cache_directory(None if package == Path(__file__).resolve().parents[1] else package)
    if directory is None or compiled is function:  # the latter with NUMBA_DISABLE_JIT
        return compiled
    before = config.CACHE_DIR
    config.CACHE_DIR = str(directory)  # read while the cache is made; ours alone
    try:
        compiled._cache = _CheckedCache(function)
    except (RuntimeError, OSError) as error:  # numba finds no place
        _not_kept(directory, error)
    finally:
        config.CACHE_DIR = before
    return compiled
