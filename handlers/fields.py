"""
What `metadata.managedFields` says of a rendering: is every path of it ours, and merging entries.

A `fieldsV1` set is a tree: `f:name` is a field, `k:{...}` an item of a keyed list, `v:...` a member
of a set, `.` the node itself; `{}` is a leaf, or an atomic map or list.
Source: structured-merge-diff v6, `fieldpath/serialize.go`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import msgspec

from crds.kubernetes import Manifest

FieldSet: TypeAlias = dict[str, Any]
Path: TypeAlias = tuple[str, ...]

MANAGER = "weir"
PERSON = "kubectl"
"""How the managers of kubectl's subcommands begin: kubectl-edit, kubectl-patch, ..."""
IDENTITY = frozenset({"apiVersion", "kind"})
"""Top-level fields that no manager owns."""
IDENTITY_METADATA = frozenset({"name", "namespace", "uid", "resourceVersion"})
KEY_DEFAULTS: Mapping[str, Any] = {"protocol": "TCP"}
"""What the server sets where an item of a keyed list leaves out a part of its key."""
DECODED_MAX = 4096
"""Keys of list items that are remembered decoded: they are the same few in all objects."""
_NOT_DECLARED = re.compile(r"(\.\S+): field not declared in schema")
"""Words of a typed-patch error (source: structured-merge-diff, `typed/validate.go`)."""
_PART = re.compile(r'\[(?:"(?:[^"\\]|\\.)*"|[^\]"])*\]|[^.\[]+')
_KEY = re.compile(r'([^=,\[\]]+)=("(?:[^"\\]|\\.)*"|[^,\]]*)')


class Dropped(NamedTuple):
    """A path of a rendering that the server does not hold although it took the rendering."""

    path: Path
    is_empty: bool
    """An empty or zero value, which Go leaves out of JSON; else the schema does not know it."""


def uncovered(
    manifest: Manifest, live: Manifest, manager: str = MANAGER, skip: Iterable[str] = ()
) -> list[Path]:
    """
    Return the paths of a rendering that the manager does not own in the live object.

    Values are not compared: a policy or a default that rewrites a value leaves its owner, an edit
    by a person takes the path away. `skip` names paths (dotted) that the server dropped when the
    rendering was written: they are well as long as nobody sets them.
    """
    mine, others = _split(live, manager)
    left_out = set(skip)
    return [
        gap.path
        for gap in _uncovered(_owned(manifest), live, mine, others, ())
        if not (gap.is_absent and _is_under(dotted(gap.path), left_out))
    ]


def missing(manifest: Manifest, live: Manifest) -> list[Dropped]:
    """Return what the server dropped of a rendering that was written just now."""
    owned = _owned(manifest)
    if _has_every_path(owned, live):
        # Nearly always so; only where something is missing managedFields are asked why.
        return []
    mine, others = _split(live, MANAGER)
    return [
        Dropped(gap.path, is_empty(gap.value))
        for gap in _uncovered(owned, live, mine, others, ())
        if gap.is_absent
    ]


def _has_every_path(value: Any, live: Any) -> bool:
    """Return whether a live value has something at every path of another."""
    if isinstance(value, dict):
        return isinstance(live, dict) and all(
            item is None or (live.get(key) is not None and _has_every_path(item, live[key]))
            for key, item in value.items()
        )
    if isinstance(value, list):
        return (
            isinstance(live, list)
            and len(value) == len(live)
            and all(
                _has_every_path(item, held) and _name(item) == _name(held)
                for item, held in zip(value, live, strict=True)
            )
        )
    return True


def _name(item: Any) -> Any:
    return item.get("name") if isinstance(item, dict) else None


def is_empty(value: Any) -> bool:
    """Return whether nothing but empty and zero values is in a value."""
    if isinstance(value, dict):
        return all(map(is_empty, value.values()))
    if isinstance(value, list):
        return all(map(is_empty, value))
    return not value


def parse_path(text: str) -> Path:
    """Return the path that the server wrote as `.spec.containers[name="x"].foo`."""
    return tuple(_PART.findall(text))


def not_declared(message: str) -> list[Dropped]:
    """Return the paths that a typed-patch error says the server's schema does not hold."""
    return [Dropped(parse_path(path), is_empty=False) for path in _NOT_DECLARED.findall(message)]


def dotted(path: Path) -> str:
    """Return a path as the server writes it: `spec.template.spec.containers[name="x"].image`."""
    text = ""
    for part in path:
        text += part if part.startswith("[") else f".{part}"
    return text.removeprefix(".")


def entries_of(live: Manifest) -> list[dict[str, Any]]:
    """Return the entries of `metadata.managedFields`."""
    return list((live.get("metadata") or {}).get("managedFields") or ())


def merged(
    live: Manifest, others: Iterable[str], manager: str = MANAGER
) -> list[dict[str, Any]] | None:
    """
    Return `managedFields` with what we and other operators own in one Apply entry of ours.

    None where that is so already. Entries of subresources and of other managers stay as they are.
    The server keeps only the last of two entries of one manager, operation and version, so the
    sets are merged, never renamed beside each other.
    """
    names = {manager, *others}
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


