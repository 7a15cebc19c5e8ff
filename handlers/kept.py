"""
What a child keeps although its rendering says otherwise. Pure.

Its pod template, where another operator wrote it and ours would restart its pods though nobody
asked for that: an annotation holds the template, which is rendered in place of ours until an edit
asks for other pods. And what no StatefulSet lets itself be changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from crds.kubernetes import STATEFUL_SET, Manifest
from handlers.fields import MANAGER, FieldSet, entries_of, merged
from handlers.owned import less, owned_part, repeated
from handlers.plan import APPLIED, annotation, rendering_hash
from handlers.quantities import same_value

KEPT = "weir.dev/kept-template"
"""Annotation: the template that a workload keeps. Who removes it gives the workload ours."""
TEMPLATES = ("template", "leaderWorkerTemplate")
"""Fields of a workload's spec that hold what its pods are made from."""
IMMUTABLE = ("selector", "serviceName", "volumeClaimTemplates", "podManagementPolicy")
"""
Fields of a StatefulSet's spec that only a new one can hold.

Source: Kubernetes, `pkg/apis/apps/validation`, ValidateStatefulSetUpdate.
"""
DEFAULT_POLICY = "OrderedReady"


class Kept(Struct, frozen=True, kw_only=True):
    """A pod template as another operator wrote it."""

    template: Manifest
    instead: str
    """Hash of the template that we rendered when it was kept: another one is kept no longer."""


_decoder = msgspec.json.Decoder(Kept)


def fitted(manifest: Manifest, live: Manifest, asked: str | None) -> Manifest:
    """
    Return the rendering as a child is to hold it: with what it keeps in place of ours.

    `asked` is the image that the resource names for a workload whose template is kept until that is
    another one, empty where it names none; None of a workload of which any other template counts.
    """
    kept = kept_by(live)
    if kept is None or not is_kept_still(kept, manifest, asked):
        return released(manifest, live, kept)
    return with_template(manifest, live, kept)


def released(manifest: Manifest, live: Manifest, kept: Kept | None) -> Manifest:
    """
    Return the rendering for a child that no longer keeps the template that it kept, if any.

    A StatefulSet without a claim that our pods mount can never have that, and would be refused with
    our template: there only the images become ours, and the volumes stay mounted as they are.
    """
    if not _lacks_a_mounted_claim(manifest, live):
        return with_immutable(manifest, live)
    found = kept or taken_from(manifest, live, ())
    return with_template(manifest, live, _with_images_of(manifest, found))


def _lacks_a_mounted_claim(manifest: Manifest, live: Manifest) -> bool:
    if live.get("kind") != STATEFUL_SET.kind:
        return False
    wanted, held = (
        {claim["metadata"]["name"] for claim in one["spec"].get("volumeClaimTemplates") or ()}
        for one in (manifest, live)
    )
    mounted = {
        mount["name"]
        for container in _containers(manifest["spec"]["template"])
        for mount in container.get("volumeMounts") or ()
    }
    return not (wanted & mounted) <= held


def _with_images_of(manifest: Manifest, kept: Kept) -> Kept:
    """Return a kept template that runs the images of the rendering, container by container."""
    rendered = _containers(manifest["spec"]["template"])
    images = {container["name"]: container["image"] for container in rendered}
    pod = kept.template["spec"]
    containers = [
        {**container, "image": images.get(container["name"], container.get("image"))}
        for container in _containers(kept.template)
    ]
    template = {**kept.template, "spec": {**pod, "containers": containers}}
    return Kept(template=template, instead=_template_hash(manifest))


def with_template(manifest: Manifest, live: Manifest, kept: Kept) -> Manifest:
    """Return the rendering with a kept template, and with the annotation that holds it."""
    wanted = with_immutable(manifest, live)
    metadata = wanted["metadata"]
    text = msgspec.json.encode(kept, order="deterministic").decode()
    return {
        **wanted,
        "metadata": {
            **metadata,
            "annotations": {**(metadata.get("annotations") or {}), KEPT: text},
        },
        "spec": {**wanted["spec"], _template_field(wanted): kept.template},
    }


def kept_by(live: Manifest) -> Kept | None:
    """Return the template that a child keeps, None where it keeps none, or others wrote into it."""
    text = annotation(live, KEPT)
    if not text or not _template_field(live) or not _is_ours(live):
        return None
    try:
        return _decoder.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return None


def _is_ours(live: Manifest) -> bool:
    """Return whether the annotation is as we wrote it: who edits it takes it from us."""
    return any(
        f"f:{KEPT}" in (fields.get("f:metadata") or {}).get("f:annotations", {})
        for entry in entries_of(live)
        if entry.get("manager") == MANAGER and (fields := entry.get("fieldsV1") or {})
    )


def is_kept_still(kept: Kept, manifest: Manifest, asked: str | None) -> bool:
    """Return whether no edit has asked for other pods since the template was kept."""
    if asked is None:
        return kept.instead == _template_hash(manifest)
    return not asked or asked in _images(kept.template)


