"""
Our children beside those of the reference operator, both read back from a real API server.

WEIR_GOLDEN_DIR names the folder with the resources, the reference's children and, above it, the
comparison that decides what is equal. Without it there is no test: our own goldens stand alone.
Kinds of others are there as CRDs, and nobody serves them, as where the goldens were made.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

from crds.inferadeployment import CONTRACT
from crds.kubernetes import Manifest
from handlers.cli.devstack.cluster import Cluster
from tests.faults.stand_ins.installing import ALL, installed
from tests.golden.test_reference import INPUTS
from tests.stack.eventually import eventually
from tests.stack.fixtures import Kubectl, Weir

OWNED_KINDS = ",".join(
    f"{child.kind.plural}.{child.kind.group}".rstrip(".") for child in CONTRACT.owns
)
"""For kubectl."""


async def every_golden_comes_out_equal(
    cluster: Cluster, kubectl: Kubectl, weir: Weir, scratch: Path
) -> None:
    names = {path: path.name.removesuffix(".in.yaml") for path in INPUTS}
    namespaces = {path: "golden-" + re.sub("[._]", "-", name) for path, name in names.items()}
    differences: dict[str, str] = {}
    with installed(cluster, *ALL):
        weir.bridge()
        weir.handlers(http="off")
        try:
            for path, namespace in namespaces.items():
                kubectl("create", "namespace", namespace)
                kubectl("apply", "-n", namespace, "-f", str(path))
            for path, namespace in namespaces.items():
                await eventually(partial(_is_observed, kubectl, namespace), within_seconds=30)
                actual = scratch / f"{namespace}.json"
                actual.write_text(_children(kubectl, namespace))
                differences[path.name] = _compared(path, actual, namespace)
        finally:
            for namespace in namespaces.values():
                kubectl("delete", "namespace", namespace, "--wait=false", check=False)
    assert differences == {path.name: "" for path in INPUTS}


if INPUTS:
    test_every_golden_comes_out_equal_on_a_real_api_server = every_golden_comes_out_equal


def _is_observed(kubectl: Kubectl, namespace: str) -> bool:
    items = json.loads(kubectl("get", "idep", "-n", namespace, "-o", "json").stdout)["items"]
    status: Manifest = items[0].get("status") or {}
    return bool(status.get("observedGeneration") == items[0]["metadata"]["generation"])


def _children(kubectl: Kubectl, namespace: str) -> str:
    """Return the children as a List, without what Kubernetes itself puts into a namespace."""
    everything = json.loads(kubectl("get", OWNED_KINDS, "-n", namespace, "-o", "json").stdout)
    everything["items"] = [
        item for item in everything["items"] if item["metadata"].get("ownerReferences")
    ]
    return json.dumps(everything)


def _compared(path: Path, actual: Path, namespace: str) -> str:
    """Return what the comparison kept beside the goldens says; empty where they are equal."""
    folder = Path(os.environ["WEIR_GOLDEN_DIR"])
    compare = next(
        place / "compare.py"
        for place in (folder, folder.parent)
        if (place / "compare.py").is_file()
    )
    children = path.with_name(path.name.replace(".in.yaml", ".children.yaml"))
    done = subprocess.run(
        [sys.executable, str(compare), str(children), str(actual), namespace],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr
