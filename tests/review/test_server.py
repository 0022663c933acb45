"""The review server: what it gives to its own page, and what it refuses to everybody else."""

import json

import pytest
from starlette.testclient import TestClient

from oneof.app.review.server import make_app
from tests.review.made import CLASSES, review_data

TOKEN, PORT = "s3cret-token", 4321
HOME = f"http://127.0.0.1:{PORT}"
PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 20


def client_of(folder, data, token=TOKEN, home=HOME):
    headers = {"X-Oneof-Token": token} if token else {}
    return TestClient(make_app(folder, data, TOKEN, PORT), base_url=home, headers=headers)


@pytest.fixture
def client(tmp_path):
    return client_of(tmp_path, review_data(12))


PATHS = [
    "/",
    "/api/start",
    "/api/queue",
    "/api/rows?rows=0",
    "/api/image/0",
    "/api/similar/0",
    "/nothing",
    "/docs",
    "/openapi.json",
]


# ---- what the page needs ----------------------------------------------------------------------------


def test_the_page_comes_with_a_policy_that_allows_nothing_but_itself(client):
    reply = client.get(f"/?token={TOKEN}")
    assert reply.status_code == 200
    assert "<title>oneof review</title>" in reply.text
    policy = reply.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert reply.headers["referrer-policy"] == "no-referrer"
    assert reply.headers["cache-control"] == "no-store"
    assert "access-control-allow-origin" not in reply.headers


