"""Connections of the review server: where it listens, and how long it waits. Needs the extra `review`."""

import asyncio
import hashlib
import os
import socket
from pathlib import Path

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from oneof.app.review.folder import ReviewError

HOST = "127.0.0.1"
PATIENCE = 10.0
"""Seconds for the whole of a request to arrive."""


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
