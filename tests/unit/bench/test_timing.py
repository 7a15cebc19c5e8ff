from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.bench.timing import Births, Edits, FirstWrite, Looks, Tail, Tally, TooSlow, watch
from tests.unit.witness.log_lines import line
from tests.witness.audit import parse

WEIR = "weir-handlers"
USER = "bench-user"
RESOURCES = "inferadeployments"


def see(tally: Tally, *lines: bytes) -> None:
    for event in parse(lines):
        tally.see(event)


def test_births_last_from_the_first_creation_to_the_last_child_and_first_status() -> None:
    births = Births(WEIR, 2, 2)
    see(
        births,
        line(1, "create", RESOURCES, "a", by=USER),
        line(2, "create", RESOURCES, "b", by=USER),
        line(3, "create", "deployments", "a-server"),
        line(4, "update", RESOURCES, "a", subresource="status"),
        line(5, "create", "deployments", "b-server"),
    )
    assert not births.is_done

    see(
        births,
        line(6, "update", RESOURCES, "b", subresource="status", lasting=0.5),
        line(9, "update", RESOURCES, "b", subresource="status"),
    )

    assert births.is_done
    assert births.seconds() == pytest.approx(5.5)
    assert births.writes == 5


def test_births_do_not_count_refusals_dry_runs_and_the_writes_of_others() -> None:
    births = Births(WEIR, 1, 1)

    see(
        births,
        line(1, "create", RESOURCES, "a", by=USER, query="dryRun=All"),
        line(2, "create", "deployments", "a-server", code=409),
        line(3, "create", "deployments", "a-server", by="kubectl"),
        line(4, "patch", RESOURCES, "a", by="kubectl", subresource="status"),
    )

    assert births.so_far == "0 of 1 resources, 0 of 1 children, 0 of 1 statuses"


def test_an_edit_lasts_from_its_arrival_to_the_answer_to_the_apply_of_its_child() -> None:
    edits = Edits(WEIR, 1, "-server")

    see(
        edits,
        line(1, "patch", RESOURCES, "a", by=USER, lasting=0.01),
        line(1.02, "patch", "deployments", "a-server", lasting=0.005),
        line(1.03, "patch", "deployments", "a-server", query="force=true", lasting=0.01),
        line(1.05, "patch", "deployments", "a-worker", query="force=true"),
        line(2, "patch", "deployments", "a-server", query="force=true"),
    )

    assert edits.is_done
    assert edits.latencies_ms() == [pytest.approx(40)]
    assert edits.seconds() == pytest.approx(0.04)


def test_looks_are_counted_per_resource_and_end_with_the_last_that_is_waited_for() -> None:
    looks = Looks(WEIR, 2, 1)
    see(looks, line(1, "get", RESOURCES, "a"), line(2, "get", RESOURCES, "a"))
    assert not looks.is_done

    see(
        looks,
        line(3, "get", "deployments", "b-server"),
        line(4, "get", RESOURCES, "b"),
        line(5, "patch", "deployments", "b-server"),
        line(6, "get", RESOURCES, "b"),
    )

    assert looks.is_done
    assert looks.seconds(datetime(2026, 1, 1, tzinfo=UTC)) == pytest.approx(4)
    assert (looks.looks, looks.reads, len(looks.writes)) == (4, 5, 1)


def test_the_first_write_is_the_first_that_was_accepted() -> None:
    first = FirstWrite(WEIR)

    see(
        first,
        line(1, "get", RESOURCES, "a"),
        line(2, "create", "deployments", "a-server", code=429),
        line(3, "create", "deployments", "a-server", lasting=0.25),
        line(4, "create", "services", "a-server"),
    )

    assert first.is_done
    assert first.seconds(datetime(2026, 1, 1, 0, 0, 1, tzinfo=UTC)) == pytest.approx(2.25)


def test_a_tail_gives_every_line_once_and_a_torn_one_when_it_is_whole(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    whole, torn = line(1, "get", RESOURCES, "a"), line(2, "get", RESOURCES, "b")
    log.write_bytes(whole + torn[:20])
    tail = Tail(log)

    assert [event.object_ref.name for event in tail.read()] == ["a"]
    with log.open("ab") as opened:
        opened.write(torn[20:])
    assert [event.object_ref.name for event in tail.read()] == ["b"]
    assert tail.read() == []


async def test_what_does_not_come_in_time_fails_with_how_far_it_got(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    log.write_bytes(line(1, "create", RESOURCES, "a", by=USER))

    with pytest.raises(TooSlow, match=r"births: after 0 s: 1 of 2 resources, 0 of 2 children"):
        await watch(Tail(log), Births(WEIR, 2, 2), what="births", within_seconds=0.2)
