"""Fetching against a server of our own on 127.0.0.1 that drops connections."""

import hashlib
import io
import sys
import tarfile
import threading
import zipfile
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from oneof.datasets import DataError, download, load
from oneof.datasets.download import download_file, fetch
from oneof.datasets.registry import Download, entries
from tests.data.official import cifar_images, write_idx_set

CONTENT = np.random.default_rng(0).bytes(300_000)
SUM = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"


@pytest.fixture(autouse=True)
def no_second_try(monkeypatch):
    monkeypatch.setattr(download, "RETRIES", 0)


class Server:
    """Serves `files`; the first `drops` answers end after `cut` bytes."""

    def __init__(self, files, drops=0, cut=100_000):
        self.files, self.drops, self.cut = files, drops, cut

    def __enter__(self):
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                outer.answer(self)

            def log_message(self, *_):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        return self

    def __exit__(self, *_):
        self.http.shutdown()
        self.http.server_close()

    def answer(self, handler):
        content = self.files.get(handler.path.lstrip("/"))
        if content is None:
            handler.send_error(404)
            return
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        if self.drops:
            self.drops -= 1
            handler.wfile.write(content[: self.cut])
            handler.wfile.flush()
            handler.close_connection = True
            handler.connection.close()
            return
        handler.wfile.write(content)


def test_of_a_broken_download_nothing_stays(tmp_path):
    target = tmp_path / "sub" / "file.bin"
    seen = []
    with Server({"file.bin": CONTENT}, drops=1) as server:
        url = f"{server.url}/file.bin"
        with pytest.raises(OSError, match=r"300000|200000"):
            download_file(url, target, SUM)
        assert list(target.parent.iterdir()) == []
        download_file(url, target, SUM, progress=lambda *now: seen.append(now))
    assert target.read_bytes() == CONTENT
    assert [p.name for p in target.parent.iterdir()] == ["file.bin"]
    assert seen[-1] == ("file.bin", 300_000, 300_000)


def test_a_broken_download_is_tried_again(tmp_path, monkeypatch):
    monkeypatch.setattr(download, "RETRIES", 1)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    with Server({"file.bin": CONTENT}, drops=1) as server:
        download_file(f"{server.url}/file.bin", tmp_path / "file.bin", SUM)
    assert (tmp_path / "file.bin").read_bytes() == CONTENT


def test_a_file_that_is_there_and_wrong_is_replaced(tmp_path):
    (tmp_path / "file.bin").write_bytes(b"another file")
    with Server({"file.bin": CONTENT}) as server:
        with pytest.raises(OSError, match="404"):
            download_file(f"{server.url}/gone", tmp_path / "file.bin", SUM)
        assert (tmp_path / "file.bin").read_bytes() == b"another file"  # until there is a better one
        download_file(f"{server.url}/file.bin", tmp_path / "file.bin", SUM)
    assert (tmp_path / "file.bin").read_bytes() == CONTENT


def test_without_pooch_the_message_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(DataError, match=r"pip install 'oneof\[data\]'") as caught:
        fetch("lost", tmp_path)
    assert str(tmp_path / "downloads" / "lost.rar") in str(caught.value)


def test_a_file_with_another_checksum_is_not_kept(tmp_path):
    with Server({"file.bin": b"changed"}) as server, pytest.raises(DataError, match="sha256") as caught:
        download_file(f"{server.url}/file.bin", tmp_path / "file.bin", SUM)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def _served(monkeypatch, name, *downloads, forms=None):
    known = entries()[name]
    changed = replace(known, downloads=downloads, forms=forms or known.forms)
    monkeypatch.setitem(entries(), name, changed)


def _without_sums(name):
    return tuple(replace(form, files=dict.fromkeys(form.files)) for form in entries()[name].forms)


def test_fetch_of_plain_files(tmp_path, monkeypatch):
    write_idx_set(tmp_path / "official")
    files = {p.name: p.read_bytes() for p in (tmp_path / "official").iterdir()}
    form = entries()["kmnist"].forms[0]
    sums = {path: f"md5:{hashlib.md5(files[path.split('/')[1]]).hexdigest()}" for path in form.files}
    form = replace(form, files=sums)
    folder = tmp_path / "data"
    with Server(files, drops=1, cut=50) as server:
        downloads = [Download(f"{server.url}/{p.split('/')[1]}", p, value) for p, value in sums.items()]
        _served(monkeypatch, "kmnist", *downloads, forms=(form,))
        with pytest.raises(DataError, match="put it at") as caught:
            fetch("kmnist", folder)
        assert "\n" not in str(caught.value)
        said = fetch("kmnist", folder)
        assert len(said) == 4
        assert fetch("kmnist", folder) == [f"kmnist: already there and right, in {folder}."]
        (folder / "kmnist" / "t10k-labels-idx1-ubyte.gz").write_bytes(b"damaged")
        fetch("kmnist", folder)
    assert load("kmnist", folder).x_train.shape == (20, 1, 28, 28)


