"""Learning curves for TensorBoard: `tensorboard --logdir FOLDER`."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Mapping
from typing import Any

from oneof.training.tracking.tracker import scalars


class TensorBoardTracker:
    """Writes event files into a folder. Needs the extra `track-tensorboard`."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = os.fspath(folder)
        self.writer: Any = None
        try:
            importlib.import_module("tensorboard")  # a missing package is told now, not at the first epoch
        except ImportError as error:
            raise ImportError(
                "TensorBoard is not installed.\n  Install it with: pip install 'oneof[track-tensorboard]'"
            ) from error

    def start(self, config: Mapping[str, Any]) -> None:
        from torch.utils.tensorboard import SummaryWriter

        # epochs that an interrupted training logged after its checkpoint come again: the old ones are dropped
        self.writer = SummaryWriter(self.folder, purge_step=int(config.get("done", 0)))
        self.writer.add_text("config", _as_text(config))

    def log(self, row: Mapping[str, Any]) -> None:
        for name, value in scalars(row).items():
            self.writer.add_scalar(name, value, int(row["epoch"]))
        self.writer.flush()

    def finish(self, summary: Mapping[str, Any]) -> None:
        if self.writer is None:
            return
        self.writer.add_text("summary", _as_text(summary))
        self.writer.close()
        self.writer = None


def _as_text(facts: Mapping[str, Any]) -> str:
    """JSON, indented so that TensorBoard's Markdown shows it as it is."""
    text = json.dumps(dict(facts), indent=2, default=str, ensure_ascii=False)
    return "\n".join("    " + line for line in text.splitlines())
