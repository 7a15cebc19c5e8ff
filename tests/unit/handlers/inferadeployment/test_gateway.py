"""Whether a Gateway took a pool and a route."""

from __future__ import annotations

from typing import Any

import pytest

from crds.kubernetes import Manifest
from handlers.inferadeployment.gateway import Gateway, pool, route
from tests.unit.handlers.inferadeployment.resources import accepted

GATEWAY = Gateway(name="gw", namespace="infra")
OURS = {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "gw", "namespace": "infra"}
OTHER = {**OURS, "name": "other"}


def live(*parents: Any, generation: int = 1, namespace: str = "models") -> Manifest:
    return {
        "metadata": {"generation": generation, "namespace": namespace},
        "status": {"parents": list(parents)},
    }


def unresolved(parent: Manifest, status: str = "False", **fields: Any) -> Manifest:
    """Return the word of a Gateway that accepts, and does not find what is referred to."""
    said = accepted(parent)
    said["conditions"].append({"type": "ResolvedRefs", "status": status, **fields})
    return said


def test_what_is_not_there_is_not_accepted() -> None:
    for judge in (pool, route):
        found = judge(None, GATEWAY)
        assert (found.is_accepted, found.reason) == (False, "Creating")


@pytest.mark.parametrize(
    ("parents", "is_ready", "reason"),
    [
        ([], True, None),
        ([{"parentRef": OURS}], True, None),
        ([accepted(OURS)], True, None),
        ([accepted(OURS, "False")], False, "NotAccepted"),
        ([accepted(OURS, "Unknown")], False, "WaitingForGateway"),
        ([accepted(OURS), accepted(OTHER, "False")], True, None),
        ([accepted(OTHER, "False")], False, "NotAccepted"),
        ([accepted(OTHER)], True, None),
        ([accepted(OURS, observedGeneration=0)], False, "WaitingForGateway"),
        ([accepted({"kind": "Status", "name": "default"}, "Unknown")], True, None),
        ([unresolved(OURS, "True")], True, None),
        ([unresolved(OURS)], False, "NotResolved"),
        ([unresolved(OURS, "Unknown")], False, "WaitingForGateway"),
        ([unresolved(OURS), accepted(OTHER)], False, "NotResolved"),
        ([unresolved(OTHER), accepted(OURS)], True, None),
        ([unresolved(OTHER), accepted(OTHER, "False")], False, "NotAccepted"),
    ],
)
def test_a_pool_counts_unless_a_gateway_that_reports_conditions_has_something_against_it(
    parents: list[Manifest], is_ready: bool, reason: str | None
) -> None:
    found = pool(live(*parents), GATEWAY)
    assert found.is_ready is is_ready
    if reason:
        assert found.reason == reason


@pytest.mark.parametrize(
    ("parents", "is_ready", "reason"),
    [
        ([], False, "WaitingForGateway"),
        ([accepted(OURS)], True, None),
        ([accepted({"name": "gw"})], True, None),
        ([accepted(OTHER)], False, "WaitingForGateway"),
        ([accepted({**OURS, "namespace": "else"})], False, "WaitingForGateway"),
        ([accepted({**OURS, "kind": "Service"})], False, "WaitingForGateway"),
        ([accepted(OURS, "False")], False, "NotAccepted"),
        ([accepted(OURS, "False"), accepted(OURS)], True, None),
        ([accepted(OURS, observedGeneration=0)], False, "WaitingForGateway"),
        ([accepted(OURS, "False", observedGeneration=0)], False, "WaitingForGateway"),
        ([unresolved(OURS, "True")], True, None),
        ([unresolved(OURS)], False, "NotResolved"),
        ([unresolved(OURS, reason="InvalidKind")], False, "NotResolved"),
        ([unresolved(OURS, reason="BackendNotFound")], False, "WaitingForGateway"),
        ([unresolved(OURS, "Unknown")], False, "WaitingForGateway"),
        ([unresolved(OURS, observedGeneration=0)], False, "WaitingForGateway"),
        ([unresolved(OURS), accepted(OURS)], True, None),
        ([unresolved(OURS), accepted(OURS, "False")], False, "NotResolved"),
        ([unresolved(OTHER), accepted(OURS)], True, None),
    ],
)
def test_a_route_counts_once_its_own_gateway_accepts_its_present_version_and_finds_its_pool(
    parents: list[Manifest], is_ready: bool, reason: str | None
) -> None:
    found = route(live(*parents), GATEWAY)
    assert found.is_ready is is_ready
    if reason:
        assert found.reason == reason


