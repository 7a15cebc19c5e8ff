"""
What of a difference between two pod templates somebody asked for: all but what operators add. Pure.

Where a resource was edited and nobody carried that out yet, what differs in the pods of another
operator may be what the edit asks for, or what that operator's version adds otherwise than ours.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from crds.kubernetes import Manifest
from handlers.fields import Path, item_index, parse_path
from handlers.manifests import deduplicated
from handlers.plan import pod_template


def is_asked_for(live: Manifest, ours: Manifest, added: Collection[str]) -> bool:
    """
    Return whether two states of a workload differ in what its pods are asked to be.

    `added` is what our rendering adds by itself (Rendering.added).
    """
    paths = [parse_path(path) for path in added]
    return bool(_group(live) != _group(ours) or _asked(live, paths) != _asked(ours, paths))


def _group(workload: Manifest) -> Any:
    """Return what is asked for of a group of pods, beside the pods."""
    group = workload["spec"].get("leaderWorkerTemplate") or {}
    return {key: item for key, item in group.items() if key != "workerTemplate"}


def _asked(workload: Manifest, added: Collection[Path]) -> Any:
    template = pod_template(workload)
    # Of what stands twice the last one counts, so it asks for no more than that one.
    pod, _ = deduplicated(template["spec"])
    asked: Any = {**template, "spec": pod}
    for path in added:
        asked = _less(asked, path)
    return asked


def _less(value: Any, path: Path) -> Any:
    """Return a value without what is at a path, and without what holds nothing then."""
    head, rest = path[0], path[1:]
    if isinstance(value, Mapping) and head in value:
        left = _less(value[head], rest) if rest else None
        others = {key: item for key, item in value.items() if key != head}
        return {**others, head: left} if left else others
    if isinstance(value, list) and head.startswith("["):
        index = item_index(value, head)
        if index is not None:
            left = [_less(value[index], rest)] if rest else []
            return [*value[:index], *left, *value[index + 1 :]]
    return value
