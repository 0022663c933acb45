"""The rooms stand in a line: imports point to the left, and rooms of one step do not know one another."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "oneof"

LINE = [
    {"candidates"},
    {"tables"},
    {"datasets", "nets", "views"},
    {"methods"},
    {"training"},
    {"classifier"},
    {"lab"},
    {"app"},
]
STEP = {room: step for step, rooms in enumerate(LINE) for room in rooms}


def imported(path: Path) -> set[str]:
    """Rooms that a file imports from, at its top or inside its functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        modules = []
        if isinstance(node, ast.ImportFrom) and node.module:
            modules = [node.module]
            if node.module == "oneof":
                modules = [f"oneof.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        found |= {m.split(".")[1] for m in modules if m.startswith("oneof.") and m.split(".")[1] in STEP}
    return found


def test_there_are_ten_rooms_and_nothing_beside_them():
    there = {path.stem for path in SOURCE.iterdir() if path.suffix in ("", ".py") and path.name[0] != "_"}
    assert there == set(STEP)
    assert len(there) == 10


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*/*.py")), ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_point_to_the_left(path):
    own = path.relative_to(SOURCE).parts[0]
    wrong = sorted(room for room in imported(path) - {own} if STEP[room] >= STEP[own])
    assert not wrong, f"{own} may not import {wrong}"


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE)))
def test_no_file_is_too_long_to_read_in_one_go(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 350


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_importing_the_package_loads_nothing_heavy():
    code = "import sys, oneof; print([m for m in ('torch', 'sklearn', 'rich', 'tyro') if m in sys.modules])"
    assert run(code).strip() == "[]"


def test_training_needs_neither_tyro_nor_rich():
    code = (
        "import sys; sys.modules['tyro'] = sys.modules['rich'] = None\n"
        "import oneof.training, oneof.methods\n"
        "from oneof.training import default_progress\n"
        "print(type(default_progress()).__name__)"
    )
    assert run(code).strip() == "PlainLines"


def test_the_core_imports_no_extra():
    code = (
        "import sys\n"
        "extras = 'matplotlib polars pandas PIL ray starlette uvicorn tensorboard onnx pooch'.split()\n"
        "for name in extras: sys.modules[name] = None\n"
        "import oneof.classifier.estimator, oneof.classifier.persist, oneof.classifier.export\n"
        "import oneof.training, oneof.datasets, oneof.app.cli, oneof.app.streaming, oneof.lab.run\n"
        "print('fine')"
    )
    assert run(code).strip() == "fine"


def test_candidates_know_neither_torch_nor_files():
    code = "import sys; sys.modules['torch'] = None; import oneof.candidates; print('fine')"
    assert run(code).strip() == "fine"
