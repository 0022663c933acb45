"""oneof: learn a classifier when every training example carries one of several possible labels."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Names are imported when they are first used: `import oneof` alone stays fast.
_HOME = {
    "CandidateError": "oneof.candidates",
    "Candidates": "oneof.candidates",
    "PartialLabelClassifier": "oneof.classifier.estimator",
    "list_methods": "oneof.methods",
    "load": "oneof.classifier.persist",
    "train": "oneof.training",
}

__all__ = [
    "CandidateError",
    "Candidates",
    "PartialLabelClassifier",
    "__version__",
    "list_methods",
    "load",
    "train",
]

if TYPE_CHECKING:
    from oneof.candidates import CandidateError, Candidates
    from oneof.classifier.estimator import PartialLabelClassifier
    from oneof.classifier.persist import load
    from oneof.methods import list_methods
    from oneof.training import train


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'oneof' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
