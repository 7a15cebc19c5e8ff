"""
In which fields two states of an object differ, and whether its pods restart over that.

Pure. Both states are as an API server holds them, so defaults and quantities that it rewrites are
the same on either side.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from crds.kubernetes import Manifest
from handlers.fields import Path, dotted

MARKS = "weir.dev/"
"""Prefix of the annotations in which we keep our books."""
KEYS = ("name", "containerPort", "port", "mountPath", "topologyKey", "key", "ip")
"""Fields by one of which the items of a list are told apart, the first that fits."""
_SERVERS = frozenset({"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp"})
"""Fields of `metadata` that say when and by whom, not what."""


class FieldChange(Struct, frozen=True, kw_only=True):
    """One field that differs; None is a field that is not there."""

    path: str
    old: Any = None
    new: Any = None

    @property
    def is_mark(self) -> bool:
        """Whether it is only our own book-keeping."""
        return self.path.startswith(f'metadata.annotations["{MARKS}')


def field_changes(before: Manifest, after: Manifest) -> tuple[FieldChange, ...]:
    """Return every field in which they differ, but those that the server keeps for itself."""
    return tuple(_changes(_compared(before), _compared(after), ()))


def pods_that_restart(before: Manifest | None, after: Manifest | None) -> int:
    """
    Return how many pods are replaced or end when the one state becomes the other.

    A workload's controller replaces them when `spec.template` differs. A LeaderWorkerSet counts
    groups of pods.
    """
    template = _template(before)
    if before is None or template is None or template == _template(after):
        return 0
    status: Mapping[str, Any] = before.get("status") or {}
    groups = (before.get("spec") or {}).get("leaderWorkerTemplate") or {}
    return int(status.get("replicas") or 0) * int(groups.get("size") or 1)


def restarts(before: Manifest | None, after: Manifest | None) -> bool:
    """Return whether a workload that stays gets another pod template."""
    template = _template(before)
    return template is not None and after is not None and template != _template(after)


def _template(manifest: Manifest | None) -> Any:
    spec = (manifest or {}).get("spec") or {}
    return spec.get("template", spec.get("leaderWorkerTemplate"))


def _compared(manifest: Manifest) -> Manifest:
    metadata = manifest.get("metadata") or {}
    kept: Manifest = {"annotations": {}, "labels": {}}
    kept |= {key: value for key, value in metadata.items() if key not in _SERVERS}
    rest = {key: value for key, value in manifest.items() if key not in ("metadata", "status")}
    return {**rest, "metadata": kept}


def _changes(old: Any, new: Any, path: Path) -> Iterator[FieldChange]:
    if old == new:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys((*old, *new)):
            part = key if key.replace("-", "").isalnum() else f"[{_text(key)}]"
            yield from _changes(old.get(key), new.get(key), (*path, part))
    elif isinstance(old, list) and isinstance(new, list):
        yield from _changes_of_lists(old, new, path)
    else:
        yield FieldChange(path=dotted(path), old=old, new=new)


def _changes_of_lists(old: list[Any], new: list[Any], path: Path) -> Iterator[FieldChange]:
    key = next((name for name in KEYS if _is_key(name, old) and _is_key(name, new)), None)
    if key is None:
        yield FieldChange(path=dotted(path), old=old, new=new)
        return
    before = {item[key]: item for item in old}
    after = {item[key]: item for item in new}
    for name in dict.fromkeys((*before, *after)):
        part = f"[{key}={_text(name)}]"
        yield from _changes(before.get(name), after.get(name), (*path, part))
    common = [name for name in before if name in after]
    moved = [name for name in after if name in before]
    if common != moved:
        yield FieldChange(path=f"{dotted(path)} (order)", old=common, new=moved)


def _is_key(name: str, items: list[Any]) -> bool:
    """Return whether that field of theirs tells all items of a list apart."""
    values = [item.get(name) for item in items if isinstance(item, dict)]
    return len(values) == len(items) == len({str(value) for value in values}) and None not in values


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()
