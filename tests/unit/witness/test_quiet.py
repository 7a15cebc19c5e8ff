"""What is not quiet must be seen, and be readable."""

from __future__ import annotations

import io
import json
import urllib.error
from collections.abc import Callable
from email.message import Message
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from crds.kubernetes import DEPLOYMENT, SERVICE, Manifest
from tests.unit.witness.log_lines import line
from tests.witness.quiet import quiet

at_once = partial(quiet, calm_seconds=0.001)


class FakeCluster:
    """One Service in memory and a log file: no real server can be made to write this log."""

    def __init__(self, audit_log: Path) -> None:
        self.audit_log = audit_log
        self.words: list[Callable[[], None]] = []
        """What happens at each of the next looks."""
        self.service: Manifest = {
            "metadata": {"name": "a", "resourceVersion": "1"},
            "spec": {"ports": [{"port": 1}]},
        }

    def get(self, path: str) -> Any:
        """Return the Service; nothing else is served."""
        if self.words:
            self.words.pop(0)()
        if path != SERVICE.path("ns"):
            raise urllib.error.HTTPError(path, 404, "no such kind", Message(), io.BytesIO())
        return json.loads(json.dumps({"items": [self.service]}))

    def change(self, **spec: Any) -> None:
        """Change the Service, as a write of anybody would."""
        version = int(self.service["metadata"]["resourceVersion"])
        self.service["metadata"]["resourceVersion"] = str(version + 1)
        self.service["spec"] |= spec

    def write(self, *lines: bytes) -> None:
        """Log more lines."""
        with self.audit_log.open("ab") as opened:
            opened.writelines(lines)


@pytest.fixture
def cluster(tmp_path: Path) -> FakeCluster:
    fake = FakeCluster(tmp_path / "audit.log")
    fake.write(line(1, "create", "services", "earlier"))
    return fake


async def test_reads_and_the_writes_of_others_and_elsewhere_are_quiet(
    cluster: FakeCluster,
) -> None:
    elsewhere = line(4, "create", "services", "b").replace(b'"ns"', b'"other"')

    async with at_once(cluster, "ns", kinds=(SERVICE, DEPLOYMENT)):
        cluster.write(
            line(2, "get", "services", "a"),
            line(3, "update", "leases", "x", by="kube-controller-manager/v1"),
            elsewhere,
        )


@pytest.mark.parametrize("code", [200, 409])
async def test_a_request_of_ours_is_told_with_its_body(cluster: FakeCluster, code: int) -> None:
    body = {"spec": {"x": "y" * 1_000}}

    with pytest.raises(AssertionError) as told:
        async with at_once(cluster, "ns", kinds=(SERVICE,)):
            cluster.write(line(2, "patch", "services", "a", body=body, code=code))

    text = str(told.value)
    assert f"patch services/ns/a -> {code} by weir-handlers/0.1.0 (h1)" in text
    assert '{"spec":{"x":"yyy' in text
    assert len(text) < 600


async def test_a_new_resource_version_is_told_with_what_differs(cluster: FakeCluster) -> None:
    with pytest.raises(AssertionError) as told:
        async with at_once(cluster, "ns", kinds=(SERVICE,)):
            cluster.change(ports=[{"port": 2}])

    assert str(told.value).splitlines() == [
        "not quiet:",
        "  Service a resourceVersion 1 -> 2",
        "    .spec.ports[0].port: 1 -> 2",
    ]


async def test_an_object_that_came_or_went_is_told(cluster: FakeCluster) -> None:
    with pytest.raises(AssertionError) as told:
        async with at_once(cluster, "ns", kinds=(SERVICE,)):
            cluster.service["metadata"]["name"] = "b"

    assert str(told.value).splitlines()[1:] == ["  Service a vanished", "  Service b appeared"]


async def test_a_failure_inside_the_block_is_the_one_that_is_told(cluster: FakeCluster) -> None:
    async def fail_noisily() -> None:
        async with at_once(cluster, "ns", kinds=(SERVICE,)):
            cluster.change(ports=[])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail_noisily()


async def test_it_begins_when_others_have_had_their_last_word(cluster: FakeCluster) -> None:
    def on_their_way_out(pods: int) -> None:
        cluster.service["status"] = {"terminatingReplicas": pods}

    def nothing() -> None: ...

    cluster.words = [
        lambda: cluster.change(ports=[{"port": 2}]),
        lambda: cluster.change(ports=[{"port": 3}]),
        lambda: on_their_way_out(1),
        nothing,
        lambda: on_their_way_out(0),
        nothing,
    ]

    async with at_once(cluster, "ns", kinds=(SERVICE,)):
        assert not cluster.words[1:]
