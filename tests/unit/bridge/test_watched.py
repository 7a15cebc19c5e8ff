from __future__ import annotations

from bridge.watched import watched
from crds.contract import Child, Reference
from crds.kubernetes import CUSTOM_RESOURCE_DEFINITION, DEPLOYMENT, SERVICE
from tests.unit.bridge.objects import ENGINE, PLUGIN, ROUTER, a_contract


def test_every_kind_is_watched_once_and_crds_always() -> None:
    kinds = [one.kind for one in watched([a_contract(ENGINE, refers=()), a_contract(ROUTER)])]
    assert kinds == [ENGINE, ROUTER, DEPLOYMENT, SERVICE, CUSTOM_RESOURCE_DEFINITION]


def test_children_are_selected_by_the_identities_of_all_that_own_them() -> None:
    found = {one.kind: one for one in watched([a_contract(ENGINE), a_contract(ROUTER)])}
    assert (
        found[DEPLOYMENT].label_selector
        == "app.kubernetes.io/managed-by in (engines-operator,routers-operator)"
    )
    assert found[ENGINE].label_selector == ""
    assert found[CUSTOM_RESOURCE_DEFINITION].label_selector == ""


def test_children_with_identities_of_different_labels_are_all_watched() -> None:
    contracts = [a_contract(ENGINE), a_contract(ROUTER, identity=("other", "x"))]
    assert {one.label_selector for one in watched(contracts) if one.kind == SERVICE} == {""}


def test_the_status_fields_of_a_child_are_those_that_any_owner_reads() -> None:
    more = (Child(kind=DEPLOYMENT, status_fields=("conditions", "replicas")),)
    found = {one.kind: one for one in watched([a_contract(ENGINE), a_contract(ROUTER, owns=more)])}
    assert found[DEPLOYMENT].status_fields == ("readyReplicas", "conditions", "replicas")


def test_of_our_own_kinds_no_status_is_read_even_where_another_owns_them() -> None:
    owns = (Child(kind=ENGINE, status_fields=("state",)),)
    found = {one.kind: one for one in watched([a_contract(ENGINE), a_contract(ROUTER, owns=owns)])}
    assert found[ENGINE].status_fields == ()
    assert found[ENGINE].label_selector == ""


def test_metadata_is_kept_of_what_references_are_judged_by() -> None:
    refers = (Reference(kind=PLUGIN, touches=lambda *_: True),)
    contracts = [a_contract(ENGINE, refers=()), a_contract(ROUTER, refers=refers)]
    kept = {one.kind for one in watched(contracts) if one.keep_meta}
    assert kept == {ROUTER, PLUGIN}