def taken_back(live: Manifest, manager: str = MANAGER) -> list[dict[str, Any]] | None:
    """
    Return `managedFields` with what people own of the spec (through kubectl) in an entry of ours.

    It is our only one then, an Apply entry, with what we own already.

    None where they own nothing there. What an edit added beside our fields then goes with the next
    apply, where together they would be invalid: a `value` beside our `valueFrom`.
    """
    taken: FieldSet = {}
    kept: list[dict[str, Any]] = []
    ours: dict[str, Any] | None = None
    for entry in merged(live, (), manager) or entries_of(live):
        fields = entry.get("fieldsV1") or {}
        is_persons = str(entry.get("manager")).startswith(PERSON) and not entry.get("subresource")
        if entry.get("manager") == manager and entry.get("operation") == "Apply":
            ours = entry
        elif is_persons and "f:spec" in fields:
            taken = union(taken, {"f:spec": fields["f:spec"]})
            rest = {key: node for key, node in fields.items() if key != "f:spec"}
            kept += [{**entry, "fieldsV1": rest}] if rest else []
        else:
            kept.append(entry)
    if ours is None or not taken:
        return None
    return [*kept, {**ours, "fieldsV1": union(ours.get("fieldsV1") or {}, taken)}]


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
    keys = {key: msgspec.json.decode(value) for key, value in _KEY.findall(inner)}
    for index, item in enumerate(items):
        if keys and isinstance(item, dict) and has_keys(item, keys):
            return index
    return None


def _owned(manifest: Manifest) -> Manifest:
    """Return the part of a rendering that managers own."""
    owned = {key: value for key, value in manifest.items() if key not in (*IDENTITY, "metadata")}
    metadata = {
        key: value
        for key, value in (manifest.get("metadata") or {}).items()
        if key not in IDENTITY_METADATA
    }
    return {**owned, "metadata": metadata} if metadata else owned


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


class _Gap(NamedTuple):
    """A path that is not ours."""

    path: Path
    value: Any
    is_absent: bool
    """It is nobody's: the live object does not have it."""


def _uncovered(
    value: Any, live: Any, mine: FieldSet | None, others: list[FieldSet], path: Path
) -> Iterator[_Gap]:
    if value is None:
        return  # a null asks for nothing
    is_whole = isinstance(value, dict | list) and bool(value)
    if mine is None or (is_whole and live is None and path):
        # We may own paths below what is gone: those of empty values, which were never held, so
        # that their removal took nothing from us.
        yield _Gap(path, value, live is None)
    elif isinstance(value, dict) and value:
        if not mine and path:
            yield from _whole_map(value, live, others, path)
            return
        for key, item in value.items():
            deeper = [other[f"f:{key}"] for other in others if f"f:{key}" in other]
            held = live.get(key) if isinstance(live, dict) else None
            yield from _uncovered(item, held, mine.get(f"f:{key}"), deeper, (*path, key))
    elif isinstance(value, list) and value:
        if not mine:
            if _is_taken(others) or not isinstance(live, list) or not live:
                yield _Gap(path, value, live is None)
            else:
                yield from _absent(value, live, path)
            return
        for item in value:
            name, node = item_of(item, mine)
            deeper = [other[name] for other in others if name in other]
            held = _held(item, live, name)
            yield from _uncovered(item, held, node, deeper, (*path, _part(name, item)))


def _whole_map(value: Manifest, live: Any, others: list[FieldSet], path: Path) -> Iterator[_Gap]:
    """
    Judge a map that we own without children below it.

    It is atomic, and all of it is ours; or its children were taken from us one by one: then another
    manager owns some of them, or they are gone from the live object; or they are empty, and the
    server never held them.
    """
    if _is_taken(others) or not isinstance(live, dict):
        yield _Gap(path, value, live is None)
        return
    yield from _absent(value, live, path)


def _absent(value: Any, live: Any, path: Path) -> Iterator[_Gap]:
    """Yield what a value asks for and the live one, which is ours as a whole, does not hold."""
    if isinstance(value, dict) and isinstance(live, dict):
        for key, item in value.items():
            if item is not None and live.get(key) is None:
                yield _Gap((*path, key), item, is_absent=True)
            else:
                yield from _absent(item, live.get(key), (*path, key))
    elif isinstance(value, list) and isinstance(live, list) and len(value) == len(live):
        for index, item in enumerate(value):
            yield from _absent(item, live[index], (*path, f"[{index}]"))


@lru_cache(maxsize=DECODED_MAX)
def decoded(text: str) -> Any:
    """Return the key or value that stands in a set's name of an item; read, and never changed."""
    return msgspec.json.decode(text)


def _is_taken(others: list[FieldSet]) -> bool:
    return any(key != "." for other in others for key in other)


def item_of(item: Any, node: FieldSet) -> tuple[str, FieldSet | None]:
    """Return the name and the subtree of a list's item in a set; the subtree None where absent."""
    for name, subtree in node.items():
        if name.startswith("k:") and isinstance(item, dict):
            keys: Mapping[str, Any] = decoded(name[2:])
            if has_keys(item, keys) and any(key in item for key in keys):
                return name, subtree
        elif name.startswith("v:") and decoded(name[2:]) == item:
            return name, subtree
    return "", None


def has_keys(item: Mapping[str, Any], keys: Mapping[str, Any]) -> bool:
    """Return whether an item has that key; a part that it leaves out has the server's default."""
    return all(item.get(key, KEY_DEFAULTS.get(key)) == value for key, value in keys.items())


def _held(item: Any, live: Any, name: str) -> Any:
    if not isinstance(live, list) or not name.startswith("k:"):
        return item
    keys = decoded(name[2:])
    return next(
        (held for held in live if isinstance(held, dict) and has_keys(held, keys)),
        None,
    )


def _part(name: str, item: Any) -> str:
    if name.startswith("k:"):
        keys = decoded(name[2:])
    elif isinstance(item, dict) and "name" in item:
        keys = {"name": item["name"]}
    else:
        return "[]"
    parts = (f"{key}={msgspec.json.encode(value).decode()}" for key, value in sorted(keys.items()))
    return f"[{','.join(parts)}]"


def _is_under(path: str, roots: set[str]) -> bool:
    return any(path == root or path.startswith((f"{root}.", f"{root}[")) for root in roots)
