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


def test_two_events_never_share_a_name_and_no_name_is_too_long() -> None:
    resource = a_resource(name="x" * 253)
    names = {
        event_manifest(resource, a_transition(), "me", NOW)["metadata"]["name"] for _ in range(50)
    }
    assert len(names) == 50
    assert all(len(name) <= 253 for name in names)


def test_words_and_identity_are_bounded_as_the_server_asks() -> None:
    event = event_manifest(a_resource(), a_transition(message="x" * 9999), "i" * 999, NOW)
    assert len(event["message"]) == 1024
    assert len(event["reportingInstance"]) <= 128
