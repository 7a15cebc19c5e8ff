"""What becomes of a bridge's requests to the API server, and what it asked for."""

from __future__ import annotations

import asyncio
import random

from tests.faults.answers import gone, gone_in_stream
from tests.faults.api_proxy import DROP_BEFORE, PASS, Action, ApiProxy, Record, Request


class Weather:
    """What becomes of a bridge's requests: fair, rough, or a gap in which none gets through."""

    def __init__(self, proxy: ApiProxy, seed: int) -> None:
        self._random = random.Random(seed)
        self._proxy = proxy
        self._now = "fair"
        self._bad: tuple[Action, ...] = (gone(), gone_in_stream(), DROP_BEFORE)
        proxy.on_request(self._judge)

    def _judge(self, request: Request) -> Action | None:
        if self._now == "gap":
            return DROP_BEFORE
        if self._now == "rough" and is_resumed(request) and self._random.random() < 0.4:
            return self._random.choice(self._bad)
        return PASS

    def turn(self, now: str) -> None:
        """The weather changes, and cuts every connection when it is not fair."""
        self._now = now
        if now != "fair":
            self._proxy.cut()

    async def storm(self) -> None:
        """Rough weather, for ever: every connection is cut again and again."""
        while True:
            self.turn("rough")
            await asyncio.sleep(self._random.uniform(0.2, 1.5))


def listed_since(proxy: ApiProxy, begun: int) -> set[str]:
    """Return the paths of which a list was answered."""
    return {r.path for r in proxy.records[begun:] if is_list(r) and r.status == 200}


def is_resumed(request: Request | Record) -> bool:
    """Whether a watch goes on from a version that its client has."""
    return "watch" in request.query and "sendInitialEvents" not in request.query


def is_list(request: Request | Record) -> bool:
    """Whether a client without a version asks for everything."""
    return "watch" not in request.query or "sendInitialEvents" in request.query
