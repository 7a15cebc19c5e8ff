"""A Kubernetes API server as the stack and the tests use it: users, kubectl and plain GETs."""

from __future__ import annotations

import json
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from handlers.cli.devstack import access
from handlers.cli.devstack.process import ProcessError

KUBECTL_SECONDS = 120.0

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

Document = Mapping[str, Any]


class Cluster(ABC):
    """Kubeconfigs by user in one directory, and what can be asked with them."""

    url: str
    directory: Path

    def __init__(self, kubectl_program: Path) -> None:
        """Take the real kubectl."""
        self._kubectl_program = kubectl_program

    @abstractmethod
    def start(self) -> None:
        """Return when the API server answers and knows our kinds, roles and users."""

    @abstractmethod
    def stop(self) -> None:
        """End or undo what `start` did."""

    @abstractmethod
    def token(self, user: str) -> str:
        """Return the bearer token of a user of `access`."""

    @abstractmethod
    def authority(self) -> bytes:
        """Return the PEM by which the API server's certificate is verified; empty if none."""

    def kubeconfig(self, user: str = access.ADMIN) -> Path:
        """Return the kubeconfig file of a user of `access`."""
        return self.directory / f"{user.removeprefix('weir-').replace(':', '-')}.kubeconfig"

    def kubeconfig_through(self, server: str, user: str = access.ADMIN) -> Path:
        """Return a kubeconfig of the user for another way to this API server, such as a proxy."""
        name = f"{self.kubeconfig(user).stem}-{server.rpartition(':')[2].strip('/')}.kubeconfig"
        return access.write_kubeconfig(
            self.directory / name,
            server=server,
            token=self.token(user),
            authority=self.authority() if server.startswith("https:") else b"",
        )

    def kubectl(
        self,
        *arguments: str,
        user: str = access.ADMIN,
        document: Document | Sequence[Document] | None = None,
        check: bool = True,
    ) -> subprocess.CompletedProcess[str]:
        """
        Run the real kubectl as a user; a document (or several) goes to its standard input.

        Raises ProcessError with what kubectl said when it fails, unless `check` is false.
        """
        text = None
        if document is not None:
            several = [document] if isinstance(document, Mapping) else document
            # As JSON, whose strings are strings: what YAML 1.1 leaves bare may be a number in 1.2.
            text = "\n---\n".join(json.dumps(one) for one in several)
        done = subprocess.run(  # noqa: S603 - the real kubectl
            [
                str(self._kubectl_program),
                f"--kubeconfig={self.kubeconfig(user)}",
                f"--cache-dir={self.directory / 'kubectl-cache'}",
                *arguments,
            ],
            input=text or "",
            capture_output=True,
            text=True,
            timeout=KUBECTL_SECONDS,
            check=False,
        )
        if check and done.returncode:
            raise ProcessError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done

    def get(self, path: str) -> dict[str, Any]:
        """Return what the API server answers to an administrator's GET of a URL path, decoded."""
        answer: dict[str, Any] = json.loads(self.kubectl("get", "--raw", path).stdout)
        return answer

    def apply(self, manifests: Sequence[Path]) -> None:
        """Apply files, and return when the CRDs among them are served."""
        for path in manifests:
            self.kubectl("apply", "--server-side", "-f", str(path))
        if self.get(CRDS)["items"]:
            self.kubectl("wait", "crd", "--all", "--for=condition=Established", "--timeout=30s")


def role_binding(user: str, subject: Mapping[str, str]) -> dict[str, Any]:
    """Return the ClusterRoleBinding that gives a subject the role that we ship for a user."""
    group = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": user},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": user},
        "subjects": [dict(subject)],
    }
