"""
Whether a live child is what its resource asks for, told by values.

`handlers.plan.matches` compares no value, by design; here every value is compared with what the API
server itself makes of the rendering (a dry run), so neither of the two can be wrong unnoticed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from typing import Any

from crds.kubernetes import Manifest
from handlers import plan
from handlers.fields import MANAGER, entries_of
from handlers.silent import SPOKE_OF
from handlers.writes import FENCE
from tests.e2e.machine.touches import INJECTED

_OF_THE_SERVER = frozenset({"clusterIP", "clusterIPs", "nodePort"})
"""Values that no two objects share."""
_OF_THE_CONTROLLER = "deployment.kubernetes.io/revision"
_PARTS = ("spec", "rules", "roleRef", "subjects", "automountServiceAccountToken", "secrets")


class Theirs:
    """Labels, annotations and replicas that others gave one object, by its uid."""

    def __init__(self) -> None:
        self.metadata: dict[str, dict[str, dict[str, str]]] = {}
        """By uid: `labels` and `annotations`."""
        self.replicas: dict[str, tuple[int, int]] = {}
        """By uid: what an autoscaler set, and what the resource asked for then."""

    def give(self, uid: str, field: str, values: Mapping[str, str]) -> None:
        """They put labels or annotations on an object."""
        self.metadata.setdefault(uid, {}).setdefault(field, {}).update(values)

    def taken_back(self, uid: str, wanted: Manifest) -> None:
        """An autoscaler's number is forgotten once the resource asks for another than then."""
        if uid in self.replicas and wanted["spec"]["replicas"] != self.replicas[uid][1]:
            del self.replicas[uid]

    def of(self, uid: str, field: str) -> dict[str, str]:
        """Return the labels or annotations that are theirs."""
        return self.metadata.get(uid, {}).get(field, {})


def differences(live: Manifest, wanted: Manifest, served: Manifest, theirs: Theirs) -> list[str]:
    """
    Return, a line each, how a live child differs from its rendering.

    `served` is what the API server makes of the rendering.
    """
    uid = live["metadata"]["uid"]
    found = list(_metadata(live, wanted, theirs))
    expected = deepcopy(served)
    if uid in theirs.replicas:
        expected["spec"]["replicas"] = theirs.replicas[uid][0]
    for part in _PARTS:
        found += unlike(_own(expected.get(part)), _own(live.get(part)), part)
    if not plan.matches(wanted, live):
        found.append("plan.matches says that it does not match")
    return found


def _metadata(live: Manifest, wanted: Manifest, theirs: Theirs) -> Iterator[str]:
    metadata = live["metadata"]
    uid = metadata["uid"]
    labels = {k: v for k, v in (metadata.get("labels") or {}).items() if k != FENCE}
    yield from unlike(
        {**theirs.of(uid, "labels"), **wanted["metadata"]["labels"]}, labels, "labels"
    )
    annotations = metadata.get("annotations") or {}
    kept = {k: v for k, v in annotations.items() if not _is_known(k)}
    yield from unlike(theirs.of(uid, "annotations"), kept, "annotations")
    if annotations.get(plan.APPLIED) != plan.rendering_hash(wanted):
        yield "weir.dev/applied is not the hash of its rendering"
    owners = wanted["metadata"]["ownerReferences"]
    yield from unlike(owners, metadata.get("ownerReferences"), "ownerReferences")


def _is_known(annotation: str) -> bool:
    return annotation.startswith("weir.dev/") or annotation == _OF_THE_CONTROLLER


def unlike(expected: Any, found: Any, path: str) -> list[str]:
    """Return where two values differ, with both."""
    if isinstance(expected, dict) and isinstance(found, dict):
        lines: list[str] = []
        for key in sorted({*expected, *found}):
            lines += unlike(expected.get(key), found.get(key), f"{path}.{key}")
        return lines
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        lines = []
        for index, (one, other) in enumerate(zip(expected, found, strict=True)):
            lines += unlike(one, other, f"{path}[{index}]")
        return lines
    if expected == found:
        return []
    return [f"{path}: expected {json.dumps(expected)}, found {json.dumps(found)}"]


