"""
Resources in the words of a test.

    an_infera_deployment("chat").with_server().with_worker("decode", gpus=8).in_namespace("a")

Builders are values: every `with_...` returns another one, so a test may branch from a base.
`manifest()` is what a user would apply.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Self

from msgspec import Struct
from msgspec.structs import replace

from crds.kubernetes import Manifest

API_VERSION = "infera.amd.com/v1alpha1"
KIND = "InferaDeployment"
IMAGE = "registry.example/infera:1"


class InferaDeploymentBuilder(Struct, frozen=True, kw_only=True):
    """An InferaDeployment that a test is about to apply."""

    name: str
    namespace: str = ""
    metadata: Manifest = {}
    spec: Manifest = {}

    def in_namespace(self, namespace: str) -> Self:
        """Return it in that namespace."""
        return replace(self, namespace=namespace)

    def named(self, name: str) -> Self:
        """Return it under another name."""
        return replace(self, name=name)

    def labelled(self, **labels: str) -> Self:
        """Return it with these labels of its own."""
        return self._with_metadata("labels", labels)

    def with_image(self, image: str) -> Self:
        """Return it with that default image."""
        return self.with_spec(image=image)

    def with_env(self, name: str, value: str) -> Self:
        """Return it with one more environment variable for every service."""
        return self.with_spec(envs=[*self.spec.get("envs", ()), {"name": name, "value": value}])

    def with_managed_nats(self) -> Self:
        """Return it with a NATS of its own."""
        return self.with_spec(nats={"deploy": True})

    def without_nats(self) -> Self:
        """Return it with no NATS at all."""
        return self.with_spec(nats={"deploy": False})

    def with_server(self, name: str = "server", **fields: Any) -> Self:
        """Return it with a server of that name; *fields* as in the contract."""
        return self.with_service(name, componentType="server", **fields)

    def with_worker(
        self,
        name: str = "worker",
        *,
        gpus: int = 0,
        nodes: int = 1,
        **fields: Any,
    ) -> Self:
        """Return it with a worker of that name, with so many GPUs on each of so many nodes."""
        if gpus:
            fields["resources"] = {**fields.get("resources", {}), "gpu": gpus}
        if nodes > 1:
            fields["numberOfNodes"] = nodes
        return self.with_service(name, componentType="worker", **fields)

    def with_service(self, name: str, **fields: Any) -> Self:
        """Return it with these fields of a service changed, or with one more service."""
        services = dict(self.spec.get("services", {}))
        services[name] = {**services.get(name, {}), **fields}
        return self.with_spec(services=services)

    def without_service(self, name: str) -> Self:
        """Return it without a service."""
        services = {key: value for key, value in self.spec["services"].items() if key != name}
        return self.with_spec(services=services)

    def with_pod_spec(self, service: str, **pod_spec: Any) -> Self:
        """Return it with a whole pod of the user's own for a service."""
        return self.with_service(service, extraPodSpec=pod_spec)

    def with_spec(self, **fields: Any) -> Self:
        """Return it with these fields of `spec`."""
        return replace(self, spec={**self.spec, **fields})

    def manifest(self) -> Manifest:
        """Return the resource as a user would apply it."""
        metadata: Manifest = {"name": self.name, **deepcopy(self.metadata)}
        if self.namespace:
            metadata["namespace"] = self.namespace
        return {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": metadata,
            "spec": deepcopy(self.spec),
        }

    def many(self, count: int) -> list[Manifest]:
        """Return so many resources like it, named `<name>-000` and so on."""
        return [self.named(f"{self.name}-{number:03}").manifest() for number in range(count)]

    def _with_metadata(self, field: str, values: Mapping[str, str]) -> Self:
        return replace(
            self, metadata={**self.metadata, field: {**self.metadata.get(field, {}), **values}}
        )


def an_infera_deployment(name: str = "chat") -> InferaDeploymentBuilder:
    """Return an InferaDeployment without services and without NATS; nothing else is set."""
    return InferaDeploymentBuilder(name=name).with_image(IMAGE).without_nats()


def a_small_deployment(name: str = "chat") -> InferaDeploymentBuilder:
    """Return one server and one worker without a GPU: six children, and it fits everywhere."""
    return an_infera_deployment(name).with_server().with_worker()


def many(count: int, like: InferaDeploymentBuilder | None = None) -> list[Manifest]:
    """Return so many small deployments, or so many like the given one."""
    return (like or a_small_deployment("burst")).many(count)
