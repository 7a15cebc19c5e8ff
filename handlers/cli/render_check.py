"""
What a resource must be before it is rendered: what our CRD says, told with field and remedy.

Pure. The API server checks the same schema and the same rules; this says it without one, and says
what was meant.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Final

from msgspec import Struct

from crds.contract import Contract
from crds.fields import LABEL_KEY, LABEL_VALUE, RULES, rule
from crds.kubernetes import Manifest
from crds.schema import structural
from handlers.cli.render_files import PathTo
from handlers.cli.render_rules import broken_rules

_KEEPS_UNKNOWN: Final = "x-kubernetes-preserve-unknown-fields"
_INT_OR_STRING: Final = "x-kubernetes-int-or-string"
_LIST_TYPE: Final = "x-kubernetes-list-type"
_SHOWN_MAX: Final = 60
"""Characters of a value in a message."""
_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][-A-Za-z0-9_]*")
_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NAME: Final = rf"^{_LABEL}(\.{_LABEL})*$"
_NAMESPACE: Final = f"^{_LABEL}$"
_SAID: Final = {
    _NAME: "use a-z, 0-9, - and ., and begin and end with a letter or digit, also around a .",
    _NAMESPACE: "use a-z, 0-9 and -, and begin and end with a letter or digit",
    LABEL_VALUE: "use letters, digits, -, _ and ., and begin and end with a letter or digit",
}
"""What a pattern asks for, in words."""
_LENGTHS: Final = "^([^/]{1,253}/)?[^/]{1,63}$"


def _keys(pattern: str) -> list[Manifest]:
    """Return the rule that the keys of labels and annotations follow."""
    return [
        rule(
            f"self.all(key, key.matches('{pattern}') && key.matches('{_LENGTHS}'))",
            "holds a key that Kubernetes does not allow: use [domain/]name, the name with at most "
            "63 characters",
        )
    ]


_METADATA: Final[Manifest] = {
    "type": "object",
    _KEEPS_UNKNOWN: True,
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "pattern": _NAME, "minLength": 1, "maxLength": 253},
        "namespace": {"type": "string", "pattern": _NAMESPACE, "maxLength": 63},
        "uid": {"type": "string"},
        "labels": {
            "type": "object",
            "additionalProperties": {"type": "string", "pattern": LABEL_VALUE, "maxLength": 63},
            RULES: _keys(LABEL_KEY),
        },
        "annotations": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            RULES: _keys(f"(?i){LABEL_KEY}"),
        },
    },
}
"""The part of `metadata` that anybody writes."""


class Fault(Struct, frozen=True):
    """What is wrong with one field."""

    path: PathTo
    message: str

    def __str__(self) -> str:
        return f"{shown_path(self.path)}: {self.message}" if self.path else self.message


def faults(resource: Any, contract: Contract) -> list[Fault]:
    """
    Return everything in which a resource differs from what its CRD allows.

    Its rules are asked of what has the right form, as the API server does it.
    """
    wished, schema = without_status(resource), schema_of(contract)
    found = list(_faults(wished, schema, ()))
    if found:
        return found
    return [Fault(*broken) for broken in broken_rules(as_stored(wished, schema), schema)]


@cache
def schema_of(contract: Contract) -> Manifest:
    """Return what a user may write of a kind: its CRD's schema and metadata, without status."""
    schema = structural(contract.resource)
    schema["properties"]["metadata"] = _METADATA
    schema["required"] = [*schema["required"], "metadata"]
    del schema["properties"]["status"]
    return schema


def without_status(resource: Any) -> Any:
    """Return what is wished for: a status in a file is the past of some other moment."""
    if not isinstance(resource, dict):
        return resource
    return {key: value for key, value in resource.items() if key != "status"}


def as_stored(value: Any, schema: Manifest) -> Any:
    """
    Return a value as the API server keeps it: a field that is null, and may not be, is left out.

    Source: Kubernetes documentation, "Defaulting and Nullable".
    """
    if isinstance(value, list) and "items" in schema:
        return [as_stored(item, schema["items"]) for item in value]
    if not isinstance(value, dict):
        return value
    fields = schema.get("properties", {})
    rest = schema.get("additionalProperties", {})
    return {
        key: as_stored(item, fields.get(key, rest))
        for key, item in value.items()
        if item is not None or key not in fields
    }


