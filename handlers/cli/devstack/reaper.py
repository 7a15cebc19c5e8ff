"""
Ends what a run started once that run is gone, however it went, SIGKILL included.

A program of its own, in its own session. The run holds the other end of standard input; when the
kernel closes it, every process group still on the books is killed and every directory removed.
Lines: `PID` (a process group began), `forget PID`, `remove PATH`, `keep PATH`.
Standard library only, so that it starts in milliseconds.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterable
from pathlib import Path

REMOVAL_SECONDS = 5.0
"""A dying process may still write into a directory for a moment."""


def read_books(lines: Iterable[str]) -> tuple[set[int], set[str]]:
    """Return the process groups and the directories that are left when the lines end."""
    groups: set[int] = set()
    directories: set[str] = set()
    for line in lines:
        match line.rstrip("\n").split(" ", 1):
            case ["forget", pid]:
                groups.discard(int(pid))
            case ["remove", path]:
                directories.add(path)
            case ["keep", path]:
                directories.discard(path)
            case [pid] if pid.isdecimal():
                groups.add(int(pid))
            case _:
                pass  # a line cut off by the death of its writer
    return groups, directories


def main() -> None:
    """Wait for the end of the run, then clear up after it."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # only the run's end is the reaper's end
    groups, directories = read_books(sys.stdin)
    for group in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
    deadline = time.monotonic() + REMOVAL_SECONDS
    while any(Path(path).exists() for path in directories) and time.monotonic() < deadline:
        for path in directories:
            shutil.rmtree(path, ignore_errors=True)
        time.sleep(0.05)


if __name__ == "__main__":
    main()
