"""A cluster that somebody else runs, known by its kubeconfig: WEIR_TEST_KUBECONFIG, or k3s."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from pathlib import Path

from handlers.cli.devstack import access
from handlers.cli.devstack.cluster import Cluster, role_binding
from handlers.cli.devstack.process import remove_directory, run_directory

NAMESPACE = "weir-dev"
TOKEN_SECONDS = "24h"  # noqa: S105 - a duration

_USERS = (access.BRIDGE, access.HANDLERS)


class BorrowedCluster(Cluster):
    """
    A cluster of somebody else; Weir's two users are service accounts there.

    `stop` removes accounts and bindings. The CRDs stay: with them would go everybody's resources.
    """

    def __init__(
        self, kubeconfig: Path, kubectl_program: Path, *, manifests: Sequence[Path] = ()
    ) -> None:
        """Take an administrator's kubeconfig; nothing is changed yet."""
        super().__init__(kubectl_program)
        self.directory = run_directory("borrowed")
        self.kubeconfig().touch(mode=0o600)
        self.kubeconfig().write_text(kubeconfig.expanduser().read_text())
        self.manifests = tuple(manifests)
        self._tokens: dict[str, str] = {}
        self._authority = b""

    def start(self) -> None:
        """Apply CRDs and roles, and make the two users."""
        view = self.kubectl("config", "view", "--minify", "--raw", "--flatten", "-o", "json")
        seen = json.loads(view.stdout)["clusters"][0]["cluster"]
        self.url = seen["server"]
        self._authority = base64.b64decode(seen.get("certificate-authority-data", ""))
        self.apply(self.manifests)
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        self.kubectl("apply", "-f", "-", document=namespace)
        for user in _USERS:
            account = {"kind": "ServiceAccount", "name": user, "namespace": NAMESPACE}
            metadata = {"name": user, "namespace": NAMESPACE}
            self.kubectl(
                "apply",
                "-f",
                "-",
                document=[
                    {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
                    role_binding(user, account),
                ],
            )
            made = self.kubectl(
                "create", "token", user, "-n", NAMESPACE, f"--duration={TOKEN_SECONDS}"
            )
            self._tokens[user] = made.stdout.strip()
            access.write_kubeconfig(
                self.kubeconfig(user),
                server=self.url,
                token=self._tokens[user],
                authority=self._authority,
            )

    def stop(self) -> None:
        """Remove accounts and bindings."""
        self.kubectl("delete", "clusterrolebinding", *_USERS, "--ignore-not-found", check=False)
        self.kubectl(
            "delete", "namespace", NAMESPACE, "--ignore-not-found", "--wait=false", check=False
        )
        remove_directory(self.directory)

    def token(self, user: str) -> str:
        """Return the token of one of Weir's two users."""
        return self._tokens[user]

    def authority(self) -> bytes:
        """Return the PEM that the kubeconfig names."""
        return self._authority
