"""Which part of an object is in a set of fields, as `managedFields` holds them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from handlers.fields import FieldSet, decoded, item_of


def owned_part(value: Any, mine: FieldSet, others: Sequence[FieldSet] = ()) -> Any:
    """
    Return the part of a value that is in a set of fields.

    A leaf of the set is the whole of what is atomic; of what others own parts of, the rest. What a
    list holds more than once is left out: no apply can name it.
    """
    is_leaf = all(key == "." for key in mine)
    if isinstance(value, dict):
        theirs = {key for other in others for key in other}
        if is_leaf:
            return {key: item for key, item in value.items() if f"f:{key}" not in theirs}
        parts = {
            key: owned_part(
                item,
                mine[f"f:{key}"],
                [other[f"f:{key}"] for other in others if f"f:{key}" in other],
            )
            for key, item in value.items()
            if f"f:{key}" in mine
        }
        return {key: part for key, part in parts.items() if part != [] or value[key] == []}
    if isinstance(value, list) and not is_leaf:
        return [*_owned_items(value, mine, others)]
    return value


def repeated(value: Any, mine: FieldSet) -> FieldSet:
    """Return the part of a set that names what a list of the value holds more than once."""
    if isinstance(value, dict):
        deeper = {
            f"f:{key}": repeated(item, mine[f"f:{key}"])
            for key, item in value.items()
            if f"f:{key}" in mine
        }
        return {name: node for name, node in deeper.items() if node}
    if not isinstance(value, list):
        return {}
    twice = _repeated_names(value, mine)
    found: FieldSet = {name: mine[name] for name in twice}
    for item in value:
        name, node = item_of(item, mine)
        if node is not None and name not in twice and (part := repeated(item, node)):
            found[name] = part
    return found


def less(mine: FieldSet, gone: FieldSet) -> FieldSet:
    """Return a set without a part of it; a list of which no item is left goes as a whole."""
    rest: FieldSet = {}
    for name, node in mine.items():
        if name not in gone:
            rest[name] = node
        elif gone[name] != node:
            left = less(node, gone[name])
            if not _is_list(gone[name]) or any(key != "." for key in left):
                rest[name] = left
    return rest


def _is_list(node: Mapping[str, Any]) -> bool:
    return any(key.startswith("k:") for key in node)


def _repeated_names(items: list[Any], mine: FieldSet) -> set[str]:
    names = Counter(name for item in items if (name := item_of(item, mine)[0]))
    return {name for name, times in names.items() if times > 1}


def _owned_items(items: list[Any], mine: FieldSet, others: Sequence[FieldSet]) -> Iterator[Any]:
    twice = _repeated_names(items, mine)
    for item in items:
        name, node = item_of(item, mine)
        if node is None or name in twice:
            continue
        part = owned_part(item, node, [other[name] for other in others if name in other])
        # What tells an item from its siblings is part of it, whoever owns that.
        yield {**decoded(name[2:]), **part} if name.startswith("k:") else part
