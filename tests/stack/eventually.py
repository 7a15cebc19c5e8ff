"""
Waiting for what a system reaches by itself, with the last thing seen in the failure.

A bound is for what never comes, and costs nothing when it comes: none is shorter than
PATIENCE_SECONDS. A machine that is slower than most is given more of every bound by
WEIR_TEST_PATIENCE, a factor.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar, cast, overload

import pytest

PATIENCE = float(os.environ.get("WEIR_TEST_PATIENCE", "1"))
"""What every bound is multiplied with."""
PATIENCE_SECONDS = 20.0 * PATIENCE
"""How long something may take that takes no time on a machine with nothing else to do."""

LONG_LOOK_SECONDS = 1.0
REST_PER_LOOK = 3
"""After a long look, so many times as long is left to the machine."""

T = TypeVar("T")


@overload
async def eventually(
    predicate: Callable[[], Awaitable[T]],
    within_seconds: float = ...,
    every_seconds: float = ...,
) -> T: ...


@overload
async def eventually(
    predicate: Callable[[], T],
    within_seconds: float = ...,
    every_seconds: float = ...,
) -> T: ...


async def eventually(
    predicate: Callable[[], Awaitable[T]] | Callable[[], T],
    within_seconds: float = 20.0,
    every_seconds: float = 0.05,
) -> T:
    """
    Return the predicate's first true value; fail with its last value after so long.

    The predicate is a function or a coroutine function. An assertion that fails inside it counts
    as "not yet", and its text stands in the failure.
    """
    patient_seconds = within_seconds * PATIENCE
    deadline = time.monotonic() + patient_seconds
    while True:
        begun = time.monotonic()
        seen: object
        try:
            answer = predicate()
            value = await answer if inspect.isawaitable(answer) else answer
        except AssertionError as exc:
            seen = exc
        else:
            if value:
                return cast("T", value)
            seen = value
        if time.monotonic() > deadline:
            what = getattr(predicate, "__name__", repr(predicate))
            pytest.fail(f"{what}: not within {patient_seconds:g} s; last seen: {seen!r}")
        # A look at thousands of objects must not be what keeps the machine from what is awaited.
        looked = time.monotonic()
        is_long = looked - begun > LONG_LOOK_SECONDS
        rest_seconds = max(every_seconds, REST_PER_LOOK * (looked - begun) if is_long else 0.0)
        await asyncio.sleep(min(rest_seconds, max(every_seconds, deadline - looked)))


async def dwindles(
    left: Callable[[], Awaitable[Sequence[object]]],
    stuck_seconds: float = 30.0,
    every_seconds: float = 1.0,
) -> None:
    """
    Return once nothing is left; fail with what is when for so long there was never less.

    For work whose length depends on the machine: that it goes on is what can be asked of any.
    """
    patient_seconds = stuck_seconds * PATIENCE
    fewest, since = None, time.monotonic()
    while seen := await left():
        if fewest is None or len(seen) < fewest:
            fewest, since = len(seen), time.monotonic()
        if time.monotonic() > since + patient_seconds:
            shown = ", ".join(map(str, seen[:5]))
            pytest.fail(f"no progress for {patient_seconds:g} s; {len(seen)} are left: {shown}")
        await asyncio.sleep(every_seconds)
