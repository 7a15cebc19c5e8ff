"""The API client at a real API server, and at servers that misbehave."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any, Self

import pytest
import yaml

from bridge.kube import Kube, connect_kube
from bridge.kube_errors import (
    AlreadyExists,
    Conflict,
    Gone,
    NotFound,
    NotServed,
    Refused,
    Throttled,
    Unavailable,
)
from bridge.kube_library import ConfigException
from bridge.settings import Settings, SettingsError
from crds.kind import Kind
from crds.kubernetes import SERVICE_ACCOUNT
from handlers.cli.devstack import access
from handlers.cli.devstack.cluster import Cluster
from handlers.cli.devstack.control_plane import ControlPlane
from tests.faults.dead_port import dead_port
from tests.stack.eventually import PATIENCE_SECONDS
from tests.stack.runs import a_run, line_of

STRANGER = "stranger"  # a token that nobody gave out
UNSERVED = (
    Kind(group="a.b", version="v1", kind="X", plural="xs"),
    Kind(group="", version="v1", kind="X", plural="xs"),
    Kind(group="apps", version="v9", kind="Deployment", plural="deployments"),
    Kind(group="weir.dev", version="v1", kind="X", plural="xs"),
    Kind(
        group="apiextensions.k8s.io",
        version="v1beta1",
        kind="CustomResourceDefinition",
        plural="customresourcedefinitions",
    ),
)
CONFIG_MAP = Kind(group="", version="v1", kind="ConfigMap", plural="configmaps")


@pytest.fixture
async def kube(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Kube]:
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig()))
    async with connect_kube(Settings(identity="test"), "bridge") as kube:
        yield kube


def a_config_map(name: str = "x", **data: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": data,
    }


async def _created(kube: Kube, namespace: str, name: str = "x") -> dict[str, Any]:
    data = await kube.create(
        CONFIG_MAP, namespace, a_config_map(name, k="v"), timeout_seconds=PATIENCE_SECONDS
    )
    made: dict[str, Any] = json.loads(data)
    return made


async def test_absence_is_a_value(kube: Kube, namespace: str) -> None:
    assert await kube.get(CONFIG_MAP, namespace, "x") is None
    for kind in UNSERVED:
        assert await kube.get(kind, None, "x") is None


async def test_what_is_absent_is_told_from_what_is_not_served(kube: Kube, namespace: str) -> None:
    with pytest.raises(NotFound) as absent:
        await kube.read(CONFIG_MAP, namespace, "x")
    assert type(absent.value) is NotFound
    for kind in UNSERVED:
        with pytest.raises(NotServed):
            await kube.read(kind, namespace, "x")


async def test_a_create_names_its_manager_and_refuses_a_second(kube: Kube, namespace: str) -> None:
    made = await _created(kube, namespace)
    (entry,) = made["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"]) == ("weir", "Update")
    with pytest.raises(AlreadyExists):
        await _created(kube, namespace)


async def test_a_delete_of_another_state_is_a_conflict_and_of_nothing_not_found(
    kube: Kube, namespace: str
) -> None:
    made = (await _created(kube, namespace))["metadata"]
    uid, version = made["uid"], made["resourceVersion"]
    for wrong in ({"uid": "0", "resource_version": version}, {"uid": uid, "resource_version": "1"}):
        with pytest.raises(Conflict):
            await kube.delete(CONFIG_MAP, namespace, "x", timeout_seconds=PATIENCE_SECONDS, **wrong)
    right = {"uid": uid, "resource_version": version}
    await kube.delete(CONFIG_MAP, namespace, "x", timeout_seconds=PATIENCE_SECONDS, **right)
    with pytest.raises(NotFound):
        await kube.delete(CONFIG_MAP, namespace, "x", timeout_seconds=PATIENCE_SECONDS, **right)


async def test_a_refusal_keeps_the_servers_words(kube: Kube, namespace: str) -> None:
    with pytest.raises(Refused, match=r"metadata\.name") as refused:
        await _created(kube, namespace, "Not A Name")
    assert refused.value.status == 422


async def test_a_token_that_nobody_knows_is_refused_as_unauthorized(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = access.write_kubeconfig(
        tmp_path / "config", server=cluster.url, token=STRANGER, authority=cluster.authority()
    )
    monkeypatch.setenv("KUBECONFIG", str(path))
    async with connect_kube(Settings(), "bridge") as kube:
        with pytest.raises(Refused) as refused:
            await kube.get(CONFIG_MAP, "default", "x")
    assert refused.value.status == 401


async def test_a_configuration_that_is_refused_is_read_again_as_a_whole(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Token and certificates: a rotation may change both."""
    path = tmp_path / "config"
    access.write_kubeconfig(path, server=cluster.url, token=STRANGER, authority=cluster.authority())
    monkeypatch.setenv("KUBECONFIG", str(path))
    async with connect_kube(Settings(), "bridge") as kube:
        path.write_bytes(cluster.kubeconfig(access.ADMIN).read_bytes())
        before = kube._tls
        with pytest.raises(Refused):
            await kube.get(CONFIG_MAP, "default", "x")
        assert await kube.get(CONFIG_MAP, "default", "no-such") is None
        assert kube._tls is not before


