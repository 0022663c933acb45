"""`python -m oneof.lab PROTOCOL`: `oneof bench` without the command line's own packages (tyro, rich).

For machines on which only the source tree and torch are at hand. Methods of your own are named in the
environment: `ONEOF_PLUGINS=mine PYTHONPATH=FOLDER`, for FOLDER/mine.py.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from oneof.lab.bench import BenchOptions
from oneof.methods.settings import literal_words


class Once(argparse.Action):
    """Of an option that is given twice a parser takes the last values, and says nothing."""

    def __call__(self, parser: Any, found: Any, values: Any, name: str | None = None) -> None:
        if getattr(found, self.dest) != self.default:
            raise ValueError(f"{name} is given more than once: write all its values behind one {name}.")
        setattr(found, self.dest, values)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m oneof.lab", description=BenchOptions.__doc__, epilog=__doc__)
    parser.add_argument("protocol", nargs="?", default=BenchOptions.protocol)
    hints = get_type_hints(BenchOptions)
    for option in fields(BenchOptions)[1:]:
        names, hint = [f"--{option.name.replace('_', '-')}"], hints[option.name]
        if option.name == "out":
            names.append("--to")  # its earlier name
        if hint is bool:
            parser.add_argument(*names, action="store_true")
            continue
        kind = next((t for t in (int, float, Path) if t is hint or t in get_args(hint)), str)
        several: dict[str, Any] = {"nargs": "+", "action": Once} if get_origin(hint) is tuple else {}
        words = literal_words(hint)
        parser.add_argument(*names, type=kind, choices=words, default=option.default, **several)
    given = sys.argv[1:] if arguments is None else arguments
    try:
        return BenchOptions(**vars(parser.parse_args(given))).run(given)
    except (ValueError, OSError, RuntimeError) as error:
        sys.exit(f"oneof: {error}")


if __name__ == "__main__":
    sys.exit(main())
