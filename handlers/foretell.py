"""
What an object would be after we took over its fields and applied, which no dry run can be asked.

A dry run stores nothing, so an apply that follows a take-over of fields (fields.py, `merged`,
`taken_back`) would be tried upon the fields as they are, and drop nothing. Pure; what comes out
still has to pass the API server, which defaults and validates it.
Source: structured-merge-diff v6, `merge/update.go`, Apply and prune.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from crds.kubernetes import Manifest
from handlers.fields import MANAGER, FieldSet, has_keys, union

OWNED_METADATA = ("labels", "annotations", "ownerReferences")
"""What of `metadata` a rendering may change."""
_NOT_RENDERED = ("apiVersion", "kind", "status")


def after_apply(live: Manifest, manifest: Manifest, entries: Iterable[dict[str, Any]]) -> Manifest:
    """
    Return an object without what `entries` say is ours alone and the rendering does not ask for.

    `entries` is `managedFields` after the take-over.
    """
    mine, others = _sets(entries)
    return _with_payload(live, _pruned(_payload(live), manifest, mine, others))


def overlaid(live: Manifest, manifest: Manifest, entries: Iterable[dict[str, Any]]) -> Manifest:
    """Return the rendering over what of an object is not ours alone, as an apply lays it there."""
    mine, others = _sets(entries)
    known: FieldSet = mine
    for other in others:
        known = union(known, other)
    kept = _pruned(_payload(live), manifest, mine, others)
    return _with_payload(live, _laid(kept, _payload(manifest), known))


def as_patch(
    live: Manifest, wanted: Manifest, entries: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the JSON patch that makes an object like that, and its fields owned like that."""
    before, after = _parts(live), _parts(wanted)
    after["/metadata/managedFields"] = entries
    gone = [{"op": "remove", "path": path} for path in before if path not in after]
    return [*gone, *({"op": "add", "path": path, "value": part} for path, part in after.items())]


def _parts(manifest: Manifest) -> dict[str, Any]:
    """Return what a rendering may change of an object, by its JSON pointer."""
    owned = _payload(manifest)
    metadata = owned.pop("metadata")
    return {
        **{f"/metadata/{key}": value for key, value in metadata.items()},
        **{f"/{key}": value for key, value in owned.items()},
    }


def _with_payload(live: Manifest, payload: Manifest) -> Manifest:
    identity = {key: live[key] for key in _NOT_RENDERED if key in live}
    metadata = {key: item for key, item in live["metadata"].items() if key not in OWNED_METADATA}
    return {**identity, **payload, "metadata": {**metadata, **payload.get("metadata", {})}}


def _payload(manifest: Manifest) -> Manifest:
    """Return the part of an object that a rendering may change."""
    owned = {
        key: value for key, value in manifest.items() if key not in (*_NOT_RENDERED, "metadata")
    }
    metadata = manifest["metadata"]
    return {**owned, "metadata": {key: metadata[key] for key in OWNED_METADATA if key in metadata}}


def _sets(entries: Iterable[dict[str, Any]]) -> tuple[FieldSet, list[FieldSet]]:
    """Return what our Apply entry owns, and what others do: an Update drops nothing."""
    mine: FieldSet = {}
    others: list[FieldSet] = []
    for entry in entries:
        fields = entry.get("fieldsV1") or {}
        is_applied = entry.get("operation") == "Apply" and not entry.get("subresource")
        if entry.get("manager") == MANAGER and is_applied:
            mine = fields
        else:
            others.append(fields)
    return mine, others


def _pruned(value: Any, wanted: Any, mine: FieldSet, others: Sequence[FieldSet]) -> Any:
    """Return a value without what is in `mine`, in nobody else's set, and not wanted."""
    if isinstance(value, dict):
        result = dict(value)
        asked: Mapping[str, Any] = wanted if isinstance(wanted, dict) else {}
        for name, node in mine.items():
            key = name.removeprefix("f:")
            if not name.startswith("f:") or key not in value:
                continue
            theirs = [other[name] for other in others if name in other]
            if asked.get(key) is None and not theirs:
                del result[key]
            else:
                result[key] = _pruned(value[key], asked.get(key), node, theirs)
        return result
    if isinstance(value, list):
        return list(_pruned_items(value, wanted, mine, others))
    return value


def _pruned_items(
    items: list[Any], wanted: Any, mine: FieldSet, others: Sequence[FieldSet]
) -> Iterator[Any]:
    asked = wanted if isinstance(wanted, list) else []
    for item in items:
        name = _name_of(item, mine)
        if name is None:
            yield item
            continue
        theirs = [other[name] for other in others if name in other]
        twin = next((one for one in asked if _name_of(one, {name: {}}) == name), None)
        if twin is not None or theirs:
            yield _pruned(item, twin, mine[name], theirs)


def _laid(value: Any, wanted: Any, known: FieldSet) -> Any:
    """Return what is wanted over a value; what nobody owns in parts is replaced as a whole."""
    if isinstance(value, dict) and isinstance(wanted, dict) and any(key != "." for key in known):
        return {
            **value,
            **{
                key: _laid(value.get(key), item, known.get(f"f:{key}") or {})
                for key, item in wanted.items()
                if item is not None
            },
        }
    if isinstance(value, list) and isinstance(wanted, list):
        names = {name: item for item in value if (name := _name_of(item, known)) is not None}
        laid = []
        for item in wanted:
            name = _name_of(item, known)
            held = names.pop(name, None) if name is not None else None
            laid.append(_laid(held, item, known.get(name or "") or {}))
        return [*laid, *names.values()]
    return wanted


def _name_of(item: Any, known: FieldSet) -> str | None:
    """Return the name that an item of a keyed list or a set has among these, None where none."""
    for name in known:
        if name.startswith("k:") and isinstance(item, dict):
            if has_keys(item, msgspec.json.decode(name[2:])):
                return name
        elif name.startswith("v:") and msgspec.json.decode(name[2:]) == item:
            return name
    return None
