"""
InferaDeployment: a model served by a router and pools of workers.

These are the fields of AMD's resource of that name; `nats.shared`, `nats.url` and
`nats.credentialsSecretRef` are ours. Lists and maps may be null, as Go writes them. Bounds that
only keep the API server's rules cheap are not enforced on reading (`crds.fields.limits`).
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, TypeAlias

from msgspec import Meta, Struct

from crds.contract import Child, Contract, Labels, Reference
from crds.fields import (
    REASON,
    Column,
    EnvVar,
    Int32,
    PodLabels,
    PodSpec,
    Port,
    Quantity,
    Text,
    limits,
    rule,
    rules,
)
from crds.inferadeployment_gaie import Gaie
from crds.inferadeployment_status import Status
from crds.kind import Kind
from crds.kubernetes import (
    CUSTOM_RESOURCE_DEFINITION,
    DEPLOYMENT,
    HTTP_ROUTE,
    INFERENCE_POOL,
    LEADER_WORKER_SET,
    ROLE,
    ROLE_BINDING,
    SERVICE,
    SERVICE_ACCOUNT,
    STATEFUL_SET,
    Manifest,
    ObjectMeta,
)

MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
MANAGED_BY = "infera-operator"
"""Who the children say that they are managed by: selectors hold it and cannot change."""
DEPLOYMENT_LABEL = "infera.amd.com/deployment"
SERVICE_LABEL = "infera.amd.com/service"
COMPONENT_LABEL = "infera.amd.com/component"
FRONTEND_LABEL = "infera.amd.com/gaie-frontend"
RESERVED_SERVICE_NAMES = ("nats", "epp", "disc", "pool", "route")
"""Suffixes of the children that are not services."""
_RESERVED_LIST = ", ".join(f"'{name}'" for name in RESERVED_SERVICE_NAMES)
CHILD_NAME_LENGTH_MAX = 63
"""Of `<deployment>-<service>`: it names a Service and is a label (RFC 1123)."""

Args: TypeAlias = Annotated[list[str], limits(maxItems=1024)]
Env: TypeAlias = Annotated[list[EnvVar], limits(maxItems=1024)]


class Resources(Struct, frozen=True, kw_only=True, rename="camel"):
    """What one pod of a service asks for."""

    gpu: Annotated[Int32, Meta(ge=0)] = 0
    """GPUs of each pod, requested and limited as gpuType."""
    gpu_type: Annotated[
        str,
        limits(maxLength=317),
        rules(
            rule(
                "self.matches('^[a-z0-9][-a-z0-9.]*/[A-Za-z0-9][-A-Za-z0-9_.]*$')",
                "gpuType must be the name of a resource with its domain, such as amd.com/gpu",
            )
        ),
    ] = "amd.com/gpu"
    """Name of the GPU resource."""
    cpu: Quantity | None = None
    """CPU requested, for example 4 or 500m; never a limit."""
    memory: Quantity | None = None
    """Memory requested, for example 64Gi; never a limit."""
    shared_memory: Quantity | None = None
    """Size of a memory volume at /dev/shm; none is mounted without it."""


class Service(Struct, frozen=True, kw_only=True, rename="camel"):
    """One service: the router or a pool of engine workers."""

    rules: ClassVar[tuple[Manifest, ...]] = (
        rule(
            "self.componentType != 'server' || !has(self.role)"
            " || (oldSelf.hasValue() && has(oldSelf.value().role))",
            "role is for workers, and this service is a server: remove role, or set"
            " componentType to worker",
            sees_old=True,
        ),
        rule(
            "self.componentType != 'server' || !has(self.numberOfNodes) || self.numberOfNodes <= 1",
            "numberOfNodes is for workers, and this service is a server: remove numberOfNodes"
            " and raise replicas instead",
        ),
    )

    component_type: Literal["server", "worker"]
    """server is the router, with a Service in front; worker is a pool of engines."""
    role: Literal["mixed", "prefill", "decode"] | None = None
    """What the workers do: mixed (as when left out), or one half of disaggregated serving."""
    replicas: Annotated[Int32, Meta(ge=0)] = 1
    """Pods, or groups of numberOfNodes pods."""
    number_of_nodes: Annotated[Int32, Meta(ge=1)] = 1
    """Pods of one worker; more than 1 makes a LeaderWorkerSet with groups of that size."""
    skip_readiness_probe: bool = False
    """Leaves out the readiness probe that workers otherwise get."""
    image: Text | None = None
    """Image of this service; spec.image when left out."""
    port: Port | None = None
    """Port that it listens on: 8000 for a server, 30000 for a worker when left out."""
    args: Args | None = None
    """Arguments, appended to the command that Weir builds."""
    env: Env | None = None
    """Environment of this service, after spec.envs; the last of a name wins."""
    resources: Resources | None = None
    """CPU, memory, GPUs and shared memory of each pod."""
    extra_pod_spec: PodSpec | None = None
    """
    A whole PodSpec, used instead of the one that is built from the other fields. Its first
    container named main or infera, else its first, gains the port, the discovery variables and,
    for workers, probe, preStop hook and grace period where it has none.
    """
    pod_labels: PodLabels | None = None
    """Labels for the pods besides ours, which win."""


class SecretKey(Struct, frozen=True, kw_only=True, rename="camel"):
    """A key of a Secret in the same namespace."""

    name: Annotated[str, Meta(extra_json_schema={"minLength": 1}), limits(maxLength=253)]
    """Name of the Secret."""
    key: Annotated[str, Meta(extra_json_schema={"minLength": 1}), limits(maxLength=253)] = "url"
    """Key that holds the whole URL, user and password included."""


class Nats(Struct, frozen=True, kw_only=True, rename="camel"):
    """
    Which NATS carries the engines' KV-cache events: an own broker unless told otherwise.

    One of: deploy true (an own broker), url or credentialsSecretRef (a NATS that is there
    already), shared (the NATS of this platform), deploy false without these (none).
    """

    rules: ClassVar[tuple[Manifest, ...]] = (
        rule(
            "!has(self.deploy) || !self.deploy || (!has(self.url) && !(has(self.shared) &&"
            " self.shared) && !has(self.credentialsSecretRef))",
            "nats.deploy true makes an own NATS, which excludes nats.url, nats.shared and"
            " nats.credentialsSecretRef: remove nats.deploy, or remove the others",
        ),
        rule(
            "!has(self.shared) || !self.shared"
            " || (!has(self.url) && !has(self.credentialsSecretRef))",
            "nats.shared true means the NATS of this platform, which excludes nats.url and"
            " nats.credentialsSecretRef: remove nats.shared, or remove the others",
        ),
        # Not on the field itself: the server would repeat the value, password included.
        rule(
            "!has(self.url) || !self.url.contains('@')",
            "nats.url must not hold a user, password or token, which every reader of a pod would"
            " see: put the whole URL into a Secret and name that in nats.credentialsSecretRef",
        ),
    )

    deploy: bool | None = None
    """true makes an own broker, false none; left out, an own broker unless url or shared is set."""
    image: Text | None = None
    """Image of the own broker."""
    storage_size: Quantity | None = None
    """Size of the own broker's volume, 4Gi when left out; fixed once the broker exists."""
    storage_class_name: Annotated[str, limits(maxLength=253)] | None = None
    """Storage class of the own broker's volume; fixed once the broker exists."""
    shared: bool | None = None
    """true uses the NATS of this platform."""
    url: (
        Annotated[
            str,
            limits(maxLength=2048),
            rules(
                rule(
                    "self.matches('^(nats|tls|ws|wss)://[^ ]+$') || self.contains('@')",
                    "nats.url must be a URL such as nats://nats.example:4222",
                ),
            ),
        ]
        | None
    ) = None
    """URL of a NATS that is there already, without credentials."""
    credentials_secret_ref: SecretKey | None = None
    """Secret that holds the whole URL of a NATS that is there already; it wins over url."""


