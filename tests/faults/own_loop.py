"""Proxies run in an event loop, of the test or of their own thread, and obey calls from any."""

from __future__ import annotations

import asyncio
import selectors
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Protocol, TypeVar

from tests.stack.eventually import PATIENCE_SECONDS

_CALL_SECONDS = PATIENCE_SECONDS
"""A control that its loop has not carried out by then means that the loop is stuck."""

T = TypeVar("T")


class Startable(Protocol):
    """Something that serves while it is started, in the loop that started it."""

    async def start(self) -> None:
        """Serve from now on."""

    async def stop(self) -> None:
        """Serve nothing any more, and hold nothing open."""


S = TypeVar("S", bound=Startable)


def call_on(loop: asyncio.AbstractEventLoop, action: Callable[[], T]) -> T:
    """Return what *action* returns when run in *loop*, from inside that loop or any thread."""
    try:
        if asyncio.get_running_loop() is loop:
            return action()
    except RuntimeError:
        pass  # no loop runs in this thread: hand the action over
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(action())
        except BaseException as exc:  # noqa: BLE001 - handed to the caller, whatever it is
            done.set_exception(exc)

    loop.call_soon_threadsafe(run)
    return done.result(_CALL_SECONDS)


@contextmanager
def in_thread(service: S) -> Iterator[S]:
    """Yield *service* served by a thread of its own: a test that blocks does not block it."""
    selector = selectors.DefaultSelector()
    loop = asyncio.SelectorEventLoop(selector)
    idle = len(selector.get_map())
    thread = threading.Thread(target=loop.run_forever, name=type(service).__name__, daemon=True)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(service.start(), loop).result(_CALL_SECONDS)
        try:
            yield service
        finally:
            asyncio.run_coroutine_threadsafe(service.stop(), loop).result(_CALL_SECONDS)
            closed = _closed(selector, idle)
            asyncio.run_coroutine_threadsafe(closed, loop).result(_CALL_SECONDS)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_CALL_SECONDS)
        loop.close()


async def _closed(selector: selectors.BaseSelector, idle: int) -> None:
    """
    Return once the loop waits for nothing any more but what is its own.

    A connection that is given up while it is made is closed by and by, TLS's goodbye included.
    """
    async with asyncio.timeout(_CALL_SECONDS):
        while len(selector.get_map()) > idle:  # noqa: ASYNC110 - a selector tells nobody
            await asyncio.sleep(0.01)
