from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from handlers.cli.devstack import demo
from handlers.cli.devstack.fleet import Fleet
from handlers.cli.devstack.stack import Stack
from handlers.cli.devstack.weir import REPOSITORY
from tests.stack.eventually import PATIENCE_SECONDS, eventually

pytestmark = pytest.mark.usefixtures("control_plane_binaries")


def processes_of(directory: Path) -> list[str]:
    """The command lines of the live processes that belong to a run's directory."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        try:
            command = (entry / "cmdline").read_bytes()
            environment = (entry / "environ").read_bytes()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        if str(directory).encode() in command + environment:
            found.append(command.replace(b"\0", b" ").decode())
    return found


IN_THE_BACKGROUND = ("/bin/sh", "-c", 'trap "" INT; exec "$@"', "sh")
"""How a script's shell starts a command with `&`: it ignores Ctrl-C."""


@contextmanager
def weir_dev(directory: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    with (directory.with_suffix(".out")).open("w+") as output:
        process = subprocess.Popen(
            [
                *IN_THE_BACKGROUND,
                *(sys.executable, "-m", "handlers", "dev", f"--run-dir={directory}", *arguments),
            ],
            cwd=REPOSITORY,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


def assert_what_it_prints_works(output: str) -> None:
    """The exports of the summary, typed into a shell, lead kubectl to the cluster."""
    exports = [line for line in output.splitlines() if line.startswith("  export ")]
    asked = subprocess.run(
        ["/bin/sh", "-c", "\n".join([*exports, "kubectl get nodes -o name"])],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert asked.stdout.split() == ["node/gpu-1", "node/gpu-2"], asked.stderr


def output_of(directory: Path) -> str:
    return directory.with_suffix(".out").read_text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
async def test_weir_dev_leaves_no_process_when_it_is_ended(
    number: signal.Signals, tmp_path: Path
) -> None:
    run = tmp_path / "a run"
    with weir_dev(run, "--nodes=2") as process:

        def is_up() -> bool:
            assert process.poll() is None, output_of(run)
            return "Ctrl-C ends everything" in output_of(run)

        await eventually(is_up, within_seconds=60)
        assert len(processes_of(run)) >= 8
        assert_what_it_prints_works(output_of(run))
        process.send_signal(number)
        code = process.wait(PATIENCE_SECONDS)

    def left() -> bool:
        assert processes_of(run) == []
        return True

    await eventually(left)
    assert code == (-signal.SIGKILL if number is signal.SIGKILL else 0)
    assert (run / "audit.log").exists()
    if number is not signal.SIGKILL:
        assert f"weir: nothing is left running; data and logs are in {run}" in output_of(run)


async def test_the_demo_ends_with_a_ready_resource_and_leaves_nothing(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with weir_dev(run, "--demo") as process:

        def has_ended() -> bool:
            return process.poll() is not None

        await eventually(has_ended, within_seconds=150)

    output = output_of(run)
    assert process.returncode == 0, output
    assert "statefulset.apps/demo-nats" in output
    assert "deployment.apps/demo-worker   2/2" in output
    assert "No resources found in weir-demo namespace." in output
    assert "Traceback" not in output
    assert processes_of(run) == []


def test_a_demo_that_gets_nowhere_says_what_it_saw_last() -> None:
    stack = Stack(os.environ, fleet=Fleet(nodes=1))
    try:
        stack.start()
        for process in stack.weir:
            process.pause()
        with pytest.raises(demo.DemoError, match="not Ready after 1 s; last seen: no status yet"):
            demo.show(stack, within_seconds=1)
    finally:
        stack.stop()

    assert not stack.directory.exists()
