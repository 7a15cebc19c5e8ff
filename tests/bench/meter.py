"""
CPU and memory of processes as the kernel counts them.

Source: proc(5), `/proc/PID/stat` and `/proc/PID/status`; so Linux only.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from handlers.cli.devstack.process import Process

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_USER_AND_SYSTEM = slice(11, 13)
"""Fields of `stat` behind the name in parentheses, which may hold blanks."""
_KIB_PER_MIB = 1024


class CpuMeter:
    """CPU seconds that processes have used since this was made."""

    def __init__(self, processes: Iterable[Process]) -> None:
        self._processes = tuple(processes)
        self._begun = self._read()

    def used_seconds(self) -> dict[str, float]:
        """Return CPU seconds by the process's name, user and system."""
        return {name: now - self._begun[name] for name, now in self._read().items()}

    def _read(self) -> dict[str, float]:
        return {process.name: cpu_seconds(process.pid) for process in self._processes}


def cpu_seconds(pid: int) -> float:
    """Return the CPU seconds that a process has used in its life, all threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[_USER_AND_SYSTEM])) / _TICKS_PER_SECOND


def resident_mib(pid: int) -> tuple[float, float]:
    """Return the resident memory of a process now, and its highest so far."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    values = dict(line.split(":", 1) for line in lines)
    now, highest = (int(values[key].split()[0]) / _KIB_PER_MIB for key in ("VmRSS", "VmHWM"))
    return now, highest
