"""What a child keeps although its rendering says otherwise."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import msgspec
import pytest

from crds.kubernetes import Manifest
from handlers import kept, plan
from handlers.fields import merged
from handlers.kept import KEPT, Kept

OTHERS = ("infera-operator", "cgn-operator")
THEIRS = {"spec": {"containers": [{"name": "nats", "image": "nats:2.10"}]}}
OURS = {"spec": {"containers": [{"name": "nats", "image": "nats:2.14", "readinessProbe": {}}]}}
CLAIM = {
    "metadata": {"name": "data"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "4096Mi"}},
    },
}
HELD_CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data", "creationTimestamp": None},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "4Gi"}},
        "volumeMode": "Filesystem",
    },
    "status": {"phase": "Pending"},
}


def a_rendering(template: Manifest = OURS, **spec: Any) -> Manifest:
    return {
        "kind": "StatefulSet",
        "metadata": {"name": "x", "labels": {"a": "b"}},
        "spec": {
            "serviceName": "x",
            "selector": {"matchLabels": {"a": "b"}},
            "template": template,
            "volumeClaimTemplates": [CLAIM],
            **spec,
        },
    }


def an_entry(manager: str, template: Manifest, *, operation: str = "Update") -> Manifest:
    fields = {"f:spec": {"f:template": template, "f:serviceName": {}}}
    return {"manager": manager, "operation": operation, "fieldsV1": fields}


def a_live(*entries: Manifest, annotations: dict[str, str] | None = None, **spec: Any) -> Manifest:
    return {
        "kind": "StatefulSet",
        "metadata": {
            "name": "x",
            "annotations": annotations or {},
            "managedFields": list(entries),
        },
        "spec": {
            "serviceName": "x",
            "selector": {"matchLabels": {"a": "b"}},
            "podManagementPolicy": "OrderedReady",
            "template": deepcopy(THEIRS),
            "volumeClaimTemplates": [HELD_CLAIM],
            **spec,
        },
    }


def keeping(text: str, *, by: str = "weir") -> Manifest:
    """Return a child that was applied to, with that annotation."""
    fields = {"f:metadata": {"f:annotations": {f"f:{KEPT}": {}}}, "f:spec": {"f:template": {}}}
    entry = {"manager": by, "operation": "Apply", "fieldsV1": fields}
    return a_live(entry, annotations={KEPT: text, plan.APPLIED: "x"})


def found(live: Manifest | None = None) -> Kept:
    whole = an_entry("infera-operator", {})
    return kept.taken_from(a_rendering(), live or a_live(whole), OTHERS)


def written(manifest: Manifest) -> str:
    text: str = manifest["metadata"]["annotations"][KEPT]
    return text


# ---------------------------------------------------------------------------------- keeping


def test_the_template_of_another_operator_is_rendered_in_place_of_ours() -> None:
    wanted = kept.with_template(a_rendering(), a_live(), found())
    assert wanted["spec"]["template"] == THEIRS
    assert {**wanted["spec"], "template": OURS} == a_rendering()["spec"]
    assert wanted["metadata"]["labels"] == {"a": "b"}


def test_a_child_remembers_what_it_keeps_and_is_fitted_the_same_again() -> None:
    wanted = kept.with_template(a_rendering(), a_live(), found())
    live = keeping(written(wanted))
    assert kept.kept_by(live) == found()
    assert kept.fitted(a_rendering(), live, "") == wanted
    assert plan.rendering_hash(kept.fitted(a_rendering(), live, "")) == plan.rendering_hash(wanted)


def test_a_child_that_keeps_nothing_is_fitted_as_it_is_rendered() -> None:
    assert kept.fitted(a_rendering(), a_live(), "") == a_rendering()
    account = {"kind": "ServiceAccount", "metadata": {"name": "x"}}
    assert kept.fitted(account, {**account, "metadata": {"annotations": {KEPT: "{}"}}}, None) == (
        account
    )


@pytest.mark.parametrize(
    ("asked", "is_kept"),
    [("", True), ("nats:2.10", True), ("nats:2.11", False), ("nats", False)],
)
def test_what_is_spared_is_kept_until_an_image_is_asked_for_that_it_does_not_run(
    asked: str, *, is_kept: bool
) -> None:
    live = keeping(written(kept.with_template(a_rendering(), a_live(), found())))
    changed = a_rendering({"spec": {"containers": [{"name": "nats", "image": "nats:9"}]}})
    for manifest in (a_rendering(), changed):
        assert (kept.fitted(manifest, live, asked)["spec"]["template"] == THEIRS) is is_kept


def test_what_is_not_spared_is_kept_until_our_own_template_is_another() -> None:
    live = keeping(written(kept.with_template(a_rendering(), a_live(), found())))
    assert kept.fitted(a_rendering(replicas=7), live, None)["spec"]["template"] == THEIRS
    changed = a_rendering({"spec": {"containers": [{"name": "nats", "image": "nats:2.15"}]}})
    assert kept.fitted(changed, live, None) == changed


def test_a_group_of_pods_is_kept_as_a_whole() -> None:
    def a_group(size: int, image: str) -> Manifest:
        pods = {"spec": {"containers": [{"name": "x", "image": image}]}}
        spec = {"leaderWorkerTemplate": {"size": size, "workerTemplate": pods}}
        return {"kind": "LeaderWorkerSet", "metadata": {"name": "x"}, "spec": spec}

    live = a_group(2, "theirs")
    live["metadata"]["managedFields"] = [
        {
            "manager": "infera-operator",
            "operation": "Update",
            "fieldsV1": {"f:spec": {"f:leaderWorkerTemplate": {}}},
        }
    ]
    assert kept.is_anothers(live, OTHERS, is_spared=False)
    wanted = kept.with_template(
        a_group(2, "ours"), live, kept.taken_from(a_group(2, "ours"), live, OTHERS)
    )
    assert wanted["spec"] == live["spec"]


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"template":1,"instead":""}', "[" * 5000])
def test_an_annotation_that_somebody_wrote_into_keeps_nothing_and_is_written_anew(
    text: str,
) -> None:
    live = keeping(text)
    assert kept.kept_by(live) is None
    assert kept.is_anothers(live, OTHERS, is_spared=False)


def test_so_does_one_that_is_not_ours_any_more_whatever_it_says() -> None:
    text = msgspec.json.encode(Kept(template={"spec": {}}, instead="x")).decode()
    assert kept.kept_by(keeping(text)) is not None
    live = keeping(text, by="kubectl-edit")
    assert kept.kept_by(live) is None
    assert kept.is_anothers(live, OTHERS, is_spared=False)


# ---------------------------------------------------------------------------------- whose it is

APPLIED = {plan.APPLIED: "x"}
STANDINGS: dict[str, tuple[Manifest, bool]] = {
    "another operator's": (a_live(an_entry("infera-operator", {})), True),
    "taken over, and not applied to": (a_live(an_entry("weir", {}, operation="Apply")), True),
    "ours, and then another operator wrote its template": (
        a_live(an_entry("weir", {}), an_entry("cgn-operator", {}), annotations=APPLIED),
        True,
    ),
    "ours": (a_live(an_entry("weir", {}), annotations=APPLIED), False),
    "ours, and then another operator wrote something else": (
        a_live(
            an_entry("weir", {}),
            {"manager": "infera-operator", "fieldsV1": {"f:metadata": {"f:labels": {}}}},
            annotations=APPLIED,
        ),
        False,
    ),
    "a person's": (a_live(an_entry("kubectl-create", {})), False),
}


@pytest.mark.parametrize(("live", "is_anothers"), STANDINGS.values(), ids=STANDINGS)
def test_whose_template_it_is_is_told_by_fields_and_by_what_was_applied(
    live: Manifest, *, is_anothers: bool
) -> None:
    assert kept.is_anothers(live, OTHERS, is_spared=False) is is_anothers


def test_what_is_spared_is_anothers_whoever_made_it() -> None:
    live, _ = STANDINGS["a person's"]
    assert kept.is_anothers(live, OTHERS, is_spared=True)
    assert not kept.is_anothers(STANDINGS["ours"][0], OTHERS, is_spared=True)
    assert kept.taken_from(a_rendering(), live, OTHERS).template == THEIRS


def test_what_has_no_pods_is_never_spared() -> None:
    assert not kept.is_anothers({"metadata": {}, "spec": {"ports": []}}, OTHERS, is_spared=True)


def test_what_people_added_to_a_template_stays_theirs() -> None:
    live = a_live(
        an_entry("infera-operator", {"f:spec": {"f:containers": {}}, "f:metadata": {}}),
        an_entry("kubectl-rollout", {"f:metadata": {"f:annotations": {"f:restartedAt": {}}}}),
    )
    live["spec"]["template"]["metadata"] = {"annotations": {"restartedAt": "now"}}
    assert found(live).template == {**THEIRS, "metadata": {}}


def test_any_template_is_anothers_whose_resource_another_operator_served_since() -> None:
    ours, _ = STANDINGS["ours"]
    assert kept.is_anothers(ours, OTHERS, is_spared=False, was_served=True)
    no_pods = {"metadata": {"annotations": APPLIED}, "spec": {"ports": []}}
    assert not kept.is_anothers(no_pods, OTHERS, is_spared=False, was_served=True)


def test_what_stands_twice_is_not_kept_and_has_an_entry_of_its_own() -> None:
    nats = 'k:{"name":"nats"}'
    variable: Manifest = {"f:env": {'k:{"name":"A"}': {}}}
    fields: Manifest = {"f:image": {}, "f:name": {}}
    owned: Manifest = {"f:spec": {"f:containers": {nats: {**fields, **variable}}}}
    live = a_live(an_entry("infera-operator", owned), an_entry("kubectl-edit", {}))
    (container,) = live["spec"]["template"]["spec"]["containers"]
    container["env"] = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
    assert found(live).template == THEIRS

    entries = merged(live, OTHERS)
    assert entries is not None
    wanted = kept.with_template(a_rendering(), live, found(live))
    assert kept.apart(a_rendering(), live, entries) == entries
    persons, ours, twice = kept.apart(wanted, live, entries)
    assert persons == an_entry("kubectl-edit", {})
    assert (ours["manager"], ours["operation"]) == ("weir", "Apply")
    assert ours["fieldsV1"]["f:spec"] == {
        "f:template": {"f:spec": {"f:containers": {nats: fields}}},
        "f:serviceName": {},
    }
    assert (twice["manager"], twice["operation"]) == ("weir", "Update")
    assert twice["fieldsV1"] == {
        "f:spec": {"f:template": {"f:spec": {"f:containers": {nats: variable}}}}
    }
    # And together again, whenever a path is to go.
    assert merged({"metadata": {"managedFields": [ours, twice]}}, OTHERS) == merged(
        a_live(an_entry("infera-operator", owned)), OTHERS
    )
    whole = [ours]
    assert kept.apart(wanted, a_live(), whole) == whole


# ---------------------------------------------------------------------------------- immutable


def test_what_cannot_be_changed_and_is_alike_is_sent_as_it_is_rendered() -> None:
    assert kept.with_immutable(a_rendering(), a_live()) == a_rendering()
    assert kept.unchangeable(a_rendering(), a_live()) == ()


def a_claim(**spec: Any) -> Manifest:
    return {**HELD_CLAIM, "spec": {**HELD_CLAIM["spec"], **spec}}  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("field", "held"),
    [
        ("serviceName", "other"),
        ("selector", {"matchLabels": {"a": "c"}}),
        ("volumeClaimTemplates", [a_claim(storageClassName="fast")]),
        ("volumeClaimTemplates", [a_claim(resources={"requests": {"storage": "8Gi"}})]),
        ("volumeClaimTemplates", []),
    ],
)
def test_where_it_differs_it_is_sent_as_it_is_and_named(field: str, held: Any) -> None:
    live = a_live(**{field: held})
    assert kept.unchangeable(a_rendering(), live) == (field,)
    assert kept.fitted(a_rendering(), live, None)["spec"] == {**a_rendering()["spec"], field: held}


@pytest.mark.parametrize("field", ["serviceName", "volumeClaimTemplates"])
def test_what_it_lacks_is_named_and_not_sent(field: str) -> None:
    live = a_live()
    del live["spec"][field]
    assert kept.unchangeable(a_rendering(), live) == (field,)
    rest = {key: item for key, item in a_rendering()["spec"].items() if key != field}
    assert kept.with_immutable(a_rendering(), live)["spec"] == rest


def mounting(image: str, **pod: Any) -> Manifest:
    """Return a template that mounts `data`."""
    container = {"name": "nats", "image": image, "volumeMounts": [{"name": "data"}]}
    return {"spec": {"containers": [container], **pod}}


@pytest.mark.parametrize("claims", [None, [], [{"metadata": {"name": "store"}, "spec": {}}]])
def test_what_mounts_a_claim_that_it_lacks_gets_our_image_and_nothing_else(claims: Any) -> None:
    theirs = mounting("nats:2.10", volumes=[{"name": "data", "emptyDir": {}}])
    live = a_live(template=theirs, volumeClaimTemplates=claims)
    ours = a_rendering(mounting("nats:2.11", hostname="ours"))
    wanted = kept.fitted(ours, live, "nats:2.11")
    expected = mounting("nats:2.11", volumes=[{"name": "data", "emptyDir": {}}])
    assert wanted["spec"]["template"] == expected
    assert wanted["spec"].get("volumeClaimTemplates") == claims

    # It is kept so, until another image is asked for; who removes the annotation changes nothing.
    held = keeping(written(wanted))
    held["spec"] |= {"template": expected, "volumeClaimTemplates": claims}
    for asked in ("nats:2.11", ""):
        assert kept.fitted(ours, held, asked) == wanted
    again = kept.fitted(a_rendering(mounting("nats:2.12")), held, "nats:2.12")
    assert again["spec"]["template"]["spec"]["volumes"] == theirs["spec"]["volumes"]
    assert again["spec"]["template"]["spec"]["containers"][0]["image"] == "nats:2.12"
    del held["metadata"]["annotations"][KEPT]
    assert kept.fitted(ours, held, "nats:2.11")["spec"]["template"] == expected


def test_a_policy_that_we_do_not_render_does_not_become_the_default() -> None:
    live = a_live(podManagementPolicy="Parallel")
    assert kept.unchangeable(a_rendering(), live) == ()
    wanted = kept.with_immutable(a_rendering(), live)
    assert wanted["spec"] == {**a_rendering()["spec"], "podManagementPolicy": "Parallel"}


def test_of_other_kinds_the_server_says_what_cannot_be_changed() -> None:
    deployment = {**a_rendering(), "kind": "Deployment"}
    live = {**a_live(serviceName="other"), "kind": "Deployment"}
    assert kept.with_immutable(deployment, live) == deployment
