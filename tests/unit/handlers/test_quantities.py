"""Quantities by meaning."""

from __future__ import annotations

from typing import Any

import pytest

from handlers.quantities import same_value


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("4Gi", "4096Mi"),
        (1, "1000m"),
        ("0.5", "500m"),
        (".5", "500m"),
        ("1e3", "1k"),
        ("1.", 1),
        ("x", "x"),
        (None, None),
        (True, True),
    ],
)
def test_two_spellings_of_one_quantity_are_the_same(left: Any, right: Any) -> None:
    assert same_value(left, right)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("4Gi", "4G"),
        (1, True),
        ("1", "x"),
        (None, 0),
        ([1], "1"),
        ("1e999999999", "2"),
        ("4Gi", "4 Gi"),
        ("", 0),
    ],
)
def test_what_differs_or_is_no_quantity_is_not(left: Any, right: Any) -> None:
    assert not same_value(left, right)
