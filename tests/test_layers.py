"""Imports point one way: what users have, then data, then methods, then training, then the faces."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "oneof"

# a package may import its own line and everything in earlier lines
LAYERS = [
    {"candidates"},
    {"data", "nets", "views", "optimisers", "parallel"},
    {"methods"},
    {"training"},
    {"scoring", "inputs", "generator", "tables", "importing", "review", "tracking"},
    {"prediction"},
    {"estimator", "theory"},
    {"model_card", "export", "streaming"},
    {"persist"},
    {"fit_report"},
    {"fitting"},
    {"bench"},
    {"commands"},
    {"cli"},
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}


def imported(path: Path) -> set[str]:
    """Sub-packages of oneof that a file imports, at its top or inside its functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        modules = []
        if isinstance(node, ast.ImportFrom) and node.module:
            modules = [node.module]
            if node.module == "oneof":
                modules = [f"oneof.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        found |= {m.split(".")[1] for m in modules if m.startswith("oneof.") and m.split(".")[1] in RANK}
    return found


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_point_one_way(path):
    own = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    if own == "__init__":
        return
    assert own in RANK, f"{own} has no layer: add it to LAYERS"
    # saving is a method of the estimator and a module of its own; it is imported where it is used
    allowed = {"persist"} if own == "estimator" else set()
    wrong = sorted(name for name in imported(path) - allowed if RANK[name] > RANK[own])
    assert not wrong, f"{own} may not import {wrong}"


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
        "extras = 'matplotlib polars pandas PIL ray optuna fastapi uvicorn tensorboard wandb onnx'.split()\n"
        "for name in extras: sys.modules[name] = None\n"
        "import oneof.estimator, oneof.persist, oneof.training, oneof.data, oneof.cli\n"
        "import oneof.streaming, oneof.export, oneof.model_card\n"
        "print('fine')"
    )
    assert run(code).strip() == "fine"
