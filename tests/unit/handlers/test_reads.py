"""Reads that begin before their resource is known: which, how often, and what is left of them."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from bridge.events import ChangeEvent, ChildHint, EventType, ObjectKey
from bridge.kube_errors import NotFound, NotServed, Unavailable
from crds.inferadeployment import CONTRACT
from crds.kind import Kind
from handlers.handler import ChildName
from handlers.reads import IN_PARALLEL, Reads

KEY = ObjectKey(CONTRACT.kind.queue_name, "team", "chat")
WORKER = ChildName("Deployment", "chat-worker")
SERVICE = ChildName("Service", "chat-server")


class FakeKube:
    """Answers with the name that was asked for, once it may."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.unserved: set[str] = set()

    async def read(self, kind: Kind, _namespace: str, name: str) -> bytes:
        """Answer, or fail where the name says so."""
        self.asked[f"{kind.kind}/{name}"] += 1
        await self.may_answer.wait()
        if name == "broken":
            raise Unavailable(0, "Timeout", "no answer")
        if name == "absent":
            raise NotFound(404, "NotFound", 'deployments.apps "absent" not found')
        if kind.kind in self.unserved:
            raise NotServed(404, "HTTP404", "404 page not found")
        return b'{"metadata":{"name":"%s"}}' % name.encode()


@pytest.fixture
def kube() -> FakeKube:
    return FakeKube()


@pytest.fixture
def reads(kube: FakeKube) -> Reads:
    return Reads(kube, CONTRACT, "team")  # type: ignore[arg-type]


def an_event(type_: EventType, *names: ChildName) -> ChangeEvent:
    hints = tuple(ChildHint(name.kind, name.name, "uid") for name in names)
    return ChangeEvent(key=KEY, type=type_, id="id", children=hints)


@pytest.mark.parametrize(
    ("type_", "begun"),
    [
        (EventType.CHANGED, {"Deployment/chat-worker", "Service/chat-server"}),
        (EventType.RESYNC, {"Deployment/chat-worker", "Service/chat-server"}),
        (EventType.OBSERVED, {"Deployment/chat-worker"}),
        (EventType.DELETED, set()),
    ],
)
async def test_what_is_begun_is_what_a_look_at_the_event_reads(
    kube: FakeKube, reads: Reads, type_: EventType, begun: set[str]
) -> None:
    reads.begin_for(an_event(type_, WORKER, SERVICE))
    await reads.drop()
    await asyncio.sleep(0)
    assert set(kube.asked) <= begun

    async with asyncio.TaskGroup() as group:
        reads.begin_for(an_event(type_, WORKER, SERVICE))
        group.create_task(asyncio.sleep(0.01))
    assert set(kube.asked) == begun


@pytest.mark.parametrize("name", [ChildName("Secret", "a"), ChildName("Service", "a/../b")])
async def test_a_hint_from_outside_leads_nowhere(
    kube: FakeKube, reads: Reads, name: ChildName
) -> None:
    reads.begin_for(an_event(EventType.CHANGED, name))
    await asyncio.sleep(0.01)
    assert not kube.asked


async def test_a_read_is_taken_once_and_the_next_is_another(kube: FakeKube, reads: Reads) -> None:
    reads.begin([WORKER])
    reads.begin([WORKER])
    assert await reads.take(WORKER) == {"metadata": {"name": "chat-worker"}}
    assert kube.asked == {"Deployment/chat-worker": 1}
    await reads.take(WORKER)
    assert kube.asked == {"Deployment/chat-worker": 2}


async def test_what_is_dropped_is_read_anew(kube: FakeKube, reads: Reads) -> None:
    reads.begin([WORKER])
    await asyncio.sleep(0)
    await reads.drop()
    await reads.take(WORKER)
    assert kube.asked == {"Deployment/chat-worker": 2}


async def test_what_waits_for_its_turn_is_not_asked_for_once_nobody_wants_it(
    kube: FakeKube, reads: Reads
) -> None:
    kube.may_answer.clear()
    async with reads:
        reads.begin(ChildName("Service", f"chat-{number}") for number in range(3 * IN_PARALLEL))
        await asyncio.sleep(0)
        kube.may_answer.set()
    assert sum(kube.asked.values()) == IN_PARALLEL


async def test_a_failure_is_of_whoever_takes_it_and_else_nobodys(reads: Reads) -> None:
    broken = ChildName("Service", "broken")
    async with reads:
        reads.begin([broken])
        with pytest.raises(Unavailable):
            await reads.take(broken)
        reads.begin([broken])


async def test_a_look_that_is_cut_waits_for_no_answer(kube: FakeKube, reads: Reads) -> None:
    kube.may_answer.clear()

    async def look() -> None:
        async with reads:
            reads.begin([WORKER, SERVICE])
            await asyncio.sleep(60)

    looking = asyncio.create_task(look())
    await asyncio.sleep(0.01)
    looking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(looking, 5)
    assert len(asyncio.all_tasks()) == 1


async def test_a_kind_that_is_not_served_is_known_until_it_answers(
    kube: FakeKube, reads: Reads
) -> None:
    group = ChildName("LeaderWorkerSet", "chat-worker")
    assert reads.is_served(group.kind)
    kube.unserved = {group.kind}
    assert await reads.take(group) is None
    assert await reads.take(ChildName("Deployment", "absent")) is None
    assert not reads.is_served(group.kind)
    assert reads.is_served("Deployment")
    kube.unserved = set()
    assert await reads.take(group) is not None
    assert reads.is_served(group.kind)
