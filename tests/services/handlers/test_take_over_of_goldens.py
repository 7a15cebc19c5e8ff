"""Every child of every golden is taken over as it is, but for a broker's template."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import yaml

from crds.inferadeployment import CONTRACT, InferaDeployment
from crds.kubernetes import DEPLOYMENT, LEADER_WORKER_SET, Manifest
from handlers import plan
from handlers.cli.devstack.control_plane import ControlPlane
from handlers.handler import Facts
from handlers.inferadeployment import HANDLER
from handlers.inferadeployment.names import child_name
from handlers.kept import KEPT
from tests.faults.stand_ins.installing import ALL, installed
from tests.golden.test_reference import INPUTS
from tests.services.handlers.conftest import Desk
from tests.services.handlers.taken_over import managers, posted, put, rests
from tests.stack.eventually import eventually

OWN_NAMESPACE = "models"
"""Where the resources of our own goldens live."""
OWN_GOLDENS = Path(__file__).parents[2] / "golden" / "inferadeployment"


def _cases() -> dict[str, tuple[Path, Path]]:
    """Return resources and what is made of them: ours, and those of WEIR_GOLDEN_DIR, if named."""
    found = {
        folder.name: (folder / "cr.yaml", folder / "manifests.yaml")
        for folder in sorted(OWN_GOLDENS.iterdir())
        if (folder / "manifests.yaml").exists()
    }
    for path in INPUTS:
        children = path.with_name(path.name.replace(".in.yaml", ".children.yaml"))
        found[f"reference {path.name}"] = (path, children)
    return found


CASES = _cases()


@pytest.fixture(scope="module")
def kinds_of_others(control_plane: ControlPlane) -> Iterator[None]:
    """LeaderWorkerSets and all that GAIE needs can be made."""
    with installed(control_plane, *ALL):
        yield


@pytest.mark.parametrize("case", CASES)
async def test_the_children_of_a_golden_are_taken_over_and_none_is_another_then(
    kinds_of_others: None, desk: Desk, case: str
) -> None:
    """Their templates are ours, so that nothing is kept but a broker's."""
    source, children = CASES[case]
    owner = await _resource(desk, yaml.safe_load(source.read_text("utf-8")))
    rendering = HANDLER.render(msgspec.convert(owner, InferaDeployment), Facts())
    wanted = rendering.children
    rendered = {plan.child_name(manifest): manifest for manifest in wanted}
    before = {}
    for child in yaml.safe_load_all(children.read_text("utf-8")):
        if child is None:
            continue
        theirs = _placed(child, owner)
        await posted(desk, theirs)
        before[plan.child_name(child)] = await put(desk, await desk.live(theirs))
    assert before.keys() == rendered.keys()
    desk.owner = {**owner, "status": {"observedGeneration": owner["metadata"]["generation"]}}
    desk.spared = dict(rendering.spared)

    async def is_made() -> bool:
        """The API server takes a binding once its own cache holds the role."""
        children = await desk.make(*wanted)
        assert [child.problem for child in children if child.problem] == []
        return True

    await eventually(is_made)
    for name, live in before.items():
        after = await desk.live(rendered[name])
        assert _matter(after) == _matter(live)
        assert managers(after) == {"weir"}
        assert (KEPT in after["metadata"]["annotations"]) is (name in rendering.spared)
    await rests(desk, *wanted)


def _matter(live: Manifest) -> Manifest:
    """Return what an object is, without whose its fields are and how it does."""
    uid = live["metadata"]["uid"]
    rest = {key: item for key, item in live.items() if key not in ("metadata", "status")}
    return {**rest, "uid": uid}


async def _resource(desk: Desk, raw: Manifest) -> Manifest:
    raw["metadata"] = {"name": raw["metadata"]["name"], "namespace": desk.namespace}
    for service in raw["spec"]["services"].values():
        service["replicas"] = 0  # the pods of all goldens would be many
    data = await desk.admin.create(CONTRACT.kind, desk.namespace, raw, timeout_seconds=5)
    found: Manifest = msgspec.json.decode(data)
    return found


def _placed(child: Manifest, owner: Manifest) -> Manifest:
    """Return a child of a golden in its place, whose placeholders are filled."""
    text = msgspec.json.encode(child).decode()
    namespace, uid = owner["metadata"]["namespace"], owner["metadata"]["uid"]
    for placeholder in ("NAMESPACE", OWN_NAMESPACE):
        text = text.replace(f'"namespace":"{placeholder}"', f'"namespace":"{namespace}"')
    placed: Manifest = msgspec.json.decode(text)
    placed["metadata"]["namespace"] = namespace
    for reference in placed["metadata"]["ownerReferences"]:
        reference["uid"] = uid
    is_workload = placed["kind"] in (DEPLOYMENT.kind, LEADER_WORKER_SET.kind)
    if is_workload and placed["metadata"]["name"] in _workloads(owner):
        placed["spec"]["replicas"] = 0
    return placed


def _workloads(owner: Manifest) -> set[str]:
    """Return the names of the services' workloads; an endpoint picker is none of them."""
    name = owner["metadata"]["name"]
    return {child_name(name, service) for service in owner["spec"]["services"]}
