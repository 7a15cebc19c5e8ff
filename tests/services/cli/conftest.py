"""A queue on a real nats-server, filled by the code that fills it in production."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import NamedTuple, TypeVar

import pytest

from bridge.jetstream import Bus
from bridge.nats_connection import connect_nats
from bridge.settings import Settings
from handlers.__main__ import main
from handlers.cli.devstack.nats_server import NatsServer
from tests.faults.dead_port import dead_port

T = TypeVar("T")


class Said(NamedTuple):
    """What a command answered."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[list[str]]:
        """The cells of a table, its headers first."""
        lines = [line for line in self.out.splitlines() if line]
        return [list(filter(None, (cell.strip() for cell in line.split("   ")))) for line in lines]


Command = Callable[..., Said]


class Queue:
    """The queue of one nats-server, as the bridge and the handlers see it."""

    def __init__(self, url: str) -> None:
        self.url = url

    def do(self, work: Callable[[Bus], Awaitable[T]]) -> T:
        """Return what `work` returns, given a connection."""

        async def connected() -> T:
            settings = Settings(nats_url=self.url, lease_seconds=60)
            async with connect_nats(settings, "handlers") as bus:
                return await work(bus)

        return asyncio.run(connected())


@pytest.fixture
def queue(nats_server: NatsServer) -> Queue:
    """The declared queue."""
    made = Queue(nats_server.url)
    made.do(lambda bus: bus.declare())
    return made


@pytest.fixture
def weir(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Run a command of `weir` on a NATS: `weir("dead list", url)`."""

    def run(line: str, url: str) -> Said:
        monkeypatch.setenv("WEIR_NATS_URL", url)
        try:
            code = main(line.split())
        except SystemExit as exc:
            code = int(exc.code or 0)
        return Said(code, *capsys.readouterr())

    return run


@pytest.fixture
def nobody() -> Iterator[str]:
    """A URL, with a password, on whose port nothing listens."""
    with dead_port() as port:
        yield f"nats://someone:secret@127.0.0.1:{port}"
