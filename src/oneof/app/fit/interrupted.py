"""What an interrupted training was going to do."""

from __future__ import annotations

import json
from pathlib import Path


def epochs_of_run(folder: Path) -> int | None:
    """The number of epochs a run folder was started with, where it says so."""
    try:
        found = json.loads((folder / "config.json").read_text(encoding="utf-8"))["recipe"]["epochs"]
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return found if isinstance(found, int) and found > 0 else None
