"""What to do with a child."""

from __future__ import annotations

import random
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crds.inferadeployment import CONTRACT
from crds.kubernetes import Manifest
from handlers import plan
from handlers.fields import Dropped, FieldSet
from handlers.handler import ChildName
from handlers.paths import paths_text
from handlers.plan import Standing

OWNER: Manifest = {"metadata": {"name": "chat", "namespace": "a", "uid": "uid-2"}}
LABEL, VALUE = CONTRACT.identity
IDENTITY = {LABEL: VALUE, "infera.amd.com/deployment": "chat"}


def a_reference(**fields: Any) -> Manifest:
    return {
        "apiVersion": CONTRACT.kind.api_version,
        "kind": CONTRACT.kind.kind,
        "name": "chat",
        "uid": "uid-2",
        "controller": True,
        **fields,
    }


def owned_by(*references: Manifest, labels: Manifest | None = None) -> Manifest:
    return {"metadata": {"labels": labels, "ownerReferences": list(references)}}


STANDINGS: dict[str, tuple[Manifest, Standing]] = {
    "our resource controls it": (owned_by(a_reference()), Standing.OURS),
    "its labels do not matter then": (
        owned_by(a_reference(), labels={"app": "other"}),
        Standing.OURS,
    ),
    "an older incarnation controls it": (owned_by(a_reference(uid="uid-1")), Standing.PREDECESSOR),
    "another version of the kind": (
        owned_by(a_reference(uid="uid-1", apiVersion=f"{CONTRACT.kind.group}/v9")),
        Standing.PREDECESSOR,
    ),
    "a kind of that name in another group": (
        owned_by(a_reference(uid="uid-1", apiVersion="example.com/v1")),
        Standing.FOREIGN,
    ),
    "another resource of ours": (
        owned_by(a_reference(uid="uid-3", name="other"), labels=IDENTITY),
        Standing.FOREIGN,
    ),
    "another controller": (
        owned_by({"kind": "ReplicaSet", "apiVersion": "apps/v1", "uid": "x", "controller": True}),
        Standing.FOREIGN,
    ),
    "our labels and nobody's": (owned_by(labels=IDENTITY), Standing.ORPHAN),
    "an owner that does not control": (
        owned_by(a_reference(uid="z", controller=None), labels=IDENTITY),
        Standing.ORPHAN,
    ),
    "our mark and another's name": (
        owned_by(labels={**IDENTITY, "infera.amd.com/deployment": "other"}),
        Standing.FOREIGN,
    ),
    "our name without our mark": (
        owned_by(labels={"infera.amd.com/deployment": "chat"}),
        Standing.FOREIGN,
    ),
    "nothing at all": ({"metadata": {}}, Standing.FOREIGN),
}


@pytest.mark.parametrize(("live", "expected"), STANDINGS.values(), ids=STANDINGS)
def test_whose_an_object_is_follows_from_its_controller_and_labels(
    live: Manifest, expected: Standing
) -> None:
    assert plan.standing(live, OWNER, CONTRACT) is expected


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


def shuffled(value: Any, seed: int) -> Any:
    """Return the same value, the keys of its maps in another order."""
    if isinstance(value, dict):
        keys = list(value)
        random.Random(seed).shuffle(keys)
        return {key: shuffled(value[key], seed) for key in keys}
    return [shuffled(item, seed) for item in value] if isinstance(value, list) else value


@given(st.dictionaries(st.text(max_size=3), JSON), st.integers(0, 9))
def test_the_order_of_keys_does_not_change_a_hash(manifest: Manifest, seed: int) -> None:
    assert plan.rendering_hash(shuffled(manifest, seed)) == plan.rendering_hash(manifest)


def test_the_hash_stays_the_same_from_release_to_release() -> None:
    # Every child in every cluster carries it: another hash is one apply for each of them.
    assert plan.rendering_hash({"a": [1, {"b": "ü"}], "c": None}) == "6d6b2c56401bb7dc"


@given(JSON, JSON)
def test_two_renderings_that_differ_have_two_hashes(left: Any, right: Any) -> None:
    same = repr(shuffled_keys(left)) == repr(shuffled_keys(right))
    assert (plan.rendering_hash({"x": left}) == plan.rendering_hash({"x": right})) is same


def shuffled_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: shuffled_keys(value[key]) for key in sorted(value)}
    return [shuffled_keys(item) for item in value] if isinstance(value, list) else value


# ---------------------------------------------------------------------------------- matching


def a_rendering(**spec: Any) -> Manifest:
    return {"kind": "Deployment", "metadata": {"name": "x", "labels": {"a": "b"}}, "spec": spec}


