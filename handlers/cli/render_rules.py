"""
What the rules of a CRD (CEL) say of a resource: evaluated where they stand, without an API server.

As the server does it: on a resource that its schema allows, with the schema's defaults filled in.
What a cluster gave (it holds a uid) is judged as an edit that changes nothing, so that it may keep
what a new resource may not have.

Source: Kubernetes documentation, "CRD validation rules" and "CEL in Kubernetes" (quantities).
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import cache
from typing import Any, Final

from cel_expr_python import cel

from crds.fields import RULES
from crds.kubernetes import Manifest
from handlers.cli.render_files import PathTo

_INTEGER_MAX: Final = 2**63 - 1
"""CEL has no larger ones; the server reads those as floating-point numbers."""
_QUANTITY: Final = re.compile(
    r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))([eE][+-]?[0-9]{1,3}|[KMGTPE]i|[numkMGTPE])?"
)
_SUFFIXES: Final = {
    "": Decimal(1),
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate("num", start=-3)},
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate("kMGTPE", start=1)},
    **{f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)},
}


def broken_rules(resource: Manifest, schema: Manifest) -> Iterator[tuple[PathTo, str]]:
    """Yield the field and the words of every rule that a resource breaks."""
    filled = _filled(resource, schema)
    yield from _broken(filled, schema, (), is_stored=bool(filled["metadata"].get("uid")))


def _broken(
    value: Any, schema: Manifest, path: PathTo, *, is_stored: bool
) -> Iterator[tuple[PathTo, str]]:
    for rule in schema.get(RULES, ()):
        seen = {"self": value, "oldSelf": [value] if is_stored else []}
        if _evaluated(rule["rule"], seen) is not True:
            says = rule.get("messageExpression")
            said = _evaluated(says, seen) if says else None
            yield path, said if isinstance(said, str) else rule["message"]
    if isinstance(value, dict):
        fields = schema.get("properties", {})
        rest = schema.get("additionalProperties", {})
        for name, item in value.items():
            yield from _broken(item, fields.get(name, rest), (*path, name), is_stored=is_stored)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            below = schema.get("items", {})
            yield from _broken(item, below, (*path, index), is_stored=is_stored)


def _evaluated(expression: str, seen: dict[str, Any]) -> Any:
    """Return what an expression gives; None where it cannot be evaluated on this value."""
    result = _compiled(expression).eval(data=seen)
    return None if result.type() == cel.Type.ERROR else result.plain_value()


def _filled(value: Any, schema: Manifest) -> Any:
    """Return a value with the defaults of its schema, and with numbers and text that CEL has."""
    if isinstance(value, list):
        return [_filled(item, schema.get("items", {})) for item in value]
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, int) and abs(value) > _INTEGER_MAX:
        return float(value)
    if not isinstance(value, dict):
        return value
    fields = schema.get("properties", {})
    rest = schema.get("additionalProperties", {})
    defaults = {
        name: copy.deepcopy(field["default"])
        for name, field in fields.items()
        if "default" in field
    }
    return {
        _filled(name, {}): _filled(item, fields.get(name, rest))
        for name, item in {**defaults, **value}.items()
    }


@cache
def _compiled(expression: str) -> cel.Expression:
    return _environment().compile(expression)


@cache
def _environment() -> cel.Env:
    """Return CEL with those of Kubernetes' functions that our rules use; a list is an optional."""
    text, of_old = cel.Type.STRING, cel.Type.LIST
    return cel.NewEnv(
        variables={"self": cel.Type.DYN, "oldSelf": of_old},
        functions=[
            _function("hasValue", bool, cel.Type.BOOL, of_old, is_member=True),
            _function("value", lambda old: old[0], cel.Type.DYN, of_old, is_member=True),
            _function("isQuantity", lambda t: _amount(t) is not None, cel.Type.BOOL, text),
            _function("quantity", str, text, text),
            _function("compareTo", _compared, cel.Type.INT, text, text, is_member=True),
        ],
    )


def _function(
    name: str,
    does: Callable[..., Any],
    gives: cel.Type,
    *takes: cel.Type,
    is_member: bool = False,
) -> cel.FunctionDecl:
    return cel.FunctionDecl(name, [cel.Overload(name, gives, takes, is_member, does)])


def _compared(left: str, right: str) -> int:
    """Return -1, 0 or 1; raise TypeError for what is no quantity."""
    difference: Any = _amount(left) - _amount(right)  # type: ignore[operator]
    return int(difference > 0) - int(difference < 0)


def _amount(text: str) -> Decimal | None:
    """Return a quantity as a number, None for what Kubernetes does not take for one."""
    matched = _QUANTITY.fullmatch(text)
    if matched is None:
        return None
    number, suffix = matched[1], matched[2] or ""
    if suffix in _SUFFIXES:
        return Decimal(number) * _SUFFIXES[suffix]
    return Decimal(f"{number}{suffix}")
