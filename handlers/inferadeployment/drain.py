"""
How long a worker's pod may take to end: preStop, drain of running requests, teardown.

A grace period that is too short kills requests in flight, so it is only ever raised. What counts as
a number is what counts for AMD's operator, whose pod templates ours equal: Go's `ParseFloat`. Other
than Python it takes no blanks around a number and no digits of other scripts, but hexadecimal ones.
Source: Go documentation, `strconv.ParseFloat`; tried with Go 1.26.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from crds.kubernetes import Manifest
from handlers.manifests import entries

VARIABLE = "INFERA_DRAIN_TIMEOUT"
FLAG = "--drain-timeout"

PRE_STOP_SECONDS = 15
"""The router forgets a worker within this time; requests may still arrive until then."""
TEARDOWN_SECONDS = 50
"""For what the engine does after its last request."""
DRAIN_SECONDS = 30.0
"""The engine's own default."""
DRAIN_SECONDS_MAX = 3600.0
GRACE_SECONDS_MIN = 120
_HEXADECIMAL = re.compile(r"[+-]?0[xX][0-9a-fA-F.]+[pP][+-]?[0-9]+")


def grace_seconds(
    service_args: Iterable[str], service_env: Iterable[Mapping[str, Any]], container: Manifest
) -> int:
    """
    Return the grace period that a worker needs.

    The drain time is looked up in the service's own args and env, then in the container's
    command, args and env; the later that gives a valid one wins.
    """
    in_service = drain_seconds(service_args, service_env)
    in_container = drain_seconds(
        [*_words(container, "command"), *_words(container, "args")], entries(container, "env")
    )
    found = in_container if in_container is not None else in_service
    drain = DRAIN_SECONDS if found is None else found
    return max(GRACE_SECONDS_MIN, PRE_STOP_SECONDS + math.ceil(drain) + TEARDOWN_SECONDS)


def drain_seconds(args: Iterable[str], env: Iterable[Mapping[str, Any]]) -> float | None:
    """
    Return the drain time that one source gives, None where it gives no valid one.

    The last valid flag wins over the last valid variable. A `valueFrom` and a flag inside the
    string of a shell cannot be read.
    """
    found = None
    for variable in env:
        if variable.get("name") == VARIABLE:
            found = _valid(variable.get("value")) or found
    words = list(args)
    for position, word in enumerate(words):
        if word == FLAG:
            following = words[position + 1] if position + 1 < len(words) else None
            found = _valid(following) or found
        elif word.startswith(f"{FLAG}="):
            found = _valid(word.removeprefix(f"{FLAG}=")) or found
    return found


def _valid(text: object) -> float | None:
    """Return a number of seconds above 0 and at most an hour, None for what is no such thing."""
    if not isinstance(text, str) or not text.isascii() or text != text.strip():
        return None
    try:
        seconds = float.fromhex(text) if _HEXADECIMAL.fullmatch(text) else float(text)
    except (ValueError, OverflowError):
        return None
    if not math.isfinite(seconds) or seconds <= 0:
        return None
    return min(seconds, DRAIN_SECONDS_MAX)


def _words(container: Manifest, field: str) -> list[str]:
    found = container.get(field)
    return [word for word in found if isinstance(word, str)] if isinstance(found, list) else []
