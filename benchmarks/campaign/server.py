"""Hostile requests to the review server: refused in words, nothing told, nothing written, and it goes on."""

from __future__ import annotations

import json
import select
import shutil
import socket
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote_from_bytes

import numpy as np
from PIL import Image

from benchmarks.campaign import Attempt, Failed, begin
from benchmarks.campaign.mutations import TOKENS, mutated
from benchmarks.campaign.subjects import ROWS, SETS
from oneof.app.review import ReviewData, server
from oneof.app.review.server import ReviewServer

PATIENCE = 3.0
"""Seconds for a request in this part, so that half-open connections end sooner."""
SECRET = b"TOP SECRET"
REFUSED = (400, 403, 404, 405, 413, 414, 422, 431)
HEADERS = (b"content-security-policy", b"x-content-type-options", b"x-frame-options", b"referrer-policy")
FIXED = """/ /api/start /api/queue /api/queue?view=all /api/queue?view=x /api/queue?column=99
/api/rows?rows=0,1 /api/rows?rows= /api/image/0 /api/image/1 /api/image/2 /api/image/-1
/api/image/..%2fsecret.txt /api/image/%2e%2e%2fsecret.txt /../secret.txt //secret.txt /static/x /api/decisions
/api/image/../secret.txt /secret.txt /%00 /\u00e9"""
PATHS = [*FIXED.split(), "/api/rows?rows=" + "0," * 300]
BODY = {"row": 1, "action": "decide", "label": 1, "seen": 0}


class Served:
    """A server in a thread, over a folder with an image and a file beside that must not be seen."""

    def __init__(self, folder: Path) -> None:
        server.PATIENCE = PATIENCE
        pictures = folder / "pictures"
        pictures.mkdir(parents=True)
        (folder / "secret.txt").write_bytes(SECRET)
        Image.new("RGB", (4, 4)).save(pictures / "a.png")
        shutil.copy(folder / "secret.txt", folder / "secret.png")
        (pictures / "b.png").symlink_to(folder / "secret.png")
        names = ["a.png", "b.png", "../secret.png", *["a.png"] * (ROWS - 3)]
        images = [str(pictures / name) for name in names]
        beliefs = np.full(SETS.shape, 1 / len(SETS.classes))
        data = ReviewData(SETS, beliefs, images=images, image_folder=str(pictures))
        (folder / "run").mkdir()
        self.decisions = folder / "run" / "decisions.jsonl"
        self.server = ReviewServer(folder / "run", data)
        self.host, self.token = f"127.0.0.1:{self.server.port}", self.server.token
        threading.Thread(target=self.server.run, daemon=True).start()
        while not self.server.server.started:
            time.sleep(0.01)

    def lines(self) -> int:
        return self.decisions.read_bytes().count(b"\n") if self.decisions.exists() else 0

    def answer(self, request: bytes) -> bytes:
        """Everything that comes back until the server closes, or has nothing more to say."""
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=10) as connection:
            made = b""
            try:
                connection.sendall(request)
                if not select.select([connection], [], [], 0.5)[0]:
                    connection.shutdown(socket.SHUT_WR)  # it waits for more, and there is no more
                while block := connection.recv(1 << 16):
                    made += block
                    if len(made) > 1 << 22:
                        raise Failed("more than 4 MB came back")
            except (ConnectionResetError, BrokenPipeError):
                pass  # it did not want to hear all of it
            except TimeoutError:
                raise Failed("neither an answer nor an end within 10 s") from None
        return made

    def request(self, method: str, path: str, headers: dict[str, str], body: bytes = b"") -> bytes:
        told = {"Host": self.host, "Connection": "close", **headers}
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in told.items())]
        if body and "Content-Length" not in told:
            lines.append(f"Content-Length: {len(body)}")
        return "\r\n".join(lines).encode("utf-8", "surrogateescape") + b"\r\n\r\n" + body


