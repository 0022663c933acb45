"""What else runs on the machine: other users, and files beside ours that call themselves modules."""

import os
import stat
import sys
import webbrowser
from pathlib import Path
from urllib.request import url2pathname

import pytest

from oneof.app.cli import _importable
from oneof.app.commands.review import _opened
from oneof.classifier.persist import model
from oneof.lab.runners import Place, local
from oneof.tables.errors import DataError
from oneof.tables.reader import read_table
from tests.review.made import review_data
from tests.review.test_server import TOKEN, client_of

ADDRESS = "http://127.0.0.1:1/?token=secret&class=a%22b"


def test_other_users_do_not_see_the_token_in_the_list_of_programs(tmp_path, monkeypatch):
    monkeypatch.setenv("DISPLAY", ":0")
    told = []
    monkeypatch.setattr(webbrowser, "open", told.append)
    with _opened(ADDRESS, tmp_path):
        (address,) = told
        page = Path(url2pathname(address.removeprefix("file://")))
        assert "secret" not in address
        assert ADDRESS.replace("&", "&amp;") in page.read_text()
        assert os.name == "nt" or stat.S_IMODE(page.stat().st_mode) == 0o600
    assert not list(tmp_path.iterdir())


def test_the_file_that_opens_the_page_is_welcome_in_a_tab_only(tmp_path):
    client = client_of(tmp_path, review_data(3), None)
    tab = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert client.get(f"/?token={TOKEN}", headers=tab).status_code == 200
    assert client.get("/", headers=tab).status_code == 403
    assert client.get(f"/?token={TOKEN}", headers=tab | {"Sec-Fetch-Dest": "iframe"}).status_code == 403
    assert client.get("/api/start", headers=tab | {"X-Oneof-Token": TOKEN}).status_code == 403


def test_modules_beside_a_plugin_do_not_take_the_place_of_ours(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("numpy", "own_plugin"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('not me')\n")
    assert _importable(str(tmp_path / "own_plugin.py")) == "own_plugin"
    assert sys.path[-1] == str(tmp_path.resolve())
    with pytest.raises(ValueError, match=r"another module is called numpy.*rename yours"):
        _importable(str(tmp_path / "numpy.py"))


def test_a_worker_imports_nothing_from_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "multiprocessing.py").write_text("open('run', 'w').close()\n")
    monkeypatch.setattr(local, "work", print)  # a short life
    local.Worker(Place()).process.join()
    assert not (tmp_path / "run").exists()
    assert "PYTHONSAFEPATH" not in os.environ


@pytest.mark.parametrize("device", ["meta", "cuda:99", "nonsense"])
def test_a_model_does_not_choose_a_device_that_cannot_compute(device):
    assert not model._usable(device)
    assert model._usable("cpu")


def test_a_table_with_very_many_columns_is_not_compared_pair_by_pair(tmp_path):
    names = [f"c{i}" for i in range(30_000)]
    (tmp_path / "wide.csv").write_text(",".join(names) + "\n" + ",".join("1" * 30_000) + "\n")
    assert len(read_table(tmp_path / "wide.csv").columns) == 30_000
    (tmp_path / "twice.csv").write_text(",".join([*names, "c7"]) + "\n")
    with pytest.raises(DataError, match='two columns are called "c7"'):
        read_table(tmp_path / "twice.csv")


def test_a_parquet_file_of_equal_rows_is_refused_before_it_is_read(tmp_path, monkeypatch):
    polars = pytest.importorskip("polars")
    column = polars.Series("x", ["a"]).new_from_index(0, 200_000)
    polars.DataFrame({"x": column}).write_parquet(tmp_path / "bomb.parquet")
    monkeypatch.setattr("oneof.tables.files.FREE_BYTES", 1 << 20)
    monkeypatch.setattr("oneof.tables.reader.table_batches", None)
    with pytest.raises(DataError, match="would take 1,600,000 in memory"):
        read_table(tmp_path / "bomb.parquet")
