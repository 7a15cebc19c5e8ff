"""Which NATS a deployment uses, and the broker that is its own."""

from __future__ import annotations

from typing import Any

import pytest

from handlers.handler import TerminalError
from handlers.inferadeployment.nats import IMAGE
from tests.unit.handlers.inferadeployment.resources import (
    a_resource,
    children,
    container,
    rendered,
)

OWN = {("Service", "demo-nats"), ("StatefulSet", "demo-nats")}


@pytest.mark.parametrize(
    ("nats", "url"),
    [
        (None, "nats://demo-nats:4222"),
        ({}, "nats://demo-nats:4222"),
        ({"deploy": True}, "nats://demo-nats:4222"),
        ({"image": "nats:2.15"}, "nats://demo-nats:4222"),
        ({"deploy": False}, None),
        ({"url": "nats://n:4222"}, "nats://n:4222"),
        ({"deploy": False, "url": "nats://n:4222"}, "nats://n:4222"),
        ({"shared": False, "url": "nats://n:4222"}, "nats://n:4222"),
        ({"deploy": False, "shared": False}, None),
        ({"credentialsSecretRef": {"name": "s"}}, "$(NATS_SERVER)"),
        ({"url": "nats://n", "credentialsSecretRef": {"name": "s"}}, "$(NATS_SERVER)"),
    ],
)
def test_the_settings_choose_one_nats(nats: dict[str, Any] | None, url: str | None) -> None:
    resource = a_resource(nats=nats)
    for service in ("server", "worker"):
        command = container(resource, service)["command"]
        flags = ["--kv-event-transport", "nats", "--nats-server", url] if url else []
        assert command[len(command) - len(flags) :] == flags
        assert ("--nats-server" in command) is bool(url)
    has_own = set(children(rendered(resource))) >= OWN
    assert has_own is (url == "nats://demo-nats:4222")


def test_a_url_is_in_the_environment_and_a_secret_one_only_by_reference() -> None:
    def variable(nats: dict[str, Any]) -> dict[str, Any]:
        env = container(a_resource(nats=nats))["env"]
        found: dict[str, Any] = next(e for e in env if e["name"] == "NATS_SERVER")
        return found

    assert variable({"url": "nats://n"}) == {"name": "NATS_SERVER", "value": "nats://n"}
    assert variable({"credentialsSecretRef": {"name": "s"}}) == {
        "name": "NATS_SERVER",
        "valueFrom": {"secretKeyRef": {"name": "s", "key": "url"}},
    }
    named = variable({"credentialsSecretRef": {"name": "s", "key": "k"}})
    assert named["valueFrom"]["secretKeyRef"]["key"] == "k"


def test_without_nats_nothing_speaks_of_it() -> None:
    worker = container(a_resource(nats={"deploy": False}))
    assert "NATS_SERVER" not in [variable["name"] for variable in worker["env"]]


def test_an_own_broker_is_a_headless_service_and_one_pod_with_a_volume() -> None:
    found = children(
        rendered(
            a_resource(nats={"storageSize": "8Gi", "storageClassName": "fast", "image": "nats:x"})
        )
    )
    service, broker = found["Service", "demo-nats"], found["StatefulSet", "demo-nats"]
    labels = {
        "app.kubernetes.io/managed-by": "infera-operator",
        "infera.amd.com/deployment": "demo",
        "infera.amd.com/component": "nats",
    }
    assert service["metadata"]["labels"] == broker["metadata"]["labels"] == labels
    assert service["spec"]["selector"] == broker["spec"]["selector"]["matchLabels"] == labels
    assert service["spec"]["clusterIP"] == "None"
    assert broker["spec"]["replicas"] == 1
    assert broker["spec"]["serviceName"] == "demo-nats"
    assert broker["spec"]["volumeClaimTemplates"] == [
        {
            "metadata": {"name": "data"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "8Gi"}},
                "storageClassName": "fast",
            },
        }
    ]
    (nats,) = broker["spec"]["template"]["spec"]["containers"]
    assert nats["image"] == "nats:x"
    assert nats["args"] == ["-js", "-sd", "$(NATS_STORE_DIR)", "-m", "8222"]
    assert {"readinessProbe", "livenessProbe", "resources"} <= set(nats)


def test_an_own_broker_runs_a_version_that_is_pinned() -> None:
    broker = children(rendered(a_resource(nats={})))["StatefulSet", "demo-nats"]
    (nats,) = broker["spec"]["template"]["spec"]["containers"]
    assert nats["image"] == IMAGE
    name, _, tag = IMAGE.partition(":")
    assert name == "nats"
    assert [part.isdigit() for part in tag.split(".")] == [True, True, True]


def test_the_shared_nats_needs_an_install_that_names_one() -> None:
    with pytest.raises(TerminalError, match="WEIR_NATS_ENGINE_URL"):
        rendered(a_resource(nats={"shared": True}))


def test_the_shared_nats_is_said_not_to_be_served_yet() -> None:
    rendering = rendered(a_resource(nats={"shared": True}), nats_engine_url="nats://weir:4222")
    (notice,) = rendering.notices
    assert (notice.reason, notice.degraded) == ("NotServedYet", True)
    assert "spec.nats.shared is not served by this version yet" in notice.message
    assert not [c for c in rendering.children if c["kind"] == "Deployment"]


def test_no_default_of_the_install_moves_an_engine() -> None:
    resource = a_resource(nats=None)
    by_default = rendered(resource, nats_default="shared", nats_engine_url="nats://weir:4222")
    assert by_default.children == rendered(resource).children
    (notice,) = by_default.notices
    assert not notice.degraded
