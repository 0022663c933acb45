"""What the tests would notice: small faults put into the source one at a time, and which of them are found.

    pip install pytest-cov                     # which test runs which line, once:
    pytest -n 2 --cov=oneof --cov-context=test --cov-report= --ignore=tests/docs --ignore=tests/browser
    python -m benchmarks.mutants --sample 200 --seed 0 --packages methods training --workers 2 \\
        --to results/mutants

Mutants are drawn at random from all places where an operator applies. Each runs in a copy of the source, so
that the working tree is never touched, with the tests that execute its line in their own process, at most
`--most` of them: those named like its file, then of all files in turn. What they do not find counts as
alive; what hangs is dead. Every result is a line of `mutants.jsonl`; what is there already is not run again.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "oneof"

FIRST = 40
"""Tests of a mutant that are collected before all others: most die there."""

SWAPS: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Div,
    ast.Mod: ast.Mult, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
_PAIRS = [("min", "max"), ("amin", "amax"), ("argmin", "argmax"), ("minimum", "maximum"), ("any", "all"),
          ("zeros_like", "ones_like"), ("zeros", "ones"), ("floor", "ceil")]  # fmt: skip
NAMES = {**dict(_PAIRS), **{b: a for a, b in _PAIRS}}
ATOMS = (ast.Name, ast.Constant, ast.Call, ast.Attribute, ast.Subscript)


@dataclass(frozen=True, order=True)
class Mutant:
    file: str
    line: int
    start: int
    """In bytes, like `end`."""
    end: int
    operator: str
    before: str
    after: str

    def applied(self, source: bytes) -> bytes:
        return source[: self.start] + self.after.encode() + source[self.end :]


# ---- operators --------------------------------------------------------------------------------


def changes(node: ast.AST) -> Iterator[tuple[str, Any, str]]:
    """What may go wrong at a node: name of the operator, the node to replace, its new text."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
        yield "comparison", node, _text(node, ops=[SWAPS[type(node.ops[0])](), *node.ops[1:]])
    if isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in SWAPS:
        text = _text(node, op=SWAPS[type(node.op)]())
        yield "arithmetic", node, f"({text})" if isinstance(node.op, ast.Pow) else text
    if isinstance(node, ast.BoolOp):
        yield "and/or", node, f"({_text(node, op=SWAPS[type(node.op)]())})"
    if isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.UAdd):
        text = ast.unparse(node.operand)
        yield (
            "not" if isinstance(node.op, ast.Not) else "sign",
            node,
            (text if isinstance(node.operand, ATOMS) else f"({text})"),
        )
    conditions = node.ifs if isinstance(node, ast.comprehension) else [getattr(node, "test", None)]
    for condition in conditions:  # of if, while, a ternary, a comprehension
        if condition is not None and not _is_not(condition):
            yield "negation", condition, f"not ({ast.unparse(condition)})"
    if isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
        yield "constant", node, repr(_other(node.value))
    if isinstance(node, ast.Return) and node.value is not None and ast.unparse(node.value) != "None":
        yield "return", node.value, "None"
    call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    if call or isinstance(node, ast.Assign | ast.AugAssign):
        yield "deletion", node, "pass"
    if isinstance(node, ast.Call) and len(node.args) > 1:
        first, second = node.args[:2]
        both = ast.Tuple([first, second])
        ast.copy_location(both, first)
        both.end_lineno, both.end_col_offset = second.end_lineno, second.end_col_offset
        if not isinstance(first, ast.Starred) and not isinstance(second, ast.Starred):
            yield "arguments", both, f"{ast.unparse(second)}, {ast.unparse(first)}"
    if isinstance(node, ast.Name | ast.Attribute):
        name = node.id if isinstance(node, ast.Name) else node.attr
        if name in NAMES and isinstance(node.ctx, ast.Load):
            last = ast.copy_location(ast.Name(name), node)
            last.lineno, last.col_offset = node.end_lineno, node.end_col_offset - len(name)
            yield "min/max", last, NAMES[name]
    if isinstance(node, ast.Slice):
        part = next((p for p in ("upper", "lower", "step") if getattr(node, p) is not None), None)
        if part:
            yield "slice", node, _text(node, **{part: None})


def _text(node: ast.AST, **changed: Any) -> str:
    """The node as source, with some of its fields changed."""
    fields = {name: getattr(node, name, None) for name in node._fields}
    return ast.unparse(ast.copy_location(type(node)(**{**fields, **changed}), node))


