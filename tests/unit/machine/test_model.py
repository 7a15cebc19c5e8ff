"""What the model foretells of workloads that change their kind, and of kinds that come and go."""

from __future__ import annotations

from crds.inferadeployment import KIND
from crds.kubernetes import Manifest
from tests.e2e.machine.model import Model, Ref, Resource, Snapshot, kind_of
from tests.refused import resource

FORMER, SUCCESSOR = "Deployment/ant-worker", "LeaderWorkerSet/ant-worker"
ROUTE = "HTTPRoute/ant-route"
GATEWAY: Manifest = {"enabled": True, "tokenizerPath": "/t", "gatewayName": "entry"}


def asking(nodes: int, **more: Manifest) -> Resource:
    """Return a resource with a worker on so many nodes."""
    worker = {"componentType": "worker", "numberOfNodes": nodes}
    stored = resource("ant", **{"services": {"worker": worker}, **more})
    stored["metadata"] |= {"namespace": "ns", "uid": "u-1", "generation": 1}
    made = Resource(asked=stored["spec"], stored=stored)
    made.take(stored["spec"], stored)
    return made


def holding(*refs: Ref) -> Snapshot:
    """Return a namespace with these children of it."""
    owner = {"kind": KIND.kind, "name": "ant", "uid": "u-1", "controller": True}
    metadata = {"uid": "c-1", "ownerReferences": [owner]}
    objects = {ref: {"kind": kind_of(ref), "metadata": metadata} for ref in refs}
    return Snapshot(resources={}, objects=objects)


def a_model(*settled: Ref, absent: frozenset[str] = frozenset(), has_pods: bool = False) -> Model:
    """Return a model of what was at rest with these children; the API server refuses none."""
    model = Model(lambda child: child, absent, has_pods=has_pods)
    model.settle(holding(*settled))
    return model


def test_a_former_workload_stays_where_no_pods_are_whichever_way_the_worker_turned() -> None:
    now = holding(FORMER, SUCCESSOR)
    assert a_model(FORMER).staying(asking(2), now) == {FORMER}
    assert a_model(SUCCESSOR).staying(asking(1), now) == {SUCCESSOR}
    assert a_model().staying(asking(2), now) == set()
    assert a_model(FORMER).held(asking(2), now) == {FORMER}


def test_with_pods_it_stays_only_while_its_successor_lacks() -> None:
    now = holding(FORMER)
    assert a_model(FORMER, has_pods=True).staying(asking(2), now) == set()
    no_groups = frozenset({"LeaderWorkerSet"})
    assert a_model(FORMER, has_pods=True, absent=no_groups).staying(asking(2), now) == {FORMER}
    squatted = a_model(FORMER, has_pods=True)
    squatted.squats[SUCCESSOR] = {}
    assert squatted.staying(asking(2), now) == {FORMER}


def test_what_is_of_a_kind_that_is_not_served_is_lacking_and_its_siblings_are_wanted() -> None:
    model = a_model(absent=frozenset({"LeaderWorkerSet", "HTTPRoute"}))
    asked = asking(2, gaie=GATEWAY)
    assert model.lacking(asked, holding()) == {SUCCESSOR, ROUTE}
    assert model.held(asked, holding()) == set()
    assert {"InferencePool/ant-pool", "Deployment/ant-epp"} <= model.wanted(asked).keys()
    assert not {SUCCESSOR, ROUTE} & model.wanted(asked).keys()


def test_what_goes_with_its_kind_is_nobodys_fault() -> None:
    absent: set[str] = set()
    model = Model(lambda child: child, absent, has_pods=False)
    model.settle(holding(SUCCESSOR, ROUTE))
    model.resources["ant"] = asking(1)
    model.squats = {"LeaderWorkerSet/bee-worker": {}, "HTTPRoute/bee-route": {}}
    absent.add("LeaderWorkerSet")
    assert model.lose("LeaderWorkerSet") == {SUCCESSOR}
    assert model.resources["ant"].meddled == {SUCCESSOR}
    assert model.staying(model.resources["ant"], holding()) == set()
    assert [*model.squats] == ["HTTPRoute/bee-route"]


BROKER = {"StatefulSet/ant-nats", "Service/ant-nats"}
RIGHTS = {"ServiceAccount/ant-disc", "Role/ant-disc", "RoleBinding/ant-disc"}
MOVED: Manifest = {
    "nats": {"url": "nats://bus.example:4222"},
    "discoveryBackend": "etcd",
    "etcdEndpoint": "etcd.example:2379",
}


def test_what_pods_run_on_stays_while_a_workload_lacks_and_where_no_pods_are() -> None:
    worker = "Deployment/ant-worker"
    there = (*BROKER, *RIGHTS, worker)
    now, moved = holding(*there), asking(1, **MOVED)
    assert moved.let_go() == BROKER | RIGHTS
    assert asking(1, nats={"deploy": True}).let_go() == set()
    assert a_model(*there).staying(moved, now) == BROKER | RIGHTS
    assert a_model(*RIGHTS, worker).staying(asking(1), now) == set()
    assert a_model(*there, has_pods=True).staying(moved, now) == set()
    lacking = a_model(*there, has_pods=True, absent=frozenset({"LeaderWorkerSet"}))
    assert lacking.staying(asking(2, **MOVED), now) == {*there}


def test_a_worker_of_no_pods_waits_for_nothing_and_nothing_for_it_unless_it_is_there() -> None:
    there = (*BROKER, FORMER)
    none = {"componentType": "worker", "numberOfNodes": 2, "replicas": 0}
    idle = asking(1, nats={"deploy": False}, services={"worker": none})
    absent = a_model(*there, absent=frozenset({"LeaderWorkerSet"}))
    assert absent.staying(idle, holding(*there)) == set()
    assert a_model(*there).staying(idle, holding(*there, SUCCESSOR)) == BROKER
