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


def live(*parents: Any, generation: int = 1) -> Manifest:
    return {"metadata": {"generation": generation}, "status": {"parents": list(parents)}}


def test_what_is_not_there_is_not_accepted() -> None:
    for judge in (pool, route):
        found = judge(None, GATEWAY)
        assert (found.is_accepted, found.reason) == (False, "Creating")


@pytest.mark.parametrize(
    ("parents", "is_accepted", "reason"),
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
    ],
)
def test_a_pool_counts_once_whoever_reports_conditions_accepts_it(
    parents: list[Manifest], is_accepted: bool, reason: str | None
) -> None:
    found = pool(live(*parents), GATEWAY)
    assert found.is_accepted is is_accepted
    if reason:
        assert found.reason == reason


@pytest.mark.parametrize(
    ("parents", "is_accepted", "reason"),
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
    ],
)
def test_a_route_counts_once_its_own_gateway_accepts_its_present_version(
    parents: list[Manifest], is_accepted: bool, reason: str | None
) -> None:
    found = route(live(*parents), GATEWAY)
    assert found.is_accepted is is_accepted
    if reason:
        assert found.reason == reason


def test_the_gateways_words_are_told_and_one_that_is_silent_is_named() -> None:
    refused = live(accepted(OURS, "False", reason="NotAllowedByListeners", message="no listener"))
    assert route(refused, GATEWAY).lacks == "is not accepted by the Gateway infra/gw: no listener"
    wordless = live(accepted(OURS, "False", reason="NoMatchingParent"))
    assert route(wordless, GATEWAY).lacks.endswith(": NoMatchingParent")
    assert "check that the Gateway infra/gw exists" in route(live(), GATEWAY).lacks


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
