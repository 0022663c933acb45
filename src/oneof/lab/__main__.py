"""`python -m oneof.lab PROTOCOL`: `oneof bench` without the command line's own packages (tyro, rich).

For machines on which only the source tree and torch are at hand. Methods of your own are named in the
environment: `ONEOF_PLUGINS=mine PYTHONPATH=FOLDER`, for FOLDER/mine.py.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import fields
from pathlib import Path
from typing import get_args, get_origin, get_type_hints

from oneof.lab.bench import BenchOptions, given_once
from oneof.training.recipe import literal_words


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
        several = "+" if get_origin(hint) is tuple else None
        parser.add_argument(
            *names, type=kind, nargs=several, choices=literal_words(hint), default=option.default
        )
    given = sys.argv[1:] if arguments is None else arguments
    try:
        options = BenchOptions(**vars(parser.parse_args(given)))
        given_once(given, options)
        return options.run(given)
    except (ValueError, OSError, RuntimeError) as error:
        sys.exit(f"oneof: {error}")


if __name__ == "__main__":
    sys.exit(main())
