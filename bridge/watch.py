"""
Lists and watches one kind for ever, whatever the API server does.

    absent --appears--> listing --listed--> watching --ended--> watching (from its last version)
       ^                   |  ^                |
       +------- 404 -------+  +---- 410 -------+      anything else: wait, then where it was

A list is one stream where the server has WatchList, pages otherwise. Every failure but 410 and
404 is waited out with growing, jittered patience and one warning per change of the trouble.

What a watch resumes from is the last version it has *read*, not the last that was published.
That is as good: between the two stand only the index and the publisher of this very process,
which keeps what is not acknowledged until it is (or orders a resync when it cannot); a process
that dies takes its version with it, and the next one lists everything and looks at every object.

Source: Kubernetes API concepts, "Efficient detection of changes", "Streaming lists".
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

import msgspec
from msgspec import Struct

from bridge.kube import Kube
from bridge.kube_errors import Gone, KubeError, NotFound, Refused, Throttled, Unavailable, error_of
from bridge.objects import Line, Seen, read_line, read_object, read_page
from bridge.settings import Settings
from bridge.telemetry import METRICS, logger
from bridge.watched import Watched

_FULL: Final = "application/json"
_METADATA: Final = f"application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,{_FULL}"
_METADATA_LIST: Final = f"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,{_FULL}"
"""Where no status field matters, the server sends metadata only, if it can."""
_LIST_ENDS: Final = "k8s.io/initial-events-end"

_BACKOFF_SECONDS: Final = 0.1
_BACKOFF_MAX_SECONDS: Final = 2.5
"""Below the 5 s in which what was missed must be known once the server is back."""
_REFUSED_SECONDS: Final = 20.0
"""Nothing but a change of roles or credentials helps."""
_RETRY_AFTER_MAX_SECONDS: Final = 30.0
_ABSENT_SECONDS: Final = 60.0
"""How often an absent kind is asked for in the end, should the news of its CRD not reach us."""
_APPEARING_SECONDS: Final = 5.0
"""For so long after its CRD changed, a kind is expected to be served any moment."""
_GONE_SECONDS: Final = 5.0
"""A second 410 within so long is waited for."""
_HASTY_SECONDS: Final = 1.0
"""A watch that ends sooner, without a line, did not work."""
_PAGE_SECONDS: Final = 60.0


class Applied(Struct, frozen=True, gc=False):
    """An object exists and looks so."""

    seen: Seen


class Deleted(Struct, frozen=True, gc=False):
    """An object is gone, or no longer selected; this was its last state."""

    seen: Seen


class ListBegins(Struct, frozen=True):
    """Every object that exists follows."""


class ListEnds(Struct, frozen=True):
    """What was not named since the list began does not exist at this version."""

    resource_version: str


class Absent(Struct, frozen=True):
    """The server does not serve the kind: none of its objects exists."""


Seeing = Applied | Deleted | ListBegins | ListEnds | Absent


class _Ended(Exception):
    """The server ended the watch before it said anything."""


class Watch:
    """One kind in one namespace, or in all."""

    def __init__(self, kube: Kube, settings: Settings, watched: Watched, namespace: str) -> None:
        self.watched = watched
        self.namespace = namespace
        self.absent = False
        """Whether the server does not serve the kind."""
        self.trouble = ""
        """What keeps it from watching just now."""
        self._kube = kube
        self._settings = settings
        self._path = watched.kind.path(namespace or None)
        self._log = logger("watch")
        self._heard = time.monotonic()
        self._streams_lists = True
        self._version = ""
        self._failures = 0
        self._gone_at = float("-inf")
        self._appearing = asyncio.Event()
        self._appearing_until = 0.0
        self._said_unreadable = False

    def age_seconds(self) -> float:
        """Return for how long the server has said nothing; 0 for a kind that is absent."""
        return 0.0 if self.absent else time.monotonic() - self._heard

    def appears(self) -> None:
        """Something says that the kind may be served any moment now."""
        self._appearing_until = time.monotonic() + _APPEARING_SECONDS
        self._appearing.set()

    async def events(self) -> AsyncGenerator[Seeing]:
        """Yield what happens to the kind's objects; never ends."""
        while True:
            pages = not self._version and not self._streams_lists
            try:
                async with aclosing(self._list_paged() if pages else self._stream()) as seeings:
                    async for seeing in seeings:
                        yield seeing
            except Gone:
                self._version = ""
                if time.monotonic() < self._gone_at + _GONE_SECONDS:
                    # Lists that succeed and watches that are gone at once: not without patience.
                    await asyncio.sleep(_BACKOFF_MAX_SECONDS * _jitter())
                self._gone_at = time.monotonic()
            except NotFound:
                self._version = ""
                if not self.absent:
                    self._become_absent()
                    yield Absent()
                await self._wait_to_appear()
            except (KubeError, _Ended) as exc:
                if not self._version and _refuses_streamed_list(exc):
                    self._streams_lists = False
                else:
                    await self._wait_out(exc)

    async def _stream(self) -> AsyncGenerator[Seeing]:
        """Watch from the last version, or, without one, through a list that the stream begins."""
        listing = not self._version
        begun = time.monotonic()
        said = False
        lines = self._kube.stream(
            self._path,
            query=self._stream_query(),
            idle_seconds=self._settings.watch_idle_seconds,
            accept=_FULL if self.watched.status_fields else _METADATA,
        )
        async with aclosing(lines):
            async for raw in lines:
                line = _line(raw)
                self._hear()
                if listing and not said:
                    yield ListBegins()
                said = True
                seen = read_object(line.object, self.watched.status_fields)
                if not listing and seen.meta.resource_version:
                    self._version = seen.meta.resource_version
                match line.type:
                    case "BOOKMARK":
                        if listing and _LIST_ENDS in (seen.meta.annotations or {}):
                            listing = False
                            self._version = seen.meta.resource_version
                            yield ListEnds(self._version)
                    case "DELETED" if self._readable(seen):
                        yield Deleted(seen)
                    case _ if self._readable(seen):
                        yield Applied(seen)
        if listing or (not said and time.monotonic() - begun < _HASTY_SECONDS):
            raise _Ended
        # The server ended it when its time was over: it lives, though nothing happened.
        self._hear()

    async def _list_paged(self) -> AsyncGenerator[Seeing]:
        """List page by page; the version of the list is where to watch from."""
        yield ListBegins()
        query = {"limit": str(self._settings.list_page_size), **self._selection()}
        while True:
            body = await self._kube.request(
                "GET",
                self._path,
                query=query,
                accept=_FULL if self.watched.status_fields else _METADATA_LIST,
                timeout_seconds=_PAGE_SECONDS,
            )
            page = read_page(body)
            if page is None:
                raise Unavailable(0, "Unreadable", "the answer is no list")
            self._hear()
            for item in page.items or ():
                seen = read_object(item, self.watched.status_fields)
                if self._readable(seen):
                    yield Applied(seen)
            if not page.metadata.continue_:
                break
            query["continue"] = page.metadata.continue_
        self._version = page.metadata.resource_version
        yield ListEnds(self._version)

    def _stream_query(self) -> dict[str, str]:
        # Watches that began together must not all end together.
        seconds = self._settings.watch_seconds * random.uniform(0.8, 1.0)  # noqa: S311
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(max(1, round(seconds))),
            **self._selection(),
        }
        if self._version:
            query["resourceVersion"] = self._version
        else:
            query["sendInitialEvents"] = "true"
            query["resourceVersionMatch"] = "NotOlderThan"
        return query

    def _selection(self) -> dict[str, str]:
        selector = self.watched.label_selector
        return {"labelSelector": selector} if selector else {}

    def _readable(self, seen: Seen) -> bool:
        if seen.meta.name and seen.meta.uid:
            return True
        METRICS.count("weir_unreadable_objects", kind=self.watched.kind.kind)
        if not self._said_unreadable:
            self._said_unreadable = True
            self._log.error(
                "an object cannot be read and is skipped",
                kind=self.watched.kind.kind,
                namespace=self.namespace,
                name=seen.meta.name,
            )
        return False

    # The state of the watch, and its log lines

    def _hear(self) -> None:
        self._heard = time.monotonic()
        self._failures = 0
        if self.trouble or self.absent:
            self._log.info("watching", action="watch", **self._fields())
            self.trouble = ""
            self.absent = False

    def _become_absent(self) -> None:
        self.absent = True
        self.trouble = ""
        self._failures = 0
        served_as = self.watched.kind.api_version
        self._log.info(
            "the kind is not served; waiting for it",
            action="watch",
            **self._fields(),
            version=served_as,
        )

    async def _wait_to_appear(self) -> None:
        """The kind may be served afterwards: its CRD changed, or it is time to ask again."""
        if time.monotonic() < self._appearing_until:
            await self._wait(_APPEARING_SECONDS)
            return
        self._appearing.clear()
        try:
            async with asyncio.timeout(self._delay(_ABSENT_SECONDS)):
                await self._appearing.wait()
        except TimeoutError:
            self._failures += 1
        else:
            self._failures = 0

    async def _wait_out(self, exc: KubeError | _Ended) -> None:
        """It is time to try again afterwards."""
        trouble, seconds_max, retry_after = _trouble(exc)
        if trouble != self.trouble:
            self._failures = 0
            self.trouble = trouble
            self._log.warning(
                "cannot watch; trying for ever", action="watch", **self._fields(), error=exc
            )
        if retry_after is None:
            await self._wait(seconds_max)
        else:
            await asyncio.sleep(min(retry_after, _RETRY_AFTER_MAX_SECONDS) * _jitter())
        self._failures += 1

    async def _wait(self, seconds_max: float) -> None:
        await asyncio.sleep(self._delay(seconds_max))

    def _delay(self, seconds_max: float) -> float:
        return min(seconds_max, _BACKOFF_SECONDS * 2.0 ** min(self._failures, 20)) * _jitter()

    def _fields(self) -> dict[str, str]:
        return {"kind": self.watched.kind.kind, "namespace": self.namespace}


