"""
A thin client of the Kubernetes API: bytes in, bytes out, every answer a value or one of our errors.

kubernetes-asyncio reads the configuration and refreshes credentials; requests go through our own
aiohttp session (its `call_api` stops at 1,700 requests a second).

    KubeError                 any answer that is not the one asked for
    +-- Gone                  410: the resourceVersion or continue token is too old
    +-- Conflict              409: a precondition (uid, resourceVersion) does not hold
    +-- AlreadyExists         409: a create met an object of that name
    +-- NotFound              404
    +-- Refused               other 4xx: this request will not be served as it stands
    +-- Throttled             429: come back after retry_after_seconds
    +-- Unavailable           5xx, connection loss, time-out: the server itself is in trouble
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec
from kubernetes_asyncio.client.configuration import Configuration
from kubernetes_asyncio.config import ConfigException
from msgspec import Struct

from bridge.kube_config import load_configuration, ssl_context
from bridge.settings import Settings
from bridge.telemetry import METRICS
from crds.kind import Kind
from crds.kubernetes import Manifest

VERSION = "0.1.0"
FIELD_MANAGER = "weir"
NOT_OK = 300
SERVER_ERROR = 500
CONNECT_SECONDS = 5.0
READ_SECONDS = 15.0
RETRY_AFTER_SECONDS_MAX = 30.0
"""A server, or what stands in front of it, may not park an object for a day."""
DIGITS_MAX = 9
"""Of a Retry-After that is read: more would still be more than the maximum."""
ERROR_TEXT_MAX = 500
"""Characters of a server's message that reach logs and conditions."""
APPLY = "application/apply-patch+yaml"
JSON = "application/json"
JSON_PATCH = "application/json-patch+json"


