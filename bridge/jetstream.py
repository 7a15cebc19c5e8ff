"""
NATS JetStream for one process: publish, pull, acknowledge, get, and declare what is missing.

    BusError
    +-- WrongSequence      the subject's last sequence is not the one expected (compare-and-set)
    +-- BusUnavailable     no answer: NATS is away, or the answer was lost on the way
        +-- StreamMissing  no stream takes that subject
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any, Literal, TypeAlias

import msgspec
import nats.errors
from msgspec import Struct
from nats.aio.client import Client
from nats.aio.msg import Msg

from bridge import streams
from bridge.settings import Settings
from bridge.telemetry import logger
from crds import KINDS

REQUEST_SECONDS = 5.0
WRONG_SEQUENCE = (10071, 10164)
NOT_FOUND = (10059, 10014, 10037, 10057)
"""Stream, consumer, message not found; message to delete not found."""

Declared: TypeAlias = Literal["STREAM", "CONSUMER"]
"""What is declared, in the words of the API's subjects."""

log = logger(__name__)


class BusError(Exception):
    """NATS did not do what was asked."""


class WrongSequence(BusError):
    """Somebody else wrote the subject first."""


class BusUnavailable(BusError):
    """NATS is out of reach, or did not answer in time; the request may have been carried out."""


class StreamMissing(BusUnavailable):
    """No stream takes the subject."""


class _ApiError(Struct):
    code: int = 0
    err_code: int = 0
    description: str = ""


class PubAck(Struct):
    """Where a message was stored."""

    stream: str = ""
    seq: int = 0
    duplicate: bool = False
    error: _ApiError | None = None


class StreamState(Struct, frozen=True, kw_only=True):
    """What a stream says of itself."""

    created: str
    """RFC 3339; a stream made anew has another one."""
    age_seconds: float
    """By the server's clock."""
    last_sequence: int
    messages: int


class ConsumerState(Struct, frozen=True, kw_only=True):
    """What waits for a group's handlers."""

    pending: int
    ack_pending: int


class Stored(Struct, frozen=True, kw_only=True):
    """A message read from a stream."""

    subject: str
    sequence: int
    payload: bytes
    headers: dict[str, str]


_pub_ack = msgspec.json.Decoder(PubAck)


