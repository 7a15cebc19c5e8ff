"""Weir itself as processes of its own: what `weir bridge` and `weir handlers` are in a cluster."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from bridge.settings import variable
from handlers.cli.devstack.loopback import answers
from handlers.cli.devstack.process import Process, reserve_port

Component = Literal["bridge", "handlers"]
Setting = str | int | float

REPOSITORY = Path(__file__).resolve().parents[3]

READY_SECONDS = 40.0
PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "SSL_CERT_FILE", "SYSTEMROOT")
"""All that a process of Weir gets of our environment, so that no test depends on it."""


def shipped_manifests(repository: Path = REPOSITORY) -> list[Path]:
    """Return the CRDs and the roles that we ship, as files to apply."""
    roles = repository / "charts" / "roles"
    return [*sorted((repository / "crds").glob("*.yaml")), *sorted(roles.glob("*.yaml"))]


class WeirProcess(Process):
    """One bridge or one handlers process, with its own HTTP port and log."""

    def __init__(
        self,
        component: Component,
        name: str,
        *,
        directory: Path,
        kubeconfig: Path,
        nats_url: str,
        settings: Mapping[str, Setting],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """
        Take settings by field name of `bridge.settings`, and more of the environment.

        Nothing is started yet.
        """
        http_port = reserve_port()
        self.http_url = f"http://127.0.0.1:{http_port}"
        given: dict[str, Setting] = {
            "nats_url": nats_url,
            "http": f"127.0.0.1:{http_port}",
            "identity": name,
            **settings,
        }
        everything = {key: os.environ[key] for key in PASSED_ON if key in os.environ}
        everything |= {variable(field): str(value) for field, value in given.items()}
        everything["KUBECONFIG"] = str(kubeconfig)
        scratch = directory / "tmp"  # gone with the run, whatever a killed process leaves there
        scratch.mkdir(mode=0o700, exist_ok=True)
        everything["TMPDIR"] = str(scratch)
        everything |= environment or {}
        super().__init__(
            name,
            [sys.executable, "-m", "handlers", component],
            log=directory / f"{name}.log",
            environment=everything,
            directory=REPOSITORY,
        )
        self.component: Component = component

    def wait_ready(self, within_seconds: float = READY_SECONDS) -> None:
        """Return when /readyz says yes; raise ProcessError when it does not in time."""
        self.wait_until(lambda: answers(self.http_url + "/readyz"), within_seconds)

    def restart(self) -> None:
        """SIGKILL, then start with the same settings."""
        self.kill()
        self.start()
