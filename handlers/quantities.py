"""
Kubernetes quantities: what one amounts to, and how Kubernetes itself writes it. Pure.

Source: k8s.io/apimachinery, pkg/api/resource, `ParseQuantity` and `Quantity.CanonicalizeBytes`.
"""

from __future__ import annotations

import re
from decimal import Context, Decimal, localcontext
from typing import Any, NamedTuple

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


class _Quantity(NamedTuple):
    amount: Decimal
    is_binary: bool
    """Written with a power of 1024."""
    is_exponent: bool
    """Written with a power of ten in digits."""


def same_value(left: Any, right: Any) -> bool:
    """Return whether two values are equal, or the same quantity in two spellings."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if left == right:
        return True
    one, other = _read(left), _read(right)
    return one is not None and other is not None and one.amount == other.amount


def canonical(value: Any) -> Any:
    """Return a quantity in its canonical form; anything else, too fine a one included, as it is."""
    quantity = _read(value)
    if quantity is None:
        return value
    amount = quantity.amount
    with localcontext(_EXACT):
        # Go leaves binary what is a whole number of at least 1Ki.
        is_whole = abs(amount) >= _KIBI and amount == amount.to_integral_value()
        if quantity.is_binary and is_whole:
            return _in_binary(int(amount))
        return _in_decimal(amount, is_exponent=quantity.is_exponent) or value


def _read(value: Any) -> _Quantity | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    text = str(value).strip()
    parts = _QUANTITY.fullmatch(text) if len(text) <= _LENGTH_MAX else None
    if parts is None:
        return None
    number, binary, exponent, decimal = parts.groups()
    if not (binary or exponent) and decimal not in _EXPONENTS:
        return None
    with localcontext(_EXACT):
        amount = Decimal(number)
        if binary:
            amount *= _KIBI ** _BINARY.index(binary)
        else:
            amount = amount.scaleb(int(exponent[1:]) if exponent else _EXPONENTS[decimal])
    return _Quantity(amount, is_binary=bool(binary), is_exponent=bool(exponent))


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
