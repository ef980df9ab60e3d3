"""What a process computes with: versions, and a fingerprint of flexdome's own sources.

The text of this module is sent to the workers of a cluster and executed there, whatever Python they run and whether or
not they have flexdome; so it needs the standard library alone, and nothing of it is believed for being installed.

Code that was edited after a worker loaded it is not the code that the worker runs. ``LOADED`` is therefore taken when
this module is imported, with the others that compute runs, and a worker whose files have changed since says so.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import sys
from pathlib import Path

__all__ = ["LOADED", "fingerprint", "installed"]

BENCH = "bench"  # of a wheel: benchmarks, which no result depends on
PACKAGES = ("numpy", "scipy", "numba", "llvmlite", "highspy")  # whose versions results depend on


def fingerprint(folder: Path, without: str = "") -> str:
    """Sixteen hexadecimal digits, from the names and contents of all Python files under ``folder`` (or of one file).

    ``without`` is a folder in it that does not count.
    """
    digest = hashlib.sha256()
    alone = folder.is_file()
    for path in [folder] if alone else sorted(folder.rglob("*.py")):
        name = path.name if alone else path.relative_to(folder).as_posix()
        if without and name.startswith(without + "/"):
            continue
        data = path.read_bytes()
        digest.update(f"{name}\0{len(data)}\0".encode() + data)
    return digest.hexdigest()[:16]


LOADED = fingerprint(Path(__file__).parents[1], BENCH) if "__file__" in globals() else ""


def installed() -> dict[str, str]:
    """Versions by name; ``sources`` is the fingerprint of flexdome, of what is loaded and of what is on disk."""
    versions = {"python": "{}.{}".format(*sys.version_info)}
    for name in PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except Exception as error:  # noqa: BLE001 (a broken installation may raise anything; it is told, not hidden)
            versions[name] = _missing(error)
    try:
        importlib.import_module("flexdome.experiments.worker")
        package = sys.modules["flexdome"]
        versions["flexdome"] = str(getattr(package, "__version__", "without a version"))
        loaded = getattr(sys.modules.get("flexdome.experiments.installation"), "LOADED", "without a fingerprint")
        disk = fingerprint(Path(str(package.__file__)).parent, BENCH)
        versions["sources"] = disk if loaded == disk else f"{disk} on disk, {loaded} loaded"
    except Exception as error:  # noqa: BLE001 (as above)
        versions["flexdome"] = _missing(error)
    return versions


def _missing(error: Exception) -> str:
    return "none ({}: {})".format(type(error).__name__, (str(error).splitlines() or [""])[0])
