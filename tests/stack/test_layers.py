from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import handlers
from handlers.cli.devstack.weir import REPOSITORY


def contracts() -> dict[str, dict[str, Any]]:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    return {c["name"]: c for c in project["tool"]["importlinter"]["contracts"]}


def kinds() -> set[str]:
    """The folders of `handlers` that are a kind: all but the commands."""
    folder = Path(handlers.__file__).parent
    return {path.parent.name for path in folder.glob("*/__init__.py")} - {"cli"}


def test_every_kind_stands_in_the_contract_that_keeps_kinds_apart() -> None:
    apart = set(contracts()["kinds do not know each other"]["modules"])

    assert apart == {f"handlers.{kind}" for kind in kinds()}


def test_every_kind_stands_in_the_contract_of_what_is_pure() -> None:
    pure = set(contracts()["what is pure touches nothing"]["source_modules"])

    assert {f"handlers.{kind}" for kind in kinds()} <= pure
