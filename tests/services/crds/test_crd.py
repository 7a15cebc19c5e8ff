"""The CRD on a real API server: what it takes, what it refuses and in which words."""

from __future__ import annotations

import copy
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
import yaml

import crds
from crds.contract import Contract
from crds.inferadeployment import CONTRACT
from crds.kubernetes import Manifest
from crds.schema import crd
from handlers.cli.crds import as_yaml
from tests.refused import BY_A_BOUND, BY_A_RULE, named, resource, server, worker
from tests.stack.eventually import PATIENCE

Kubectl = Callable[..., CompletedProcess[str]]

CRD_SECONDS_MAX = 30.0
"""How long an API server may take to serve a new or changed CRD."""
CASES = Path(__file__).parents[2] / "golden" / "inferadeployment"


def test_nonsense_is_refused_by_its_field_and_the_remedy(kubectl: Kubectl, namespace: str) -> None:
    """As `weir render` refuses it: tests/unit/handlers/cli/test_render_rules.py."""
    nonsense = [*BY_A_RULE, *BY_A_BOUND]
    expected: dict[str, str] = {}
    documents = []
    for number, (refused, says) in enumerate(nonsense):
        own_name = refused["metadata"]["name"]
        name = f"case-{number}" if own_name == "demo" else own_name
        documents.append({**refused, "metadata": {**refused["metadata"], "name": name}})
        expected[name] = says
    assert len(expected) == len(nonsense)
    done = kubectl("create", "-n", namespace, "-f", "-", document=documents, check=False)
    assert done.stdout == ""
    assert "geheim" not in done.stderr
    answers = {
        answer.partition('"')[0]: answer
        for answer in done.stderr.split(f'{CONTRACT.kind.kind}.{CONTRACT.kind.group} "')[1:]
    }
    assert answers.keys() == expected.keys()
    unclear = {name: answers[name] for name, says in expected.items() if says not in answers[name]}
    assert unclear == {}


def test_a_field_that_nobody_knows_is_refused_by_its_path(kubectl: Kubectl, namespace: str) -> None:
    done = kubectl(
        *("create", "-n", namespace, "-f", "-"), document=worker(unheardOf=1), check=False
    )
    assert 'unknown field "spec.services.worker.unheardOf"' in done.stderr


def _inputs() -> list[Path]:
    """Return our own cases, and those of WEIR_GOLDEN_DIR where it is set."""
    theirs = os.environ.get("WEIR_GOLDEN_DIR")
    found = sorted(Path(theirs).glob("**/infera/*.in.yaml")) if theirs else []
    if theirs and not found:
        found = sorted(Path(theirs).glob("*.in.yaml"))
    return [*sorted(CASES.glob("*/cr.yaml")), *found]


def test_what_users_have_is_taken_on_both_ways_of_applying_and_comes_back_whole(
    kubectl: Kubectl, namespace: str
) -> None:
    given = {}
    for number, path in enumerate(_inputs()):
        manifest: Manifest = yaml.safe_load(path.read_text(encoding="utf-8"))
        name = f"case-{number}"
        given[name] = {**manifest, "metadata": {"name": name, "namespace": namespace}}
    documents = list(given.values())
    kubectl("apply", "-f", "-", document=documents)
    kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", document=documents)
    stored = json.loads(kubectl("get", "idep", "-n", namespace, "-o", "json").stdout)["items"]
    assert [item["metadata"]["name"] for item in stored] == sorted(given)
    for item in stored:
        manifest = given[item["metadata"]["name"]]
        assert lost(without_nulls(manifest["spec"]), item["spec"]) == [], manifest


def lost(given: Any, stored: Any, path: str = "spec") -> list[str]:
    """Return the paths of what was given and is not stored."""
    if isinstance(given, dict) and isinstance(stored, dict):
        return [
            found
            for key, value in given.items()
            for found in lost(value, stored.get(key), f"{path}.{key}")
        ]
    if isinstance(given, list) and isinstance(stored, list) and len(given) == len(stored):
        return [
            found
            for position, (left, right) in enumerate(zip(given, stored, strict=True))
            for found in lost(left, right, f"{path}[{position}]")
        ]
    return [] if given == stored else [path]


