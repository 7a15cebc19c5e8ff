"""
What `metadata.managedFields` says of a rendering: is every path of it ours, and merging entries.

A `fieldsV1` set is a tree: `f:name` is a field, `k:{...}` an item of a keyed list, `v:...` a member
of a set, `.` the node itself; `{}` is a leaf, or an atomic map or list.
Source: structured-merge-diff v6, `fieldpath/serialize.go`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from crds.kubernetes import Manifest

FieldSet: TypeAlias = dict[str, Any]
Path: TypeAlias = tuple[str, ...]

MANAGER = "weir"
IDENTITY = frozenset({"apiVersion", "kind"})
"""Top-level fields that no manager owns."""
IDENTITY_METADATA = frozenset({"name", "namespace", "uid", "resourceVersion"})


def uncovered(
    manifest: Manifest, live: Manifest, manager: str = MANAGER, skip: Iterable[str] = ()
) -> list[Path]:
    """
    Return the paths of a rendering that the manager does not own in the live object.

    Values are not compared: a policy or a default that rewrites a value leaves its owner, an edit
    by a person takes the path away. `skip` names paths that are left out (dotted).
    """
    mine, others = _split(live, manager)
    wanted = {key: value for key, value in manifest.items() if key not in IDENTITY}
    metadata = {
        key: value
        for key, value in (manifest.get("metadata") or {}).items()
        if key not in IDENTITY_METADATA
    }
    wanted["metadata"] = metadata
    left_out = set(skip)
    found = _uncovered(wanted, live, mine, others, ())
    return [path for path in found if not _is_under(dotted(path), left_out)]


def missing(manifest: Manifest, live: Manifest) -> list[Path]:
    """
    Return the paths of a rendering that the server dropped when it was written just now.

    It drops what its schema does not know; an empty or zero value that it leaves out is no loss.
    """
    return [path for path in uncovered(manifest, live) if _value_at(live, path) is None]


def parse_path(text: str) -> Path:
    """Return the path that the server wrote as `.spec.containers[name="x"].foo`."""
    return tuple(re.findall(r"\[[^\]]*\]|[^.\[]+", text))


def dotted(path: Path) -> str:
    """Return a path as people read it: `spec.template.spec.containers[name=x].image`."""
    text = ""
    for part in path:
        text += part if part.startswith("[") else f".{part}"
    return text.removeprefix(".")


def entries_of(live: Manifest) -> list[dict[str, Any]]:
    """Return the entries of `metadata.managedFields`."""
    return list((live.get("metadata") or {}).get("managedFields") or ())


def merged(
    live: Manifest, predecessors: Iterable[str], manager: str = MANAGER
) -> list[dict[str, Any]] | None:
    """
    Return `managedFields` with what we and our predecessors own in one Apply entry of ours.

    None where that is so already. Entries of subresources and of other managers stay as they are.
    The server keeps only the last of two entries of one manager, operation and version, so the
    sets are merged, never renamed beside each other.
    """
    names = {manager, *predecessors}
    ours: list[dict[str, Any]] = []
    rest: list[dict[str, Any]] = []
    for entry in entries_of(live):
        is_ours = entry.get("manager") in names and not entry.get("subresource")
        (ours if is_ours else rest).append(entry)
    if not ours or (
        len(ours) == 1 and ours[0]["manager"] == manager and ours[0]["operation"] == "Apply"
    ):
        return None
    fields: FieldSet = {}
    for entry in ours:
        fields = union(fields, entry.get("fieldsV1") or {})
    newest = max(ours, key=lambda entry: entry.get("time") or "")
    return [*rest, {**newest, "manager": manager, "operation": "Apply", "fieldsV1": fields}]


def union(left: FieldSet, right: FieldSet) -> FieldSet:
    """
    Return the set of the paths in either.

    A `{}` is a member without children; beside children it becomes their `.`.
    """
    result: FieldSet = dict(left)
    for key, node in right.items():
        known = result.get(key)
        if known is None:
            result[key] = node
        elif known == {} and node == {}:
            continue
        elif known == {} or node == {}:
            result[key] = {".": {}, **(known or node)}
        else:
            result[key] = union(known, node)
    return result


def without(manifest: Manifest, path: Path) -> Manifest:
    """Return the manifest without the value at a path of plain keys and `[index]` parts."""
    if not path:
        return manifest
    result: Any = _without(manifest, path)
    return dict(result)


def _without(value: Any, path: Path) -> Any:
    head, rest = path[0], path[1:]
    if isinstance(value, dict) and head in value:
        if not rest:
            return {key: item for key, item in value.items() if key != head}
        return {**value, head: _without(value[head], rest)}
    if isinstance(value, list) and head.startswith("["):
        index = item_index(value, head)
        if index is not None and rest:
            return [*value[:index], _without(value[index], rest), *value[index + 1 :]]
    return value


def item_index(items: Sequence[Any], part: str) -> int | None:
    """Return where `[0]` or `[name="x"]` points in a list, None where nowhere."""
    inner = part[1:-1]
    if inner.isdigit():
        return int(inner) if int(inner) < len(items) else None
    wanted = dict(pair.split("=", 1) for pair in inner.split(",") if "=" in pair)
    for index, item in enumerate(items):
        if isinstance(item, dict) and all(
            key in item and str(item[key]) == value.strip('"') for key, value in wanted.items()
        ):
            return index
    return None


def _split(live: Manifest, manager: str) -> tuple[FieldSet, list[FieldSet]]:
    mine: FieldSet = {}
    others: list[FieldSet] = []
    for entry in entries_of(live):
        if entry.get("subresource"):
            continue
        fields = entry.get("fieldsV1") or {}
        if entry.get("manager") == manager:
            mine = union(mine, fields)
        else:
            others.append(fields)
    return mine, others


def _uncovered(
    value: Any, live: Any, mine: FieldSet | None, others: list[FieldSet], path: Path
) -> Iterator[Path]:
    if mine is None:
        # What Go leaves out of JSON when it is empty has no owner, and needs none.
        if value or live is not None:
            yield path
    elif isinstance(value, dict) and value:
        if not mine and path:
            yield from _atomic(value, live, others, path)
            return
        for key, item in value.items():
            deeper = [other[f"f:{key}"] for other in others if f"f:{key}" in other]
            held = live.get(key) if isinstance(live, dict) else None
            yield from _uncovered(item, held, mine.get(f"f:{key}"), deeper, (*path, key))
    elif isinstance(value, list) and value:
        if not mine:
            yield from _atomic(value, live, others, path)
            return
        for item in value:
            name, node = _item(item, mine)
            deeper = [other[name] for other in others if name in other]
            held = _held(item, live, name)
            yield from _uncovered(item, held, node, deeper, (*path, _part(name, item)))


def _atomic(value: Any, live: Any, others: list[FieldSet], path: Path) -> Iterator[Path]:
    """
    Judge a node that we own without children below it.

    It is an atomic map or list, and all of it is ours; or its children were taken from us one by
    one: then another manager owns some of them, or they are gone from the live object.
    """
    taken = any(key != "." for other in others for key in other)
    if isinstance(value, dict):
        gone = not isinstance(live, dict) or any(key not in live for key in value)
    else:
        gone = not isinstance(live, list) or not live
    if taken or gone:
        yield path


def _item(item: Any, node: FieldSet) -> tuple[str, FieldSet | None]:
    """Return the name and the subtree of a list's item in a set; the subtree None where absent."""
    for name, subtree in node.items():
        if name.startswith("k:") and isinstance(item, dict):
            keys: Mapping[str, Any] = msgspec.json.decode(name[2:])
            # A key that the item leaves out was defaulted by the server (protocol: TCP).
            if all(item.get(key, value) == value for key, value in keys.items()) and any(
                key in item for key in keys
            ):
                return name, subtree
        elif name.startswith("v:") and msgspec.json.decode(name[2:]) == item:
            return name, subtree
    return "", None


def _held(item: Any, live: Any, name: str) -> Any:
    if not isinstance(live, list) or not name.startswith("k:"):
        return item
    keys = msgspec.json.decode(name[2:])
    return next(
        (
            held
            for held in live
            if isinstance(held, dict) and all(held.get(key) == keys[key] for key in keys)
        ),
        None,
    )


def _part(name: str, item: Any) -> str:
    if name.startswith("k:"):
        keys = msgspec.json.decode(name[2:])
        return "[" + ",".join(f"{key}={value}" for key, value in keys.items()) + "]"
    if isinstance(item, dict) and "name" in item:
        return f"[name={item['name']}]"
    return "[]"


def _value_at(live: Any, path: Path) -> Any:
    for part in path:
        if isinstance(live, dict):
            live = live.get(part)
        elif isinstance(live, list) and part.startswith("["):
            index = item_index(live, part)
            live = None if index is None else live[index]
        else:
            return None
    return live


def _is_under(path: str, roots: set[str]) -> bool:
    return any(path == root or path.startswith((f"{root}.", f"{root}[")) for root in roots)
