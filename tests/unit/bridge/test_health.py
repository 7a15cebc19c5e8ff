from __future__ import annotations

import asyncio
import time

import aiohttp
import pytest

from bridge import telemetry
from bridge.health import serve_health
from bridge.settings import Settings, SettingsError
from tests.stack.eventually import eventually

ANYWHERE = Settings(http="127.0.0.1:0")


async def get(address: tuple[str, int] | None, path: str) -> tuple[int, str]:
    assert address is not None
    url = f"http://127.0.0.1:{address[1]}{path}"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return answer.status, await answer.text()


async def test_readiness_names_each_check_that_fails_and_what_it_says() -> None:
    wrong: dict[str, str] = {}
    checks = {"nats": lambda: wrong.get("nats"), "watches": lambda: wrong.get("watches")}
    async with serve_health(ANYWHERE, checks) as address:
        assert await get(address, "/readyz") == (200, "ok\n")
        wrong["nats"] = "not connected"
        assert await get(address, "/readyz") == (503, "nats: not connected\n")
        wrong["watches"] = "Service silent for 150 s"
        status, text = await get(address, "/readyz")
        assert (status, text.splitlines()) == (
            503,
            ["nats: not connected", "watches: Service silent for 150 s"],
        )
        assert await get(address, "/healthz") == (200, "ok\n")


async def test_an_event_loop_that_stood_still_tells_the_next_probe_and_is_healthy_again() -> None:
    async with serve_health(ANYWHERE, {}, tick_seconds=0.05, stuck_seconds=0.3) as address:

        async def is_healthy() -> bool:  # for a busy machine makes the loop late by itself
            return await get(address, "/healthz") == (200, "ok\n")

        await eventually(is_healthy)
        time.sleep(0.5)  # noqa: ASYNC251 - a loop that stands still is the point
        status, text = await get(address, "/healthz")
        assert status == 503
        assert text.startswith("the event loop stood for")
        await eventually(is_healthy)


async def test_metrics_are_served_as_prometheus_reads_them() -> None:
    telemetry.set_up("test", Settings())
    try:
        telemetry.METRICS.published("engine", "dev.weir.changed", "stored")
        async with serve_health(ANYWHERE, {}) as address:
            status, text = await get(address, "/metrics")
    finally:
        telemetry.shut_down()
    assert status == 200
    labels = 'kind="engine",result="stored",type="dev.weir.changed"'
    assert f"weir_published_total{{{labels}}} 1.0" in text
    assert "process_resident_memory_bytes" in text


async def test_off_serves_nothing() -> None:
    async with serve_health(Settings(http="off"), {}) as address:
        assert address is None


@pytest.mark.parametrize("http", ["8080", "localhost", "localhost:", ":http", ":70000", ""])
async def test_an_address_that_is_none_is_refused_with_the_remedy(http: str) -> None:
    with pytest.raises(SettingsError, match=r"--http \(WEIR_HTTP\)=.*must be `host:port`"):
        async with serve_health(Settings(http=http), {}):
            pass


async def test_an_address_that_is_taken_is_refused_with_the_remedy() -> None:
    async with serve_health(ANYWHERE, {}) as address:
        assert address is not None
        taken = Settings(http=f"127.0.0.1:{address[1]}")
        with pytest.raises(SettingsError, match="give another address, port 0"):
            async with serve_health(taken, {}):
                pass


async def test_an_error_inside_comes_out_as_it_is_and_the_port_is_free_again() -> None:
    async def fail_inside() -> int:
        async with serve_health(ANYWHERE, {}) as address:
            assert address is not None
            ports.append(address[1])
            raise LookupError

    ports: list[int] = []
    with pytest.raises(LookupError):
        await fail_inside()
    async with serve_health(Settings(http=f"127.0.0.1:{ports[0]}"), {}):
        await asyncio.sleep(0)
