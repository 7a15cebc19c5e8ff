from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.objects import _elements, _members, read_line, read_object, read_page
from crds.kubernetes import ObjectMeta
from tests.unit.bridge.objects import seen

DEEP = b"[" * 5_000 + b"]" * 5_000
ODD_META = [
    {"labels": {"a": 1}},
    {"labels": [], "annotations": "x"},
    {"generation": "three"},
    {"ownerReferences": {"not": "a list"}},
    {"ownerReferences": [{"name": 3}]},
    {"deletionTimestamp": 5},
    {"name": "x", "unheardOf": {"deep": [1, {"er": None}]}},
]


@pytest.mark.parametrize("odd", ODD_META)
def test_an_odd_field_costs_that_field_only(odd: dict[str, Any]) -> None:
    meta = {"name": "x", "uid": "u", "resourceVersion": "5", **odd}
    read = seen({"metadata": meta}).meta
    assert (read.name, read.uid, read.resource_version) == ("x", "u", "5")
    assert (read.labels, read.generation, read.owner_references) == (None, None, None)


@pytest.mark.parametrize("metadata", [None, [], "x", 3, {}])
def test_an_object_without_metadata_has_no_name(metadata: object) -> None:
    assert seen({"metadata": metadata}).meta == ObjectMeta()
    assert read_object(b"no json at all").meta == ObjectMeta()


def test_nulls_are_absent() -> None:
    fields = ("namespace", "generation", "labels", "annotations", "ownerReferences")
    read = seen({"metadata": {"name": "x", "uid": "u"} | dict.fromkeys(fields)})
    assert read.meta == ObjectMeta(name="x", uid="u")


def test_only_the_status_fields_that_were_asked_for_are_read() -> None:
    status = {"readyReplicas": 2, "conditions": [{"type": "A"}], "other": 1}
    read = seen({"metadata": {"name": "x"}, "status": status}, "readyReplicas", "absent")
    assert read.status == {"readyReplicas": b"2"}


@pytest.mark.parametrize("status", [None, "odd", [], 3, {}])
def test_an_odd_status_is_no_status(status: object) -> None:
    assert seen({"metadata": {"name": "x"}, "status": status}, "readyReplicas").status == {}


def deep_object(name: str) -> bytes:
    return (
        b'{"apiVersion":"v1","metadata":{"name":"%s","uid":"u","labels":{"l":"\\"}{"},'
        b'"managedFields":%s},"spec":%s,"status":{"conditions":%s,"readyReplicas":3}}'
        % (name.encode(), DEEP, DEEP, DEEP)
    )


def test_what_is_nested_too_deep_for_the_decoder_is_skimmed() -> None:
    line = read_line(b'{"type":"ADDED","object":' + deep_object("deep") + b"}\n")
    assert line is not None
    assert line.type == "ADDED"
    read = read_object(line.object, ("readyReplicas",))
    assert (read.meta.name, read.meta.uid, read.meta.labels) == ("deep", "u", {"l": '"}{'})
    assert read.status == {"readyReplicas": b"3"}


def test_one_deep_item_costs_a_page_nothing() -> None:
    plain = b'{"metadata":{"name":"plain","uid":"v"}}'
    body = b'{"metadata":{"resourceVersion":"9","continue":"c"},"items":[%s, %s]}'
    page = read_page(body % (deep_object("deep"), plain))
    assert page is not None
    assert (page.metadata.resource_version, page.metadata.continue_) == ("9", "c")
    assert [read_object(item).meta.name for item in page.items or ()] == ["deep", "plain"]


@pytest.mark.parametrize("raw", [b"", b"<html>", b"[]", b"{", b'{"type":3}', b'"x"'])
def test_what_is_no_line_and_no_page_is_none(raw: bytes) -> None:
    assert read_line(raw) is None
    assert read_page(raw) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@given(st.dictionaries(st.text(), JSON), st.sampled_from([None, 2]))
def test_the_skim_of_an_object_finds_what_a_decoder_finds(
    value: dict[str, object], indent: int | None
) -> None:
    raw = json.dumps(value, indent=indent).encode()
    assert {name: json.loads(member) for name, member in _members(raw)} == value


@given(st.lists(JSON), st.sampled_from([None, 2]))
def test_the_skim_of_an_array_finds_what_a_decoder_finds(
    value: list[object], indent: int | None
) -> None:
    raw = json.dumps(value, indent=indent, ensure_ascii=False).encode()
    assert [json.loads(element) for element in _elements(raw)] == value


@given(st.binary())
def test_no_bytes_make_the_skim_fail(raw: bytes) -> None:
    list(_members(raw))
    list(_elements(raw))
    read_object(raw, ("x",))