async def test_rights_that_we_do_not_hold_are_refused_as_forbidden(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, namespace: str
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig(access.HANDLERS)))
    async with connect_kube(Settings(), "handlers") as kube:
        with pytest.raises(Refused, match="forbidden") as refused:
            await kube.get(CONFIG_MAP, namespace, "x")
    assert refused.value.status == 403


async def test_a_watch_yields_whole_lines_and_says_when_its_version_is_too_old(
    kube: Kube, namespace: str
) -> None:
    path = CONFIG_MAP.path(namespace)
    query = {"watch": "1", "fieldSelector": "metadata.name=x", "timeoutSeconds": "30"}
    async with aclosing(kube.stream(path, query=query, idle_seconds=20)) as lines:
        first = asyncio.ensure_future(anext(lines))
        await _created(kube, namespace)
        event = json.loads(await first)
        assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "x")


async def test_a_watch_that_is_silent_is_taken_for_dead(kube: Kube, namespace: str) -> None:
    query = {"watch": "1", "timeoutSeconds": "30", "fieldSelector": "metadata.name=nobody"}
    path = SERVICE_ACCOUNT.path(namespace)
    async with aclosing(kube.stream(path, query=query, idle_seconds=0.3)) as lines:
        with pytest.raises(Unavailable) as dead:
            await anext(lines)
    assert dead.value.reason == "Idle"


# ---------------------------------------------------------------------------------- other servers


