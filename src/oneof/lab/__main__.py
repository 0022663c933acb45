"""`python -m oneof.lab PROTOCOL`: the lab without the command line's own packages (tyro, rich).

For machines on which only the source tree and torch are at hand; elsewhere `oneof bench` does more.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m oneof.lab", description=__doc__.splitlines()[0])
    parser.add_argument("protocol")
    parser.add_argument("--to", type=Path)
    parser.add_argument("--methods", nargs="+", default=[])
    parser.add_argument("--data", nargs="+", default=[])
    parser.add_argument("--nets", nargs="+", default=[])
    parser.add_argument("--splits", type=int)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--set", nargs="+", default=[], metavar="NAME=VALUE")
    parser.add_argument("--reuse", nargs="+", type=Path, default=[])
    parser.add_argument("--retry-failed", action="store_true")
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--workers", type=int)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--speed", default="auto", choices=("auto", "eager", "graph", "compiled"))
    given = sys.argv[1:] if arguments is None else arguments
    options = parser.parse_args(given)

    from oneof.lab.overrides import override
    from oneof.lab.protocols import protocol
    from oneof.lab.run import run_lab
    from oneof.lab.runners.local import LocalRunner

    chosen = override(
        protocol(options.protocol),
        methods=options.methods,
        data=options.data,
        nets=options.nets,
        splits=options.splits,
        epochs=options.epochs,
        settings=options.set,
    )
    outcome = run_lab(
        chosen,
        options.to or Path("runs") / "bench" / chosen.name,
        LocalRunner(options.workers, options.device, options.speed),
        command=shlex.join(["oneof", "bench", *given]),
        reuse=options.reuse,
        retry_failed=options.retry_failed,
        strict=bool(options.data),
        minutes=options.minutes,
    )
    for record in outcome.failed:
        print(f"failed: {record['error']}", file=sys.stderr)
    return 0 if outcome.plan.complete and not outcome.failed else 1


if __name__ == "__main__":
    sys.exit(main())
