"""
What there should be: what users asked for last, and what others did.

Pure. A child is *held* where it is right that it does not follow its resource: the resource is
paused, or only an edit of it helps; or the API server refuses the child, or a change of it. So is
one that is no longer wanted and *stays* until the workload of another kind that succeeds it serves,
or until all do, where pods run on it: without pods none ever does. A held child stays as it was
when everything was last calm. Of a kind that the API server does not serve there is no object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import TypeAlias

import msgspec
from msgspec import Struct, field

from crds.inferadeployment import KIND
from crds.kubernetes import DEPLOYMENT, LEADER_WORKER_SET, Manifest
from handlers.children import wanted_of
from handlers.conditions import Reason
from handlers.handler import Facts
from handlers.inferadeployment import HANDLER
from handlers.inferadeployment.names import common_children
from handlers.kept import with_immutable
from tests.e2e.machine.compare import Theirs, as_it_stands, differences, unlike
from tests.e2e.machine.pods import UNKNOWN
from tests.e2e.machine.specs import is_terminal
from tests.e2e.stage import condition_of

Ref: TypeAlias = str
"""`Kind/name`."""
Served: TypeAlias = Callable[[Manifest], Manifest | None]
"""What the API server makes of a rendering; None where it refuses to create it."""

CLAIMS = "volumeClaimTemplates"
_NAMESPACES_OWN = frozenset({"ServiceAccount/default"})
_OTHER = {
    DEPLOYMENT.kind: LEADER_WORKER_SET.kind,
    LEADER_WORKER_SET.kind: DEPLOYMENT.kind,
}
"""The two kinds of workload that a service may have."""


class Snapshot(Struct, frozen=True, kw_only=True):
    """The objects of a namespace as they were read."""

    resources: Mapping[str, Manifest]
    objects: Mapping[Ref, Manifest]

    def owned_by(self, uid: str) -> dict[Ref, Manifest]:
        """Return what has that owner."""
        return {
            ref: found
            for ref, found in self.objects.items()
            if any(o["uid"] == uid for o in found["metadata"].get("ownerReferences") or ())
        }


class Resource(Struct, kw_only=True):
    """One resource, from its creation to its deletion."""

    asked: Manifest
    """The spec as a user wrote it."""
    stored: Manifest
    """The resource as the API server took it."""
    valid: Manifest | None = None
    """The same, of the last spec that a handler can serve."""
    valid_asked: Manifest = field(default_factory=dict)
    is_paused: bool = False
    meddled: set[Ref] = field(default_factory=set)
    """Children that others changed while nobody may set them right."""

    @property
    def uid(self) -> str:
        """Which incarnation of its name it is."""
        found: str = self.stored["metadata"]["uid"]
        return found

    @property
    def generation(self) -> int:
        """Which version of its spec was taken last."""
        found: int = self.stored["metadata"]["generation"]
        return found

    @property
    def is_frozen(self) -> bool:
        """Whether no child of it may be written."""
        return self.is_paused or is_terminal(self.asked)

    def copy(self) -> Resource:
        """Return one that may take another spec without this one."""
        return msgspec.structs.replace(self, meddled=set(self.meddled))

    def take(self, asked: Manifest, stored: Manifest) -> None:
        """The API server took another spec."""
        self.asked, self.stored = asked, stored
        if not is_terminal(asked):
            self.valid, self.valid_asked = stored, asked
        if not self.is_frozen:
            self.meddled.clear()

    def wanted(self) -> dict[Ref, Manifest]:
        """Return the children that it asks for."""
        return {} if self.valid is None else rendered(self.valid)

    def successions(self) -> dict[Ref, Ref]:
        """
        Return the workload of another kind that each wanted one replaces: to its successor.

        One that is to have no pods replaces none: what there is goes at once.
        """
        return {
            f"{_OTHER[kind]}/{name}": ref
            for ref, child in self.wanted().items()
            for kind, _, name in [ref.partition("/")]
            if kind in _OTHER and child["spec"]["replicas"]
        }

    def let_go(self) -> set[Ref]:
        """Return what pods run on, of what it does not ask for: a broker, and their rights."""
        names = common_children(self.stored["metadata"]["name"])
        return {f"{child.kind}/{child.name}" for child in names} - self.wanted().keys()

    def may_stay(self) -> set[Ref]:
        """Return what may be there although it does not ask for it."""
        return self.successions().keys() | self.let_go()


def rendered(stored: Manifest) -> dict[Ref, Manifest]:
    """Return the children that a stored resource asks for."""
    rendering = wanted_of(HANDLER, stored, Facts()).rendering
    return {ref_of(child): child for child in rendering.children}


def kind_of(ref: Ref) -> str:
    """Return the kind of an object."""
    return ref.partition("/")[0]


def ref_of(manifest: Manifest) -> Ref:
    """Return how an object is called here."""
    return f"{manifest['kind']}/{manifest['metadata']['name']}"


class Model:
    """All of one namespace."""

    def __init__(self, served: Served, absent: AbstractSet[str], *, has_pods: bool) -> None:
        """Take the kinds that the API server does not serve just now, whenever it is asked."""
        self.has_pods = has_pods
        self.resources: dict[str, Resource] = {}
        self.squats: dict[Ref, Manifest] = {}
        """What has a child's name and is nobody's of ours, as it was made."""
        self.orphans: set[str] = set()
        """Uids of children whose owner was taken from them."""
        self.theirs = Theirs()
        self.settled = Snapshot(resources={}, objects={})
        """What was there when everything was last calm."""
        self._served = served
        self._absent = absent

    def settle(self, now: Snapshot) -> None:
        """Everything is calm, and as it should be."""
        self.settled = now
        for resource in self.resources.values():
            resource.meddled.clear()

    def lose(self, kind: str) -> set[Ref]:
        """Return what is gone with its kind, whoever's it was; nobody is to make up for it."""
        gone = {ref for ref in self.settled.objects if kind_of(ref) == kind}
        for resource in self.resources.values():
            resource.meddled |= gone
        self.squats = {ref: one for ref, one in self.squats.items() if kind_of(ref) != kind}
        return gone

    def complaints(self, now: Snapshot) -> Iterator[str]:
        """Yield, a line each, what is not as it should be."""
        if set(now.resources) != set(self.resources):
            yield f"resources {sorted(now.resources)}, expected {sorted(self.resources)}"
            return
        for ref, found in now.objects.items():
            yield from self._stray(ref, found)
        for ref, squat in self.squats.items():
            if ref not in now.objects:
                yield f"{ref}: somebody else's, and gone"
            else:
                for line in unlike(as_it_stands(squat), as_it_stands(now.objects[ref]), ""):
                    yield f"{ref}: somebody else's, and changed: {line}"
        for name, resource in self.resources.items():
            if now.resources[name]["metadata"]["uid"] != resource.uid:
                yield f"{name} is another one than was made"
                continue
            for line in self._children(resource, now):
                yield f"{name}: {line}"
            for line in self._status(resource, now.resources[name], now):
                yield f"{name}: {line}"

    def wanted(self, resource: Resource) -> dict[Ref, Manifest]:
        """Return the children that a resource asks for, of kinds that are served."""
        wanted = resource.wanted().items()
        return {ref: child for ref, child in wanted if kind_of(ref) not in self._absent}

    def not_installed(self, resource: Resource) -> set[Ref]:
        """Return the children that a resource asks for, of kinds that are not served."""
        return {ref for ref in resource.wanted() if kind_of(ref) in self._absent}

    def held(self, resource: Resource, now: Snapshot) -> set[Ref]:
        """Return the children of a resource that is not frozen which do not follow it."""
        return self._refused(resource, now) | self.staying(resource, now)

    def staying(self, resource: Resource, now: Snapshot) -> set[Ref]:
        """
        Return what waits in vain.

        That are workloads for their successors, and what pods run on for all workloads to move.
        """
        before = self.settled.owned_by(resource.uid)
        lacking = self.lacking(resource, now)
        owned = now.owned_by(resource.uid)
        is_moving = any(
            (ref in lacking or not self.has_pods) and (child["spec"]["replicas"] or ref in owned)
            for ref, child in resource.wanted().items()
            if kind_of(ref) in _OTHER
        )
        underlying = resource.let_go() & before.keys() if is_moving else set()
        return underlying | {
            former
            for former, successor in resource.successions().items()
            if former in before and kind_of(former) not in self._absent
            if successor in lacking or not self.has_pods
        }

    def lacking(self, resource: Resource, now: Snapshot) -> set[Ref]:
        """Return the children that are not as their resource asks."""
        squatted = self.squats.keys() & resource.wanted().keys()
        return self._refused(resource, now) | self.not_installed(resource) | squatted

    def _refused(self, resource: Resource, now: Snapshot) -> set[Ref]:
        return {
            ref
            for ref, child in self.wanted(resource).items()
            if ref not in self.squats
            and (self._served(child) is None or self._is_fixed(ref, child, now))
        }

    def _is_fixed(self, ref: Ref, child: Manifest, now: Snapshot) -> bool:
        """Whether a live child of former times cannot become as it is wanted: a volume's size."""
        live, before = now.objects.get(ref), self.settled.objects.get(ref)
        if child["kind"] != "StatefulSet" or live is None or before is None:
            return False
        served = self._served(child)
        is_of_before = live["metadata"]["uid"] == before["metadata"]["uid"]
        return (
            is_of_before and served is not None and live["spec"][CLAIMS] != served["spec"][CLAIMS]
        )

    def _stray(self, ref: Ref, found: Manifest) -> Iterator[str]:
        owners = found["metadata"].get("ownerReferences") or ()
        if not owners:
            is_known = ref in self.squats or ref in _NAMESPACES_OWN
            if not is_known and found["metadata"]["uid"] not in self.orphans:
                yield f"{ref} has no owner, and nobody made it"
        for owner in owners:
            resource = self.resources.get(owner["name"])
            if owner["kind"] == KIND.kind and (resource is None or resource.uid != owner["uid"]):
                yield f"{ref} is left of a {owner['name']} that is gone"

    def _children(self, resource: Resource, now: Snapshot) -> Iterator[str]:
        owned = now.owned_by(resource.uid)
        before = self.settled.owned_by(resource.uid)
        if resource.is_frozen:
            yield from _as_before(before, owned, resource.meddled)
            return
        wanted = self.wanted(resource)
        fixed = {ref for ref, child in wanted.items() if self._is_fixed(ref, child, now)}
        held = self.held(resource, now) - fixed
        yield from _as_before(
            {ref: found for ref, found in before.items() if ref in held},
            {ref: found for ref, found in owned.items() if ref in held},
            resource.meddled,
        )
        for ref in sorted(set(owned) - set(wanted) - held):
            yield f"{ref} is not wanted any more"
        for ref, child in wanted.items():
            if ref in held or ref in self.squats:
                continue
            if (live := owned.get(ref)) is None:
                yield f"{ref} is missing"
                continue
            served = self._served(child)
            assert served is not None
            self.theirs.taken_back(live["metadata"]["uid"], child)
            fitted = child
            if ref in fixed:
                # It follows its resource in all that can be changed.
                fitted = with_immutable(child, live)
                spec = {**served["spec"], CLAIMS: live["spec"][CLAIMS]}
                served = {**served, "spec": spec}
            for line in differences(live, fitted, served, self.theirs):
                yield f"{ref}: {line}"

    def _status(self, resource: Resource, live: Manifest, now: Snapshot) -> Iterator[str]:
        generation = live["metadata"]["generation"]
        status = live.get("status") or {}
        said = {c["type"]: (c["status"], c["reason"]) for c in status.get("conditions") or ()}
        for condition in status.get("conditions") or ():
            if condition.get("observedGeneration") != generation:
                yield f"condition {condition['type']} is not of generation {generation}"
        if not said:
            yield "has no status yet"
        elif is_terminal(resource.asked):
            for type_, value in (("Ready", "False"), ("Degraded", "True")):
                yield from unlike((value, "InvalidSpec"), said.get(type_), type_)
        elif resource.is_paused:
            yield from unlike(("False", "Paused"), said.get("Progressing"), "Progressing")
        else:
            yield from unlike(generation, status.get("observedGeneration"), "observedGeneration")
            yield from self._degraded(resource, condition_of(live, "Degraded"), now)

    def _degraded(self, resource: Resource, condition: Manifest, now: Snapshot) -> Iterator[str]:
        """Yield what the condition Degraded should name, and does not; or should not be there."""
        lacking = self.lacking(resource, now)
        message = condition.get("message", "")
        for ref in sorted(lacking):
            if ref.replace("/", " ") not in message and not message.endswith("..."):
                yield f"Degraded does not name {ref}: {message}"
        if lacking and lacking == self.not_installed(resource):
            yield from unlike(Reason.KIND_NOT_INSTALLED, condition.get("reason"), "Degraded")
        is_degraded = bool(lacking) or has_unknown_fields(resource)
        yield from unlike(str(is_degraded), condition.get("status"), "Degraded")


def has_unknown_fields(resource: Resource) -> bool:
    """Whether a spec holds what no API server knows (`pods.UNKNOWN`), in what is served."""

    def is_in(value: object) -> bool:
        if isinstance(value, dict):
            return any(key in UNKNOWN or is_in(item) for key, item in value.items())
        return isinstance(value, list) and any(map(is_in, value))

    services = resource.valid_asked["services"].values()
    return any(is_in(given.get("extraPodSpec")) for given in services)


def _as_before(
    before: Mapping[Ref, Manifest], now: Mapping[Ref, Manifest], meddled: set[Ref]
) -> Iterator[str]:
    """Yield how children that nobody may write changed all the same."""
    for ref in sorted({*before, *now} - meddled):
        if ref not in now:
            yield f"{ref} is held, and gone"
        elif ref not in before:
            yield f"{ref} is held, and was made"
        else:
            for line in unlike(as_it_stands(before[ref]), as_it_stands(now[ref]), ""):
                yield f"{ref} is held, and changed: {line}"
