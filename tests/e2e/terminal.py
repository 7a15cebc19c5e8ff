"""`weir` as a user types it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from handlers.cli.devstack.weir import REPOSITORY
from tests.e2e.stage import Stage


class Said(NamedTuple):
    """What a command answered."""

    code: int
    out: str
    err: str


class Terminal:
    """Where `weir` is typed: a process of its own, with both backends named by the environment."""

    def __init__(self, nats_url: str, kubeconfig: Path | None = None, **variables: str) -> None:
        self._environment = {**os.environ, "WEIR_NATS_URL": nats_url, **variables}
        if kubeconfig is not None:
            self._environment["KUBECONFIG"] = str(kubeconfig)

    def weir(self, *words: str, typed: str = "") -> Said:
        """Return what `weir WORDS` says, given that on its standard input."""
        done = subprocess.run(
            [sys.executable, "-m", "handlers", *words],
            cwd=REPOSITORY,
            env=self._environment,
            input=typed,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Said(done.returncode, done.stdout, done.stderr)

    def does(self, *words: str) -> str:
        """Return what `weir WORDS` prints when it does what was asked."""
        said = self.weir(*words)
        assert said.code == 0, said.err
        return said.out


def weir_command(stage: Stage, *words: str) -> str:
    """Return what a command of ours prints to an administrator."""
    own = {"WEIR_OWN_NAMESPACE": stage.namespace}
    return Terminal(stage.weir.nats.url, stage.cluster.kubeconfig(), **own).does(*words)
