from __future__ import annotations

import pytest

from handlers.cli.devstack.control_plane import ControlPlane
from tests.e2e.stage import Stage
from tests.stack.fixtures import Weir


@pytest.fixture
def stage(cluster: ControlPlane, namespace: str, weir: Weir) -> Stage:
    """A namespace with nothing running yet."""
    return Stage(cluster, namespace, weir)


@pytest.fixture
def running(stage: Stage) -> Stage:
    """A namespace that a bridge and handlers look after."""
    stage.start()
    return stage