def test_the_page_asks_for_nothing_from_elsewhere_and_parses_no_data_as_html(client):
    text = client.get(f"/?token={TOKEN}").text
    for word in ("http://", "https://", "innerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert word not in text


def test_queue_and_facts(client):
    start = client.get("/api/start").json()
    assert start["classes"] == list(CLASSES)
    assert start["n_rows"] == 12
    rows = client.get("/api/queue?view=all").json()["rows"]
    assert sorted(rows) == list(range(12))
    doubtful = client.get("/api/queue").json()["rows"]
    assert len(doubtful) == start["n_doubtful"]
    assert doubtful == [row for row in rows if row in set(doubtful)]
    found = client.get("/api/rows?rows=3,1").json()["rows"]
    assert [f["row"] for f in found] == [3, 1]
    assert found[0]["name"] == "row-3"
    assert found[0]["features"][1] == ["place", "<i>barn</i>", ""]
    chances = [p for _, p in found[0]["candidates"]]
    assert chances == sorted(chances, reverse=True)


def test_the_filter_keeps_rows_that_may_be_or_look_like_the_class(client):
    data = review_data(12)
    rows = client.get("/api/queue?view=all&column=1").json()["rows"]
    wanted = data.candidates.mask[:, 1] | (data.probabilities.argmax(axis=1) == 1)
    assert sorted(rows) == wanted.nonzero()[0].tolist()


def test_decisions_are_written_at_once_and_come_back(client, tmp_path):
    body = {"row": 2, "action": "decide", "label": 1, "seen": 0}
    assert client.post("/api/decisions", json=body).json() == {"seen": 1, "news": [[2, "decide", 1]]}
    line = json.loads((tmp_path / "decisions.jsonl").read_text())
    assert (line["row"], line["id"], line["label"], line["action"]) == (2, "row-2", "bee", "decide")
    client.post("/api/decisions", json={"row": 3, "action": "skip"})
    again = client_of(tmp_path, review_data(12)).get("/api/start").json()
    assert (again["decided"], again["skipped"], again["undo"]) == ([[2, 1]], [3], [[2, None], [3, None]])
    assert client.get("/api/queue?view=decided").json()["rows"] == [2]
    assert client.get("/api/queue?view=skipped").json()["rows"] == [3]
    client.post("/api/decisions", json={"row": 2, "action": "undo", "label": None})
    assert client.get("/api/start").json()["decided"] == []


def test_a_page_hears_of_decisions_made_elsewhere(client, tmp_path):
    other = client_of(tmp_path, review_data(12))
    other.post("/api/decisions", json={"row": 0, "action": "decide", "label": 0})
    reply = client.post("/api/decisions", json={"row": 1, "action": "decide", "label": 1, "seen": 0}).json()
    assert reply["news"] == [[0, "decide", 0], [1, "decide", 1]]


def test_a_full_disk_is_not_a_saved_decision(client, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("oneof.app.review.decisions.os.fsync", full)
    reply = client.post("/api/decisions", json={"row": 1, "action": "decide", "label": 1})
    assert reply.status_code == 503
    assert "No space left" in reply.json()["detail"]


# ---- who is refused ---------------------------------------------------------------------------------


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("token", [None, "", "wrong", TOKEN + "x", TOKEN[:-1], "ü", "s3cret-token\x80"])
def test_no_token_or_a_wrong_one(tmp_path, path, token):
    client = client_of(tmp_path, review_data(3), None)
    headers = [] if token is None else [("X-Oneof-Token", token.encode("utf-8"))]
    assert client.get(path, headers=headers).status_code == 403
    if token is not None:
        assert client.get("/", params={"token": token}).status_code == 403


def test_the_token_in_an_address_opens_only_the_page(tmp_path):
    client = client_of(tmp_path, review_data(3), None)
    assert client.get("/", params={"token": TOKEN}).status_code == 200
    assert client.get("/", params={"token": [TOKEN, TOKEN]}).status_code == 403
    assert client.get("/api/start", params={"token": TOKEN}).status_code == 403
    body = {"row": 0, "action": "decide", "label": 0}
    assert client.post("/api/decisions", params={"token": TOKEN}, json=body).status_code == 403
    assert not (tmp_path / "decisions.jsonl").exists()


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": f"https://127.0.0.1:{PORT}"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": f"http://127.0.0.1:{PORT}.evil.example"},
        {"Host": "evil.example"},
        {"Host": f"evil.example:{PORT}"},
        {"Host": "127.0.0.1"},
        {"Host": "127.0.0.1:1"},
        {"Host": ""},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_other_origins_and_hosts_even_with_the_token(client, tmp_path, headers):
    for path in ("/api/start", f"/?token={TOKEN}", "/api/image/0"):
        assert client.get(path, headers=headers).status_code == 403
    body = {"row": 0, "action": "decide", "label": 0}
    assert client.post("/api/decisions", json=body, headers=headers).status_code == 403
    assert not (tmp_path / "decisions.jsonl").exists()


def test_a_preflight_of_another_page_gets_no_permission(client):
    headers = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    reply = client.options("/api/decisions", headers=headers)
    assert reply.status_code == 403
    assert not [name for name in reply.headers if name.startswith("access-control")]


def test_its_own_page_is_welcome_by_both_names(client):
    for host in (f"127.0.0.1:{PORT}", f"localhost:{PORT}"):
        headers = {"Host": host, "Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin"}
        assert client.get("/api/start", headers=headers).status_code == 200


def test_websockets_get_nowhere(client):
    with pytest.raises(Exception), client.websocket_connect(f"/?token={TOKEN}"):  # noqa: B017, PT011
        pass


# ---- what is refused --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/api/image/../../secret.txt",
        "/api/image/..%2f..%2fsecret.txt",
        "/api/image/%2e%2e/%2e%2e/secret.txt",
        "/api/image/..%5c..%5csecret.txt",
        "/api/image//etc/passwd",
        "/api/image/0/../../../secret.txt",
        "/api/image/0%00.png",
        "/api/image/99",
        "/api/image/-1",
        "/api/image/1e3",
        "/api/image/",
        "/../secret.txt",
        "/secret.txt",
        "/pictures/",
        "/api/",
        "/api/rows",
        "/api/rows?rows=",
        "/api/rows?rows=0,../x",
        "/api/rows?rows=99",
        "/api/rows?rows=-1",
        "/api/rows?rows=" + ",".join(["0"] * 300),
        "/api/queue?view=secret",
        "/api/queue?column=4",
        "/api/queue?column=-1",
        "/api/queue?column=x",
        "/docs",
        "/redoc",
        "/openapi.json",
    ],
)
def test_path_tricks_and_rows_that_are_not_there(pictured, path):
    reply = pictured.get(path)
    assert reply.status_code in (400, 404, 422)
    assert "SECRET" not in reply.text


