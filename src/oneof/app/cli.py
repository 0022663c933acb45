"""The `oneof` program: one dataclass per command, assembled here."""

from __future__ import annotations

import os
import sys
import warnings
from dataclasses import dataclass
from typing import Annotated, Any, Union

import tyro
from tyro.conf import subcommand

from oneof import __version__
from oneof.app.commands.bench import Bench
from oneof.app.commands.candidates import CandidatesDescribe, CandidatesGenerate
from oneof.app.commands.candidates_import import CandidatesImport
from oneof.app.commands.data import DataCheck, DataFetch, DataInfo, DataList
from oneof.app.commands.demo import Demo
from oneof.app.commands.export import Export
from oneof.app.commands.fit import Fit
from oneof.app.commands.methods import Methods
from oneof.app.commands.predict import Predict
from oneof.app.commands.report import Report
from oneof.app.commands.review import Review
from oneof.app.commands.theory import Theory


@dataclass
class Data:
    """Data sets by name: list, describe, fetch and check them."""

    command: (
        Annotated[DataList, subcommand("list")]
        | Annotated[DataInfo, subcommand("info")]
        | Annotated[DataFetch, subcommand("fetch")]
        | Annotated[DataCheck, subcommand("check")]
    )

    def run(self) -> int:
        return self.command.run()


@dataclass
class CandidateSets:
    """Candidate sets: import them, make them from true labels, or look at those you have."""

    command: (
        Annotated[CandidatesImport, subcommand("import")]
        | Annotated[CandidatesGenerate, subcommand("generate")]
        | Annotated[CandidatesDescribe, subcommand("describe")]
    )

    def run(self) -> int:
        return self.command.run()


COMMANDS = {
    "demo": Demo,
    "fit": Fit,
    "predict": Predict,
    "export": Export,
    "review": Review,
    "methods": Methods,
    "data": Data,
    "candidates": CandidateSets,
    "bench": Bench,
    "report": Report,
    "theory": Theory,
}


def main(arguments: list[str] | None = None) -> None:
    """Learn a classifier when every training example carries one of several possible labels."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments == ["--version"]:
        print(f"oneof {__version__}")
        return
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that lacks a letter is no reason to stop
    choices: Any = Union[tuple(Annotated[cls, subcommand(name)] for name, cls in COMMANDS.items())]  # noqa: UP007
    try:
        command: Any = tyro.cli(
            choices,
            prog="oneof",
            description=f"{main.__doc__}\n\nONEOF_DEBUG=1 in the environment: errors show their origin.",
            args=arguments,
            config=(tyro.conf.OmitSubcommandPrefixes, tyro.conf.OmitArgPrefixes),
        )
        with warnings.catch_warnings():
            warnings.showwarning = _say
            code = command.run()
        sys.stdout.flush()
        sys.exit(code)
    except BrokenPipeError:  # the reader of our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except KeyboardInterrupt as stop:
        print(f"\noneof: {str(stop) or 'stopped'}", file=sys.stderr)
        sys.exit(130)
    except (ValueError, TypeError, OSError, RuntimeError) as error:
        if os.environ.get("ONEOF_DEBUG"):
            raise
        print(f"oneof: {error}", file=sys.stderr)
        sys.exit(1)


def _say(message: Warning | str, *where: Any, **more: Any) -> None:
    """A warning as a line for a person, without the place in our code it comes from."""
    print(f"oneof: warning: {message}", file=sys.stderr)


if __name__ == "__main__":
    main()
