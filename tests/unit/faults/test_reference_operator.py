"""The stand-in for AMD's operator writes what that operator wrote, to the letter."""

from __future__ import annotations

from tests.faults.stand_ins.reference_operator import golden


def test_a_placeholder_is_filled_where_it_is_a_value_and_in_no_name_that_holds_its_word() -> None:
    children = golden("nats-absent").children_of("team-a", "1-2-3")

    worker = next(one for one in children if one["metadata"]["name"] == "nats-absent-worker")
    (container,) = worker["spec"]["template"]["spec"]["containers"]
    assert "POD_NAMESPACE" in [variable["name"] for variable in container["env"]]
    (binding,) = (one for one in children if one["kind"] == "RoleBinding")
    assert binding["subjects"][0]["namespace"] == "team-a"
    assert {one["metadata"]["namespace"] for one in children} == {"team-a"}
    assert {one["metadata"]["ownerReferences"][0]["uid"] for one in children} == {"1-2-3"}
