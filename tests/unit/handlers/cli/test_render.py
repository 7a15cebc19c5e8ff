from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from crds.kubernetes import Manifest
from handlers.__main__ import main
from handlers.cli.devstack import access
from handlers.cli.render import UID
from handlers.plan import APPLIED, rendering_hash
from tests.builders import InferaDeploymentBuilder, a_small_deployment, an_infera_deployment

GOLDEN = Path(__file__).with_name("golden")
CHAT = a_small_deployment("chat").in_namespace("team-a")
CHILDREN = [
    "serviceaccount/chat-disc",
    "role.rbac.authorization.k8s.io/chat-disc",
    "rolebinding.rbac.authorization.k8s.io/chat-disc",
    "service/chat-server",
    "deployment.apps/chat-server",
    "deployment.apps/chat-worker",
]

Render = Callable[..., tuple[int, str, str]]


@pytest.fixture
def render(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Render:
    """Run `weir render` in a directory with these files; return its code, output and errors."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str, **files: str | InferaDeploymentBuilder) -> tuple[int, str, str]:
        for name, content in files.items():
            text = content if isinstance(content, str) else yaml.safe_dump(content.manifest())
            (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
        given = words if "-f" in words else ("-f", *(f"{name}.yaml" for name in files), *words)
        code = main(["render", *given])
        return code, *capsys.readouterr()

    return run


def objects(text: str) -> list[Manifest]:
    return [document for document in yaml.safe_load_all(text) if document]


def test_the_output_is_the_golden_one(render: Render) -> None:
    """On purpose: `weir render -f resources.yaml > rendered.yaml` in the golden folder."""
    code, out, err = render(resources=(GOLDEN / "resources.yaml").read_text("utf-8"))

    assert (code, out) == (0, (GOLDEN / "rendered.yaml").read_text("utf-8"))
    assert err == (
        "Warning: resources.yaml, document 1, line 2: Namespace (v1) is not a kind of Weir, "
        "and left out\n"
    )


def test_every_form_holds_the_same_objects_in_the_order_of_their_creation(render: Render) -> None:
    _, as_yaml, _ = render(chat=CHAT)
    _, as_json, _ = render("-o", "json", chat=CHAT)
    _, names, _ = render("-o", "name", chat=CHAT)

    listed = json.loads(as_json)
    assert (listed["apiVersion"], listed["kind"]) == ("v1", "List")
    assert listed["items"] == objects(as_yaml)
    assert names.split() == CHILDREN


def test_the_owner_is_the_resource_with_a_uid_that_is_said_to_stand_in(render: Render) -> None:
    _, out, _ = render(chat=CHAT)

    assert f"not known here: {UID}" in out.splitlines()[1]
    for child in objects(out):
        (owner,) = child["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["uid"]) == ("InferaDeployment", "chat", UID)


def test_what_was_read_from_a_cluster_gives_what_matches_there(render: Render) -> None:
    """With its uid known, the annotation is the hash that a reconcile compares with."""
    stored = CHAT.manifest()
    stored["metadata"] |= {"uid": "u-1", "resourceVersion": "7", "generation": 3}
    stored["status"] = {"state": "whatever it was", "conditions": []}

    _, out, _ = render(chat=yaml.safe_dump(stored))

    assert UID not in out
    for child in objects(out):
        annotations = child["metadata"].pop("annotations")
        applied = annotations.pop(APPLIED)
        assert applied == rendering_hash(child)


def test_a_resource_without_a_namespace_goes_where_the_flag_says_or_to_default(
    render: Render,
) -> None:
    bare = a_small_deployment("chat")

    _, defaulted, _ = render(chat=bare)
    _, placed, _ = render("--namespace", "team-b", chat=bare)

    assert {child["metadata"]["namespace"] for child in objects(defaulted)} == {"default"}
    assert {child["metadata"]["namespace"] for child in objects(placed)} == {"team-b"}


def test_a_namespace_that_contradicts_the_flag_is_refused(render: Render) -> None:
    code, out, err = render("-n", "team-b", chat=CHAT)

    assert (code, out) == (1, "")
    assert "chat.yaml, document 1, line 5: InferaDeployment team-a/chat" in err
    assert "is not in the namespace team-b of --namespace" in err


def test_the_settings_of_the_install_are_honoured(
    render: Render, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = InferaDeploymentBuilder(name="chat").with_image("i").with_worker()

    _, managed, quiet = render("-o", "name", chat=chat)
    monkeypatch.setenv("WEIR_NATS_DEFAULT", "shared")
    refused, _, remedy = render("-o", "name", chat=chat)
    monkeypatch.setenv("WEIR_NATS_ENGINE_URL", "nats://weir.infra:4222")
    _, shared, said = render("-o", "name", chat=chat)
    code, _, flagged = render("--nats-default", "managed", "-o", "name", chat=chat)

    assert "statefulset.apps/chat-nats" in managed
    assert quiet == ""
    assert refused == 1
    assert "set WEIR_NATS_ENGINE_URL" in remedy
    assert "statefulset.apps/chat-nats" not in shared
    assert "SharedBus: its engines use the NATS of this platform" in said
    assert (code, flagged) == (0, "")


def test_a_setting_that_makes_no_sense_is_a_mistake(
    render: Render, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEIR_NATS_DEFAULT", "none")

    code, out, err = render(chat=CHAT)

    assert (code, out) == (2, "")
    assert err.startswith("weir: WEIR_NATS_DEFAULT=none: must be managed or shared")


def test_what_is_worth_telling_is_a_warning_and_no_failure(render: Render) -> None:
    chat = CHAT.with_spec(discoveryBackend="etcd", etcdEndpoint="etcd:2379")
    code, out, err = render("-o", "name", chat=chat)

    assert (code, out.split()) == (0, CHILDREN[3:])
    assert err.startswith("Warning: chat.yaml, document 1, line 1: InferaDeployment team-a/chat: ")
    assert "EtcdDiscovery: a router that finds its workers in an etcd" in err


def test_kinds_of_others_are_rendered_whether_or_not_a_cluster_has_them(render: Render) -> None:
    gaie = {"enabled": True, "tokenizerPath": "t", "gatewayName": "g"}
    _, out, err = render("-o", "name", chat=CHAT.with_worker("big", nodes=2).with_spec(gaie=gaie))

    assert err == ""
    assert {
        "leaderworkerset.leaderworkerset.x-k8s.io/chat-big",
        "inferencepool.inference.networking.k8s.io/chat-pool",
        "httproute.gateway.networking.k8s.io/chat-route",
    } <= set(out.split())


def test_what_only_an_edit_can_help_is_an_error_with_the_remedy(render: Render) -> None:
    chat = CHAT.with_service("server", numberOfNodes=2)

    code, out, err = render(chat=chat)

    assert (code, out) == (1, "")
    assert "InferaDeployment team-a/chat: spec.services.server: numberOfNodes is for" in err
    assert "raise replicas instead" in err


def test_several_files_directories_and_standard_input_are_read(
    render: Render, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nested = tmp_path / "more" / "deeper"
    nested.mkdir(parents=True)
    one = an_infera_deployment("one").with_server("s")
    (nested.parent / "b.yml").write_text(yaml.safe_dump(one.manifest()))
    (nested.parent / "c.json").write_text(json.dumps(one.named("two").manifest()))
    (nested.parent / "notes.txt").write_text("not for us: [")
    (nested / "d.yaml").write_text(yaml.safe_dump(one.named("three").manifest()))
    piped = "---\n".join(yaml.safe_dump(one.named(name).manifest()) for name in ("four", "five"))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(piped.encode())))

    _, flat, _ = render("-f", "-", "-f", "more", "-o", "name")
    _, deep, _ = render("-R", "-f", "more", "-o", "name")

    assert owners(flat) == ["four", "five", "one", "two"]
    assert owners(deep) == ["one", "two", "three"]


def owners(names: str) -> list[str]:
    return [
        line.removeprefix("deployment.apps/").removesuffix("-s")
        for line in names.split()
        if line.startswith("deployment.apps/")
    ]


def test_all_that_is_wrong_is_told_at_once_and_nothing_is_printed(render: Render) -> None:
    wrong = CHAT.with_service("worker", componentType="workr", replicas="two", replica=3)
    both = "---\n".join(yaml.safe_dump(r.manifest()) for r in (CHAT, wrong))

    code, out, err = render(chat=both)

    assert (code, out) == (1, "")
    lines = err.splitlines()
    assert all(line.startswith("weir: chat.yaml, document 2, line ") for line in lines)
    before = "InferaDeployment team-a/chat: spec.services."
    said = sorted(line.partition(before)[2] for line in lines)
    supported = "use server or worker; did you mean worker?"
    number = "must be a whole number: write one, without quotes"
    assert said == [
        f'worker.componentType: "workr" is not supported: {supported}',
        "worker.replica: no such field; did you mean replicas?",
        f'worker.replicas: "two" is text, and {number}',
    ]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"apiVersion": "infera.amd.com/v1"},
            "line 1: InferaDeployment has no version v1: use infera.amd.com/v1alpha1",
        ),
        (
            {"kind": "InferDeployment"},
            "line 2: infera.amd.com has no kind InferDeployment; it has InferaDeployment",
        ),
        ({"kind": None}, "kind is missing: this is no Kubernetes object"),
    ],
)
def test_a_kind_or_version_that_does_not_exist_is_named(
    render: Render, change: Any, said: str
) -> None:
    manifest = {**CHAT.manifest(), **change}

    code, out, err = render(chat=yaml.safe_dump(manifest))

    assert (code, out) == (1, "")
    assert said in err


def test_files_without_a_resource_of_ours_are_an_error_that_names_our_kinds(
    render: Render,
) -> None:
    code, out, err = render(pod="apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n")

    assert (code, out) == (1, "")
    assert err.splitlines() == [
        "Warning: pod.yaml, document 1, line 1: Pod (v1) is not a kind of Weir, and left out",
        "weir: no resource of Weir there; its kinds are InferaDeployment",
    ]


def test_a_name_in_a_file_cannot_move_the_cursor(render: Render) -> None:
    code, out, err = render(chat=CHAT.named("a\x1b[2Jb"))

    assert (code, out) == (1, "")
    assert "\x1b" not in err
    assert "\\x1b[2J" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("render", "-f FILE"),
        ("render idep team-a/chat", "--diff is what looks into a cluster"),
        ("render --diff", "say which resources"),
        ("render --diff idep", "say which resources"),
        ("render --diff idep team-a/chat -A", "-A is everything"),
        ("render --diff -f x.yaml -A", "leave out KIND and -A"),
        ("render --diff -A -o name", "as text, or with -o json or -o yaml"),
        ("render --diff -f none.yaml", "cannot read none.yaml"),
    ],
)
def test_words_that_name_nothing_to_render_or_compare_are_a_mistake(
    words: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err


def test_a_cluster_that_does_not_answer_is_no_difference(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = access.write_kubeconfig(tmp_path / "config", server="http://127.0.0.1:1", token="x")  # noqa: S106 - opens nothing
    monkeypatch.setenv("KUBECONFIG", str(config))
    assert main(["render", "--diff", "-A"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "cannot ask the API server" in err