def held(manifest: Manifest, dropped: tuple[Dropped, ...] = ()) -> Manifest:
    """Return what the server holds of a rendering right after it was written."""
    live = deepcopy(plan.marked(manifest, 1, dropped))
    spec: FieldSet = {f"f:{key}": {} for key in live["spec"]}
    fields = {"f:metadata": {"f:labels": {"f:a": {}}}, "f:spec": spec}
    entries = [{"manager": "weir", "operation": "Apply", "fieldsV1": fields}]
    return {**live, "metadata": {**live["metadata"], "managedFields": entries}}


def test_a_child_matches_right_after_it_was_written() -> None:
    manifest = a_rendering(replicas=1, paused=True)
    assert plan.matches(manifest, held(manifest))


def test_a_child_of_another_rendering_does_not_match() -> None:
    assert not plan.matches(a_rendering(replicas=2), held(a_rendering(replicas=1)))


def test_a_child_does_not_match_once_a_field_is_anothers() -> None:
    manifest = a_rendering(replicas=1, paused=True)
    live = held(manifest)
    del live["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:paused"]
    assert not plan.matches(manifest, live)


def test_marks_are_added_to_the_annotations_that_a_rendering_has() -> None:
    manifest = a_rendering(replicas=3)
    manifest["metadata"]["annotations"] = {"a": "b"}
    annotations = plan.marked(manifest, 7)["metadata"]["annotations"]
    assert annotations == {
        "a": "b",
        plan.APPLIED: plan.rendering_hash(manifest),
        plan.PATHS: paths_text(manifest),
        plan.RENDERER: "7",
        plan.REPLICAS_SEED: "3",
    }
    assert manifest["metadata"]["annotations"] == {"a": "b"}


def test_a_child_remembers_what_the_server_dropped() -> None:
    port = ("spec", "ports", '[containerPort=80,protocol="TCP"]', "foo")
    dropped = (
        Dropped(port, is_empty=False),
        Dropped(("spec", "x"), is_empty=False),
        Dropped(("spec", "hostNetwork"), is_empty=True),
    )
    live = plan.marked(a_rendering(), 1, dropped)
    assert plan.ignored_fields(live) == (
        'spec.ports[containerPort=80,protocol="TCP"].foo',
        "spec.x",
    )
    assert plan.empty_fields(live) == ("spec.hostNetwork",)


@pytest.mark.parametrize("text", ["", "spec.a,spec.b", "[1]", "{}", "[" * 5000])
def test_an_annotation_that_somebody_wrote_into_names_nothing(text: str) -> None:
    live = {"metadata": {"annotations": {plan.IGNORED: text}}}
    assert plan.ignored_fields(live) == ()


@pytest.mark.parametrize(("text", "version"), [("3", 3), ("", 0), ("x", 0), ("-1", 0), ("²", 0)])
def test_a_renderer_that_cannot_be_read_is_none_of_ours(text: str, version: int) -> None:
    live = {"metadata": {"annotations": {plan.RENDERER: text}}}
    assert plan.renderer_of(live) == version


def test_an_object_without_annotations_was_rendered_by_nobody() -> None:
    assert plan.renderer_of({"metadata": {"annotations": None}}) == 0


def test_stale_are_the_candidates_that_are_not_rendered() -> None:
    a, b, c = (ChildName("Service", name) for name in "abc")
    assert plan.stale([a], [c, a, b, c]) == (b, c)


def test_only_a_binding_of_another_role_is_made_anew() -> None:
    role = {"kind": "Role", "name": "a", "apiGroup": "g"}
    assert not plan.must_recreate({"roleRef": role}, {"roleRef": dict(role)})
    assert plan.must_recreate({"roleRef": role}, {"roleRef": {**role, "name": "b"}})
    assert not plan.must_recreate({"spec": {}}, {"spec": {"a": 1}})


def of_pods(image: str) -> Manifest:
    return {"template": {"spec": {"containers": [{"image": image}]}}}


def of_groups(image: str) -> Manifest:
    template = of_pods(image)["template"]
    return {"leaderWorkerTemplate": {"size": 2, "workerTemplate": template}}


@pytest.mark.parametrize("spec", [of_pods, of_groups])
def test_new_pods_that_nobody_asked_for_are_told_from_those_of_an_edit(
    spec: Callable[[str], Manifest],
) -> None:
    def asked_for(observed: int, renderer: int) -> bool:
        owner = {"metadata": {"generation": 2}, "status": {"observedGeneration": observed}}
        live = {"metadata": {"annotations": {plan.RENDERER: "1"}}, "spec": spec("a")}
        return not plan.is_rollout_of_ours({"spec": spec("b")}, live, owner, renderer)

    assert asked_for(observed=1, renderer=2)
    assert asked_for(observed=2, renderer=1)
    assert not asked_for(observed=2, renderer=2)