def _line(raw: bytes) -> Line:
    """Return a line that says something; raise what an ERROR line says."""
    line = read_line(raw)
    if line is None:
        raise Unavailable(0, "Unreadable", "a line of the watch is no event")
    if line.type == "ERROR":
        raise error_of(_code(line), bytes(line.object))
    return line


class _Status(Struct):
    code: int = 500


_status = msgspec.json.Decoder(_Status)


def _code(line: Line) -> int:
    try:
        return _status.decode(line.object).code
    except msgspec.MsgspecError:
        return _Status().code


def _refuses_streamed_list(exc: Exception) -> bool:
    """Return True for 422 (the feature is off) and 400 (aggregated servers)."""
    return isinstance(exc, Refused) and exc.status in (400, 422)


def _trouble(exc: KubeError | _Ended) -> tuple[str, float, float | None]:
    """Return what it is, the longest wait, and what the server asks to wait."""
    match exc:
        case Throttled():
            return "throttled", _BACKOFF_MAX_SECONDS, exc.retry_after_seconds
        case Unavailable():
            return "unreachable", _BACKOFF_MAX_SECONDS, exc.retry_after_seconds
        case KubeError():
            return f"refused ({exc.status} {exc.reason})", _REFUSED_SECONDS, None
        case _:
            return "ended at once", _BACKOFF_MAX_SECONDS, None


def _jitter() -> float:
    return random.uniform(0.75, 1.25)  # noqa: S311 - spreads load, guards nothing
