"""Progress of long steps: one line at the start, one every few seconds, one at the end."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

HEARTBEAT_SECONDS = 10.0

Say = Callable[[str], None]


def say(line: str) -> None:
    """Write a line of progress to standard error, where it does not mix with results."""
    print(line, file=sys.stderr, flush=True)


@contextmanager
def heartbeat(what: str, tell: Say = say) -> Iterator[None]:
    """Tell every few seconds for how long `what` has been going on."""
    begun = time.monotonic()
    over = threading.Event()

    def beat() -> None:
        while not over.wait(HEARTBEAT_SECONDS):
            tell(f"  ... {what}: {time.monotonic() - begun:.0f} s")

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
