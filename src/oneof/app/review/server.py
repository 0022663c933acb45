"""The web server behind `oneof review`: one page and a few small answers, for this machine only.

The server listens on 127.0.0.1, but every web page open in the same browser can send requests there, and a
name that resolves to 127.0.0.1 can make them look local (DNS rebinding). So each request must name this
server as its host, must not come from another origin, and must carry the token: the page in its address,
its later requests in a header, which no other page can set without permission that is never given.

Needs the extra `review`; nothing else imports this file.
"""

import asyncio
import base64
import hashlib
import json
import os
import re
import secrets
import socket
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import h11
import numpy as np
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from oneof.app.review.decisions import Decisions
from oneof.app.review.folder import ReviewData, ReviewError
from oneof.app.review.ranking import VIEWS, ReviewList, rounded, similar_rows
from oneof.tables.errors import DataError

HOST = "127.0.0.1"
PATIENCE = 10.0
"""Seconds for the whole of a request to arrive."""
MAX_ROWS = 200
"""Rows whose facts are given in one answer."""
UNDO_STEPS = 200
MAX_BODY = 4096
CLOSE = {"connection": "close"}
"""Of an answer to a request whose body was not read."""
TOKEN_HEADER = "x-oneof-token"
WHOLE_PAGE = [["navigate"], ["document"]]
"""What a browser says of a page that it opens in a tab, not in a frame of another."""
SECURITY_HEADERS = {
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


class Json(JSONResponse):
    """JSON in ASCII: a name with half a character in it, as a file system may give, can be sent too."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content).encode()


def make_app(folder: Path, data: ReviewData, token: str, port: int) -> ASGIApp:
    """The application for one run folder, behind its guard."""
    listed, decisions = ReviewList(data), Decisions(folder, data)
    page = (files("oneof.app.review") / "page.html").read_text(encoding="utf-8")
    key = hashlib.sha256(f"{folder.resolve()} {data.candidates.hash}".encode()).hexdigest()[:16]

    def checked(text: Any, n: int, what: str) -> int:
        number = int(text) if re.fullmatch(r"[0-9]{1,9}", str(text)) else -1
        if not 0 <= number < n:
            raise HTTPException(404, f"There is no {what} {text}; they are 0 to {n - 1}.")
        return number

    def start(request: Request) -> Response:
        """Everything the page needs once: names, where each row stands, what can be undone."""
        decisions.refresh()
        return Json(
            {
                "title": folder.resolve().name,
                "file": str(decisions.path),
                "key": key,
                "classes": [str(name) for name in data.candidates.classes],
                "n_rows": len(data),
                "n_doubtful": int(listed.doubtful.sum()),
                "foreign": decisions.foreign,
                "decided": sorted(decisions.decided.items()),
                "skipped": sorted(decisions.skipped),
                "undo": [[event.row, event.label] for event in decisions.undo[-UNDO_STEPS:]],
                "seen": len(decisions.events),
                "trusted": bool(np.any(data.trusted)),
            }
        )

    def rows_in_order(request: Request) -> Response:
        view, column = request.query_params.get("view", "doubtful"), request.query_params.get("column")
        if view not in VIEWS:
            raise HTTPException(400, f"There is no view {view}: one of {', '.join(VIEWS)}.")
        kept = None if column is None else checked(column, data.candidates.n_classes, "class")
        decisions.refresh()
        return Json({"rows": listed.rows(view, decisions, kept)})

    def facts(request: Request) -> Response:
        wanted = request.query_params.get("rows", "").split(",")
        if len(wanted) > MAX_ROWS:
            raise HTTPException(400, f"{len(wanted)} rows are too many; ask for at most {MAX_ROWS}.")
        return Json({"rows": [listed.facts(checked(row, len(data), "row")) for row in wanted]})

    def image(request: Request) -> Response:
        found = listed.image(checked(request.path_params["row"], len(data), "row"))
        if found is None:
            raise HTTPException(404, "This row has no image that can be shown.")
        return FileResponse(found[0], media_type=found[1])

    def similar(request: Request) -> Response:
        """Rows like this one whose label is known: name, label, and the first column of the table."""
        row = checked(request.path_params["row"], len(data), "row")
        decisions.refresh()
        found = []
        for other, label in similar_rows(data, row, decisions.decided):
            read = next((f"{name} {rounded(v[other])}" for name, (v, _) in listed.features.items()), "")
            found.append([str(data.name_of(other)), label, read])
        return Json({"rows": found})

    async def decide(request: Request) -> Response:
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > MAX_BODY:
                raise HTTPException(413, f"The request is larger than {MAX_BODY} bytes.", CLOSE)
        given = _decision(body)
        decision = checked(given["row"], len(data), "row"), given["action"], given["label"]
        try:
            decisions.check(*decision)
        except ReviewError as error:
            raise HTTPException(400, str(error)) from None
        try:
            await run_in_threadpool(decisions.append, *decision)
        except OSError as error:
            raise HTTPException(503, f"Not saved: {error}") from None
        news = decisions.events[max(0, given["seen"]) :]
        told = [[event.row, event.action, event.label] for event in news]
        return Json({"seen": len(decisions.events), "news": told})

    answers: dict[str, Callable[[Request], Any]] = {
        "/": lambda request: HTMLResponse(page),
        "/api/start": start,
        "/api/queue": rows_in_order,
        "/api/rows": facts,
        "/api/image/{row}": image,
        "/api/similar/{row}": similar,
    }
    routes = [Route(path, answer) for path, answer in answers.items()]
    routes.append(Route("/api/decisions", decide, methods=["POST"]))

    def refused(request: Request, error: Exception) -> Response:
        if isinstance(error, HTTPException):
            return Json({"detail": error.detail}, error.status_code, error.headers)
        # somebody wrote into the file of decisions by hand: the page waits until it is mended
        return Json({"detail": str(error)}, 503)

    app = Starlette(routes=routes, exception_handlers={HTTPException: refused, DataError: refused})
    app.router.redirect_slashes = False
    return Guard(app, token, port, content_policy(page))


def _decision(body: bytes) -> dict[str, Any]:
    """A decision as the page sends it; `seen`: how many events the page knows, others may come from a tab."""
    kinds = {"row": (int,), "action": (str,), "label": (int, type(None)), "seen": (int,)}
    try:
        given = {"label": None, "seen": 0, **json.loads(body)}
        if given.keys() == kinds.keys() and all(type(given[name]) in kind for name, kind in kinds.items()):
            return given
    except (ValueError, TypeError, RecursionError):
        pass
    raise HTTPException(422, "A decision has row, action, label and seen: whole numbers and a word.")


def content_policy(page: str) -> str:
    """What the page may do: run its own script and style, known by their digests, and talk to us."""

    def digest(tag: str) -> str:
        inside = re.search(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        assert inside is not None
        return base64.b64encode(hashlib.sha256(inside[1].encode()).digest()).decode()

    return (
        f"default-src 'none'; script-src 'sha256-{digest('script')}'; style-src 'sha256-{digest('style')}'; "
        "connect-src 'self'; img-src blob: data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


class Guard:
    """Wraps the application; what is refused never reaches it."""

    def __init__(self, app: ASGIApp, token: str, port: int, content_policy: str) -> None:
        self.app, self.token = app, token
        self.hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        self.origins = {f"http://{host}" for host in self.hosts}
        headers = {**SECURITY_HEADERS, "content-security-policy": content_policy}
        self.headers = [(name.encode(), value.encode()) for name, value in headers.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})  # there are none here
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *self.headers]
            await send(message)

        refused = self.refusal(scope)
        app = self.app if refused is None else PlainTextResponse(f"{refused}\n", 403, CLOSE)
        await app(scope, receive, send_with_headers)

    def refusal(self, scope: Scope) -> str | None:
        """Why a request is refused, or None."""
        headers = Headers(scope=scope)
        host = headers.getlist("host")
        if len(host) != 1 or host[0] not in self.hosts:
            return "This server answers only to 127.0.0.1."
        # the file that `oneof review` hands to the browser is another site too; it opens the page as a whole
        whole = [headers.getlist(f"sec-fetch-{name}") for name in ("mode", "dest")] == WHOLE_PAGE
        sites = [] if whole and scope["path"] == "/" else headers.getlist("sec-fetch-site")
        if not self.origins.issuperset(headers.getlist("origin")) or {*sites} - {"same-origin", "none"}:
            return "Requests from other pages are refused."
        given = headers.getlist(TOKEN_HEADER)
        if scope["path"] == "/":  # only the page itself is asked for by address
            given = QueryParams(scope["query_string"]).getlist("token")
        if len(given) != 1 or not secrets.compare_digest(given[0].encode(), self.token.encode()):
            return "The token is missing or wrong. Open the address that `oneof review` printed."
        return None


class ReviewServer:
    """A server for one run folder: `url` is known before it runs."""

    def __init__(self, folder: Path, data: ReviewData, port: int = 0) -> None:
        self.socket = listen(port, folder)
        self.port = int(self.socket.getsockname()[1])
        self.token = secrets.token_urlsafe(24)
        self.url = f"http://{HOST}:{self.port}/?token={self.token}"
        config = uvicorn.Config(
            make_app(folder, data, self.token, self.port),
            log_level="warning",
            access_log=False,
            server_header=False,
            ws="none",
            lifespan="off",
            http=ImpatientProtocol,
            limit_concurrency=100,
            timeout_graceful_shutdown=2,
        )
        self.server = uvicorn.Server(config)

    def run(self) -> None:
        """Serve until Ctrl-C."""
        with self.socket:
            self.server.run(sockets=[self.socket])


# ---- connections ------------------------------------------------------------------------------


class ImpatientProtocol(H11Protocol):
    """Ends connections that do not send their whole request, or take the answer, within some seconds.

    uvicorn by itself limits only the time between two requests.
    """

    limit: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._begin()

    def data_received(self, data: bytes) -> None:
        self._begin()  # from the first byte on: a byte now and then does not help
        super().data_received(data)

    def handle_events(self) -> None:
        super().handle_events()
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._end()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._begin()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._end()

    def _begin(self) -> None:
        if self.limit is None:
            self.limit = self.loop.call_later(PATIENCE, self.transport.abort)

    def _end(self) -> None:
        if self.limit is not None:
            self.limit.cancel()
        self.limit = None


def listen(port: int, folder: Path) -> socket.socket:
    """A socket on 127.0.0.1. Port 0: one that belongs to the folder if it is free, else any.

    With the same port after a restart, the browser gives the new page what the old one could not save.
    """
    usual = 20000 + int(hashlib.sha256(str(folder.resolve()).encode()).hexdigest(), 16) % 20000
    for wanted in [port] if port else [usual, 0]:
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if os.name == "posix":  # elsewhere this would let two servers share a port
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((HOST, wanted))
            listening.listen()
            return listening
        except (OSError, OverflowError) as error:
            listening.close()
            reason = error
    raise ReviewError(f"port {port} cannot be used: {reason}.\n  Leave --port out to get a free one.")
