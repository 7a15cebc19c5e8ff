"""
What each of our own resources gets, frozen: a changed pod template restarts pods.

A case is a folder: `cr.yaml` in, `manifests.yaml` and `status.yaml` out, the latter once every
child is done. A change of a template bumps RENDERER and stands in the changelog.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import yaml

from crds.kubernetes import Manifest
from handlers.cli.crds import dump
from handlers.handler import AnyHandler, Facts
from handlers.registry import HANDLERS
from tests.unit.handlers.inferadeployment.resources import observed

CASES = [
    pytest.param(handler, case, id=f"{handler.contract.kind.queue_name}-{case.name}")
    for handler in HANDLERS
    for case in sorted((Path(__file__).parent / handler.contract.kind.queue_name).iterdir())
]


@pytest.mark.parametrize(("handler", "case"), CASES)
def test_a_resource_renders_as_it_always_did(handler: AnyHandler, case: Path, update: bool) -> None:
    raw: Manifest = yaml.safe_load((case / "cr.yaml").read_text(encoding="utf-8"))
    raw["metadata"] |= {"uid": "OWNER", "generation": 1}
    resource = msgspec.convert(raw, handler.contract.resource)
    rendering = handler.render(resource, Facts())
    agree(
        case / "manifests.yaml",
        "---\n".join(dump(child) for child in rendering.children),
        update=update,
    )
    agree(case / "status.yaml", dump(handler.status(resource, observed(rendering))), update=update)


def agree(path: Path, text: str, *, update: bool) -> None:
    """Compare a file with what it should hold, or write it."""
    if update:
        path.write_text(text, encoding="utf-8")
    kept = path.read_text(encoding="utf-8") if path.exists() else ""
    assert text == kept, f"{path} differs; if that is meant: pytest tests/golden --update"
