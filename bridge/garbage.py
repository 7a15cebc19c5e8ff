"""How often Python looks for garbage: seldom, in processes that make little of it."""

from __future__ import annotations

import gc
from typing import Final

YOUNG_MAX: Final = 20_000
"""
Objects made and not yet gone before the youngest are looked through; Python's own is 700.

A reconcile makes some thousands, nearly all of which go by reference count: at 700 the collector
took 6 % of the CPU of births (py-spy).
"""


def collect_seldom() -> None:
    """What was imported so far is never looked through again, and the rest not often."""
    gc.freeze()
    gc.set_threshold(YOUNG_MAX)
