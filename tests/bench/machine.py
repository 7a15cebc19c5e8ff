"""What the figures were measured on: nothing that names the machine, its paths or its owner."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from pathlib import Path

from handlers.cli.devstack.control_plane import ControlPlane
from handlers.cli.devstack.loopback import read
from handlers.cli.devstack.nats_server import NatsServer
from handlers.cli.devstack.weir import REPOSITORY

_KIB_PER_GIB = 1024 * 1024


def machine(plane: ControlPlane, nats: NatsServer) -> dict[str, str]:
    """Return the machine, the versions of what runs on it, and how busy it was before."""
    memory = Path("/proc/meminfo").read_text().partition("MemTotal:")[2].split()[0]
    return {
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{int(memory) / _KIB_PER_GIB:.0f} GiB",
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "Python": platform.python_version(),
        "API server": plane.get("/version")["gitVersion"],
        "etcd": json.loads(read(plane.etcd.url + "/version"))["etcdserver"],
        "NATS": json.loads(read(nats.monitor_url + "/varz"))["version"],
    }


def commit() -> str:
    """Return the commit that is checked out, with a + where the code differs; empty without git."""
    try:
        head = _git("rev-parse", "--short", "HEAD")
        return head + (
            "+"
            if _git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs")
            else ""
        )
    except (OSError, subprocess.CalledProcessError):
        return ""


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()
