from __future__ import annotations

import pytest

from bridge.events import ObjectKey
from bridge.owners import Owners
from crds.kind import Kind
from crds.kubernetes import DEPLOYMENT, OwnerReference
from tests.unit.bridge.objects import ENGINE, MANAGED_BY, ROUTER, a_contract, a_meta, owned_by

OWNERS = Owners([a_contract(ENGINE), a_contract(ROUTER)])


def test_a_resource_of_ours_is_its_own_owner_whatever_its_labels_and_owners_say() -> None:
    meta = a_meta(name="main", owner_references=owned_by("other"))
    assert OWNERS.owner(ENGINE, meta) == ObjectKey("engine", "ns", "main")


def test_the_controller_reference_decides_over_the_labels() -> None:
    meta = a_meta(owner_references=owned_by("r", ROUTER))
    assert OWNERS.owner(DEPLOYMENT, meta) == ObjectKey("router", "ns", "r")


@pytest.mark.parametrize(
    "reference",
    [
        OwnerReference(api_version="example.dev/v2", kind="Engine", name="x", controller=True),
        OwnerReference(api_version="example.dev/v1", kind="Engine", name="x", controller=True),
    ],
)
def test_any_version_of_our_group_is_our_kind(reference: OwnerReference) -> None:
    meta = a_meta(owner_references=[reference])
    assert OWNERS.owner(DEPLOYMENT, meta) == ObjectKey("engine", "ns", "x")


@pytest.mark.parametrize(
    "references",
    [
        None,
        [],
        owned_by("x", controller=False),
        owned_by("x", Kind(group="other.dev", version="v1", kind="Engine", plural="engines")),
        [OwnerReference(api_version="v1", kind="Engine", name="x", controller=True)],
        [OwnerReference()],
    ],
)
def test_without_a_controller_of_ours_the_identity_labels_decide(
    references: list[OwnerReference] | None,
) -> None:
    meta = a_meta(owner_references=references)
    assert OWNERS.owner(DEPLOYMENT, meta) == ObjectKey("engine", "ns", "main")


@pytest.mark.parametrize(
    "labels",
    [
        None,
        {},
        {MANAGED_BY: "engines-operator"},
        {"example.dev/engine": "main"},
        {MANAGED_BY: "routers-operator", "example.dev/engine": "main"},
        {MANAGED_BY: "engines-operator", "example.dev/engine": ""},
    ],
)
def test_what_names_no_resource_of_ours_is_nobodys(labels: dict[str, str] | None) -> None:
    assert OWNERS.owner(DEPLOYMENT, a_meta(labels=labels)) is None


@pytest.mark.parametrize("name", ["A", "a b", "a*", ">", "a\n", ".a", "a.", "-", "a" * 254, "ä"])
def test_what_cannot_be_a_name_never_reaches_a_subject(name: str) -> None:
    by_label = a_meta(labels={MANAGED_BY: "engines-operator", "example.dev/engine": name})
    by_reference = a_meta(owner_references=owned_by(name), labels=None)
    assert OWNERS.owner(DEPLOYMENT, by_label) is None
    assert OWNERS.owner(DEPLOYMENT, by_reference) is None


def test_a_dotted_name_keeps_its_dots_and_its_subject_has_none() -> None:
    key = OWNERS.owner(DEPLOYMENT, a_meta(owner_references=owned_by("a.b")))
    assert key is not None
    assert (key.name, key.token) == ("a.b", "engine.ns.a_b")
    assert ObjectKey.from_token(key.token) == key
