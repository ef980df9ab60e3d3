"""The description of a built package: the README with absolute links, since a package's page has no files beside it."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


def absolute(text: str, source: str) -> str:
    """Links to files as links into the repository ``source``: pictures to their bytes, other files to their pages."""

    def link(found: re.Match[str]) -> str:
        kind = "raw" if found["picture"] else "blob"
        return f"{found['picture']}[{found['words']}]({source}/{kind}/main/{found['path']})"

    return re.sub(r"(?P<picture>!?)\[(?P<words>[^\]]*)\]\((?!https?:|#)(?P<path>[^)]+)\)", link, text)


class Readme(MetadataHookInterface):
    """Fills in ``readme``, which pyproject.toml declares as dynamic."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Read the README and make its links absolute."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": absolute(text, metadata["urls"]["Source"]),
        }
