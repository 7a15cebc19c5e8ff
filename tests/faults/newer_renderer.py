"""
`weir handlers` of a release to come, whose renderings differ in what no pod sees.

Run as `python -m tests.faults.newer_renderer`; settings as for `weir handlers`, by variables.
"""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Callable
from typing import Any

import msgspec

from bridge.settings import read_settings
from crds.kubernetes import DEPLOYMENT, Manifest
from handlers.handler import AnyHandler, Facts, Rendering
from handlers.registry import HANDLERS
from handlers.run import run_handlers

MARK = "tests.weir.dev/release"
RESTARTS = "WEIR_TEST_RESTARTS"
"""A variable: when it is set, the next release gives pods something new, too."""
NEWER = "newer"
"""Value of the annotation that the newer release puts on every Deployment."""


def newer(handler: AnyHandler) -> AnyHandler:
    """Return the handler with the next version of its rendering."""
    return msgspec.structs.replace(
        handler, renderer=handler.renderer + 1, render=_marking(handler.render)
    )


def _marking(render: Callable[[Any, Facts], Rendering]) -> Callable[[Any, Facts], Rendering]:
    def rendered(resource: Any, facts: Facts) -> Rendering:
        rendering = render(resource, facts)
        return msgspec.structs.replace(
            rendering, children=tuple(_marked(child) for child in rendering.children)
        )

    return rendered


def _marked(manifest: Manifest) -> Manifest:
    if manifest["kind"] != DEPLOYMENT.kind:
        return manifest
    metadata = manifest["metadata"]
    annotations = {**metadata.get("annotations", {}), MARK: NEWER}
    marked = {**manifest, "metadata": {**metadata, "annotations": annotations}}
    if RESTARTS in os.environ:
        marked["spec"] = copy.deepcopy(manifest["spec"])
        marked["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 77
    return marked


if __name__ == "__main__":
    sys.exit(run_handlers(read_settings(os.environ, {}), tuple(map(newer, HANDLERS))))
