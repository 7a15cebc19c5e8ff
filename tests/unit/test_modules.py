"""Modules stay small enough to be read as a whole."""

from __future__ import annotations

from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
LINES_MAX = 399


def test_no_module_has_400_lines_or_more() -> None:
    long = [
        str(path.relative_to(REPOSITORY))
        for package in ("bridge", "crds", "handlers", "tests")
        for path in sorted((REPOSITORY / package).rglob("*.py"))
        if len(path.read_text(encoding="utf-8").splitlines()) > LINES_MAX
    ]
    assert long == []
