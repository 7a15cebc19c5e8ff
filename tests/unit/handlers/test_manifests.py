"""What every rendering is tidied of: nulls, and two entries of one key."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from crds.inferadeployment import KIND
from crds.kubernetes import SERVICE, ObjectMeta
from handlers.manifests import child, deduplicated, without_nulls


def test_a_child_names_its_owner_as_the_controller_whose_deletion_waits_for_it() -> None:
    owner = ObjectMeta(name="demo", namespace="models", uid="u")
    manifest = child(SERVICE, "demo-s", {"a": "b"}, of=(KIND, owner), spec={})
    assert manifest == {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "demo-s",
            "namespace": "models",
            "labels": {"a": "b"},
            "ownerReferences": [
                {
                    "apiVersion": "infera.amd.com/v1alpha1",
                    "kind": "InferaDeployment",
                    "name": "demo",
                    "uid": "u",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {},
    }


def test_nulls_go_at_every_depth_and_nothing_else_does() -> None:
    given_value = {"a": None, "b": [{"c": None, "d": 0}, None, ""], "e": {"f": {"g": None}}}
    assert without_nulls(given_value) == {"b": [{"d": 0}, None, ""], "e": {"f": {}}}


def test_the_last_variable_of_a_name_wins_and_keeps_its_place() -> None:
    env = [{"name": "A", "value": "1"}, {"name": "B"}, {"name": "A", "value": "2"}]
    spec, dropped = deduplicated({"containers": [{"name": "main", "env": env}]})
    assert spec["containers"][0]["env"] == [{"name": "B"}, {"name": "A", "value": "2"}]
    assert dropped == ("env A of container main",)


def test_ports_are_one_when_number_and_protocol_are_and_tcp_is_the_protocol_unsaid() -> None:
    ports = [
        {"containerPort": 80, "name": "x"},
        {"containerPort": 80, "protocol": "UDP"},
        {"containerPort": 80, "protocol": "TCP"},
    ]
    spec, dropped = deduplicated({"initContainers": [{"name": "i", "ports": ports}]})
    assert spec["initContainers"][0]["ports"] == ports[1:]
    assert dropped == ("ports 80/TCP of container i",)


def test_volumes_by_name_and_mounts_by_path() -> None:
    spec, dropped = deduplicated(
        {
            "volumes": [{"name": "v", "emptyDir": {}}, {"name": "v", "hostPath": {"path": "/"}}],
            "containers": [
                {
                    "name": "main",
                    "volumeMounts": [
                        {"name": "v", "mountPath": "/a"},
                        {"name": "v", "mountPath": "/b"},
                        {"name": "w", "mountPath": "/a"},
                    ],
                }
            ],
        }
    )
    assert spec["volumes"] == [{"name": "v", "hostPath": {"path": "/"}}]
    mounts = [mount["mountPath"] for mount in spec["containers"][0]["volumeMounts"]]
    assert mounts == ["/b", "/a"]
    assert dropped == ("volumes v of the pod", "volumeMounts /a of container main")


def test_what_is_no_list_of_objects_is_left_for_the_api_server_to_refuse() -> None:
    spec = {"containers": [{"name": "m", "env": "x", "ports": [1, 1, None, {"name": True}]}, 7]}
    assert deduplicated(spec) == (spec, ())


scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=3))
anything = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=8,
)
variables = st.lists(
    st.one_of(
        st.fixed_dictionaries(
            {"name": st.sampled_from("ABC")}, optional={"value": st.text(max_size=2)}
        ),
        anything,
    ),
    max_size=8,
)


@given(env=variables)
def test_without_duplicates_every_name_stands_once_with_its_last_value(env: list[Any]) -> None:
    spec, dropped = deduplicated({"containers": [{"name": "main", "env": env}]})
    kept = spec["containers"][0]["env"]
    named = [item for item in kept if isinstance(item, dict) and item.get("name") in set("ABC")]
    names = [item["name"] for item in named]
    assert len(names) == len(set(names))
    for item in named:
        assert item == [e for e in env if isinstance(e, dict) and e.get("name") == item["name"]][-1]
    assert bool(dropped) == (len(kept) < len(env))


@given(spec=st.dictionaries(st.sampled_from(["containers", "volumes", "x"]), anything))
def test_tidying_twice_is_tidying_once(spec: dict[str, Any]) -> None:
    once, _ = deduplicated(spec)
    assert deduplicated(once) == (once, ())


@given(value=anything)
def test_no_object_keeps_a_null(value: Any) -> None:
    def has_null(item: Any) -> bool:
        if isinstance(item, dict):
            return any(inner is None or has_null(inner) for inner in item.values())
        return isinstance(item, list) and any(map(has_null, item))

    assert not has_null(without_nulls(value))
