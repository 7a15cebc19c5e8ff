from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from handlers.cli.devstack import locate
from handlers.cli.devstack.control_plane import ControlPlane
from handlers.cli.devstack.nats_server import NatsServer
from handlers.cli.devstack.process import remove_directory, run_directory
from handlers.cli.devstack.weir import WeirProcess
from tests.e2e.stage import Stage
from tests.stack.fixtures import Weir, native, shown_on_failure


@pytest.fixture
def stage(cluster: ControlPlane, namespace: str, weir: Weir) -> Stage:
    """A namespace with nothing running yet."""
    return Stage(cluster, namespace, weir)


@pytest.fixture(scope="module")
def company_settings() -> Mapping[str, Any]:
    """What the company's processes are set to; production's, unless a module says otherwise."""
    return {}


@pytest.fixture(scope="module")
def company(
    request: pytest.FixtureRequest,
    control_plane: ControlPlane,
    company_settings: Mapping[str, Any],
) -> Iterator[tuple[Weir, WeirProcess, WeirProcess]]:
    """A NATS, a bridge and handlers that look after all namespaces while a module's tests run."""
    scratch = run_directory("test")
    nats = NatsServer(native(locate.NATS)["nats-server"], scratch)
    nats.start()
    weir = Weir(control_plane, nats, scratch, request.node)
    yield weir, weir.bridge(**company_settings), weir.handlers(**company_settings)
    weir.stop()
    nats.kill()
    remove_directory(scratch)


@pytest.fixture
def running(
    request: pytest.FixtureRequest,
    control_plane: ControlPlane,
    namespace: str,
    company: tuple[Weir, WeirProcess, WeirProcess],
) -> Stage:
    """A namespace that a bridge and handlers look after: those of the module, alive and ready."""
    weir, bridge, handlers = company
    stage = Stage(control_plane, namespace, weir)
    stage.bridge, stage.handlers = bridge, handlers
    for process in (bridge, handlers):
        shown_on_failure(request.node, process)
        if not process.is_running:
            process.start()
        process.wait_ready()
    return stage
