"""
The Inference Gateway of a deployment, on the real CRDs of the Gateway API.

InferencePool and the Gateway's controller are stand-ins; Weir runs as its real processes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from crds.inferadeployment import FRONTEND_LABEL
from crds.kubernetes import DEPLOYMENT, HTTP_ROUTE, INFERENCE_POOL, SERVICE, Manifest
from handlers.cli.devstack.control_plane import ControlPlane
from tests.builders import InferaDeploymentBuilder, a_small_deployment
from tests.e2e.stage import Stage, condition_of, container, uid
from tests.faults.own_loop import in_thread
from tests.faults.stand_ins.gateways import (
    GATEWAY,
    GATEWAY_GROUP,
    WITHOUT_INFERENCE,
    StandInGateways,
    a_gateway,
)
from tests.faults.stand_ins.installing import GAIE, installed
from tests.stack.eventually import eventually
from tests.witness.quiet import quiet

KINDS = (DEPLOYMENT, SERVICE, INFERENCE_POOL, HTTP_ROUTE)
OF_THE_GATEWAY = {
    "Deployment/chat-epp",
    "Service/chat-epp",
    "InferencePool/chat-pool",
    "HTTPRoute/chat-route",
}
HOSTNAMES = ["a.example.com", "b.example.com"]


@pytest.fixture(scope="module", autouse=True)
def gateways(control_plane: ControlPlane) -> Iterator[None]:
    """All that GAIE needs can be made, and Gateways are served."""
    with installed(control_plane, *GAIE), in_thread(StandInGateways(control_plane)):
        yield


def _behind_a_gateway(**fields: Any) -> InferaDeploymentBuilder:
    """Return a server and a worker that a Gateway `inference` leads to."""
    needed = {"enabled": True, "gatewayName": "inference", "tokenizerPath": "org/model"}
    return a_small_deployment("chat").with_spec(gaie={**needed, **fields})


def _applied(stage: Stage, gateway: Manifest, namespace: str | None = None) -> None:
    where = f"--namespace={namespace or stage.namespace}"
    stage.cluster.kubectl(where, "apply", "-f-", document=gateway)


async def _rests(stage: Stage) -> None:
    """A look at everything writes nothing, and nobody else has anything to write over it."""
    async with quiet(stage.cluster, stage.namespace):
        await stage.looked_at_again("chat")


def _uids(stage: Stage) -> dict[str, str]:
    return {name: uid(child) for name, child in stage.children(KINDS).items()}


async def test_a_gateway_is_switched_on_beside_services_that_serve_and_off_again(
    running: Stage,
) -> None:
    """What was there before keeps its uid all the time, and what came goes without a rest."""
    _applied(running, a_gateway())
    running.apply(a_small_deployment("chat"))
    assert "gaie" not in (await running.ready("chat"))["status"]
    before = _uids(running)
    plain_pods = running.get(DEPLOYMENT, "chat-worker")["spec"]["template"]

    running.apply(_behind_a_gateway(hostnames=HOSTNAMES, frontendPort=8100, eppImage="epp:1"))
    resource = await running.ready("chat")

    assert resource["status"]["gaie"] == {
        "eppReplicas": 1,
        "eppReadyReplicas": 1,
        "inferencePoolName": "chat-pool",
        "inferencePoolReady": True,
        "httpRouteName": "chat-route",
        "httpRouteAccepted": True,
        "ready": True,
    }
    assert running.kubectl("get", "idep", "chat", "-o=jsonpath={.status.state}") == "ready"
    after = _uids(running)
    assert after.keys() - before.keys() == OF_THE_GATEWAY
    assert before.items() <= after.items()
    _assert_leads_to_the_workers(running)
    await _rests(running)

    running.apply(a_small_deployment("chat"))

    await running.vanish(*OF_THE_GATEWAY)
    assert "gaie" not in (await running.ready("chat"))["status"]
    assert _uids(running) == before
    assert running.get(DEPLOYMENT, "chat-worker")["spec"]["template"] == plain_pods
    await _rests(running)


def _assert_leads_to_the_workers(stage: Stage) -> None:
    """Route, pool, picker and sidecar are as the contract says, the API's defaults filled in."""
    route, pool = (
        stage.get(HTTP_ROUTE, "chat-route")["spec"],
        stage.get(INFERENCE_POOL, "chat-pool"),
    )
    assert route == {
        "hostnames": HOSTNAMES,
        "parentRefs": [
            {
                "group": GATEWAY_GROUP,
                "kind": GATEWAY.kind,
                "name": "inference",
                "namespace": stage.namespace,
            }
        ],
        "rules": [
            {
                "matches": [{"path": {"type": "PathPrefix", "value": "/"}}],
                "backendRefs": [
                    {
                        "group": INFERENCE_POOL.group,
                        "kind": INFERENCE_POOL.kind,
                        "name": "chat-pool",
                        "port": 8100,
                        "weight": 1,
                    }
                ],
            }
        ],
    }
    labels = {"infera.amd.com/deployment": "chat", FRONTEND_LABEL: "true"}
    assert pool["spec"]["selector"] == {"matchLabels": labels}
    assert pool["spec"]["targetPorts"] == [{"number": 8100}]
    assert pool["spec"]["endpointPickerRef"]["name"] == "chat-epp"
    (port,) = stage.get(SERVICE, "chat-epp")["spec"]["ports"]
    assert (port["name"], port["port"]) == ("grpc-ext-proc", 9002)
    assert container(stage.get(DEPLOYMENT, "chat-epp"))["image"] == "epp:1"

    worker = stage.get(DEPLOYMENT, "chat-worker")
    sidecar = worker["spec"]["template"]["spec"]["containers"][-1]
    assert (sidecar["name"], sidecar["image"]) == ("infera-frontend", "epp:1")
    assert labels.items() <= worker["spec"]["template"]["metadata"]["labels"].items()
    assert FRONTEND_LABEL not in worker["spec"]["selector"]["matchLabels"]
    server = stage.get(DEPLOYMENT, "chat-server")
    assert len(server["spec"]["template"]["spec"]["containers"]) == 1


