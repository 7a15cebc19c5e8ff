"""
Status conditions: reasons, and what changes between two statuses.

Pure: the time arrives as an argument, and the same inputs give the same status to the byte.
Source of the shape: Kubernetes API conventions, "Typical status properties".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

from msgspec import Struct

from crds.kubernetes import Manifest

READY = "Ready"
"""True when everything that the spec asks for serves, in its present version."""
PROGRESSING = "Progressing"
"""True while something is on its way without help."""
DEGRADED = "Degraded"
"""True when something that the spec asks for is missing or not as asked."""
WARNING = "Warning"
"""True when something is worth knowing, and nothing is missing; absent otherwise."""
SHARED_BUS = "SharedBus"
"""True when KV-cache events of others come over the same NATS; absent otherwise."""


class Reason(StrEnum):
    """Every reason that a condition of ours gives, and what it asks of the reader."""

    ALL_READY = "AllReady"
    """Nothing to do."""
    AS_ASKED = "AsAsked"
    """Nothing to do: every child is as the spec asks."""
    CREATING = "Creating"
    """Wait: a child does not exist yet."""
    ROLLING_OUT = "RollingOut"
    """Wait: pods of a former version are being replaced."""
    WAITING_FOR_PODS = "WaitingForPods"
    """Wait: pods start."""
    UNSCHEDULABLE = "Unschedulable"
    """Make room, or ask for less: no node takes a pod."""
    IMAGE_PULL_FAILED = "ImagePullFailed"
    """Mend the image's name or its pull secret."""
    CONTAINER_NOT_STARTED = "ContainerNotStarted"
    """Mend what the container refers to: a Secret, a ConfigMap, a command."""
    CRASHING = "Crashing"
    """Read the log of the pod."""
    WAITING_FOR_GATEWAY = "WaitingForGateway"
    """Wait: the Gateway has not accepted a route or pool yet. If it stays, look at the Gateway."""
    NOT_ACCEPTED = "NotAccepted"
    """Mend what the Gateway says of the route or the pool."""
    NOT_RESOLVED = "NotResolved"
    """Mend what the Gateway says of what the route or the pool refers to: nothing comes through."""
    STALLED = "Stalled"
    """Mend what keeps the workload from its pods: a quota, or what its deadline passed over."""
    INVALID_SPEC = "InvalidSpec"
    """Edit the resource as the message says."""
    INVALID_NAME = "InvalidName"
    """Make the resource anew under another name; names cannot be edited."""
    NOT_SERVED_YET = "NotServedYet"
    """Do without, or wait for the version that serves it."""
    KIND_NOT_INSTALLED = "KindNotInstalled"
    """Install the CRD that the message names; nothing of Weir needs a restart."""
    FOREIGN_OBJECT = "ForeignObject"
    """Rename the resource, or remove the object that has a child's name."""
    WAITING_FOR_DELETION = "WaitingForDeletion"
    """Wait: a child of a former resource of this name is going."""
    REFUSED = "Refused"
    """Read what the API server says of the child."""
    FIELD_NOT_KNOWN = "FieldNotKnown"
    """Remove the field, or upgrade the API server."""
    DUPLICATES = "Duplicates"
    """Remove all but the last entry of a key."""
    FIELDS_IGNORED = "FieldsIgnored"
    """Move the settings into extraPodSpec, or remove them."""
    IMMUTABLE_FIELD = "ImmutableField"
    """Undo the edit, or delete the child so that it is made anew."""
    ROLLOUT_WAITS = "RolloutWaits"
    """Wait: this version of Weir replaces the pods of so many workloads a minute."""
    SHARED_BUS = "SharedBus"
    """Give the deployment a NATS of its own where KV-cache events of others do harm."""
    ETCD_DISCOVERY = "EtcdDiscovery"
    """Use Kubernetes discovery where requests must not be lost when workers end."""
    HANDING_OVER = "HandingOver"
    """Wait: what is no longer asked for stays until what comes serves; Ready says what it lacks."""
    TEMPLATE_KEPT = "TemplateKept"
    """Nothing to do: pods of another operator's making go on until an edit asks for others."""
    SCALED_BY_OTHER = "ScaledByOther"
    """Nothing to do: an autoscaler owns the replicas of a child."""
    PAUSED = "Paused"
    """Run `weir resume`, or remove the annotation `weir.dev/paused`."""
    QUARANTINED = "Quarantined"
    """Mend the cause that the message names, then run `weir dead retry`."""


_PROBLEMS = frozenset(
    {
        Reason.UNSCHEDULABLE,
        Reason.IMAGE_PULL_FAILED,
        Reason.CONTAINER_NOT_STARTED,
        Reason.CRASHING,
        Reason.NOT_ACCEPTED,
        Reason.NOT_RESOLVED,
        Reason.STALLED,
        Reason.INVALID_SPEC,
        Reason.INVALID_NAME,
        Reason.NOT_SERVED_YET,
        Reason.KIND_NOT_INSTALLED,
        Reason.FOREIGN_OBJECT,
        Reason.REFUSED,
        Reason.IMMUTABLE_FIELD,
        Reason.QUARANTINED,
    }
)
"""Reasons that make an event a warning when Ready is False for them."""
_NO_WARNINGS = frozenset({Reason.HANDING_OVER, Reason.SCALED_BY_OTHER, Reason.TEMPLATE_KEPT})
"""Reasons of a Warning that ask nothing of anybody: an Event for one is an ordinary one."""
_NOTICES = (WARNING, SHARED_BUS)
"""Types of conditions that take nothing from Ready; each is told for itself."""
MESSAGE_LENGTH_MAX = 1024
"""Of a condition's message; the standard allows 32,768, a reader much less."""


