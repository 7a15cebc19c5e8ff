"""The stand-ins for a Gateway's controller and for AMD's operator do what other tests rely on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from crds.kind import Kind
from crds.kubernetes import (
    HTTP_ROUTE,
    INFERENCE_POOL,
    ROLE,
    Manifest,
)
from handlers.cli.devstack.control_plane import ControlPlane
from tests.e2e.stage import OWNED_KINDS, Stage, controller_of, uid
from tests.faults.own_loop import in_thread
from tests.faults.stand_ins.gateways import (
    CONTROLLER_NAME,
    GATEWAY_GROUP,
    WITHOUT_INFERENCE,
    StandInGateways,
    a_gateway,
)
from tests.faults.stand_ins.installing import ALL, installed
from tests.faults.stand_ins.leader_worker_sets import StandInLeaderWorkerSets
from tests.faults.stand_ins.reference_operator import (
    EVERY_SECONDS,
    GOLDENS,
    MANAGER,
    Golden,
    StandInReferenceOperator,
    golden,
)
from tests.stack.eventually import eventually
from tests.stack.fixtures import Weir

# The Gateway


@pytest.fixture(scope="module")
def kinds_of_others(control_plane: ControlPlane) -> Iterator[None]:
    """LeaderWorkerSets and all that GAIE needs can be made."""
    with installed(control_plane, *ALL):
        yield


@pytest.fixture
def stage(control_plane: ControlPlane, namespace: str, weir: Weir) -> Stage:
    """A namespace in which Weir does not run."""
    return Stage(control_plane, namespace, weir)


PARENT = {"group": GATEWAY_GROUP, "kind": "Gateway", "name": "inference"}


def _route_and_pool(gateway_namespace: str) -> list[Manifest]:
    backend = {
        "group": INFERENCE_POOL.group,
        "kind": INFERENCE_POOL.kind,
        "name": "chat-pool",
        "port": 8000,
    }
    route: Manifest = {
        "apiVersion": HTTP_ROUTE.api_version,
        "kind": HTTP_ROUTE.kind,
        "metadata": {"name": "chat-route"},
        "spec": {
            "parentRefs": [{**PARENT, "namespace": gateway_namespace}],
            "rules": [{"backendRefs": [backend]}],
        },
    }
    pool: Manifest = {
        "apiVersion": INFERENCE_POOL.api_version,
        "kind": INFERENCE_POOL.kind,
        "metadata": {"name": "chat-pool"},
        "spec": {
            "targetPorts": [{"number": 8000}],
            "selector": {"matchLabels": {"a": "b"}},
            "endpointPickerRef": {"name": "chat-epp", "port": {"number": 9002}},
        },
    }
    return [route, pool]


async def test_a_route_is_accepted_while_its_gateway_is_there_and_allows_it(
    kinds_of_others: None, stage: Stage
) -> None:
    def says(kind: Kind, name: str) -> list[dict[str, str]]:
        parents = (stage.get(kind, name).get("status") or {}).get("parents") or []
        return [
            {condition["type"]: condition["status"] for condition in parent["conditions"]}
            for parent in parents
        ]

    def both_say(*told: Mapping[str, str]) -> Any:
        return lambda: (
            [*told] == says(HTTP_ROUTE, "chat-route") == says(INFERENCE_POOL, "chat-pool")
        )

    accepted = {"Accepted": "True", "ResolvedRefs": "True"}
    with in_thread(StandInGateways(stage.cluster)):
        stage.kubectl("apply", "-f-", document=a_gateway())
        for document in _route_and_pool(stage.namespace):
            stage.kubectl("apply", "-f-", document=document)
        await eventually(both_say(accepted))
        (parent,) = stage.get(HTTP_ROUTE, "chat-route")["status"]["parents"]
        assert parent["parentRef"] == {**PARENT, "namespace": stage.namespace}
        assert parent["controllerName"] == CONTROLLER_NAME

        stage.kubectl("delete", "gateway/inference")
        await eventually(both_say())

        # A namespace that no listener allows is told so; its pool is not served.
        other = {"matchLabels": {"kubernetes.io/metadata.name": "elsewhere"}}
        stage.kubectl("apply", "-f-", document=a_gateway({"from": "Selector", "selector": other}))
        refused = {"Accepted": "False", "ResolvedRefs": "True"}
        await eventually(lambda: says(HTTP_ROUTE, "chat-route") == [refused])
        assert says(INFERENCE_POOL, "chat-pool") == []

        stage.kubectl("apply", "-f-", document=a_gateway({"from": "All"}))
        await eventually(both_say(accepted))
        lacks = {"Accepted": "True", "ResolvedRefs": "False"}
        stage.kubectl("apply", "-f-", document=a_gateway(class_name=WITHOUT_INFERENCE))
        await eventually(lambda: says(HTTP_ROUTE, "chat-route") == [lacks])
        await eventually(lambda: says(INFERENCE_POOL, "chat-pool") == [])

        stage.kubectl("apply", "-f-", document=a_gateway())
        await eventually(both_say(accepted))
        stage.kubectl("delete", "inferencepool/chat-pool")
        await eventually(lambda: says(HTTP_ROUTE, "chat-route") == [lacks])


# The reference operator

NAMES = sorted(path.name.removesuffix(".in.yaml") for path in GOLDENS.glob("*.in.yaml"))
KINDS = {kind.kind: kind for kind in OWNED_KINDS}


def _children(stage: Stage, served: Golden) -> dict[str, Manifest]:
    """Return the children that the golden names, which must be there."""
    pairs = {key: key.split("/") for key in served.managers}
    return {key: stage.get(KINDS[kind], name) for key, (kind, name) in pairs.items()}


def _theirs(stage: Stage, offset: int) -> list[str]:
    """Return what the reference's stand-in has written since, its status left out."""
    written = stage.audit.mutating(
        from_offset=offset, namespace=stage.namespace, user_agent_prefix=f"stand-in-{MANAGER}"
    )
    return [str(event) for event in written if event.object_ref.subresource != "status"]


