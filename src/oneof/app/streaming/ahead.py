"""One thread that reads while another computes."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def read_ahead(items: Iterable[T], depth: int = 1) -> Iterator[T]:
    """The same items, up to `depth` of them made before they are asked for.

    An error in the making is raised where the item would have come. Whoever stops early also stops the
    thread.
    """
    # an item, the error in its place, or None at the end
    ready: queue.Queue[tuple[T] | BaseException | None] = queue.Queue(depth)
    stopped = threading.Event()

    def give(item: tuple[T] | BaseException | None) -> None:
        while not stopped.is_set():
            try:
                return ready.put(item, timeout=0.1)
            except queue.Full:
                continue

    def work() -> None:
        try:
            for item in items:
                give((item,))
                if stopped.is_set():
                    return
            give(None)
        except BaseException as error:
            give(error)

    thread = threading.Thread(target=work, name="oneof-reader", daemon=True)
    thread.start()
    try:
        while (got := ready.get()) is not None:
            if isinstance(got, BaseException):
                raise got
            yield got[0]
    finally:
        stopped.set()
        thread.join()
