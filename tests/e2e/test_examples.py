"""The examples that we ship: each is applied as its first lines say, and becomes Ready."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from crds.kubernetes import Manifest
from handlers.cli.devstack.control_plane import ControlPlane
from handlers.cli.devstack.weir import REPOSITORY
from tests.e2e.stage import Stage, condition_of
from tests.faults.own_loop import in_thread
from tests.faults.stand_ins.gateways import StandInGateways
from tests.faults.stand_ins.installing import ALL, installed
from tests.faults.stand_ins.leader_worker_sets import StandInLeaderWorkerSets
from tests.witness.quiet import quiet

EXAMPLES = REPOSITORY / "crds" / "examples"
EXAMPLES_IN_ORDER = {
    "multi-node.yaml": "deepseek",  # first: it needs nodes with all of their GPUs
    "aggregated.yaml": "qwen",
    "prefill-decode.yaml": "qwen-pd",
    "gaie.yaml": "qwen-gateway",
}
INDENTED_COMMENT = "#   "
COLUMNS = {
    "deepseek": {"BACKEND": "sglang", "STATE": "ready", "GAIE": "", "REASON": "AllReady"},
    "qwen": {"BACKEND": "sglang", "STATE": "ready", "GAIE": "", "REASON": "AllReady"},
    "qwen-gateway": {"BACKEND": "vllm", "STATE": "ready", "GAIE": "true", "REASON": "AllReady"},
    "qwen-pd": {"BACKEND": "sglang", "STATE": "ready", "GAIE": "", "REASON": "AllReady"},
}
"""By name, what `kubectl get idep -o wide` shows, but for the age."""


@pytest.fixture
def gateway(control_plane: ControlPlane) -> Iterator[None]:
    """The Gateway that the comment of gaie.yaml gives, in its namespace."""
    manifest = _in_the_comment(EXAMPLES / "gaie.yaml")
    namespace = manifest["metadata"]["namespace"]
    with installed(control_plane, *ALL):
        control_plane.kubectl("create", "namespace", namespace)
        control_plane.kubectl("apply", "-f-", document=manifest)
        with (
            in_thread(StandInGateways(control_plane)),
            in_thread(StandInLeaderWorkerSets(control_plane)),
        ):
            yield
        control_plane.kubectl("delete", "namespace", namespace, "--wait=false")


def _in_the_comment(file: Path) -> Manifest:
    """Return the manifest that stands, indented, in the comment at the top of an example."""
    lines = file.read_text("utf-8").splitlines()
    inside = [
        line.removeprefix(INDENTED_COMMENT) for line in lines if line.startswith(INDENTED_COMMENT)
    ]
    manifest: Manifest = yaml.safe_load("\n".join(inside))
    return manifest


def test_every_example_is_known_here() -> None:
    assert EXAMPLES_IN_ORDER.keys() == {file.name for file in EXAMPLES.iterdir()}
    assert COLUMNS.keys() == set(EXAMPLES_IN_ORDER.values())


async def test_every_example_becomes_ready_and_is_told_in_one_line(
    gateway: None, running: Stage
) -> None:
    for file, name in EXAMPLES_IN_ORDER.items():
        running.kubectl("apply", "-f", str(EXAMPLES / file))
        resource = await running.ready(name)
        assert resource["status"]["state"] == "ready"
        assert condition_of(resource, "Warning") == {}

    shown = _table(running.kubectl("get", "idep", "-o=wide"))
    assert {row.pop("AGE")[-1] for row in shown.values()} <= {"s", "m"}
    assert shown == COLUMNS
    narrow = _table(running.kubectl("get", "idep"))["qwen-gateway"]
    assert [*narrow] == ["BACKEND", "STATE", "AGE", "REASON"]

    async with quiet(running.cluster, running.namespace):
        await running.looked_at_again(*COLUMNS)


def _table(printed: str) -> dict[str, dict[str, str]]:
    """Return by name what kubectl prints below its heads; a cell may be empty."""
    head, *lines = printed.splitlines()
    starts = {match[0]: match.start() for match in re.finditer(r"\S+", head)}
    ends = [*[*starts.values()][1:], None]
    rows = (
        {
            column: line[start:end].strip()
            for (column, start), end in zip(starts.items(), ends, strict=True)
        }
        for line in lines
    )
    return {row.pop("NAME"): row for row in rows}
