"""Backends as containers, for machines that have a Docker daemon and none of the programs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct


class Running(Struct, frozen=True):
    """A container that runs: where it is reached, and how it ends."""

    address: str
    stop: Callable[[], object]


def run_nats(image: str) -> Running:
    """Start NATS with JetStream."""
    from testcontainers.community.nats import NatsContainer  # noqa: PLC0415 - only with Docker

    container = NatsContainer(image, jetstream=True)
    container.start()
    return Running(container.nats_uri(), container.stop)


def run_etcd(image: str) -> Running:
    """Start etcd."""
    from testcontainers.core.container import DockerContainer  # noqa: PLC0415 - only with Docker
    from testcontainers.core.wait_strategies import LogMessageWaitStrategy  # noqa: PLC0415

    port = 2379
    container = (
        DockerContainer(image)
        .with_exposed_ports(port)
        .with_command(
            f"etcd --listen-client-urls http://0.0.0.0:{port}"
            f" --advertise-client-urls http://127.0.0.1:{port}"
        )
        .waiting_for(LogMessageWaitStrategy("ready to serve client requests"))
    )
    container.start()
    host, mapped = container.get_container_host_ip(), container.get_exposed_port(port)
    return Running(f"{host}:{mapped}", container.stop)


def run_k3s(image: str, directory: Path) -> Running:
    """Start k3s; the address is the path of its kubeconfig, written into the directory."""
    from testcontainers.community.k3s import K3SContainer  # noqa: PLC0415 - only with Docker

    container = K3SContainer(image)
    container.start()
    kubeconfig = directory / "k3s.kubeconfig"
    kubeconfig.touch(mode=0o600)
    kubeconfig.write_text(container.config_yaml())
    return Running(str(kubeconfig), container.stop)
