"""What `managedFields` says of a rendering."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crds.kubernetes import Manifest
from handlers import fields
from handlers.fields import (
    Dropped,
    FieldSet,
    Path,
    dotted,
    item_index,
    merged,
    missing,
    parse_path,
    uncovered,
    union,
    without,
)


def live_object(fields: FieldSet, *others: FieldSet, **content: Any) -> Manifest:
    """Return an object whose fields `weir` owns, and others' fields."""
    mine = {"manager": "weir", "operation": "Apply", "fieldsV1": fields}
    theirs = [
        {"manager": f"other-{number}", "operation": "Update", "fieldsV1": other}
        for number, other in enumerate(others)
    ]
    return {"metadata": {"managedFields": [mine, *theirs]}, **content}


def paths(manifest: Manifest, live: Manifest, skip: tuple[str, ...] = ()) -> list[str]:
    return [dotted(path) for path in uncovered(manifest, live, skip=skip)]


PORT = {"containerPort": 53, "protocol": "UDP"}
TCP = 'k:{"containerPort":53,"protocol":"TCP"}'
UDP = 'k:{"containerPort":53,"protocol":"UDP"}'

COVERAGE: dict[str, tuple[Any, Any, FieldSet, list[FieldSet], list[str]]] = {
    # title: rendered, held, owned by us, owned by others, not covered
    "a scalar that is ours": (1, 2, {"f:x": {}}, [], []),
    "a scalar that is another's": (1, 2, {}, [{"f:x": {}}], ["x"]),
    "a scalar that nobody owns": (1, 2, {}, [], ["x"]),
    "a scalar that both own": (1, 1, {"f:x": {}}, [{"f:x": {}}], []),
    "a zero that is not held": (0, None, {}, [], ["x"]),
    "a null": (None, 1, {}, [], []),
    "a key of a map": ({"a": 1, "b": 2}, {"a": 1, "b": 2}, {"f:x": {"f:a": {}}}, [], ["x.b"]),
    "a map beside another's key": (
        {"a": 1},
        {"a": 1, "b": 2},
        {"f:x": {"f:a": {}}},
        [{"f:x": {"f:b": {}}}],
        [],
    ),
    "an atomic map": ({"a": 1}, {"a": 1}, {"f:x": {}}, [], []),
    "an atomic map that both own": ({"a": 1}, {"a": 1}, {"f:x": {}}, [{"f:x": {}}], []),
    "a map whose children another took": (
        {"a": 1},
        {"a": 2},
        {"f:x": {}},
        [{"f:x": {"f:a": {}}}],
        ["x"],
    ),
    "a map whose child is gone": ({"a": 1}, {}, {"f:x": {}}, [], ["x.a"]),
    "a map that is gone": ({"a": 1}, None, {}, [], ["x"]),
    "a map that is gone, of which only what was never held is ours": (
        {"medium": ""},
        None,
        {"f:x": {"f:medium": {}}},
        [],
        ["x"],
    ),
    "an empty map that is ours": ({}, {}, {"f:x": {}}, [], []),
    "an empty map that is gone": ({}, None, {}, [], ["x"]),
    "an atomic list": ([1, 2], [1, 2], {"f:x": {}}, [], []),
    "an atomic list that is another's": ([1], [2], {}, [{"f:x": {}}], ["x"]),
    "an atomic list that is empty now": ([1], [], {"f:x": {}}, [], ["x"]),
    "a field of an atomic list's item": (
        [{"a": 1, "b": 1}],
        [{"a": 1}],
        {"f:x": {}},
        [],
        ["x[0].b"],
    ),
    "a member of a set": (["a", "b"], ["a", "b"], {"f:x": {'v:"a"': {}}}, [], ["x[]"]),
    "all members of a set": (
        ["a"],
        ["a", "b"],
        {"f:x": {'v:"a"': {}}},
        [{"f:x": {'v:"b"': {}}}],
        [],
    ),
    "an item of a keyed list": (
        [{"name": "a", "v": 1}],
        [{"name": "a", "v": 1}],
        {"f:x": {'k:{"name":"a"}': {".": {}, "f:name": {}, "f:v": {}}}},
        [],
        [],
    ),
    "a field of an item that another took": (
        [{"name": "a", "v": 1}],
        [{"name": "a", "v": 2}],
        {"f:x": {'k:{"name":"a"}': {".": {}, "f:name": {}}}},
        [{"f:x": {'k:{"name":"a"}': {"f:v": {}}}}],
        ['x[name="a"].v'],
    ),
    "an item that is not there": (
        [{"name": "a"}, {"name": "b"}],
        [{"name": "a"}],
        {"f:x": {'k:{"name":"a"}': {".": {}, "f:name": {}}}},
        [],
        ['x[name="b"]'],
    ),
    "a key that the server completed": (
        [{"containerPort": 53}],
        [{"containerPort": 53, "protocol": "TCP"}],
        {"f:x": {TCP: {".": {}, "f:containerPort": {}, "f:protocol": {}}}},
        [],
        [],
    ),
    "one port of two protocols": (
        [{"containerPort": 53}, PORT],
        [PORT],
        {"f:x": {UDP: {".": {}, "f:containerPort": {}, "f:protocol": {}}}},
        [],
        ["x[]"],
    ),
}