def test_a_route_that_leads_nowhere_is_still_said_to_be_accepted() -> None:
    """`status.gaie.httpRouteAccepted` means what AMD's operator means by it."""
    assert route(live(unresolved(OURS)), GATEWAY).is_accepted
    assert route(live(unresolved(OURS, "Unknown")), GATEWAY).is_accepted
    assert not route(live(unresolved(OTHER)), GATEWAY).is_accepted
    assert not pool(live(unresolved(OURS)), GATEWAY).is_ready


def test_the_gateways_words_are_told_and_one_that_is_silent_is_named() -> None:
    refused = live(accepted(OURS, "False", reason="UnsupportedValue", message="no such thing"))
    assert route(refused, GATEWAY).lacks == "is not accepted by the Gateway infra/gw: no such thing"
    wordless = live(accepted(OURS, "False", reason="NoMatchingParent"))
    assert route(wordless, GATEWAY).lacks.endswith(": NoMatchingParent")
    assert "check that the Gateway infra/gw exists" in route(live(), GATEWAY).lacks
    begun = live(accepted(OURS, "Unknown"))
    assert route(begun, GATEWAY).lacks.endswith("look at the controller of the Gateway infra/gw")
    of_another = pool(live(accepted(OTHER, "False", message="no")), GATEWAY)
    assert of_another.lacks == "is not accepted by the Gateway infra/other: no"


FROM_OTHERS = (
    "allowedRoutes.namespaces.from of one of its listeners must allow the namespace models: All, "
    "or Selector with a selector that matches it"
)


@pytest.mark.parametrize(
    ("namespace", "remedy"),
    [
        ("models", FROM_OTHERS),
        ("infra", "allowedRoutes of one of its listeners must allow HTTPRoutes of infra"),
    ],
)
def test_a_gateway_whose_listeners_take_no_such_route_says_what_they_must_allow(
    namespace: str, remedy: str
) -> None:
    said = accepted(OURS, "False", reason="NotAllowedByListeners", message="no listener")
    found = route(live(said, namespace=namespace), GATEWAY)
    assert found.reason == "NotAccepted"
    assert found.lacks == f"is not accepted by the Gateway infra/gw: no listener; {remedy}"


def test_a_silent_gateway_of_another_namespace_may_be_one_that_does_not_let_us_in() -> None:
    assert route(live(), GATEWAY).lacks.endswith(f"; {FROM_OTHERS}")
    assert "allowedRoutes" not in route(live(namespace="infra"), GATEWAY).lacks
    own: Manifest = {"status": {}}
    assert "allowedRoutes" not in route(own, Gateway(name="gw", namespace=None)).lacks


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        (
            accepted(OURS, "False", reason="NoMatchingListenerHostname", message="no"),
            "no; change spec.gaie.hostnames, or the hostname of a listener",
        ),
        (
            unresolved(OURS, reason="InvalidKind", message="no"),
            "another Gateway in spec.gaie",
        ),
    ],
)
def test_what_a_user_can_mend_is_told_with_how(said: Manifest, remedy: str) -> None:
    assert route(live(said), GATEWAY).lacks.endswith(remedy)


def test_a_condition_that_names_no_generation_speaks_of_the_present_one() -> None:
    said = accepted(OURS)
    del said["conditions"][1]["observedGeneration"]
    assert route(live(said, generation=4), GATEWAY).is_accepted
    assert not route(live(accepted(OURS), generation=4), GATEWAY).is_accepted


@pytest.mark.parametrize(
    "status", [None, {"parents": None}, {"parents": "x"}, {"parents": [None, {"parentRef": "x"}]}]
)
def test_nonsense_in_a_status_is_no_word_of_anybody(status: Any) -> None:
    found = {"metadata": {}, "status": status}
    assert pool(found, GATEWAY).is_accepted
    assert route(found, GATEWAY).reason == "WaitingForGateway"
