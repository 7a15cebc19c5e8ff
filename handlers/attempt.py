"""
One delivery under its lease: state, reconcile, settle, tell.

A crash suspect (its last holder never let go) runs alone in its process, and is counted before it
begins: if the process dies, the count stands, and the third one convicts.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta

import msgspec
from msgspec import Struct
from opentelemetry.trace import SpanKind

from bridge.events import TIMER_SUBJECT, WORK_SUBJECT, EventType
from bridge.jetstream import REQUEST_SECONDS, Bus, BusError
from bridge.kube_errors import KubeError
from bridge.objects import read_object
from bridge.streams import QUEUE
from bridge.telemetry import METRICS, fail_span, logger, span
from handlers.breaker import Breaker
from handlers.children import World
from handlers.conditions import is_ready
from handlers.dead import bury, exhume
from handlers.dry_run import DryRun
from handlers.errors import DependencyDown, OtherOperator, ReconcileError, settled_as
from handlers.handler import AnyHandler
from handlers.history import FINISHED, STARTED, History, Record
from handlers.lease import Lease
from handlers.limit import ConcurrencyLimit
from handlers.locks import Turn
from handlers.other_operator import tell_other_operator
from handlers.quarantine import say_quarantined
from handlers.queue import Delivery
from handlers.reconcile import DUE, Subject, reconcile
from handlers.settle import (
    Circumstances,
    Result,
    Settlement,
    holds_back,
    settle_conviction,
    settle_error,
    settle_outcome,
)
from handlers.state import EMPTY, FailState, load_state, save_state, take_back_state
from handlers.suspects import acquit, crashes_to_convict, is_storm
from handlers.writes import Writer, Writes

UNSETTLED_RETRY_SECONDS = 1.0
"""A message whose settlement could not be stored comes again after so long."""
FENCED = (Result.UNCHANGED, Result.CHANGED, Result.GONE)
"""Results of a run that met every child: a write of the last holder can land nowhere any more."""
OUTLIVED = (Result.UNCHANGED, Result.CHANGED, Result.REFUSED)
"""Results that say something of the object: it was read, rendered, and killed nobody."""
QUIET = (Result.UNCHANGED, Result.GONE, Result.HELD, Result.PAUSED, Result.OTHER_OPERATOR)
"""Results that are a metric only, where no write was tried."""
SATISFIED = (Result.UNCHANGED, Result.CHANGED)
"""Results that leave nothing which time would bring to its end, where no timer is asked for."""
CHANGES = (Result.CHANGED, Result.WOULD_CHANGE)
"""Results that need nobody's attention."""

log = logger(__name__)


class Workplace(Struct, frozen=True, kw_only=True):
    """What all attempts of one worker share."""

    bus: Bus
    world: World
    history: History
    breakers: Mapping[str, Breaker]
    limit: ConcurrencyLimit
    is_cut: Callable[[], bool]
    """True once the process stops and waits no longer: no write begins any more."""


