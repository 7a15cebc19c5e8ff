"""Fixtures over the real parts. A backend that is missing fails a test; nothing is skipped."""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import pytest

from handlers.cli.devstack import access, locate
from handlers.cli.devstack.borrowed import BorrowedCluster
from handlers.cli.devstack.cluster import Cluster
from handlers.cli.devstack.control_plane import Binaries, ControlPlane
from handlers.cli.devstack.etcd import Etcd
from handlers.cli.devstack.nats_server import NatsServer
from handlers.cli.devstack.process import Process, remove_directory, run_directory
from handlers.cli.devstack.weir import Component, Setting, WeirProcess, shipped_manifests

NEEDED_BY = {
    locate.CONTROL_PLANE: {"control_plane_binaries", "cluster"},
    locate.NATS: {"nats_server"},
    locate.ETCD_SERVICE: {"etcd"},
}

LOGS = pytest.StashKey[list[Process]]()
"""Processes whose last lines a failing test shows."""

Kubectl = Callable[..., subprocess.CompletedProcess[str]]


class NatsLike(Protocol):
    """All that Weir must know of NATS."""

    url: str


def shown_on_failure(node: pytest.Item, process: Process) -> None:
    """Let a failure of the test show the last lines that the process wrote."""
    node.stash.setdefault(LOGS, []).append(process)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report: pytest.TestReport = yield  # type: ignore[assignment]
    if report.failed:
        for process in item.stash.get(LOGS, []):
            if tail := process.log_tail():
                report.sections.append((f"log of {process.name}", tail))
    return report  # type: ignore[return-value]


def pytest_collection_finish(session: pytest.Session) -> None:
    """
    Build what the chosen tests need and the machine lacks, before the first of them.

    Here, because a cold build takes longer than a test may, and its progress must be seen.
    """
    if session.config.option.collectonly:
        return
    asked = {
        name
        for item in session.items
        if isinstance(item, pytest.Function)
        for name in item.fixturenames
    }
    capture = session.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        for service, fixtures in NEEDED_BY.items():
            if asked & fixtures:
                with suppress(locate.MissingBackend):  # the fixture will tell
                    locate.installed(service, os.environ)


def native(service: locate.Service) -> Mapping[str, Path]:
    """Return the programs of a service: these tests kill, pause and restart it."""
    try:
        return locate.installed(service, os.environ)
    except locate.MissingBackend as exc:
        pytest.fail(str(exc), pytrace=False)


@pytest.fixture(scope="session")
def control_plane_binaries() -> Binaries:
    return locate.control_plane_binaries(native(locate.CONTROL_PLANE), os.environ)


@pytest.fixture(scope="session")
def control_plane(control_plane_binaries: Binaries) -> Iterator[ControlPlane]:
    """The control plane that most tests share, with our CRDs and roles."""
    shared = ControlPlane(control_plane_binaries, manifests=shipped_manifests())
    shared.start()
    yield shared
    shared.stop()


@pytest.fixture
def fresh_control_plane(control_plane_binaries: Binaries) -> Iterator[ControlPlane]:
    """A control plane of this test's own; `cluster` and all that stands on it then mean this."""
    own = ControlPlane(control_plane_binaries, manifests=shipped_manifests())
    own.start()
    yield own
    own.stop()


@pytest.fixture(scope="session")
def borrowed_cluster() -> Iterator[Cluster]:
    """The cluster that WEIR_TEST_KUBECONFIG names."""
    lent = BorrowedCluster(
        Path(os.environ[locate.CONTROL_PLANE.variable]),
        locate.kubectl(os.environ),
        manifests=shipped_manifests(),
    )
    lent.start()
    yield lent
    lent.stop()


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """
    The API server of this test, and of `kubectl`, `namespace` and `weir` in it.

    The test's own where it asks for `fresh_control_plane`; the shared one where it asks for
    `control_plane`; else the one that WEIR_TEST_KUBECONFIG names, when it does.
    """
    chosen = "control_plane"
    if "fresh_control_plane" in request.fixturenames:
        chosen = "fresh_control_plane"
    elif "control_plane" not in request.fixturenames and os.environ.get(
        locate.CONTROL_PLANE.variable
    ):
        chosen = "borrowed_cluster"
    found: Cluster = request.getfixturevalue(chosen)
    return found


@pytest.fixture
def kubectl(cluster: Cluster) -> Kubectl:
    """The real kubectl as an administrator: `kubectl("get", "pods", document=..., user=...)`."""
    return cluster.kubectl


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """A namespace of this test's own; its deletion goes on while the next test begins."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    cluster.kubectl("create", "namespace", name)
    yield name
    cluster.kubectl("delete", "namespace", name, "--wait=false", check=False)


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A directory in memory for the data and the logs of this test's processes."""
    path = run_directory("test")
    yield path
    remove_directory(path)


@pytest.fixture
def nats_server(request: pytest.FixtureRequest, scratch: Path) -> Iterator[NatsServer]:
    """A running nats-server with JetStream of this test's own."""
    server = NatsServer(native(locate.NATS)["nats-server"], scratch)
    shown_on_failure(request.node, server.process)
    server.start()
    yield server
    server.kill()


@pytest.fixture
def etcd(request: pytest.FixtureRequest, scratch: Path) -> Iterator[Etcd]:
    """A running etcd of this test's own."""
    server = Etcd(native(locate.ETCD_SERVICE)["etcd"], scratch)
    shown_on_failure(request.node, server.process)
    server.start()
    yield server
    server.kill()


class Weir:
    """Starts bridges and handlers against one control plane and one NATS, and ends them all."""

    def __init__(self, cluster: Cluster, nats: NatsLike, scratch: Path, node: pytest.Item) -> None:
        self.cluster = cluster
        self.nats = nats
        self.processes: list[WeirProcess] = []
        self._scratch = scratch
        self._node = node

    def bridge(
        self,
        *,
        kubeconfig: Path | None = None,
        environment: Mapping[str, str] | None = None,
        **settings: Setting,
    ) -> WeirProcess:
        """Start a bridge with the bridge's role; settings by field name of `bridge.settings`."""
        config = kubeconfig or self.cluster.kubeconfig(access.BRIDGE)
        return self._start("bridge", config, environment or {}, settings)

    def handlers(
        self,
        *,
        kubeconfig: Path | None = None,
        environment: Mapping[str, str] | None = None,
        **settings: Setting,
    ) -> WeirProcess:
        """Start a handlers process with the handlers' role; settings as for `bridge`."""
        config = kubeconfig or self.cluster.kubeconfig(access.HANDLERS)
        return self._start("handlers", config, environment or {}, settings)

    def stop(self) -> None:
        """End every process that was started here."""
        for process in self.processes:
            process.kill()

    def _start(
        self,
        component: Component,
        kubeconfig: Path,
        environment: Mapping[str, str],
        settings: Mapping[str, Setting],
    ) -> WeirProcess:
        number = 1 + sum(process.component == component for process in self.processes)
        process = WeirProcess(
            component,
            f"{component}-{number}",
            directory=self._scratch,
            kubeconfig=kubeconfig,
            nats_url=self.nats.url,
            settings=settings,
            environment=environment,
        )
        self.processes.append(process)
        shown_on_failure(self._node, process)
        process.start()
        return process


@pytest.fixture
def weir(
    request: pytest.FixtureRequest, cluster: Cluster, nats_server: NatsServer, scratch: Path
) -> Iterator[Weir]:
    """`weir.bridge(**settings)` and `weir.handlers(**settings)` start the real processes."""
    factory = Weir(cluster, nats_server, scratch, request.node)
    yield factory
    factory.stop()
