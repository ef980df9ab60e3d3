"""The description of a built package: the README without links to files, since a package's page has none beside it.

Where pyproject.toml names the repository (``Source`` among the project's URLs), such links lead there.
"""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


def absolute(text: str, source: str | None) -> str:
    """Links to files as links into the repository ``source``: pictures to their bytes, other files to their pages.

    Where ``source`` is None, their words alone.
    """

    def link(found: re.Match[str]) -> str:
        if source is None:
            return found["words"]
        kind = "raw" if found["picture"] else "blob"
        return f"{found['picture']}[{found['words']}]({source}/{kind}/main/{found['path']})"

    return re.sub(r"(?P<picture>!?)\[(?P<words>[^\]]*)\]\((?!https?:|#)(?P<path>[^)]+)\)", link, text)


class Readme(MetadataHookInterface):
    """Fills in ``readme``, which pyproject.toml declares as dynamic."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Read the README, and leave no link in it to a file beside it."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": absolute(text, metadata.get("urls", {}).get("Source")),
        }