def _is_not(node: ast.AST) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)


def _other(value: float) -> float:
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int) or not value else value * 2


def reachable(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes whose change could matter: no types, texts, errors, decorators, asserts or lists of names."""
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _left_out(child):
                yield from reachable(child)


def _left_out(node: ast.AST) -> bool:
    if isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr | ast.Import | ast.ImportFrom):
        return True
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True  # docstring
    if isinstance(node, ast.Expr) and ast.unparse(node).startswith("warnings.warn("):
        return True
    if isinstance(node, ast.If):
        return ast.unparse(node.test) in ("TYPE_CHECKING", "__name__ == '__main__'")
    return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"


def mutants(source: bytes, file: str) -> list[Mutant]:
    """All mutants of one file; a few are no valid Python, or the same program (see `another_program`)."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = []
    for node in reachable(ast.parse(source)):
        for operator, place, after in changes(node):
            start = starts[place.lineno - 1] + place.col_offset
            end = starts[place.end_lineno - 1] + place.end_col_offset
            found.append(Mutant(file, place.lineno, start, end, operator, source[start:end].decode(), after))
    return found


def another_program(mutant: Mutant, source: bytes) -> bool:
    try:
        return ast.dump(ast.parse(mutant.applied(source))) != ast.dump(ast.parse(source))
    except SyntaxError:
        return False


def draw(files: list[str], size: int, seed: int) -> tuple[list[Mutant], int]:
    """Mutants at random, and how many there are to draw from. A larger sample begins with the smaller one."""
    everything = [m for file in files for m in mutants((SOURCE / file).read_bytes(), file)]
    random.Random(seed).shuffle(everything)
    drawn: list[Mutant] = []
    for mutant in everything:
        if len(drawn) == size:
            break
        if another_program(mutant, (SOURCE / mutant.file).read_bytes()):
            drawn.append(mutant)
    return drawn, len(everything)


# ---- running them -----------------------------------------------------------------------------


def package(file: str) -> str:
    """Of a path below src/oneof: its folder, or its own name where it lies at the top."""
    return Path(file).parts[0].removesuffix(".py")


class Covering:
    """Which tests execute a line: by file and line, `most` of them at once."""

    def __init__(self, lines: dict[str, dict[int, list[str]]], most: int) -> None:
        self.lines, self.most = lines, most
        self.size = Counter(test for file in lines.values() for tests in file.values() for test in tests)

    @classmethod
    def read(cls, path: Path, most: int) -> Covering:
        """From the data of `coverage` with a context per test."""
        from coverage import CoverageData

        data = CoverageData(basename=str(path))
        data.read()
        lines = {
            measured.partition("src/oneof/")[2]: {
                line: [context.removesuffix("|run") for context in found if context.endswith("|run")]
                for line, found in data.contexts_by_lineno(measured).items()
            }
            for measured in data.measured_files()
        }
        return cls(lines, most)

    def tests(self, mutant: Mutant) -> list[str]:
        """Those that execute the mutant's statement; of a line that runs on import, those of its file."""
        lines = self.lines.get(mutant.file, {})
        chosen = {test for line in statement(mutant) for test in lines.get(line, ())}
        chosen = chosen or {test for tests in lines.values() for test in tests}
        named = f"test_{Path(mutant.file).stem}"
        by_file: dict[str, list[str]] = {}
        for test in sorted(chosen, key=lambda test: (self.size[test], test)):
            by_file.setdefault(test.partition("::")[0], []).append(test)
        first = [test for file in sorted(by_file) if named in file for test in by_file.pop(file)]
        turns = zip_longest(*by_file.values())  # one test of every file, then another one
        return [*first, *(test for turn in turns for test in turn if test)][: self.most]


def statement(mutant: Mutant) -> range:
    """Lines of the innermost statement around a mutant; of one with a body, those before it."""
    tree = ast.parse((SOURCE / mutant.file).read_bytes())
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt) and node.lineno <= mutant.line <= (node.end_lineno or 0)
    ]
    inner = max(around, key=lambda node: (node.lineno, -(node.end_lineno or 0)))
    body = getattr(inner, "body", None)
    return range(inner.lineno, max(body[0].lineno if body else (inner.end_lineno or 0) + 1, mutant.line + 1))


