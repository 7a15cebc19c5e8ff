"""
A stand-in for a Gateway controller with the Gateway API Inference Extension, such as kgateway.

It says in status what such a controller says: which Gateway is programmed, which HTTPRoute a
Gateway accepts, which InferencePool a Gateway serves. No traffic flows. Every Gateway is its own,
whatever its class; one of the class WITHOUT_INFERENCE is served as by a controller that knows no
InferencePools. What it leaves out: hostnames, sections and ports of listeners, namespace selectors,
ReferenceGrants, back ends other than InferencePools (they count as found), and the endpoint picker,
which nobody calls.

A route whose Gateway is gone loses the entry of that Gateway, as the specification has it; one that
the listeners of a Gateway do not allow is told so (`Accepted` False), and one whose back end is not
there, or of a kind that the controller does not know (`ResolvedRefs` False).
Source: Gateway API reference, HTTPRouteStatus; GAIE reference, InferencePoolStatus.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from crds.kind import Kind
from crds.kubernetes import HTTP_ROUTE, INFERENCE_POOL, Manifest
from handlers.cli.devstack.cluster import Cluster
from tests.faults.stand_ins.client import ApiError, Client, Controller, Copy, Key

MANAGER = "stand-in-gateway"
CONTROLLER_NAME = "stand-in.weir.dev/gateway"

WITHOUT_INFERENCE = "without-inference"
"""Class of Gateways whose controller knows no InferencePools."""

GATEWAY_GROUP = HTTP_ROUTE.group
GATEWAY = Kind(group=GATEWAY_GROUP, version="v1", kind="Gateway", plural="gateways")


class StandInGateways:
    """Serves Gateways, HTTPRoutes and InferencePools of all namespaces while it is started."""

    def __init__(self, cluster: Cluster) -> None:
        """Take the API server; an administrator's kubeconfig is used."""
        self._client = Client(cluster.kubeconfig(), MANAGER)
        self._gateways = Copy(GATEWAY, "")
        self._routes = Copy(HTTP_ROUTE, "")
        self._pools = Copy(INFERENCE_POOL, "")
        watched = [self._gateways, self._routes, self._pools]
        self._controller = Controller(self._client, watched, self._reconcile)

    async def start(self) -> None:
        """Serve from now on."""
        await self._controller.start()

    async def stop(self) -> None:
        """Write nothing any more; what was said stays."""
        await self._controller.stop()

    async def _reconcile(self) -> bool:
        """Look at everything; return whether something was refused."""
        wanted: list[tuple[Kind, Manifest, Manifest]] = []
        gateways = {
            key: gateway
            for key, gateway in self._gateways.objects.items()
            if "deletionTimestamp" not in gateway["metadata"]
        }
        wanted += [(GATEWAY, gateway, _gateway_status(gateway)) for gateway in gateways.values()]
        serves: defaultdict[Key, set[Key]] = defaultdict(set)
        for route in self._routes.objects.values():
            wanted.append((HTTP_ROUTE, route, _route_status(route, gateways, self._pools.objects)))
            for key in _pools_of(route):
                serves[key] |= {
                    gateway
                    for gateway in _parents(route)
                    if _admits(gateways, gateway, route) and _knows_pools(gateways[gateway])
                }
        for key, pool in self._pools.objects.items():
            wanted.append((INFERENCE_POOL, pool, _pool_status(pool, sorted(serves[key]))))
        refused = False
        for kind, item, status in wanted:
            try:
                await self._write(kind, item, status)
            except ApiError:
                refused = True
        return refused

    async def _write(self, kind: Kind, item: Manifest, status: Manifest) -> None:
        if status == (item.get("status") or {}):
            return
        metadata = item["metadata"]
        body = {**item, "apiVersion": kind.api_version, "kind": kind.kind, "status": status}
        await self._client.put(kind.path(metadata["namespace"], metadata["name"], "status"), body)


def a_gateway(namespaces: Manifest | None = None, *, class_name: str = "any") -> Manifest:
    """
    Return a Gateway `inference` with one listener.

    `namespaces` is its `allowedRoutes.namespaces`; left out, the API server says `from: Same`.
    """
    listener: Manifest = {"name": "http", "port": 80, "protocol": "HTTP"}
    if namespaces:
        listener["allowedRoutes"] = {"namespaces": namespaces}
    return {
        "apiVersion": GATEWAY.api_version,
        "kind": GATEWAY.kind,
        "metadata": {"name": "inference"},
        "spec": {"gatewayClassName": class_name, "listeners": [listener]},
    }


def _gateway_status(gateway: Manifest) -> Manifest:
    present = gateway.get("status") or {}
    true = {"Accepted": ("True", "Accepted", ""), "Programmed": ("True", "Programmed", "")}
    return {**present, "conditions": _conditions(gateway, present.get("conditions"), true)}


