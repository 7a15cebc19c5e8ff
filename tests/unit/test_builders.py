from __future__ import annotations

import msgspec

from tests.builders import a_small_deployment, an_infera_deployment, many


def test_a_sentence_becomes_the_resource_that_a_user_would_apply() -> None:
    built = (
        an_infera_deployment("chat")
        .with_server(replicas=2)
        .with_worker("decode", gpus=8, nodes=2, role="decode")
        .with_env("A", "1")
        .labelled(team="blue")
        .in_namespace("ns")
    )

    assert built.manifest() == {
        "apiVersion": "infera.amd.com/v1alpha1",
        "kind": "InferaDeployment",
        "metadata": {"name": "chat", "namespace": "ns", "labels": {"team": "blue"}},
        "spec": {
            "image": "registry.example/infera:1",
            "nats": {"deploy": False},
            "envs": [{"name": "A", "value": "1"}],
            "services": {
                "server": {"componentType": "server", "replicas": 2},
                "decode": {
                    "componentType": "worker",
                    "role": "decode",
                    "numberOfNodes": 2,
                    "resources": {"gpu": 8},
                },
            },
        },
    }


def test_a_builder_is_a_value_from_which_tests_branch() -> None:
    base = a_small_deployment()
    before = msgspec.json.encode(base.manifest())

    edited = base.with_service("worker", replicas=3).with_worker("extra").without_service("server")
    edited.manifest()["spec"]["services"]["worker"]["args"] = ["changed"]

    assert msgspec.json.encode(base.manifest()) == before
    assert edited.manifest()["spec"]["services"] == {
        "worker": {"componentType": "worker", "replicas": 3},
        "extra": {"componentType": "worker"},
    }


def test_many_are_alike_but_for_their_names() -> None:
    made = many(500, a_small_deployment("load").in_namespace("ns"))

    assert len({resource["metadata"]["name"] for resource in made}) == 500
    assert made[7]["metadata"] == {"name": "load-007", "namespace": "ns"}
    assert made[0]["spec"] == made[499]["spec"]
