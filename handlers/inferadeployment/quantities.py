"""
Quantities of a pod as Kubernetes itself writes them: `1` and not the number 1, `1` and not `1000m`.

Where the API server knows a field as a quantity (in a Deployment) it rewrites it so. In a template
that sits in somebody's CRD it does not, and whether that one's webhook does is its own affair: what
differs in letters alone would then be another template, and pods restart over that.
Source: k8s.io/apimachinery, pkg/api/resource, `Quantity.CanonicalizeBytes`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Context, Decimal, localcontext
from typing import Any

from crds.kubernetes import Manifest

_QUANTITY = re.compile(
    r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:([KMGTPE]i)|([eE][+-]?[0-9]{1,2})|(.?))"
)
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL = {-9: "n", -6: "u", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E"}
_EXPONENTS = {suffix: exponent for exponent, suffix in _DECIMAL.items()}
_KIBI = 1024
_LENGTH_MAX = 64
"""Of a text that is read as a number: none that is meant is as long."""
_EXACT = Context(prec=200)
"""Enough digits for whatever has that length."""
_CONTAINER_LISTS = ("initContainers", "containers", "ephemeralContainers")


def canonical(value: Any) -> Any:
    """Return a quantity in its canonical form; anything else, too fine a one included, as it is."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return value
    text = str(value).strip()
    parts = _QUANTITY.fullmatch(text) if len(text) <= _LENGTH_MAX else None
    if parts is None:
        return value
    with localcontext(_EXACT):
        return _canonical(*parts.groups()) or value


def with_canonical(pod_spec: Manifest) -> Manifest:
    """Return a PodSpec whose quantities are canonical; everything else is as it was."""
    built = _at(pod_spec, ("overhead",), _values)
    built = _at(built, ("resources",), _resources)
    for field in _CONTAINER_LISTS:
        built = _at(built, (field,), _each(_container))
    whole: Manifest = _at(built, ("volumes",), _each(_volume))
    return whole


def _canonical(number: str, binary: str | None, exponent: str | None, decimal: str | None) -> str:
    """Return the canonical form of a number and what follows it, empty where there is none."""
    amount = Decimal(number)
    if binary:
        amount *= _KIBI ** _BINARY.index(binary)
        # Go leaves binary what is a whole number of at least 1Ki.
        if abs(amount) >= _KIBI and amount == amount.to_integral_value():
            return _in_binary(int(amount))
    elif exponent:
        amount = amount.scaleb(int(exponent[1:]))
    elif decimal in _EXPONENTS:
        amount = amount.scaleb(_EXPONENTS[decimal])
    else:
        return ""
    return _in_decimal(amount, is_exponent=bool(exponent))


Change = Callable[[Any], Any]


def _container(item: Any) -> Any:
    return _at(_at(item, ("resources",), _resources), ("env",), _each(_variable))


def _variable(item: Any) -> Any:
    return _at(item, ("valueFrom", "resourceFieldRef", "divisor"), canonical)


def _volume(item: Any) -> Any:
    built = _at(item, ("emptyDir", "sizeLimit"), canonical)
    built = _at(built, ("ephemeral", "volumeClaimTemplate", "spec", "resources"), _resources)
    built = _at(built, ("downwardAPI", "items"), _each(_downward))
    return _at(built, ("projected", "sources"), _each(_source))


def _source(item: Any) -> Any:
    return _at(item, ("downwardAPI", "items"), _each(_downward))


def _downward(item: Any) -> Any:
    return _at(item, ("resourceFieldRef", "divisor"), canonical)


def _resources(item: Any) -> Any:
    return _at(_at(item, ("requests",), _values), ("limits",), _values)


def _values(item: Any) -> Any:
    return {k: canonical(v) for k, v in item.items()} if isinstance(item, Mapping) else item


def _each(change: Change) -> Change:
    return lambda items: [change(item) for item in items] if isinstance(items, list) else items


def _at(holder: Any, path: tuple[str, ...], change: Change) -> Any:
    """Return the holder with what stands at a path changed; as it is where nothing stands there."""
    head, *rest = path
    if not isinstance(holder, Mapping) or head not in holder:
        return holder
    held = holder[head]
    return {**holder, head: _at(held, tuple(rest), change) if rest else change(held)}


def _in_binary(amount: int) -> str:
    power = 0
    while amount and amount % _KIBI == 0 and power < len(_BINARY) - 1:
        amount //= _KIBI
        power += 1
    return f"{amount}{_BINARY[power]}"


def _in_decimal(amount: Decimal, *, is_exponent: bool) -> str:
    """Return an amount as an integer with a suffix for a power of 1000; empty where none fits."""
    if amount == 0:
        return "0"
    sign, digits, exponent = amount.normalize().as_tuple()
    if not isinstance(exponent, int):
        return ""
    mantissa = int("".join(map(str, digits)))
    mantissa *= 10 ** (exponent % 3)
    exponent -= exponent % 3
    if exponent not in _DECIMAL:
        return ""
    suffix = (f"e{exponent}" if exponent else "") if is_exponent else _DECIMAL[exponent]
    return f"{'-' if sign else ''}{mantissa}{suffix}"
