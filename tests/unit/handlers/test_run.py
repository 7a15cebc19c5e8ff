"""The handlers as a process that has nothing to connect to."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from handlers.cli.devstack import access
from handlers.cli.devstack.weir import REPOSITORY


@pytest.mark.parametrize("command", ["bridge", "handlers"])
def test_a_process_that_is_told_to_stop_before_nats_is_there_says_so(
    command: str, tmp_path: Path
) -> None:
    config = access.write_kubeconfig(tmp_path / "config", server="http://127.0.0.1:1", token="")
    given = {
        "KUBECONFIG": str(config),
        "WEIR_NATS_URL": "nats://127.0.0.1:1",
        "WEIR_HTTP": "127.0.0.1:0",
    }
    with subprocess.Popen(
        [sys.executable, "-m", "handlers", command],
        cwd=REPOSITORY,
        env={**os.environ, **given},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        said = next(line for line in process.stderr if "NATS" in line or "nats" in line)
        process.send_signal(signal.SIGTERM)
        rest = process.stderr.readlines()
        assert process.wait() == 0
    assert "Traceback" not in said + "".join(rest)
    assert json.loads(rest[-1])["message"].endswith("stopped")
