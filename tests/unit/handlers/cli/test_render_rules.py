from __future__ import annotations

import copy
from typing import Any

import pytest

from crds.fields import RULES
from crds.inferadeployment import CONTRACT
from crds.kubernetes import Manifest
from crds.schema import structural
from handlers.cli.render_check import faults
from handlers.cli.render_rules import _compiled
from tests.refused import BY_A_BOUND, BY_A_RULE, named, resource, server, worker


def said(refused: Manifest) -> list[str]:
    return [str(fault) for fault in faults(refused, CONTRACT)]


def rules(schema: Any) -> list[Manifest]:
    if isinstance(schema, dict):
        below = [rule for value in schema.values() for rule in rules(value)]
        return [*schema.get(RULES, ()), *below]
    return [rule for item in schema for rule in rules(item)] if isinstance(schema, list) else []


@pytest.mark.parametrize(("refused", "says"), BY_A_RULE, ids=[says for _, says in BY_A_RULE])
def test_what_a_rule_refuses_in_the_api_server_is_refused_here_in_the_same_words(
    refused: Manifest, says: str
) -> None:
    assert any(says in text for text in said(refused)), said(refused)


@pytest.mark.parametrize(("refused", "says"), BY_A_BOUND, ids=[says for _, says in BY_A_BOUND])
def test_what_the_schema_refuses_in_the_api_server_is_refused_here(
    refused: Manifest, says: str
) -> None:
    assert len(said(refused)) == 1


def test_every_rule_of_the_crd_can_be_evaluated_here() -> None:
    found = rules(structural(CONTRACT.resource))
    assert len(found) >= 20
    for rule in found:
        assert _compiled(rule["rule"])
        assert _compiled(rule.get("messageExpression", rule["rule"]))


@pytest.mark.parametrize(
    "taken",
    [
        resource(),
        resource(nats={"url": "nats://n:4222"}),
        resource(gaie={"enabled": False}),
        worker(resources={"cpu": "500m", "memory": "1.5e3", "sharedMemory": 0, "gpu": 8}),
        {**resource(), "metadata": {"name": "a", "labels": {"ex.com/A_b": ""}}},
        {**resource(), "metadata": {"name": "a", "annotations": {"Ex.com/A_b": "any: {thing}"}}},
        worker(env=[{"name": "x", "value": "", "valueFrom": {"fieldRef": {}}}]),
        worker(env=[{"name": "\ud800", "value": "\ud800"}]),
        worker(role=None, image=None),
        {**named("w" * 31), "metadata": {"name": "d" * 31}},
    ],
)
def test_what_the_api_server_takes_breaks_no_rule(taken: Manifest) -> None:
    assert said(taken) == []


def test_what_a_cluster_gave_may_keep_what_a_new_resource_may_not_have() -> None:
    """As after a take-over: such names and roles were stored before our rules were."""
    for old in (resource("a.b"), {**named("worker"), "metadata": {"name": "d" * 60}}):
        stored = copy.deepcopy(old)
        stored["metadata"]["uid"] = "u-1"
        assert said(old) != []
        assert said(stored) == []
    assert said(server(role="mixed")) != []
    assert said({**server(role="mixed"), "metadata": {"name": "a", "uid": "u-1"}}) == []


@pytest.mark.parametrize("text", ["4", "+4", "4.", ".5", "4e3", "4E3", "4E", "4Ei", "1u", "0.1k"])
def test_a_quantity_of_kubernetes_is_one_here(text: str) -> None:
    assert said(worker(resources={"memory": text})) == []


@pytest.mark.parametrize(
    "text", ["", ".", "4K", "4 Gi", "4e", "Gi", "4gi", "1e3Ki", "-1n", "\u0664"]
)
def test_what_is_no_quantity_is_refused(text: str) -> None:
    assert len(said(worker(resources={"memory": text}))) == 1
