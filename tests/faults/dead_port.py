"""A port on which nobody listens, and on which nobody else can begin to."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager


def bound(port: int) -> socket.socket:
    """Return a socket bound to a loopback port, beside another that does not listen on it."""
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    found.setblocking(False)  # noqa: FBT003 - the socket module's own signature
    found.bind(("127.0.0.1", port))
    return found


@contextmanager
def dead_port() -> Iterator[int]:
    """
    Give a loopback port that answers with RST.

    Bound but never listening: the kernel gives it to nobody else. No fixed port is known to be
    without a server on a machine that is not ours.
    """
    with bound(0) as kept:
        port: int = kept.getsockname()[1]
        yield port
