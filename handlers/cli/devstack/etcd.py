"""A native etcd on loopback that can be killed and started again with its port and its data."""

from __future__ import annotations

from pathlib import Path

from handlers.cli.devstack.loopback import answers
from handlers.cli.devstack.process import Process, reserve_port

READY_SECONDS = 40.0


class Etcd:
    """One etcd member; `kill` is the only end it gets, since SIGTERM waits for open watches."""

    def __init__(self, binary: Path, directory: Path, *, name: str = "etcd") -> None:
        """Choose ports and a data directory below `directory`; nothing is started yet."""
        self.port = reserve_port()
        peer = f"http://127.0.0.1:{reserve_port()}"
        self.url = f"http://127.0.0.1:{self.port}"
        self.process = Process(
            name,
            [
                str(binary),
                f"--name={name}",
                f"--data-dir={directory / f'{name}-data'}",
                f"--listen-client-urls={self.url}",
                f"--advertise-client-urls={self.url}",
                f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster={name}={peer}",
                "--heartbeat-interval=20",
                "--election-timeout=200",
                "--log-level=warn",
                "--unsafe-no-fsync",
            ],
            log=directory / f"{name}.log",
        )

    @property
    def endpoint(self) -> str:
        """`host:port` for clients."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start, and return when it serves."""
        self.process.start()
        self.process.wait_until(lambda: answers(self.url + "/health"), READY_SECONDS)

    def kill(self) -> None:
        """SIGKILL; the data stays."""
        self.process.kill()

    def restart(self) -> None:
        """SIGKILL, then start with the same port and data."""
        self.kill()
        self.start()