def test_what_has_no_pods_has_no_template() -> None:
    assert plan.pod_template({"spec": {"ports": []}}) is None
    assert plan.pod_template({"spec": None}) is None
    assert plan.pod_template({}) is None


# ---------------------------------------------------------------------------------- replicas


def scaled(manager: str = "kube-controller-manager", seed: str = "2", **entry: Any) -> Manifest:
    live = held(a_rendering(replicas=2))
    live["metadata"]["annotations"][plan.REPLICAS_SEED] = seed
    live["metadata"]["managedFields"].append(
        {
            "manager": manager,
            "operation": "Update",
            "subresource": "scale",
            "fieldsV1": {"f:spec": {"f:replicas": {}}},
            **entry,
        }
    )
    return live


def scaled_to_zero(*, owned_by: str = "") -> Manifest:
    live = held(a_rendering(replicas=2))
    del live["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:replicas"]
    live["spec"]["replicas"] = 0
    if owned_by:
        entry = {"manager": owned_by, "fieldsV1": {"f:spec": {"f:replicas": {}}}}
        live["metadata"]["managedFields"].append(entry)
    return live


@pytest.mark.parametrize(
    ("live", "owner"),
    [
        (scaled_to_zero(), plan.NAMELESS),
        (scaled_to_zero(owned_by="kubectl-edit"), None),
        (scaled(), "kube-controller-manager"),
        (scaled("keda-operator"), "keda-operator"),
        (scaled("kubectl"), None),
        (scaled("kubectl-scale"), None),
        (scaled(subresource="status"), None),
        (scaled(fieldsV1={"f:status": {}}), None),
        (held(a_rendering(replicas=2)), None),
    ],
    ids=[
        "to zero",
        "a person's zero",
        "an HPA",
        "KEDA",
        "kubectl",
        "kubectl scale",
        "a status",
        "no replicas",
        "nobody",
    ],
)
def test_a_scaler_is_who_wrote_replicas_through_the_scale_subresource(
    live: Manifest, owner: str | None
) -> None:
    assert plan.replicas_owner(live) == owner
    wanted = plan.with_foreign_replicas(a_rendering(replicas=2), live)
    assert wanted["spec"] == ({} if owner else {"replicas": 2})


def test_an_edit_of_the_resources_own_replicas_takes_them_back_once() -> None:
    manifest = a_rendering(replicas=5)
    assert plan.with_foreign_replicas(manifest, scaled(seed="2")) == manifest
    assert plan.with_foreign_replicas(manifest, scaled(seed="5"))["spec"] == {}


def test_a_workload_without_a_seed_is_left_to_its_scaler() -> None:
    assert plan.with_foreign_replicas(a_rendering(replicas=5), scaled(seed=""))["spec"] == {}


def test_a_scaled_workload_matches_whatever_its_replicas_are() -> None:
    manifest = a_rendering(replicas=2, paused=True)
    live = held(manifest)
    scaler = scaled()["metadata"]["managedFields"][-1]
    live["metadata"]["managedFields"].append(scaler)
    del live["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:replicas"]
    live["spec"]["replicas"] = 9
    assert plan.matches(manifest, live)
    live["metadata"]["managedFields"].remove(scaler)
    assert not plan.matches(manifest, live)


def test_an_apply_owns_the_copy_of_the_service_account_as_a_create_does() -> None:
    def of_pods(**pod: str) -> Manifest:
        return a_rendering(template={"spec": pod})

    named = plan.with_account_copy(of_pods(serviceAccountName="demo-disc"))
    assert named == of_pods(serviceAccountName="demo-disc", serviceAccount="demo-disc")
    for as_it_is in (
        of_pods(),
        of_pods(serviceAccountName="own", serviceAccount="other"),
        of_pods(serviceAccount="other"),
        a_rendering(leaderWorkerTemplate={"workerTemplate": {"spec": {"serviceAccountName": "a"}}}),
        a_rendering(),
    ):
        assert plan.with_account_copy(as_it_is) == as_it_is


@pytest.mark.parametrize(
    ("status", "awaits"),
    [
        ({"observedGeneration": 2}, False),
        ({"observedGeneration": 1}, True),
        ({"state": "pending"}, False),
        (None, False),
    ],
)
def test_of_what_nobody_observed_no_edit_is_known(status: Any, *, awaits: bool) -> None:
    owner = {"metadata": {"generation": 2}, "status": status}
    assert plan.awaits_an_edit(owner) is awaits