async def test_behind_a_gateway_what_pods_no_longer_run_on_goes_too(running: Stage) -> None:
    """A pool and a route have no pods: nothing waits for them."""
    _applied(running, a_gateway())
    running.apply(_behind_a_gateway().with_managed_nats())
    await running.ready("chat")
    elsewhere = {"url": "nats://elsewhere:4222"}
    running.apply(
        _behind_a_gateway().with_spec(
            nats=elsewhere, discoveryBackend="etcd", etcdEndpoint="elsewhere:2379"
        )
    )
    await running.ready("chat")
    rights = (f"{kind}/chat-disc" for kind in ("ServiceAccount", "Role", "RoleBinding"))
    await running.vanish("StatefulSet/chat-nats", "Service/chat-nats", *rights)
    await _rests(running)


async def test_host_names_go_from_the_route_as_they_go_from_the_spec(running: Stage) -> None:
    """One of two, then all; the defaults that the Gateway API fills in stay, and are left alone."""
    _applied(running, a_gateway())
    running.apply(_behind_a_gateway(hostnames=HOSTNAMES))
    await running.ready("chat")
    first = running.get(HTTP_ROUTE, "chat-route")
    assert first["spec"]["hostnames"] == HOSTNAMES
    plain = {field: value for field, value in first["spec"].items() if field != "hostnames"}
    await _rests(running)

    running.apply(_behind_a_gateway(hostnames=HOSTNAMES[1:]))
    await running.ready("chat")
    assert running.get(HTTP_ROUTE, "chat-route")["spec"] == {**plain, "hostnames": HOSTNAMES[1:]}

    running.apply(_behind_a_gateway())
    await running.ready("chat")
    last = running.get(HTTP_ROUTE, "chat-route")
    assert last["spec"] == plain
    assert uid(last) == uid(first)
    await _rests(running)


