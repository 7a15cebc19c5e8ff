"""What the shipped roles grant is what the contracts need."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from bridge.watched import Watched, watched
from crds import KINDS
from crds.contract import Contract
from crds.kind import Kind

ROLES = Path(__file__).parents[3] / "charts" / "roles"
CHILD_VERBS = {"get", "list", "create", "patch", "delete"}


def granted(component: str, kind: Kind, subresource: str = "") -> set[str]:
    """Return the verbs that a component's role has for a kind."""
    rules = yaml.safe_load((ROLES / f"{component}.yaml").read_text(encoding="utf-8"))["rules"]
    resource = f"{kind.plural}/{subresource}" if subresource else kind.plural
    return {
        verb
        for rule in rules
        if kind.group in rule["apiGroups"] and resource in rule["resources"]
        for verb in rule["verbs"]
    }


@pytest.mark.parametrize("one", watched(KINDS), ids=lambda one: one.kind.kind)
def test_the_bridge_may_list_and_watch_what_it_watches_and_nothing_more(one: Watched) -> None:
    assert granted("bridge", one.kind) == {"list", "watch"}


@pytest.mark.parametrize("contract", KINDS, ids=lambda contract: contract.kind.kind)
def test_handlers_may_read_a_resource_write_its_status_and_make_its_children(
    contract: Contract,
) -> None:
    # Patched are its managedFields alone, where another operator owns some of its status.
    assert granted("handlers", contract.kind) == {"get", "patch"}
    assert granted("handlers", contract.kind, "status") == {"update"}
    for child in contract.owns:
        assert granted("handlers", child.kind) == CHILD_VERBS, child.kind.kind
