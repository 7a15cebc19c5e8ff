from __future__ import annotations

import asyncio

from bridge.events import ObjectKey
from bridge.resync import Pace, due_times

KEYS = [ObjectKey("engine", "ns", f"e-{n}") for n in range(1_000)]


def test_every_key_is_due_once_inside_the_interval_in_order() -> None:
    due = due_times(KEYS, epoch=3, interval_seconds=600.0)
    assert sorted(key for _, key in due) == sorted(KEYS)
    moments = [moment for moment, _ in due]
    assert moments == sorted(moments)
    assert min(moments) >= 1_800.0
    assert max(moments) < 2_400.0


def test_the_keys_are_spread_over_the_interval() -> None:
    tenths = [int(moment // 60) for moment, _ in due_times(KEYS, epoch=0, interval_seconds=600.0)]
    assert all(50 < tenths.count(tenth) < 200 for tenth in range(10))


def test_a_key_has_the_same_place_in_every_epoch_and_whatever_else_there_is() -> None:
    alone = due_times(KEYS[:1], epoch=0, interval_seconds=600.0)[0][0]
    among = {key: moment for moment, key in due_times(KEYS, epoch=7, interval_seconds=600.0)}
    assert abs(among[KEYS[0]] - 7 * 600.0 - alone) < 1e-6


async def test_no_more_than_the_rate_pass_however_many_ask() -> None:
    loop = asyncio.get_running_loop()
    pace = Pace(200.0)
    begun = loop.time()
    await asyncio.gather(*(pace.next() for _ in range(41)))
    assert loop.time() - begun >= 40 / 200 - 0.03


async def test_a_pace_saves_nothing_up() -> None:
    loop = asyncio.get_running_loop()
    pace = Pace(100.0)
    await pace.next()
    await asyncio.sleep(0.1)
    begun = loop.time()
    for _ in range(6):
        await pace.next()
    assert loop.time() - begun >= 5 / 100 - 0.03
