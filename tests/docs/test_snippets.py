"""Snippets of the guides run, and every command on any page is one that the program understands.

Tutorials and README are executed as they stand (`test_tutorials.py`, `test_readme.py`); a guide's snippets
take rows, sets and a model for granted, which are here.
"""

import io
import re
import shlex
import sys
import types
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pytest
import tyro
from tutorial import blocks

from oneof.app.cli import command_class
from oneof.methods import base

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
PAGES += [*(ROOT / "docs" / "tutorials").glob("*.md"), *(ROOT / "docs" / "api").glob("*.md")]
# tests/training/test_distributed.py runs the snippet of distributed.md, in two processes
ELSEWHERE = ("README.md", "index.md", "distributed.md")
GUIDES = [page for page in PAGES if page.name not in ELSEWHERE and page.parent.name != "tutorials"]
WITH_PYTHON = [
    p for p in GUIDES if any(kind == "python" for kind, _ in blocks(p.read_text(encoding="utf-8")))
]
NEEDS_DATA = {"data.md": "pll/lost.mat"}


@pytest.fixture(scope="module")
def given():
    """What the snippets take for granted."""
    import oneof
    from oneof.candidates.generate import flip_sets
    from oneof.methods import make_method
    from oneof.nets import build_net
    from oneof.training import Recipe

    rng = np.random.default_rng(0)
    classes = ["ant", "bee", "cow"]
    y = rng.integers(3, size=120)
    x = (rng.normal(size=(120, 4)) + 3 * np.eye(3, 4)[y]).astype(np.float32)
    candidates = flip_sets(y, 3, rate=0.3, seed=0, classes=classes)
    names = np.array(classes)[y]
    model = oneof.PartialLabelClassifier("proden", epochs=8, device="cpu").fit(
        x[:60], candidates.take(range(60))
    )
    model.calibrate(x[60:], names[60:])
    some = {
        "np": np, "oneof": oneof, "PartialLabelClassifier": oneof.PartialLabelClassifier, "model": model,
        "X": x[:60], "candidates": candidates.take(range(60)), "names": list(range(60)),
        "X_new": x[60:], "y_new": names[60:],
    }  # fmt: skip
    training = {"method": make_method("proden"), "net": lambda: build_net("mlp", 4, 3), "x": x[:60]}
    training |= {"recipe": Recipe(epochs=1, device="cpu")}
    answers = {"task": np.repeat(np.arange(1000), 2), "worker": ["ann", "bob"] * 1000}
    answers |= {"label": rng.integers(6, size=2000)}
    return some | training | answers


@pytest.mark.parametrize("page", WITH_PYTHON, ids=lambda page: page.stem)
def test_the_snippets_of_a_guide_run(page, given, tmp_path, monkeypatch):
    if page.name in NEEDS_DATA:
        from oneof.datasets.registry import data_folder

        if not (data_folder() / NEEDS_DATA[page.name]).exists():
            pytest.skip(f"needs {NEEDS_DATA[page.name]} in the data folder")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace())
    monkeypatch.setattr(base, "_METHODS", dict(base._METHODS))  # a method of a snippet is gone afterwards
    np.save("big.npy", given["X"])
    names = {**given, "__name__": "snippet"}
    for number, (kind, code) in enumerate(blocks(page.read_text(encoding="utf-8")), start=1):
        if kind != "python":
            continue
        file = re.match(r"# (\w+\.py)\n", code)
        if file:  # a snippet that says which file it is
            Path(file[1]).write_text(code, encoding="utf-8")
        else:
            with redirect_stdout(io.StringIO()):
                exec(compile(code, f"{page.name}, block {number}", "exec"), names)


def commands(text):
    """The command lines of a page: in fences of the shell, and in indented blocks."""
    text = text.replace("\\\n", " ")
    fences = re.findall(r"^```(?:bash|\{code-block\} bash)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    lines = [line for fence in fences for line in fence.splitlines()]
    lines += re.findall(
        r"^    (.*)$", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE
    )
    found = [re.sub(r"\s*(\||>|&&).*", "", line) for line in lines if re.match(r"(\w+=\S+ )*oneof \w", line)]
    return [line[line.index("oneof ") :] for line in found if "..." not in line and "…" not in line]


@pytest.mark.parametrize(
    "page", [p for p in PAGES if commands(p.read_text(encoding="utf-8"))], ids=lambda p: p.stem
)
def test_every_command_of_a_page_is_understood(page):
    for line in commands(page.read_text(encoding="utf-8")):
        _, name, *arguments = shlex.split(line, comments=True)
        while "--plugin" in arguments:
            place = arguments.index("--plugin")
            del arguments[place : place + 2]
        try:
            tyro.cli(
                command_class(name),
                args=arguments,
                config=(tyro.conf.OmitSubcommandPrefixes, tyro.conf.OmitArgPrefixes),
            )
        except SystemExit:
            pytest.fail(f"{page.name}: {line}")


def test_commands_are_found():
    text = "a\n```bash\noneof fit t.csv \\\n  --candidates c | tail\nls\n```\n"
    text += "    A=1 oneof report x\n    oneof fit ...\n"
    assert commands(text) == ["oneof fit t.csv    --candidates c", "oneof report x"]
