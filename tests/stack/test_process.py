from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from handlers.cli.devstack.control_plane import Binaries
from handlers.cli.devstack.process import PORTS, Process, ProcessError, reserve_port
from handlers.cli.devstack.reaper import read_books
from tests.stack.eventually import PATIENCE_SECONDS, eventually
from tests.stack.runs import a_run, line_of


def is_alive(pid: int) -> bool:
    """A process that runs; one that has ended and was not yet waited for is not alive."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


SLEEPER = """
    import sys, time
    from pathlib import Path
    from handlers.cli.devstack.process import Process, run_directory
    directory = run_directory("sleeper")
    sleeper = Process("sleeper", ["/bin/sh", "-c", "sleep 600 & wait"], log=directory / "log")
    sleeper.start()
    print(sleeper.pid, directory, flush=True)
"""


@pytest.mark.parametrize(
    ("ending", "number"),
    [
        ("time.sleep(600)", signal.SIGKILL),
        ("time.sleep(600)", signal.SIGTERM),
        ("time.sleep(600)", signal.SIGINT),
        ("raise SystemExit(0)", None),
        ("raise RuntimeError", None),
    ],
)
async def test_nothing_is_left_behind_however_the_run_ends(
    ending: str, number: signal.Signals | None
) -> None:
    with a_run(SLEEPER + "    " + ending) as run:
        pid, directory = line_of(run).split()
        if number is not None:
            assert is_alive(int(pid))
            run.send_signal(number)
        run.wait(PATIENCE_SECONDS)

        await eventually(lambda: not is_alive(int(pid)))
        await eventually(lambda: not Path(directory).exists())


async def test_a_control_plane_leaves_no_process_and_no_data_when_its_run_is_killed(
    control_plane_binaries: Binaries, tmp_path: Path
) -> None:
    (tmp_path / "binaries").write_text(
        "\n".join(str(getattr(control_plane_binaries, f)) for f in Binaries.__struct_fields__)
    )
    script = f"""
        import time
        from pathlib import Path
        from handlers.cli.devstack.control_plane import Binaries, ControlPlane
        paths = Path({str(tmp_path / "binaries")!r}).read_text().split("\\n")
        fields = zip(Binaries.__struct_fields__, map(Path, paths))
        plane = ControlPlane(Binaries(**dict(fields)))
        plane.start()
        parts = [plane.etcd.process, plane.api_server, *plane.controllers.values()]
        print(plane.directory, *(part.pid for part in parts), flush=True)
        time.sleep(600)
    """
    with a_run(script) as run:
        directory, *pids = line_of(run).split()
        assert len(pids) == 5
        assert all(is_alive(int(pid)) for pid in pids)
        run.kill()
        run.wait(PATIENCE_SECONDS)

        def left() -> bool:
            assert [pid for pid in pids if is_alive(int(pid))] == []
            assert not Path(directory).exists()
            return True

        await eventually(left)


def test_the_books_of_the_reaper_keep_what_was_not_forgotten() -> None:
    lines = ["12\n", "remove /a b\n", "13\n", "forget 12\n", "remove /c\n", "keep /c\n", "1x\n"]

    assert read_books(lines) == ({13}, {"/a b"})


def test_a_killed_process_starts_again_and_its_log_goes_on(tmp_path: Path) -> None:
    process = Process("echo", ["/bin/sh", "-c", "echo on; exec sleep 60"], log=tmp_path / "log")
    process.start()
    process.wait_until(lambda: process.log_text() == "on\n", within_seconds=PATIENCE_SECONDS)
    process.kill()
    assert process.exit_code == -signal.SIGKILL

    process.start()
    process.wait_until(lambda: process.log_text() == "on\non\n", within_seconds=PATIENCE_SECONDS)
    assert process.terminate() == -signal.SIGTERM


def test_a_paused_process_ends_when_it_is_asked_to(tmp_path: Path) -> None:
    process = Process("sleep", ["sleep", "60"], log=tmp_path / "log")
    process.start()
    process.pause()
    assert process.is_running

    assert process.terminate(within_seconds=PATIENCE_SECONDS) == -signal.SIGTERM


def test_a_process_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    script = "trap '' TERM; echo deaf; while :; do sleep 0.05; done"
    process = Process("deaf", ["/bin/sh", "-c", script], log=tmp_path / "log")
    process.start()
    process.wait_until(lambda: "deaf" in process.log_text(), within_seconds=PATIENCE_SECONDS)

    assert process.terminate(within_seconds=0.2) == -signal.SIGKILL


def test_a_process_that_ends_before_it_is_ready_is_told_with_its_log(tmp_path: Path) -> None:
    process = Process("broken", ["/bin/sh", "-c", "echo no licence; exit 3"], log=tmp_path / "log")
    process.start()

    with pytest.raises(ProcessError, match=r"(?s)broken ended with 3.*no licence"):
        process.wait_until(lambda: False, within_seconds=PATIENCE_SECONDS)


def test_a_program_that_does_not_exist_is_told_in_its_log(tmp_path: Path) -> None:
    process = Process("ghost", [str(tmp_path / "ghost")], log=tmp_path / "log")
    process.start()

    with pytest.raises(ProcessError, match=r"(?s)ghost ended with 127.*not found"):
        process.wait_until(lambda: False, within_seconds=PATIENCE_SECONDS)


def test_a_process_that_is_never_ready_is_told_in_time(tmp_path: Path) -> None:
    process = Process("slow", ["sleep", "60"], log=tmp_path / "log")
    process.start()

    with pytest.raises(ProcessError, match=r"slow is not ready after 0.1 s"):
        process.wait_until(lambda: False, within_seconds=0.1)
    process.kill()


def test_no_process_of_the_stack_reads_our_standard_input(tmp_path: Path) -> None:
    process = Process("cat", ["cat"], log=tmp_path / "log")
    process.start()

    assert process.wait(PATIENCE_SECONDS) == 0


def test_reserved_ports_are_all_different_and_below_the_ephemeral_range() -> None:
    ports = [reserve_port() for _ in range(50)]

    assert len(set(ports)) == 50
    assert all(port in PORTS for port in ports)


def test_two_runs_at_once_reserve_different_ports() -> None:
    # Both ask for the same ports in the same order, so only their locks keep them apart.
    script = """
        import random, time
        from handlers.cli.devstack.process import reserve_port
        random.seed(4)
        print(*(reserve_port() for _ in range(4)), flush=True)
        time.sleep(600)
    """
    with a_run(script) as one, a_run(script) as other:
        ports = [*line_of(one).split(), *line_of(other).split()]

    assert len(set(ports)) == 8


def test_this_machine_shows_the_states_of_processes() -> None:
    assert is_alive(os.getpid())
    assert not is_alive(2**22 + 1)
