"""One resource of ours at a real API server, and what its children are made with."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from bridge.kube import APPLY, MERGE_PATCH, Kube, connect_kube
from bridge.settings import Settings
from crds.inferadeployment import CONTRACT, DEPLOYMENT_LABEL, MANAGED_BY, MANAGED_BY_LABEL
from crds.kind import Kind
from crds.kubernetes import Manifest
from handlers import plan
from handlers.apply import Child, Making, make_all
from handlers.cli.devstack import access
from handlers.cli.devstack.cluster import Cluster
from handlers.dry_run import DryRun
from handlers.errors import GiveBack
from handlers.handler import ChildName
from handlers.lookout import Lookout
from handlers.prune import prune
from handlers.reads import Reads
from handlers.writes import Writer, Writes
from tests.builders import an_infera_deployment

OWNER = "owner"
GIVEN_AGAIN = 20


class FakeLease:
    """A lease that only says how much of it is left, and how the one before it ended."""

    def __init__(self, seconds_left: float = 60.0) -> None:
        self.seconds_left = seconds_left
        self.predecessor_died = False


class Desk:
    """Makes children of one resource, as a reconcile does."""

    def __init__(self, kube: Kube, dry: Kube, admin: Kube, owner: Manifest) -> None:
        self.kube = kube
        self.dry = dry
        self.admin = admin
        self.owner = owner
        self.lease = FakeLease()
        self.is_cut = False
        self.newest_renderer = 0
        self.may_roll_out = True
        self.spared: dict[ChildName, str] = {}
        self.added: dict[ChildName, tuple[str, ...]] = {}
        self.other_operator_seconds = 0.0
        """Here what others wrote a moment ago is taken over at once, unless a test asks."""
        self.writers: list[Writer] = []

    @property
    def namespace(self) -> str:
        """Where the resource and its children live."""
        return str(self.owner["metadata"]["namespace"])

    def child(self, kind: str, name: str = "child", **rest: Any) -> Manifest:
        """Return a rendering as render.py gives it: owner, identity labels, and the rest."""
        return {
            "apiVersion": self.kind(kind).api_version,
            "kind": kind,
            "metadata": {
                "name": name,
                "namespace": self.namespace,
                "labels": {MANAGED_BY_LABEL: MANAGED_BY, DEPLOYMENT_LABEL: OWNER},
                "ownerReferences": [
                    {
                        "apiVersion": self.owner["apiVersion"],
                        "kind": self.owner["kind"],
                        "name": OWNER,
                        "uid": self.owner["metadata"]["uid"],
                        "controller": True,
                        "blockOwnerDeletion": True,
                    }
                ],
            },
            # A copy: tests edit what they get, and the tables of renderings are shared.
            **copy.deepcopy(rest),
        }

    def making(self, *, renderer: int = 1, is_birth: bool = False) -> Making:
        """Return what one reconcile makes children with; its writer is the last of `writers`."""
        writer = self._writer(self.kube)
        self.writers.append(writer)
        return self._making(writer, renderer=renderer, is_birth=is_birth)

    async def foretell(self, *manifests: Manifest, stale: Iterable[ChildName] = ()) -> DryRun:
        """Return what a dry run of `make` and of a prune says."""
        for _ in range(GIVEN_AGAIN):
            dry_run = DryRun(self._writer(self.dry))
            making = self._making(dry_run)
            try:
                children = await make_all(making, manifests)
                await prune(making, [child.name for child in children], stale)
            except GiveBack as exc:
                await _wait_for_rest(exc)
            else:
                return dry_run
        raise AssertionError(f"given back {GIVEN_AGAIN} times: the child never came to rest")

    def lookout(self, *, is_dry: bool = False) -> Lookout:
        """Return who looks out for other operators in one reconcile."""
        settings = Settings(other_operator_seconds=self.other_operator_seconds, dry_run=is_dry)
        return Lookout(settings, datetime.now(UTC))

    async def _may_roll_out(self) -> bool:
        return self.may_roll_out

    def _writer(self, kube: Kube) -> Writer:
        async def nothing() -> None:
            return None

        return Writer(
            kube,
            self.lease,
            Settings(),
            on_first=nothing,
            is_cut=lambda: self.is_cut,
        )

    def _making(self, writer: Writes, *, renderer: int = 1, is_birth: bool = False) -> Making:
        async def newest() -> int:
            return self.newest_renderer

        return Making(
            kube=self.kube,
            writer=writer,
            owner=self.owner,
            contract=CONTRACT,
            renderer=renderer,
            newest_renderer=newest,
            yield_seconds=5.0,
            may_roll_out=self._may_roll_out,
            lookout=self.lookout(is_dry=isinstance(writer, DryRun)),
            held={},
            reads=Reads(self.kube, CONTRACT, self.owner["metadata"]["namespace"]),
            spared=self.spared,
            added=self.added,
            is_birth=is_birth,
        )

    async def make(
        self, *manifests: Manifest, renderer: int = 1, is_birth: bool = False
    ) -> list[Child]:
        """
        Carry out what one reconcile does to its children.

        Controllers run beside these tests, and a child whose status they keep changing sends a
        reconcile back to the queue, which gives it again. Here the desk does.
        """
        written: list[str] = []
        for _ in range(GIVEN_AGAIN):
            making = self.making(renderer=renderer, is_birth=is_birth)
            self.writers[-1].written = written
            try:
                return await make_all(making, manifests)
            except GiveBack as exc:
                await _wait_for_rest(exc)
        raise AssertionError(f"given back {GIVEN_AGAIN} times: the child never came to rest")

    async def made(self, manifest: Manifest) -> Child:
        """Make one child and return it."""
        (child,) = await self.make(manifest)
        return child

    @property
    def written(self) -> list[str]:
        """What the last reconcile wrote, however often it was given again."""
        return self.writers[-1].written

    def kind(self, name: str) -> Kind:
        """Return a child's kind by its name."""
        return next(child.kind for child in CONTRACT.owns if child.kind.kind == name)

    async def live(self, manifest: Manifest) -> Manifest:
        """Return a child as the API server holds it; it must exist."""
        name = plan.child_name(manifest)
        data = await self.kube.get(self.kind(name.kind), self.namespace, name.name)
        assert data is not None, f"{name} does not exist"
        found: Manifest = msgspec.json.decode(data)
        return found

    async def edited(
        self, live: Manifest, *, by: str = "kubectl-edit", is_dry: bool = False
    ) -> Manifest:
        """Replace an object as somebody else does; return it as the API server would hold it."""
        kind = self.kind(live["kind"])
        data = await self.admin.request(
            "PUT",
            kind.path(self.namespace, live["metadata"]["name"]),
            query={"fieldManager": by, **({"dryRun": "All"} if is_dry else {})},
            body=msgspec.json.encode(live),
            content_type="application/json",
        )
        found: Manifest = msgspec.json.decode(data)
        return found

    async def patched(
        self, manifest: Manifest, patch: Manifest, *, by: str, content_type: str = MERGE_PATCH
    ) -> Manifest:
        """Patch a child as somebody else does; return it as the API server holds it."""
        force = {"force": "true"} if content_type == APPLY else {}
        data = await self.admin.request(
            "PATCH",
            self.kind(manifest["kind"]).path(self.namespace, manifest["metadata"]["name"]),
            query={"fieldManager": by, **force},
            body=msgspec.json.encode(patch),
            content_type=content_type,
        )
        found: Manifest = msgspec.json.decode(data)
        return found


async def _wait_for_rest(given_back: GiveBack) -> None:
    if not given_back.grows:
        raise given_back
    await asyncio.sleep(given_back.after_seconds)


@pytest.fixture
def owner(cluster: Cluster, namespace: str) -> Manifest:
    """A resource of ours that nobody reconciles."""
    cluster.kubectl(
        "create",
        "-f",
        "-",
        document=an_infera_deployment(OWNER).with_server().in_namespace(namespace).manifest(),
    )
    return cluster.get(
        f"/apis/infera.amd.com/v1alpha1/namespaces/{namespace}/inferadeployments/{OWNER}"
    )


@pytest.fixture
async def desk(
    cluster: Cluster, owner: Manifest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Desk]:
    """Children of that resource, made with the rights of the handlers."""
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig(access.HANDLERS)))
    async with (
        connect_kube(Settings(identity="desk"), "handlers") as kube,
        connect_kube(Settings(identity="dry-desk", dry_run=True), "handlers") as dry,
    ):
        monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig()))
        async with connect_kube(Settings(identity="somebody"), "admin") as admin:
            yield Desk(kube, dry, admin, owner)
