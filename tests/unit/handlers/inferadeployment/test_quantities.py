"""Quantities as Kubernetes writes them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.inferadeployment.quantities import with_canonical
from handlers.quantities import canonical
from tests.golden.quantities import same_quantity


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (1, "1"),
        (8, "8"),
        (0.5, "500m"),
        ("1", "1"),
        ("1000m", "1"),
        ("0.5", "500m"),
        (".5", "500m"),
        ("100m", "100m"),
        ("1500m", "1500m"),
        ("1000", "1k"),
        ("1024", "1024"),
        ("100000", "100k"),
        ("64Gi", "64Gi"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("0.5Ki", "512"),
        ("0.0001Ki", "102400u"),
        ("1e3", "1e3"),
        ("12e4", "120e3"),
        ("1E", "1E"),
        ("1E3", "1e3"),
        ("+2", "2"),
        ("-1500m", "-1500m"),
        ("0", "0"),
        ("0Gi", "0"),
        (" 4 ", "4"),
    ],
)
def test_a_quantity_has_one_form(value: Any, written: str) -> None:
    assert canonical(value) == written
    assert canonical(written) == written


@pytest.mark.parametrize(
    "value", ["", "Gi", "1 Gi", "1g", "soon", "1e999999999", "0.1n", "1" * 65, None, True, [1], {}]
)
def test_what_is_no_quantity_or_too_fine_is_left_for_the_api_server(value: Any) -> None:
    assert canonical(value) is value


numbers = st.decimals(0, 10**15, places=3).map(lambda number: f"{number:f}")
suffixes = st.sampled_from(["", "m", "k", "M", "G", "Ki", "Mi", "Gi", "Ti", "e2", "E3"])


@given(number=numbers, suffix=suffixes)
def test_it_stays_the_same_amount_and_comes_to_rest(number: str, suffix: str) -> None:
    once = canonical(number + suffix)
    assert same_quantity(number + suffix, once)
    assert canonical(once) == once


def test_every_place_of_a_pod_that_holds_quantities_is_found_and_no_other() -> None:
    def pod(one: Any, half: Any) -> dict[str, Any]:
        asked = {"requests": {"cpu": half, "amd.com/gpu": one}, "limits": {"amd.com/gpu": one}}
        field = {"resourceFieldRef": {"resource": "limits.cpu", "divisor": half}}
        return {
            "overhead": {"cpu": half},
            "resources": asked,
            "nodeSelector": {"sizeLimit": "1000m", "limits": "1000m"},
            "containers": [
                {"name": "1000m", "resources": asked, "env": [{"name": "A", "valueFrom": field}]},
                {"name": "b", "env": [{"name": "B", "value": "1000m"}], "command": ["1000m"]},
            ],
            "initContainers": [{"name": "c", "resources": {"claims": [{"name": "1000m"}]}}],
            "volumes": [
                {"name": "a", "emptyDir": {"sizeLimit": one}},
                {"name": "b", "ephemeral": {"volumeClaimTemplate": {"spec": {"resources": asked}}}},
                {"name": "c", "downwardAPI": {"items": [field]}},
                {"name": "d", "projected": {"sources": [{"downwardAPI": {"items": [field]}}]}},
                {"name": "e", "configMap": {"name": "1000m"}},
            ],
        }

    given_pod = pod(1, "0.5")
    assert with_canonical(given_pod) == pod("1", "500m")
    assert given_pod == pod(1, "0.5")


@pytest.mark.parametrize(
    "nonsense",
    [
        {"containers": "x", "volumes": 3, "overhead": [1]},
        {"containers": [None, 7, {"resources": "x"}, {"resources": {"limits": [1]}}]},
        {"volumes": [{"emptyDir": "x"}, {"projected": {"sources": {"a": 1}}}]},
    ],
)
def test_nonsense_reaches_the_api_server_as_it_is(nonsense: dict[str, Any]) -> None:
    assert with_canonical(nonsense) == nonsense
