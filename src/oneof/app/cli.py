"""The `oneof` program: one dataclass per command, assembled here."""

from __future__ import annotations

import os
import sys
import warnings
from dataclasses import fields, is_dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Union

import tyro
from tyro.conf import subcommand

from oneof import __version__
from oneof.app.commands.show import readable_output, visible

GROUPS = {
    "See what it does": {"demo": "demo.Demo"},
    "Learn from your own rows": {
        "candidates": "candidates.CandidateSets",
        "fit": "fit.Fit",
        "review": "review.Review",
    },
    "Use a model": {"predict": "predict.Predict", "export": "predict.Export"},
    "Compare methods": {
        "methods": "methods.Methods",
        "data": "data.Data",
        "bench": "lab.Bench",
        "report": "lab.Report",
        "theory": "lab.Theory",
    },
}
"""What a person wants, the commands for it, and where in `oneof.app.commands` each of them is."""
COMMANDS = {name: place for group in GROUPS.values() for name, place in group.items()}
"""Only the command that is asked for is imported."""


def command_class(name: str) -> Any:
    """The dataclass of a command: its fields are the options."""
    module, _, cls = COMMANDS[name].partition(".")
    return getattr(import_module(f"oneof.app.commands.{module}"), cls)


ABOUT = """Learn a classifier when every training example carries one of several possible labels."""
MORE = """`oneof COMMAND --help` shows the options of a command. With any command:
  --plugin mine.py    makes the methods in this file known
  --version           which oneof this is
  ONEOF_DEBUG=1       in the environment: errors show their origin
Completion for your shell (bash, zsh, tcsh):  oneof --tyro-write-completion bash FILE"""

STOPPED = """stopped; no file is left half written.
  Give the same command again to go on, from the last checkpoint where the command keeps any."""


def overview() -> str:
    """What `oneof --help` prints: the commands by what a person wants, a line each."""
    lines = ["usage: oneof COMMAND ...", "", ABOUT]
    for wish, names in GROUPS.items():
        about = {name: (command_class(name).__doc__ or "").splitlines()[0] for name in names}
        lines += ["", f"{wish}:", *(f"  {name:<12}{text}" for name, text in about.items())]
    return "\n".join([*lines, "", MORE])


def given_once(arguments: list[str], options: Any) -> None:
    """Of an option with several values that is given twice the parser takes the last, and says nothing."""
    found = [argument.partition("=")[0].replace("_", "-") for argument in arguments]
    for option in fields(options):
        name, value = f"--{option.name.replace('_', '-')}", getattr(options, option.name)
        if is_dataclass(value):
            given_once(arguments, value)
        elif option.default == () and "UseAppendAction" not in str(option.type) and found.count(name) > 1:
            raise ValueError(f"{name} is given more than once: write all its values behind one {name}.")


def main(arguments: list[str] | None = None) -> None:
    """Run a command."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments == ["--version"]:
        print(f"oneof {__version__}")
        return
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that lacks a letter is no reason to stop
    choices: Any
    program = "oneof"
    try:
        if arguments in ([], ["-h"], ["--help"]):
            print(overview(), file=sys.stdout if arguments else sys.stderr, flush=True)
            sys.exit(0 if arguments else 2)
        arguments = _with_plugins(arguments)
        if arguments and arguments[0] in COMMANDS:
            program, choices = f"oneof {arguments[0]}", command_class(arguments[0])
            arguments = arguments[1:]
        else:
            choices = Union[tuple(Annotated[command_class(name), subcommand(name)] for name in COMMANDS)]  # noqa: UP007
        command: Any = tyro.cli(
            choices,
            prog=program,
            description=None if program != "oneof" else ABOUT,
            args=arguments,
            config=(tyro.conf.OmitSubcommandPrefixes, tyro.conf.OmitArgPrefixes),
        )
        given_once(arguments, command)
        with readable_output(), warnings.catch_warnings():
            warnings.showwarning = _say
            code = command.run()
        sys.stdout.flush()
        sys.exit(code)
    except BrokenPipeError:  # the reader of our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except KeyboardInterrupt as stop:
        print(visible(f"\noneof: {str(stop) or STOPPED}"), file=sys.stderr)
        sys.exit(130)
    except (ValueError, TypeError, OSError, RuntimeError, MemoryError) as error:
        if os.environ.get("ONEOF_DEBUG"):
            raise
        from oneof.tables.files import DISK_FULL, why_not_written

        no_words = "there is not enough memory for this; take fewer rows, smaller batches or a smaller net."
        told = str(error) or no_words
        if isinstance(error, OSError) and error.errno in DISK_FULL:
            told = f"{error.filename or 'a file'} could not be written: {why_not_written(error)}"
        print(visible(f"oneof: {told}"), file=sys.stderr)
        sys.exit(1)


def _with_plugins(arguments: list[str]) -> list[str]:
    """The arguments without `--plugin MODULE`: modules whose methods this program and its workers know."""
    left = [part for a in arguments for part in (a.split("=", 1) if a.startswith("--plugin=") else [a])]
    named = []
    while "--plugin" in left[:-1]:
        place = left.index("--plugin")
        named.append(_importable(left[place + 1]))
        del left[place : place + 2]
    if named:
        os.environ["ONEOF_PLUGINS"] = ",".join(named)
    return left


def _importable(plugin: str) -> str:
    """The name of a module, given as such or as a file, with its folder among those that are searched."""
    file = Path(plugin)
    name, folder = (file.stem, file.parent) if file.suffix == ".py" else (plugin, Path())
    sys.path.append(str(folder.resolve()))  # last: a numpy.py beside the plugin must not take numpy's place
    try:
        found = find_spec(name)
    except (ImportError, ValueError):
        found = None
    if found is None or (file.suffix == ".py" and not file.is_file()):
        raise ValueError(
            f"--plugin {plugin}: there is no such module; give a file, such as folder/mine.py, or the name "
            f"of a module in {Path.cwd()} or of an installed one."
        )
    if file.suffix == ".py" and Path(found.origin or "").resolve() != file.resolve():
        raise ValueError(f"--plugin {plugin}: another module is called {name}, {found.origin}; rename yours.")
    return name


def _say(message: Warning | str, *where: Any, **more: Any) -> None:
    """A warning as a line for a person, without the place in our code it comes from."""
    print(f"oneof: warning: {message}", file=sys.stderr)


if __name__ == "__main__":
    main()
