"""The size of the house: lines, files, rooms; what a small fit runs through; functions in a step of RPLG.

python -m benchmarks.house > results/house.json
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from oneof.app.cli import main as command_line
from oneof.training.ongoing import OngoingTraining

SOURCE = Path(__file__).parents[1] / "src" / "oneof"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = small_table(Path(folder) / "t.csv")
        fit = ["fit", table, "--candidates", "labels", "--epochs", "3", "--device", "cpu"]
        by_fit = called(lambda: oneof([*fit, "--method", "rplg+", "--out", f"{folder}/a"]))
        in_step = functions_of_a_step([*fit, "--method", "rplg", "--clean", "truth", "--out", f"{folder}/b"])
    sources = [path.read_text(encoding="utf-8") for path in sorted(SOURCE.rglob("*.py"))]
    sizes = [len(source.splitlines()) for source in sources]
    found = {
        "lines": sum(sizes),
        "lines of code": sum(map(lines_of_code, sources)),
        "files": len(sizes),
        "longest file": max(sizes),
        "rooms": sum(path.is_dir() and path.name[0] != "_" for path in SOURCE.iterdir()),
        "files that a fit runs through": len({file for file, _ in by_fit}),
        "functions in a step of RPLG": len(in_step),
    }
    print(json.dumps(found, indent=1))


def oneof(arguments: list[str]) -> None:
    try:
        command_line(arguments)
    except SystemExit as ended:
        if ended.code:
            raise


def small_table(path: Path, rows: int = 200) -> str:
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=rows)
    x = rng.normal(size=(rows, 4)) + 2 * np.eye(3, 4)[y]
    other = (y + rng.integers(1, 3, size=rows)) % 3
    names = np.array(["ant", "bee", "cow"])
    lines = ["a,b,c,d,labels,truth"]
    for i in range(rows):
        numbers = ",".join(f"{value:.3f}" for value in x[i])
        lines.append(f"{numbers},{names[y[i]]}|{names[other[i]]},{names[y[i]] if i < 30 else ''}")
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def called(program: Callable[[], Any]) -> set[tuple[str, str]]:
    """File and name of every function of oneof that a program calls; what runs on import does not count."""
    found: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        function = code.co_flags & inspect.CO_OPTIMIZED  # the body of a class or a module is none
        if event == "call" and function and "/oneof/" in code.co_filename and code.co_name[0] != "<":
            found.add((code.co_filename, code.co_qualname))

    sys.setprofile(note)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            program()
    finally:
        sys.setprofile(None)
    return found


def functions_of_a_step(command: list[str]) -> set[tuple[str, str]]:
    """Those below one call of the loop's step, while a fit goes on."""
    found: set[tuple[str, str]] = set()
    step = OngoingTraining._step

    def watched(*arguments: Any) -> None:
        found.update(called(lambda: step(*arguments)))

    OngoingTraining._step = watched  # type: ignore[method-assign]
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            oneof(command)
    finally:
        OngoingTraining._step = step  # type: ignore[method-assign]
    return found


def lines_of_code(source: str) -> int:
    """Without blank lines, comments and docstrings."""
    texts: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            texts.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = enumerate(source.splitlines(), start=1)
    return sum(bool(line.strip()) and line.strip()[0] != "#" and i not in texts for i, line in lines)


if __name__ == "__main__":
    main()
