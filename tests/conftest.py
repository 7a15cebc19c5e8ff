"""What every test stands on: an environment without surprises, and the fixtures of the stack."""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

from tests.stack.eventually import PATIENCE

pytest_plugins = ["tests.stack.fixtures"]

KEPT = ("WEIR_TEST_", "WEIR_CACHE_DIR", "WEIR_GOLDEN_DIR")
SCRUBBED = ("WEIR_", "OTEL_", "NATS_", "KUBECONFIG", "KUBERNETES_")

for _name in tuple(os.environ):
    if _name.startswith(SCRUBBED) and not _name.startswith(KEPT):
        del os.environ[_name]

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Started in the background of a shell, which every process of a test would inherit.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# An example that took long says something about the machine, and nothing about the code.
settings.register_profile(
    "weir", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("weir")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give a test as many times its time as `eventually` gives to what the test waits for."""
    for item in items:
        marker = item.get_closest_marker("timeout")
        seconds = float(marker.args[0] if marker else config.getini("timeout"))
        item.add_marker(pytest.mark.timeout(seconds * PATIENCE), append=False)
