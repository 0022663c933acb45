"""A run is a folder: its configuration, its metrics, its checkpoint and, at the end, its model."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from oneof.training.checkpoint import load_tree, save_tree, write_json


class RunError(RuntimeError):
    """A run folder that cannot be continued. The message says why and what to do."""


class Run:
    """`config.json`, `metrics.jsonl` (append-only), `checkpoint/last.safetensors`, `done`.

    A run that was interrupted continues when it is started again with the same configuration, and
    gives the same numbers as one that was not.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.checkpoint_file = self.folder / "checkpoint" / "last.safetensors"
        self.metrics_file = self.folder / "metrics.jsonl"

    @property
    def done(self) -> bool:
        return (self.folder / "done").exists()

    def start(self, config: dict[str, Any]) -> dict[str, Any] | None:
        """Claim the folder for this configuration; returns the checkpoint to continue from, if any."""
        self.checkpoint_file.parent.mkdir(parents=True, exist_ok=True)
        config = json.loads(json.dumps(config))
        config_file = self.folder / "config.json"
        if config_file.exists():
            self._compare(json.loads(config_file.read_text(encoding="utf-8")), config)
        else:
            write_json(config_file, config)
        if not self.checkpoint_file.exists():
            self.metrics_file.write_text("", encoding="utf-8")
            return None
        checkpoint = load_tree(self.checkpoint_file)
        # epochs that were logged after the checkpoint will be run, and logged, again
        lines = "".join(json.dumps(row) + "\n" for row in checkpoint["history"])
        self.metrics_file.write_text(lines, encoding="utf-8")
        return checkpoint

    def _compare(self, there: dict[str, Any], wanted: dict[str, Any]) -> None:
        changed = [
            key
            for key in sorted(there.keys() | wanted.keys())
            if key != "versions" and there.get(key) != wanted.get(key)
        ]
        if changed:
            key = changed[0]
            old, new = there.get(key), wanted.get(key)
            if isinstance(old, dict) and isinstance(new, dict):  # only what differs
                differ = sorted(k for k in old.keys() | new.keys() if old.get(k) != new.get(k))
                old, new = ({k: part.get(k) for k in differ} for part in (old, new))
            raise RunError(
                f"{self.folder} holds a run with another {key}:\n  there:  {old}\n"
                f"  wanted: {new}\n"
                "  Choose another folder, or delete this one to start afresh."
            )

    def log(self, row: dict[str, Any]) -> None:
        with open(self.metrics_file, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    def save(self, checkpoint: dict[str, Any]) -> None:
        save_tree(self.checkpoint_file, checkpoint)

    def finish(self, summary: dict[str, Any]) -> None:
        write_json(self.folder / "done", summary)
