"""Who may talk to the review server: the page it served itself, and nobody else.

The server listens on 127.0.0.1, but every web page open in the same browser can send requests there, and a
name that resolves to 127.0.0.1 can make them look local (DNS rebinding). So each request must name this
server as its host, must not come from another origin, and must carry the token: the page in its address,
its later requests in a header, which no other page can set without permission that is never given.
"""

import secrets
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any
from urllib.parse import parse_qs

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

TOKEN_HEADER = "x-oneof-token"
MAX_BODY = 4096

SECURITY_HEADERS = {
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


class Guard:
    """Wraps the application; what is refused never reaches it."""

    def __init__(self, app: App, token: str, port: int, content_policy: str) -> None:
        self.app, self.token = app, token
        self.hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        self.origins = {f"http://{host}" for host in self.hosts}
        self.headers = [
            (name.encode(), value.encode())
            for name, value in {**SECURITY_HEADERS, "content-security-policy": content_policy}.items()
        ]

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *self.headers]
            await send(message)

        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})  # there are none here
            return
        refused = self.refusal(scope)
        if refused:
            await _answer(send_with_headers, 403, refused)
            return
        body = await _body(receive)
        if body is None:
            await _answer(send_with_headers, 413, f"The request is larger than {MAX_BODY} bytes.")
            return
        await self.app(scope, _replay(body, receive), send_with_headers)

    def refusal(self, scope: Message) -> str | None:
        """Why a request is refused, or None."""
        headers: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
        host = headers.get("host", [])
        if len(host) != 1 or host[0] not in self.hosts:
            return "This server answers only to 127.0.0.1."
        if any(origin not in self.origins for origin in headers.get("origin", ())):
            return "Requests from other pages are refused."
        if any(site not in ("same-origin", "none") for site in headers.get("sec-fetch-site", ())):
            return "Requests from other pages are refused."
        given = headers.get(TOKEN_HEADER, [])
        if scope["path"] == "/":  # only the page itself is asked for by address
            given = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [])
        if not self._right(given):
            return "The token is missing or wrong. Open the address that `oneof review` printed."
        return None

    def _right(self, given: Iterable[str]) -> bool:
        tokens = list(given)
        return len(tokens) == 1 and secrets.compare_digest(tokens[0].encode(), self.token.encode())


async def _body(receive: Receive) -> bytes | None:
    """The whole body, or None if it is too large; at most one chunk beyond the limit is held."""
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > MAX_BODY:
            return None
        if not message.get("more_body", False):
            return body


def _replay(body: bytes, receive: Receive) -> Receive:
    """Hand the application a body that was read already, once; then what comes later."""
    handed = False

    async def once() -> Message:
        nonlocal handed
        if handed:
            return await receive()
        handed = True
        return {"type": "http.request", "body": body, "more_body": False}

    return once


async def _answer(send: Send, status: int, text: str) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text.encode() + b"\n"})
