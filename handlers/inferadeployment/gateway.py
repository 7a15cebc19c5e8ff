"""Whether a pool and a route are taken by their Gateway, as its controller reports it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from crds.kubernetes import Manifest
from handlers.conditions import Reason
from handlers.manifests import entries

ACCEPTED = "Accepted"
"""Type of the condition (source: Gateway API, `RouteConditionAccepted`; GAIE has the same)."""


class Gateway(Struct, frozen=True, kw_only=True):
    """The Gateway that a route attaches to."""

    name: str
    namespace: str | None

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    def is_meant(self, reference: Any) -> bool:
        """Say whether a parentRef means this Gateway; one without namespace may."""
        if not isinstance(reference, dict) or reference.get("kind", "Gateway") != "Gateway":
            return False
        namespace = reference.get("namespace") or self.namespace
        return reference.get("name") == self.name and namespace == self.namespace


class Acceptance(Struct, frozen=True, kw_only=True):
    """Whether an object is taken, and what it lacks if not."""

    is_accepted: bool = False
    reason: Reason = Reason.CREATING
    lacks: str = "does not exist yet"


_ACCEPTED = Acceptance(is_accepted=True)


def pool(live: Manifest | None, gateway: Gateway) -> Acceptance:
    """
    Judge an InferencePool: it exists, and whoever reports conditions of it accepted it.

    A Gateway's controller need not report any.
    """
    if live is None:
        return Acceptance()
    parents = entries(live.get("status") or {}, "parents")
    ours = [parent for parent in parents if gateway.is_meant(parent.get("parentRef"))]
    said = [*_conditions(ours or parents)]
    if all(_is_true(condition, live) for condition in said):
        return _ACCEPTED
    return _lacking([c for c in said if not _is_true(c, live)], live, gateway)


def route(live: Manifest | None, gateway: Gateway) -> Acceptance:
    """Judge an HTTPRoute: its Gateway accepted it in its present version."""
    if live is None:
        return Acceptance()
    parents = entries(live.get("status") or {}, "parents")
    said = [*_conditions(p for p in parents if gateway.is_meant(p.get("parentRef")))]
    if any(_is_true(condition, live) for condition in said):
        return _ACCEPTED
    return _lacking(said, live, gateway)


def _conditions(parents: Any) -> Iterator[Manifest]:
    for parent in parents:
        for condition in entries(parent, "conditions"):
            if condition.get("type") == ACCEPTED:
                yield condition


def _is_present(condition: Manifest, live: Manifest) -> bool:
    """Say whether a condition speaks of the present version; one that names none does."""
    generation = (live.get("metadata") or {}).get("generation")
    observed = condition.get("observedGeneration")
    if not isinstance(generation, int) or not isinstance(observed, int):
        return True
    return observed >= generation


def _is_true(condition: Manifest, live: Manifest) -> bool:
    return condition.get("status") == "True" and _is_present(condition, live)


def _lacking(said: list[Manifest], live: Manifest, gateway: Gateway) -> Acceptance:
    """Return what is said against it; where nobody says anything, that."""
    for condition in said:
        if condition.get("status") == "False" and _is_present(condition, live):
            why = condition.get("message") or condition.get("reason") or "no reason given"
            return Acceptance(
                reason=Reason.NOT_ACCEPTED,
                lacks=f"is not accepted by the Gateway {gateway}: {why}",
            )
    return Acceptance(
        reason=Reason.WAITING_FOR_GATEWAY,
        lacks=f"is not accepted yet; if that stays, check that the Gateway {gateway} exists, and "
        f"that its controller runs",
    )
