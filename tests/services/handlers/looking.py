"""One look at the resource of a desk: a whole reconcile, and what is remembered after it."""

from __future__ import annotations

from bridge.events import ChangeEvent, ChildHint, EventType, ObjectKey
from bridge.settings import Settings
from crds.inferadeployment import CONTRACT
from handlers.budget import unlimited
from handlers.children import World
from handlers.dry_run import DryRun
from handlers.handler import AnyHandler, Facts
from handlers.reconcile import Subject, reconcile
from handlers.settle import Circumstances, Outcome, settle_outcome
from handlers.state import FailState
from handlers.writes import Writes
from tests.services.handlers.conftest import OWNER, Desk


async def looked(
    desk: Desk,
    handler: AnyHandler,
    why: tuple[EventType, tuple[ChildHint, ...]],
    writer: Writes,
    state: FailState,
    settings: Settings,
) -> tuple[Outcome, FailState]:
    """Return how a reconcile ended, and what is remembered of it once it is settled."""
    type_, hints = why

    async def newest(_: str) -> int:
        return 0

    world = World(
        kube=desk.dry if isinstance(writer, DryRun) else desk.kube,
        settings=settings,
        facts=Facts(),
        identity="desk",
        newest_renderer=newest,
        may_roll_out=unlimited,
    )
    key = ObjectKey(CONTRACT.kind.queue_name, desk.namespace, OWNER)
    # A look at everything that a person asks for has no id, and asks for every child.
    id_ = "" if type_ is EventType.RESYNC else "id"
    event = ChangeEvent(key=key, type=type_, id=id_, children=hints)
    subject = Subject()
    outcome = await reconcile(event, handler, state, writer, world, subject)
    found = Circumstances(
        state=state,
        uid=subject.uid,
        generation=subject.generation,
        now=1_000_000.0,
        jitter=1.0,
    )
    settled = settle_outcome(outcome, found, settings).state
    return outcome, state if settled is None else settled
