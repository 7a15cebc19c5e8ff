"""The TCP proxy, in front of a real nats-server and a real API server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import nats
import pytest
from nats.aio.client import Client

from handlers.cli.devstack.control_plane import ControlPlane
from handlers.cli.devstack.nats_server import NatsServer
from tests.faults.own_loop import in_thread
from tests.faults.tcp_proxy import TcpProxy
from tests.stack.eventually import PATIENCE_SECONDS, eventually


@pytest.fixture
async def proxy(nats_server: NatsServer) -> AsyncIterator[TcpProxy]:
    async with TcpProxy("127.0.0.1", nats_server.port) as proxy:
        yield proxy


@asynccontextmanager
async def _client(proxy: TcpProxy) -> AsyncIterator[tuple[Client, asyncio.Event]]:
    """Yield a client that never reconnects, and the event of its disconnection."""
    gone = asyncio.Event()

    async def on_gone() -> None:
        gone.set()

    async def on_error(_: Exception) -> None:
        """What goes wrong is the point; nats-py would print it."""

    client = await nats.connect(
        f"nats://127.0.0.1:{proxy.port}",
        allow_reconnect=False,
        connect_timeout=round(PATIENCE_SECONDS),
        disconnected_cb=on_gone,
        closed_cb=on_gone,
        error_cb=on_error,
    )
    try:
        yield client, gone
    finally:
        await client.close()


async def _closes(reader: asyncio.StreamReader) -> bool:
    try:
        return await reader.read() == b""
    except ConnectionResetError:
        return True


async def test_bytes_pass_both_ways_and_are_counted(proxy: TcpProxy) -> None:
    async with _client(proxy) as (client, _):
        inbox = await client.subscribe("echo")
        await client.publish("echo", b"x" * 500_000)
        message = await inbox.next_msg(PATIENCE_SECONDS)

    assert message.data == b"x" * 500_000
    assert proxy.counters.accepted == 1
    assert proxy.counters.bytes_up > 500_000
    assert proxy.counters.bytes_down > 500_000


async def test_cut_resets_open_connections_and_new_ones_are_served(proxy: TcpProxy) -> None:
    async with _client(proxy) as (_, gone):
        assert proxy.cut() == 1
        await asyncio.wait_for(gone.wait(), PATIENCE_SECONDS)
    async with _client(proxy) as (client, _):
        await client.flush(round(PATIENCE_SECONDS))

    assert proxy.counters.cut == 1


async def test_cut_is_seen_by_the_client_as_a_reset_at_once(proxy: TcpProxy) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    assert (await reader.readline()).startswith(b"INFO ")

    proxy.cut()

    with pytest.raises(ConnectionResetError):
        await asyncio.wait_for(reader.read(), PATIENCE_SECONDS)
    writer.close()


async def test_a_frozen_connection_passes_nothing_and_does_not_end(proxy: TcpProxy) -> None:
    async with _client(proxy) as (client, gone):
        inbox = await client.subscribe("echo")
        await client.flush(round(PATIENCE_SECONDS))
        proxy.freeze()
        await client.publish("echo", b"late")
        with pytest.raises(nats.errors.TimeoutError):
            await inbox.next_msg(0.5)
        assert not gone.is_set()

        proxy.thaw()
        assert (await inbox.next_msg(PATIENCE_SECONDS)).data == b"late"


async def test_a_frozen_proxy_accepts_and_holds(proxy: TcpProxy) -> None:
    proxy.freeze()
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reader.read(1), 0.5)
    proxy.thaw()
    assert (await asyncio.wait_for(reader.readline(), PATIENCE_SECONDS)).startswith(b"INFO ")
    writer.close()


async def test_no_fin_of_a_dead_server_gets_through_a_freeze(proxy: TcpProxy) -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    proxy.upstream = server.sockets[0].getsockname()
    proxy.freeze()
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reader.read(1), 0.5)

    proxy.thaw()
    assert await asyncio.wait_for(_closes(reader), PATIENCE_SECONDS)
    writer.close()
    server.close()


async def test_refused_connections_get_rst_while_open_ones_live_on(proxy: TcpProxy) -> None:
    async with _client(proxy) as (client, _):
        proxy.refuse()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", proxy.port)
        await client.flush(round(PATIENCE_SECONDS))

    proxy.allow()
    async with _client(proxy) as (client, _):
        await client.flush(round(PATIENCE_SECONDS))


async def test_a_dead_server_is_a_lost_connection(proxy: TcpProxy) -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    proxy.upstream = server.sockets[0].getsockname()
    server.close()
    await server.wait_closed()

    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    assert await asyncio.wait_for(_closes(reader), PATIENCE_SECONDS)
    writer.close()


async def test_delay_holds_every_byte_on_its_way(proxy: TcpProxy) -> None:
    async with _client(proxy) as (client, _):
        proxy.delay(0.2)
        began = time.monotonic()
        await client.flush(round(PATIENCE_SECONDS))
        assert time.monotonic() - began >= 0.4

        proxy.delay(0)

        async def takes_less_than_it_could() -> bool:
            began = time.monotonic()
            await client.flush(round(PATIENCE_SECONDS))
            return time.monotonic() - began < 0.4

        await eventually(takes_less_than_it_could)


async def test_a_proxy_in_a_thread_serves_and_obeys_this_one(nats_server: NatsServer) -> None:
    with in_thread(TcpProxy("127.0.0.1", nats_server.port)) as proxy:
        async with _client(proxy) as (client, gone):
            await client.flush(round(PATIENCE_SECONDS))
            proxy.refuse()
            assert proxy.cut() == 1
            await asyncio.wait_for(gone.wait(), PATIENCE_SECONDS)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", proxy.port)


async def test_the_port_is_kept_from_others_while_it_refuses(proxy: TcpProxy) -> None:
    """A client that dials a free ephemeral port can be given that very port, and meet itself."""
    proxy.refuse()
    for _ in range(2_000):
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", proxy.port)
    proxy.allow()
    async with _client(proxy) as (client, _):
        await client.flush(round(PATIENCE_SECONDS))


async def test_tls_of_the_api_server_goes_through(control_plane: ControlPlane) -> None:
    async with TcpProxy("127.0.0.1", control_plane.port) as proxy:
        through = control_plane.kubeconfig_through(f"https://127.0.0.1:{proxy.port}")
        kubectl = await asyncio.create_subprocess_exec(
            str(control_plane.binaries.kubectl),
            f"--kubeconfig={through}",
            "get",
            "--raw=/readyz",
            stdout=asyncio.subprocess.PIPE,
        )
        output, _ = await kubectl.communicate()

    assert output == b"ok"
    assert proxy.counters.accepted >= 1