@pytest.mark.parametrize("case", COVERAGE.values(), ids=COVERAGE)
def test_a_rendering_is_covered_where_its_paths_are_ours(
    case: tuple[Any, Any, FieldSet, list[FieldSet], list[str]],
) -> None:
    rendered, held, mine, others, expected = case
    live = live_object(mine, *others, **({} if held is None else {"x": held}))
    assert paths({"x": rendered}, live) == expected


def test_what_identifies_an_object_is_owned_by_nobody() -> None:
    manifest = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "a", "namespace": "b", "uid": "c", "resourceVersion": "1"},
    }
    assert paths(manifest, live_object({})) == []
    manifest["metadata"]["labels"] = {"a": "b"}  # type: ignore[index]
    assert paths(manifest, live_object({"f:metadata": {".": {}}})) == ["metadata.labels"]


def test_entries_of_subresources_cover_nothing() -> None:
    live = live_object({})
    live["metadata"]["managedFields"].append(
        {"manager": "weir", "subresource": "status", "fieldsV1": {"f:x": {}}}
    )
    assert paths({"x": 1}, live) == ["x"]


def test_two_entries_of_ours_cover_together() -> None:
    live = live_object({"f:x": {}})
    live["metadata"]["managedFields"].append(
        {"manager": "weir", "operation": "Update", "fieldsV1": {"f:y": {}}}
    )
    assert paths({"x": 1, "y": 1}, live) == []


def test_a_dropped_path_is_well_until_somebody_sets_it() -> None:
    manifest = {"spec": {"hostNetwork": False, "image": "a"}}
    live = live_object({"f:spec": {"f:image": {}}}, spec={"image": "a"})
    assert paths(manifest, live) == ["spec.hostNetwork"]
    assert paths(manifest, live, skip=("spec.hostNetwork",)) == []
    assert paths(manifest, live, skip=("spec.host",)) == ["spec.hostNetwork"]

    edited = live_object(
        {"f:spec": {"f:image": {}}},
        {"f:spec": {"f:hostNetwork": {}}},
        spec={"image": "a", "hostNetwork": True},
    )
    assert paths(manifest, edited, skip=("spec.hostNetwork",)) == ["spec.hostNetwork"]


def test_missing_tells_what_is_empty_from_what_is_not_known() -> None:
    manifest = {"spec": {"a": {"b": [], "c": ""}, "d": {"e": 1}, "f": 1}}
    live = live_object({"f:spec": {"f:f": {}}}, spec={"f": 1})
    assert missing(manifest, live) == [
        Dropped(("spec", "a"), is_empty=True),
        Dropped(("spec", "d"), is_empty=False),
    ]


@pytest.mark.parametrize("case", COVERAGE.values(), ids=COVERAGE)
def test_the_short_way_to_what_is_missing_says_what_the_long_one_does(
    case: tuple[Any, Any, FieldSet, list[FieldSet], list[str]],
) -> None:
    rendered, held, mine, others, _ = case
    live = live_object(mine, *others, **({} if held is None else {"x": held}))
    gaps = fields._uncovered({"x": rendered}, live, *fields._split(live, "weir"), ())
    long_way = [Dropped(gap.path, fields.is_empty(gap.value)) for gap in gaps if gap.is_absent]
    assert missing({"x": rendered}, live) == long_way


def test_missing_does_not_name_what_another_holds() -> None:
    live = live_object({"f:spec": {}}, {"f:spec": {"f:replicas": {}}}, spec={"replicas": 3})
    assert missing({"spec": {"replicas": 1}}, live) == []


# ---------------------------------------------------------------------------------- paths


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (".spec.x", ("spec", "x")),
        ('.spec.containers[name="a"].foo', ("spec", "containers", '[name="a"]', "foo")),
        ('.x[containerPort=80,protocol="TCP"].y', ("x", '[containerPort=80,protocol="TCP"]', "y")),
        (".tolerations[0].foo", ("tolerations", "[0]", "foo")),
        ('.mounts[mountPath="/a.b],c=\\"d"].x', ("mounts", '[mountPath="/a.b],c=\\"d"]', "x")),
    ],
)
def test_a_path_is_read_as_the_server_writes_it(text: str, path: Path) -> None:
    assert parse_path(text) == path
    assert dotted(path) == text.removeprefix(".")


@pytest.mark.parametrize(
    ("part", "index"),
    [
        ("[1]", 1),
        ("[9]", None),
        ('[name="b"]', 1),
        ('[name="z"]', None),
        ('[port=80,protocol="TCP"]', 2),
        ('[port=80,protocol="UDP"]', None),
        ('[path="/a,b=\\"]"]', 3),
        ("[]", None),
    ],
)
def test_an_item_is_found_by_its_key(part: str, index: int | None) -> None:
    items = [{"name": "a"}, {"name": "b"}, {"port": 80}, {"path": '/a,b="]'}]
    assert item_index(items, part) == index


