"""A choice on a cluster: the trainings of a round at once, on many machines (`cluster=`, extra `cluster`).

What a contender says about a fold is the same wherever it is trained, so the choice is that of one machine.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from oneof.classifier.fold_files import FoldFiles
from oneof.training.cluster import Cluster, ClusterError

if TYPE_CHECKING:
    from oneof.classifier.choice import Comparison
    from oneof.classifier.contenders import ChoiceData, Contender


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
                cluster.call((contender.name, number), _opinion, shared, bare, number, rows)
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


def _opinion(comparison: Comparison, contender: Contender, number: int, data: ChoiceData) -> list[np.ndarray]:
    return comparison.opinion(contender, number, data)
