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
    `what` it ought to be ("npz file") and `advice` ("fetch it again") are parts of the message.
    """
    more = f"; {advice}" if advice else ""
    try:
        yield
    except (DataError, CandidateError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except FileNotFoundError:
        raise DataError(f"{path}: no such file.") from None
    except MemoryError as error:
        raise DataError(f"{path}: it does not fit into memory{more}.") from error
    except BaseException as error:
        if isinstance(error, OSError) and error.strerror:
            raise DataError(f"{path} cannot be read: {error.strerror}.") from error
        deep = isinstance(error, RecursionError)
        reason = "it is nested too deeply" if deep else " ".join(str(error).split())[:200]
        raise DataError(f"{path}: not a readable {what} ({reason or type(error).__name__}){more}.") from error