@pytest.mark.parametrize(
    "body",
    [
        {"row": 12, "action": "decide", "label": 0},
        {"row": -1, "action": "decide", "label": 0},
        {"row": 10**30, "action": "decide", "label": 0},
        {"row": "0", "action": "decide", "label": 0},
        {"row": True, "action": "decide", "label": 0},
        {"row": 0, "action": "decide", "label": 4},
        {"row": 0, "action": "decide", "label": -1},
        {"row": 0, "action": "decide", "label": "ant"},
        {"row": 0, "action": "decide"},
        {"row": 0, "action": "skip", "label": 1},
        {"row": 0, "action": "erase", "label": 0},
        {"row": 0, "action": "decide", "label": 0, "path": "/etc/passwd"},
        {"action": "decide"},
        [],
        "x",
    ],
)
def test_decisions_that_make_no_sense(client, tmp_path, body):
    assert client.post("/api/decisions", json=body).status_code in (400, 404, 422)
    assert not (tmp_path / "decisions.jsonl").exists()


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1.0", "1e400", "true", "[]", "{}"])
@pytest.mark.parametrize("name", ["row", "label", "seen"])
def test_numbers_that_are_no_whole_numbers_are_refused_in_words(client, tmp_path, name, value):
    given = {"action": '"decide"', "row": "0", "label": "0", "seen": "0", name: value}
    body = ", ".join(f'"{key}": {text}' for key, text in given.items())
    reply = client.post("/api/decisions", content="{" + body + "}")
    assert reply.status_code == 422
    assert reply.json()["detail"].startswith("A decision has row, action, label and seen")
    assert not (tmp_path / "decisions.jsonl").exists()


def test_a_bad_line_in_the_file_is_named_and_costs_no_decision(client, tmp_path):
    path = tmp_path / "decisions.jsonl"
    path.write_text("nonsense\n")
    body = {"row": 2, "action": "decide", "label": 1, "seen": 0}
    for reply in (client.get("/api/start"), client.post("/api/decisions", json=body)):
        assert reply.status_code == 503  # the page keeps the decision and tries again
        assert "line 1: nonsense is no decision" in reply.json()["detail"]
    path.write_text("")
    assert client.post("/api/decisions", json=body).status_code == 200


def test_an_id_with_half_a_character_is_shown(tmp_path):
    odd = review_data(2, ids=False)
    odd.ids = ("a\ud800", "b")
    client = client_of(tmp_path, odd)
    assert client.get("/api/rows?rows=0").json()["rows"][0]["name"].startswith("a")


def test_large_bodies_are_refused(client, tmp_path):
    body = b'{"row": 0, "action": "decide", "label": 0' + b" " * 5000 + b"}"
    assert client.post("/api/decisions", content=body).status_code == 413

    def pieces():
        for _ in range(10):
            yield b" " * 1000

    assert client.post("/api/decisions", content=pieces()).status_code == 413
    assert not (tmp_path / "decisions.jsonl").exists()


# ---- images -----------------------------------------------------------------------------------------


@pytest.fixture
def pictured(tmp_path):
    """Row 0: an image; 1: a link out of the folder; 2: missing; 3: outside; 4: no image type; 5: a folder."""
    folder = tmp_path / "pictures"
    folder.mkdir()
    (folder / "a.png").write_bytes(PNG)
    (tmp_path / "secret.txt").write_text("SECRET")
    (tmp_path / "secret.png").write_text("SECRET")
    (folder / "link.png").symlink_to(tmp_path / "secret.png")
    (folder / "page.svg").write_text("SECRET")
    (folder / "sub.png").mkdir()
    names = ["a.png", "link.png", "missing.png", "../secret.png", "page.svg", "sub.png"]
    images = [str(folder / name) for name in names]
    return client_of(tmp_path, review_data(6, images=images, image_folder=str(folder)))


def test_images_come_by_row_number_and_only_from_their_folder(pictured):
    reply = pictured.get("/api/image/0")
    assert reply.status_code == 200
    assert reply.content == PNG
    assert reply.headers["content-type"] == "image/png"
    for row in range(1, 6):
        refused = pictured.get(f"/api/image/{row}")
        assert refused.status_code == 404
        assert "SECRET" not in refused.text


def test_the_recorded_folder_survives_saving(tmp_path, pictured):
    from oneof.app.review import ReviewData

    folder = tmp_path / "pictures"
    images = [str(folder / "a.png"), str(tmp_path / "secret.png")]
    review_data(2, images=images, image_folder=str(folder)).save(tmp_path)
    client = client_of(tmp_path, ReviewData.load(tmp_path))
    assert [client.get(f"/api/image/{row}").status_code for row in (0, 1)] == [200, 404]
