"""How many workloads a minute get new pods that nobody asked for."""

from __future__ import annotations

from bridge import streams
from bridge.nats_connection import connect_nats
from bridge.settings import Settings
from handlers import plan
from handlers.budget import TOKEN, take_token
from handlers.cli.devstack.nats_server import NatsServer
from tests.services.handlers.conftest import Desk
from tests.services.handlers.renderings import ORDINARY


async def test_all_handlers_together_take_no_more_tokens_than_there_are(
    nats_server: NatsServer,
) -> None:
    settings = Settings(nats_url=nats_server.url, rollouts_per_minute=3)
    async with connect_nats(settings, "handlers") as a, connect_nats(settings, "handlers") as b:
        await a.declare()
        taken = [await take_token(bus) for bus in (a, b, a, b, a)]
        assert taken == [True, True, True, False, False]
        for number in range(3):
            stored = await a.last(streams.STATE, f"{TOKEN}.{number}")
            assert stored is not None
            assert stored.headers["Nats-TTL"] == "60s"


async def test_a_newer_renderer_waits_for_a_token_where_pods_would_restart_and_an_edit_does_not(
    desk: Desk,
) -> None:
    manifest = ORDINARY["a small deployment"](desk)
    await desk.made(manifest)
    desk.owner["metadata"]["generation"] = 4
    desk.owner["status"] = {"observedGeneration": 4}
    desk.may_roll_out = False

    manifest["metadata"]["labels"] = {**manifest["metadata"]["labels"], "a": "b"}
    (child,) = await desk.make(manifest, renderer=2)
    assert not child.waits, "no pod restarts for a label of the Deployment"
    assert plan.renderer_of(await desk.live(manifest)) == 2

    manifest["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 77
    (child,) = await desk.make(manifest, renderer=3)
    assert child.waits
    assert child.problem is None
    assert desk.written == []

    desk.may_roll_out = True
    (child,) = await desk.make(manifest, renderer=3)
    assert not child.waits
    assert plan.renderer_of(await desk.live(manifest)) == 3

    desk.may_roll_out = False
    manifest["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 78
    desk.owner["metadata"]["generation"] = 5
    (child,) = await desk.make(manifest, renderer=4)
    assert not child.waits, "somebody edited the resource"