class KubeError(Exception):
    """An answer that is not the one asked for."""

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        retry_after_seconds: float | None = None,
        causes: tuple[str, ...] = (),
    ) -> None:
        """Take what the server's `Status` object says; status 0 is no answer at all."""
        super().__init__(f"{status} {reason}: {message}" if status else f"{reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after_seconds = retry_after_seconds
        self.causes = causes
        """Reasons of `details.causes`, such as NamespaceTerminating."""


class Gone(KubeError):
    """The resourceVersion or the continue token is too old."""


class Conflict(KubeError):
    """A precondition does not hold: the object changed, or is another one of that name."""


class AlreadyExists(KubeError):
    """A create met an object of that name."""


class NotFound(KubeError):
    """There is no such object, or no such kind."""


class Refused(KubeError):
    """The server will not serve this request as it stands."""


class Throttled(KubeError):
    """The server asks for patience."""


class Unavailable(KubeError):
    """The server is in trouble or out of reach."""


class _Cause(Struct):
    reason: str = ""


class _Details(Struct):
    causes: list[_Cause] | None = None


class _Status(Struct):
    reason: str = ""
    message: str = ""
    details: _Details | None = None


_status = msgspec.json.Decoder(_Status)


def error_of(status: int, body: bytes, retry_after: str | None = None) -> KubeError:
    """Return the error of an HTTP answer or of an ERROR line in a watch."""
    try:
        said = _status.decode(body)
    except (msgspec.MsgspecError, RecursionError):
        said = _Status(message=body[:ERROR_TEXT_MAX].decode("utf-8", "replace"))
    message = said.message[:ERROR_TEXT_MAX]
    seconds = None
    if retry_after and retry_after.isdecimal():
        seconds = min(float(retry_after[:DIGITS_MAX]), RETRY_AFTER_SECONDS_MAX)
    kind: type[KubeError]
    match status, said.reason:
        case 410, _:
            kind = Gone
        case 409, "AlreadyExists":
            kind = AlreadyExists
        case 409, _:
            kind = Conflict
        case 404, _:
            kind = NotFound
        case 429, _:
            kind = Throttled
        case _ if status >= SERVER_ERROR:
            kind = Unavailable
        case _:
            kind = Refused
    causes = tuple(cause.reason for cause in (said.details and said.details.causes) or ())
    return kind(status, said.reason or f"HTTP{status}", message, seconds, causes)


class Kube:
    """The API server, for one process."""

    def __init__(self, configuration: Configuration, user_agent: str) -> None:
        """Take a loaded configuration; no request is made."""
        self._configuration = configuration
        self._base = str(configuration.host).rstrip("/")
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=ssl_context(configuration)),
            headers={"User-Agent": user_agent},
            read_bufsize=1 << 20,
            auto_decompress=True,
        )
        self.user_agent = user_agent

    async def close(self) -> None:
        """Close every connection."""
        await self._session.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str | None = None,
        accept: str = JSON,
        timeout_seconds: float = READ_SECONDS,
    ) -> bytes:
        """Return the body of a 2xx answer; raise a KubeError for anything else."""
        headers = {"Accept": accept, **await self._authorization()}
        if content_type:
            headers["Content-Type"] = content_type
        started = time.perf_counter()
        code = "none"
        try:
            async with self._session.request(
                method,
                self._base + path,
                params=query,
                data=body,
                headers=headers,
                proxy=self._configuration.proxy,
                timeout=aiohttp.ClientTimeout(total=timeout_seconds, sock_connect=CONNECT_SECONDS),
            ) as response:
                code = str(response.status)
                data = await response.read()
        except TimeoutError as exc:
            raise Unavailable(0, "Timeout", f"no answer in {timeout_seconds:g} s") from exc
        except (aiohttp.ClientError, OSError) as exc:
            raise Unavailable(0, "ConnectionLost", _text(exc)) from exc
        finally:
            METRICS.api_call(method, code, time.perf_counter() - started)
        if response.status >= NOT_OK:
            raise error_of(response.status, data, response.headers.get("Retry-After"))
        return data

    async def stream(
        self, path: str, *, query: Mapping[str, str], idle_seconds: float, accept: str = JSON
    ) -> AsyncGenerator[bytes]:
        """
        Yield the lines of a watch until the server ends it.

        Raises Unavailable after `idle_seconds` without a byte, when the connection breaks, and
        when it ends inside a line. Close the generator (`contextlib.aclosing`) to free the
        connection.
        """
        headers = {"Accept": accept, **await self._authorization()}
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=CONNECT_SECONDS, sock_read=idle_seconds
        )
        code = "none"
        try:
            async with self._session.get(
                self._base + path,
                params=query,
                headers=headers,
                proxy=self._configuration.proxy,
                timeout=timeout,
            ) as response:
                code = str(response.status)
                if response.status >= NOT_OK:
                    body = await response.read()
                    raise error_of(response.status, body, response.headers.get("Retry-After"))
                tail = b""
                async for chunk in response.content.iter_any():
                    *lines, tail = (tail + chunk).split(b"\n") if tail else chunk.split(b"\n")
                    for line in lines:
                        if line:
                            yield line
                if tail:
                    raise Unavailable(0, "Truncated", "the watch ended inside an event")
        except TimeoutError as exc:
            raise Unavailable(0, "Idle", f"no byte for {idle_seconds:g} s") from exc
        except (aiohttp.ClientError, OSError) as exc:
            raise Unavailable(0, "ConnectionLost", _text(exc)) from exc
        finally:
            METRICS.api_call("WATCH", code, 0.0)

    async def get(self, kind: Kind, namespace: str | None, name: str) -> bytes | None:
        """Return the object as the quorum holds it, None when there is none."""
        try:
            return await self.request("GET", kind.path(namespace, name))
        except NotFound:
            return None

    async def list_objects(
        self, kind: Kind, namespace: str | None, *, label_selector: str = "", accept: str = JSON
    ) -> bytes:
        """Return one unpaged list; for the few objects of one resource, not for a kind."""
        query = {"labelSelector": label_selector} if label_selector else None
        return await self.request("GET", kind.path(namespace), query=query, accept=accept)

    async def create(
        self, kind: Kind, namespace: str | None, manifest: Manifest, *, timeout_seconds: float
    ) -> bytes:
        """Create an object that must not exist; return it."""
        return await self.request(
            "POST",
            kind.path(namespace),
            query=_write_query(timeout_seconds),
            body=msgspec.json.encode(manifest),
            content_type=JSON,
            timeout_seconds=timeout_seconds + CONNECT_SECONDS,
        )

    async def apply(
        self,
        kind: Kind,
        namespace: str | None,
        name: str,
        manifest: Manifest,
        *,
        timeout_seconds: float,
    ) -> bytes:
        """
        Server-side apply with force; return the object.

        A manifest that carries `metadata.uid` and `metadata.resourceVersion` changes only that
        state of that object, and is otherwise a Conflict.
        """
        return await self.request(
            "PATCH",
            kind.path(namespace, name),
            query={**_write_query(timeout_seconds), "force": "true"},
            body=msgspec.json.encode(manifest),
            content_type=APPLY,
            timeout_seconds=timeout_seconds + CONNECT_SECONDS,
        )

    async def patch_json(
        self,
        kind: Kind,
        namespace: str | None,
        name: str,
        operations: list[dict[str, Any]],
        *,
        timeout_seconds: float,
    ) -> bytes:
        """Apply a JSON patch (RFC 6902); return the object."""
        return await self.request(
            "PATCH",
            kind.path(namespace, name),
            query=_write_query(timeout_seconds),
            body=msgspec.json.encode(operations),
            content_type=JSON_PATCH,
            timeout_seconds=timeout_seconds + CONNECT_SECONDS,
        )

    async def put_status(
        self,
        kind: Kind,
        namespace: str | None,
        name: str,
        manifest: Manifest,
        *,
        timeout_seconds: float,
    ) -> bytes:
        """Replace the status subresource of the state that `metadata.resourceVersion` names."""
        return await self.request(
            "PUT",
            kind.path(namespace, name, "status"),
            query=_write_query(timeout_seconds),
            body=msgspec.json.encode(manifest),
            content_type=JSON,
            timeout_seconds=timeout_seconds + CONNECT_SECONDS,
        )

    async def delete(
        self,
        kind: Kind,
        namespace: str | None,
        name: str,
        *,
        uid: str,
        resource_version: str,
        timeout_seconds: float,
    ) -> None:
        """Delete that state of that object, its dependents in the background."""
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Background",
            "preconditions": {"uid": uid, "resourceVersion": resource_version},
        }
        await self.request(
            "DELETE",
            kind.path(namespace, name),
            query=_write_query(timeout_seconds),
            body=msgspec.json.encode(options),
            content_type=JSON,
            timeout_seconds=timeout_seconds + CONNECT_SECONDS,
        )

    async def _authorization(self) -> dict[str, str]:
        """Return the Authorization header, refreshed where the configuration says how."""
        try:
            token = await self._configuration.get_api_key_with_prefix("BearerToken")
        except (OSError, ConfigException) as exc:
            raise Unavailable(0, "NoToken", f"cannot read the token: {_text(exc)}") from exc
        return {"Authorization": token.strip()} if token else {}


@asynccontextmanager
async def connect_kube(settings: Settings, component: str) -> AsyncIterator[Kube]:
    """
    Give a client by the usual rules: KUBECONFIG, ~/.kube/config, the pod's service account.

    The User-Agent names the component and the process, so that the audit log names the writer.
    Raises SettingsError when there is no configuration.
    """
    configuration = await load_configuration()
    kube = Kube(configuration, f"weir-{component}/{VERSION} ({settings.identity})")
    try:
        yield kube
    finally:
        await kube.close()
        await asyncio.sleep(0)


def _write_query(timeout_seconds: float) -> dict[str, str]:
    """Bound the request on the server's side too: a write must not land long after we gave up."""
    return {"fieldManager": FIELD_MANAGER, "timeout": f"{timeout_seconds:g}s"}


def _text(exc: BaseException) -> str:
    return (str(exc) or type(exc).__name__)[:ERROR_TEXT_MAX]