async def test_children_of_a_golden_are_written_once_and_by_the_manager_of_the_reference(
    kinds_of_others: None, stage: Stage
) -> None:
    for name in NAMES:
        served = golden(name)
        stage.kubectl("apply", "-f-", document=served.resource)
        operator = StandInReferenceOperator(stage.cluster, stage.namespace, served)
        await operator.once()
        resource = stage.resource(name)
        is_refused = resource["status"]["state"] == "failed"
        assert is_refused == (served.status["state"] == "failed"), name
        for key, child in _children(stage, served).items():
            assert controller_of(child)["uid"] == uid(resource), key
            entries = [
                (entry["operation"], entry.get("subresource"))
                for entry in child["metadata"]["managedFields"]
                if entry["manager"] == MANAGER
            ]
            assert entries == [("Update", None)], key
        offset = stage.audit.offset()
        await operator.once()
        assert _theirs(stage, offset) == []
        stage.kubectl("delete", "idep", name)


@pytest.mark.parametrize("name", ["multinode", "gaie-hosts"])
async def test_the_reference_goes_on_until_it_is_stopped_and_says_what_it_said(
    kinds_of_others: None, stage: Stage, name: str
) -> None:
    """No Gateway is served: the goldens were made so."""
    served = golden(name)

    def is_as_it_was() -> bool:
        assert stage.resource(name)["status"] == served.status
        managers = {
            key: sorted(
                {(e["manager"], e["operation"]) for e in child["metadata"]["managedFields"]}
            )
            for key, child in _children(stage, served).items()
        }
        assert managers == {key: sorted(map(tuple, of)) for key, of in served.managers.items()}
        return True

    with in_thread(StandInLeaderWorkerSets(stage.cluster)):
        stage.kubectl("apply", "-f-", document=served.resource)
        role = f"role/{name}-disc"
        with in_thread(StandInReferenceOperator(stage.cluster, stage.namespace, served)):
            await eventually(is_as_it_was)
            stage.kubectl("label", role, "of=others")
            stage.kubectl("annotate", role, "of=others")
            stage.patch(role, {"rules": []})

            def is_put_back() -> bool:
                live = stage.get(ROLE, f"{name}-disc")
                assert "of" not in live["metadata"]["labels"]
                assert len(live["rules"] or ()) == 2
                return bool(live["metadata"]["annotations"]["of"] == "others")

            await eventually(is_put_back)
        offset = stage.audit.offset()
        stage.patch(role, {"rules": []})
        await asyncio.sleep(2 * EVERY_SECONDS)
        assert _theirs(stage, offset) == []
        stage.kubectl("delete", "idep", name)
        await eventually(lambda: not stage.pods())
