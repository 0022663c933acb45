"""A run is a folder: its configuration, its metrics, its checkpoints and a lock."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from filelock import FileLock, Timeout
from safetensors import SafetensorError
from torch import Tensor, nn

import oneof
from oneof.tables.files import (
    DamagedError,
    digest_of,
    only_plain_entries,
    read_sealed,
    sealed_json,
    sha256_of,
    why_not_written,
    write_text,
)
from oneof.training.checkpoint import content_bytes, load_tree, save_tree
from oneof.views import RowItself

if TYPE_CHECKING:
    from oneof.methods.base import Method
    from oneof.training.ongoing import OngoingTraining

PATIENCE = 2.0
"""Seconds to wait for another process that holds the folder: it may be about to end."""
AFRESH = "Choose another folder, or delete this one to start afresh."
CONTENTS = "contents"
"""The entry of a configuration with the digest of everything that is learned from or judged by."""

EARLIER = ("views", "method", "recipe", "net", "inputs", "candidates", "clean", "versions")
"""All entries of version 0.1.0, which wrote no digests."""
METRICS = "metrics.jsonl"
CODES: dict[Any, dict[str, str]] = {}
"""The code of each class, as it was when it was first asked for: no process imports its file again."""
VERSIONS = {"oneof": oneof.__version__, "torch": torch.__version__, "numpy": np.__version__}


class RunError(RuntimeError):
    """A run folder that cannot be continued. The message says why and what to do."""


class Run:
    """`config.json`, `metrics.jsonl` (append-only), `checkpoint/last.safetensors`, `lock`, `done`.

    A run that was interrupted continues when it is started again with the same configuration, and
    gives the same numbers as one that was not. Configuration and checkpoints have digests; the checkpoint
    before the last is kept, and continued from where the last is damaged. `metrics.jsonl` is for people
    and trackers: a run that continues writes it again from its checkpoint.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.config_file = self.folder / "config.json"
        self.checkpoint_file = self.folder / "checkpoint" / "last.safetensors"
        self.previous_file = self.folder / "checkpoint" / "previous.safetensors"
        self.metrics_file = self.folder / METRICS
        self.lock = FileLock(self.folder / "lock")
        self.config: dict[str, Any] = {}

    @property
    def done(self) -> bool:
        return (self.folder / "done").exists()

    def start(self, config: dict[str, Any]) -> dict[str, Any] | None:
        """Claim the folder for this configuration; returns the checkpoint to continue from, if any."""
        self.config = json.loads(json.dumps(config))
        with self._told("the run cannot be started"):
            for folder in (self.folder, self.folder / "checkpoint"):
                only_plain_entries(folder, error=RunError)
            self.checkpoint_file.parent.mkdir(parents=True, exist_ok=True)
            self._claim()
            try:
                return self._continued()
            except BaseException:
                self.release()
                raise

    def release(self) -> None:
        """Let others have the folder. A process that is killed needs no such farewell."""
        self.lock.release()

    def _claim(self) -> None:
        try:
            self.lock.acquire(timeout=PATIENCE)
        except Timeout:
            raise RunError(
                f"another process is training in {self.folder}.\n"
                "  Wait until it has ended and start again, or choose another folder."
            ) from None
        except NotImplementedError:  # a file system without locks
            warnings.warn(f"{self.folder} cannot be locked: let no other process train there.", stacklevel=6)

    def _continued(self) -> dict[str, Any] | None:
        stored, damage = self._stored_config()
        # a folder with digests has them in every checkpoint; only one of an earlier version has none
        checkpoint = self._newest(needs_digest=damage is not None or CONTENTS in (stored or {}))
        if stored is None and checkpoint is not None:
            stored = checkpoint.get("config")
            if stored is None:
                why = damage or f"{self.config_file} is missing, so it is not known what was trained here."
                raise RunError(f"{why}\n  {AFRESH}")
        elif damage is not None:
            raise RunError(f"{damage}\n  There is no checkpoint to restore it from. {AFRESH}")
        if stored is not None:
            self._compare(stored, self.folder)
        if checkpoint is not None and "config" in checkpoint:  # it may have been copied from another run
            self._compare(checkpoint["config"], self.checkpoint_file)
        if damage is not None:
            warnings.warn(f"{damage}\n  It was restored from the checkpoint.", stacklevel=5)
        if checkpoint is not None and stored is not None and CONTENTS not in stored:
            self.save(checkpoint)  # of an earlier version: from now on with a digest
        if damage is not None or stored is None or CONTENTS not in stored:
            write_text(self.config_file, sealed_json(self.config, indent=2))
        # epochs that were logged after the checkpoint will be run, and logged, again
        history = [] if checkpoint is None else checkpoint["history"]
        write_text(self.metrics_file, "".join(json.dumps(row) + "\n" for row in history))
        return checkpoint

    def _stored_config(self) -> tuple[dict[str, Any] | None, str | None]:
        """The configuration of the folder, if it has one; and what is wrong with it, if anything is."""
        if not self.config_file.exists():
            return None, None
        try:
            return read_sealed(self.config_file.read_bytes(), self.config_file, plain=EARLIER), None
        except DamagedError as error:
            return None, str(error)

    def _newest(self, needs_digest: bool) -> dict[str, Any] | None:
        """The last checkpoint; where it is damaged, or a kill left none, the one before."""
        damage: DamagedError | None = None
        for file in (self.checkpoint_file, self.previous_file):
            if not file.exists():
                continue
            try:
                found = load_tree(file, needs_digest)
                if not isinstance(found, dict) or not isinstance(found.get("history"), list):
                    raise DamagedError(f"{file} is damaged: it holds no checkpoint of a training.")
            except DamagedError as error:
                damage = error
                continue
            if damage is not None:
                warnings.warn(f"{damage}\n  The run continues from the checkpoint before it.", stacklevel=6)
            # only one that was read without fault takes the place of another
            os.replace(file, self.checkpoint_file)
            return found
        if damage is None:
            return None
        raise RunError(
            f"{damage}\n  There is no other checkpoint to continue from: "
            f"delete {self.checkpoint_file.parent} to train from the beginning."
        ) from damage

    def _compare(self, there: dict[str, Any], place: Path) -> None:
        """Refuse to continue with what another configuration has left in this place."""
        wanted = self.config
        # an earlier version wrote no digests of rows: what it did write is compared
        names = there.keys() | wanted.keys() if CONTENTS in there else there.keys()
        changed = [key for key in sorted(names - {"versions"}) if there.get(key) != wanted.get(key)]
        if not changed:
            return
        key = changed[0]
        old, new = there.get(key), wanted.get(key)
        if isinstance(old, dict) and isinstance(new, dict):  # only what differs
            differ = sorted(k for k in old.keys() | new.keys() if old.get(k) != new.get(k))
            old, new = ({k: part.get(k) for k in differ} for part in (old, new))
            if key == CONTENTS:
                key = " and other ".join(differ)
                raise RunError(
                    f"{place} holds a run with other {key}: their digests are\n"
                    f"  there:  {old}\n  wanted: {new}\n"
                    f"  A run continues with what it was started with. {AFRESH}"
                )
        raise RunError(
            f"{place} holds a run with another {key}:\n  there:  {old}\n  wanted: {new}\n  {AFRESH}"
        )

    def log(self, row: dict[str, Any]) -> None:
        with (
            self._told("the metrics cannot be written"),
            open(self.metrics_file, "a", encoding="utf-8") as file,
        ):
            file.write(json.dumps(row) + "\n")

    def save(self, checkpoint: dict[str, Any]) -> None:
        with self._told("the checkpoint cannot be written"):
            new = self.checkpoint_file.with_name("next.safetensors")
            save_tree(new, {**checkpoint, "config": self.config})
            if self.checkpoint_file.exists():
                os.replace(self.checkpoint_file, self.previous_file)
            os.replace(new, self.checkpoint_file)

    def finish(self, summary: dict[str, Any]) -> None:
        with self._told("the end of the run cannot be written"):
            write_text(self.folder / "done", json.dumps(summary, indent=2, sort_keys=True) + "\n")

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        """What the system refuses becomes a `RunError`."""
        try:
            yield
        except (OSError, SafetensorError) as error:
            raise RunError(
                f"{self.folder}: {what}: {why_not_written(error)}\n"
                "  Started again with this folder, the run continues from its last checkpoint."
            ) from error


