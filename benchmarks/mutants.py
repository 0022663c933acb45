"""What the tests would notice: small faults put into the source one at a time, and which of them are found.

    python -m benchmarks.mutants --sample 200 --seed 0 --packages methods training --workers 2 \\
        --to results/mutants

Mutants are drawn at random from all places where an operator applies. Each runs in a copy of the source, so
that the working tree is never touched: first the tests named like its file, then those of its package, then
the wider list. One that hangs is dead. Every result is a line of `mutants.jsonl`; what is there already is
not run again.
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
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "oneof"

# tests by package (or module): those of the package itself, and what else may notice a fault in it
QUICK = {
    "tables": ["tests/test_tables.py", "tests/streaming", "tests/data", "tests/candidates"],
    "datasets": ["tests/data"],
    "views": ["tests/nets/test_images.py", "tests/bench/test_images.py"],
    "classifier": [
        "tests/test_estimator.py",
        "tests/test_inputs.py",
        "tests/test_prediction.py",
        "tests/persist",
    ],
    "lab": ["tests/bench", "tests/theory"],
    "app": ["tests/fitting", "tests/review", "tests/fit_report", "tests/streaming", "tests/test_cli.py"],
}
WIDE = {
    "methods": ["tests/training", "tests/golden/test_histories.py", "tests/test_estimator.py"],
    "training": ["tests/methods", "tests/golden", "tests/test_estimator.py"],
    "nets": ["tests/methods/test_rplg_step.py", "tests/methods/test_meta_gradient.py", "tests/training"],
    "": ["tests/golden", "tests/test_estimator.py", "tests/test_cli.py", "tests/fitting"],  # all others
}

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


def stages(file: str) -> list[list[str]]:
    """Lists of tests, one after the other until one fails."""
    name, stem = package(file), Path(file).stem
    own = [f"tests/{name}"] if (ROOT / "tests" / name).is_dir() else [f"tests/test_{name}.py"]
    quick = QUICK.get(name) or [path for path in own if (ROOT / path).exists()]
    named = sorted(str(p.relative_to(ROOT)) for p in (ROOT / "tests").rglob(f"test_{stem}*.py"))
    return [tests for tests in (named, quick, WIDE.get(name, WIDE[""])) if tests]


def run_tests(source: Path, tests: list[str], limit: float) -> tuple[str, str]:
    """`survived`, `killed` or `timeout`, and the first test that failed, with the package from `source`."""
    env = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(source), str(ROOT)]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "HYPOTHESIS_STORAGE_DIRECTORY": str(source / "hypothesis"),
    }
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-rfE", "-p", "no:cacheprovider", *tests]
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


def outcome(mutant: Mutant, limit: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        copy = copied(Path(folder))
        path = copy / "oneof" / mutant.file
        path.write_bytes(mutant.applied(path.read_bytes()))
        result, test = "survived", ""
        for tests in stages(mutant.file):
            result, test = run_tests(copy, tests, limit)
            if result != "survived":
                break
    return {**asdict(mutant), "result": result, "test": test}


def copied(folder: Path) -> Path:
    shutil.copytree(SOURCE, folder / "oneof", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def check_unchanged(files: list[str], limit: float) -> None:
    """A copy without any fault is what gets imported, and it passes; else every mutant would seem dead."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        copy = copied(Path(folder))
        env = os.environ | {"PYTHONPATH": str(copy)}
        command = [sys.executable, "-c", "import oneof; print(oneof.__file__)"]
        found = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
        if not Path(found.strip()).is_relative_to(copy):
            raise RuntimeError(f"the tests would import {found.strip()}, not the copy")
        wanted = {path: None for file in files for tests in stages(file) for path in tests}
        for path in wanted:
            result, test = run_tests(copy, [path], limit)
            if result != "survived":
                raise RuntimeError(f"{path} without any mutant: {result} {test}")


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
    if left and not options.skip_check:
        check_unchanged([m.file for m in left], options.limit)
    writing = threading.Lock()

    def run(mutant: Mutant) -> None:
        row = outcome(mutant, options.limit)
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
