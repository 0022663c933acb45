"""The `oneof` program: one dataclass per command, assembled here."""

from __future__ import annotations

import os
import sys
import warnings
from importlib import import_module
from typing import Annotated, Any, Union

import tyro
from tyro.conf import subcommand

from oneof import __version__

COMMANDS = {
    "demo": "demo.Demo",
    "fit": "fit.Fit",
    "predict": "predict.Predict",
    "export": "predict.Export",
    "review": "review.Review",
    "methods": "methods.Methods",
    "data": "data.Data",
    "candidates": "candidates.CandidateSets",
    "bench": "lab.Bench",
    "report": "lab.Report",
    "theory": "lab.Theory",
}
"""Where in `oneof.app.commands` each command is; only the one that is asked for is imported."""


def command_class(name: str) -> Any:
    """The dataclass of a command: its fields are the options."""
    module, _, cls = COMMANDS[name].partition(".")
    return getattr(import_module(f"oneof.app.commands.{module}"), cls)


ABOUT = """Learn a classifier when every training example carries one of several possible labels.

ONEOF_DEBUG=1 in the environment: errors show their origin."""


def main(arguments: list[str] | None = None) -> None:
    """Run a command."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments == ["--version"]:
        print(f"oneof {__version__}")
        return
    arguments = _with_plugins(arguments)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that lacks a letter is no reason to stop
    choices: Any
    program = "oneof"
    if arguments and arguments[0] in COMMANDS:
        program, choices = f"oneof {arguments[0]}", command_class(arguments[0])
        arguments = arguments[1:]
    else:
        choices = Union[tuple(Annotated[command_class(name), subcommand(name)] for name in COMMANDS)]  # noqa: UP007
    try:
        command: Any = tyro.cli(
            choices,
            prog=program,
            description=None if program != "oneof" else ABOUT,
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
    except (ValueError, TypeError, OSError, RuntimeError, MemoryError) as error:
        if os.environ.get("ONEOF_DEBUG"):
            raise
        no_words = "there is not enough memory for this; take fewer rows, smaller batches or a smaller net."
        print(f"oneof: {str(error) or no_words}", file=sys.stderr)
        sys.exit(1)


def _with_plugins(arguments: list[str]) -> list[str]:
    """The arguments without `--plugin MODULE`: modules whose methods this program and its workers know."""
    left, named = list(arguments), []
    while "--plugin" in left[:-1]:
        place = left.index("--plugin")
        named.append(left[place + 1])
        del left[place : place + 2]
    if named:
        sys.path.insert(0, os.getcwd())
        os.environ["ONEOF_PLUGINS"] = ",".join(named)
    return left


def _say(message: Warning | str, *where: Any, **more: Any) -> None:
    """A warning as a line for a person, without the place in our code it comes from."""
    print(f"oneof: warning: {message}", file=sys.stderr)


if __name__ == "__main__":
    main()
