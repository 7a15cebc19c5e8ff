"""What goes when we apply to an object whose fields became ours, told without a server."""

from __future__ import annotations

from typing import Any

from crds.kubernetes import Manifest
from handlers.foretell import after_apply, as_patch, overlaid

ITEM = 'k:{"name":"A"}'


def live(**spec: Any) -> Manifest:
    return {"kind": "X", "metadata": {"name": "x", "uid": "u"}, "spec": spec, "status": {"a": 1}}


def ours(**spec: Any) -> dict[str, Any]:
    return {"manager": "weir", "operation": "Apply", "fieldsV1": {"f:spec": spec}}


def theirs(**spec: Any) -> dict[str, Any]:
    return {"manager": "other", "operation": "Update", "fieldsV1": {"f:spec": spec}}


def test_a_field_that_is_ours_alone_and_not_asked_for_goes() -> None:
    found = live(kept=1, gone=2, shared=3, others=4)
    entries = [
        ours(**{"f:kept": {}, "f:gone": {}, "f:shared": {}}),
        theirs(**{"f:shared": {}, "f:others": {}}),
    ]
    after = after_apply(found, live(kept=1), entries)
    assert after == live(kept=1, shared=3, others=4)


def test_below_a_field_that_another_shares_only_what_is_ours_goes() -> None:
    found = live(pod={"ours": 1, "others": 2})
    entries = [
        ours(**{"f:pod": {"f:ours": {}}}),
        theirs(**{"f:pod": {"f:others": {}}}),
    ]
    assert after_apply(found, live(), entries) == live(pod={"others": 2})


def test_an_item_of_a_keyed_list_goes_as_a_whole() -> None:
    found = live(env=[{"name": "A", "value": "1"}, {"name": "B", "value": "2"}])
    entries = [ours(**{"f:env": {ITEM: {".": {}, "f:name": {}, "f:value": {}}}})]
    assert after_apply(found, live(env=[]), entries) == live(env=[{"name": "B", "value": "2"}])


def test_what_is_asked_for_is_laid_over_items_by_their_key() -> None:
    found = live(env=[{"name": "A", "value": "1"}, {"name": "B", "value": "2"}], list=[1, 2])
    entries = [
        ours(**{"f:env": {ITEM: {".": {}, "f:value": {}}}, "f:list": {}}),
        theirs(**{"f:env": {'k:{"name":"B"}': {".": {}}}}),
    ]
    wanted = live(env=[{"name": "A", "valueFrom": "x"}], list=[3])
    assert overlaid(found, wanted, entries) == live(
        env=[{"name": "A", "valueFrom": "x"}, {"name": "B", "value": "2"}], list=[3]
    )


def test_the_patch_takes_away_what_went_and_leaves_status_alone() -> None:
    found = {**live(a=1), "rules": [1]}
    patch = as_patch(found, live(a=2), [])
    assert patch == [
        {"op": "remove", "path": "/rules"},
        {"op": "add", "path": "/spec", "value": {"a": 2}},
        {"op": "add", "path": "/metadata/managedFields", "value": []},
    ]