async def test_a_gateway_that_goes_or_refuses_is_told_and_its_return_is_enough(
    running: Stage,
) -> None:
    _applied(running, a_gateway())
    running.apply(_behind_a_gateway())
    await running.ready("chat")
    where = f"Gateway {running.namespace}/inference"

    running.kubectl("delete", "gateway/inference")
    await running.says("chat", "Ready", "False", "WaitingForGateway", "HTTPRoute chat-route", where)
    status = running.resource("chat")["status"]
    assert status["state"] == "ready"  # of the services alone, as AMD's operator has it
    assert (status["gaie"]["httpRouteAccepted"], status["gaie"]["ready"]) == (False, False)
    assert condition_of({"status": status}, "Progressing")["status"] == "True"

    _applied(running, a_gateway())
    assert (await running.ready("chat"))["status"]["gaie"]["ready"] is True

    nobody = {"matchLabels": {"kubernetes.io/metadata.name": "somewhere"}}
    _applied(running, a_gateway({"from": "Selector", "selector": nobody}))
    words = ("HTTPRoute chat-route is not accepted", where, "no listener of the Gateway allows")
    await running.says("chat", "Ready", "False", "NotAccepted", *words)
    assert condition_of(running.resource("chat"), "Progressing")["status"] == "False"
    await eventually(lambda: "NotAccepted" in _warnings(running))

    _applied(running, a_gateway())
    await running.ready("chat")
    await _rests(running)


def _warnings(stage: Stage) -> set[str]:
    """Return the reasons of the warnings that `kubectl describe idep chat` shows."""
    listed = stage.kubectl("get", "events", "--field-selector=type=Warning", "-o=json")
    return {event["reason"] for event in json.loads(listed)["items"]}


async def test_a_gateway_of_another_namespace_is_ready_once_it_allows_ours(
    running: Stage, elsewhere: str
) -> None:
    """The message names the field that decides, whether or not the Gateway is there yet."""
    running.apply(_behind_a_gateway(gatewayNamespace=elsewhere))
    where = f"Gateway {elsewhere}/inference"
    remedy = ("allowedRoutes.namespaces.from", f"the namespace {running.namespace}")
    await running.says("chat", "Ready", "False", "WaitingForGateway", where, *remedy)

    _applied(running, a_gateway(), elsewhere)  # from: Same, the API's default
    await running.says("chat", "Ready", "False", "NotAccepted", where, *remedy)

    _applied(running, a_gateway({"from": "All"}), elsewhere)
    await running.ready("chat")
    await _rests(running)


@pytest.fixture
def elsewhere(cluster: ControlPlane, namespace: str) -> Iterator[str]:
    """A namespace for Gateways."""
    name = f"{namespace}-gateways"
    cluster.kubectl("create", "namespace", name)
    yield name
    cluster.kubectl("delete", "namespace", name, "--wait=false", check=False)


async def test_a_route_that_is_accepted_and_leads_nowhere_is_not_ready(running: Stage) -> None:
    """As a Gateway's controller without the Inference Extension has it: all requests get 500."""
    _applied(running, a_gateway(class_name=WITHOUT_INFERENCE))
    running.apply(_behind_a_gateway())

    where = f"HTTPRoute chat-route leads nowhere: the Gateway {running.namespace}/inference"
    remedy = "its controller must serve InferencePools"
    await running.says("chat", "Ready", "False", "NotResolved", where, remedy)
    said = running.resource("chat")["status"]["gaie"]
    assert (said["httpRouteAccepted"], said["ready"]) == (True, False)
    await eventually(lambda: "NotResolved" in _warnings(running))

    _applied(running, a_gateway())
    assert (await running.ready("chat"))["status"]["gaie"]["ready"] is True
