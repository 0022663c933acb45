"""`oneof review` as a person meets it: a real server, Ctrl-C, a crash, errors in one line."""

import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from oneof.app.cli import main
from oneof.app.review.server import ReviewServer
from tests.review.made import review_data
from tests.review.serving import Serving


@pytest.fixture
def run_folder(tmp_path):
    folder = tmp_path / "my model"
    review_data(12).save(folder)
    return folder


def ask(serving, path, body=None, host=None):
    """One request, its path sent exactly as given; status and content."""
    connection = http.client.HTTPConnection("127.0.0.1", serving.port, timeout=10)
    headers = {"X-Oneof-Token": serving.token, **({"Host": host} if host else {})}
    data = None
    if body is not None:
        data, headers["Content-Type"] = json.dumps(body), "application/json"
    connection.request("GET" if body is None else "POST", path, data, headers)
    reply = connection.getresponse()
    content = reply.read()
    connection.close()
    return reply.status, content


def test_ctrl_c_says_what_was_decided_and_how_to_go_on(run_folder):
    with Serving(run_folder) as serving:
        assert "12 rows, 4 classes" in serving.printed
        for row in range(3):
            assert ask(serving, "/api/decisions", {"row": row, "action": "decide", "label": 1})[0] == 200
        ask(serving, "/api/decisions", {"row": 3, "action": "skip"})
        code, out, err = serving.end(signal.SIGINT)
    assert (code, err) == (0, "")
    assert f"3 rows decided, 1 skipped: {run_folder}/decisions.jsonl" in out
    assert f"oneof fit ... --clean '{run_folder}/decisions.jsonl'" in out


def test_a_killed_server_loses_nothing_and_comes_back_at_the_same_port(run_folder):
    with Serving(run_folder) as first:
        ask(first, "/api/decisions", {"row": 5, "action": "decide", "label": 2})
        first.end(signal.SIGKILL)
    with Serving(run_folder) as second:
        assert second.port == first.port
        assert second.token != first.token
        assert json.loads(ask(second, "/api/start")[1])["decided"] == [[5, 2]]
        with Serving(run_folder) as third:  # beside it: another port, the same decisions
            assert third.port != second.port
            ask(third, "/api/decisions", {"row": 6, "action": "decide", "label": 0})
            assert json.loads(ask(second, "/api/start")[1])["decided"] == [[5, 2], [6, 0]]


def test_paths_that_a_browser_would_tidy_up_are_refused_as_they_are(run_folder):
    (run_folder / "secret.txt").write_text("SECRET")
    with Serving(run_folder) as serving:
        assert ask(serving, "/api/start")[0] == 200
        tricks = [
            "/../secret.txt",
            "/..//..//etc/passwd",
            "/./secret.txt",
            "//etc/passwd",
            "/%2e%2e/secret.txt",
        ]
        tricks += ["/api/image/../../secret.txt", "/api/image/%2e%2e%2fsecret.txt", "/secret.txt", "/*"]
        for path in tricks:
            status, content = ask(serving, path)
            assert status in (403, 404, 422), path
            assert b"SECRET" not in content
        assert ask(serving, "/api/start", host="rebound.example")[0] == 403
        assert ask(serving, "http://evil.example/api/start")[0] in (200, 400, 403, 404)


def test_it_listens_on_this_machine_only(run_folder):
    with Serving(run_folder) as serving:
        assert serving.url.startswith("http://127.0.0.1:")
        others = socket.gethostbyname_ex(socket.gethostname())[2]
        for address in {"127.0.0.2", *others} - {"127.0.0.1"}:
            with pytest.raises(OSError):  # noqa: PT011
                socket.create_connection((address, serving.port), timeout=2)


PART = "POST /api/decisions HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
UNFINISHED = {
    "nothing": "",
    "half a line": "GET /api/sta",
    "half the headers": PART,
    "half the body": PART + "X-Oneof-Token: {token}\r\nContent-Length: 40\r\n\r\n{{",
    "a second request": "GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\nGET /ap",
}


@pytest.fixture(scope="module")
def impatient(tmp_path_factory):
    """A server in this process that waits half a second for a request."""
    folder = tmp_path_factory.mktemp("run")
    (folder / "large.png").write_bytes(bytes(40_000_000))
    data = review_data(1, images=[str(folder / "large.png")])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("oneof.app.review.server.PATIENCE", 0.5)
        server = ReviewServer(folder, data)
        thread = threading.Thread(target=server.run)
        thread.start()
        yield server
        server.server.should_exit = True
        thread.join()


@pytest.mark.parametrize("words", UNFINISHED.values(), ids=UNFINISHED)
def test_a_connection_that_never_finishes_its_request_is_ended(impatient, words):
    with socket.create_connection(("127.0.0.1", impatient.port), timeout=60) as connection:
        connection.sendall(words.format(port=impatient.port, token=impatient.token).encode())
        while connection.recv(4096):  # the end, and not the timeout of this socket
            pass


def test_a_connection_that_does_not_take_its_answer_is_ended(impatient):
    request = f"GET /api/image/0 HTTP/1.1\r\nHost: 127.0.0.1:{impatient.port}\r\n"
    with socket.create_connection(("127.0.0.1", impatient.port), timeout=60) as connection:
        connection.sendall(f"{request}X-Oneof-Token: {impatient.token}\r\n\r\n".encode())
        while not impatient.server.server_state.connections:
            time.sleep(0.01)
        while impatient.server.server_state.connections:
            time.sleep(0.01)


def test_a_byte_now_and_then_does_not_keep_a_connection(impatient):
    def send_bytes():
        for _ in range(600):
            connection.sendall(b"G")
            time.sleep(0.1)

    connection = socket.create_connection(("127.0.0.1", impatient.port), timeout=60)
    with connection, pytest.raises(OSError, match=r"reset|pipe"):
        send_bytes()


def failed(capsys, *arguments):
    with pytest.raises(SystemExit) as end:
        main(["review", *map(str, arguments)])
    assert end.value.code == 1
    return capsys.readouterr().err


def test_mistakes_are_answered_in_words(run_folder, tmp_path, capsys):
    assert "holds no review.npz" in failed(capsys, tmp_path)
    assert "--class 'be' is no known class" in failed(capsys, run_folder, "--class", "be")
    assert "port 99999 cannot be used" in failed(capsys, run_folder, "--port", "99999")


def test_a_port_in_use_is_named(run_folder, capsys):
    with Serving(run_folder) as serving:
        words = failed(capsys, run_folder, "--no-browser", "--port", serving.port)
    assert f"port {serving.port} cannot be used" in words


def test_a_missing_extra_is_named(run_folder):
    code = (
        "import sys; sys.modules['starlette'] = None\n"
        f"from oneof.app.cli import main; main(['review', {str(run_folder)!r}, '--no-browser'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert "pip install 'oneof[review]'" in done.stderr
    assert "Traceback" not in done.stderr