def shown_path(path: PathTo) -> str:
    """Return a path as people write it: `spec.services.worker.env[0].name`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _PLAIN_KEY.fullmatch(part):
            text += f".{part}" if text else part
        else:
            text += f"[{json.dumps(part)}]"
    return text


def _faults(value: Any, schema: Manifest, path: PathTo) -> Iterator[Fault]:
    if not _has_type(value, schema):
        yield Fault(path, _wrong_type(value, schema))
        return
    for message in _out_of_bounds(value, schema):
        yield Fault(path, message)
    if isinstance(value, dict):
        yield from _faults_of_object(value, schema, path)
    elif isinstance(value, list) and "items" in schema:
        for index, item in enumerate(value):
            yield from _faults(item, schema["items"], (*path, index))


def _faults_of_object(value: dict[str, Any], schema: Manifest, path: PathTo) -> Iterator[Fault]:
    fields: Mapping[str, Manifest] = schema.get("properties", {})
    rest = schema.get("additionalProperties")
    for name in schema.get("required", ()):
        if value.get(name) is None:
            yield Fault((*path, name), f"is missing: {_wanted(fields.get(name, {}))}")
    for name, item in value.items():
        if name in fields:
            if item is not None:
                yield from _faults(item, fields[name], (*path, name))
        elif rest is not None:
            yield from _faults(item, rest, (*path, name))
        elif fields and not schema.get(_KEEPS_UNKNOWN):
            yield Fault((*path, name), _unknown(name, list(fields)))


def _has_type(value: Any, schema: Manifest) -> bool:
    if schema.get(_INT_OR_STRING):
        return isinstance(value, str | int) and not isinstance(value, bool)
    wanted = schema.get("type")
    return wanted is None or _TYPES[wanted](value)


_TYPES: Final[Mapping[str, Callable[[Any], bool]]] = {
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


def _wrong_type(value: Any, schema: Manifest) -> str:
    said = "is empty" if value is None else f"{_shown(value)} is {_named(value)}"
    wanted = schema.get("type")
    if wanted == "string" and isinstance(value, int | float):
        return f"{said}, and must be text: put it in quotes"
    if wanted in ("integer", "number", "boolean") and isinstance(value, str):
        return f"{said}, and must be {_WANTED[wanted]}: write one, without quotes"
    return f"{said}, and must be {_WANTED.get(str(wanted), 'a whole number or text')}"


_WANTED: Final = {
    "string": "text",
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "array": "a list",
    "object": "an object with fields",
}


def _named(value: Any) -> str:
    match value:
        case bool():
            return "a boolean"
        case str():
            return "text"
        case int() | float():
            return "a number"
        case list():
            return "a list"
        case _:
            return "an object"


def _out_of_bounds(value: Any, schema: Manifest) -> Iterator[str]:
    """Yield what a value of the right type is too much, too little, or not one of."""
    allowed = schema.get("enum")
    if allowed and value not in allowed:
        yield f"{_shown(value)} is not supported: use {_either(allowed)}{_meant(value, allowed)}"
    pattern = schema.get("pattern")
    if pattern and isinstance(value, str) and not re.search(pattern, value):
        yield f"{_shown(value)} is not allowed: {_SAID.get(pattern, f'it must match {pattern}')}"
    yield from _limits(value, schema, ("minimum", "maximum"), "", int | float)
    yield from _limits(value, schema, ("minLength", "maxLength"), "characters", str)
    yield from _limits(value, schema, ("minItems", "maxItems"), "entries", list)
    yield from _limits(value, schema, ("minProperties", "maxProperties"), "entries", dict)
    if schema.get(_LIST_TYPE) == "set" and len({str(item) for item in value}) < len(value):
        yield "names something twice: remove one of them"


_BOUNDS: Final = {"int32 minimum": -(1 << 31), "int32 maximum": (1 << 31) - 1}


def _limits(
    value: Any, schema: Manifest, bounds: tuple[str, str], unit: str, kind: Any
) -> Iterator[str]:
    if not isinstance(value, kind) or isinstance(value, bool):
        return
    forms = schema.get("format")
    least, most = (schema.get(bound, _BOUNDS.get(f"{forms} {bound}")) for bound in bounds)
    amount = len(value) if unit else value
    said = f"has {amount} {unit}" if unit else f"is {amount}"
    if least is not None and amount < least:
        yield f"{said}, and must {'have' if unit else 'be'} at least {least}"
    if most is not None and amount > most:
        yield f"{said}, and must {'have' if unit else 'be'} at most {most}"


def _wanted(schema: Manifest) -> str:
    """Return how to fill in a field that is required."""
    if schema.get("enum"):
        return f"set it to {_either(schema['enum'])}"
    about = str(schema.get("description", "")).partition(". ")[0].rstrip(".")
    return f"add it ({about})" if about else "add it"


def _unknown(name: str, known: list[str]) -> str:
    meant = _meant(name, known)
    if meant:
        return f"no such field{meant}"
    return f"no such field: known are {', '.join(sorted(known))}"


def _meant(word: Any, known: list[str]) -> str:
    """Return a guess at what was meant, empty where nothing is close."""
    lower = {item.lower(): item for item in known}
    close = difflib.get_close_matches(str(word).lower(), lower, n=1)
    return f"; did you mean {lower[close[0]]}?" if close else ""


def _either(words: list[Any]) -> str:
    *others, last = map(str, words)
    return f"{', '.join(others)} or {last}" if others else last


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}..."
