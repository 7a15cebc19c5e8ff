"""Kubernetes quantities by meaning: `1000m` is `1`, and so is the number 1. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,2})?)([KMGTPE]i|[numkMGTPE])?")
"""Source: Kubernetes, `apimachinery/pkg/api/resource/quantity.go`."""
_FACTORS: Mapping[str, Decimal] = {
    "": Decimal(1),
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate("num", start=-3)},
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate("kMGTPE", start=1)},
    **{f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)},
}


def same_value(left: Any, right: Any) -> bool:
    """Return whether two values are equal, or the same quantity in two spellings."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if left == right:
        return True
    amounts = _amount(left), _amount(right)
    return None not in amounts and amounts[0] == amounts[1]


def _amount(value: Any) -> Decimal | None:
    if not isinstance(value, int | float | str):
        return None
    matched = _QUANTITY.fullmatch(str(value))
    return Decimal(matched[1]) * _FACTORS[matched[2] or ""] if matched else None
