"""
CRDs of others, installed into a running control plane and removed from it.

LeaderWorkerSet and InferencePool are stand-ins (the YAML files beside this one); Gateway and
HTTPRoute are the real ones, of the standard channel. No webhook comes with them: what the real ones
fill in beside the CRDs' own defaults, the stand-ins have as defaults. A cluster that has a CRD
already keeps its own.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from msgspec import Struct

from crds.kind import Kind
from crds.kubernetes import (
    CUSTOM_RESOURCE_DEFINITION,
    HTTP_ROUTE,
    INFERENCE_POOL,
    LEADER_WORKER_SET,
)
from handlers.cli.devstack import install
from handlers.cli.devstack.cluster import Cluster
from tests.faults.stand_ins import INFERENCE_POOL_CRD, LEADER_WORKER_SET_CRD
from tests.faults.stand_ins.gateways import GATEWAY
from tests.faults.stand_ins.pod_template import OPENAPI, pod_template_schema
from tests.stack.eventually import PATIENCE_SECONDS

POLL_SECONDS = 0.1


class Crd(Struct, frozen=True):
    """A CRD of somebody else: the kind that it makes the API server serve, and its manifest."""

    kind: Kind
    file: Callable[[Cluster], Path]


@contextmanager
def installed(cluster: Cluster, *crds: Crd) -> Iterator[None]:
    """Have CRDs for the length of a block; those that were there before stay after it."""
    new = install_crds(cluster, crds)
    try:
        yield
    finally:
        remove_crds(cluster, new)


def install_crds(cluster: Cluster, crds: Sequence[Crd]) -> list[Crd]:
    """Install those that are not there; return them once their objects can be listed."""
    items = cluster.get(CUSTOM_RESOURCE_DEFINITION.path())["items"]
    present = {item["metadata"]["name"] for item in items}
    new = [crd for crd in crds if crd.kind.crd_name not in present]
    for crd in new:
        cluster.kubectl("create", "-f", str(crd.file(cluster)))
    for crd in new:
        _wait_until_served(cluster, crd.kind)
    return new


def remove_crds(cluster: Cluster, crds: Sequence[Crd]) -> None:
    """Remove CRDs, and with them their objects; return once they are gone."""
    for crd in crds:
        name = f"crd/{crd.kind.crd_name}"
        cluster.kubectl("delete", name, "--ignore-not-found", "--timeout=60s")


def _wait_until_served(cluster: Cluster, kind: Kind) -> None:
    """Return once kubectl finds the kind and can list it: both take a moment after its CRD."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        listed = cluster.kubectl("get", kind.crd_name, "--all-namespaces", check=False)
        if not listed.returncode:
            return
        if time.monotonic() > deadline:
            pytest.fail(f"{kind.crd_name} is not served: {listed.stderr}")
        time.sleep(POLL_SECONDS)


def _leader_worker_set_crd(cluster: Cluster) -> Path:
    """Return the stand-in with pod templates that are typed like the real one's."""
    crd = yaml.safe_load(LEADER_WORKER_SET_CRD.read_text(encoding="utf-8"))
    (version,) = crd["spec"]["versions"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    template = spec["properties"]["leaderWorkerTemplate"]["properties"]
    template["leaderTemplate"] = pod_template_schema(cluster.get(OPENAPI))
    template["workerTemplate"] = template["leaderTemplate"]
    path = cluster.directory / "leader-worker-set-crd.json"
    path.write_text(json.dumps(crd), encoding="utf-8")
    return path


def _of_the_gateway_api(name: str) -> Path:
    """Return a file of the real Gateway API: from KUBEBUILDER_ASSETS, or fetched into the cache."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets and (Path(assets) / name).exists():
        return Path(assets) / name
    try:
        return install.install(install.GATEWAY_API, os.environ) / name
    except install.InstallError as exc:
        pytest.fail(f"the CRDs of the Gateway API are missing: {exc}", pytrace=False)


LEADER_WORKER_SETS = Crd(LEADER_WORKER_SET, _leader_worker_set_crd)
INFERENCE_POOLS = Crd(INFERENCE_POOL, lambda _: INFERENCE_POOL_CRD)
GATEWAYS = Crd(GATEWAY, lambda _: _of_the_gateway_api("gateway.networking.k8s.io_gateways.yaml"))
HTTP_ROUTES = Crd(
    HTTP_ROUTE, lambda _: _of_the_gateway_api("gateway.networking.k8s.io_httproutes.yaml")
)
GAIE = (GATEWAYS, HTTP_ROUTES, INFERENCE_POOLS)
"""All that `spec.gaie` needs."""
ALL = (LEADER_WORKER_SETS, *GAIE)
