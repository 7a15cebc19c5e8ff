"""The processes that a sequence runs against, and what breaks them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from typing import Any

import nats
import pytest
from nats.js.errors import NotFoundError

from bridge import streams
from crds.inferadeployment import CONTRACT
from handlers.cli.devstack import access, locate
from handlers.cli.devstack.control_plane import SCHEDULER, ControlPlane
from handlers.cli.devstack.nats_server import NatsServer
from handlers.cli.devstack.process import remove_directory, run_directory
from handlers.cli.devstack.weir import WeirProcess
from tests.e2e.machine.actions import HANDLERS
from tests.e2e.machine.optional import OptionalKinds
from tests.faults.own_loop import in_thread
from tests.faults.tcp_proxy import TcpProxy
from tests.stack.fixtures import Weir, native

BRIDGE = "bridge"
NATS = "nats"
API = "api"


class Way:
    """Where Weir finds its NATS: behind a proxy."""

    def __init__(self, proxy: TcpProxy) -> None:
        self.url = f"nats://127.0.0.1:{proxy.port}"


class Scene:
    """A bridge and two handlers that look after all namespaces, and proxies around them."""

    def __init__(
        self,
        cluster: ControlPlane,
        nats_server: NatsServer,
        proxies: Mapping[str, TcpProxy],
        weir: Weir,
        settings: Mapping[str, Any],
    ) -> None:
        self.cluster = cluster
        self.has_pods = SCHEDULER in cluster.controllers
        self.kinds = OptionalKinds(cluster)
        self.nats = nats_server
        self.weir = weir
        self._proxies = proxies
        self.killed: dict[str, list[datetime]] = {}
        """When each process was killed."""
        self._stopped: dict[str, bool] = {}
        """The processes that are stopped, and whether for longer than until the next calm."""
        way = f"https://127.0.0.1:{proxies[API].port}"
        bridge = cluster.kubeconfig_through(way, access.BRIDGE)
        handlers = cluster.kubeconfig_through(way, access.HANDLERS)
        self.processes: dict[str, WeirProcess] = {
            BRIDGE: weir.bridge(kubeconfig=bridge, **settings)
        }
        for name in HANDLERS:
            self.processes[name] = weir.handlers(kubeconfig=handlers, **settings)

    def heal(self) -> None:
        """Everything runs, all connections are possible, and all kinds are served."""
        self.kinds.restore()
        self.end_cuts()
        self.go_on(lasting=True)
        if not self.nats.process.is_running:
            self.nats.start()
        for process in self.processes.values():
            if not process.is_running:
                process.start()
        for process in self.processes.values():
            process.wait_ready()

    # What breaks

    def kill(self, what: str) -> None:
        """SIGKILL, and a new start that nobody waits for; NATS serves again."""
        if what == NATS:
            self.nats.restart()
            return
        self._stopped.pop(what, None)
        self.processes[what].kill()
        self.killed.setdefault(what, []).append(datetime.now(UTC))
        self.processes[what].start()

    def stop(self, what: str, *, lasting: bool) -> None:
        """SIGSTOP. Only one handler stops for longer: somebody has to do the work meanwhile."""
        others = any(lasts for other, lasts in self._stopped.items() if other != what)
        self._stopped[what] = lasting and what in HANDLERS and not others
        self.processes[what].pause()

    def go_on(self, *, lasting: bool) -> None:
        """SIGCONT of what was stopped for a while; of all, where lasting stops end, too."""
        for what in [w for w, lasts in self._stopped.items() if lasting or not lasts]:
            del self._stopped[what]
            self.processes[what].resume()

    def cut(self, what: str, *, lasting: bool) -> None:
        """Reset every connection to NATS or to the API server; lasting: there is no new one."""
        if lasting:
            self._proxies[what].refuse()
        self._proxies[what].cut()

    def end_cuts(self) -> None:
        """There are new connections."""
        for proxy in self._proxies.values():
            proxy.allow()

    async def wipe(self) -> None:
        """NATS starts anew with nothing."""
        await asyncio.to_thread(self.nats.wipe)

    async def lose(self, stream: str) -> None:
        """A stream is deleted, or the consumer, where it is there."""
        async with await nats.connect(self.nats.url) as client:
            jetstream = client.jetstream()
            try:
                if stream == "the consumer":
                    durable = streams.consumer_name(CONTRACT.consumer)
                    await jetstream.delete_consumer(streams.QUEUE, durable)
                else:
                    await jetstream.delete_stream(stream)
            except NotFoundError:
                pass  # lost a moment ago, and not made again yet


@contextmanager
def a_scene(
    cluster: ControlPlane,
    settings: Mapping[str, Any],
    node: pytest.Item,
) -> Iterator[Scene]:
    """Give a scene with a NATS of its own; everything but the control plane ends with it."""
    with ExitStack() as ends:
        scratch = run_directory("test")
        ends.callback(remove_directory, scratch)
        nats_server = NatsServer(native(locate.NATS)["nats-server"], scratch)
        ends.callback(nats_server.kill)
        nats_server.start()
        proxies = {
            API: ends.enter_context(in_thread(TcpProxy("127.0.0.1", cluster.port))),
            NATS: ends.enter_context(in_thread(TcpProxy("127.0.0.1", nats_server.port))),
        }
        weir = Weir(cluster, Way(proxies[NATS]), scratch, node)
        ends.callback(weir.stop)
        yield Scene(cluster, nats_server, proxies, weir, settings)
