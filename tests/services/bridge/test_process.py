"""The bridge as a process: `weir bridge`."""

from __future__ import annotations

from bridge.events import EventType
from handlers.cli.devstack.loopback import answers
from handlers.cli.devstack.nats_server import NatsServer
from tests.services.bridge.conftest import Resources, Taker
from tests.stack.eventually import PATIENCE, eventually
from tests.stack.fixtures import Weir

STOP_SECONDS = 10.0 * PATIENCE
"""Then it is killed, and its exit code is another."""


async def test_a_bridge_that_is_told_to_stop_ends_cleanly_and_soon(
    weir: Weir, namespace: str, taken: Taker, resources: Resources
) -> None:
    bridge = weir.bridge(watch_namespaces=namespace)
    bridge.wait_ready()
    await resources.create("last-words")
    await eventually(lambda: taken.of("last-words"))
    assert bridge.terminate(STOP_SECONDS) == 0


async def test_a_bridge_waits_for_nats_alive_but_not_ready_and_may_be_stopped(
    weir: Weir, namespace: str, nats_server: NatsServer, resources: Resources
) -> None:
    nats_server.stop()
    waiting = weir.bridge(watch_namespaces=namespace)
    stopped = weir.bridge(watch_namespaces=namespace)
    for bridge in (waiting, stopped):
        await eventually(lambda: answers(bridge.http_url + "/healthz"))  # noqa: B023 - awaited here
        assert not answers(bridge.http_url + "/readyz")
    assert stopped.terminate(STOP_SECONDS) == 0
    nats_server.start()
    waiting.wait_ready()


async def test_what_happened_while_no_bridge_ran_is_told_latest_first(
    weir: Weir, namespace: str, taken: Taker, resources: Resources
) -> None:
    names = [f"unattended-{n}" for n in range(20)]
    for name in names:
        await resources.create(name)
    bridge = weir.bridge(watch_namespaces=namespace)
    await eventually(lambda: taken.names(EventType.RESYNC) == set(names))
    bridge.kill()
    taken.events.clear()
    await resources.edit("unattended-7", "i:2")
    weir.bridge(watch_namespaces=namespace)
    await eventually(lambda: taken.names(EventType.RESYNC) == set(names))
    assert taken.events[0].key.name == "unattended-7"
