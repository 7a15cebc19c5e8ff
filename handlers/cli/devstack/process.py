"""
Native processes that can be killed, paused and restarted, and that never outlive this one.

Each starts in its own process group and is on the books of the reaper (`reaper.py`) before it
runs its first instruction, so that a SIGKILL of this process leaves nothing behind either. (The
kernel's parent-death signal would not do: it follows the thread that forked, and only Linux has
it.)
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

POLL_SECONDS = 0.02
LOG_TAIL_LINES = 40
PORTS = range(20_000, 32_000)
"""Below the ephemeral range: a client that dials a port whose server is down can be given that
very port as its own end, connects to itself, and then keeps the server from coming back."""

_REGISTER = 'echo "$$" >&0; exec "$@" </dev/null'
"""Standard input is the reaper's pipe for just as long as it takes to sign in."""


class ProcessError(Exception):
    """A process of the stack did not start, or ended by itself; the text ends with its log."""


class _Reaper:
    """This process's reaper: started with the first entry, gone with this process."""

    def __init__(self) -> None:
        self._program: subprocess.Popen[str] | None = None
        self._entries: list[str] = []

    def write(self, entry: str) -> None:
        pipe = self.pipe()
        self._entries.append(entry)
        pipe.write(entry + "\n")
        pipe.flush()

    def note(self, pid: int) -> None:
        """Remember a group that signed in by itself, in case the reaper has to be replaced."""
        self._entries.append(str(pid))

    def pipe(self) -> IO[str]:
        if self._program is None or self._program.poll() is not None:
            self._program = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-I", "-S", str(Path(__file__).with_name("reaper.py"))],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                text=True,
            )
            for entry in self._entries:
                print(entry, file=self._program.stdin)
        pipe = self._program.stdin
        if pipe is None:
            raise ProcessError("the reaper has no standard input")
        pipe.flush()
        return pipe

    def close(self) -> None:
        """Let the reaper clear up now, and wait until it has."""
        if self._program is None or self._program.stdin is None:
            return
        with contextlib.suppress(OSError):
            self._program.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._program.wait(10)


_reaper = _Reaper()
_living: set[Process] = set()


@atexit.register
def _end_everything() -> None:
    for process in tuple(_living):
        process.kill()
    _reaper.close()


