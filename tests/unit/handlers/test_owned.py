"""Which part of an object somebody owns."""

from __future__ import annotations

from typing import Any

import pytest

from handlers.fields import FieldSet
from handlers.owned import less, owned_part, repeated

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
    "not what a list holds twice": (
        [*LISTED, {"name": "a", "value": "3"}],
        {A: {}, B: {"f:value": {}}},
        [],
        [LISTED[1]],
    ),
    "no list of which that leaves nothing": (
        {"env": [LISTED[0], LISTED[0]], "args": [], "image": "x"},
        {"f:env": {".": {}, A: {}}, "f:args": {}, "f:image": {}},
        [],
        {"args": [], "image": "x"},
    ),
}


@pytest.mark.parametrize(("value", "mine", "others", "part"), CASES.values(), ids=CASES)
def test_a_part_holds_what_is_in_the_set_and_no_more(
    value: Any, mine: FieldSet, others: list[FieldSet], part: Any
) -> None:
    assert owned_part(value, mine, others) == part


C = 'k:{"name":"c"}'
TWICE: dict[str, tuple[Any, FieldSet, FieldSet, FieldSet]] = {
    "nothing": (LISTED, {A: {}, B: {}}, {}, {A: {}, B: {}}),
    "an item": ([*LISTED, LISTED[0]], {".": {}, A: {}, B: {}}, {A: {}}, {".": {}, B: {}}),
    "an item of an item": (
        {"containers": [{"name": "c", "env": [*LISTED, LISTED[0]]}], "x": 1},
        {"f:containers": {C: {"f:env": {A: {}, B: {}}, "f:name": {}}}, "f:x": {}},
        {"f:containers": {C: {"f:env": {A: {}}}}},
        {"f:containers": {C: {"f:env": {B: {}}, "f:name": {}}}, "f:x": {}},
    ),
    "all items of a list, which goes with them": (
        {"env": [LISTED[0], LISTED[0]], "image": "x"},
        {"f:env": {".": {}, A: {}}, "f:image": {}},
        {"f:env": {A: {}}},
        {"f:image": {}},
    ),
    "an item that is not ours": ([*LISTED, LISTED[0]], {B: {}}, {}, {B: {}}),
    "no member of an atomic list": ({"args": [1, 1]}, {"f:args": {}}, {}, {"f:args": {}}),
}


@pytest.mark.parametrize(("value", "mine", "twice", "rest"), TWICE.values(), ids=TWICE)
def test_what_a_list_holds_twice_is_told_from_the_rest(
    value: Any, mine: FieldSet, twice: FieldSet, rest: FieldSet
) -> None:
    assert repeated(value, mine) == twice
    assert less(mine, twice) == rest