def _route_status(
    route: Manifest, gateways: Mapping[Key, Manifest], pools: Mapping[Key, Manifest]
) -> Manifest:
    """Return an entry for every Gateway that is there, beside those of other controllers."""
    present: list[Manifest] = (route.get("status") or {}).get("parents") or []
    entries = [entry for entry in present if entry["controllerName"] != CONTROLLER_NAME]
    ours = [entry for entry in present if entry["controllerName"] == CONTROLLER_NAME]
    for reference, gateway in _references(route):
        if gateway not in gateways:
            continue
        said = next((entry for entry in ours if entry["parentRef"] == reference), {})
        accepted = ("True", "Accepted", "")
        if not _admits(gateways, gateway, route):
            where = route["metadata"]["namespace"]
            message = f"no listener of the Gateway allows routes from the namespace {where}"
            accepted = ("False", "NotAllowedByListeners", message)
        lacking = [name for namespace, name in _pools_of(route) if (namespace, name) not in pools]
        resolved = ("True", "ResolvedRefs", "")
        if lacking:
            resolved = ("False", "BackendNotFound", f"no InferencePool {', '.join(lacking)}")
        if _pools_of(route) and not _knows_pools(gateways[gateway]):
            resolved = ("False", "InvalidKind", "no such kind of back end: InferencePool")
        told = {"Accepted": accepted, "ResolvedRefs": resolved}
        entries.append(
            {
                "parentRef": reference,
                "controllerName": CONTROLLER_NAME,
                "conditions": _conditions(route, said.get("conditions"), told),
            }
        )
    return {"parents": entries} if entries or present else route.get("status") or {}


def _pool_status(pool: Manifest, gateways: Iterable[Key]) -> Manifest:
    """Return an entry for every Gateway that a route leads from to the pool."""
    status = pool.get("status") or {}
    present: list[Manifest] = status.get("parents") or []
    entries = []
    for namespace, name in gateways:
        reference = {
            "group": GATEWAY_GROUP,
            "kind": "Gateway",
            "name": name,
            "namespace": namespace,
        }
        said = next((entry for entry in present if entry["parentRef"] == reference), {})
        told = {"Accepted": ("True", "Accepted", ""), "ResolvedRefs": ("True", "ResolvedRefs", "")}
        entries.append(
            {
                "parentRef": reference,
                "conditions": _conditions(pool, said.get("conditions"), told),
            }
        )
    return {**status, "parents": entries} if entries or present else status


def _references(route: Manifest) -> list[tuple[Manifest, Key]]:
    """Return the references to Gateways, each with the Gateway that it means."""
    own = route["metadata"]["namespace"]
    return [
        (reference, (reference.get("namespace", own), reference["name"]))
        for reference in route["spec"].get("parentRefs") or ()
        if (reference["group"], reference["kind"]) == (GATEWAY_GROUP, "Gateway")
    ]


def _parents(route: Manifest) -> list[Key]:
    return [gateway for _, gateway in _references(route)]


def _pools_of(route: Manifest) -> list[Key]:
    """Return the InferencePools that a route leads to."""
    namespace = route["metadata"]["namespace"]
    return [
        (backend.get("namespace", namespace), backend["name"])
        for rule in route["spec"].get("rules") or ()
        for backend in rule.get("backendRefs") or ()
        if (backend["group"], backend["kind"]) == (INFERENCE_POOL.group, INFERENCE_POOL.kind)
    ]


def _admits(gateways: Mapping[Key, Manifest], key: Key, route: Manifest) -> bool:
    """Return whether a Gateway is there and a listener of it allows a route's namespace."""
    if key not in gateways:
        return False
    is_same = key[0] == route["metadata"]["namespace"]
    return any(
        allowed == "All" or (allowed == "Same" and is_same)
        for listener in gateways[key]["spec"]["listeners"]
        for allowed in [listener["allowedRoutes"]["namespaces"]["from"]]
    )


def _knows_pools(gateway: Manifest) -> bool:
    return bool(gateway["spec"]["gatewayClassName"] != WITHOUT_INFERENCE)


def _conditions(
    of: Manifest, present: list[Manifest] | None, told: Mapping[str, tuple[str, str, str]]
) -> list[Manifest]:
    """Return conditions by type as told, the time kept where the status is the same."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    before = {condition["type"]: condition for condition in present or ()}
    return [
        {
            "type": type_,
            "status": status,
            "reason": reason,
            "message": message,
            "observedGeneration": of["metadata"]["generation"],
            "lastTransitionTime": before[type_]["lastTransitionTime"]
            if before.get(type_, {}).get("status") == status
            else now,
        }
        for type_, (status, reason, message) in told.items()
    ]
