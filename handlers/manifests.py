"""
Shared builders of manifests, and the tidying that server-side apply asks of them.

Pure. A manifest that comes out of here holds no nulls, and no two entries of one key in a list
that the API server merges by that key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import msgspec

from crds.kind import Kind
from crds.kubernetes import Manifest, ObjectMeta
from handlers.fields import KEY_DEFAULTS

Json: TypeAlias = Any
"""A value as JSON has it."""

_CONTAINER_LISTS = ("initContainers", "containers", "ephemeralContainers")
_KEYS_OF_CONTAINER: Mapping[str, tuple[str, ...]] = {
    "env": ("name",),
    "ports": ("containerPort", "protocol"),
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
}
_KEYS_OF_POD: Mapping[str, tuple[str, ...]] = {
    "volumes": ("name",),
    "imagePullSecrets": ("name",),
    "hostAliases": ("ip",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "resourceClaims": ("name",),
    "schedulingGates": ("name",),
}
"""Lists that apply merges by key (source: `x-kubernetes-list-map-keys` of PodSpec, 1.36)."""


def owner_reference(kind: Kind, owner: ObjectMeta) -> Manifest:
    """Return the reference by which a child goes when its owner goes."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def child(
    kind: Kind, name: str, labels: Mapping[str, str], *, of: tuple[Kind, ObjectMeta], **rest: Json
) -> Manifest:
    """Return a child of the owner that `of` names, in its namespace; `rest` follows metadata."""
    owner_kind, owner = of
    metadata: Manifest = {"name": name}
    if owner.namespace:
        metadata["namespace"] = owner.namespace
    metadata["labels"] = dict(labels)
    metadata["ownerReferences"] = [owner_reference(owner_kind, owner)]
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **rest}


def field_variable(name: str, field_path: str) -> Manifest:
    """Return an environment variable that holds a field of its own pod."""
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": field_path}}}


def item_path(items: str, name: object) -> str:
    """Return the dotted path of an item of that name in a list."""
    return f"{items}[name={msgspec.json.encode(name).decode()}]"


def without_nulls(value: Json) -> Json:
    """Return a copy in which no object has a key whose value is null: absent means the same."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


def entries(holder: Mapping[str, Json], field: str) -> list[Manifest]:
    """Return the objects of a list, none where the field is absent or is no list of objects."""
    found = holder.get(field)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def names_of(items: Iterable[Manifest]) -> set[str]:
    """Return the names of objects; what else stands in a name is for the API server to refuse."""
    return {name for item in items if isinstance(name := item.get("name"), str)}


def deduplicated(pod_spec: Manifest) -> tuple[Manifest, tuple[str, ...]]:
    """
    Return a PodSpec in which every key of a keyed list stands once, and what was dropped.

    The last of a key wins and keeps its place, as the kubelet decides for `env`. Apply would
    answer duplicates with an error, and a create would drop one of them without a word.
    """
    dropped: list[str] = []
    built = _tidy(pod_spec, _KEYS_OF_POD, "the pod", dropped)
    for field in _CONTAINER_LISTS:
        if not isinstance(built.get(field), list):
            continue
        built[field] = [
            _tidy(item, _KEYS_OF_CONTAINER, f"container {item.get('name')}", dropped)
            if isinstance(item, dict)
            else item
            for item in built[field]
        ]
    return built, tuple(dropped)


def _tidy(
    holder: Manifest, keys: Mapping[str, tuple[str, ...]], where: str, dropped: list[str]
) -> Manifest:
    built = dict(holder)
    for field, parts in keys.items():
        if not isinstance(built.get(field), list):
            continue
        built[field], names = _last_of_each(built[field], parts)
        dropped += [f"{field} {name} of {where}" for name in names]
    return built


def _last_of_each(items: list[Json], parts: tuple[str, ...]) -> tuple[list[Json], list[str]]:
    """Return the items without those that a later one of the same key replaces, and their keys."""
    seen: set[str] = set()
    kept: list[Json] = []
    names: list[str] = []
    for item in reversed(items):
        key = _key(item, parts)
        if key is None or key not in seen:
            kept.append(item)
        elif key not in names:
            names.append(key)
        if key is not None:
            seen.add(key)
    return kept[::-1], names[::-1]


def _key(item: Json, parts: tuple[str, ...]) -> str | None:
    """Return what an item is merged by, None for what the API server will refuse anyway."""
    if not isinstance(item, dict):
        return None
    values = [item.get(part, KEY_DEFAULTS.get(part)) for part in parts]
    if any(not isinstance(value, str | int) or isinstance(value, bool) for value in values):
        return None
    return "/".join(str(value) for value in values)
