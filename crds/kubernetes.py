"""The few Kubernetes shapes that Weir names, and the kinds it makes objects of."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from msgspec import Struct

from crds.kind import Kind

Manifest: TypeAlias = dict[str, Any]
"""A Kubernetes object as plain JSON data."""


class OwnerReference(Struct, frozen=True, rename="camel", kw_only=True):
    """One entry of `metadata.ownerReferences`."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class ObjectMeta(Struct, frozen=True, rename="camel", kw_only=True, gc=False):
    """The part of `metadata` that decisions are made from; absent and null fields are empty."""

    name: str = ""
    namespace: str | None = None
    uid: str = ""
    resource_version: str = ""
    generation: int | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None

    @property
    def controller(self) -> OwnerReference | None:
        """The owner reference with `controller: true`, of which an object has at most one."""
        return next((ref for ref in self.owner_references or () if ref.controller), None)


class Condition(Struct, frozen=True, rename="camel", kw_only=True):
    """
    A status condition in the standard shape.

    Source: k8s.io/apimachinery meta/v1 `Condition`.
    """

    type: str
    """What it speaks of."""
    status: Literal["True", "False", "Unknown"]
    """Whether that is so."""
    reason: str
    """Why, in one CamelCase word."""
    message: str = ""
    """Why, for people, and what to do."""
    last_transition_time: str = ""
    """RFC 3339, to the second; changes only with `status`."""
    observed_generation: int | None = None
    """Generation of the spec that it speaks of."""


DEPLOYMENT = Kind(group="apps", version="v1", kind="Deployment", plural="deployments")
STATEFUL_SET = Kind(group="apps", version="v1", kind="StatefulSet", plural="statefulsets")
SERVICE = Kind(group="", version="v1", kind="Service", plural="services")
SERVICE_ACCOUNT = Kind(group="", version="v1", kind="ServiceAccount", plural="serviceaccounts")
POD = Kind(group="", version="v1", kind="Pod", plural="pods")
CONFIG_MAP = Kind(group="", version="v1", kind="ConfigMap", plural="configmaps")
EVENT = Kind(group="", version="v1", kind="Event", plural="events")
_RBAC = "rbac.authorization.k8s.io"
ROLE = Kind(group=_RBAC, version="v1", kind="Role", plural="roles")
ROLE_BINDING = Kind(group=_RBAC, version="v1", kind="RoleBinding", plural="rolebindings")
CUSTOM_RESOURCE_DEFINITION = Kind(
    group="apiextensions.k8s.io",
    version="v1",
    kind="CustomResourceDefinition",
    plural="customresourcedefinitions",
    namespaced=False,
)
LEADER_WORKER_SET = Kind(
    group="leaderworkerset.x-k8s.io",
    version="v1",
    kind="LeaderWorkerSet",
    plural="leaderworkersets",
)
GROUP_LABEL = "leaderworkerset.sigs.k8s.io/name"
"""
Label of the pods of a LeaderWorkerSet: its name.

Source: LeaderWorkerSet, `api/leaderworkerset/v1`, SetNameLabelKey.
"""
INFERENCE_POOL = Kind(
    group="inference.networking.k8s.io",
    version="v1",
    kind="InferencePool",
    plural="inferencepools",
)
HTTP_ROUTE = Kind(
    group="gateway.networking.k8s.io",
    version="v1",
    kind="HTTPRoute",
    plural="httproutes",
)
