"""
What to do with a child: whose it is, whether it matches its rendering, and what is stale.

Pure: it takes what was read and returns a verdict; apply.py and prune.py carry it out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any

import msgspec

from crds.contract import Contract
from crds.kubernetes import Manifest
from handlers.fields import Dropped, dotted, entries_of, uncovered
from handlers.handler import ChildName
from handlers.paths import holds_all, paths_text

APPLIED = "weir.dev/applied"
"""Annotation: hash of the rendering that a child was last made to match."""
RENDERER = "weir.dev/renderer"
"""Annotation: version of the renderer that last wrote a child."""
PATHS = "weir.dev/paths"
"""Annotation: the paths of that rendering (paths.py)."""
IGNORED = "weir.dev/ignored-fields"
"""Annotation: paths of the rendering that the API server does not know, a JSON list."""
EMPTY_FIELDS = "weir.dev/empty-fields"
"""Annotation: paths of the rendering that it does not hold because they are empty, the same."""

REPLICAS_SEED = "weir.dev/replicas-seed"
"""Annotation: the resource's own number of replicas when a workload was last written."""


NAMELESS = "a scaler that left no name"


class Standing(Enum):
    """Whose an object is that has a child's name."""

    OURS = "ours"
    PREDECESSOR = "predecessor"
    """Owned by an older incarnation of the resource: garbage collection is on its way."""
    ORPHAN = "orphan"
    """Our identity labels and no controller: ours to adopt."""
    FOREIGN = "foreign"


def standing(live: Manifest, owner: Manifest, contract: Contract) -> Standing:
    """Return whose a live object is, seen from a resource of ours."""
    metadata = live.get("metadata") or {}
    controller = next(
        (ref for ref in metadata.get("ownerReferences") or () if ref.get("controller")), None
    )
    if controller is None:
        labels = metadata.get("labels") or {}
        label, value = contract.identity
        is_labelled = labels.get(label) == value
        named = contract.owner_name(labels) == owner["metadata"]["name"]
        return Standing.ORPHAN if is_labelled and named else Standing.FOREIGN
    if controller.get("uid") == owner["metadata"]["uid"]:
        return Standing.OURS
    same_kind = controller.get("kind") == contract.kind.kind and str(
        controller.get("apiVersion")
    ).startswith(f"{contract.kind.group}/")
    if same_kind and controller.get("name") == owner["metadata"]["name"]:
        return Standing.PREDECESSOR
    return Standing.FOREIGN


def is_ours(live: Manifest, owner: Manifest, contract: Contract) -> bool:
    """Return whether a live object is the resource's, and not on its way out."""
    return not is_being_deleted(live) and standing(live, owner, contract) is Standing.OURS


def rendering_hash(manifest: Manifest) -> str:
    """Return 16 hexadecimal digits that two equal renderings share."""
    text = msgspec.json.encode(manifest, order="deterministic")
    return hashlib.blake2b(text, digest_size=8).hexdigest()


def may_drop_a_path(manifest: Manifest, live: Manifest, others: Collection[str]) -> bool:
    """
    Return whether a child may hold a path that has to go when it is made as rendered.

    That is one of the last rendering which this one lacks, or one of another operator's.
    """
    managers = {entry.get("manager") for entry in entries_of(live)}
    return not (managers.isdisjoint(others) and holds_all(manifest, annotation(live, PATHS)))


def marked(
    manifest: Manifest,
    renderer: int,
    dropped: Iterable[Dropped] = (),
    remembered: Mapping[str, str] = MappingProxyType({}),
) -> Manifest:
    """Return the rendering with the annotations that say what it is, and what is lost of it."""
    ignored: list[str] = []
    empty: list[str] = []
    for path, is_empty in dropped:
        (empty if is_empty else ignored).append(dotted(path))
    metadata = manifest["metadata"]
    annotations = {
        **(metadata.get("annotations") or {}),
        APPLIED: rendering_hash(manifest),
        PATHS: paths_text(manifest),
        RENDERER: str(renderer),
        **({IGNORED: _written(ignored)} if ignored else {}),
        **({EMPTY_FIELDS: _written(empty)} if empty else {}),
        **remembered,
    }
    replicas = (manifest.get("spec") or {}).get("replicas")
    if replicas is not None:
        annotations[REPLICAS_SEED] = str(replicas)
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}


def annotation(live: Manifest, name: str) -> str:
    """Return an annotation of a live object, empty where it has none."""
    return str(((live.get("metadata") or {}).get("annotations") or {}).get(name, ""))


def ignored_fields(live: Manifest) -> tuple[str, ...]:
    """Return the paths that the API server did not know when the child was written."""
    return _read(annotation(live, IGNORED))


def empty_fields(live: Manifest) -> tuple[str, ...]:
    """Return the paths that it left out when the child was written, because they are empty."""
    return _read(annotation(live, EMPTY_FIELDS))


def _written(paths: list[str]) -> str:
    return msgspec.json.encode(sorted(paths)).decode()


def _read(text: str) -> tuple[str, ...]:
    try:
        return msgspec.json.decode(text, type=tuple[str, ...]) if text else ()
    except (msgspec.MsgspecError, RecursionError):
        return ()  # somebody wrote into it: the next apply writes it anew


def renderer_of(live: Manifest) -> int:
    """Return the version of the renderer that wrote a child, 0 where none of ours did."""
    text = annotation(live, RENDERER)
    return int(text) if text.isdecimal() else 0


