"""What a user sees when NATS is not as the command needs it: one line, and never a traceback."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from handlers.cli.devstack.nats_server import NatsServer
from tests.services.cli.conftest import Command, Queue
from tests.stack.eventually import PATIENCE_SECONDS

COMMANDS = ("queue", "dead list", "dead retry --all", "history")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_nats_that_is_not_there_is_one_line_within_seconds(
    command: str, weir: Command, nobody: str
) -> None:
    began = time.monotonic()

    said = weir(command, nobody)

    assert time.monotonic() - began < PATIENCE_SECONDS
    assert (said.code, said.out) == (1, "")
    (line,) = said.err.splitlines()
    address = nobody.replace("someone:secret@", "")
    assert line.startswith(f"weir: cannot connect to NATS at {address} within 3 s: ")
    assert "--nats-url or WEIR_NATS_URL" in line
    assert "secret" not in line


@pytest.fixture
def mute() -> Iterator[str]:
    """A port that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"nats://127.0.0.1:{server.getsockname()[1]}"


def test_a_server_that_never_answers_is_given_up_on(weir: Command, mute: str) -> None:
    said = weir("queue", mute)

    assert said.code == 1
    assert "cannot connect to NATS" in said.err


@pytest.mark.parametrize("command", ["dead list", "dead retry idep a/b", "history"])
def test_a_nats_without_our_streams_is_said_to_be_one(
    command: str, nats_server: NatsServer, weir: Command
) -> None:
    said = weir(command, nats_server.url)

    assert (said.code, said.out) == (1, "")
    (line,) = said.err.splitlines()
    assert f"NATS at {nats_server.url} has no stream WEIR_" in line
    assert "Check --nats-url" in line


@pytest.mark.parametrize("variable", ["WEIR_NATS_CREDS", "WEIR_NATS_CA", "WEIR_NATS_KEY"])
def test_a_file_that_cannot_be_read_is_a_mistake(
    variable: str,
    queue: Queue,
    weir: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "nowhere"
    monkeypatch.setenv(variable, str(path))

    answer = weir("queue", queue.url)

    assert (answer.code, answer.out) == (2, "")
    assert f"({variable})={path}: cannot be read: No such file or directory" in answer.err


GUARDED = """\
authorization {
  users = [
    { user: "narrow", password: "secret", permissions: { publish: "nothing.of.ours" } }
  ]
}
"""


@pytest.fixture
def guarded(nats_server: NatsServer) -> str:
    """The address, without a user, of a NATS whose one user may do nothing with JetStream."""
    nats_server.stop()
    with nats_server.configuration.open("a") as file:
        file.write(GUARDED)
    nats_server.start()
    return nats_server.url.removeprefix("nats://")


def test_a_user_that_nats_does_not_know_is_told_where_users_come_from(
    guarded: str, weir: Command
) -> None:
    said = weir("queue", f"nats://somebody:else@{guarded}")

    assert (said.code, said.out) == (1, "")
    assert f"cannot connect to NATS at nats://{guarded} within 3 s" in said.err
    assert "else" not in said.err


def test_a_user_that_may_not_is_told_what_was_refused(guarded: str, weir: Command) -> None:
    said = weir("history", f"nats://narrow:secret@{guarded}")

    assert (said.code, said.out) == (1, "")
    (line,) = said.err.splitlines()
    assert "permissions violation" in line
    assert "secret" not in line
