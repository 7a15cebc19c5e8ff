"""Renderings with what users write into them, and what only a careless user would."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from crds.kubernetes import Manifest
from tests.services.handlers.conftest import Desk

Rendered = Callable[[Desk], Manifest]
LABELS = {"app": "x"}


def a_deployment(pod: dict[str, Any] | None = None, **spec: Any) -> Rendered:
    """Return a Deployment with these fields of its pod and of its spec."""
    return lambda desk: desk.child(
        "Deployment",
        spec={
            "replicas": 0,
            "selector": {"matchLabels": LABELS},
            "template": {
                "metadata": {"labels": LABELS},
                "spec": {"containers": [a_container()], **(pod or {})},
            },
            **spec,
        },
    )


def a_container(**fields: Any) -> dict[str, Any]:
    """Return a container with these fields."""
    return {"name": "main", "image": "registry.example/a:1", **fields}


def in_container(**fields: Any) -> Rendered:
    """Return a Deployment whose one container has these fields."""
    return a_deployment({"containers": [a_container(**fields)]})


def of_kind(kind: str, **rest: Any) -> Rendered:
    """Return an object of another kind."""
    return lambda desk: desk.child(kind, **rest)


ORDINARY: dict[str, Rendered] = {
    "a small deployment": a_deployment(),
    "a deployment with a strategy": a_deployment(
        strategy={
            "type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1},
        },
        minReadySeconds=5,
        revisionHistoryLimit=3,
    ),
    "a container with everything": in_container(
        command=["/bin/run"],
        args=["--a", "--b", ""],
        env=[
            {"name": "A", "value": "1"},
            {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {
                "name": "SECRET",
                "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": True}},
            },
        ],
        envFrom=[{"configMapRef": {"name": "c"}}],
        ports=[
            {"name": "http", "containerPort": 8000},
            {"name": "dns-tcp", "containerPort": 53},
            {"name": "dns-udp", "containerPort": 53, "protocol": "UDP"},
        ],
        resources={
            "limits": {"cpu": "1000m", "memory": "1024Mi", "amd.com/gpu": 8},
            "requests": {"cpu": 1, "memory": "1Gi"},
        },
        readinessProbe={"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 5},
        startupProbe={"tcpSocket": {"port": "http"}, "failureThreshold": 60},
        lifecycle={"preStop": {"exec": {"command": ["sleep", "1"]}}},
        securityContext={
            "capabilities": {"add": ["SYS_PTRACE"], "drop": ["ALL"]},
            "seccompProfile": {"type": "Unconfined"},
            "runAsUser": 0,
            "privileged": False,
        },
    ),
    "a pod with everything": a_deployment(
        {
            "serviceAccountName": "x",
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 0,
            "nodeSelector": {"gpu": "mi300x"},
            "hostIPC": True,
            "priorityClassName": "high",
            "imagePullSecrets": [{"name": "pull"}],
            "tolerations": [
                {"key": "amd.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
                {"key": "b", "operator": "Exists", "tolerationSeconds": 0, "effect": "NoExecute"},
            ],
            "topologySpreadConstraints": [
                {
                    "maxSkew": 1,
                    "topologyKey": "zone",
                    "whenUnsatisfiable": "ScheduleAnyway",
                    "labelSelector": {"matchLabels": LABELS},
                }
            ],
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}
                        ]
                    }
                },
                "podAntiAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "weight": 1,
                            "podAffinityTerm": {
                                "topologyKey": "host",
                                "labelSelector": {"matchLabels": LABELS},
                            },
                        }
                    ]
                },
            },
            "containers": [
                a_container(
                    volumeMounts=[
                        {"name": "shm", "mountPath": "/shm"},
                        {"name": "models", "mountPath": "/m", "readOnly": True, "subPath": "a/b"},
                    ]
                )
            ],
            "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a"]}],
            "dnsConfig": {"options": [{"name": "ndots", "value": "2"}]},
            "securityContext": {"fsGroup": 0, "sysctls": [{"name": "a.b", "value": "1"}]},
            "volumes": [
                {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "16384Mi"}},
                {"name": "scratch", "emptyDir": {}},
                {"name": "models", "persistentVolumeClaim": {"claimName": "m"}},
                {"name": "c", "configMap": {"name": "c", "items": [{"key": "a", "path": "b"}]}},
                {
                    "name": "p",
                    "projected": {
                        "sources": [{"serviceAccountToken": {"path": "t", "audience": "a"}}]
                    },
                },
            ],
            "initContainers": [
                {"name": "init", "image": "i", "restartPolicy": "Always"},
            ],
        }
    ),
    "a stateful set": of_kind(
        "StatefulSet",
        spec={
            "serviceName": "x",
            "replicas": 0,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": LABELS},
            "template": {
                "metadata": {"labels": LABELS},
                "spec": {"containers": [a_container()]},
            },
            "volumeClaimTemplates": [
                {
                    "metadata": {"name": "data"},
                    "spec": {
                        "accessModes": ["ReadWriteOnce"],
                        "resources": {"requests": {"storage": "10Gi"}},
                    },
                }
            ],
        },
    ),
    "a service": of_kind(
        "Service",
        spec={
            "type": "ClusterIP",
            "selector": LABELS,
            "ports": [
                {"name": "http", "port": 80, "targetPort": 8000},
                {"name": "dns", "port": 53, "targetPort": "dns"},
                {"name": "dns-udp", "port": 53, "targetPort": "dns-udp", "protocol": "UDP"},
            ],
        },
    ),
    "a headless service": of_kind(
        "Service",
        spec={
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": LABELS,
            "ports": [{"name": "client", "port": 4222}],
        },
    ),
    "a service account": of_kind("ServiceAccount"),
    "a role": of_kind(
        "Role", rules=[{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "watch"]}]
    ),
    "a role binding": of_kind(
        "RoleBinding",
        roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "child"},
        subjects=[{"kind": "ServiceAccount", "name": "child"}],
    ),
}
"""What a create holds as it was sent, up to defaults."""

ODD: dict[str, Rendered] = {
    "hostNetwork false": a_deployment({"hostNetwork": False, "hostPID": False}),
    "an empty environment value": in_container(env=[{"name": "A", "value": ""}]),
    "empty lists": in_container(env=[], args=[], command=[], volumeMounts=[], ports=[]),
    "empty lists in the pod": a_deployment(
        {"tolerations": [], "imagePullSecrets": [], "volumes": [], "initContainers": []}
    ),
    "empty maps": a_deployment({"nodeSelector": {}, "securityContext": {}, "affinity": {}}),
    "an emptyDir of the default medium": a_deployment(
        {"volumes": [{"name": "a", "emptyDir": {"medium": ""}}]}
    ),
    "a DNS configuration without content": a_deployment(
        {"dnsConfig": {"searches": [], "options": []}}
    ),
    "a security context without content": in_container(
        securityContext={"capabilities": {"add": [], "drop": []}}
    ),
    "resources without limits": in_container(resources={"limits": {}}),
    "empty resources": in_container(resources={}),
    "an affinity of empty parts": a_deployment(
        {"affinity": {"nodeAffinity": {}, "podAffinity": {}}}
    ),
    "an empty preStop": in_container(lifecycle={}),
    "a probe that starts at zero": in_container(
        livenessProbe={"httpGet": {"port": 80, "path": ""}, "initialDelaySeconds": 0}
    ),
    "a mount that is not read-only": a_deployment(
        {
            "volumes": [{"name": "a", "emptyDir": {}}],
            "containers": [
                a_container(
                    volumeMounts=[
                        {"name": "a", "mountPath": "/a", "readOnly": False, "subPath": ""}
                    ]
                )
            ],
        }
    ),
    "a mount path with odd characters": a_deployment(
        {
            "volumes": [{"name": "a", "emptyDir": {}}],
            "containers": [
                a_container(volumeMounts=[{"name": "a", "mountPath": "/a,b=c", "readOnly": False}])
            ],
        }
    ),
    "nulls": a_deployment(
        {"nodeSelector": None, "affinity": None, "containers": [a_container(env=None, args=None)]}
    ),
    "an env entry of null": in_container(env=[{"name": "A", "value": None}]),
    "a tty that is off": in_container(tty=False, stdin=False),
    "quantities in other spellings": in_container(
        resources={"limits": {"cpu": 0.5, "memory": "1e3", "ephemeral-storage": "1024Ki"}}
    ),
    "a rollout that is not paused": a_deployment(paused=False, minReadySeconds=0),
    "a service whose port has no name": of_kind(
        "Service",
        spec={
            "clusterIP": "None",
            "selector": LABELS,
            "ports": [{"port": 80, "name": ""}],
            "publishNotReadyAddresses": False,
            "externalIPs": [],
        },
    ),
    "a role of no rules": of_kind("Role", rules=[]),
    "a binding of nobody": of_kind(
        "RoleBinding",
        roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "child"},
        subjects=[],
    ),
    "a service account of no secrets": of_kind(
        "ServiceAccount", imagePullSecrets=[], automountServiceAccountToken=False
    ),
    "a pull secret without a name": a_deployment({"imagePullSecrets": [{"name": ""}]}),
}
"""What a create answers with less than it was sent: what is empty in Go is left out."""

UNKNOWN: dict[str, Rendered] = {
    "a field of the pod": a_deployment({"noSuchField": "x"}),
    "a field of a container": in_container(noSuchField={"a": 1}),
    "a field of a port": in_container(ports=[{"containerPort": 80, "noSuchField": 1}]),
    "a field of an environment variable": in_container(
        env=[{"name": "A", "value": "1", "noSuchField": [1]}]
    ),
    "a field of a toleration": a_deployment(
        {"tolerations": [{"key": "a", "operator": "Exists", "noSuchField": 1}]}
    ),
    "several fields": a_deployment(
        {
            "noSuchField": "x",
            "other": False,
            "containers": [a_container(noSuchField=1, ports=[{"containerPort": 1, "x": 2}])],
        }
    ),
    "a field of a volume source": a_deployment(
        {"volumes": [{"name": "a", "emptyDir": {"noSuchField": 1}}]}
    ),
}
"""What is not in the API server's schema."""

PLAIN: dict[str, Rendered] = {
    "Deployment": ORDINARY["a small deployment"],
    "Service": ORDINARY["a headless service"],
    "Role": ORDINARY["a role"],
    "RoleBinding": ORDINARY["a role binding"],
    "ServiceAccount": ORDINARY["a service account"],
}
"""By kind, what a child was before it was edited."""
