"""
`weir handlers` with a renderer that fails by the image it is asked for; settings as always.

    python -m tests.faults.crashing_handlers
"""

from __future__ import annotations

import os
import signal
import sys

from msgspec.structs import replace

from bridge.settings import read_settings
from crds.inferadeployment import InferaDeployment
from handlers import inferadeployment
from handlers.handler import Facts, Rendering
from handlers.run import run_handlers

POISON = "registry.example/poison:1"
"""Whoever renders this is killed, as by an overflow in a library."""
BUG = "registry.example/bug:1"
"""Whoever renders this raises what nobody expected."""


def render(resource: InferaDeployment, facts: Facts) -> Rendering:
    """Return what the real renderer does, but for the two images."""
    if resource.spec.image == POISON:
        os.kill(os.getpid(), signal.SIGKILL)
    if resource.spec.image == BUG:
        raise LookupError("a table of the renderer has no such entry")
    return inferadeployment.HANDLER.render(resource, facts)


HANDLERS = (replace(inferadeployment.HANDLER, render=render),)

if __name__ == "__main__":
    sys.exit(run_handlers(read_settings(os.environ, {}), HANDLERS))
