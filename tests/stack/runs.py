"""Runs of Weir's stack that a test may end in any way: Python programs of their own."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager

from handlers.cli.devstack.weir import REPOSITORY


@contextmanager
def a_run(script: str) -> Iterator[subprocess.Popen[str]]:
    """A Python program of its own that stands for one run of Weir's stack."""
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        text=True,
    ) as run:
        try:
            yield run
        finally:
            run.kill()


def line_of(run: subprocess.Popen[str]) -> str:
    assert run.stdout is not None
    return run.stdout.readline().strip()
