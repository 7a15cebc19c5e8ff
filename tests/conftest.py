"""What every test stands on: an environment without surprises, and the fixtures of the stack."""

from __future__ import annotations

import os

pytest_plugins = ["tests.stack.fixtures"]

KEPT = ("WEIR_TEST_", "WEIR_CACHE_DIR", "WEIR_GOLDEN_DIR")
SCRUBBED = ("WEIR_", "OTEL_", "NATS_", "KUBECONFIG", "KUBERNETES_")

for _name in tuple(os.environ):
    if _name.startswith(SCRUBBED) and not _name.startswith(KEPT):
        del os.environ[_name]
