"""Which NATS a deployment uses, and the broker that is its own."""

from __future__ import annotations

from typing import Any

import pytest

from handlers.conditions import transitions
from handlers.handler import ChildName, Facts, TerminalError
from handlers.inferadeployment import HANDLER
from handlers.inferadeployment.nats import IMAGE
from tests.unit.handlers.inferadeployment.resources import (
    a_resource,
    children,
    condition,
    container,
    observed,
    raw,
    read,
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


SHARED = {"nats_engine_url": "nats://weir.infra:4222"}
BY_DEFAULT = {**SHARED, "nats_default": "shared"}
BROKER = (ChildName("StatefulSet", "demo-nats"), ChildName("Service", "demo-nats"))
WORKLOADS = (ChildName("Deployment", "demo-server"), ChildName("Deployment", "demo-worker"))


@pytest.mark.parametrize(
    ("nats", "facts", "names"),
    [
        ({"shared": True}, {}, "spec.nats.shared"),
        (None, {"nats_default": "shared"}, "WEIR_NATS_DEFAULT"),
    ],
)
def test_the_shared_nats_needs_an_install_that_names_one(
    nats: dict[str, Any] | None, facts: dict[str, Any], names: str
) -> None:
    with pytest.raises(TerminalError, match="WEIR_NATS_ENGINE_URL") as refusal:
        rendered(a_resource(nats=nats), **facts)
    assert names in refusal.value.message


def test_no_password_of_the_install_gets_into_a_pod_or_a_message() -> None:
    with pytest.raises(TerminalError, match="credentialsSecretRef") as refusal:
        rendered(a_resource(nats={"shared": True}), nats_engine_url="nats://u:geheim@n:4222")
    assert "geheim" not in refusal.value.message


@pytest.mark.parametrize(
    ("nats", "facts"), [({"shared": True}, SHARED), ({"shared": True}, BY_DEFAULT)]
)
def test_who_asks_for_the_shared_nats_gets_it_like_any_other_url_and_a_word_of_warning(
    nats: dict[str, Any], facts: dict[str, Any]
) -> None:
    shared = rendered(a_resource(nats=nats), **facts)
    by_url = rendered(a_resource(nats={"url": "nats://weir.infra:4222"}))
    assert shared.children == by_url.children
    (notice,) = shared.notices
    assert (notice.reason, notice.degraded) == ("SharedBus", False)
    assert "INFERA_KV_EVENTS" in notice.message
    assert "spec.nats.deploy" in notice.message


def test_frontends_and_picker_are_on_the_shared_nats_too() -> None:
    gaie = {"enabled": True, "tokenizerPath": "t", "gatewayName": "g"}
    found = children(rendered(a_resource(nats={"shared": True}, gaie=gaie), **SHARED))
    for name in ("demo-worker", "demo-epp"):
        last = found["Deployment", name]["spec"]["template"]["spec"]["containers"][-1]
        assert "nats://weir.infra:4222" in last["command"]
        assert last["env"][0] == {"name": "NATS_SERVER", "value": "nats://weir.infra:4222"}


def test_where_the_default_is_shared_a_new_deployment_that_says_nothing_shares() -> None:
    by_default = rendered(a_resource(nats=None), **BY_DEFAULT)
    asked_for = rendered(a_resource(nats={"shared": True}), **SHARED)
    assert by_default.children == asked_for.children
    assert [notice.reason for notice in by_default.notices] == ["SharedBus"]


@pytest.mark.parametrize("left", [BROKER, BROKER[:1], BROKER[1:], WORKLOADS[:1], WORKLOADS[1:]])
def test_no_default_takes_a_broker_away_or_moves_an_engine(left: tuple[ChildName, ...]) -> None:
    """Nor does it where somebody deleted the broker, or a part of it: that is made again."""
    resource = a_resource(nats=None)
    managed = rendered(resource)
    existing = {name: children(managed)[name] for name in left}
    assert rendered(resource, **BY_DEFAULT, existing=existing) == managed
    assert set(children(managed)) >= OWN


def test_engines_of_several_nodes_are_not_moved_either() -> None:
    services = {"big": {"componentType": "worker", "numberOfNodes": 2}}
    resource = a_resource(nats=None, services=services)
    managed = rendered(resource)
    big = ChildName("LeaderWorkerSet", "demo-big")
    existing = {big: children(managed)[big]}
    assert rendered(resource, **BY_DEFAULT, existing=existing) == managed


@pytest.mark.parametrize("before", [{"deploy": False}, {"url": "nats://n:4222"}, {"shared": True}])
def test_engines_that_never_had_a_broker_of_their_own_take_the_default(
    before: dict[str, Any],
) -> None:
    were = children(rendered(a_resource(nats=before), **SHARED))
    existing = {name: were[name] for name in WORKLOADS}
    resource = a_resource(nats=None)
    assert rendered(resource, **BY_DEFAULT, existing=existing) == rendered(resource, **BY_DEFAULT)


def test_what_a_deployment_has_decides_nothing_where_it_says_what_it_wants() -> None:
    made = children(rendered(a_resource(nats=None)))
    has_broker = {name: made[name] for name in (*BROKER, *WORKLOADS)}
    for nats in ({"shared": True}, {"url": "nats://n"}, {"deploy": False}, {"deploy": True}, {}):
        resource = a_resource(nats=nats)
        with_broker = rendered(resource, **BY_DEFAULT, existing=has_broker)
        assert with_broker == rendered(resource, **BY_DEFAULT)


@pytest.mark.parametrize(
    ("nats", "default", "names"),
    [
        (None, "shared", (*BROKER, *WORKLOADS)),
        (None, "managed", WORKLOADS),
        ({}, "shared", ()),
        ({"deploy": False}, "shared", ()),
        ({"shared": True}, "shared", ()),
        ({"image": "nats:2"}, "shared", ()),
    ],
)
def test_broker_and_workloads_are_looked_at_only_where_the_resource_does_not_say(
    nats: dict[str, Any] | None, default: str, names: tuple[ChildName, ...]
) -> None:
    resource = a_resource(nats=nats)
    assert HANDLER.depends_on(resource, Facts(nats_default=default)) == names
    at_birth = Facts(nats_default=default, is_birth=True)
    assert HANDLER.depends_on(resource, at_birth) == tuple(name for name in names if name in BROKER)


MANAGED: dict[str, Any] = {"nats_engine_url": SHARED["nats_engine_url"]}


@pytest.mark.parametrize("now", [MANAGED, BY_DEFAULT, {}])
@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("seen", [("server",), ("worker",), ("server", "worker")])
def test_pods_stay_with_the_nats_that_they_use_whatever_the_default_becomes(
    now: dict[str, Any], nodes: int, seen: tuple[str, ...]
) -> None:
    """With the broker deleted by hand, too: it is made anew where its engines look for it."""
    worker = {"componentType": "worker", "numberOfNodes": nodes}
    services = {"server": {"componentType": "server"}, "worker": worker}
    resource = a_resource(nats=None, services=services)
    for before in (MANAGED, BY_DEFAULT):
        if before is BY_DEFAULT and not now:
            continue  # the install names the shared NATS no more
        born = rendered(resource, **before)
        lives = {
            name: manifest
            for name in HANDLER.depends_on(resource, Facts(**now))
            if name.name.rpartition("-")[2] in seen
            for manifest in (children(born).get(name),)
            if manifest is not None
        }
        assert lives
        kept = rendered(resource, **now, existing=lives)
        assert kept.children == born.children


def test_an_edit_of_a_kind_or_a_name_moves_no_engine() -> None:
    lone = {"worker": {"componentType": "worker"}}
    born = children(rendered(a_resource(nats=None, services=lone), **BY_DEFAULT))
    status = {"services": {"worker": {"kind": "Deployment"}}}
    for services in (
        {"worker": {"componentType": "worker", "numberOfNodes": 2}},
        {"engine": {"componentType": "worker"}},
    ):
        edited = read(raw(nats=None, services=services) | {"status": status})
        names = HANDLER.depends_on(edited, Facts(**MANAGED))
        existing = {name: born[name] for name in names if name in born}
        assert existing
        kept = rendered(edited, **MANAGED, existing=existing)
        assert [notice.reason for notice in kept.notices] == ["SharedBus"]


def test_pods_that_were_told_another_nats_follow_the_default_once_the_resource_says_none() -> None:
    resource = a_resource(nats=None)
    for nats in ({"url": "nats://former:4222"}, {"deploy": False}):
        lives = children(rendered(a_resource(nats=nats)))
        existing = {name: lives[name] for name in WORKLOADS}
        for facts in (MANAGED, BY_DEFAULT):
            moved = rendered(resource, **facts, existing=existing)
            assert moved.children == rendered(resource, **facts).children


def test_the_url_of_the_shared_nats_is_the_shared_nats() -> None:
    by_url = rendered(a_resource(nats={"url": SHARED["nats_engine_url"]}), **SHARED)
    assert [notice.reason for notice in by_url.notices] == ["SharedBus"]


@pytest.mark.parametrize("nats", [{}, {"image": "n:1"}, {"shared": False}, {"storageSize": "8Gi"}])
def test_a_block_that_asks_for_no_other_nats_is_an_own_one_whatever_the_default(
    nats: dict[str, Any],
) -> None:
    assert set(children(rendered(a_resource(nats=nats), **BY_DEFAULT))) >= OWN


def test_whoever_shares_a_nats_is_told_so_and_is_ready() -> None:
    shared = a_resource(nats={"shared": True})
    seen = observed(rendered(shared, nats_engine_url="nats://weir:4222"))
    found = HANDLER.status(shared, seen)
    assert condition(found, "Ready")["status"] == "True"
    assert condition(found, "Degraded")["status"] == "False"
    assert condition(found, "SharedBus")["status"] == "True"
    plain = read(raw() | {"status": found})
    own = HANDLER.status(plain, observed(rendered(plain)))
    assert "SharedBus" not in [c["type"] for c in own["conditions"]]


def test_a_shared_nats_is_told_beside_every_other_warning() -> None:
    both = a_resource(
        nats={"shared": True}, discoveryBackend="etcd", etcdEndpoint="etcd.example:2379"
    )
    rendering = rendered(both, nats_engine_url="nats://weir:4222")
    before = HANDLER.status(a_resource(), observed(rendered(a_resource())))
    after = HANDLER.status(both, observed(rendering))
    assert condition(after, "Warning")["reason"] == "EtcdDiscovery"
    assert condition(after, "SharedBus")["status"] == "True"
    told = {change.type for change in transitions(before, after) if change.warning}
    assert told == {"Warning", "SharedBus"}