def matches(manifest: Manifest, live: Manifest) -> bool:
    """
    Return whether a child needs no write: same rendering as last time, and every path still ours.

    No value is compared, so neither defaults nor a mutating policy start a fight.
    """
    if annotation(live, APPLIED) != rendering_hash(manifest):
        return False
    wanted = with_foreign_replicas(manifest, live)
    return not uncovered(wanted, live, skip=(*ignored_fields(live), *empty_fields(live)))


def stale(rendered: Iterable[ChildName], candidates: Iterable[ChildName]) -> tuple[ChildName, ...]:
    """Return the candidates that the rendering does not hold, in a stable order."""
    return tuple(sorted(set(candidates) - set(rendered)))


def child_name(manifest: Mapping[str, Any]) -> ChildName:
    """Return which child a manifest or a live object is."""
    return ChildName(str(manifest["kind"]), str(manifest["metadata"]["name"]))


def is_being_deleted(live: Mapping[str, Any]) -> bool:
    """Return whether an object is on its way out."""
    return bool((live.get("metadata") or {}).get("deletionTimestamp"))


def must_recreate(manifest: Manifest, live: Manifest) -> bool:
    """Return whether only a new object can hold the rendering: a binding's role is immutable."""
    wanted = manifest.get("roleRef")
    return wanted is not None and live.get("roleRef") != wanted


def is_rollout_of_ours(manifest: Manifest, live: Manifest, owner: Manifest, renderer: int) -> bool:
    """
    Return whether applying would replace pods that nobody asked to be replaced.

    That is a template which an older renderer wrote differently, of a resource whose present
    generation was carried out. Values that the server rewrites (`1000m` as `1`) count as different.
    """
    if renderer_of(live) >= renderer or was_edited(owner):
        return False
    template, held = pod_template(manifest), pod_template(live)
    return template is not None and not _holds(held, template)


def pod_template(manifest: Manifest) -> Any:
    """Return the template of a workload's pods, a LeaderWorkerSet's too; None of what has none."""
    spec = manifest.get("spec") or {}
    groups = spec.get("leaderWorkerTemplate") or {}
    return spec.get("template", groups.get("workerTemplate"))


def was_edited(owner: Manifest) -> bool:
    """Return whether a resource is not carried out yet as it is: what differs may be asked for."""
    observed = (owner.get("status") or {}).get("observedGeneration")
    return bool(observed != owner["metadata"].get("generation"))


def awaits_an_edit(owner: Manifest) -> bool:
    """
    Return whether a resource is known to have been edited since it was carried out.

    One whose generation nobody observed is not: AMD's operator writes none while a child fails.
    """
    return was_edited(owner) and "observedGeneration" in (owner.get("status") or {})


def _holds(live: Any, rendered: Any) -> bool:
    if isinstance(rendered, Mapping):
        return isinstance(live, Mapping) and all(
            _holds(live.get(name), value) for name, value in rendered.items()
        )
    if isinstance(rendered, list):
        return (
            isinstance(live, list)
            and len(live) == len(rendered)
            and all(map(_holds, live, rendered))
        )
    return bool(live == rendered)


def replicas_owner(live: Manifest) -> str | None:
    """
    Return who scales a workload through its scale subresource (an HPA), None where nobody.

    Who scales to zero that way leaves no name: `Scale` leaves a zero out, so nobody owns it then
    (seen on 1.36). It may have been a person with `kubectl scale`; taken back, KEDA would scale
    down again, and pods would start and stop for ever.
    """
    is_owned = False
    for entry in entries_of(live):
        is_scale = entry.get("subresource") == "scale"
        manager = str(entry.get("manager") or "")
        spec = (entry.get("fieldsV1") or {}).get("f:spec") or {}
        is_owned |= "f:replicas" in spec
        if is_scale and "f:replicas" in spec and not manager.startswith("kubectl"):
            return manager
    is_zero = (live.get("spec") or {}).get("replicas") == 0
    return NAMELESS if is_zero and not is_owned else None


def with_foreign_replicas(manifest: Manifest, live: Manifest) -> Manifest:
    """
    Return the rendering without `spec.replicas` where another manager scales the workload.

    A later edit of the resource's own number (told by the seed annotation) takes them back once.
    """
    spec = manifest.get("spec") or {}
    if "replicas" not in spec or replicas_owner(live) is None:
        return manifest
    if annotation(live, REPLICAS_SEED) not in ("", str(spec["replicas"])):
        return manifest
    return {**manifest, "spec": {key: item for key, item in spec.items() if key != "replicas"}}


def with_account_copy(manifest: Manifest) -> Manifest:
    """
    Return what is applied with the copy of its pods' service account that the API server keeps.

    `serviceAccount` is deprecated, made equal to `serviceAccountName`, and read where that is
    missing. An apply that had named the one alone would not own the other, which brings the name
    back when it is to go, of an account that is gone. A create owns both. What pods are in a
    custom resource has no such copy.
    Source: kubernetes, `pkg/apis/core/v1/conversion.go`, Convert_v1_PodSpec_To_core_PodSpec.
    """
    spec = manifest.get("spec") or {}
    template = spec.get("template") or {}
    pod = template.get("spec") or {}
    name = pod.get("serviceAccountName")
    if not name or "serviceAccount" in pod:
        return manifest
    pod = {**pod, "serviceAccount": name}
    return {**manifest, "spec": {**spec, "template": {**template, "spec": pod}}}