class Spec(Struct, frozen=True, kw_only=True, rename="camel"):
    """What shall be served, and how."""

    rules: ClassVar[tuple[Manifest, ...]] = (
        rule(
            "(has(self.image) && self.image != '') || self.services.all(name,"
            " has(self.services[name].extraPodSpec) || (has(self.services[name].image)"
            " && self.services[name].image != ''))",
            "spec.image is empty and a service has neither image nor extraPodSpec: set spec.image",
            says="'spec.image is empty and service ' + self.services.filter(name,"
            " !has(self.services[name].extraPodSpec) && (!has(self.services[name].image)"
            " || self.services[name].image == ''))[0]"
            " + ' has neither image nor extraPodSpec: set spec.image or the image of the service'",
        ),
        rule(
            "self.discoveryBackend != 'etcd' || (has(self.etcdEndpoint) &&"
            " self.etcdEndpoint != '')",
            "discoveryBackend etcd needs etcdEndpoint: set it to host:port of an etcd, or set"
            " discoveryBackend to kubernetes",
        ),
        # Not on the field itself: the server would repeat the value, password included.
        rule(
            "!has(self.etcdEndpoint) || !self.etcdEndpoint.contains('@')",
            "etcdEndpoint must not hold a user or password, which every reader of a pod would see:"
            " set it to host:port of an etcd that takes the pods without",
        ),
        rule(
            "!has(self.gaie) || !has(self.gaie.enabled) || !self.gaie.enabled"
            " || (has(self.image) && self.image != '')"
            " || (has(self.gaie.eppImage) && self.gaie.eppImage != '')",
            "gaie.enabled needs an image for the endpoint picker: set gaie.eppImage or spec.image",
        ),
    )

    backend_framework: Literal["sglang", "vllm"] = "sglang"
    """Engine that the workers run."""
    image: Text | None = None
    """Image of every service that brings none of its own."""
    discovery_backend: Literal["kubernetes", "etcd"] = "kubernetes"
    """Where the router finds its workers."""
    etcd_endpoint: Text | None = None
    """host:port of an etcd that the pods reach; for discoveryBackend etcd."""
    nats: Nats | None = None
    """Which NATS carries KV-cache events; an own broker when left out, or the install's default."""
    gaie: Gaie | None = None
    """An Inference Gateway in front of the workers."""
    envs: Env | None = None
    """Environment of every service that is built from fields."""
    services: Annotated[
        dict[str, Service],
        limits(maxProperties=64),
        rules(
            rule(
                "size(self) > 0",
                "spec.services is empty: add a server and at least one worker",
            ),
            rule(
                "self.all(name, name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'))",
                "a name in spec.services is no DNS label: use lower-case letters, digits and -,"
                " and begin and end with a letter or digit",
                says="'spec.services: ' + self.filter(name,"
                " !name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'))[0] + ' is no DNS label:"
                " use lower-case letters, digits and -, and begin and end with a letter or digit'",
            ),
            rule(
                f"self.all(name, !(name in [{_RESERVED_LIST}]))",
                "a name in spec.services is taken by another child: rename the service; reserved"
                f" are {', '.join(RESERVED_SERVICE_NAMES)}",
                says=f"'spec.services: ' + self.filter(name, name in [{_RESERVED_LIST}])[0]"
                " + ' is the name of another child of a deployment: rename the service; reserved"
                f" are {', '.join(RESERVED_SERVICE_NAMES)}'",
            ),
        ),
    ]
    """The services by name; each makes a workload called <deployment>-<service>."""


