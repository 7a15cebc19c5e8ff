"""What the status of an InferaDeployment may say: AMD's fields, and conditions."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from crds.fields import list_map
from crds.kubernetes import Condition


class ServiceStatus(Struct, frozen=True, kw_only=True, rename="camel"):
    """One service as its workload reports it."""

    kind: str = ""
    """Kind of the workload."""
    replicas: int = 0
    """Pods or groups that exist."""
    ready_replicas: int = 0
    """Pods or groups that are ready."""


class GaieStatus(Struct, frozen=True, kw_only=True, rename="camel"):
    """The Inference Gateway's parts as they report themselves."""

    epp_replicas: int = 0
    """Pods of the endpoint picker."""
    epp_ready_replicas: int = 0
    """Pods of the endpoint picker that are ready."""
    inference_pool_name: str = ""
    """Name of the InferencePool."""
    inference_pool_ready: bool = False
    """True when the pool exists and no Gateway that reports of it has anything against it."""
    http_route_name: str = ""
    """Name of the HTTPRoute."""
    http_route_accepted: bool = False
    """True when the Gateway accepted the route."""
    ready: bool = False
    """True when picker and pool are ready, and the route is accepted and leads to the pool."""


class Status(Struct, frozen=True, kw_only=True, rename="camel"):
    """What is true now."""

    observed_generation: int | None = None
    """Generation of the spec that this status speaks of."""
    state: str = ""
    """initializing, pending, ready or failed."""
    conditions: Annotated[list[Condition], list_map("type")] | None = None
    """Ready, Progressing and Degraded, and what else is worth saying; each says what to do."""
    services: dict[str, ServiceStatus] | None = None
    """The services as their workloads report them."""
    gaie: GaieStatus | None = None
    """The Inference Gateway's parts, where gaie is enabled."""
