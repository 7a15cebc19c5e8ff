"""The simulated GPU fleet: nodes, pods and volumes that exist by KWOK's word alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import Struct

STAGES = Path(__file__).with_name("stages.yaml")
"""What KWOK makes of nodes, pods and volumes."""
FAKE_NODE = {"kwok.x-k8s.io/node": "fake"}


class Fleet(Struct, frozen=True, kw_only=True):
    """How many nodes, and what each of them offers."""

    nodes: int = 10
    pods_per_node: int = 110
    """The kubelet's default; raise it for more than `nodes` * 110 pods."""
    gpus_per_node: int = 8
    cpu: str = "256"
    memory: str = "2Ti"


def node_name(number: int) -> str:
    """Return the name of the fleet's n-th node, counted from 1."""
    return f"gpu-{number}"


def nodes(fleet: Fleet) -> list[dict[str, Any]]:
    """Return the manifests of the fleet's nodes."""
    offers = {
        "cpu": fleet.cpu,
        "memory": fleet.memory,
        "pods": str(fleet.pods_per_node),
        "amd.com/gpu": str(fleet.gpus_per_node),
        "nvidia.com/gpu": str(fleet.gpus_per_node),
    }
    return [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": node_name(number),
                "annotations": FAKE_NODE,
                "labels": {
                    "kubernetes.io/hostname": node_name(number),
                    "kubernetes.io/os": "linux",
                    "type": "kwok",
                },
            },
            "status": {"allocatable": offers, "capacity": offers},
        }
        for number in range(1, fleet.nodes + 1)
    ]


def storage_class() -> dict[str, Any]:
    """Return the default StorageClass, whose volumes KWOK binds (it exists by name only)."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": "kwok-volume",
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": "kwok.x-k8s.io/volume",
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate",
    }
