"""The tables of our records, made again from the committed records, are the committed ones.

`record_tables.json` holds a digest of the LaTeX tables of every folder, which are not committed.
"""

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from tests.golden.write_files import command

ROOT = Path(__file__).parents[2] / "results"
FOLDERS = sorted(path.parent.relative_to(ROOT).as_posix() for path in ROOT.rglob("report.md"))
DIGESTS = json.loads(Path(__file__).with_name("record_tables.json").read_text(encoding="utf-8"))


def test_every_folder_is_pinned():
    assert sorted(DIGESTS) == FOLDERS


@pytest.mark.parametrize("name", FOLDERS)
def test_the_tables_of_a_folder(name, tmp_path, monkeypatch):
    there, here = ROOT / name, tmp_path / Path(name).name  # a report begins with its folder's name
    here.mkdir()
    for file in [*there.glob("plan-*.json"), *there.glob("records.jsonl*")]:
        shutil.copy(file, here)
    monkeypatch.setenv("ONEOF_DEBUG", "1")
    command(["report", str(here), "--no-figures"])
    assert json.loads((here / "summary.json").read_text("utf-8")) == json.loads(
        (there / "summary.json").read_text("utf-8")
    )
    assert (here / "report.md").read_text("utf-8") == (there / "report.md").read_text("utf-8")
    tables = (here / "tables.tex").read_text("utf-8")
    assert hashlib.sha256(tables.encode()).hexdigest() == DIGESTS[name]