# ---- what makes a training the one it is: with another one a folder is not continued ----------


def identity(training: OngoingTraining) -> dict[str, Any]:
    """Method, recipe, network, views and all rows, as plain values."""
    recipe, given, views = asdict(training.recipe), training.given, training.given.views
    # where, how safely and how fast, not what
    for name in ("device", "workers", "checkpoint_every", "speed", "max_seconds"):
        recipe.pop(name)
    divided = {"shards": training.shards.count, "sync_batch_norm": recipe.pop("sync_batch_norm")}
    recipe.pop("shards")  # the same training, whether by one process or by many
    if training.shards.count > 1:
        recipe |= divided
    recipe["precision"] = str(training.speed.precision or training.dtype).removeprefix("torch.")
    describe = getattr(views, "describe", None)
    seen = {} if isinstance(views, RowItself) else {"views": describe() if describe else type(views).__name__}
    return seen | {
        "method": {"name": training.method.info.name, **training.method.params()},
        "recipe": recipe,
        "net": training.net_text,
        "inputs": training.rows.digest(),
        "candidates": {"rows": len(given.candidates), "hash": given.candidates.hash},
        "clean": None if given.clean is None else [len(given.clean), given.clean.source],
        CONTENTS: contents(training),
        "versions": VERSIONS,
    }


