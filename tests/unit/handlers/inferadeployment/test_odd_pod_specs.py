"""
A pod of the user's own may be anything: what it is not is the API server's to say, by its name.

extraPodSpec is stored without a schema, so every field of it can be of every type.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crds.kubernetes import Manifest
from handlers import plan
from handlers.handler import TerminalError
from handlers.inferadeployment import HANDLER
from tests.unit.handlers.inferadeployment.resources import a_resource, observed, rendered

POD_SPEC: Manifest = {
    "containers": [
        {
            "name": "main",
            "image": "engine:1",
            "command": ["/bin/sh", "-c", "python3 -m infera.worker --drain-timeout 60"],
            "args": ["--x"],
            "env": [{"name": "INFERA_DRAIN_TIMEOUT", "value": "90"}, {"name": "A", "value": "1"}],
            "ports": [{"containerPort": 30000, "protocol": "TCP"}],
            "volumeMounts": [{"name": "v", "mountPath": "/v"}],
            "resources": {"limits": {"cpu": "1500m"}, "requests": {"memory": "1Gi"}},
            "lifecycle": {"preStop": {"exec": {"command": ["sleep", "5"]}}},
            "readinessProbe": {"httpGet": {"path": "/", "port": 1}},
        },
        {"name": "sidecar", "image": "s:1"},
    ],
    "initContainers": [{"name": "init", "image": "i:1", "env": [{"name": "B"}]}],
    "volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1Gi"}}],
    "imagePullSecrets": [{"name": "s"}],
    "tolerations": [{"key": "gpu"}],
    "terminationGracePeriodSeconds": 100,
    "serviceAccountName": "me",
}
ODD: tuple[Any, ...] = ({}, [], [[]], {"a": []}, [{}], "", "x", 0, -1, 1.5, True, None, [None])


def paths(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Return the path of everything inside a value."""
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    return [found for key, item in items for found in ((*path, key), *paths(item, (*path, key)))]


PATHS = paths(POD_SPEC)


def changed(*changes: tuple[tuple[str | int, ...], Any]) -> Manifest:
    """Return the pod with other values at these paths, as far as they are still there."""
    spec = copy.deepcopy(POD_SPEC)
    for path, value in changes:
        holder: Any = spec
        try:
            for part in path[:-1]:
                holder = holder[part]
            holder[path[-1]] = copy.deepcopy(value)
        except (KeyError, IndexError, TypeError):
            continue
    return spec


def reconciled(pod: Manifest, **service: Any) -> None:
    """Do with a worker of that pod what a reconcile does without the API server."""
    given = {"componentType": "worker", "extraPodSpec": pod, **service}
    gateway = {"enabled": True, "tokenizerPath": "/m", "gatewayName": "g"}
    resource = a_resource(services={"worker": given}, gaie=gateway)
    try:
        rendering = rendered(resource)
    except TerminalError:
        return
    for manifest in rendering.children:
        assert plan.rendering_hash(manifest)
        assert plan.marked(manifest, 1)["metadata"]["annotations"]
    assert HANDLER.status(resource, observed(rendering))["conditions"]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: ".".join(map(str, path)))
def test_a_field_of_any_type_is_rendered_or_refused_by_name(path: tuple[str | int, ...]) -> None:
    for value in ODD:
        reconciled(changed((path, value)))


@given(
    changes=st.lists(st.tuples(st.sampled_from(PATHS), st.sampled_from(ODD)), min_size=2),
    nodes=st.sampled_from((1, 2)),
)
def test_several_odd_fields_are_rendered_or_refused_by_name(
    changes: list[tuple[tuple[str | int, ...], Any]], nodes: int
) -> None:
    reconciled(changed(*changes), numberOfNodes=nodes)
