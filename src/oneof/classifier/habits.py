"""What scikit-learn expects of an estimator beside fit and predict."""

from __future__ import annotations

from typing import Any

from oneof.candidates import Candidates
from oneof.candidates.cells import short


class ScikitHabits:
    """The part of `PartialLabelClassifier` that sets, copies, describes and continues it."""

    warm_start: bool
    method: Any
    method_params: dict[str, Any] | None
    classes_: Any
    net_: tuple[Any, ...]
    _takes_more_than_tables: bool

    def set_params(self, **params: Any) -> Any:
        """As everywhere in scikit-learn; `method_params__alpha` sets one hyper-parameter of the method."""
        start = "method_params__"
        own = {name.removeprefix(start): params.pop(name) for name in list(params) if name.startswith(start)}
        super().set_params(**params)  # type: ignore[misc]
        if own:
            self.method_params = {**(self.method_params or {}), **own}
        return self

    def continues(self, candidates: Candidates) -> bool:
        """Whether a fit goes on from the present weights (`warm_start`); raises where it cannot."""
        if not self.warm_start or not hasattr(self, "net_"):
            return False
        reason = ""
        if isinstance(self.method, str) and self.method == "auto":
            reason = 'method="auto" compares several; name the method, such as that of chosen_model()'
        elif self.classes_.tolist() != list(candidates.classes):
            known, here = short(self.classes_.tolist()), short(candidates.classes)
            reason = f"it knows the classes {known}, y has {here}; give Candidates with the classes it knows"
        elif len(self.net_) > 1:
            reason = f"{self.method} has {len(self.net_)} of them"
        if reason:
            raise ValueError(f"warm_start goes on with the network of the fit before: {reason}.")
        return True

    def __getstate__(self) -> Any:
        # copies of a model made on a GPU are usable without one; predictions move it back
        for net in getattr(self, "net_", ()):
            net.cpu()
        state: Any = super().__getstate__()
        # what can still be made of a training is no part of a copy
        return {k: v for k, v in state.items() if k != "_transduction" or not callable(v)}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.target_tags.two_d_labels = True
        tags.input_tags.sparse = True
        tags.input_tags.three_d_array = self._takes_more_than_tables
        tags.non_deterministic = False
        return tags
