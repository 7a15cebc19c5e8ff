"""A native nats-server with JetStream on loopback, which keeps port and data over a restart."""

from __future__ import annotations

import shutil
from pathlib import Path

from handlers.cli.devstack.loopback import answers
from handlers.cli.devstack.process import Process, reserve_port

READY_SECONDS = 40.0

_CONFIGURATION = """\
# Written by Weir's development stack.
listen: "127.0.0.1:{port}"
http: "127.0.0.1:{monitor}"
server_name: "{name}"
max_payload: 1MB
jetstream {{
  store_dir: "{store}"
  max_memory_store: 256MB
  max_file_store: 4GB
}}
"""


class NatsServer:
    """One server; its data is written as in production (`sync_interval` at its default)."""

    def __init__(self, binary: Path, directory: Path, *, name: str = "nats") -> None:
        """Choose ports and write the configuration below `directory`; nothing is started yet."""
        self.port = reserve_port()
        monitor = reserve_port()
        self.url = f"nats://127.0.0.1:{self.port}"
        self.monitor_url = f"http://127.0.0.1:{monitor}"
        self.store = directory / f"{name}-jetstream"
        self.configuration = directory / f"{name}.conf"
        self.configuration.write_text(
            _CONFIGURATION.format(port=self.port, monitor=monitor, name=name, store=self.store)
        )
        self.process = Process(
            name, [str(binary), "-c", str(self.configuration)], log=directory / f"{name}.log"
        )

    def start(self) -> None:
        """Start, and return when JetStream serves."""
        self.process.start()
        self.process.wait_until(lambda: answers(self.monitor_url + "/healthz"), READY_SECONDS)

    def stop(self) -> None:
        """SIGTERM and wait: it writes everything out first."""
        self.process.terminate()

    def kill(self) -> None:
        """SIGKILL: what was not yet synced is lost, as in a crash."""
        self.process.kill()

    def restart(self) -> None:
        """SIGKILL, then start with the same port and data."""
        self.kill()
        self.start()

    def pause(self) -> None:
        """SIGSTOP: connections stay open and nothing answers."""
        self.process.pause()

    def resume(self) -> None:
        """SIGCONT after `pause`."""
        self.process.resume()

    def wipe(self) -> None:
        """Lose all of JetStream: kill, remove its data, start empty on the same port."""
        self.kill()
        shutil.rmtree(self.store, ignore_errors=True)
        self.start()