class Bus:
    """One connection to NATS that reconnects for ever."""

    def __init__(self, client: Client, settings: Settings) -> None:
        """Take a client, connected or about to be."""
        self.client = client
        self.settings = settings
        self.groups = groups()
        self.on_reconnect: list[Callable[[], Awaitable[None]]] = []
        """Called as soon as the connection is back."""

    @property
    def is_connected(self) -> bool:
        """Whether a request made now would be sent now."""
        return self.client.is_connected

    async def request(
        self,
        subject: str,
        payload: bytes = b"",
        *,
        headers: dict[str, str] | None = None,
        timeout_seconds: float = REQUEST_SECONDS,
    ) -> Msg:
        """
        Return the answer to a request.

        Nothing is sent while NATS is away: the client would keep it and send it after the
        reconnect, long after its sender gave up (a lease that nobody holds).
        """
        if not self.client.is_connected:
            raise BusUnavailable("not connected to NATS")
        task = asyncio.current_task()
        cancels = task.cancelling() if task else 0
        try:
            return await self.client.request(
                subject, payload, timeout=timeout_seconds, headers=headers
            )
        except nats.errors.NoRespondersError as exc:
            raise StreamMissing(f"nobody answers {subject}") from exc
        except (nats.errors.Error, TimeoutError, OSError) as exc:
            raise BusUnavailable(f"{subject}: {str(exc) or type(exc).__name__}") from exc
        finally:
            # The client waits with asyncio.wait_for, which before Python 3.12 swallows a
            # cancellation that comes together with the answer: a loop would go on for ever.
            if task and task.cancelling() > cancels:
                raise asyncio.CancelledError

    async def publish(
        self,
        subject: str,
        payload: bytes = b"",
        *,
        headers: Mapping[str, str] | None = None,
        expect_last_subject_sequence: int | None = None,
        timeout_seconds: float = REQUEST_SECONDS,
    ) -> PubAck:
        """Return the stream's acknowledgement; raise WrongSequence where the subject moved on."""
        sent = dict(headers or {})
        if expect_last_subject_sequence is not None:
            sent["Nats-Expected-Last-Subject-Sequence"] = str(expect_last_subject_sequence)
        answer = await self.request(
            subject, payload, headers=sent or None, timeout_seconds=timeout_seconds
        )
        ack = _pub_ack.decode(answer.data)
        if ack.error is None:
            return ack
        if ack.error.err_code in WRONG_SEQUENCE:
            raise WrongSequence(subject)
        raise BusUnavailable(f"{subject}: {ack.error.description} ({ack.error.err_code})")

    async def tell(self, subject: str, payload: bytes, headers: dict[str, str]) -> None:
        """
        Publish without waiting for an answer.

        While NATS is away the client keeps what fits into its buffer, and sends it late.
        """
        with contextlib.suppress(nats.errors.Error, OSError):
            await self.client.publish(subject, payload, headers=headers)

    async def api(self, verb: str, body: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
        """Return what the JetStream API answers, None for "not found"."""
        payload = msgspec.json.encode(body) if body is not None else b""
        answer = await self.request(f"$JS.API.{verb}", payload)
        said: dict[str, Any] = msgspec.json.decode(answer.data)
        error = said.get("error")
        if not error:
            return said
        if error.get("err_code") in NOT_FOUND:
            return None
        raise BusUnavailable(f"{verb}: {error.get('description')} ({error.get('err_code')})")

    async def last(self, stream: str, subject: str) -> Stored | None:
        """Return the last message of a subject, None when there is none."""
        answer = await self.request(f"$JS.API.DIRECT.GET.{stream}.{subject}")
        headers = answer.headers or {}
        if headers.get("Status") == "404":
            return None
        if "Nats-Sequence" not in headers:
            raise BusUnavailable(
                f"direct get of {subject}: {headers.get('Description', 'refused')}"
            )
        return Stored(
            subject=headers.get("Nats-Subject", subject),
            sequence=int(headers["Nats-Sequence"]),
            payload=answer.data,
            headers=headers,
        )

    async def delete(self, stream: str, sequence: int) -> bool:
        """Remove one message; False where it is gone already."""
        body = {"seq": sequence, "no_erase": True}
        try:
            return await self.api(f"STREAM.MSG.DELETE.{stream}", body) is not None
        except StreamMissing:
            return False

    async def purge(self, stream: str, subject: str) -> None:
        """Remove every message of a subject."""
        await self.api(f"STREAM.PURGE.{stream}", {"filter": subject})

    async def stream_info(self, name: str) -> StreamState | None:
        """Return the stream's state, None where there is no such stream."""
        said = await self.api(f"STREAM.INFO.{name}")
        if said is None:
            return None
        state = said["state"]
        return StreamState(
            created=said["created"],
            age_seconds=age_seconds(said),
            last_sequence=state["last_seq"],
            messages=state["messages"],
        )

    async def consumer_info(self, group: str) -> ConsumerState | None:
        """Return what waits for a group's handlers, None where the consumer is missing."""
        said = await self.api(f"CONSUMER.INFO.{streams.QUEUE}.{streams.consumer_name(group)}")
        if said is None:
            return None
        return ConsumerState(pending=said["num_pending"], ack_pending=said["num_ack_pending"])

    async def declare(self, *, brings: Declared | None = None) -> None:
        """
        Make every stream and consumer that is missing; change what an older version made.

        Their settings are changed by who starts, and never on the way, or two processes with
        different ones would change them for ever: `brings` names what a starting process decides.
        A consumer gets the kinds that it lacks whatever made it.
        """
        for config in streams.stream_configs(self.settings):
            await self._declare("STREAM", config["name"], config, brings)
        for group, kinds in self.groups.items():
            config = streams.consumer_config(group, kinds, self.settings)
            await self._declare("CONSUMER", f"{streams.QUEUE}.{config['name']}", config, brings)

    async def _declare(
        self, what: Declared, name: str, config: streams.Config, brings: Declared | None
    ) -> None:
        with_settings = brings == what
        said = await self.api(f"{what}.INFO.{name}")
        wanted: streams.Config | None = config
        if said is not None:
            wanted = streams.changed(said["config"], config, with_settings=with_settings)
            if wanted is None:
                return
        is_stream = what == "STREAM"
        verb = "UPDATE" if is_stream and said is not None else "CREATE"
        body = wanted if is_stream else {"stream_name": streams.QUEUE, "config": wanted}
        try:
            await self.api(f"{what}.{verb}.{name}", body)
        except BusUnavailable as exc:
            # Another process may have made it between the look and the create.
            said = await self.api(f"{what}.INFO.{name}")
            if said is None:
                raise
            if streams.changed(said["config"], config, with_settings=with_settings) is not None:
                log.warning("cannot be changed", action="declare", name=name, error=str(exc))
            return
        log.info("declared", action="declare", what=what.lower(), name=name)


def groups() -> dict[str, tuple[str, ...]]:
    """Return the consumers' names and the kinds (lower case) that each serves."""
    found: dict[str, tuple[str, ...]] = {}
    for contract in KINDS:
        known = found.get(contract.consumer, ())
        found[contract.consumer] = (*known, contract.kind.queue_name)
    return found


def age_seconds(info: Mapping[str, Any]) -> float:
    """Return how old the stream is that STREAM.INFO told of, by the server's clock."""
    now, created = (datetime.fromisoformat(info[field]) for field in ("ts", "created"))
    return (now - created).total_seconds()
