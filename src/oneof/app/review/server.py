"""The web server behind `oneof review`: one page and four small answers, for this machine only.

Needs the extra `review`; nothing else imports this file.
"""

import base64
import hashlib
import os
import re
import secrets
import socket
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

import uvicorn
from fastapi import Body, FastAPI, HTTPException, Query
from fastapi.responses import FileResponse, HTMLResponse
from pydantic import BaseModel, ConfigDict

from oneof.app.review.decisions import Decisions, Event
from oneof.app.review.folder import ReviewData, ReviewError
from oneof.app.review.guard import App, Guard
from oneof.app.review.queue import Queue, View

HOST = "127.0.0.1"
MAX_ROWS = 200
"""Rows whose facts are given in one answer."""
UNDO_STEPS = 200


class Given(BaseModel):
    """A decision as the page sends it."""

    model_config = ConfigDict(extra="forbid", strict=True)
    row: int
    action: Literal["decide", "skip", "undo"]
    label: int | None = None
    seen: int = 0
    """How many events the page knows; it is told of later ones, which may come from another tab."""


def make_app(folder: Path, data: ReviewData, token: str, port: int) -> App:
    """The application for one run folder, behind its guard."""
    queue, decisions = Queue(data), Decisions(folder, data)
    page = (files("oneof.app.review") / "page.html").read_text(encoding="utf-8")
    key = hashlib.sha256(f"{folder.resolve()} {data.candidates.hash}".encode()).hexdigest()[:16]
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)

    def checked(row: int) -> int:
        if not 0 <= row < len(data):
            raise HTTPException(404, f"There is no row {row}; rows are 0 to {len(data) - 1}.")
        return row

    @app.get("/")
    def show_page() -> HTMLResponse:
        return HTMLResponse(page)

    @app.get("/api/start")
    def start() -> dict[str, Any]:
        """Everything the page needs once: names, where each row stands, what can be undone."""
        decisions.refresh()
        return {
            "title": folder.resolve().name,
            "file": str(decisions.path),
            "key": key,
            "classes": [str(name) for name in data.candidates.classes],
            "n_rows": len(data),
            "n_doubtful": int(queue.signs.doubtful.sum()),
            "foreign": decisions.foreign,
            "decided": sorted(decisions.decided.items()),
            "skipped": sorted(decisions.skipped),
            "undo": [[event.row, event.label] for event in decisions.undo[-UNDO_STEPS:]],
            "seen": len(decisions.events),
        }

    @app.get("/api/queue")
    def rows_in_order(view: View = "doubtful", column: int | None = None) -> dict[str, Any]:
        if column is not None and not 0 <= column < data.candidates.n_classes:
            raise HTTPException(404, f"There is no class {column}.")
        decisions.refresh()
        return {"rows": queue.rows(view, decisions, column)}

    @app.get("/api/rows")
    def facts(
        rows: Annotated[str, Query(pattern=r"^\d{1,9}(,\d{1,9})*$", max_length=4000)],
    ) -> dict[str, Any]:
        wanted = [int(row) for row in rows.split(",")]
        if len(wanted) > MAX_ROWS:
            raise HTTPException(400, f"{len(wanted)} rows are too many; ask for at most {MAX_ROWS}.")
        return {"rows": [queue.facts(checked(row)) for row in wanted]}

    @app.get("/api/image/{row}")
    def image(row: int) -> FileResponse:
        found = queue.image(checked(row))
        if found is None:
            raise HTTPException(404, "This row has no image that can be shown.")
        return FileResponse(found[0], media_type=found[1])

    @app.post("/api/decisions")
    def decide(given: Annotated[Given, Body()]) -> dict[str, Any]:
        checked(given.row)
        try:
            decisions.append(given.row, given.action, given.label)
        except ReviewError as error:
            raise HTTPException(400, str(error)) from None
        except OSError as error:
            raise HTTPException(503, f"Not saved: {error}") from None
        news = decisions.events[max(0, given.seen) :]
        return {"seen": len(decisions.events), "news": [_plain(event) for event in news]}

    return Guard(app, token, port, content_policy(page))


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


class ReviewServer:
    """A server for one run folder: `url` is known before it runs."""

    def __init__(self, folder: Path, data: ReviewData, port: int = 0) -> None:
        self.socket = _listen(port, folder)
        self.port = int(self.socket.getsockname()[1])
        self.token = secrets.token_urlsafe(24)
        app = make_app(folder, data, self.token, self.port)
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            server_header=False,
            ws="none",
            lifespan="off",
            timeout_graceful_shutdown=2,
        )
        self.server = uvicorn.Server(config)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}/?token={self.token}"

    def run(self) -> None:
        """Serve until Ctrl-C."""
        with self.socket:
            self.server.run(sockets=[self.socket])


def _listen(port: int, folder: Path) -> socket.socket:
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


def _plain(event: Event) -> list[Any]:
    return [event.row, event.action, event.label]
