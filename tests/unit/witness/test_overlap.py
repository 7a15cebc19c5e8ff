"""The checker must find what it is there to find, and accuse nobody else."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from tests.unit.witness.log_lines import child_write, line, status_write
from tests.witness.audit import AuditEvent, parse
from tests.witness.history import Moment, ends, moment, spans_of_history
from tests.witness.overlap import Overlap, Owner, Ownership, overlaps, spans_of_writes

_START = datetime(2026, 1, 1, tzinfo=UTC)


def _found(*events: AuditEvent, **more: object) -> list[Overlap]:
    return overlaps(spans_of_writes(events, Ownership(), **more))  # type: ignore[arg-type]


def _at(seconds: float) -> datetime:
    return _START + timedelta(seconds=seconds)


def test_reconciles_one_after_the_other_do_not_overlap() -> None:
    assert not _found(
        child_write(1, "h1", "d", "d-a"),
        child_write(2, "h1", "d", "d-b"),
        status_write(3, "h1", "d"),
        child_write(4, "h2", "d", "d-a"),
        status_write(5, "h2", "d"),
        child_write(6, "h1", "d", "d-a"),
        status_write(7, "h1", "d"),
    )


def test_a_write_between_two_of_another_reconcile_is_found_and_told() -> None:
    (overlap,) = _found(
        child_write(1, "h1", "d", "d-a"),
        child_write(2, "h2", "d", "d-a"),
        child_write(3, "h1", "d", "d-b"),
        status_write(4, "h1", "d"),
    )

    assert {overlap.first.writer, overlap.second.writer} == {"h1", "h2"}
    assert "ns/d was reconciled twice at once" in str(overlap)
    assert "patch services/ns/d-b -> 200 by weir-handlers/0.1.0 (h1)" in str(overlap)


def test_a_zombie_that_writes_after_its_successor_finished_is_found() -> None:
    assert _found(
        child_write(1, "h1", "d", "d-a"),
        child_write(5, "h2", "d", "d-a"),
        status_write(6, "h2", "d"),
        child_write(9, "h1", "d", "d-b"),
    )


def test_a_successor_that_finishes_what_a_dead_handler_began_does_not_overlap() -> None:
    assert not _found(
        child_write(1, "h1", "d", "d-a"),
        child_write(13, "h2", "d", "d-b"),
        status_write(14, "h2", "d"),
    )


def test_two_writes_in_flight_at_once_overlap_even_if_each_is_alone() -> None:
    assert _found(
        child_write(1, "h1", "d", "d-a", lasting=2),
        child_write(2, "h2", "d", "d-a"),
    )


def test_different_resources_may_be_reconciled_at_once() -> None:
    assert not _found(
        child_write(1, "h1", "d", "d-a"),
        child_write(2, "h2", "e", "e-a"),
        status_write(3, "h1", "d"),
        status_write(4, "h2", "e"),
    )


def test_a_status_write_that_was_refused_does_not_end_a_reconcile() -> None:
    assert _found(
        status_write(1, "h1", "d", code=409),
        status_write(2, "h2", "d"),
        status_write(3, "h1", "d"),
    )


def test_a_delete_serves_the_owner_that_an_earlier_body_named() -> None:
    delete = parse(
        [line(3, "delete", "services", "d-a", by="weir-handlers/0.1.0 (h2)")],
    )[0]

    assert _found(child_write(1, "h1", "d", "d-a"), delete, status_write(4, "h1", "d"))


def test_a_child_of_unknown_owner_is_not_passed_over() -> None:
    delete = parse([line(3, "delete", "services", "d-x")])[0]

    with pytest.raises(LookupError, match="d-x"):
        _found(delete)
    told = Ownership({"services/ns/d-x": Owner("ns", "d")})
    assert spans_of_writes([delete], told)[0].owner == "ns/d"


def test_an_end_known_from_history_parts_reconciles_that_wrote_no_status() -> None:
    events = (
        child_write(1, "h1", "d", "d-a"),
        child_write(2, "h2", "d", "d-a"),
        child_write(3, "h1", "d", "d-b"),
    )

    assert _found(*events)
    assert not _found(*events, finished={("ns/d", "h1"): [_at(1.5)]})
    assert _found(*events, finished={("ns/d", "h1"): [_at(3.5)]})
    assert _found(*events, finished={("ns/e", "h1"): [_at(1.5)]})


def test_a_process_that_takes_a_killed_one_s_name_over_is_another_writer() -> None:
    events = (
        child_write(1, "h1", "d", "d-a"),
        child_write(2, "h2", "d", "d-a"),
        status_write(3, "h2", "d"),
        child_write(4, "h1", "d", "d-a"),
    )

    assert _found(*events)
    assert not _found(*events, killed={"h1": [_at(1.5)]})
    assert _found(*events, killed={"h1": [_at(0.5)]})


def _reconcile(attempt: str, handler: str, start: float, end: float | None) -> list[Moment]:
    def moment(what: str, at: float) -> Moment:
        return Moment(
            what="started" if what == "started" else "finished",
            attempt=attempt,
            owner="ns/d",
            handler=handler,
            time=_at(at),
        )

    return [moment("started", start), *([] if end is None else [moment("finished", end)])]


def test_history_shows_a_start_before_another_reconcile_finished() -> None:
    apart = _reconcile("1", "h1", 1, 2) + _reconcile("2", "h2", 3, 4)
    nested = _reconcile("1", "h1", 1, 4) + _reconcile("2", "h2", 2, 3)
    same_handler = _reconcile("1", "h1", 1, 3) + _reconcile("2", "h1", 2, 4)

    assert not overlaps(spans_of_history(apart))
    assert overlaps(spans_of_history(nested))
    assert overlaps(spans_of_history(same_handler))


def test_history_without_an_end_is_of_a_handler_that_died() -> None:
    died = _reconcile("1", "h1", 1, None) + _reconcile("2", "h2", 2, 4)
    inside = _reconcile("1", "h1", 3, None) + _reconcile("2", "h2", 2, 4)

    assert not overlaps(spans_of_history(died))
    assert overlaps(spans_of_history(inside))


def test_history_gives_the_ends_that_the_audit_log_lacks() -> None:
    assert ends(_reconcile("1", "h1", 1, 2) + _reconcile("2", "h2", 3, None)) == {
        ("ns/d", "h1"): [_at(2)]
    }


def test_a_message_of_the_history_tells_a_moment_of_a_reconcile() -> None:
    told = moment(
        {"ce-type": "dev.weir.reconcile.finished", "ce-time": "2026-01-01T00:00:01.5Z"},
        b'{"kind":"inferadeployment","namespace":"ns","name":"d","attempt":"a1","handler":"h1",'
        b'"result":"changed","writes":["create Service/d-a"],"seconds":0.1}',
    )

    assert told == Moment(
        what="finished",
        attempt="a1",
        owner="ns/d",
        handler="h1",
        time=_at(1.5),
        result="changed",
        writes=("create Service/d-a",),
    )
    with pytest.raises(msgspec.ValidationError):
        moment({"ce-type": "dev.weir.changed", "ce-time": "2026-01-01T00:00:01Z"}, b"{}")
