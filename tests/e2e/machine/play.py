"""One sequence from its beginning to its end, and the same end come by directly."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from crds.inferadeployment import KIND
from tests.e2e.crowd import Crowd, a_crowd
from tests.e2e.machine.actions import HANDLERS, Apply, Sequence, as_python
from tests.e2e.machine.compare import status_of, twins, unlike
from tests.e2e.machine.eyes import Eyes
from tests.e2e.machine.run import Run
from tests.e2e.machine.scene import Scene
from tests.witness.audit import AuditLog


async def play(scene: Scene, sequence: Sequence, *, within_seconds: float = 60.0) -> None:
    """Fail where a sequence does not end as it must; the failure holds the sequence as Python."""
    scene.heal()
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        crowd, elsewhere, mirror = [await enter(_a_namespace(scene)) for _ in range(3)]
        audit = AuditLog(scene.cluster.audit_log)

        def run_in(one: Crowd) -> Run:
            eyes = Eyes(one, mirror.namespace, scene.nats.url, audit, scene.kinds.absent)
            return Run(scene, eyes, within_seconds=within_seconds)

        run, twin = run_in(crowd), run_in(elsewhere)
        at = "before it began"
        try:
            for number, action in enumerate(sequence, start=1):
                at = f"at action {number} of {len(sequence)}, {as_python([action])}"
                await run.do(action)
            at = "when it was tidied up"
            await run.tidy()
            at = "beside its twin"
            await _is_as_if_made_at_once(run, twin)
            handlers = [scene.processes[name] for name in HANDLERS]
            await crowd.never_two_at_once(handlers, scene.nats.url, scene.killed)
        except BaseException as exc:
            exc.add_note(f"{at}\nof this sequence, in {crowd.namespace}:\n{as_python(sequence)}")
            raise


async def _is_as_if_made_at_once(run: Run, twin: Run) -> None:
    """Going from the first spec to the last gives what the last one gives alone."""
    model = run.model
    names = [name for name, resource in model.resources.items() if not resource.is_frozen]
    for name in names:
        await twin.do(Apply(name, model.resources[name].asked))
    await twin.rest()
    one, other = model.settled, twin.model.settled
    found: list[str] = []
    for name in names:
        resource, again = model.resources[name], twin.model.resources[name]
        held = model.held(resource, one) | twin.model.held(again, other)
        owned, owned_again = one.owned_by(resource.uid), other.owned_by(again.uid)
        for ref in sorted({*owned, *owned_again} - held):
            if ref not in owned or ref not in owned_again:
                found.append(f"{ref} is there {'only' if ref in owned else 'not'}, unlike its twin")
                continue
            lines = twins(owned[ref], owned_again[ref], model.theirs)
            found += [f"{ref} and its twin: {line}" for line in lines]
        is_scaled = any(c["metadata"]["uid"] in model.theirs.replicas for c in owned.values())
        if not held and not is_scaled:
            statuses = (status_of(other.resources[name]), status_of(one.resources[name]))
            found += unlike(*statuses, f"{KIND.kind} {name} and its twin: status")
    assert not found, "\n".join(found)


@asynccontextmanager
async def _a_namespace(scene: Scene) -> AsyncIterator[Crowd]:
    """Give a new namespace; its deletion goes on afterwards."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    async with a_crowd(scene.cluster, name) as crowd:
        await crowd.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        yield crowd
        await crowd.request("DELETE", f"/api/v1/namespaces/{name}")
