"""Between what users pass as X and the logits: scaling, views, the network, and asking it in batches."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from scipy.sparse import issparse
from sklearn.utils.validation import validate_data
from torch import nn
from torch.nn.parameter import is_lazy

from oneof.candidates.cells import short
from oneof.classifier.inputs import as_numpy
from oneof.classifier.settings import EstimatorSettings
from oneof.datasets.scaling import Scaling
from oneof.nets import Net, as_net, build_net
from oneof.nets.tabular import layer_sizes
from oneof.tables.encoding import TableEncoder
from oneof.training.recipe import choose_device
from oneof.training.sources import EVALUATION_BATCH, ROWS_IN_CACHE, StoredRows, in_batches, stay_in_file
from oneof.views import ImageViews, RowItself, Views

DENSE_LIMIT = 8 << 30
"""Bytes that a sparse matrix may take as an array."""


class NetworkPart(EstimatorSettings):
    """The part of `PartialLabelClassifier` that knows its inputs and its network."""

    classes_: np.ndarray
    net_: tuple[nn.Module, ...]
    scaling_: Scaling | None
    input_shape_: tuple[int, ...]

    def _inputs(self, X: Any, reset: bool) -> np.ndarray:
        encoder, columns = getattr(self, "encoder_", None), set(getattr(X, "columns", ()))
        if encoder is not None:
            missing = [name for name in encoder.column_names if name not in columns]
            if not missing:
                X = encoder.transform(X)
                if not reset:
                    return X  # checked by the encoder, which knows the names of its columns
            elif len(missing) < len(encoder.column_names) and not columns.issuperset(encoder.feature_names):
                raise ValueError(f"X lacks columns that the model was fitted on: {short(missing, 20)}.")
        X = dense(as_numpy(X))
        # features are scaled in double precision: in single, a column of time stamps would lose its digits
        table = getattr(X, "ndim", 2) == 2
        dtype: Any = [np.float64, np.float32] if table else [np.float32, np.uint8]
        X = validate_data(self, X, reset=reset, dtype=dtype, order="C", allow_nd=self.takes_more_than_tables)
        if reset:
            self.input_shape_ = tuple(map(int, X.shape[1:]))
        elif X.shape[1:] != getattr(self, "input_shape_", X.shape[1:]):
            raise ValueError(
                f"X has rows of shape {X.shape[1:]}, but the model was fitted on {self.input_shape_}."
            )
        return X

    def _fitted_scaling(self, X: np.ndarray | StoredRows) -> Scaling | None:
        if X.ndim != 2 and not (X.ndim == 4 and X.dtype == np.uint8):
            return None
        kind = self.scaling if X.ndim == 2 else "pixels"
        if isinstance(X, StoredRows):
            return Scaling.fit_blocks(X.split(X.block), kind)
        return Scaling.fit(X, kind)

    def _views(self) -> Views:
        """What the network sees of a row in training."""
        scaling = self.scaling_
        if scaling is None or scaling.kind != "pixels":
            return RowItself()
        _, height, width = self.input_shape_
        mean, std = (scaling.shift / 255).tolist(), (scaling.scale / 255).tolist()
        if self.augment == "none":
            return ImageViews(mean, std, policy="none", cutout=0, pad=0, flip=False)
        return ImageViews(mean, std, cutout=min(height, width) // 2, pad=min(height, width) // 8)

    def prepare(self, X: Any) -> Any:
        """Checked inputs as the network takes them: tables scaled, images still bytes."""
        if isinstance(X, StoredRows):
            return StoredRows(X.x, self.prepare, X.rows)
        if self.scaling_ is not None and self.scaling_.kind == "pixels":
            return X
        if self.scaling_ is None:
            return np.ascontiguousarray(X, dtype=np.float32)
        with np.errstate(over="ignore"):
            x = self.scaling_.apply(X)
        if not np.isfinite(x).all():
            i, k = np.argwhere(~np.isfinite(x))[0]
            raise ValueError(
                f"X[{i}, {k}] = {X[i, k]} is too large for float32, the precision of the network."
            )
        return x

    def _make_net(self, x: np.ndarray) -> Net:
        """A new net for scaled inputs."""
        if isinstance(self.net, str):
            inputs = x.shape[1] if x.ndim == 2 else tuple(x.shape[1:])
            return build_net(self.net, inputs, len(self.classes_), **self.net_options())
        example = self._views().plain(torch.from_numpy(x[:2]))
        net = self.net
        if callable(net) and not isinstance(net, nn.Module):
            net = net(x.shape[1] if x.ndim == 2 else tuple(x.shape[1:]), len(self.classes_))
        return as_net(net, example, n_classes=len(self.classes_))

    def _net_or_maker(self, x: np.ndarray) -> Net | Callable[[], Net]:
        """What `train` gets: a network with weights of its own as it is, else how to make one once seeded."""
        parts = self.net if isinstance(self.net, tuple | list) else [self.net]
        own = all(isinstance(part, nn.Module) for part in parts)
        if own and not any(is_lazy(p) for part in parts for p in part.parameters()):
            return self._make_net(x)
        return lambda: self._make_net(x)

    def _present_net(self, x: np.ndarray) -> nn.Module:
        """A copy of the network of the fit before, as it is."""
        net = self.net_[0]
        if isinstance(self.net, str):
            with torch.device("meta"):  # takes no memory and draws nothing
                wanted = self._make_net(x)
            shapes = [{name: value.shape for name, value in n.state_dict().items()} for n in (net, wanted)]
            if shapes[0] != shapes[1]:
                raise ValueError(
                    "warm_start goes on with the network of the fit before, but net, hidden or batch_norm "
                    f"ask for another one ({self.net}).\n  Set them back, or fit with warm_start=False."
                )
        return deepcopy(net)

    def net_options(self) -> dict[str, Any]:
        if self.net != "mlp":
            return {}
        return {"hidden": layer_sizes(self.hidden), "batch_norm": bool(self.batch_norm)}

    def prepared_proba(self, x: Any) -> np.ndarray:
        """Class probabilities of inputs that went through `prepare`."""
        device = choose_device(self.device)
        nets = [net.to(device) for net in self.net_]
        dtype = next((p.dtype for p in nets[0].parameters()), torch.float32)

        def probabilities(batch: torch.Tensor) -> torch.Tensor:
            logits = torch.stack([net(batch.to(dtype)) for net in nets]).mean(dim=0)
            return logits.double().softmax(dim=-1).cpu()

        size = EVALUATION_BATCH if device.type == "cuda" else ROWS_IN_CACHE if x.ndim == 2 else 256
        made = in_batches(probabilities, x, views=self._views(), modules=nets, device=device, size=size)
        return made.numpy()

    def _raw_probabilities(self, X: Any) -> np.ndarray:
        return self.prepared_proba(self.prepare(stay_in_file(X, self._inputs(X, reset=False))))


def dense(X: Any) -> Any:
    """A sparse matrix as an array, if there is room for it; the rest as it is."""
    if not issparse(X):
        return X
    if X.shape[0] * X.shape[1] * 8 > DENSE_LIMIT:
        raise ValueError(
            f"X is sparse, and as an array of {X.shape[0]:,} rows and {X.shape[1]:,} columns it would take "
            f"more than {DENSE_LIMIT >> 30} GiB.\n  Reduce it first: sklearn.decomposition.TruncatedSVD(300)."
        )
    return X.toarray()


def encoder_for(X: Any) -> TableEncoder | None:
    """How a data frame with texts, categories or gaps becomes features; None where X is numbers already."""
    if not hasattr(X, "columns") or not len(X):
        return None
    for name in X.columns:
        column = np.asarray(X[name])
        if column.dtype.kind not in "biuf" or (column.dtype.kind == "f" and np.isnan(column).any()):
            return TableEncoder.fit(X)
    return None
