"""Where the objects of a kind are found."""

from __future__ import annotations

import pytest

from crds.kind import is_segment
from crds.kubernetes import DEPLOYMENT


@pytest.mark.parametrize("name", ["x?a=b", "x#y", "x y", "x%2Fy", "system:x"])
def test_whatever_a_name_holds_it_begins_no_query(name: str) -> None:
    for path in (DEPLOYMENT.path("ns", name), DEPLOYMENT.path(name, "d")):
        assert not set("?# ") & set(path)
        assert path.count("/") == DEPLOYMENT.path("ns", "d").count("/")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("x", True),
        ("system:x", True),
        ("x.y", True),
        ("", False),
        ("..", False),
        ("x/status", False),
        ("x%2Fstatus", False),
        (".", False),
    ],
)
def test_a_name_is_one_segment_or_names_no_object(name: str, *, expected: bool) -> None:
    assert is_segment(name) is expected
