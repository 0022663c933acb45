"""What contenders of a choice have said elsewhere: in an earlier run, or on a cluster.

What a contender says about a fold is the same wherever and whenever it is trained. A run folder keeps it, one
file per contender and fold; a cluster has the trainings of a round at once (`cluster=`, extra `cluster`).
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from oneof.candidates import Candidates
from oneof.classifier.contenders import KnownRows
from oneof.tables.errors import DataError
from oneof.tables.files import only_plain_entries, write_with
from oneof.tables.unpacking import stored_arrays
from oneof.training.cluster import Cluster, ClusterError

if TYPE_CHECKING:
    from oneof.classifier.choice import Comparison
    from oneof.classifier.contenders import ChoiceData, Contender


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


# ---- on a cluster -----------------------------------------------------------------------------


def opinions_from_cluster(
    comparison: Comparison, wanted: Sequence[tuple[Contender, int]], data: ChoiceData
) -> Iterator[tuple[str, int, list[np.ndarray]]]:
    """Name, fold and opinions of contenders about folds of the data, as they are ready."""
    with Cluster(comparison.model.cluster) as cluster:
        shared, rows = cluster.share(_to_send(comparison)), cluster.share(data)
        left = iter(wanted)
        waiting = next(left, None)
        while waiting is not None or cluster.waiting:
            while waiting is not None and not cluster.full:
                contender, number = waiting
                bare = replace(contender, probabilities=np.zeros(0), clean_probabilities=np.zeros(0))
                opinion = type(comparison).opinion
                cluster.call((contender.name, number), opinion, shared, bare, number, rows)
                waiting = next(left, None)
            for (name, number), result in cluster.ready():
                if isinstance(result, ClusterError):
                    raise result
                yield name, number, result


def _to_send(comparison: Comparison) -> Any:
    """The comparison without what belongs to this machine."""
    sent = copy.copy(comparison)
    sent.model = clone(comparison.model).set_params(run=None, callbacks=None, verbose=False, cluster=None)
    sent.contenders, sent.files = [], FoldFiles(None, "")
    return sent
