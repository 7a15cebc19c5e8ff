"""Whether another operator still writes, over a table of what `managedFields` may say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bridge.settings import Settings
from crds.kubernetes import Manifest
from handlers.errors import OtherOperator
from handlers.lookout import (
    OTHER_OPERATORS,
    Lookout,
    OthersWrite,
    newest_write,
    other_operators,
    seconds_to_wait,
    was_served_by_another,
    without_others_status,
    words,
)

NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)
QUIET_SECONDS = 60.0


def ago(seconds: float) -> str:
    return (NOW - timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def an_entry(seconds: float, manager: str = "infera-operator", **more: Any) -> dict[str, Any]:
    return {"manager": manager, "operation": "Update", "time": ago(seconds), **more}


def an_object(*entries: Any, kind: str = "Deployment", name: str = "chat-worker") -> Manifest:
    return {"kind": kind, "metadata": {"name": name, "managedFields": list(entries)}}


def a_lookout(**settings: Any) -> Lookout:
    return Lookout(Settings(other_operator_seconds=QUIET_SECONDS, **settings), NOW)


NO_TIMES: tuple[Any, ...] = ("", "yesterday", "2026-11-30T12:00:00", None, 7, {})
RESOURCE = an_object(an_entry(500, "kubectl"), kind="InferaDeployment", name="chat")

SERVED = an_object(
    an_entry(400, "manager", subresource="status"), kind="InferaDeployment", name="chat"
)
"""A resource of which the operator's own image, whose program is called so, wrote the status."""


def made_by(manager: str, *, seconds: float = 20, uid: str = "chat-uid") -> Manifest:
    """Return a child whose controller reference is of that manager."""
    owners: Manifest = {"f:metadata": {"f:ownerReferences": {f'k:{{"uid":"{uid}"}}': {}}}}
    made = an_object(an_entry(seconds, manager, fieldsV1=owners))
    made["metadata"]["ownerReferences"] = [
        {"uid": "another"},
        {"uid": "chat-uid", "controller": True},
    ]
    return made


YOUNG: dict[str, tuple[list[Manifest | None], str, float]] = {
    "an update of a child": (
        [RESOURCE, None, an_object(an_entry(20))],
        "infera-operator wrote Deployment chat-worker at 2026-11-30T11:59:40Z",
        40,
    ),
    "an apply of a child": (
        [RESOURCE, an_object(an_entry(1, "cgn-operator", operation="Apply"))],
        "cgn-operator wrote Deployment chat-worker at 2026-11-30T11:59:59Z",
        59,
    ),
    "the status of the resource": (
        [
            an_object(an_entry(30, subresource="status"), kind="InferaDeployment", name="chat"),
            an_object(an_entry(31)),
        ],
        "infera-operator wrote the status of InferaDeployment chat at 2026-11-30T11:59:30Z",
        30,
    ),
    "the newest of several": (
        [RESOURCE, an_object(an_entry(90), an_entry(7, subresource="status"), an_entry(59))],
        "infera-operator wrote the status of Deployment chat-worker at 2026-11-30T11:59:53Z",
        53,
    ),
    "a write beside ours, which is newer": (
        [RESOURCE, an_object(an_entry(0, "weir", operation="Apply"), an_entry(59.5))],
        "infera-operator wrote Deployment chat-worker at 2026-11-30T11:59:00Z",
        0.5,
    ),
    "one in the future, by no longer than any": (
        [RESOURCE, an_object(an_entry(-3600))],
        "infera-operator wrote Deployment chat-worker at 2026-11-30T13:00:00Z",
        60,
    ),
    "what its image made": (
        [RESOURCE, made_by("manager")],
        "manager wrote Deployment chat-worker at 2026-11-30T11:59:40Z",
        40,
    ),
    "what its image wrote of a child of a resource that it served": (
        [SERVED, an_object(an_entry(50, "manager"))],
        "manager wrote Deployment chat-worker at 2026-11-30T11:59:10Z",
        10,
    ),
    "the status by its image": (
        [
            an_object(
                an_entry(30, "manager", subresource="status"), kind="InferaDeployment", name="chat"
            )
        ],
        "manager wrote the status of InferaDeployment chat at 2026-11-30T11:59:30Z",
        30,
    ),
    "a time of another zone": (
        [an_object(an_entry(0, time="2026-11-30T13:59:50+02:00"))],
        "infera-operator wrote Deployment chat-worker at 2026-11-30T11:59:50Z",
        50,
    ),
}

