"""
Whether a pool and a route are taken by their Gateway, as its controller reports it.

A route that is `Accepted` may still lead nowhere: where `ResolvedRefs` is False for all of a rule's
back ends, its requests are answered with the status 500.
Source: Gateway API 1.6, `RouteConditionAccepted`, `RouteConditionResolvedRefs` and
`HTTPRouteRule.backendRefs`; GAIE 1, `InferencePoolStatus`, has conditions of the same two types.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct

from crds.kubernetes import Manifest
from handlers.conditions import Reason
from handlers.manifests import entries

ACCEPTED = "Accepted"
RESOLVED = "ResolvedRefs"

NOT_ALLOWED = "NotAllowedByListeners"
NOT_FOUND = "BackendNotFound"
_REMEDIES = {
    "NoMatchingListenerHostname": "change spec.gaie.hostnames, or the hostname of a listener",
    "InvalidKind": "its controller must serve InferencePools: switch its Inference Extension on, "
    "or name another Gateway in spec.gaie",
}
"""What to do, by the reason that a condition gives."""


class Gateway(Struct, frozen=True, kw_only=True):
    """The Gateway that a route attaches to."""

    name: str
    namespace: str | None

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    def is_meant(self, reference: Any) -> bool:
        """Say whether a parentRef means this Gateway; one without namespace may."""
        if not _is_gateway(reference):
            return False
        namespace = reference.get("namespace") or self.namespace
        return reference.get("name") == self.name and namespace == self.namespace


class Acceptance(Struct, frozen=True, kw_only=True):
    """How a Gateway stands to an object."""

    is_accepted: bool = False
    """It took the object, whatever became of what that refers to."""
    reason: Reason = Reason.CREATING
    lacks: str = "does not exist yet"
    """What keeps requests from coming through; empty where nothing does."""

    @property
    def is_ready(self) -> bool:
        """Whether requests come through."""
        return not self.lacks


_READY = Acceptance(is_accepted=True, reason=Reason.ALL_READY, lacks="")


def pool(live: Manifest | None, gateway: Gateway) -> Acceptance:
    """
    Judge an InferencePool: it exists, and whoever reports conditions of it has nothing against it.

    A Gateway's controller need not report any. What other Gateways say counts while ours is silent.
    """
    if live is None:
        return Acceptance()
    parents = [parent for parent in _parents(live) if _is_gateway(parent.get("parentRef"))]
    ours = [parent for parent in parents if gateway.is_meant(parent.get("parentRef"))]
    judged = [
        _judged(parent, live, _named(parent, gateway))
        for parent in ours or parents
        if any(_conditions(parent, ACCEPTED, RESOLVED))
    ]
    return _worst(judged) or _READY


def route(live: Manifest | None, gateway: Gateway) -> Acceptance:
    """Judge an HTTPRoute: its Gateway accepted its present version, and found its back end."""
    if live is None:
        return Acceptance()
    parents = [parent for parent in _parents(live) if gateway.is_meant(parent.get("parentRef"))]
    judged = [_judged(parent, live, gateway) for parent in parents]
    if _READY in judged:
        return _READY
    accepted = [acceptance for acceptance in judged if acceptance.is_accepted]
    return _worst(accepted or judged) or _untold(live, gateway)


def _is_gateway(reference: Any) -> bool:
    return isinstance(reference, dict) and reference.get("kind", "Gateway") == "Gateway"


def _parents(live: Manifest) -> list[Manifest]:
    return entries(live.get("status") or {}, "parents")


def _named(parent: Manifest, ours: Gateway) -> Gateway:
    """Return the Gateway that an entry of a status is about."""
    reference = parent["parentRef"]
    if ours.is_meant(reference):
        return ours
    return Gateway(name=str(reference.get("name")), namespace=reference.get("namespace"))


def _conditions(parent: Manifest, *types: str) -> Iterator[Manifest]:
    return (c for c in entries(parent, "conditions") if c.get("type") in types)


def _judged(parent: Manifest, live: Manifest, gateway: Gateway) -> Acceptance:
    """Return what one entry says, by what it says against the present version of the object."""
    said = [c for c in _conditions(parent, ACCEPTED, RESOLVED) if _is_present(c, live)]
    words = {condition.get("type"): condition for condition in said}
    accepted, resolved = words.get(ACCEPTED, {}), words.get(RESOLVED, {})
    if accepted.get("status") == "False":
        return Acceptance(
            reason=Reason.NOT_ACCEPTED,
            lacks=f"is not accepted by the Gateway {gateway}: {_why(accepted, live, gateway)}",
        )
    is_accepted = accepted.get("status") == "True"
    if resolved.get("status") == "False":
        # Of a pool that was just made, which is one of our children: its controller will see it.
        is_on_its_way = resolved.get("reason") == NOT_FOUND
        return Acceptance(
            is_accepted=is_accepted,
            reason=Reason.WAITING_FOR_GATEWAY if is_on_its_way else Reason.NOT_RESOLVED,
            lacks=f"leads nowhere: the Gateway {gateway} does not resolve what it refers to: "
            f"{_why(resolved, live, gateway)}",
        )
    is_resolved = resolved.get("status") == "True" or not any(_conditions(parent, RESOLVED))
    if is_accepted and is_resolved:
        return _READY
    return _waiting(gateway, is_accepted=is_accepted)


def _worst(judged: Iterable[Acceptance]) -> Acceptance | None:
    """Return what says most against it; None where nobody says anything."""
    order = (Reason.NOT_ACCEPTED, Reason.NOT_RESOLVED, Reason.WAITING_FOR_GATEWAY, Reason.ALL_READY)
    return min(judged, key=lambda acceptance: order.index(acceptance.reason), default=None)


def _is_present(condition: Manifest, live: Manifest) -> bool:
    """Say whether a condition speaks of the present version; one that names none does."""
    generation = _metadata(live).get("generation")
    observed = condition.get("observedGeneration")
    if not isinstance(generation, int) or not isinstance(observed, int):
        return True
    return observed >= generation


def _why(condition: Manifest, live: Manifest, gateway: Gateway) -> str:
    """Return the controller's own words, and what to do."""
    reason = condition.get("reason")
    words = condition.get("message") or reason or "no reason given"
    remedy = _admission(live, gateway) if reason == NOT_ALLOWED else _REMEDIES.get(str(reason))
    return f"{words}; {remedy}" if remedy else words


