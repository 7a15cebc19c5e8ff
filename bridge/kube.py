"""
A thin client of the Kubernetes API: bytes in, bytes out, every answer a value or one of our errors.

kubernetes-asyncio reads the configuration and refreshes credentials; requests go through our own
aiohttp session (its `call_api` stops at 1,700 requests a second).
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec

from bridge.kube_config import Access, load_access
from bridge.kube_errors import ERROR_TEXT_MAX, NotFound, Unavailable, error_of
from bridge.kube_library import ConfigException
from bridge.settings import Settings, SettingsError
from bridge.telemetry import METRICS
from crds.kind import Kind
from crds.kubernetes import Manifest

VERSION = "0.1.0"
FIELD_MANAGER = "weir"
NOT_OK = 300
UNAUTHORIZED = 401
RENEW_SECONDS = 10.0
"""Credentials that were refused are read again, no more often than this."""
CONNECT_SECONDS = 5.0
READ_SECONDS = 15.0
APPLY = "application/apply-patch+yaml"
JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"


class Kube:
    """The API server, for one process."""

    def __init__(self, access: Access, user_agent: str, *, is_dry: bool = False) -> None:
        """Take a loaded configuration; no request is made. Where `is_dry`, nothing is stored."""
        self._configuration = access.configuration
        self.is_dry = is_dry
        self._base = str(self._configuration.host).rstrip("/")
        self._tls = access.context
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            headers={"User-Agent": user_agent},
            read_bufsize=1 << 20,
            auto_decompress=True,
        )
        self.user_agent = user_agent
        self._renewed_at = float("-inf")

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
                ssl=self._tls,
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
            await self._renew_credentials(response.status)
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
                ssl=self._tls,
                timeout=timeout,
            ) as response:
                try:
                    code = str(response.status)
                    if response.status >= NOT_OK:
                        body = await response.read()
                        await self._renew_credentials(response.status)
                        raise error_of(response.status, body, response.headers.get("Retry-After"))
                    tail = b""
                    async for chunk in response.content.iter_any():
                        *lines, tail = (tail + chunk).split(b"\n") if tail else chunk.split(b"\n")
                        for line in lines:
                            if line:
                                yield line
                    if tail:
                        raise Unavailable(0, "Truncated", "the watch ended inside an event")
                finally:
                    _abandon(response)
        except TimeoutError as exc:
            raise Unavailable(0, "Idle", f"no byte for {idle_seconds:g} s") from exc
        except (aiohttp.ClientError, OSError) as exc:
            raise Unavailable(0, "ConnectionLost", _text(exc)) from exc
        finally:
            METRICS.api_call("WATCH", code, 0.0)

    async def get(self, kind: Kind, namespace: str | None, name: str) -> bytes | None:
        """Return the object as the quorum holds it, None when there is none."""
        try:
            return await self.read(kind, namespace, name)
        except NotFound:
            return None

    async def read(self, kind: Kind, namespace: str | None, name: str) -> bytes:
        """
        Return the object as the quorum holds it.

        Raises NotServed where there is no such kind, NotFound where there is no such object.
        """
        return await self.request("GET", kind.path(namespace, name))

    async def list_objects(
        self,
        kind: Kind,
        namespace: str | None,
        *,
        label_selector: str = "",
        limit: int | None = None,
        accept: str = JSON,
    ) -> bytes:
        """Return one list, or its first `limit`; for the objects of one resource, not a kind's."""
        query = {"labelSelector": label_selector} if label_selector else {}
        if limit is not None:
            query["limit"] = str(limit)
        return await self.request("GET", kind.path(namespace), query=query, accept=accept)

    async def create(
        self, kind: Kind, namespace: str | None, manifest: Manifest, *, timeout_seconds: float
    ) -> bytes:
        """Create an object that must not exist; return it."""
        return await self.request(
            "POST",
            kind.path(namespace),
            query=self._write_query(timeout_seconds),
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
        is_dry: bool = False,
    ) -> bytes:
        """
        Server-side apply with force; return the object.

        A manifest that carries `metadata.uid` and `metadata.resourceVersion` changes only that
        state of that object, and is otherwise a Conflict. One that `is_dry` is not stored.
        """
        return await self.request(
            "PATCH",
            kind.path(namespace, name),
            query={**self._write_query(timeout_seconds, is_dry=is_dry), "force": "true"},
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
        is_dry: bool = False,
    ) -> bytes:
        """Apply a JSON patch (RFC 6902); return the object. One that `is_dry` is not stored."""
        return await self.request(
            "PATCH",
            kind.path(namespace, name),
            query=self._write_query(timeout_seconds, is_dry=is_dry),
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
            query=self._write_query(timeout_seconds),
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
            # Where there is a body the server reads no query (source: handlers/delete.go).
            **({"dryRun": ["All"]} if self.is_dry else {}),
        }
        await self.request(
            "DELETE",
            kind.path(namespace, name),
            query=self._write_query(timeout_seconds),
            body=msgspec.json.encode(options),
            content_type=JSON,
            timeout_seconds=timeout_seconds + CONNECT_SECONDS,
        )

    def _write_query(self, timeout_seconds: float, *, is_dry: bool = False) -> dict[str, str]:
        """
        Return what every write carries: a name, a bound, and whether it is only tried.

        The bound holds on the server's side too: a write must not land long after we gave up. A dry
        run is admitted, defaulted and validated, and not stored.
        Source: Kubernetes documentation, "Dry-run".
        """
        query = {"fieldManager": FIELD_MANAGER, "timeout": f"{timeout_seconds:g}s"}
        return {**query, "dryRun": "All"} if self.is_dry or is_dry else query

    async def _renew_credentials(self, status: int) -> None:
        """
        Read the configuration again where the server takes our credentials no more.

        kubernetes-asyncio refreshes a service account's token; what a kubeconfig has from a program
        or a provider, certificates included, it reads once.
        """
        now = time.monotonic()
        if status != UNAUTHORIZED or now < self._renewed_at + RENEW_SECONDS:
            return
        self._renewed_at = now
        with contextlib.suppress(SettingsError):
            access = await load_access()
            self._tls = access.context
            self._configuration = access.configuration
            self._base = str(self._configuration.host).rstrip("/")

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
    Under `settings.dry_run` no write of the client is stored, whoever asks for it.
    Raises SettingsError when there is no configuration.
    """
    user_agent = f"weir-{component}/{VERSION} ({settings.identity})"
    kube = Kube(await load_access(), user_agent, is_dry=settings.dry_run)
    try:
        yield kube
    finally:
        await kube.close()
        await asyncio.sleep(0)


def _text(exc: BaseException) -> str:
    return (str(exc) or type(exc).__name__)[:ERROR_TEXT_MAX]


def _abandon(response: aiohttp.ClientResponse) -> None:
    """
    Drop the connection of a watch that is left before its end.

    TLS would say goodbye and wait for the answer, which outlives whoever closes the client.
    """
    if response.connection is not None and response.connection.transport is not None:
        response.connection.transport.abort()