def start(templates: Path) -> Attempt:
    served = Served(templates)
    ways = {"no token": no_token, "other site": other_site, "mutated": mutations, "paths": paths}
    ways["bodies"] = bodies
    pick = [*ways] * 40 + ["half open"]

    def attempt(rng: np.random.Generator, folder: Path) -> tuple[str, int]:
        kind = begin(folder, pick[rng.integers(len(pick))])
        if kind == "half open":
            return kind, half_open(rng, served)
        request, may_pass = ways[kind](rng, served)
        (folder / "request").write_bytes(request)
        before = served.lines()
        answer = served.answer(request)
        (folder / "answer").write_bytes(answer)
        if SECRET in answer:
            raise Failed("what lies outside was shown")
        head = answer.partition(b"\r\n\r\n")[0].lower()
        status = int(head.split(b" ")[1]) if head.startswith(b"http/1.1 ") else 0
        allowed = (200, 0, *REFUSED) if may_pass else (0, *REFUSED)
        if status not in allowed:
            raise Failed(f"the answer is {status}: {answer[:200]!r}")
        if not may_pass and served.lines() != before:
            raise Failed("something was written")
        if status and b"invalid http" not in answer.lower() and not all(name in head for name in HEADERS):
            raise Failed(f"headers are missing: {head[:300]!r}")
        if rng.random() < 0.05:
            good = served.answer(served.request("GET", "/api/start", {"X-Oneof-Token": served.token}))
            if not good.startswith(b"HTTP/1.1 200"):
                raise Failed(f"an honest request gets {good[:100]!r}")
        return kind, int(status != 200)

    return attempt


def some(rng: np.random.Generator, values: Any) -> Any:
    return values[rng.integers(len(values))]


def drawn(rng: np.random.Generator, served: Served, headers: dict[str, str]) -> bytes:
    """A request with these headers for one of the paths."""
    path = some(rng, PATHS)
    if rng.random() < 0.3:
        return served.request("POST", "/api/decisions", headers, json.dumps(BODY).encode())
    return served.request(str(rng.choice(["GET", "GET", "HEAD", "PUT", "DELETE", "OPTIONS"])), path, headers)


def no_token(rng: np.random.Generator, served: Served) -> tuple[bytes, bool]:
    wrong = ["", "x", served.token[:-1], served.token + "x", served.token.swapcase(), "\u00fc", "a" * 9000]
    headers = {} if rng.random() < 0.3 else {"X-Oneof-Token": some(rng, wrong)}
    return drawn(rng, served, headers), False


def other_site(rng: np.random.Generator, served: Served) -> tuple[bytes, bool]:
    origins = ("http://evil.example", "null", f"http://{served.host}.evil.example", f"https://{served.host}")
    hosts = ("evil.example", served.host + ".evil.example", "127.0.0.1", "0.0.0.0:1", "")
    sites = [{"Origin": name} for name in origins] + [{"Host": name} for name in hosts]
    sites += [{"Sec-Fetch-Site": name} for name in ("cross-site", "same-site")]
    sites += [{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}]
    return drawn(rng, served, {"X-Oneof-Token": served.token, **some(rng, sites)}), False


def mutations(rng: np.random.Generator, served: Served) -> tuple[bytes, bool]:
    known = rng.random() < 0.5
    headers = {"X-Oneof-Token": served.token} if known else {}
    return mutated(rng, drawn(rng, served, headers)), known


def paths(rng: np.random.Generator, served: Served) -> tuple[bytes, bool]:
    more = some(rng, TOKENS)[:2000] if rng.random() < 0.7 else b""
    headers = {"X-Oneof-Token": served.token}
    return served.request("GET", some(rng, PATHS) + quote_from_bytes(more, safe="/\\[]{}:|"), headers), True


def bodies(rng: np.random.Generator, served: Served) -> tuple[bytes, bool]:
    body = mutated(rng, json.dumps(BODY).encode())
    headers = {"X-Oneof-Token": served.token}
    if rng.random() < 0.1:
        headers["Content-Length"] = str(some(rng, (0, 1, -1, 10**12, len(body) + 5, "x")))
    return served.request("POST", "/api/decisions", headers, body), True


def half_open(rng: np.random.Generator, served: Served) -> int:
    """Connections that send a part of a request are ended, and honest ones are answered meanwhile."""
    whole = drawn(rng, served, {"X-Oneof-Token": served.token})
    open_ones = []
    for _ in range(20):
        connection = socket.create_connection(("127.0.0.1", served.server.port), timeout=PATIENCE + 20)
        connection.sendall(whole[: int(rng.integers(0, len(whole) - 2))])
        open_ones.append(connection)
    good = served.answer(served.request("GET", "/api/start", {"X-Oneof-Token": served.token}))
    if not good.startswith(b"HTTP/1.1 200"):
        raise Failed(f"beside half-open connections an honest request gets {good[:100]!r}")
    for connection in open_ones:
        try:
            while connection.recv(1 << 16):
                pass
        except ConnectionResetError:
            pass
        except TimeoutError:
            raise Failed("a half-open connection stays") from None
        finally:
            connection.close()
    return 1