class Process:
    """One program of the stack. `start` may be called again after it ended: same command."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        log: Path,
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
    ) -> None:
        """Take the command and where its output goes; nothing is started yet."""
        self.name = name
        self.command = tuple(command)
        self.log = log
        self.environment = None if environment is None else dict(environment)
        self.directory = directory
        self._popen: subprocess.Popen[bytes] | None = None

    def __repr__(self) -> str:
        return f"<{self.name} {'running' if self.is_running else self.exit_code}>"

    def start(self) -> None:
        """Start the program, its output appended to the log."""
        if self.is_running:
            raise ProcessError(f"{self.name} is running already (pid {self.pid})")
        with self.log.open("ab") as output:
            self._popen = subprocess.Popen(  # noqa: S603 - the stack's own commands
                ["/bin/sh", "-c", _REGISTER, "sh", *self.command],
                stdin=_reaper.pipe(),
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self.environment,
                cwd=self.directory,
                start_new_session=True,
            )
        _reaper.note(self._popen.pid)
        _living.add(self)

    @property
    def pid(self) -> int:
        """The pid of the program, which is also its process group."""
        if self._popen is None:
            raise ProcessError(f"{self.name} was never started")
        return self._popen.pid

    @property
    def is_running(self) -> bool:
        """Whether the program has been started and has not ended (paused counts as running)."""
        return self._popen is not None and self._popen.poll() is None

    @property
    def exit_code(self) -> int | None:
        """The exit code, negative for a signal; None while it runs or before its first start."""
        return None if self._popen is None else self._popen.poll()

    def wait(self, within_seconds: float) -> int | None:
        """Return the exit code, or None when the program still runs after so long."""
        if self._popen is None:
            return None
        try:
            code = self._popen.wait(within_seconds)
        except subprocess.TimeoutExpired:
            return None
        self._forget()
        return code

    def kill(self) -> None:
        """SIGKILL the process group and wait for its end; nothing happens when it has ended."""
        if self._popen is None:
            return
        if self._popen.poll() is None:
            self.signal(signal.SIGKILL)
            self._popen.wait()
        self._forget()

    def terminate(self, within_seconds: float = 20.0) -> int | None:
        """SIGTERM, then SIGKILL after so long; return the exit code."""
        if self.is_running:
            self.signal(signal.SIGCONT)  # a paused program could not hear the next signal
            self.signal(signal.SIGTERM)
            if self.wait(within_seconds) is None:
                self.kill()
        self._forget()
        return self.exit_code

    def pause(self) -> None:
        """SIGSTOP: it keeps its connections and does nothing any more once this returns."""
        self.signal(signal.SIGSTOP)
        if self.is_running:
            with contextlib.suppress(ChildProcessError):
                os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """SIGCONT after `pause`."""
        self.signal(signal.SIGCONT)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the whole process group, unless the program has ended."""
        if self.is_running:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    def wait_until(self, ready: Callable[[], bool], within_seconds: float) -> None:
        """Return when `ready()`; raise ProcessError when the program ends or time runs out."""
        deadline = time.monotonic() + within_seconds
        while not ready():
            if not self.is_running:
                code = self.exit_code
                self._forget()
                raise ProcessError(f"{self.name} ended with {code}:\n{self.log_tail()}")
            if time.monotonic() > deadline:
                raise ProcessError(
                    f"{self.name} is not ready after {within_seconds:g} s:\n{self.log_tail()}"
                )
            time.sleep(POLL_SECONDS)

    def log_text(self) -> str:
        """Return all that the program has written."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def log_tail(self, lines: int = LOG_TAIL_LINES) -> str:
        """Return the last lines that the program has written."""
        return "\n".join(self.log_text().splitlines()[-lines:])

    def _forget(self) -> None:
        if self in _living:
            _living.discard(self)
            _reaper.write(f"forget {self.pid}")


def run_directory(prefix: str) -> Path:
    """
    Return a new directory that is removed with this run, in memory where the machine has it.

    Memory, because etcd and JetStream write all the time and the data is worth nothing later.
    """
    memory = Path("/dev/shm")  # noqa: S108 - mkdtemp makes it private
    where = memory if os.access(memory, os.W_OK) else None
    path = Path(tempfile.mkdtemp(prefix=f"weir-{prefix}-", dir=where))
    remove_at_the_end(path)
    return path


def remove_at_the_end(path: Path) -> None:
    """See to it that a directory is gone when this run is, if `remove_directory` never comes."""
    _reaper.write(f"remove {path}")


def remove_directory(path: Path) -> None:
    """Remove a directory of `run_directory` or `remove_at_the_end` now."""
    shutil.rmtree(path, ignore_errors=True)
    _reaper.write(f"keep {path}")


def reserve_port() -> int:
    """
    Return a loopback port that is free now and that no other run of Weir will take.

    A lock file per port is held until this process ends: its server may be killed and started
    again, and the port must still be there. The files themselves stay, empty: one that is removed
    while another run has it open would be locked by both.
    """
    locks = Path(tempfile.gettempdir()) / f"weir-ports-{os.getuid()}"
    locks.mkdir(mode=0o700, exist_ok=True)
    for port in random.sample(PORTS, len(PORTS)):
        lock = os.open(locks / str(port), os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", port))
        except OSError:
            os.close(lock)
            continue
        return port  # the descriptor stays open, and with it the lock, to the end of the process
    raise ProcessError(f"no free port between {PORTS.start} and {PORTS.stop} on 127.0.0.1")
