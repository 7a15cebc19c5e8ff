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
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import nats
import nats.errors
from msgspec import Struct
from nats.aio.client import Client
from nats.aio.msg import Msg

from bridge import streams
from bridge.settings import Settings, SettingsError
from bridge.telemetry import logger
from crds import KINDS

REQUEST_SECONDS = 5.0
CONNECT_SECONDS = 2
RECONNECT_WAIT_SECONDS = 0.25
PING_SECONDS = 5
PINGS_OUTSTANDING_MAX = 2
WRONG_SEQUENCE = (10071, 10164)
NOT_FOUND = (10059, 10014, 10037, 10057)
"""Stream, consumer, message not found; message to delete not found."""

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

    async def declare(self) -> None:
        """Make every stream and consumer that is missing; change what an older version made."""
        for config in streams.stream_configs(self.settings):
            await self._declare("STREAM", config["name"], config, config)
        for group, kinds in self.groups.items():
            config = streams.consumer_config(group, kinds, self.settings)
            name = f"{streams.QUEUE}.{config['name']}"
            body = {"stream_name": streams.QUEUE, "config": config}
            await self._declare("CONSUMER", name, config, body)

    async def _declare(
        self, what: str, name: str, config: streams.Config, body: dict[str, Any]
    ) -> None:
        said = await self.api(f"{what}.INFO.{name}")
        if said is not None and _version(said["config"]) >= _version(config):
            return
        verb = f"{what}.CREATE.{name}"
        if said is not None and what == "STREAM":
            verb = f"STREAM.UPDATE.{name}"
        try:
            await self.api(verb, body)
        except BusUnavailable as exc:
            # Another process may have made it between the look and the create.
            said = await self.api(f"{what}.INFO.{name}")
            if said is None:
                raise
            if _version(said["config"]) < _version(config):
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


@asynccontextmanager
async def connect_nats(
    settings: Settings, component: str, *, within_seconds: float | None = None
) -> AsyncIterator[Bus]:
    """
    Give a connection that heals itself, waiting for the first contact as long as it takes.

    A command, for which a person waits, gives `within_seconds`. Raises BusUnavailable where the
    first contact takes longer, SettingsError where the credentials, the certificates or the URL
    cannot be read.
    """
    client = Client()
    bus = Bus(client, settings)
    has_connected = False
    has_said = within_seconds is not None
    text = "no answer"
    urls = public(settings.nats_url)

    async def on_error(exc: Exception) -> None:
        nonlocal has_said, text
        text = str(exc) or type(exc).__name__
        if has_connected or has_said:
            log.debug("nats error", action="nats", error=text)
            return
        has_said = True
        log.warning("NATS cannot be reached; trying for ever", action="nats", urls=urls, error=text)

    async def on_down() -> None:
        if has_connected:
            log.warning("connection to NATS lost", action="nats", urls=urls)

    async def on_up() -> None:
        log.info("connected to NATS again", action="nats")
        for call in bus.on_reconnect:
            await call()

    options: dict[str, Any] = {
        "servers": [url.strip() for url in settings.nats_url.split(",")],
        "name": f"weir-{component} {settings.identity}",
        "inbox_prefix": f"_INBOX_{component}",
        # The default gives up after two minutes.
        "max_reconnect_attempts": -1,
        "reconnect_time_wait": RECONNECT_WAIT_SECONDS,
        "connect_timeout": CONNECT_SECONDS,
        "ping_interval": PING_SECONDS,
        "max_outstanding_pings": PINGS_OUTSTANDING_MAX,
        "error_cb": on_error,
        "disconnected_cb": on_down,
        "reconnected_cb": on_up,
        **_credentials(settings),
    }
    # With attempts without end this returns only once connected; on_error says that it waits.
    try:
        async with asyncio.timeout(within_seconds):
            await client.connect(**options)
    except TimeoutError as exc:
        await _close(client)
        raise BusUnavailable(text) from exc
    except (nats.errors.Error, ValueError) as exc:
        raise SettingsError(f"WEIR_NATS_URL={urls}: {exc}; use nats://HOST:PORT") from exc
    has_connected = True
    try:
        yield bus
    finally:
        # What is closed on purpose is not lost.
        has_connected = False
        with contextlib.suppress(nats.errors.Error, OSError, TimeoutError):
            await asyncio.wait_for(client.flush(timeout=1), 2)
        await _close(client)


def public(urls: str) -> str:
    """Return NATS URLs without the user, password or token that they may hold."""
    return ",".join(
        f"{scheme}{mark}{rest.rpartition('@')[2]}"
        for scheme, mark, rest in (url.strip().rpartition("://") for url in urls.split(","))
    )


async def _close(client: Client) -> None:
    with contextlib.suppress(nats.errors.Error, OSError, TimeoutError):
        await asyncio.wait_for(client.close(), 2)


def _credentials(settings: Settings) -> dict[str, Any]:
    given: dict[str, Any] = {}
    if settings.nats_creds:
        try:
            Path(settings.nats_creds).read_bytes()
        except OSError as exc:
            raise SettingsError(f"cannot read the credentials of WEIR_NATS_CREDS: {exc}") from exc
        given["user_credentials"] = settings.nats_creds
    if settings.nats_ca or settings.nats_cert:
        try:
            context = ssl.create_default_context(cafile=settings.nats_ca or None)
            if settings.nats_cert:
                context.load_cert_chain(settings.nats_cert, keyfile=settings.nats_key or None)
        except (OSError, ssl.SSLError) as exc:
            raise SettingsError(
                f"cannot read the certificates of WEIR_NATS_CA/CERT/KEY: {exc}"
            ) from exc
        given["tls"] = context
    return given


def age_seconds(info: Mapping[str, Any]) -> float:
    """Return how old the stream is that STREAM.INFO told of, by the server's clock."""
    now, created = (datetime.fromisoformat(info[field]) for field in ("ts", "created"))
    return (now - created).total_seconds()


def _version(config: Mapping[str, Any]) -> int:
    text = (config.get("metadata") or {}).get(streams.VERSION_KEY, "0")
    return int(text) if text.isdecimal() else 0
