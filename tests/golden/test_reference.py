"""
What the reference operator made of a resource, and what we make of it.

WEIR_GOLDEN_DIR names a folder of `NAME.in.yaml` and `NAME.children.yaml`, the latter read back
from a real API server, defaults filled in. Ours are compared before they meet one: everything that
we render must be there. Left out is what the reference refused (`NAME.meta.json` says `failed`) and
we serve. Without the folder there is no test; our own goldens stand alone.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from crds.inferadeployment import InferaDeployment
from crds.kubernetes import Manifest
from handlers.handler import Facts
from handlers.inferadeployment import HANDLER
from tests.golden.quantities import same_quantity

NAMESPACE = "NAMESPACE"


def _inputs() -> list[Path]:
    folder = os.environ.get("WEIR_GOLDEN_DIR")
    if not folder:
        return []
    found = sorted(Path(folder).glob("*.in.yaml")) or sorted(Path(folder).glob("infera/*.in.yaml"))
    assert found, f"WEIR_GOLDEN_DIR={folder} holds no *.in.yaml"
    return [path for path in found if not _is_refused_by_the_reference(path)]


def _is_refused_by_the_reference(path: Path) -> bool:
    meta = path.with_name(path.name.replace(".in.yaml", ".meta.json"))
    if not meta.is_file():
        return False
    status = json.loads(meta.read_text(encoding="utf-8")).get("status") or {}
    return bool(status.get("state") == "failed")


def _read(path: Path) -> Manifest:
    loaded: Manifest = yaml.safe_load(path.read_text(encoding="utf-8"))
    return loaded


def agrees_with_the_reference(path: Path) -> None:
    raw = _read(path)
    raw["metadata"] |= {"namespace": NAMESPACE, "uid": "OWNER"}
    rendering = HANDLER.render(msgspec.convert(raw, InferaDeployment), Facts())
    ours = {_child(manifest): manifest for manifest in rendering.children}
    children = path.with_name(path.name.replace(".in.yaml", ".children.yaml"))
    reference = {_child(m): m for m in yaml.safe_load_all(children.read_text("utf-8")) if m}
    assert sorted(ours) == sorted(reference)
    found = [
        f"{kind}/{name}{difference}"
        for (kind, name), manifest in ours.items()
        for difference in _missing(_compared(manifest), reference[kind, name])
    ]
    assert found == []


if INPUTS := _inputs():

    @pytest.mark.parametrize("path", INPUTS, ids=lambda path: path.name.removesuffix(".in.yaml"))
    def test_a_resource_gets_the_children_that_the_reference_operator_made(path: Path) -> None:
        agrees_with_the_reference(path)


def _child(manifest: Manifest) -> tuple[str, str]:
    return manifest["kind"], manifest["metadata"]["name"]


def _compared(manifest: Manifest) -> Manifest:
    """Return a rendering without what differs on purpose: probes and such of the own NATS."""
    metadata = {k: v for k, v in manifest["metadata"].items() if k != "namespace"}
    if manifest["kind"] != "StatefulSet":
        return {**manifest, "metadata": metadata}
    (container,) = manifest["spec"]["template"]["spec"]["containers"]
    ours_alone = {"image", "readinessProbe", "livenessProbe", "resources"}
    kept = {k: v for k, v in container.items() if k not in ours_alone}
    template = {**manifest["spec"]["template"], "spec": {"containers": [kept]}}
    return {**manifest, "metadata": metadata, "spec": {**manifest["spec"], "template": template}}


def _missing(ours: Any, reference: Any, path: str = "") -> Iterator[str]:
    if isinstance(ours, dict) and isinstance(reference, dict):
        for key, value in ours.items():
            yield from _missing(value, reference.get(key), f"{path}.{key}")
        if path.endswith((".labels", ".matchLabels", ".selector")) and set(reference) - set(ours):
            yield f"{path}: we lack {sorted(set(reference) - set(ours))}"
    elif isinstance(ours, list) and isinstance(reference, list) and len(ours) == len(reference):
        for position, (left, right) in enumerate(zip(ours, reference, strict=True)):
            yield from _missing(left, right, f"{path}[{position}]")
    elif ours != reference and not same_quantity(ours, reference):
        yield f"{path}: {ours!r}, and the reference has {reference!r}"
