"""Digests inside what is written, so that damage is found when it is read back.

    write_text(path, sealed_json({"epochs": 3}))
    facts = read_sealed(path.read_bytes(), path)         # DamagedError unless it is what was written

One function for whole files and for lines of a file. They find damage, not forgery. Text that was written
without a digest, by an earlier version or by hand, is read too, as far as `plain` allows it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from oneof.tables.errors import DataError

SEAL = "sha256"
"""The key of the digest."""
EARLIER = "checksum"
"""What it was called in records of the lab, where it had its first 16 digits."""


class DamagedError(DataError):
    """What is read back is not what was written."""


def digest_of(parts: Iterable[bytes | memoryview]) -> str:
    """One digest of several parts; where one ends and the next begins counts too."""
    made = hashlib.sha256()
    for part in parts:
        view = memoryview(part)
        made.update(view.nbytes.to_bytes(8, "little"))
        made.update(view)
    return made.hexdigest()


def seal(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Plain values with a digest of all the others as a last entry."""
    facts = json.loads(json.dumps(facts))  # as they come back: keys that are numbers become text
    return {**facts, SEAL: _digest(facts)}


def unseal(facts: Any, what: object, plain: Collection[str] | None = None) -> dict[str, Any]:
    """Plain values as they were before `seal`, or an error that begins with `what`.

    `plain`: what values without a digest may be called. With any other name among them the digest is what
    was damaged. Default: anything; `()`: there must be a digest.
    """
    if not isinstance(facts, dict):
        raise DamagedError(f"{what} is damaged: it holds a {type(facts).__name__}, not named values.")
    given = [facts[key] for key in (SEAL, EARLIER) if key in facts]
    if not given:
        if plain is not None and not (facts and facts.keys() <= set(plain)):
            raise DamagedError(f"{what} is damaged: its digest is missing.")
        return facts
    rest = {key: value for key, value in facts.items() if key not in (SEAL, EARLIER)}
    digest = _digest(rest)
    if given not in ([digest], [digest[:16]]):
        raise DamagedError(f"{what} is damaged: its content does not have the digest it was written with.")
    return rest


def sealed_json(facts: Mapping[str, Any], indent: int | None = None) -> str:
    """JSON with its digest, on one line unless an indent is given."""
    return json.dumps(seal(facts), indent=indent) + "\n"


def read_sealed(text: str | bytes, what: object, plain: Collection[str] | None = None) -> dict[str, Any]:
    """What `sealed_json` was given."""
    try:
        facts = json.loads(text)
    except (ValueError, RecursionError) as error:  # text that is no UTF-8 is a ValueError
        raise DamagedError(f"{what} is damaged: it is no JSON ({error!s:.120}).") from error
    return unseal(facts, what, plain)


def _digest(facts: Mapping[str, Any]) -> str:
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
