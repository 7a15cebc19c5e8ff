"""
Quantities of a pod as Kubernetes itself writes them: `1` and not the number 1, `1` and not `1000m`.

Where the API server knows a field as a quantity (in a Deployment) it rewrites it so. In a template
that sits in somebody's CRD it does not, and whether that one's webhook does is its own affair: what
differs in letters alone would then be another template, and pods restart over that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from crds.kubernetes import Manifest
from handlers.quantities import canonical

_CONTAINER_LISTS = ("initContainers", "containers", "ephemeralContainers")


def with_canonical(pod_spec: Manifest) -> Manifest:
    """Return a PodSpec whose quantities are canonical; everything else is as it was."""
    built = _at(pod_spec, ("overhead",), _values)
    built = _at(built, ("resources",), _resources)
    for field in _CONTAINER_LISTS:
        built = _at(built, (field,), _each(_container))
    whole: Manifest = _at(built, ("volumes",), _each(_volume))
    return whole


Change = Callable[[Any], Any]


def _container(item: Any) -> Any:
    return _at(_at(item, ("resources",), _resources), ("env",), _each(_variable))


def _variable(item: Any) -> Any:
    return _at(item, ("valueFrom", "resourceFieldRef", "divisor"), canonical)


def _volume(item: Any) -> Any:
    built = _at(item, ("emptyDir", "sizeLimit"), canonical)
    built = _at(built, ("ephemeral", "volumeClaimTemplate", "spec", "resources"), _resources)
    built = _at(built, ("downwardAPI", "items"), _each(_downward))
    return _at(built, ("projected", "sources"), _each(_source))


def _source(item: Any) -> Any:
    return _at(item, ("downwardAPI", "items"), _each(_downward))


def _downward(item: Any) -> Any:
    return _at(item, ("resourceFieldRef", "divisor"), canonical)


def _resources(item: Any) -> Any:
    return _at(_at(item, ("requests",), _values), ("limits",), _values)


def _values(item: Any) -> Any:
    return {k: canonical(v) for k, v in item.items()} if isinstance(item, Mapping) else item


def _each(change: Change) -> Change:
    return lambda items: [change(item) for item in items] if isinstance(items, list) else items


def _at(holder: Any, path: tuple[str, ...], change: Change) -> Any:
    """Return the holder with what stands at a path changed; as it is where nothing stands there."""
    head, *rest = path
    if not isinstance(holder, Mapping) or head not in holder:
        return holder
    held = holder[head]
    return {**holder, head: _at(held, tuple(rest), change) if rest else change(held)}