def _own(value: Any) -> Any:
    """Return a value without what the server assigned, and without what others injected."""
    if isinstance(value, dict):
        return {key: _own(item) for key, item in value.items() if key not in _OF_THE_SERVER}
    if isinstance(value, list):
        return [_own(item) for item in value if not _is_injected(item)]
    return value


def _is_injected(item: Any) -> bool:
    return isinstance(item, dict) and item.get("name") == INJECTED


def as_it_stands(live: Manifest) -> Manifest:
    """Return what must stay as it is of an object that nobody may write."""
    metadata = live["metadata"]
    kept = {key: metadata.get(key) for key in ("uid", "labels", "ownerReferences")}
    return {"metadata": kept, **{part: _own(live[part]) for part in _PARTS if part in live}}


# Two objects of one name that came about in different ways


def twins(live: Manifest, twin: Manifest, theirs: Theirs) -> list[str]:
    """
    Return how a child differs from one that was made directly, in another namespace.

    What is ours of it (`managedFields`) must be ours of the twin, too: a create owns all that was
    defaulted with it, an apply only what it says. An empty value is the exception: a create does
    not own it, and the twin's annotation names it; an apply does.
    """
    empty = plan.empty_fields(twin)
    found = unlike(_lasting(twin, theirs), _lasting(live, theirs), live["kind"])
    found += [
        f"is ours and not the twin's: {path}"
        for path in sorted(_ours(live) - _ours(twin))
        if not path.startswith(empty)
    ]
    return found


def _lasting(live: Manifest, theirs: Theirs) -> Manifest:
    metadata = live["metadata"]
    uid = metadata["uid"]
    spec = _own(live.get("spec"))
    if uid in theirs.replicas:
        spec["replicas"] = theirs.replicas[uid][1]
    annotations = {
        key: value
        for key, value in (metadata.get("annotations") or {}).items()
        if key
        not in {
            plan.APPLIED,
            plan.PATHS,
            plan.EMPTY_FIELDS,
            SPOKE_OF,
            _OF_THE_CONTROLLER,
            *theirs.of(uid, "annotations"),
        }
    }
    labels = {
        key: value
        for key, value in (metadata.get("labels") or {}).items()
        if key not in {FENCE, *theirs.of(uid, "labels")}
    }
    kept = {"labels": labels, "annotations": annotations, "owners": _owners(metadata)}
    parts = {part: _own(live[part]) for part in _PARTS if part in live and part != "spec"}
    for subject in parts.get("subjects") or ():
        subject.pop("namespace", None)
    return {"metadata": kept, "spec": spec, **parts}


def _owners(metadata: Manifest) -> list[Manifest]:
    references: Iterable[Manifest] = metadata.get("ownerReferences") or ()
    return [{key: item for key, item in one.items() if key != "uid"} for one in references]


def _ours(live: Manifest) -> set[str]:
    """Return the paths that `weir` owns, but for what fences and marks an object."""
    found: set[str] = set()
    for entry in entries_of(live):
        if entry.get("manager") == MANAGER and not entry.get("subresource"):
            found |= set(_paths(entry.get("fieldsV1") or {}, ""))
    return {path for path in found if "weir.dev/" not in path and "[uid=" not in path}


def _paths(node: Mapping[str, Any], path: str) -> Iterator[str]:
    for key, below in node.items():
        kind, _, what = key.partition(":")
        match kind:
            case "f":
                at = f"{path}.{what}" if path else what
            case "k":
                keys = sorted(json.loads(what).items())
                at = f"{path}[{','.join(f'{name}={json.dumps(value)}' for name, value in keys)}]"
            case "v":
                at = f"{path}[{what}]"
            case _:
                continue  # the node itself
        yield at
        yield from _paths(below, at)


def status_of(resource: Manifest) -> Manifest:
    """Return a status without its times and generations, in one order."""
    status = deepcopy(resource.get("status") or {})
    status.pop("observedGeneration", None)
    conditions = status.pop("conditions", None) or []
    for condition in conditions:
        condition.pop("lastTransitionTime", None)
        condition.pop("observedGeneration", None)
    return {**status, "conditions": {c["type"]: c for c in conditions}}
