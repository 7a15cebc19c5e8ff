"""HTTP to the parts of the stack, past any proxy that the environment names."""

from __future__ import annotations

import ssl
import urllib.request
from collections.abc import Mapping

TIMEOUT_SECONDS = 10.0
READY_TIMEOUT_SECONDS = 1.0


def read(
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    authority: bytes = b"",
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> bytes:
    """Return the body of a 200; raise OSError for all else. `authority` is PEM, for https."""
    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
    if authority:
        context = ssl.create_default_context(cadata=authority.decode())
        handlers.append(urllib.request.HTTPSHandler(context=context))
    request = urllib.request.Request(url, headers=dict(headers or {}))  # noqa: S310 - loopback
    with urllib.request.build_opener(*handlers).open(request, timeout=timeout_seconds) as response:
        return bytes(response.read())


def answers(url: str) -> bool:
    """Return whether a GET of the URL gives 200 now."""
    try:
        read(url, timeout_seconds=READY_TIMEOUT_SECONDS)
    except OSError:
        return False
    return True
