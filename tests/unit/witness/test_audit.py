from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from tests.unit.witness.log_lines import line
from tests.witness.audit import AuditLog, Writer, parse


def test_only_stored_changes_of_the_asked_for_client_are_mutating(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    log.write_bytes(
        line(1, "create", "services", "a", by="weir-handlers/0.1.0 (h1)")
        + line(2, "get", "services", "a", by="weir-handlers/0.1.0 (h1)")
        + line(3, "patch", "services", "a", by="kubectl/v1.36")
        + line(4, "create", "selfsubjectaccessreviews", "", by="weir-bridge/0.1.0 (b1)")
        + line(5, "patch", "services", "a", by="weir-handlers/0.1.0 (h1)", query="dryRun=All")
        + line(6, "update", "services", "a", by="weir-handlers/0.1.0 (h1)", code=409)
        + line(7, "delete", "services", "a", by="weir-bridge/0.1.0 (b1)", stage="ResponseStarted")
    )

    found = AuditLog(log).mutating()

    assert [(event.verb, event.landed) for event in found] == [("create", True), ("update", False)]


def test_a_window_of_time_or_of_the_log_leaves_the_rest_out(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    log.write_bytes(line(1, "create", "services", "a") + line(2, "create", "services", "b"))
    audit = AuditLog(log)
    offset = audit.offset()
    with log.open("ab") as opened:
        opened.write(line(3, "create", "services", "c") + line(4, "create", "services", "d"))
    start = datetime(2026, 1, 1, tzinfo=UTC)

    names = [event.object_ref.name for event in audit.mutating(from_offset=offset)]
    window = audit.mutating(since=start + timedelta(seconds=2), until=start + timedelta(seconds=3))

    assert names == ["c", "d"]
    assert [event.object_ref.name for event in window] == ["b", "c"]


def test_a_rotated_log_reads_as_one(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    log.write_bytes(line(1, "create", "services", "a") + line(2, "create", "services", "b"))
    audit = AuditLog(log)
    middle = len(line(1, "create", "services", "a"))
    log.rename(tmp_path / "audit-2026-01-01T00-00-02.000.log")
    log.write_bytes(line(3, "create", "services", "c"))

    assert [event.object_ref.name for event in audit.events()] == ["a", "b", "c"]
    assert [event.object_ref.name for event in audit.events(from_offset=middle)] == ["b", "c"]
    assert audit.events(from_offset=audit.offset()) == []


def test_a_line_that_is_still_being_written_is_not_read_yet() -> None:
    whole = line(1, "create", "services", "a")

    assert parse([whole, whole[:-20]]) == parse([whole])
    assert parse([whole, whole[:-1]]) == parse([whole])


def test_what_a_killed_server_was_writing_hides_nothing_of_the_next_one() -> None:
    whole, next_one = line(1, "create", "services", "a"), line(2, "create", "services", "b")
    for end in (30, 60, len(whole) - 2):
        assert parse([whole, whole[:end] + next_one]) == parse([whole, next_one])
    with pytest.raises(msgspec.DecodeError):
        parse([whole[:30] + b"\n"])


def test_the_user_agent_names_the_process_of_ours_and_nobody_else() -> None:
    ours, theirs = parse(
        [
            line(1, "create", "services", "a", by="weir-handlers/0.1.0 (host-7-abc)"),
            line(2, "create", "services", "a", by="kubectl/v1.36.0 (linux/amd64) kubernetes/x"),
        ]
    )

    assert ours.writer == Writer("handlers", "0.1.0", "host-7-abc")
    assert theirs.writer is None
