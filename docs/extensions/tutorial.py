"""Run tutorials: their ```python and ```bash blocks from top to bottom, in an empty folder.

    python docs/extensions/tutorial.py --record            # all of them; the pages show what they printed
    python docs/extensions/tutorial.py --record crowd      # one of them
    python docs/extensions/tutorial.py PAGE.md OUTPUTS.json   # one, here

Blocks that are only shown are MyST directives (```{code-block} bash) and are left alone.
"""

from __future__ import annotations

import contextlib
import difflib
import io
import json
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

BLOCK = re.compile(r"^```(python|bash)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DOCS = Path(__file__).parents[1]


def pages() -> list[Path]:
    """The start page and the tutorials."""
    return [DOCS / "index.md", *sorted(p for p in DOCS.glob("tutorials/*.md") if p.stem != "index")]


def blocks(text: str) -> list[tuple[str, str]]:
    """(language, code) of everything that is executed."""
    return [(match[1], match[2]) for match in BLOCK.finditer(text)]


def run_python(code: str, names: dict[str, Any], title: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, title, "exec"), names)
    return out.getvalue()


def run_bash(code: str) -> str:
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", code], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"status {done.returncode}\n{code}\n{done.stdout}{done.stderr}")
    return done.stdout


def run(page: Path) -> list[str]:
    """What every block of the page printed; progress on stderr is not part of it."""
    names: dict[str, Any] = {"__name__": "tutorial"}
    outputs = []
    for number, (language, code) in enumerate(blocks(page.read_text(encoding="utf-8")), start=1):
        title = f"{page.name}, block {number}"
        outputs.append(run_python(code, names, title) if language == "python" else run_bash(code))
    return outputs


def execute(page: Path) -> list[str]:
    """`run` in a process and a temporary folder of its own. A page that fails raises, with what it said."""
    with tempfile.TemporaryDirectory() as folder:
        process = PROCESSES.Process(target=run_there, args=(page.resolve(), folder))
        process.start()
        process.join()
        said, outputs = Path(folder) / "stderr", Path(folder) / "outputs.json"
        if process.exitcode:
            raise RuntimeError(f"{page.name} fails:\n{said.read_text(encoding='utf-8')[-4000:]}")
        return json.loads(outputs.read_text(encoding="utf-8"))


# torch and scikit-learn take seconds to import: once, for all pages
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["torch", "sklearn.linear_model", "pandas", "oneof.app.commands.fit"])


def run_there(page: Path, folder: str) -> None:
    """In a process of its own: everything happens in the folder, also what is printed on stderr."""
    os.chdir(folder)
    os.dup2(os.open("stderr", os.O_WRONLY | os.O_CREAT), 2)
    # `oneof` is the one that belongs to this Python; one thread, as in the tests
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    os.environ |= {"PATH": path, "COLUMNS": "110", "OMP_NUM_THREADS": "1"}
    import torch

    torch.set_num_threads(1)
    write(run(page), Path("outputs.json"))


def recorded(page: Path) -> Path:
    return DOCS / "tutorials" / "outputs" / f"{page.stem}.json"


def write(outputs: list[str], file: Path) -> None:
    file.write_text(json.dumps(outputs, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def alike(one: str, other: str) -> float:
    """How similar two outputs are (0 to 1) when numbers, which differ between machines, do not count."""
    first, second = (re.sub(r"[\d.,]+( ?(s|min|h|MB|GB)\b)?", "#", text) for text in (one, other))
    return difflib.SequenceMatcher(None, first, second, autojunk=False).ratio()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--record"]:
        for page in [page for page in pages() if page.stem in (sys.argv[2:] or [page.stem])]:
            write(execute(page), recorded(page))
            print(f"recorded: {recorded(page).name}")
    else:
        write(run(Path(sys.argv[1])), Path(sys.argv[2]))
