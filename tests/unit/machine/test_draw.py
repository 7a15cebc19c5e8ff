from __future__ import annotations

from hypothesis import given, settings

from tests.e2e.machine.actions import Apply, Calm, Install, Kill, Remove, Sequence, Touch, Wrong
from tests.e2e.machine.draw import children_of, drawn, sequences
from tests.e2e.machine.model import rendered
from tests.e2e.test_state_machine import LENGTH, SEEDS
from tests.refused import resource


def test_a_seed_gives_the_same_sequence_every_time() -> None:
    assert drawn(7, 12) == drawn(7, 12)
    assert drawn(7, 12) != drawn(8, 12)


def test_the_seeds_of_make_test_show_every_kind_of_action_that_is_quick() -> None:
    """Chosen so, and by their time; another version of hypothesis draws others."""
    shown = {type(action) for seed in SEEDS for action in drawn(seed, LENGTH)}
    assert {Apply, Calm, Install, Kill, Remove, Touch, Wrong} <= shown


def test_the_seeds_of_make_test_turn_a_worker_and_have_a_gateway() -> None:
    specs = [a.spec for seed in SEEDS for a in drawn(seed, LENGTH) if isinstance(a, Apply)]
    nodes = {
        given["numberOfNodes"] > 1
        for spec in specs
        for given in spec["services"].values()
        if "numberOfNodes" in given
    }
    assert nodes == {True, False}
    assert any((spec.get("gaie") or {}).get("enabled") for spec in specs)


@given(sequences(6))
@settings(max_examples=40)
def test_children_are_foretold_as_they_are_rendered(sequence: Sequence) -> None:
    for action in sequence:
        if isinstance(action, Apply) and not (action.spec.get("nats") or {}).get("shared"):
            stored = {**resource(action.name), "spec": action.spec}
            assert set(children_of(action.name, action.spec)) == set(rendered(stored))
