"""The stream WEIR_HISTORY as a witness: when each reconcile started and finished, and whose."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Literal, TypeAlias

import msgspec
import nats
from msgspec import Struct

from tests.stack.eventually import PATIENCE_SECONDS
from tests.witness.overlap import Span

_STREAM = "WEIR_HISTORY"
_SUBJECT = "weir.h"

What: TypeAlias = Literal["started", "finished"]


class _Told(Struct, frozen=True, kw_only=True):
    """What is read of a message's payload."""

    namespace: str
    name: str
    attempt: str
    handler: str
    result: str = ""
    writes: tuple[str, ...] = ()


class Moment(Struct, frozen=True, kw_only=True):
    """The start or the end of one reconcile, as its handler told it."""

    what: What
    attempt: str
    """The same in the two moments of one reconcile, and in no other."""
    owner: str
    handler: str
    time: datetime
    result: str = ""
    writes: tuple[str, ...] = ()


def spans_of_history(moments: Iterable[Moment]) -> list[Span]:
    """
    Return the reconciles that *moments* tell of.

    A start without an end is of a handler that died (or that told nobody: nothing waits for
    history): all that is known of it is its start. An end without a start, likewise.
    """
    spans: dict[str, list[Moment]] = defaultdict(list)
    for moment in moments:
        spans[moment.attempt].append(moment)
    return [
        Span(
            owner=told[0].owner,
            writer=told[0].handler,
            start=min(moment.time for moment in told),
            end=max(moment.time for moment in told),
            evidence=tuple(f"{moment.what} {moment.time:%H:%M:%S.%f}" for moment in told),
        )
        for told in spans.values()
    ]


def ends(moments: Iterable[Moment]) -> dict[tuple[str, str], list[datetime]]:
    """Return when each (owner, handler) finished: the cuts that `spans_of_writes` takes."""
    found: dict[tuple[str, str], list[datetime]] = defaultdict(list)
    for moment in moments:
        if moment.what == "finished":
            found[moment.owner, moment.handler].append(moment.time)
    return dict(found)


async def read_history(nats_url: str) -> list[Moment]:
    """Return everything that WEIR_HISTORY holds now, in the order of its stream."""
    client = await nats.connect(nats_url)
    try:
        stream = client.jetstream()
        held = (await stream.stream_info(_STREAM)).state
        messages = await stream.subscribe(f"{_SUBJECT}.>", stream=_STREAM, ordered_consumer=True)
        moments = []
        for _ in range(held.messages):
            message = await messages.next_msg(PATIENCE_SECONDS)
            moments.append(moment(message.headers or {}, message.data))
        return moments
    finally:
        await client.close()


def moment(headers: Mapping[str, str], payload: bytes) -> Moment:
    """Return what one message of the history says; raise for one that says nothing."""
    told = msgspec.json.decode(payload, type=_Told)
    return Moment(
        what=msgspec.convert(headers["ce-type"].rpartition(".")[2], type=What),
        attempt=told.attempt,
        owner=f"{told.namespace}/{told.name}",
        handler=told.handler,
        time=datetime.fromisoformat(headers["ce-time"]),
        result=told.result,
        writes=told.writes,
    )
