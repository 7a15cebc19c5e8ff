from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from handlers.cli.devstack.weir import REPOSITORY
from tests.stack.eventually import dwindles, eventually

A_FAILING_TEST = """
from handlers.cli.devstack.process import Process
from tests.stack.fixtures import shown_on_failure

def test_it(request, scratch):
    process = Process("parrot", ["/bin/sh", "-c", "echo last words; sleep 60"], log=scratch / "log")
    shown_on_failure(request.node, process)
    process.start()
    process.wait_until(lambda: process.log_text() != "", 60)
    assert False
"""

A_TEST_WITHOUT_ITS_BACKEND = """
def test_it(control_plane):
    pass
"""


def outcome_of(text: str, tmp_path: Path, **environment: str) -> tuple[int, str]:
    """Return the exit code and the output of a pytest run of its own over one test file."""
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope=function\n")
    file = tmp_path / "test_it.py"
    file.write_text(text)
    done = subprocess.run(
        [
            *[sys.executable, "-m", "pytest", "-p", "tests.stack.fixtures"],
            *["-p", "no:cacheprovider", f"-c{tmp_path / 'pytest.ini'}"],
            *[f"--rootdir={tmp_path}", f"--confcutdir={tmp_path}", str(file)],
        ],
        cwd=REPOSITORY,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_a_failing_test_shows_the_last_lines_of_its_processes(tmp_path: Path) -> None:
    code, output = outcome_of(A_FAILING_TEST, tmp_path)

    assert code == 1
    assert "log of parrot" in output
    assert "last words" in output.partition("log of parrot")[2]


def test_a_test_without_its_backend_fails_and_says_what_is_missing(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()

    code, output = outcome_of(
        A_TEST_WITHOUT_ITS_BACKEND, tmp_path, PATH=str(empty), WEIR_CACHE_DIR=str(tmp_path / "c")
    )

    assert code == 1
    assert "a Kubernetes control plane is missing: Go >= 1.26 is needed" in output
    assert "skipped" not in output


async def test_eventually_returns_the_first_true_value() -> None:
    values = iter([0, "", 3, 4])

    assert await eventually(lambda: next(values), every_seconds=0.001) == 3


async def test_eventually_fails_with_the_last_value_seen() -> None:
    def children() -> list[str]:
        return []

    with pytest.raises(pytest.fail.Exception, match=r"children: not within.*last seen: \[\]"):
        await eventually(children, within_seconds=0.01, every_seconds=0.001)


async def test_eventually_fails_with_the_last_assertion_of_a_coroutine() -> None:
    async def is_ready() -> bool:
        raise AssertionError("2 of 3 are ready")

    with pytest.raises(pytest.fail.Exception, match=r"is_ready.*2 of 3 are ready"):
        await eventually(is_ready, within_seconds=0.01, every_seconds=0.001)


async def test_what_dwindles_may_take_as_long_as_it_takes() -> None:
    values = iter([[1, 2], [1, 2], [1], [1], []])

    async def left() -> list[int]:
        return next(values)

    await dwindles(left, every_seconds=0.001)


async def test_what_does_not_dwindle_any_more_fails_with_what_is_left() -> None:
    async def left() -> list[str]:
        return ["r7"]

    with pytest.raises(pytest.fail.Exception, match=r"no progress for .* 1 are left: r7"):
        await dwindles(left, stuck_seconds=0.01, every_seconds=0.001)