def is_anothers(
    live: Manifest, others: Collection[str], *, is_spared: bool, was_served: bool = False
) -> bool:
    """
    Return whether another operator wrote a child's pod template, as far as anybody knows.

    Ours carries the annotation of what was applied; one whose fields were taken over, and that was
    not applied to yet, does not. One that is spared is another's, whoever it was, until we applied.
    Who only removes fields leaves no trace in the child: so any is another's whose resource another
    operator served since we did (`was_served`).
    """
    field = _template_field(live)
    if not field:
        return False
    entries = entries_of(live)
    if not annotation(live, APPLIED):
        managers = {entry.get("manager") for entry in entries}
        return is_spared or not managers.isdisjoint({MANAGER, *others})
    if was_served or (annotation(live, KEPT) and kept_by(live) is None):
        return True
    return any(
        f"f:{field}" in ((entry.get("fieldsV1") or {}).get("f:spec") or {})
        for entry in entries
        if entry.get("manager") in others and not entry.get("subresource")
    )


def taken_from(manifest: Manifest, live: Manifest, others: Iterable[str]) -> Kept:
    """
    Return the template of a child as we would own it once the other operators' fields are ours.

    Without what people and controllers added: it stays, and stays theirs; and without what a list
    holds more than once, as POST and PUT let it: no apply could say that, and what none says stays.
    """
    field = _template_field(live)
    template: Manifest = live["spec"][field]
    mine: FieldSet = {}
    rest: list[FieldSet] = []
    for entry in merged(live, others) or entries_of(live):
        owned = ((entry.get("fieldsV1") or {}).get("f:spec") or {}).get(f"f:{field}")
        if owned is None or entry.get("subresource"):
            continue
        if entry.get("manager") == MANAGER:
            mine = owned
        else:
            rest.append(owned)
    part = owned_part(template, mine, rest) if mine else template
    return Kept(template=part, instead=_template_hash(manifest))


def apart(
    manifest: Manifest, live: Manifest, entries: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """
    Return `managedFields` with what a kept template holds more than once in an entry of its own.

    An apply that does not name it would remove what our Apply entry owns of it. An Update entry of
    ours is merged with that one again before a path goes (fields.py, `merged`): an edit reaches it.
    """
    if not annotation(manifest, KEPT):
        return entries
    field = f"f:{_template_field(live)}"
    result: list[dict[str, Any]] = []
    for entry in entries:
        fields = entry.get("fieldsV1") or {}
        owned = (fields.get("f:spec") or {}).get(field) or {}
        twice = repeated(live["spec"][field[2:]], owned) if entry.get("manager") == MANAGER else {}
        if not twice:
            result.append(entry)
            continue
        theirs: FieldSet = {"f:spec": {field: twice}}
        result.append({**entry, "fieldsV1": less(fields, theirs)})
        result.append({**entry, "operation": "Update", "fieldsV1": theirs})
    return result


def unchangeable(manifest: Manifest, live: Manifest) -> tuple[str, ...]:
    """Return the fields in which a child stays other than it is rendered: only a new one can."""
    spec, held = manifest.get("spec") or {}, live.get("spec") or {}
    if live.get("kind") != STATEFUL_SET.kind:
        return ()
    return tuple(
        field
        for field in IMMUTABLE
        if field in spec and not _same(field, spec[field], held.get(field))
    )


def with_immutable(manifest: Manifest, live: Manifest) -> Manifest:
    """Return the rendering with what cannot be changed as it is; where it is alike, as rendered."""
    held = live.get("spec") or {}
    fixed = unchangeable(manifest, live)
    as_they_are = {field: held[field] for field in fixed if field in held}
    if live.get("kind") == STATEFUL_SET.kind and held.get("podManagementPolicy") not in (
        None,
        DEFAULT_POLICY,
    ):
        # Left out, it would become the default.
        as_they_are["podManagementPolicy"] = held["podManagementPolicy"]
    lacking = [field for field in fixed if field not in held]
    if not (as_they_are or lacking):
        return manifest
    rest = {field: item for field, item in manifest["spec"].items() if field not in lacking}
    return {**manifest, "spec": {**rest, **as_they_are}}


def _same(field: str, rendered: Any, held: Any) -> bool:
    if field != "volumeClaimTemplates":
        return bool(rendered == held)
    if not isinstance(held, list) or len(rendered) != len(held):
        return False
    return all(map(_same_claim, rendered, held))


def _same_claim(rendered: Any, held: Any) -> bool:
    """Return whether two claim templates are alike but for defaults and spellings."""
    left, right = (_claim(one) for one in (rendered, held))
    return _alike(left, right)


def _claim(template: Any) -> Any:
    """Return what was asked for in a claim template, without its kind, defaults and status."""
    spec = template.get("spec") or {}
    metadata = template.get("metadata") or {}
    return {
        "name": metadata.get("name"),
        "labels": metadata.get("labels"),
        "annotations": metadata.get("annotations"),
        "spec": {key: value for key, value in spec.items() if (key, value) != _DEFAULT_MODE},
    }


_DEFAULT_MODE = ("volumeMode", "Filesystem")


def _alike(left: Any, right: Any) -> bool:
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(_alike(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_alike, left, right))
    return same_value(left, right)


def _template_field(manifest: Manifest) -> str:
    """Return which field holds what pods are made from, empty of what has no pods."""
    spec = manifest.get("spec") or {}
    return next((field for field in TEMPLATES if spec.get(field)), "")


def _template_hash(manifest: Manifest) -> str:
    return rendering_hash(manifest["spec"].get(_template_field(manifest)) or {})


def _images(template: Manifest) -> set[str]:
    return {str(container.get("image")) for container in _containers(template)}


def _containers(template: Manifest) -> Sequence[Manifest]:
    return (template.get("spec") or {}).get("containers") or ()
