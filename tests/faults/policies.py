"""
Admission policies and quotas that rewrite or refuse children, as manifests: no webhook server.

Each policy holds in one namespace only, by the label `kubernetes.io/metadata.name` that the API
server gives every namespace. A policy takes a moment to be in force after it was created.
"""

from __future__ import annotations

import json

from crds.kubernetes import Manifest

_GROUP = "admissionregistration.k8s.io/v1"


def rewriting_label(namespace: str, key: str, value: str) -> list[Manifest]:
    """Return a policy that sets a label of every Deployment written in a namespace."""
    return _mutating(
        f"{namespace}-label",
        namespace,
        f"Object{{metadata: Object.metadata{{labels: {{{_cel(key)}: {_cel(value)}}}}}}}",
    )


def rewriting_image(namespace: str, image: str) -> list[Manifest]:
    """Return a policy that gives every container of every Deployment written that image."""
    return _mutating(
        f"{namespace}-image",
        namespace,
        _containers(f"Object.spec.template.spec.containers{{name: c.name, image: {_cel(image)}}}"),
    )


def rewriting_env(namespace: str, name: str, value: str) -> list[Manifest]:
    """Return a policy that sets an environment variable in every container of Deployments."""
    item = "Object.spec.template.spec.containers"
    env = f"{item}.env{{name: {_cel(name)}, value: {_cel(value)}}}"
    return _mutating(
        f"{namespace}-env", namespace, _containers(f"{item}{{name: c.name, env: [{env}]}}")
    )


def filling_in_groups(namespace: str) -> list[Manifest]:
    """
    Return a policy that fills in what a LeaderWorkerSet leaves open and its CRD has no default for.

    As the mutating webhook of its controller does: at every write, where the field is absent.
    """
    counts = '{"partition": dyn(0), "maxUnavailable": dyn(1), "maxSurge": dyn(0)}'
    strategy = f'{{"type": dyn("RollingUpdate"), "rollingUpdateConfiguration": dyn({counts})}}'
    network = '{"subdomainPolicy": "Shared"}'
    return _mutating(
        f"{namespace}-fills-in",
        namespace,
        f"{_absent('rolloutStrategy', strategy)} + {_absent('networkConfig', network)}",
        resource="leaderworkersets",
        group="leaderworkerset.x-k8s.io",
        patch_type="JSONPatch",
    )


def refusing(
    namespace: str, resource: str, name: str, *, group: str = "apps", message: str = "not here"
) -> list[Manifest]:
    """Return a policy that refuses creates and updates of one object, with a message."""
    policy: Manifest = {
        "apiVersion": _GROUP,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": f"{namespace}-refuses"},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": _matching(namespace, resource, group),
            "validations": [
                {
                    "expression": f"object.metadata.name != {_cel(name)}",
                    "message": message,
                    "reason": "Forbidden",
                }
            ],
        },
    }
    binding: Manifest = {
        "apiVersion": _GROUP,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": f"{namespace}-refuses"},
        "spec": {"policyName": f"{namespace}-refuses", "validationActions": ["Deny"]},
    }
    return [policy, binding]


def quota(namespace: str, **hard: int) -> Manifest:
    """Return a ResourceQuota: `quota(ns, services=0)`, `quota(ns, **{"count/roles": 1})`."""
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "quota", "namespace": namespace},
        "spec": {"hard": {resource: str(count) for resource, count in hard.items()}},
    }


def _mutating(
    name: str,
    namespace: str,
    expression: str,
    *,
    resource: str = "deployments",
    group: str = "apps",
    patch_type: str = "ApplyConfiguration",
) -> list[Manifest]:
    field = {"ApplyConfiguration": "applyConfiguration", "JSONPatch": "jsonPatch"}[patch_type]
    policy: Manifest = {
        "apiVersion": _GROUP,
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "matchConstraints": _matching(namespace, resource, group),
            "mutations": [{"patchType": patch_type, field: {"expression": expression}}],
        },
    }
    binding: Manifest = {
        "apiVersion": _GROUP,
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name},
    }
    return [policy, binding]


def _absent(field: str, value: str) -> str:
    """Return the CEL of the patches that set a field of the spec where it is absent."""
    patch = f'JSONPatch{{op: "add", path: "/spec/{field}", value: {value}}}'
    return f"(has(object.spec.{field}) ? [] : [{patch}])"


def _containers(item: str) -> str:
    """Return the CEL that applies *item* to every container `c` of a pod template."""
    items = f"object.spec.template.spec.containers.map(c, {item})"
    pod = f"Object.spec.template.spec{{containers: {items}}}"
    return f"Object{{spec: Object.spec{{template: Object.spec.template{{spec: {pod}}}}}}}"


def _matching(namespace: str, resource: str, group: str) -> Manifest:
    return {
        "matchPolicy": "Equivalent",
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "resourceRules": [
            {
                "apiGroups": [group],
                "apiVersions": ["*"],
                "operations": ["CREATE", "UPDATE"],
                "resources": [resource],
            }
        ],
    }


def _cel(text: str) -> str:
    """Return *text* as a CEL string literal, whose escapes are JSON's."""
    return json.dumps(text)