class Attempt:
    """One delivery in hand, its object leased."""

    def __init__(
        self,
        delivery: Delivery,
        lease: Lease,
        turn: Turn,
        handler: AnyHandler,
        workplace: Workplace,
    ) -> None:
        """Take what is to be handled, and where."""
        self._delivery = delivery
        self._key = delivery.key
        self._lease = lease
        self._turn = turn
        self._handler = handler
        self._at = workplace
        self._settings = workplace.world.settings
        self._state = EMPTY
        self._is_alone = False
        self._counted_at = 0
        """Sequence of the state that counts this run alone."""
        self._subject = Subject()
        self._record: Record = workplace.history.record(delivery.event, handler.renderer)
        writer = Writer(
            workplace.world.kube,
            lease,
            self._settings,
            on_first=self._tell_started,
            is_cut=workplace.is_cut,
        )
        self._dry_run = DryRun(writer) if self._settings.dry_run else None
        self._writer: Writes = self._dry_run or writer

    async def run(self) -> None:
        """Settle the delivery under its renewed lease; what cannot be stored is given back."""
        renewing = asyncio.create_task(self._lease.keep(self._settings.lease_renew_seconds))
        try:
            await self._run()
        except asyncio.CancelledError:
            await self._return_run()
            raise
        finally:
            renewing.cancel()

    async def _run(self) -> None:
        started = time.perf_counter()
        parent = self._delivery.event.traceparent
        with span("reconcile", kind=SpanKind.CONSUMER, parent=parent, key=self._key.token):
            settlement = await self._settled()
            seconds = time.perf_counter() - started
            METRICS.reconciled(self._key.kind, settlement.result, settlement.reason, seconds)
            self._lease.is_fenced |= settlement.result in FENCED
            try:
                if settlement.result is Result.QUARANTINED:
                    await self._tell_quarantined(settlement)
                if settlement.result is Result.LEASE_LOST:
                    await self._return_run()
                await self._carry_out(settlement)
                if self._counted_at and self._state.crashes and settlement.result in OUTLIVED:
                    await acquit(self._at.bus)
            except (BusError, KubeError) as exc:
                log.warning("delivery not settled", action="settle", error=str(exc))
                await self._delivery.give_back(UNSETTLED_RETRY_SECONDS)
                return
            await self._tell_finished(settlement, seconds)

    async def _settled(self) -> Settlement:
        """Return what becomes of the message, however its reconcile ends."""
        error: Exception
        try:
            self._state = await load_state(self._at.bus, self._key)
            if self._delivery.is_referred:
                # What it lacked may be there now, or in a moment: a CRD is served a little late.
                self._state = self._state.with_refused_due()
            settlement = await self._judged()
        except (KubeError, BusError, ReconcileError) as exc:
            error = exc
        except TimeoutError:
            error = TimeoutError(f"not done in {self._settings.reconcile_seconds_max:g} s")
        except Exception as exc:  # noqa: BLE001 - the one place: a bug harms its object only
            log.error("reconcile failed", action="reconcile", exception=exc)  # noqa: TRY400 - ours
            error = exc
        else:
            self._pace(is_slow=self._writer.was_slow, kept_up=settlement.result in OUTLIVED)
            return settlement
        fail_span(str(error))
        self._go_easy(error)
        return settle_error(error, self._circumstances(), self._settings)

    async def _judged(self) -> Settlement:
        """Return what becomes of the message after a run beside others, or alone."""
        if not (self._lease.predecessor_died or self._state.crashes > 0):
            return await self._reconciled()
        self._state = await self._present_state()
        if self._is_held():
            # Found out before everything else has to wait for it.
            return Settlement(result=Result.HELD, reason=self._state.error.partition(":")[0])
        if not self._state.crashes and await is_storm(self._at.bus):
            return await self._reconciled()
        await self._turn.alone()
        self._is_alone = True
        if await self._is_convicted():
            return settle_conviction(self._circumstances(), self._settings)
        run = self._state.crashes + 1
        counted = msgspec.structs.replace(self._state, crashes=run)
        self._counted_at = await save_state(self._at.bus, self._key, counted)
        log.warning("runs alone: its last handler died", action="suspect", run=run)
        return await self._reconciled()

    async def _is_convicted(self) -> bool:
        crashes = self._state.crashes
        if crashes < self._settings.convict_crashes:
            return False
        return crashes >= await crashes_to_convict(self._at.bus)

    async def _return_run(self) -> None:
        """A run alone that its process outlived is no crash, however it was cut."""
        if self._counted_at:
            await take_back_state(self._at.bus, self._key, self._state, self._counted_at)

    def _is_held(self) -> bool:
        if self._delivery.event.type in DUE:
            return False
        uid, generation = self._subject.uid, self._subject.generation
        return holds_back(self._state, uid, generation, time.time())

    async def _present_state(self) -> FailState:
        """Return the state of the object as it is now: afresh where it was edited or made anew."""
        kind = self._handler.contract.kind
        data = await self._at.world.kube.get(kind, self._key.namespace, self._key.name)
        if data is None:
            return EMPTY
        metadata = read_object(data).meta
        self._subject.uid = metadata.uid
        self._subject.generation = metadata.generation or 0
        if self._state.concerns(self._subject.uid, self._subject.generation):
            return self._state
        return FailState(uid=self._subject.uid, generation=self._subject.generation)

    async def _reconciled(self) -> Settlement:
        """Return what becomes of the message after a reconcile that came to its end."""
        async with asyncio.timeout(self._settings.reconcile_seconds_max):
            try:
                outcome = await reconcile(
                    self._delivery.event,
                    self._handler,
                    self._state,
                    self._writer,
                    self._at.world,
                    self._subject,
                )
            except OtherOperator as exc:
                await self._tell_other_operator(exc)
                raise
        return settle_outcome(outcome, self._circumstances(), self._settings)

    def _go_easy(self, error: Exception) -> None:
        """Ask nothing of a backend that is out, and less at once of one that is slow."""
        known = settled_as(error)
        if isinstance(known, DependencyDown):
            breaker = self._at.breakers.get(known.backend)
            if known.is_out and breaker is not None:
                breaker.trip(str(known))
            self._pace(is_slow=known.is_slow, kept_up=False)

    def _pace(self, *, is_slow: bool, kept_up: bool) -> None:
        limit = self._at.limit
        if is_slow and limit.too_slow(time.monotonic()):
            log.warning(
                "the API server is slow: fewer at once", action="limit", count=limit.allowed
            )
        elif kept_up and not is_slow:
            limit.kept_up()

    def _circumstances(self) -> Circumstances:
        return Circumstances(
            state=self._state,
            uid=self._subject.uid,
            generation=self._subject.generation,
            is_alone=self._is_alone,
            delivered=self._delivery.delivered,
            now=time.time(),
            jitter=random.uniform(0.8, 1.2),  # noqa: S311 - spreads load, guards nothing
        )

    async def _carry_out(self, settlement: Settlement) -> None:
        """State, dead letter and timer are stored before the message is answered."""
        if settlement.state is not None:
            await save_state(self._at.bus, self._key, settlement.state)
            # Its time of trouble may have been forgotten meanwhile, or begun anew with an edit.
            has_recovered = self._state != EMPTY and settlement.state == EMPTY
            if has_recovered or (
                self._state.is_quarantined and not settlement.state.is_quarantined
            ):
                await exhume(self._at.bus, self._key)
        if settlement.timer_seconds is not None:
            await self._arm(settlement.timer_seconds)
        elif settlement.result in SATISFIED and self._may_be_awaited():
            await self._disarm()
        if settlement.give_back_seconds is None:
            await self._delivery.acknowledge()
        else:
            await self._delivery.give_back(settlement.give_back_seconds)

    def _may_be_awaited(self) -> bool:
        """
        Return whether a look before this one may have armed a timer that nothing needs any more.

        A look that is owed after a death keeps its time. Under a lease that is about to end the
        timer may be the next holder's, and so it is let be.
        """
        is_timer = self._delivery.event.type is EventType.TIMER
        if is_timer or self._settings.dry_run or self._state.owes_look:
            return False
        before = (self._subject.resource or {}).get("status") or {}
        waits = bool(before.get("conditions")) and not is_ready(before)
        return (waits or self._state != EMPTY) and self._lease.seconds_left > REQUEST_SECONDS

    async def _disarm(self) -> None:
        """Take the timer back: it would only hold up what waits behind it."""
        try:
            await self._at.bus.purge(QUEUE, f"{TIMER_SUBJECT}.{self._key.token}")
        except BusError as exc:
            log.debug("timer not taken back", action="settle", error=str(exc))

    async def _arm(self, seconds: float) -> None:
        """Have the server put a message for the object into the queue, over an older timer."""
        due = datetime.now(UTC) + timedelta(seconds=seconds)
        headers = {
            "Nats-Schedule": f"@at {due.strftime('%Y-%m-%dT%H:%M:%S.%fZ')}",
            "Nats-Schedule-Target": f"{WORK_SUBJECT}.{self._key.token}.t",
            "ce-type": EventType.TIMER.value,
        }
        await self._at.bus.publish(f"{TIMER_SUBJECT}.{self._key.token}", headers=headers)

    async def _tell_started(self) -> None:
        self._record = msgspec.structs.replace(
            self._record, uid=self._subject.uid, generation=self._subject.generation
        )
        await self._at.history.tell(self._key, STARTED, self._record)

    async def _tell_quarantined(self, settlement: Settlement) -> None:
        """Say it in the dead letter, the metric, and in the resource's status and an Event."""
        state = settlement.state or EMPTY
        identity = self._at.history.identity
        if settlement.is_dead:
            METRICS.count("weir_dead_letters", kind=self._key.kind, reason=settlement.reason)
        await bury(self._at.bus, self._key, state, settlement.reason, identity)
        await say_quarantined(self._handler, self._key, state, self._writer, self._at.world)

    async def _tell_other_operator(self, found: OtherOperator) -> None:
        """Say it in an Event, the metric and the log: nothing else is written."""
        resource, identity = self._subject.resource, self._at.history.identity
        if resource is not None:
            await tell_other_operator(
                found, self._key, resource, self._writer, self._at.bus, identity
            )

    async def _tell_finished(self, settlement: Settlement, seconds: float) -> None:
        if settlement.result in QUIET and not self._writer.has_started:
            return
        finished = msgspec.structs.replace(
            self._record,
            result=settlement.result.value,
            reason=settlement.reason,
            error=settlement.error,
            writes=tuple(self._writer.written),
            seconds=round(seconds, 6),
            foretold=self._dry_run.noted() if self._dry_run else (),
        )
        await self._at.history.tell(self._key, FINISHED, finished)
        for noted in finished.foretold:
            METRICS.count("weir_dry_run_changes", kind=self._key.kind, verb=noted.verb)
            METRICS.count("weir_dry_run_pods", noted.pods, kind=self._key.kind)
        say = log.info if settlement.result in (*QUIET, *CHANGES) else log.warning
        say(
            "reconciled",
            action=settlement.result.value,
            reason=settlement.reason,
            writes=len(self._writer.written),
            seconds=round(seconds, 4),
            **({"error": settlement.error} if settlement.error else {}),
            **({"foretold": finished.foretold} if finished.foretold else {}),
        )
