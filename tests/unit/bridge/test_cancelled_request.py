from __future__ import annotations

import asyncio
from typing import cast

import pytest
from nats.aio.client import Client
from nats.errors import NoRespondersError

from bridge.jetstream import Bus
from bridge.settings import Settings
from tests.stack.eventually import PATIENCE_SECONDS


class FakeClient:
    """Answers when told to, and waits as nats-py does; a real one cannot be timed so finely."""

    is_connected = True

    def __init__(self) -> None:
        self.answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def request(self, *_: object, **__: object) -> str:
        """Return the answer that the test gives."""
        return await asyncio.wait_for(self.answer, PATIENCE_SECONDS)


@pytest.mark.parametrize("answer", ["fine", NoRespondersError()])
async def test_a_cancellation_that_comes_together_with_the_answer_is_not_lost(
    answer: str | Exception,
) -> None:
    client = FakeClient()
    bus = Bus(cast("Client", client), Settings())
    asking = asyncio.create_task(bus.request("x"))
    await asyncio.sleep(0.01)
    if isinstance(answer, str):
        client.answer.set_result(answer)
    else:
        client.answer.set_exception(answer)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking


async def test_a_request_of_a_task_that_is_being_cancelled_is_answered() -> None:
    """Cleaning up needs the queue too."""
    client = FakeClient()
    bus = Bus(cast("Client", client), Settings())
    answers: list[object] = []

    async def clean_up() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            client.answer.set_result("fine")
            answers.append(await bus.request("x"))

    cleaning = asyncio.create_task(clean_up())
    await asyncio.sleep(0.01)
    cleaning.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cleaning
    assert answers == ["fine"]