def code_of(method: Method) -> dict[str, str]:
    """Of a method that is not ours, a digest of its file: with other code its jobs are others."""
    name = type(method).__module__
    file: Any = getattr(sys.modules.get(name), "__file__", None)
    foreign = file and name.partition(".")[0] != "oneof"
    return CODES.setdefault(type(method), {"code": sha256_of(file)[:16]} if foreign else {})


def contents(training: OngoingTraining) -> dict[str, str | None]:
    """A digest of everything with numbers, by the name an error calls it; None where there is nothing."""
    clean, test, answers = training.clean, training.test, training.given.candidates.answers
    found = {
        "features": training.rows.content(),
        "true labels": digest_tensors(training.truth),
        "clean rows": digest_tensors(clean.x, clean.mask),
        "rows to select by": None,
        "test rows": None,
        "weights of the network": training.given_weights,
    }
    if training.given.selection is not None:
        found["rows to select by"] = digest_tensors(*(training.selection or ()))
    if test is not None:
        labels = bytearray(repr(np.asarray(test[1]).tolist()).encode())  # of any kind
        found["test rows"] = digest_tensors(test[0], torch.frombuffer(labels, dtype=torch.uint8))
    if answers is not None:
        said = (answers.row, answers.worker, answers.label)
        found["answers"] = digest_tensors(*(torch.from_numpy(part.copy()) for part in said))
    if type(training.method).__module__ != "__main__" and (code := code_of(training.method)):
        found["code of the method"] = code["code"]  # but a script is changed for many reasons
    return found


def digest_tensors(*tensors: Tensor | None) -> str | None:
    """One short digest of types, shapes and numbers; None where one of them is missing."""
    known = [tensor for tensor in tensors if tensor is not None]
    parts = ((f"{t.dtype} {tuple(t.shape)}".encode(), content_bytes(t)) for t in known)
    return digest_of(chain.from_iterable(parts))[:16] if len(known) == len(tensors) else None


def digest_weights(net: nn.Module) -> str | None:
    """Of a network as it is now."""
    return digest_tensors(*net.state_dict().values())
