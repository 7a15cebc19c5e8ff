"""A child whose kind the API server does not serve."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

import pytest

from bridge.kube_errors import KubeError, error_of
from bridge.settings import Settings
from crds.inferadeployment import CONTRACT
from crds.kind import Kind
from crds.kubernetes import Manifest
from handlers.apply import Making, make
from handlers.budget import unlimited
from handlers.conditions import Reason
from handlers.handler import ChildName
from handlers.lookout import Lookout
from handlers.reads import Reads

NAMESPACE_IS_GONE = b'{"reason": "NotFound", "message": "namespaces \\"a\\" not found"}'
NO_SUCH_RESOURCE = b'{"reason": "NotFound", "message": "the server could not find the requested"}'


class FakeKube:
    """Serves no kind."""

    async def read(self, kind: Kind, namespace: str, name: str) -> bytes:
        """Say so."""
        del kind, namespace, name
        raise error_of(404, b"404 page not found\n")


class FakeWriter:
    """Answers every creation with one error."""

    def __init__(self, error: KubeError) -> None:
        self._error = error

        self.asked = 0

    async def create(self, kind: Kind, namespace: str, manifest: Manifest) -> Manifest:
        """Raise it."""
        del kind, namespace, manifest
        self.asked += 1
        raise self._error


async def none() -> int:
    """No renderer lives."""
    return 0


def making(error: KubeError) -> Making:
    kube = cast("Any", FakeKube())
    return Making(
        kube=kube,
        writer=cast("Any", FakeWriter(error)),
        owner={"metadata": {"name": "chat", "namespace": "a", "uid": "u"}},
        contract=CONTRACT,
        renderer=1,
        newest_renderer=none,
        yield_seconds=5.0,
        held={},
        may_roll_out=unlimited,
        lookout=Lookout(Settings(), datetime.now(UTC)),
        reads=Reads(kube, CONTRACT, "a"),
        spared={},
        is_birth=True,
    )


@pytest.mark.parametrize("kind", ["LeaderWorkerSet", "InferencePool", "HTTPRoute"])
@pytest.mark.parametrize("answer", [b"404 page not found\n", NO_SUCH_RESOURCE])
async def test_it_is_said_which_crd_is_missing_and_that_nothing_needs_a_restart(
    kind: str, answer: bytes
) -> None:
    manifest = {"kind": kind, "metadata": {"name": "chat-x"}}
    child = await make(making(error_of(404, answer)), manifest, None)
    assert child.live is None
    assert child.problem is not None
    assert child.problem.reason == Reason.KIND_NOT_INSTALLED
    crd_name = next(one.kind.crd_name for one in CONTRACT.owns if one.kind.kind == kind)
    assert f"install its CRD, {crd_name}" in child.problem.message
    assert "needs a restart" in child.problem.message


async def test_a_namespace_that_is_gone_is_no_kind_that_is_missing() -> None:
    manifest = {"kind": "Service", "metadata": {"name": "chat-x"}}
    child = await make(making(error_of(404, NAMESPACE_IS_GONE)), manifest, None)
    assert child.problem is not None
    assert child.problem.reason == Reason.REFUSED
    assert "namespaces" in child.problem.message


async def test_a_kind_that_was_just_read_as_not_served_is_asked_for_nothing() -> None:
    name = ChildName("LeaderWorkerSet", "chat-x")
    at = making(error_of(404, NO_SUCH_RESOURCE))
    assert await at.read_all([name]) == {name: None}
    child = await make(at, {"kind": name.kind, "metadata": {"name": name.name}}, None)
    assert child.problem is not None
    assert child.problem.reason == Reason.KIND_NOT_INSTALLED
    assert cast("Any", at.writer).asked == 0
