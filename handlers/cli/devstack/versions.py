"""Every version that the development stack pins, and the oldest that it accepts; nowhere else."""

from __future__ import annotations

KUBERNETES = "1.36.3"
KUBERNETES_OLDEST = "1.34"
"""From here on the API server serves WatchList by default."""

ETCD = "3.7.3"
ETCD_OLDEST = "3.5"
"""`--unsafe-no-fsync` came with 3.5."""

KWOK = "0.8.0"
KWOK_OLDEST = "0.8"
"""Stages that apply other objects, which volumes are made by, came with 0.8."""

NATS_SERVER = "2.15.2"
NATS_SERVER_OLDEST = "2.12"
"""Message schedules and TTLs, which the queue is made of."""

GATEWAY_API = "1.6.3"
"""CRDs of Gateway and HTTPRoute, for tests."""

GO_OLDEST = "1.26"
"""What k8s.io/kubernetes of the pinned version asks of the Go tool chain."""

K3S_IMAGE = "rancher/k3s:v1.34.1-k3s1"
NATS_IMAGE = "nats:2.12-alpine"
ETCD_IMAGE = "rancher/mirrored-coreos-etcd:v3.5.9"


def as_numbers(version: str) -> tuple[int, ...]:
    """Return a version's leading numbers, for comparison: `v1.36.3+k3s1` is (1, 36, 3)."""
    numbers: list[int] = []
    for part in version.lstrip("v").split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
        if digits != part:
            break
    return tuple(numbers)
