"""A job is one training, named by the hash of everything that decides its result."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import oneof
from oneof.lab import LAB_VERSION


@dataclass(frozen=True, eq=False)
class Job:
    """One training, by its JSON-like and complete configuration: `data` (name, candidates, hash), `split`,
    `scaling`, `net`, `method` (all hyper-parameters), `recipe`, `information`, `epoch_by`, `curves`.

    Which protocol asked for it is not part of it: the same training in two protocols is the same job.
    """

    config: Mapping[str, Any]

    def __post_init__(self) -> None:
        # through JSON once, so that a job read from a file equals the one that was planned
        object.__setattr__(self, "config", json.loads(json.dumps(self.config, sort_keys=True)))

    @cached_property
    def hash(self) -> str:
        """Sixteen digits from the configuration and the code version."""
        text = json.dumps([dict(self.config), LAB_VERSION, oneof.__version__], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Job) and self.hash == other.hash

    def __hash__(self) -> int:
        return hash(self.hash)
