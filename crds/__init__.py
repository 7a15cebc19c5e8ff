"""THE CONTRACT: what users write, and what the bridge watches."""

from __future__ import annotations

from crds import inferadeployment
from crds.contract import Contract

KINDS: tuple[Contract, ...] = (inferadeployment.CONTRACT,)
"""Our kinds, one line each."""

BY_QUEUE_NAME: dict[str, Contract] = {contract.kind.queue_name: contract for contract in KINDS}
if len(BY_QUEUE_NAME) != len(KINDS):
    raise RuntimeError("two kinds share one name in lower case, and so one place in the queue")


def contract_of(word: str) -> Contract | None:
    """Return the kind that a user means: its name, plural or short name, group appended or not."""
    wanted, _, group = word.lower().partition(".")
    for contract in KINDS:
        kind = contract.kind
        words = {kind.kind.lower(), kind.plural, *kind.short_names}
        if wanted in words and group in {"", kind.group, f"{kind.version}.{kind.group}"}:
            return contract
    return None
