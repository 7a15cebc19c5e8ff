"""From an object's metadata to the resource of ours that it belongs to."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from bridge.events import ObjectKey
from crds.contract import Contract
from crds.kind import SUBDOMAIN, Kind
from crds.kubernetes import ObjectMeta

_NAME: Final = re.compile(SUBDOMAIN)
"""Object names (RFC 1123 subdomain).

The server checks neither the name in an owner reference nor, against this, a label's value; what
is no name cannot be ours, and must not reach a NATS subject.
"""


class Owners:
    """Answers for the kinds of these contracts."""

    def __init__(self, contracts: Iterable[Contract]) -> None:
        self._contracts = tuple(contracts)
        self._own = {(c.kind.group, c.kind.kind): c.kind.queue_name for c in self._contracts}

    def owner(self, kind: Kind, meta: ObjectMeta) -> ObjectKey | None:
        """
        Return the key of the resource that an object belongs to, None where it is not ours.

        An object of our own kinds is its own owner. Of a child the controller reference decides;
        without one of our kinds, the identity labels do, so that orphans find their resource.
        """
        namespace = meta.namespace or ""
        if own := self._own.get((kind.group, kind.kind)):
            return ObjectKey(own, namespace, meta.name)
        if controller := meta.controller:
            group = controller.api_version.rpartition("/")[0]
            if own := self._own.get((group, controller.kind)):
                return _key(own, namespace, controller.name)
        labels = meta.labels or {}
        for contract in self._contracts:
            label, value = contract.identity
            if labels.get(label) == value and (name := contract.owner_name(labels)):
                return _key(contract.kind.queue_name, namespace, name)
        return None


def _key(kind: str, namespace: str, name: str) -> ObjectKey | None:
    return ObjectKey(kind, namespace, name) if _NAME.fullmatch(name) else None