class InferaDeployment(Struct, frozen=True, kw_only=True, rename="camel"):
    """A model served by a router and pools of workers."""

    columns: ClassVar[tuple[Column, ...]] = (
        Column(name="BACKEND", json_path=".spec.backendFramework"),
        Column(name="STATE", json_path=".status.state"),
        Column(name="GAIE", json_path=".status.gaie.ready", type="boolean", priority=1),
        Column(name="AGE", json_path=".metadata.creationTimestamp", type="date"),
        REASON,
    )
    rules: ClassVar[tuple[Manifest, ...]] = (
        rule(
            "oldSelf.hasValue() || !self.metadata.name.contains('.')",
            "metadata.name must not hold a dot, which no Service may have in its name: use -",
            sees_old=True,
        ),
        rule(
            "self.spec.services.all(name, size(self.metadata.name) + 1 + size(name)"
            f" <= {CHILD_NAME_LENGTH_MAX}"
            " || (oldSelf.hasValue() && name in oldSelf.value().spec.services))",
            "metadata.name and the name of a service are too long together:"
            f" <deployment>-<service> must have at most {CHILD_NAME_LENGTH_MAX} characters;"
            " shorten one of them",
            sees_old=True,
        ),
    )

    metadata: ObjectMeta
    spec: Spec
    """What shall be served, and how."""
    status: Status | None = None
    """What is true now; written by Weir."""


KIND = Kind(
    group="infera.amd.com",
    version="v1alpha1",
    kind="InferaDeployment",
    plural="inferadeployments",
    short_names=("idep",),
)

_WORKLOAD_FIELDS = (
    "observedGeneration",
    "replicas",
    "readyReplicas",
    "updatedReplicas",
    "unavailableReplicas",
    "conditions",
)
OWNS = (
    Child(kind=DEPLOYMENT, status_fields=_WORKLOAD_FIELDS),
    Child(
        kind=STATEFUL_SET,
        status_fields=(
            "observedGeneration",
            "replicas",
            "readyReplicas",
            "updatedReplicas",
            "currentRevision",
            "updateRevision",
        ),
    ),
    Child(kind=SERVICE),
    Child(kind=SERVICE_ACCOUNT),
    Child(kind=ROLE),
    Child(kind=ROLE_BINDING),
    Child(kind=LEADER_WORKER_SET, status_fields=_WORKLOAD_FIELDS, optional=True),
    Child(kind=INFERENCE_POOL, status_fields=("parents",), optional=True),
    Child(kind=HTTP_ROUTE, status_fields=("parents",), optional=True),
)
_OPTIONAL_CRDS = frozenset(child.kind.crd_name for child in OWNS if child.optional)


def _owner_name(labels: Labels) -> str | None:
    return labels.get(DEPLOYMENT_LABEL)


def _installs_an_optional_kind(changed: ObjectMeta, _resource: ObjectMeta) -> bool:
    """
    Say whether a CRD is one that services of several nodes, or gateways, wait for.

    It touches every resource: the bridge does not decode which of them wait.
    """
    return changed.name in _OPTIONAL_CRDS


CONTRACT: Contract = Contract(
    kind=KIND,
    resource=InferaDeployment,
    owns=OWNS,
    identity=(MANAGED_BY_LABEL, MANAGED_BY),
    owner_name=_owner_name,
    refers=(Reference(kind=CUSTOM_RESOURCE_DEFINITION, touches=_installs_an_optional_kind),),
)
