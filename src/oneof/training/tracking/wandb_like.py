"""One adapter for every tracker that speaks wandb's language: `init`, `log`, `finish`."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from oneof.training.tracking.tracker import scalars


class WandbLike:
    """Logs to wandb, trackio or another module with the same three functions.

    Parameters
    ----------
    module : str
        Name of the module to import.
    project, name : str
        Where the run is filed.
    options
        Passed to `init` as they are, such as `mode="offline"`.
    """

    def __init__(
        self, module: str = "wandb", project: str = "oneof", name: str | None = None, **options: Any
    ) -> None:
        try:
            self.module: Any = importlib.import_module(module)
        except ImportError as error:
            raise ImportError(
                f"{module} is not installed.\n  Install it with: pip install 'oneof[track-{module}]'"
            ) from error
        self.settings = {"project": project, "name": name, **options}
        self.run: Any = None

    def start(self, config: Mapping[str, Any]) -> None:
        self.run = self.module.init(config=dict(config), **self.settings)

    def log(self, row: Mapping[str, Any]) -> None:
        self.module.log(scalars(row), step=int(row["epoch"]))

    def finish(self, summary: Mapping[str, Any]) -> None:
        if self.run is None:
            return
        kept = getattr(self.run, "summary", None)  # wandb has one, trackio has not
        if kept is not None:
            kept.update(scalars(summary))
        self.module.finish()
        self.run = None
