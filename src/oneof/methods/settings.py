"""What settings may be: those of methods, and those of trainings."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, Literal, get_args, get_origin, get_type_hints

from oneof.candidates.cells import native


def check_settings(settings: Any, least: Callable[[str, bool], float]) -> None:
    """Raise unless settings are what their types say: whole numbers, other numbers, or one of a few words;
    None where it is allowed. `least` is asked for the smallest number, by name and whether it is whole.

    Numbers of NumPy, as searches over arrays give them, become Python's: files hold no others.
    """
    try:
        hints = get_type_hints(type(settings))
    except (NameError, TypeError):  # a type that only some function knows
        hints = {}
    for name in (field.name for field in dataclasses.fields(settings)):
        hint, value = hints.get(name), native(getattr(settings, name))
        object.__setattr__(settings, name, value)
        words, optional = literal_words(hint), type(None) in get_args(hint)
        if words is not None and value not in words and not (optional and value is None):
            raise ValueError(f"{name} is {value!r}; it must be one of {', '.join(map(repr, words))}.")
        if (whole := hint in (int, int | None)) or hint in (float, float | None):
            check_number(name, value, least(name, whole), whole, optional)


def check_number(
    name: str, value: Any, least: float = 0, whole: bool = False, optional: bool = False
) -> None:
    """Raise unless a setting is a finite number that is large enough, or None where that is allowed."""
    kind: Any = Integral if whole else Real
    if (value is None and optional) or (isinstance(value, kind) and least <= value and abs(value) < math.inf):
        return
    enough = "" if least == -math.inf else f" of at least {least}"
    what = f"a {'whole ' if whole else ''}number{enough}{' or None' if optional else ''}"
    raise ValueError(f"{name} is {value!r}; give {what}.")


def literal_words(hint: Any) -> tuple[Any, ...] | None:
    """The words that a type allows, None beside them or not; None where it is no `Literal`."""
    return next((get_args(part) for part in (hint, *get_args(hint)) if get_origin(part) is Literal), None)
