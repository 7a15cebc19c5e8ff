"""At rest Weir looks and writes nothing, however often it looks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import nats
import pytest

from bridge.events import TIMER_SUBJECT
from bridge.streams import HISTORY, QUEUE
from crds.inferadeployment import KIND
from handlers.cli.devstack.control_plane import ControlPlane
from tests.builders import a_small_deployment
from tests.e2e.population import is_ready, population
from tests.stack.eventually import eventually
from tests.stack.fixtures import Weir
from tests.witness.audit import AuditLog
from tests.witness.quiet import quiet

RESYNCS = 2


@pytest.mark.timeout(300)
async def test_200_ready_resources_looked_at_twice_cost_no_write_and_no_outcome(
    fresh_control_plane: ControlPlane, namespace: str, weir: Weir
) -> None:
    # A timer that is not taken back when its resource gets Ready would be there to the end.
    settings = {"resync_seconds": 10, "not_ready_seconds": 600, "not_ready_seconds_max": 600}
    await _assert_quiet(fresh_control_plane, namespace, weir, 200, **settings)


@pytest.mark.soak
@pytest.mark.timeout(2400)
async def test_500_ready_resources_looked_at_twice_at_production_settings_cost_no_write(
    fresh_control_plane: ControlPlane, namespace: str, weir: Weir
) -> None:
    """Twenty minutes of rest: two resyncs, bookmarks, watches that end and begin anew."""
    await _assert_quiet(fresh_control_plane, namespace, weir, 500, resync_seconds=600)


async def _assert_quiet(
    control_plane: ControlPlane,
    namespace: str,
    weir: Weir,
    count: int,
    *,
    resync_seconds: float,
    **others: float,
) -> None:
    settings: Mapping[str, Any] = {
        "resync_seconds": resync_seconds,
        "watch_namespaces": namespace,
        **others,
    }
    weir.bridge(**settings)
    weir.bridge(**settings)
    weir.handlers(**settings)
    weir.handlers(**settings)
    async with population(control_plane, namespace) as crowd:
        await crowd.create(a_small_deployment("rest").many(count))

        async def are_ready() -> bool:
            resources = (await crowd.resources()).values()
            waiting = [r["metadata"]["name"] for r in resources if not is_ready(r)]
            assert not waiting, f"{len(waiting)} are not ready: {waiting[:5]}"
            return len(resources) == count

        # Not what this is about; with pods and controllers it is the machine that takes its time.
        await eventually(are_ready, within_seconds=count * 1.2, every_seconds=1)

        async def no_timer_waits() -> bool:
            assert await _timers(weir.nats.url) == {}
            return True

        await eventually(no_timer_waits)
        audit = AuditLog(control_plane.audit_log)
        async with quiet(control_plane, namespace):
            begin, told = audit.offset(), await _outcomes_told(weir.nats.url)

            def all_were_looked_at() -> bool:
                looks = _looks(audit, begin)
                assert len(looks) == count, f"{len(looks)} were looked at"
                assert min(looks.values()) >= RESYNCS, f"{looks.most_common()[-1]}"
                return True

            within = (RESYNCS + 1) * resync_seconds + 30
            await eventually(all_were_looked_at, within, every_seconds=resync_seconds / 20)
            assert await _outcomes_told(weir.nats.url) == told


async def _outcomes_told(nats_url: str) -> int:
    """Return the last sequence of the history."""
    client = await nats.connect(nats_url)
    try:
        return (await client.jetstream().stream_info(HISTORY)).state.last_seq
    finally:
        await client.close()


async def _timers(nats_url: str) -> Mapping[str, int]:
    """Return the subjects of the timers that have not gone off."""
    client = await nats.connect(nats_url)
    try:
        queue = await client.jetstream().stream_info(QUEUE, subjects_filter=f"{TIMER_SUBJECT}.>")
        return queue.state.subjects or {}
    finally:
        await client.close()


def _looks(audit: AuditLog, from_offset: int) -> Counter[str]:
    """Return how often handlers read each resource."""
    return Counter(
        event.object_ref.name
        for event in audit.events(from_offset=from_offset)
        if event.verb == "get"
        and event.object_ref.resource == KIND.plural
        and event.user_agent.startswith("weir-handlers")
    )