def run_tests(source: Path, tests: list[str], limit: float) -> tuple[str, str]:
    """`survived`, `killed` or `timeout`, and the first test that failed, with the package from `source`."""
    env = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(source), str(ROOT)]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "HYPOTHESIS_STORAGE_DIRECTORY": str(source / "hypothesis"),
    }
    (source / "tests.txt").write_text("\n".join(tests))
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-rfE", "-p", "no:cacheprovider"]
    command += ["-p", "no:pytest_cov", f"@{source / 'tests.txt'}"]
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            command, cwd=ROOT, env=env, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            return "timeout", ""
        finally:
            if process.poll() is None:  # with all that the tests have started
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        output.seek(0)
        text = output.read()
    if code == 5:
        raise RuntimeError(f"no tests in {tests}")
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", text, re.MULTILINE)
    return ("survived" if code == 0 else "killed"), (failed.group(1) if failed else "")


def outcome(mutant: Mutant, tests: list[str], limit: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        copy = copied(Path(folder))
        path = copy / "oneof" / mutant.file
        path.write_bytes(mutant.applied(path.read_bytes()))
        result, test = "survived", ""
        for some in filter(None, (tests[:FIRST], tests[FIRST:])):
            if result == "survived":
                result, test = run_tests(copy, some, limit)
    return {**asdict(mutant), "result": result, "test": test, "tests": len(tests)}


def copied(folder: Path) -> Path:
    shutil.copytree(SOURCE, folder / "oneof", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def check_unchanged(tests: list[str], limit: float) -> None:
    """A copy without any fault is what gets imported, and it passes; else every mutant would seem dead."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        copy = copied(Path(folder))
        env = os.environ | {"PYTHONPATH": str(copy)}
        command = [sys.executable, "-c", "import oneof; print(oneof.__file__)"]
        found = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
        if not Path(found.strip()).is_relative_to(copy):
            raise RuntimeError(f"the tests would import {found.strip()}, not the copy")
        result, test = run_tests(copy, tests, limit)
        if result != "survived":
            raise RuntimeError(f"without any mutant: {result} {test}")


def diff(mutant: Mutant) -> str:
    source = (SOURCE / mutant.file).read_bytes()
    texts = [s.decode().splitlines() for s in (source, mutant.applied(source))]
    lines = list(difflib.unified_diff(*texts, lineterm="", n=1))[2:]
    return "\n".join([f"{mutant.file}:{mutant.line} {mutant.operator}", *lines])


def key(record: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(record[name] for name in ("file", "line", "operator", "before", "after", "start"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sample", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--packages", nargs="*", help="packages and modules of oneof; default: all")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--limit", type=float, default=600, help="seconds for one list of tests")
    parser.add_argument("--skip-check", action="store_true", help="do not run the tests without mutants")
    parser.add_argument("--most", type=int, default=400, help="tests per mutant")
    parser.add_argument("--coverage", type=Path, default=ROOT / ".coverage", help="with a context per test")
    parser.add_argument("--to", type=Path, default=Path("results/mutants"))
    options = parser.parse_args()
    files = sorted(str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py"))
    files = [file for file in files if not options.packages or package(file) in options.packages]
    drawn, total = draw(files, options.sample, options.seed)
    options.to.mkdir(parents=True, exist_ok=True)
    record = options.to / "mutants.jsonl"
    known = {}
    if record.exists():
        known = {key(row): row for row in map(json.loads, record.read_text().splitlines())}
    left = [m for m in drawn if key(asdict(m)) not in known]
    print(f"{len(drawn)} of {total} mutants in {len(files)} files; {len(left)} to run", flush=True)
    covering = Covering.read(options.coverage, options.most)
    if left and not options.skip_check:
        check_unchanged(sorted({test for m in left for test in covering.tests(m)}), 20 * options.limit)
    writing = threading.Lock()

    def run(mutant: Mutant) -> None:
        row = outcome(mutant, covering.tests(mutant), options.limit)
        with writing, record.open("a") as file:
            known[key(row)] = row
            file.write(json.dumps(row) + "\n")
            print(
                f"{row['result']:9} {row['file']}:{row['line']} {row['operator']} {row['test']}", flush=True
            )

    with ThreadPoolExecutor(options.workers) as pool:
        list(pool.map(run, left))
    survivors = sorted(m for m in drawn if known[key(asdict(m))]["result"] == "survived")
    for mutant in survivors:
        print(f"\n{diff(mutant)}")
    dead = len(drawn) - len(survivors)
    print(f"\n{dead} of {len(drawn)} mutants died ({100 * dead / max(1, len(drawn)):.1f} %)")


if __name__ == "__main__":
    main()
