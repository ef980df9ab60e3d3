"""One writer at a time in a folder, on every platform.

The right to write is a lock on the file ``.lock`` in the folder. It belongs to a process: the system gives it back
when the process ends, however it ends. The file stays.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from filelock import FileLock, Timeout

from flexdome.errors import FlexDOMEError, OutputError

__all__ = ["LOCK", "lock_folder"]

LOCK = ".lock"


def lock_folder(folder: Path) -> FileLock:
    """The right to write in ``folder``, until ``release()``; another process that has it makes this an error."""
    path = folder / LOCK
    try:
        if os.path.lexists(path) and not stat.S_ISREG(os.lstat(path).st_mode):
            raise OutputError(f"{path} cannot be written: it is not a regular file")
        lock = FileLock(path, timeout=0, thread_local=False)
        lock.acquire()
    except Timeout:
        raise FlexDOMEError(f"{folder} is being written by another process; wait for it or stop it") from None
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror or error}") from None
    return lock
