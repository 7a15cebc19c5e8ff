"""Standard output that tells its own errors from all others, and standard streams that exist."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator
from typing import IO, Any


class CannotPrint(Exception):
    """What a command prints could not be written; no OSError, which argparse passes by."""


class Stdout:
    """A stream whose failures are CannotPrint; all else is as with the stream itself."""

    def __init__(self, stream: IO[str]) -> None:
        """Take the stream."""
        self._stream = stream

    def write(self, text: str) -> int:
        """Write a text."""
        with _told():
            return self._stream.write(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write texts one after another."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Write what is buffered."""
        with _told():
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        raise CannotPrint(exc.strerror or str(exc)) from exc


def open_what_is_closed() -> None:
    """
    Give a process that was started without standard streams some, so that no socket takes theirs.

    What is read is empty, what is said is lost, and what is printed cannot be written.
    """
    modes = {"stdin": os.O_RDONLY, "stdout": os.O_RDONLY, "stderr": os.O_WRONLY}
    for number, (name, mode) in enumerate(modes.items()):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, mode)
            if null != number:
                os.dup2(null, number)
                os.close(null)
            setattr(sys, name, os.fdopen(number, "r" if name == "stdin" else "w"))


def forget_stdout() -> None:
    """Let what is left in the buffer go nowhere: it must not fail again when Python ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
