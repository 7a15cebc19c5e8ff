"""
The reads of one resource's children: begun together, before anybody waits for the first.

An event names the children that its bridge knows. So a look need not wait for the resource before
it reads them: one round trip instead of three. Where the resource turns out to be gone, or held
back, some were read for nothing.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self

import msgspec

from bridge.events import EventType
from bridge.kube_errors import NotFound, NotServed
from crds.kind import is_segment
from handlers.handler import ChildName

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType

    from bridge.events import ChangeEvent
    from bridge.kube import Kube
    from crds.contract import Contract
    from crds.kubernetes import Manifest

IN_PARALLEL = 8
"""Children of one resource that are worked on at once."""
GLANCED_AT = (EventType.OBSERVED, EventType.TIMER)
"""Events for which the workloads are read alone: a newcomer among the children, or time passed."""


class Reads:
    """Children that are being read; each read is taken once, for what is read again is another."""

    def __init__(self, kube: Kube, contract: Contract, namespace: str) -> None:
        """Take where from; nothing is being read yet."""
        self._kube = kube
        self._contract = contract
        self._namespace = namespace
        self._kinds = {child.kind.kind: child.kind for child in contract.owns}
        self._limit = asyncio.Semaphore(IN_PARALLEL)
        self._begun: dict[ChildName, asyncio.Task[Manifest | None]] = {}
        self._sent: set[ChildName] = set()
        """Of the begun ones, those that the API server has been asked for."""
        self._unserved: set[str] = set()

    def begin_for(self, event: ChangeEvent) -> None:
        """Begin to read every child that a look at this event is likely to read."""
        if event.type is EventType.DELETED:
            return
        names = (ChildName(hint.kind, hint.name) for hint in event.children)
        if event.type in GLANCED_AT:
            workloads = {kind.kind for kind in self._contract.workloads}
            names = (name for name in names if name.kind in workloads)
        self.begin(self.possible(names))

    def begin(self, names: Iterable[ChildName]) -> None:
        """Begin to read what is not being read."""
        for name in names:
            if name not in self._begun:
                self._begun[name] = asyncio.create_task(self._read(name))

    async def see(self, name: ChildName) -> Manifest | None:
        """Return a child as `take` will: what was decided by it holds for what is then written."""
        self.begin([name])
        return await self._begun[name]

    async def take(self, name: ChildName) -> Manifest | None:
        """Return a child as the quorum held it since this look began."""
        begun = self._begun.pop(name, None)
        return await (self._read(name) if begun is None else begun)

    def is_served(self, kind: str) -> bool:
        """Return whether the API server may have a kind: False where the last read said not."""
        return kind not in self._unserved

    def possible(self, names: Iterable[ChildName]) -> Iterator[ChildName]:
        """Yield what can be a child: hints come from outside."""
        return (name for name in names if name.kind in self._kinds and is_segment(name.name))

    async def drop(self) -> None:
        """
        What was begun and not taken is given up: it is read anew when it is needed.

        What was asked for is waited for and not cancelled, which would cost a connection each.
        """
        begun = [*self._begun.values()]
        for name, read in self._begun.items():
            if name not in self._sent:
                read.cancel()
        self._begun.clear()
        await asyncio.gather(*begun, return_exceptions=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        _: type[BaseException] | None,
        exc: BaseException | None,
        __: TracebackType | None,
    ) -> None:
        if isinstance(exc, asyncio.CancelledError):
            for read in self._begun.values():
                read.cancel()
        await self.drop()

    async def _read(self, name: ChildName) -> Manifest | None:
        async with self._limit:
            self._sent.add(name)
            try:
                data = await self._kube.read(self._kinds[name.kind], self._namespace, name.name)
            except NotServed:
                self._unserved.add(name.kind)
                return None
            except NotFound:
                data = None
            finally:
                self._sent.discard(name)
            self._unserved.discard(name.kind)
            return None if data is None else msgspec.json.decode(data)