class Judgement(Struct, frozen=True, kw_only=True):
    """One condition as it should stand now."""

    type: str
    status: bool | None
    """None is `Unknown`."""
    reason: str
    message: str


class Transition(Struct, frozen=True, kw_only=True):
    """A condition that came to stand differently; worth a Kubernetes Event."""

    type: str
    status: str
    reason: str
    message: str
    warning: bool


def conditions(
    before: Iterable[Mapping[str, Any]] | None,
    judged: Iterable[Judgement],
    *,
    generation: int | None,
    now: str,
    gone: Iterable[str] = (),
) -> list[Manifest]:
    """
    Return the conditions that follow from those before and what is judged now.

    The time of a condition moves only with its status. Conditions of types that are neither
    judged nor in `gone` belong to others and stay.
    """
    held = {str(condition.get("type")): dict(condition) for condition in before or ()}
    for type_ in gone:
        held.pop(type_, None)
    for judgement in judged:
        held[judgement.type] = _condition(held.get(judgement.type), judgement, generation, now)
    return list(held.values())


def with_condition(
    status: Manifest | None, judgement: Judgement, *, generation: int | None, now: str
) -> Manifest:
    """Return a raw status in which one condition stands as judged; the rest is as it was."""
    built = dict(status or {})
    before = built.get("conditions")
    built["conditions"] = conditions(
        before if isinstance(before, list) else (), (judgement,), generation=generation, now=now
    )
    return built


def transitions(before: Manifest | None, after: Manifest | None) -> list[Transition]:
    """
    Return the changes of status or reason that somebody cares for, as the second status has them.

    A message that merely counts on is none. A False condition that was not there before is none
    either, but for Ready: that nothing is degraded is no news. Of conditions that change for one
    reason one is told, but for warnings, and Ready before all others: its message holds theirs.
    The end of one is told where nothing else is, and that nothing is under way any more never.
    Of the first judgement of a resource only what is wrong, or Ready, is news.
    """
    old = {condition.get("type"): condition for condition in _listed(before)}
    is_birth = READY not in old
    changed: list[Transition] = []
    # Those that stood first may be another's, of a former operator.
    for condition in sorted(_listed(after), key=lambda listed: listed.get("type") != READY):
        type_, status = str(condition.get("type")), str(condition.get("status"))
        reason = str(condition.get("reason", ""))
        former = old.get(type_)
        if former is not None and (former.get("status"), former.get("reason")) == (status, reason):
            continue
        is_end = status == "False" and type_ != READY
        if is_end and (former is None or type_ == PROGRESSING or changed):
            continue
        if type_ not in _NOTICES and any(told.reason == reason for told in changed):
            continue
        is_warning = _is_warning(type_, status, reason)
        if is_birth and not is_warning and (type_, status) != (READY, "True"):
            continue
        changed.append(
            Transition(
                type=type_,
                status=status,
                reason=reason,
                message=str(condition.get("message", "")),
                warning=is_warning,
            )
        )
    return changed


def is_ready(status: Manifest) -> bool:
    """Return whether the condition Ready is True."""
    return any(
        condition.get("type") == READY and condition.get("status") == "True"
        for condition in status.get("conditions") or ()
    )


def moment(text: object) -> datetime | None:
    """Return the time that RFC 3339 text names, None where it names none: others write, too."""
    try:
        found = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return found if found.tzinfo is not None else None


def _condition(
    before: Mapping[str, Any] | None, judgement: Judgement, generation: int | None, now: str
) -> Manifest:
    status = "Unknown" if judgement.status is None else str(judgement.status)
    is_same = before is not None and before.get("status") == status
    since = before.get("lastTransitionTime") if before is not None and is_same else None
    if moment(since) is None:
        since = None
    built: Manifest = {
        "type": judgement.type,
        "status": status,
        "reason": str(judgement.reason),
        "message": _shortened(judgement.message),
        "lastTransitionTime": since or now,
    }
    if generation is not None:
        built["observedGeneration"] = generation
    return built


def _shortened(message: str) -> str:
    if len(message) <= MESSAGE_LENGTH_MAX:
        return message
    return message[: MESSAGE_LENGTH_MAX - 3] + "..."


def _listed(status: Manifest | None) -> list[Mapping[str, Any]]:
    found = (status or {}).get("conditions")
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def _is_warning(type_: str, status: str, reason: str) -> bool:
    if type_ == READY:
        return status == "False" and reason in _PROBLEMS
    if reason in _NO_WARNINGS:
        return False
    return type_ in (DEGRADED, *_NOTICES) and status == "True"