class FakeApiServer:
    """Answers every connection with the bytes that it was given, then closes."""

    def __init__(self, answer: bytes, *, then_hangs: bool = False) -> None:
        self._answer = answer
        self._then_hangs = then_hangs
        self.url = ""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(self._answer)
        await writer.drain()
        if self._then_hangs:
            await reader.read()
        writer.close()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Return what a GET at a server makes of its answer."""

    async def ask(answer: bytes, *, then_hangs: bool = False, is_watch: bool = False) -> bytes:
        async with FakeApiServer(answer, then_hangs=then_hangs) as server:
            path = access.write_kubeconfig(tmp_path / "config", server=server.url, token=STRANGER)
            monkeypatch.setenv("KUBECONFIG", str(path))
            async with connect_kube(Settings(), "bridge") as kube:
                if not is_watch:
                    return await kube.request("GET", "/x", timeout_seconds=0.5)
                lines = [line async for line in kube.stream("/x", query={}, idle_seconds=0.5)]
                return b"|".join(lines)

    return ask


def an_answer(head: str, body: bytes = b"") -> bytes:
    return f"HTTP/1.1 {head}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


BROKEN: dict[str, tuple[bytes, bool, str]] = {
    "nothing": (b"", False, "ConnectionLost"),
    "no HTTP": (b"SSH-2.0-OpenSSH\r\n\r\n", False, "ConnectionLost"),
    "half a body": (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", False, "ConnectionLost"),
    "a body that never ends": (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nh", True, "Timeout"),
    "silence": (b"", True, "Timeout"),
    "a gateway's page": (an_answer("502 Bad Gateway", b"<html>"), False, "HTTP502"),
}


@pytest.mark.parametrize(("answer", "then_hangs", "reason"), BROKEN.values(), ids=BROKEN)
async def test_an_answer_that_is_none_is_a_server_in_trouble(
    asked: Any, answer: bytes, *, then_hangs: bool, reason: str
) -> None:
    with pytest.raises(Unavailable) as trouble:
        await asked(answer, then_hangs=then_hangs)
    assert trouble.value.reason == reason


async def test_a_server_that_asks_for_patience_says_how_long(asked: Any) -> None:
    with pytest.raises(Throttled) as throttled:
        await asked(an_answer("429 Too Many Requests\r\nRetry-After: 7"))
    assert throttled.value.retry_after_seconds == 7


async def test_a_watch_that_is_refused_raises_what_a_get_would(asked: Any) -> None:
    with pytest.raises(Gone):
        await asked(an_answer("410 Gone", b'{"reason":"Expired"}'), is_watch=True)


async def test_a_watch_that_ends_inside_an_event_is_no_end(asked: Any) -> None:
    assert await asked(an_answer("200 OK", b'{"a":1}\n\n{"b":2}\n'), is_watch=True) == (
        b'{"a":1}|{"b":2}'
    )
    with pytest.raises(Unavailable) as cut:
        await asked(an_answer("200 OK", b'{"a":1}\n{"b":'), is_watch=True)
    assert cut.value.reason == "Truncated"


async def test_nobody_at_all_is_a_server_out_of_reach(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with dead_port() as port:
        path = access.write_kubeconfig(
            tmp_path / "config", server=f"http://127.0.0.1:{port}", token=STRANGER
        )
        monkeypatch.setenv("KUBECONFIG", str(path))
        async with connect_kube(Settings(), "bridge") as kube:
            with pytest.raises(Unavailable) as lost:
                await kube.request("GET", "/x")
    assert lost.value.status == 0


async def test_a_token_that_cannot_be_read_now_is_no_fault_of_the_object(kube: Kube) -> None:
    for error in (OSError("rotating"), ConfigException("Token file exists but empty.")):

        def refresh(_: object, error: Exception = error) -> None:
            raise error

        kube._configuration.refresh_api_key_hook = refresh
        with pytest.raises(Unavailable) as lost:
            await kube.request("GET", "/version")
        assert lost.value.reason == "NoToken"


# ---------------------------------------------------------------------------------- configuration

CONFIGS: dict[str, str | None] = {
    "a file that is not there": None,
    "an empty file": "",
    "no YAML": "{:",
    "YAML of something else": "- a\n",
    "a context that is not there": "apiVersion: v1\nkind: Config\ncurrent-context: x\n",
    "a certificate that is none": (
        "apiVersion: v1\nkind: Config\ncurrent-context: x\n"
        "contexts: [{name: x, context: {cluster: x, user: x}}]\nusers: [{name: x, user: {}}]\n"
        "clusters: [{name: x, cluster: {server: 'https://a', certificate-authority: /no/such}}]\n"
    ),
}


@pytest.mark.parametrize("text", CONFIGS.values(), ids=CONFIGS)
async def test_a_configuration_that_is_none_is_told_with_its_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str | None
) -> None:
    path = tmp_path / "config"
    if text is not None:
        path.write_text(text)
    monkeypatch.setenv("KUBECONFIG", str(path))
    with pytest.raises(SettingsError, match="KUBECONFIG"):
        async with connect_kube(Settings(), "bridge"):
            pytest.fail("connected to nobody")


async def test_a_killed_process_leaves_no_file_of_the_certificates_and_keys_of_its_kubeconfig(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    pki = control_plane.directory / "pki"
    config = yaml.safe_load(control_plane.kubeconfig().read_text())
    for field, name in (("client-certificate", "crt"), ("client-key", "key")):
        pem = (pki / f"apiserver.{name}").read_bytes()
        config["users"][0]["user"][f"{field}-data"] = base64.b64encode(pem).decode()
    path, scratch = tmp_path / "config", tmp_path / "tmp"
    path.write_text(yaml.safe_dump(config))
    scratch.mkdir()

    script = f"""
        import asyncio, os, time
        os.environ |= {{"KUBECONFIG": {str(path)!r}, "TMPDIR": {str(scratch)!r}}}
        from bridge.kube_config import load_access
        async def main():
            open_files = set()
            for _ in range(3):  # as it is read again when a token is refused
                access = await load_access()
                open_files.add(len(os.listdir("/dev/fd")))
            print(len(open_files), access.configuration.cert_file, flush=True)
            time.sleep(600)
        asyncio.run(main())
    """
    with a_run(script) as run:
        counts, certificate = line_of(run).split()
        run.kill()

    assert certificate.startswith(str(scratch))
    assert counts == "1"
    assert list(scratch.iterdir()) == []
