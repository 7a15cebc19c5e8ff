"""Waiting for what a system reaches by itself, with the last thing seen in the failure."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar, cast, overload

import pytest

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
    deadline = time.monotonic() + within_seconds
    while True:
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
            pytest.fail(f"{what}: not within {within_seconds:g} s; last seen: {seen!r}")
        await asyncio.sleep(every_seconds)
