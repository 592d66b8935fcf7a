"""Adds the runbook pages to the wheel, beside the command that shows them; hatchling runs this."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class WheelPages(BuildHookInterface):  # type: ignore[type-arg]
    """Maps ``runbooks/*.md`` to a folder of the package; an editable install reads the checkout instead."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the pages to what the wheel contains."""
        if version == "editable":
            return
        for page in sorted(Path(self.root, "runbooks").glob("*.md")):
            build_data["force_include"][str(page)] = f"burstctl/runbook/pages/{page.name}"
