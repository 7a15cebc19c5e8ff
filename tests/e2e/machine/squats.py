"""Objects of others that have the name of a child."""

from __future__ import annotations

from collections.abc import Mapping

from crds.kubernetes import Manifest

_LABELS = {"app": "somebody-elses"}
_POD = {
    "metadata": {"labels": _LABELS},
    "spec": {"containers": [{"name": "theirs", "image": "registry.example/theirs:1"}]},
}
_ROLE = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "theirs"}
_WORKLOAD = {"replicas": 0, "selector": {"matchLabels": _LABELS}, "template": _POD}

_CONTENT: Mapping[str, Manifest] = {
    "Deployment": {"spec": _WORKLOAD},
    "StatefulSet": {"spec": {**_WORKLOAD, "serviceName": "theirs"}},
    "Service": {"spec": {"ports": [{"port": 1}]}},
    "ServiceAccount": {},
    "Role": {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]},
    "RoleBinding": {"roleRef": _ROLE},
    "LeaderWorkerSet": {"spec": {"replicas": 0, "leaderWorkerTemplate": {"workerTemplate": _POD}}},
    "InferencePool": {
        "spec": {
            "targetPorts": [{"number": 1}],
            "selector": {"matchLabels": _LABELS},
            "endpointPickerRef": {"name": "theirs", "port": {"number": 1}},
        }
    },
    "HTTPRoute": {"spec": {"hostnames": ["theirs.example"]}},
}


def squat_of(ref: str, api_version: str) -> Manifest:
    """Return somebody else's object of that kind and name."""
    kind, _, name = ref.partition("/")
    metadata = {"name": name, "labels": dict(_LABELS)}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **_CONTENT[kind]}
