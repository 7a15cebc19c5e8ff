from __future__ import annotations

from typing import cast

import pytest

from bridge.events import ChangeEvent, EventType, ObjectKey, encode
from bridge.index import Scope
from bridge.jetstream import Bus
from bridge.kube import Kube
from bridge.relay import Relay
from bridge.settings import Settings
from bridge.streams import MESSAGE_BYTES_MAX
from crds.kubernetes import DEPLOYMENT
from tests.unit.bridge.objects import ENGINE, a_contract, a_meta

A = ObjectKey("engine", "ns", "a")


def a_relay(settings: Settings | None = None) -> Relay:
    """Return a relay that is never run, so that it needs neither client."""
    kube, bus = cast("Kube", None), cast("Bus", None)
    return Relay(kube, bus, settings or Settings(), [a_contract(ENGINE)])


@pytest.mark.parametrize("children", [0, 1, 5_000])
def test_a_hint_names_the_children_and_always_fits_into_a_message(children: int) -> None:
    relay = a_relay()
    for n in range(children):
        meta = a_meta(name=f"{'long-name-' * 6}{n}", uid=f"uid-{n:032}")
        relay._index.apply(Scope(DEPLOYMENT, ""), meta, A, 1, keep=False)
    hint = relay._hint(A)
    headers, payload = encode(
        ChangeEvent(key=A, type=EventType.CHANGED, id="x" * 600, children=hint)
    )
    assert len(payload) <= 64 * 1024
    assert len(payload) + sum(map(len, [*headers, *headers.values()])) < MESSAGE_BYTES_MAX
    assert len(hint) == children or len(payload) > 50_000


def test_one_watch_per_kind_or_per_kind_and_namespace() -> None:
    everywhere = set(a_relay()._watches)
    assert {scope.namespace for scope in everywhere} == {""}
    two = set(a_relay(Settings(watch_namespaces="x, y"))._watches)
    namespaced = {scope.kind for scope in everywhere if scope.kind.namespaced}
    assert two == {Scope(kind, namespace) for kind in namespaced for namespace in ("x", "y")} | {
        scope for scope in everywhere if not scope.kind.namespaced
    }