def _cifar_archive(kind):
    members = {"other/x.txt": b"x"}
    for i, name in enumerate([*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"]):
        pixels, labels = cifar_images(2, seed=i)
        rows = np.concatenate([labels[:, None].astype(np.uint8), pixels], axis=1)
        members[f"cifar-10-batches-bin/{name}.bin"] = rows.tobytes()
    out = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(out, "w") as archive:
            for name, content in members.items():
                archive.writestr(name, content)
    else:
        with tarfile.open(fileobj=out, mode="w:gz") as archive:
            for name, content in members.items():
                info = tarfile.TarInfo(name)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


@pytest.mark.parametrize("kind", ["tar.gz", "zip"])
def test_fetch_of_an_archive(tmp_path, monkeypatch, kind):
    content = _cifar_archive(kind)
    with Server({"a": content}, drops=1, cut=1000) as server:
        one = Download(
            f"{server.url}/a",
            f"downloads/a.{kind}",
            f"md5:{hashlib.md5(content).hexdigest()}",
            "cifar-10-batches-bin",
        )
        _served(monkeypatch, "cifar10", one, forms=_without_sums("cifar10"))
        with pytest.raises(DataError, match="put it at"):
            fetch("cifar10", tmp_path)
        assert fetch("cifar10", tmp_path) == [f"cifar10: unpacked into {tmp_path / 'cifar-10-batches-bin'}."]
    assert load("cifar10", tmp_path).x_train.shape == (10, 3, 32, 32)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["cifar-10-batches-bin", "downloads"]
    assert list((tmp_path / "downloads").iterdir()) == []


def test_an_archive_put_there_by_hand_is_used_without_a_network(tmp_path, monkeypatch):
    content = _cifar_archive("tar.gz")
    (tmp_path / "downloads").mkdir()
    (tmp_path / "downloads" / "a.tar.gz").write_bytes(content)
    md5 = hashlib.md5(content).hexdigest()
    one = Download("http://127.0.0.1:9/a", "downloads/a.tar.gz", f"md5:{md5}", "cifar-10-batches-bin")
    _served(monkeypatch, "cifar10", one, forms=_without_sums("cifar10"))
    fetch("cifar10", tmp_path)
    assert load("cifar10", tmp_path).y_test.shape == (2,)


def test_an_unpacked_file_with_another_checksum_is_told(tmp_path, monkeypatch):
    content = _cifar_archive("zip")
    (tmp_path / "downloads").mkdir()
    (tmp_path / "downloads" / "a.zip").write_bytes(content)
    _served(
        monkeypatch,
        "cifar10",
        Download("http://127.0.0.1:9/a", "downloads/a.zip", None, "cifar-10-batches-bin"),
    )
    with pytest.raises(DataError, match="damaged or not official"):
        fetch("cifar10", tmp_path)


def test_a_rar_file_comes_with_advice(tmp_path, monkeypatch):
    with Server({"lost.rar": b"Rar!\x1a\x07"}) as server:
        _served(monkeypatch, "lost", Download(f"{server.url}/lost.rar", "downloads/lost.rar", None, "pll"))
        (said,) = fetch("lost", tmp_path)
    assert "unar" in said
    assert str(tmp_path / "pll" / "lost.mat") in said


def test_without_a_network_the_message_says_which_file_to_put_where(tmp_path, monkeypatch):
    url = "http://127.0.0.1:9/lost.rar"  # nobody listens there
    _served(monkeypatch, "lost", Download(url, "downloads/lost.rar", None, "pll"))
    with pytest.raises(DataError) as caught:
        fetch("lost", tmp_path)
    text = str(caught.value)
    assert "\n" not in text
    for word in (url, str(tmp_path / "downloads" / "lost.rar"), str(tmp_path / "pll" / "lost.mat")):
        assert word in text


def test_a_missing_page_is_told(tmp_path, monkeypatch):
    with Server({}) as server:
        _served(monkeypatch, "lost", Download(f"{server.url}/lost.rar", "downloads/lost.rar", None, "pll"))
        with pytest.raises(DataError, match="the server answers 404"):
            fetch("lost", tmp_path)


def test_a_set_that_no_address_is_known_of_is_not_passed_over(tmp_path):
    with pytest.raises(DataError, match=r"features.npz is not there \(and 1 more\); get the files from"):
        fetch("labelme", tmp_path)
    (tmp_path / "crowd").mkdir()
    for file in entries()["labelme"].forms[0].files:
        (tmp_path / file).write_bytes(b"damaged")
    with pytest.raises(DataError, match="the file is damaged or not official"):
        fetch("labelme", tmp_path)
