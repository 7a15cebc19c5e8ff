"""Which part of an object is in a set of fields, as `managedFields` holds them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from handlers.fields import FieldSet, decoded, item_of


def owned_part(value: Any, mine: FieldSet, others: Sequence[FieldSet] = ()) -> Any:
    """
    Return the part of a value that is in a set of fields.

    A leaf of the set is the whole of what is atomic; of what others own parts of, the rest.
    """
    is_leaf = all(key == "." for key in mine)
    if isinstance(value, dict):
        theirs = {key for other in others for key in other}
        if is_leaf:
            return {key: item for key, item in value.items() if f"f:{key}" not in theirs}
        return {
            key: owned_part(
                item,
                mine[f"f:{key}"],
                [other[f"f:{key}"] for other in others if f"f:{key}" in other],
            )
            for key, item in value.items()
            if f"f:{key}" in mine
        }
    if isinstance(value, list) and not is_leaf:
        return [*_owned_items(value, mine, others)]
    return value


def _owned_items(items: list[Any], mine: FieldSet, others: Sequence[FieldSet]) -> Iterator[Any]:
    for item in items:
        name, node = item_of(item, mine)
        if node is None:
            continue
        part = owned_part(item, node, [other[name] for other in others if name in other])
        # What tells an item from its siblings is part of it, whoever owns that.
        yield {**decoded(name[2:]), **part} if name.startswith("k:") else part