def without_nulls(value: Any) -> Any:
    """Drop nulls of objects: the API server need not keep them."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def test_fields_of_a_pod_spec_that_nobody_knows_survive(kubectl: Kubectl, namespace: str) -> None:
    own = {
        "containers": [{"name": "main", "ofNextYear": {"a": [1, "b"]}, "ports": [{"x": 1}]}],
        "ofNextYear": [{"deep": {"er": True}}],
        "securityContext": {"ofNextYear": 1},
    }
    kubectl("create", "-n", namespace, "-f", "-", document=worker(extraPodSpec=own))
    stored = json.loads(kubectl("get", "idep", "-n", namespace, "demo", "-o", "json").stdout)
    assert stored["spec"]["services"]["worker"]["extraPodSpec"] == own


def test_a_name_that_just_fits_is_taken(kubectl: Kubectl, namespace: str) -> None:
    fits = {**named("w" * 31), "metadata": {"name": "d" * 31}}
    kubectl("create", "-n", namespace, "-f", "-", document=fits)


def test_kubectl_shows_backend_state_age_and_reason_and_the_gateway_when_asked(
    kubectl: Kubectl, namespace: str
) -> None:
    kubectl("create", "-n", namespace, "-f", "-", document=resource())
    header, row = kubectl("get", "idep", "-n", namespace).stdout.splitlines()
    assert row.split()[:2] == ["demo", "sglang"]
    conditions = [
        {"type": "Degraded", "status": "True", "reason": "Refused"},
        {"type": "Ready", "status": "False", "reason": "Unschedulable"},
    ]
    for condition in conditions:
        condition |= {"message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    status = {"status": {"state": "pending", "gaie": {"ready": True}, "conditions": conditions}}
    kubectl(
        *("patch", "idep", "demo", "-n", namespace, "--subresource", "status"),
        *("--type", "merge", "-p", json.dumps(status)),
    )
    header, row = kubectl("get", "idep", "-n", namespace).stdout.splitlines()
    assert header.split() == ["NAME", "BACKEND", "STATE", "AGE", "REASON"]
    assert row.split()[:3] == ["demo", "sglang", "pending"]
    assert row.split()[4] == "Unschedulable"
    header, row = kubectl("get", "idep", "-n", namespace, "-o", "wide").stdout.splitlines()
    assert header.split() == ["NAME", "BACKEND", "STATE", "GAIE", "AGE", "REASON"]
    assert row.split()[:4] == ["demo", "sglang", "pending", "true"]


def test_kubectl_explains_every_field_in_the_words_of_the_source(kubectl: Kubectl) -> None:
    said = kubectl("explain", "idep.spec.nats").stdout
    assert "URL of a NATS that is there already, without credentials." in said
    assert "credentialsSecretRef" in said


def of_group(group: str, contract: Contract = CONTRACT) -> Manifest:
    """Return a CRD under another group, so that the one which is served stays as it is."""
    manifest = copy.deepcopy(crd(contract))
    manifest["metadata"]["name"] = f"{contract.kind.plural}.{group}"
    manifest["spec"]["group"] = group
    manifest["spec"]["names"]["shortNames"] = []
    return manifest


def eventually(attempt: Callable[[], bool]) -> None:
    """Return once an attempt succeeds: a CRD is served a moment after it is accepted."""
    deadline = time.monotonic() + CRD_SECONDS_MAX * PATIENCE
    while not attempt():
        assert time.monotonic() < deadline, "the API server does not come to serve the CRD"


@pytest.fixture
def group(kubectl: Kubectl, namespace: str) -> Iterator[str]:
    """An API group of this test's own."""
    name = f"{namespace}.example.com"
    yield name
    kubectl("delete", "crd", f"{CONTRACT.kind.plural}.{name}", "--ignore-not-found", check=False)


@pytest.mark.parametrize("how", [[], ["--server-side"]], ids=["client-side", "server-side"])
def test_the_folder_of_crds_can_be_applied(
    kubectl: Kubectl, group: str, tmp_path: Path, how: list[str]
) -> None:
    (tmp_path / "types.py").write_text("# kubectl passes by what is no manifest\n")
    text = as_yaml(CONTRACT).replace("infera.amd.com", group).replace("- idep", "- x")
    (tmp_path / "crd.yaml").write_text(text, encoding="utf-8")
    kubectl("apply", *how, "-f", str(tmp_path))
    kubectl("wait", "--for=condition=Established", "crd", f"inferadeployments.{group}")
    again = kubectl("apply", *how, "-f", str(tmp_path)).stdout
    assert "unchanged" in again or "serverside-applied" in again
    assert {path.name for path in Path(crds.__file__).parent.glob("*.yaml")} == {
        f"{contract.kind.crd_name}.yaml" for contract in crds.KINDS
    }


def test_what_was_stored_before_our_rules_stays_editable_and_gets_no_worse(
    kubectl: Kubectl, namespace: str, group: str
) -> None:
    """As after a take-over: names that we would not take, and a role on a server."""
    strict = of_group(group)
    lax = copy.deepcopy(strict)
    schema = lax["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    services = schema["properties"]["spec"]["properties"]["services"]
    for ruled in (schema, services["additionalProperties"]):
        del ruled["x-kubernetes-validations"]
    kubectl("create", "-f", "-", document=lax)

    def here(manifest: Manifest, name: str) -> Manifest:
        return {
            **manifest,
            "apiVersion": f"{group}/v1alpha1",
            "metadata": {"name": name, "namespace": namespace},
        }

    def is_taken(manifest: Manifest, *options: str) -> bool:
        return not kubectl("apply", *options, "-f", "-", document=manifest, check=False).returncode

    long = "d" * 60
    dotted, lengthy = here(server(role="mixed"), "a.b"), here(named("worker"), long)
    eventually(lambda: is_taken(dotted))
    eventually(lambda: is_taken(lengthy))
    kubectl("replace", "-f", "-", document=strict)
    eventually(lambda: not is_taken(here(server(), "c.d"), "--dry-run=server"))

    assert is_taken(here(server(role="mixed", replicas=2), "a.b"))
    lengthy["spec"]["services"]["worker"]["replicas"] = 2
    assert is_taken(lengthy)
    lengthy["spec"]["services"]["another"] = {"componentType": "worker"}
    assert not is_taken(lengthy)
    roles = here(server(), "e")
    assert is_taken(roles)
    roles["spec"]["services"]["server"]["role"] = "mixed"
    assert not is_taken(roles)
