"""Which part of an object somebody owns."""

from __future__ import annotations

from typing import Any

import pytest

from handlers.fields import FieldSet
from handlers.owned import owned_part

A, B = 'k:{"name":"a"}', 'k:{"name":"b"}'
LISTED = [{"name": "a", "value": "1"}, {"name": "b", "value": "2"}]

CASES: dict[str, tuple[Any, FieldSet, list[FieldSet], Any]] = {
    "fields": ({"a": 1, "b": 2}, {"f:a": {}}, [], {"a": 1}),
    "fields of fields": (
        {"a": {"x": 1, "y": 2}, "b": 3},
        {"f:a": {".": {}, "f:x": {}}},
        [],
        {"a": {"x": 1}},
    ),
    "what is gone": ({"a": 1}, {"f:a": {}, "f:b": {}}, [], {"a": 1}),
    "an atomic map": ({"a": {"x": 1}}, {"f:a": {}}, [], {"a": {"x": 1}}),
    "an atomic list": ({"a": [1, 2]}, {"f:a": {}}, [], {"a": [1, 2]}),
    "an empty map that others put something into": (
        {"a": {"x": 1, "y": 2}},
        {"f:a": {}},
        [{"f:a": {"f:x": {}}}],
        {"a": {"y": 2}},
    ),
    "what others own, too": ({"a": 1}, {"f:a": {}}, [{"f:a": {}}], {"a": 1}),
    "items by their keys, in their order": (
        [*LISTED, {"name": "c"}],
        {B: {".": {}, "f:value": {}, "f:name": {}}, A: {".": {}, "f:name": {}}},
        [],
        [{"name": "a"}, {"name": "b", "value": "2"}],
    ),
    "an item whose keys others own": (LISTED, {A: {"f:value": {}}}, [], [LISTED[0]]),
    "an item of a key that the server completed": (
        [{"containerPort": 80, "protocol": "TCP", "name": "x"}],
        {'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:containerPort": {}}},
        [],
        [{"containerPort": 80, "protocol": "TCP"}],
    ),
    "members of a set": (["x", "y"], {'v:"y"': {}}, [], ["y"]),
}


@pytest.mark.parametrize(("value", "mine", "others", "part"), CASES.values(), ids=CASES)
def test_a_part_holds_what_is_in_the_set_and_no_more(
    value: Any, mine: FieldSet, others: list[FieldSet], part: Any
) -> None:
    assert owned_part(value, mine, others) == part
