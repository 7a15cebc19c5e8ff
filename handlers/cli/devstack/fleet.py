"""The simulated GPU fleet: nodes that KWOK keeps Ready and on which it lets pods run."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

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
