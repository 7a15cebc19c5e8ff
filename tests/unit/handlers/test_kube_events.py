"""The Kubernetes Event of a transition."""

from __future__ import annotations

from typing import Any

from handlers.conditions import Transition
from handlers.kube_events import event_manifest

NOW = "2026-01-01T00:00:00Z"


def a_resource(**metadata: Any) -> dict[str, Any]:
    known = {"name": "chat", "namespace": "a", "uid": "u", "resourceVersion": "7", **metadata}
    return {"apiVersion": "g/v1", "kind": "K", "metadata": known}


def a_transition(*, warning: bool = False, message: str = "words") -> Transition:
    return Transition(
        type="Ready", status="True", reason="AllReady", message=message, warning=warning
    )


def test_an_event_is_about_one_state_of_its_resource() -> None:
    event = event_manifest(a_resource(), a_transition(), "me", NOW)
    assert event["involvedObject"] == {
        "apiVersion": "g/v1",
        "kind": "K",
        "name": "chat",
        "namespace": "a",
        "uid": "u",
        "resourceVersion": "7",
    }
    assert event["metadata"]["namespace"] == "a"
    assert (event["type"], event["reason"], event["message"]) == ("Normal", "AllReady", "words")


def test_a_transition_that_a_person_should_look_at_is_a_warning() -> None:
    assert event_manifest(a_resource(), a_transition(warning=True), "me", NOW)["type"] == "Warning"


def test_a_transition_of_one_state_has_one_event_and_the_next_state_another() -> None:
    """So that a look which was cut before its status was written tells nothing twice."""
    resource = a_resource(name="x" * 253)
    first, again = (event_manifest(resource, a_transition(), "me", NOW) for _ in range(2))
    assert first["metadata"]["name"] == again["metadata"]["name"]
    assert len(first["metadata"]["name"]) <= 253
    resource["metadata"]["resourceVersion"] += "1"
    later = event_manifest(resource, a_transition(), "me", NOW)
    assert later["metadata"]["name"] != first["metadata"]["name"]


def test_an_event_that_is_told_once_is_the_same_for_a_whole_generation() -> None:
    resource = a_resource()
    first = event_manifest(resource, a_transition(), "me", NOW, once=True)
    resource["metadata"]["resourceVersion"] += "1"
    assert event_manifest(resource, a_transition(), "me", NOW, once=True) == {
        **first,
        "involvedObject": {
            **first["involvedObject"],
            "resourceVersion": resource["metadata"]["resourceVersion"],
        },
    }


def test_an_event_of_an_episode_is_the_same_whatever_becomes_of_the_resource_in_it() -> None:
    def name(version: str, episode: str) -> str:
        resource = a_resource(resourceVersion=version, generation=int(version))
        event = event_manifest(resource, a_transition(), "me", NOW, episode=episode)
        return str(event["metadata"]["name"])

    assert name("1", "a") == name("2", "a")
    assert name("1", "a") != name("1", "b")


def test_words_and_identity_are_bounded_as_the_server_asks() -> None:
    event = event_manifest(a_resource(), a_transition(message="x" * 9999), "i" * 999, NOW)
    assert len(event["message"]) == 1024
    assert len(event["reportingInstance"]) <= 128