def _admission(live: Manifest, gateway: Gateway) -> str:
    """Return which listeners take a route."""
    namespace = _metadata(live).get("namespace")
    if namespace == gateway.namespace:
        return f"allowedRoutes of one of its listeners must allow HTTPRoutes of {namespace}"
    return (
        f"allowedRoutes.namespaces.from of one of its listeners must allow the namespace "
        f"{namespace}: All, or Selector with a selector that matches it"
    )


def _waiting(gateway: Gateway, *, is_accepted: bool) -> Acceptance:
    """Return that a controller has begun, and where to look if it does not end."""
    return Acceptance(
        is_accepted=is_accepted,
        reason=Reason.WAITING_FOR_GATEWAY,
        lacks=f"is not {'resolved' if is_accepted else 'accepted'} yet; if that stays, look at the "
        f"controller of the Gateway {gateway}",
    )


def _untold(live: Manifest, gateway: Gateway) -> Acceptance:
    """
    Return that nobody says anything of a route, and why that may be.

    No entry is made where there is no such Gateway, and none need be made where its controller has
    no access to the namespace (source: Gateway API, `RouteParentStatus.conditions`).
    """
    checks = f"that the Gateway {gateway} exists, and that its controller runs"
    if _metadata(live).get("namespace") != gateway.namespace:
        checks += f"; {_admission(live, gateway)}"
    return Acceptance(
        reason=Reason.WAITING_FOR_GATEWAY,
        lacks=f"is not accepted yet; if that stays, check {checks}",
    )


def _metadata(live: Manifest) -> Manifest:
    found: Manifest = live.get("metadata") or {}
    return found
