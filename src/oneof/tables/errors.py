"""The one error of this package, and the one place where errors of foreign parsers become it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from oneof.candidates.cells import CandidateError


class DataError(ValueError):
    """Data that cannot be used. One line: the file or the input, what is wrong, what to do."""


class MissingDataError(DataError):
    """A data set that is not in the data folder. The message says which file to put where."""


@contextmanager
def reading(path: Path | str, what: str, advice: str = "") -> Iterator[None]:
    """Whatever goes wrong with the content of a file in this block is a `DataError` that names the file.

    Parsers raise what they trip over: SyntaxError, TokenError, zlib.error, NotImplementedError,
    RecursionError, a bare MemoryError; polars panics with something that is not even an `Exception`.

    Parameters
    ----------
    path : path
        The file.
    what : str
        What it ought to be: "npz file".
    advice : str, optional
        What to do, for the end of the message: "fetch it again".
    """
    try:
        yield
    except (DataError, CandidateError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except FileNotFoundError:
        raise DataError(f"{path}: no such file.") from None
    except MemoryError as error:
        raise DataError(f"{path}: it does not fit into memory{_more(advice)}.") from error
    except BaseException as error:
        if isinstance(error, OSError) and error.strerror:
            raise DataError(f"{path} cannot be read: {error.strerror}.") from error
        reason = (
            "it is nested too deeply" if isinstance(error, RecursionError) else " ".join(str(error).split())
        )
        reason = f"{reason[:200]}" or type(error).__name__
        raise DataError(f"{path}: not a readable {what} ({reason}){_more(advice)}.") from error


def _more(advice: str) -> str:
    return f"; {advice}" if advice else ""