def test_without_takes_out_one_value_and_nothing_else() -> None:
    manifest = {"spec": {"items": [{"name": "a", "x": 1, "y": 2}, {"name": "b", "x": 3}], "z": 4}}
    left = without(manifest, ("spec", "items", '[name="a"]', "x"))
    assert left == {"spec": {"items": [{"name": "a", "y": 2}, {"name": "b", "x": 3}], "z": 4}}
    assert manifest["spec"]["items"][0] == {"name": "a", "x": 1, "y": 2}  # type: ignore[index]


@pytest.mark.parametrize("path", [(), ("a",), ("spec", "a"), ("spec", "items", "[7]", "x")])
def test_without_a_path_that_is_not_there_changes_nothing(path: Path) -> None:
    manifest = {"spec": {"items": [{"x": 1}]}}
    assert without(manifest, path) == manifest


# ---------------------------------------------------------------------------------- sets

NAMES = st.sampled_from(["f:a", "f:b", 'k:{"name":"x"}', 'v:"y"'])
SETS: st.SearchStrategy[FieldSet] = st.recursive(
    st.just({}),
    lambda inner: st.dictionaries(NAMES, inner, max_size=3).flatmap(
        lambda node: st.booleans().map(lambda dot: {".": {}, **node} if dot and node else node)
    ),
    max_leaves=8,
)


def members(fields: FieldSet, at: Path = ()) -> set[Path]:
    """Return the paths that a set holds, as structured-merge-diff reads it."""
    found: set[Path] = set()
    for key, node in fields.items():
        if key == ".":
            found.add(at)
        elif node == {}:
            found.add((*at, key))
        else:
            found |= members(node, (*at, key))
    return found


@given(SETS, SETS)
def test_a_union_holds_the_members_of_both(left: FieldSet, right: FieldSet) -> None:
    assert members(union(left, right)) == members(left) | members(right)


@given(SETS, SETS, SETS)
def test_unions_may_be_formed_in_any_order(a: FieldSet, b: FieldSet, c: FieldSet) -> None:
    assert union(a, b) == union(b, a)
    assert union(a, union(b, c)) == union(union(a, b), c)
    assert union(a, a) == a


@given(SETS, SETS)
def test_a_union_leaves_its_parts_as_they_were(left: FieldSet, right: FieldSet) -> None:
    before = members(left), members(right)
    union(left, right)
    assert (members(left), members(right)) == before


# ---------------------------------------------------------------------------------- entries


def entry(manager: str, operation: str = "Update", **rest: Any) -> dict[str, Any]:
    return {"manager": manager, "operation": operation, "apiVersion": "apps/v1", **rest}


def with_entries(*entries: dict[str, Any]) -> Manifest:
    return {"metadata": {"managedFields": list(entries)}}


def test_the_entry_of_a_create_becomes_an_entry_of_an_apply() -> None:
    live = with_entries(entry("weir", time="1", fieldsV1={"f:x": {}}))
    assert merged(live, ()) == [entry("weir", "Apply", time="1", fieldsV1={"f:x": {}})]


def test_a_predecessors_fields_become_ours() -> None:
    live = with_entries(
        entry("infera-operator", time="2", fieldsV1={"f:x": {"f:a": {}}}),
        entry("weir", "Apply", time="1", fieldsV1={"f:x": {"f:b": {}}}),
    )
    assert merged(live, ("infera-operator",)) == [
        entry("weir", "Apply", time="2", fieldsV1={"f:x": {"f:a": {}, "f:b": {}}})
    ]


def test_others_and_subresources_keep_their_entries() -> None:
    kept = [
        entry("kubectl-edit", fieldsV1={"f:x": {}}),
        entry("infera-operator", subresource="status", fieldsV1={"f:status": {}}),
        entry("weir", subresource="status", fieldsV1={"f:status": {}}),
        entry("hpa", subresource="scale", fieldsV1={"f:spec": {"f:replicas": {}}}),
    ]
    live = with_entries(*kept, entry("weir", fieldsV1={"f:y": {}}))
    found = merged(live, ("infera-operator",))
    assert found is not None
    assert found[:-1] == kept


@pytest.mark.parametrize(
    "entries",
    [
        [],
        [entry("weir", "Apply", fieldsV1={"f:x": {}})],
        [entry("kubectl-edit", fieldsV1={"f:x": {}})],
        [entry("weir", subresource="status", fieldsV1={"f:status": {}})],
    ],
    ids=["nothing", "one apply of ours", "only another's", "only a subresource"],
)
def test_nothing_is_merged_where_nothing_could_be_lost(entries: list[dict[str, Any]]) -> None:
    assert merged(with_entries(*entries), ("infera-operator",)) is None
