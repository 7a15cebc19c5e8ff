"""Kubernetes quantities by meaning: `1000m` is `1`, and so is the number 1."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

_QUANTITY = re.compile(r"([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)([KMGTPE]i|[numkMGTPE])?")
_SUFFIXES = {
    "": Decimal(1),
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate("num", start=-3)},
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate("kMGTPE", start=1)},
    **{f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)},
}


def same_quantity(left: Any, right: Any) -> bool:
    """Say whether two values are the same quantity; False where one of them is none."""
    amounts = _amount(left), _amount(right)
    return None not in amounts and amounts[0] == amounts[1]


def _amount(value: Any) -> Decimal | None:
    if isinstance(value, bool):
        return None
    matched = _QUANTITY.fullmatch(str(value))
    return Decimal(matched[1]) * _SUFFIXES[matched[2] or ""] if matched else None
