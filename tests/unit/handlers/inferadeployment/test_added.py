"""What the pods of a workload get although nobody asked for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from crds.inferadeployment import InferaDeployment
from crds.kubernetes import Manifest
from handlers import plan
from handlers.asked import is_asked_for
from handlers.fields import item_index, parse_path
from handlers.handler import ChildName, Facts, Rendering
from handlers.inferadeployment import HANDLER
from tests.unit.handlers.inferadeployment.resources import a_resource, a_worker

GOLDENS = Path(__file__).parents[3] / "golden" / "inferadeployment"
RENDERED = sorted(path.parent for path in GOLDENS.glob("*/manifests.yaml"))
SERVERS_ALONE = "spec.serviceAccount"
"""The API server writes it beside serviceAccountName."""
MAIN = 'spec.containers[name="main"]'


def rendering(resource: InferaDeployment) -> Rendering:
    return HANDLER.render(resource, Facts())


def added(resource: InferaDeployment) -> tuple[str, ...]:
    return rendering(resource).added[ChildName("Deployment", "demo-worker")]


@pytest.mark.parametrize("folder", RENDERED, ids=lambda folder: folder.name)
def test_it_is_all_rendered(folder: Path) -> None:
    raw = yaml.safe_load((folder / "cr.yaml").read_text("utf-8"))
    made = rendering(msgspec.convert(raw, InferaDeployment))
    children = {plan.child_name(child): child for child in made.children}
    for name, paths in made.added.items():
        template = plan.pod_template(children[name])
        for path in paths:
            assert path == SERVERS_ALONE or _is_there(template, path), f"{name}: {path}"


def _is_there(value: Any, path: str) -> bool:
    for part in parse_path(path):
        if isinstance(value, list):
            index = item_index(value, part)
            if index is None:
                return False
            value = value[index]
        elif part in value:
            value = value[part]
        else:
            return False
    return True


def test_a_name_that_a_user_gives_is_asked_for() -> None:
    path = 'spec.containers[name="infera"].env[name="POD_IP"]'
    assert path in added(a_worker())
    assert path not in added(a_worker(env=[{"name": "POD_IP", "value": "10.0.0.1"}]))
    # Of every service it stands before ours, which counts.
    shared = a_resource(envs=[{"name": "POD_IP", "value": "10.0.0.1"}])
    assert path in added(shared)


def test_of_a_whole_pod_only_what_completes_it_is_added() -> None:
    own: Manifest = {
        "serviceAccountName": "mine",
        "containers": [
            {
                "name": "main",
                "image": "x",
                "env": [{"name": "POD_NAME", "value": "x"}],
                "readinessProbe": {"httpGet": {"port": 1}},
                "lifecycle": {"preStop": {"exec": {"command": ["true"]}}},
            }
        ],
    }
    assert set(added(a_worker(extraPodSpec=own))) == {
        f'{MAIN}.env[name="POD_NAMESPACE"]',
        f'{MAIN}.env[name="POD_IP"]',
        "spec.terminationGracePeriodSeconds",
    }


def test_no_probe_is_added_where_none_is_asked_for() -> None:
    probe = 'spec.containers[name="infera"].readinessProbe'
    assert probe in added(a_worker())
    assert probe not in added(a_worker(skipReadinessProbe=True))


def test_an_edit_of_any_field_asks_for_other_pods() -> None:
    def deployment(**fields: Any) -> Manifest:
        children = rendering(a_worker(**fields)).children
        return next(child for child in children if child["metadata"]["name"] == "demo-worker")

    edits: list[dict[str, Any]] = [
        {"image": "other"},
        {"port": 31000},
        {"args": ["--a"]},
        {"env": [{"name": "A", "value": "1"}]},
        {"resources": {"gpu": 1}},
        {"resources": {"cpu": "1"}},
        {"resources": {"sharedMemory": "1Gi"}},
        {"podLabels": {"a": "b"}},
        {"role": "decode"},
    ]
    for edit in edits:
        assert is_asked_for(deployment(), deployment(**edit), added(a_worker(**edit))), edit
    assert not is_asked_for(deployment(), deployment(replicas=7), added(a_worker()))