OLD: dict[str, list[Manifest | None]] = {
    "nothing that exists": [None],
    "no entry at all": [RESOURCE, {"kind": "Service", "metadata": {"name": "x"}}],
    "null in place of entries": [
        {"kind": "Service", "metadata": {"name": "x", "managedFields": None}}
    ],
    "what others wrote": [an_object(an_entry(0, "kubectl"), an_entry(0, "infera-operator-2"))],
    "what others wrote who are called as anybody may be": [
        RESOURCE,
        an_object(an_entry(0, "manager")),
        made_by("manager", uid="another"),
        made_by("manager-2"),
    ],
    "a resource that others of that name made": [
        made_by("manager", seconds=0),
        an_object(an_entry(0, "kubectl")),
    ],
    "a child's status by its controller, which is called so": [
        SERVED,
        an_object(an_entry(0, "manager", subresource="status")),
    ],
    "a write as old as is asked for": [RESOURCE, an_object(an_entry(60))],
    "an old write": [RESOURCE, an_object(an_entry(86_400, subresource="status"))],
    "no time, as of a write through `scale`": [
        an_object({"manager": "infera-operator", "operation": "Update", "subresource": "scale"})
    ],
    "no manager": [an_object({"operation": "Update", "time": ago(0)})],
    **{f"{time!r} for a time": [an_object(an_entry(0, time=time))] for time in NO_TIMES},
}


@pytest.mark.parametrize("name", YOUNG)
def test_a_young_write_of_another_operator_is_told_with_who_wrote_what_when(name: str) -> None:
    objects, told, wait = YOUNG[name]
    lookout = a_lookout()

    with pytest.raises(OtherOperator) as found:
        lookout.require_silence(*objects)

    assert str(found.value).startswith(told)
    assert "kubectl scale" in str(found.value)
    assert "60 s old" in str(found.value)
    assert found.value.after_seconds == wait
    assert found.value.manager in told


@pytest.mark.parametrize("name", OLD)
def test_what_is_no_young_write_of_another_operator_keeps_nobody_from_writing(name: str) -> None:
    lookout = a_lookout()

    lookout.require_silence(*OLD[name])

    assert (lookout.seen, lookout.why) == (None, "")


@pytest.mark.parametrize(
    ("live", "owner", "is_its"),
    [
        (made_by("manager"), RESOURCE, True),
        (made_by("weir"), SERVED, True),
        (made_by("weir"), RESOURCE, False),
        (made_by("manager", uid="another"), RESOURCE, False),
        (made_by("kubectl"), {"metadata": {"managedFields": None}}, False),
        ({"metadata": {"name": "x", "ownerReferences": None}}, RESOURCE, False),
    ],
)
def test_who_is_called_as_anybody_may_be_is_the_other_operator_where_it_did_its_work(
    live: Manifest, owner: Manifest, is_its: bool
) -> None:
    """Its image names no field manager, so that its program's name is taken: `manager`."""
    assert other_operators(live, owner) == (*OTHER_OPERATORS, *(["manager"] if is_its else []))


def test_it_is_looked_for_as_long_as_was_asked_and_with_zero_not_at_all() -> None:
    just_now = an_object(an_entry(0), an_entry(-3600))

    Lookout(Settings(other_operator_seconds=0), NOW).require_silence(just_now)
    Lookout(Settings(other_operator_seconds=5), NOW).require_silence(an_object(an_entry(5)))
    with pytest.raises(OtherOperator):
        Lookout(Settings(other_operator_seconds=5), NOW).require_silence(an_object(an_entry(4)))


def test_what_one_child_showed_stops_its_siblings() -> None:
    lookout = a_lookout()
    lookout.require_silence()
    with pytest.raises(OtherOperator) as first:
        lookout.require_silence(an_object(an_entry(20)))

    with pytest.raises(OtherOperator) as second:
        lookout.require_silence(RESOURCE)

    assert str(second.value) == str(first.value)


def test_in_a_dry_run_the_newest_write_is_noted_and_all_goes_on() -> None:
    lookout = a_lookout(dry_run=True)

    for objects in ([RESOURCE], [an_object(an_entry(9), name="b")], [an_object(an_entry(10))]):
        lookout.require_silence(*objects)

    assert lookout.seen is not None
    assert lookout.seen.object == "Deployment b"
    assert lookout.why == words(lookout.seen, QUIET_SECONDS)


def test_the_last_write_is_found_however_old_it_is() -> None:
    write = newest_write([RESOURCE, an_object(an_entry(3 * 86_400))])

    assert write == OthersWrite(
        manager="infera-operator",
        object="Deployment chat-worker",
        time=NOW - timedelta(days=3),
    )
    assert seconds_to_wait(write, NOW, QUIET_SECONDS) == 0


@pytest.mark.parametrize("manager", ["infera-operator", "cgn-operator", "manager"])
def test_who_served_a_resource_since_we_did_is_told_by_its_status(manager: str) -> None:
    persons, ours = an_entry(900, "kubectl"), an_entry(90, "weir", subresource="status")
    theirs = an_entry(900, manager, subresource="status")
    served = an_object(persons, theirs, ours, kind="InferaDeployment")
    assert was_served_by_another(served)
    assert without_others_status(served) == [persons, ours]
    # Not by what else it wrote, nor by the status of ours or of a person.
    for entries in ([persons, ours], [persons, an_entry(900)], []):
        resource = an_object(*entries, kind="InferaDeployment")
        assert not was_served_by_another(resource)
        assert without_others_status(resource) is None
