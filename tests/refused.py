"""
Resources that the API server must refuse, each with what it says: `weir render` refuses the same.

What a rule of ours refuses, it refuses in our words; what a bound refuses, in the server's.
"""

from __future__ import annotations

from typing import Any

from crds.inferadeployment import CONTRACT
from crds.kubernetes import Manifest


def resource(name: str = "demo", **spec: Any) -> Manifest:
    given = {
        "image": "engine:1",
        "nats": {"deploy": False},
        "services": {"server": {"componentType": "server"}, "worker": {"componentType": "worker"}},
        **spec,
    }
    return {
        "apiVersion": CONTRACT.kind.api_version,
        "kind": CONTRACT.kind.kind,
        "metadata": {"name": name},
        "spec": given,
    }


def server(**fields: Any) -> Manifest:
    return resource(services={"server": {"componentType": "server", **fields}})


def worker(**fields: Any) -> Manifest:
    return resource(services={"worker": {"componentType": "worker", **fields}})


def named(*names: str) -> Manifest:
    return resource(services={name: {"componentType": "worker"} for name in names})


def with_metadata(**fields: Any) -> Manifest:
    built = resource()
    return {**built, "metadata": {**built["metadata"], **fields}}


BY_A_RULE: list[tuple[Manifest, str]] = [
    (server(role="prefill"), "role is for workers, and this service is a server: remove role"),
    (server(numberOfNodes=2), "numberOfNodes is for workers, and this service is a server"),
    (resource(services={}), "spec.services is empty: add a server and at least one worker"),
    (named("No_Label"), "spec.services: No_Label is no DNS label: use lower-case letters"),
    (named("-x"), "spec.services: -x is no DNS label"),
    *(
        (named("ok", name), f"spec.services: {name} is the name of another child")
        for name in ("nats", "epp", "disc", "pool", "route")
    ),
    (
        {**named("w" * 32), "metadata": {"name": "d" * 31}},
        "metadata.name and the name of a service are too long together",
    ),
    (resource("a.b"), "metadata.name must not hold a dot, which no Service may have"),
    (
        resource(nats={"deploy": True, "url": "nats://n"}),
        "nats.deploy true makes an own NATS, which excludes nats.url",
    ),
    (resource(nats={"deploy": True, "shared": True}), "excludes nats.url, nats.shared"),
    (
        resource(nats={"deploy": True, "credentialsSecretRef": {"name": "s"}}),
        "nats.credentialsSecretRef: remove nats.deploy, or remove the others",
    ),
    (
        resource(nats={"shared": True, "url": "nats://n"}),
        "nats.shared true means the NATS of this platform, which excludes nats.url",
    ),
    (
        resource(nats={"url": "nats://u:geheim@n"}),
        "put the whole URL into a Secret and name that in nats.credentialsSecretRef",
    ),
    (resource(nats={"url": "n:4222"}), "nats.url must be a URL such as nats://"),
    (resource(nats={"storageSize": "big"}), "must be a Kubernetes quantity"),
    (resource(discoveryBackend="etcd"), "discoveryBackend etcd needs etcdEndpoint: set it"),
    (
        resource(gaie={"enabled": True, "gatewayName": "g"}),
        "gaie.enabled needs gaie.tokenizerPath: set it",
    ),
    (
        resource(gaie={"enabled": True, "tokenizerPath": "t"}),
        "gaie.enabled needs gaie.gatewayName: set it",
    ),
    (
        resource(gaie={"enabled": True, "tokenizerPath": "t", "gatewayName": "g"}, image=""),
        "gaie.enabled needs an image for the endpoint picker",
    ),
    (
        {**worker(), "spec": {**worker()["spec"], "image": ""}},
        "spec.image is empty and service worker has neither image nor extraPodSpec",
    ),
    (worker(resources={"gpuType": "gpu"}), "with its domain, such as amd.com/gpu"),
    (worker(resources={"cpu": "4 cores"}), "such as 500m, 4 or 64Gi"),
    (worker(resources={"memory": "-1Gi"}), "quantity that is not negative"),
    (worker(resources={"sharedMemory": -1}), "quantity that is not negative"),
    (
        worker(env=[{"name": "x", "value": "z", "valueFrom": {"fieldRef": {}}}]),
        "value and valueFrom exclude each other: keep one of them",
    ),
    (worker(podLabels={"a b": "c"}), "podLabels has a key that is no label key"),
]
BY_A_BOUND: list[tuple[Manifest, str]] = [
    (resource("Upper"), "a lowercase RFC 1123 subdomain must consist of"),
    (resource("a..b"), "a lowercase RFC 1123 subdomain must consist of"),
    (with_metadata(labels={"a b": "c"}), "metadata.labels: Invalid value"),
    (with_metadata(labels={"Ex.com/a": "c"}), "metadata.labels: Invalid value"),
    (with_metadata(labels={"a": "b c"}), "metadata.labels: Invalid value"),
    (with_metadata(labels={"a": "b" * 64}), "metadata.labels: Invalid value"),
    (with_metadata(annotations={"a b": "c"}), "metadata.annotations: Invalid value"),
    (worker(replicas=1 << 31), "of type integer with format int32 in spec.services.worker"),
    (resource(gaie={"hostnames": ["a", "a"]}), 'hostnames[1]: Duplicate value: "a"'),
    (worker(replicas=-1), "replicas in body should be greater than or equal to 0"),
    (worker(numberOfNodes=0), "numberOfNodes in body should be greater than or equal to 1"),
    (worker(port=0), "port in body should be greater than or equal to 1"),
    (worker(port=65536), "port in body should be less than or equal to 65535"),
    (worker(resources={"gpu": -1}), "gpu in body should be greater than or equal to 0"),
    (worker(role="both"), 'worker.role: Unsupported value: "both"'),
    (worker(env=[{"value": "x"}]), "env[0].name: Required value"),
    (worker(extraPodSpec={}), "extraPodSpec.containers: Required value"),
    (worker(extraPodSpec={"containers": []}), "should have at least 1 items"),
    (worker(podLabels={"a": "b c"}), "podLabels.a in body should match"),
    (worker(args=["x"] * 1025), "must have at most 1024 items"),
]
