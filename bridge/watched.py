"""From the contracts to what the bridge watches: which kinds, which of their objects and fields."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from crds.contract import Contract
from crds.kind import Kind
from crds.kubernetes import CUSTOM_RESOURCE_DEFINITION


class Watched(Struct, frozen=True, kw_only=True):
    """A kind that the bridge watches."""

    kind: Kind
    status_fields: tuple[str, ...] = ()
    label_selector: str = ""
    """Selects the objects that can concern us; empty for all."""
    keep_meta: bool = False
    """True where references are judged by this kind's metadata."""


def watched(contracts: Iterable[Contract]) -> tuple[Watched, ...]:
    """
    Return every kind to watch once: our own, those they own, those they refer to, and CRDs.

    CRDs always: by them an absent kind is seen to appear.
    """
    contracts = tuple(contracts)
    own = {contract.kind for contract in contracts}
    referred = {reference.kind for contract in contracts for reference in contract.refers}
    referring = {contract.kind for contract in contracts if contract.refers}
    owned = {child.kind for contract in contracts for child in contract.owns}
    kinds = dict.fromkeys(
        [
            *(contract.kind for contract in contracts),
            *(child.kind for contract in contracts for child in contract.owns),
            *(reference.kind for contract in contracts for reference in contract.refers),
            CUSTOM_RESOURCE_DEFINITION,
        ]
    )
    return tuple(
        Watched(
            kind=kind,
            status_fields=() if kind in own else _status_fields(kind, contracts),
            label_selector=(
                _selector(kind, contracts) if kind in owned and kind not in own | referred else ""
            ),
            keep_meta=kind in referred | referring,
        )
        for kind in kinds
    )


def _status_fields(kind: Kind, contracts: tuple[Contract, ...]) -> tuple[str, ...]:
    fields = (
        field
        for contract in contracts
        for child in contract.owns
        if child.kind == kind
        for field in child.status_fields
    )
    return tuple(dict.fromkeys(fields))


def _selector(kind: Kind, contracts: tuple[Contract, ...]) -> str:
    """Return `label in (values)`; nothing where the owners identify by different labels."""
    identities = [
        contract.identity
        for contract in contracts
        if any(child.kind == kind for child in contract.owns)
    ]
    labels = {label for label, _ in identities}
    if len(labels) != 1:
        return ""
    values = ",".join(sorted({value for _, value in identities}))
    return f"{labels.pop()} in ({values})"
