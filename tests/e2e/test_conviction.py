"""How many deaths of handlers convict the object that they ran alone."""

from __future__ import annotations

import pytest

from bridge.events import ObjectKey
from bridge.nats_connection import connect_nats
from bridge.settings import Settings
from crds.inferadeployment import KIND
from handlers.cli.devstack.control_plane import ControlPlane
from handlers.state import FailState, save_state
from handlers.suspects import acquit
from tests.builders import a_small_deployment
from tests.e2e.population import SHORT, condition, population
from tests.stack.eventually import eventually
from tests.stack.fixtures import Weir


@pytest.mark.parametrize("is_doubtful", [False, True], ids=["alone", "among-survivors"])
async def test_three_deaths_convict_unless_suspects_outlive_theirs(
    control_plane: ControlPlane, namespace: str, weir: Weir, *, is_doubtful: bool
) -> None:
    """What handlers that are gone counted: three runs alone that ended with a death."""
    bridge = weir.bridge(**SHORT, watch_namespaces=namespace)
    bridge.wait_ready()
    async with population(control_plane, namespace) as crowd:
        await crowd.create([a_small_deployment("unlucky").manifest()])
        resource = await crowd.resource("unlucky")
        assert resource is not None
        counted = FailState(uid=resource["metadata"]["uid"], generation=1, crashes=3)
        async with connect_nats(Settings(nats_url=weir.nats.url), "tests") as bus:
            await save_state(bus, ObjectKey(KIND.queue_name, namespace, "unlucky"), counted)
            if is_doubtful:
                await acquit(bus)
        weir.handlers(**SHORT)

        expected = "AllReady" if is_doubtful else "Quarantined"

        async def is_told() -> bool:
            seen = await crowd.resource("unlucky")
            assert seen is not None
            assert condition(seen).get("reason") == expected, seen
            return True

        await eventually(is_told, within_seconds=30)
