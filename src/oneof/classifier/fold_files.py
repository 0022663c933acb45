"""What a choice has found out so far, in the run folder: one file per contender and fold."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from oneof.candidates import Candidates
from oneof.classifier.baselines import KnownRows
from oneof.tables.errors import DataError
from oneof.tables.files import only_plain_entries, write_with
from oneof.tables.unpacking import stored_arrays


@dataclass(frozen=True)
class FoldFiles:
    """Out-of-fold probabilities by contender, settings, fold and data; nothing is kept without a folder."""

    folder: Path | None
    data: str

    @classmethod
    def of(
        cls, run: Any, x: np.ndarray, candidates: Candidates, clean: KnownRows | None, shared: str
    ) -> FoldFiles:
        """In a run's folder; `shared` names the settings and folds that all contenders have in common."""
        if run is None:
            return cls(None, "")
        digest = hashlib.sha256(shared.encode())
        digest.update(np.ascontiguousarray(x).data)
        digest.update(candidates.hash.encode())
        if clean is not None:
            digest.update(np.ascontiguousarray(clean.x).data)
            digest.update(clean.columns.tobytes())
        return cls(Path(run) / "choice", digest.hexdigest())

    def read(self, name: str, settings: dict[str, Any], fold: int) -> list[np.ndarray] | None:
        path = self._path(name, settings, fold)
        if path is None or not path.exists():
            return None
        only_plain_entries(path.parent, (path.name,))
        try:
            stored = stored_arrays(path)
        except DataError:
            return None  # damaged: it is made again
        if str(stored.pop("of", path.stem)) != path.stem:
            return None  # of another contender or fold
        return [stored[key] for key in sorted(stored)]

    def write(self, name: str, settings: dict[str, Any], fold: int, arrays: list[np.ndarray]) -> None:
        path = self._path(name, settings, fold)
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            named: dict[str, Any] = {"of": path.stem, **{f"p{i}": a for i, a in enumerate(arrays)}}
            write_with(path, lambda out: np.savez(out, **named))

    def _path(self, name: str, settings: dict[str, Any], fold: int) -> Path | None:
        if self.folder is None:
            return None
        key = repr((self.data, name, sorted(settings.items(), key=lambda item: item[0]), fold))
        return self.folder / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.npz"
