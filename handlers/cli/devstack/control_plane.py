"""
A real Kubernetes control plane on loopback with a simulated GPU fleet, for one run.

etcd, kube-apiserver, kube-controller-manager, kube-scheduler and KWOK, on ports and data of their
own; RBAC and the audit log on. CRDs and roles are applied before the controllers start: the garbage
collector learns of later kinds only by its discovery every 30 s.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from handlers.cli.devstack import access
from handlers.cli.devstack.cluster import Cluster, role_binding
from handlers.cli.devstack.etcd import Etcd
from handlers.cli.devstack.fleet import STAGES, Fleet, nodes, storage_class
from handlers.cli.devstack.loopback import read
from handlers.cli.devstack.process import (
    POLL_SECONDS,
    Process,
    ProcessError,
    remove_directory,
    reserve_port,
    run_directory,
)

READY_SECONDS = 60.0
RBAC_GROUP = "rbac.authorization.k8s.io"

CONTROLLER_MANAGER = "kube-controller-manager"
SCHEDULER = "kube-scheduler"
KWOK = "kwok"
CONTROLLERS = (CONTROLLER_MANAGER, SCHEDULER, KWOK)


class Binaries(Struct, frozen=True, kw_only=True):
    """Where the parts of the control plane are."""

    etcd: Path
    kube_apiserver: Path
    kube_controller_manager: Path
    kube_scheduler: Path
    kwok: Path
    kubectl: Path


class ControlPlane(Cluster):
    """One control plane. `start` returns when the API server and all nodes are ready."""

    def __init__(
        self,
        binaries: Binaries,
        *,
        directory: Path | None = None,
        fleet: Fleet | None = None,
        controllers: Sequence[str] = CONTROLLERS,
        manifests: Sequence[Path] = (),
        api_server_flags: Sequence[str] = (),
        controller_manager_flags: Sequence[str] = (),
    ) -> None:
        """
        Prepare the run's directory and every process; nothing is started yet.

        `controllers` are those of CONTROLLERS that run; `manifests` are files or folders that are
        applied as soon as the API server answers.
        """
        super().__init__(binaries.kubectl)
        self._owns_directory = directory is None
        self.directory = directory or run_directory("kube")
        self.directory.mkdir(parents=True, exist_ok=True)
        self.fleet = fleet or Fleet()
        self.manifests = tuple(manifests)
        self.binaries = binaries
        self.users = access.make_users()
        self.port = reserve_port()
        self.url = f"https://127.0.0.1:{self.port}"
        self.audit_log = self.directory / "audit.log"
        self.etcd = Etcd(binaries.etcd, self.directory, name="kube-etcd")
        self.api_server = self._api_server(api_server_flags)
        made = {
            CONTROLLER_MANAGER: self._controller_manager(controller_manager_flags),
            SCHEDULER: self._scheduler(),
            KWOK: self._kwok(),
        }
        self.controllers = {name: made[name] for name in controllers}

    # ------------------------------------------------------------------ start and stop

    def start(self) -> None:
        """Start everything; on failure, stop what was started and raise ProcessError."""
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End every process, and remove the run's directory unless it was given."""
        for process in (*self.controllers.values(), self.api_server):
            process.kill()
        self.etcd.kill()
        if self._owns_directory:
            remove_directory(self.directory)

    def _start(self) -> None:
        self._write_files()
        self.etcd.start()
        self.api_server.start()
        self._wait_for_api_server()
        self._write_kubeconfigs()
        bindings = [
            role_binding(user, {"apiGroup": RBAC_GROUP, "kind": "User", "name": user})
            for user in (access.BRIDGE, access.HANDLERS)
        ]
        first = [*bindings, storage_class(), *nodes(self.fleet)]
        self.kubectl("create", "-f", "-", document=first)
        for name in (SCHEDULER, KWOK):
            if name in self.controllers:
                self.controllers[name].start()
        self.apply(self.manifests)
        if CONTROLLER_MANAGER in self.controllers:
            self.controllers[CONTROLLER_MANAGER].start()
        if KWOK in self.controllers:
            self._wait_for_nodes()

    # ------------------------------------------------------------------ access

    def token(self, user: str) -> str:
        """Return the static token of a user of `access`."""
        return self.users[user].token

    def authority(self) -> bytes:
        """Return the PEM by which the API server's certificate is verified."""
        return (self.directory / "pki" / "apiserver.crt").read_bytes()

    def get(self, path: str) -> dict[str, Any]:
        """Return what the API server answers to an administrator's GET of a URL path, decoded."""
        answer: dict[str, Any] = json.loads(self._read(path))
        return answer

    def _read(self, path: str) -> bytes:
        return read(
            self.url + path,
            headers={
                "Authorization": f"Bearer {self.token(access.ADMIN)}",
                "Accept": "application/json",
            },
            authority=self.authority(),
        )

    # ------------------------------------------------------------------ faults

    def pause(self, *names: str) -> None:
        """SIGSTOP the named controllers, or all of them."""
        for name in names or self.controllers:
            self.controllers[name].pause()

    def resume(self, *names: str) -> None:
        """SIGCONT the named controllers, or all of them."""
        for name in names or self.controllers:
            self.controllers[name].resume()

    @contextmanager
    def paused(self, *names: str) -> Iterator[None]:
        """Keep the named controllers, or all of them, paused for the length of a block."""
        self.pause(*names)
        try:
            yield
        finally:
            self.resume(*names)

    def restart_api_server(self) -> None:
        """SIGKILL the API server and start it on the same port; data and certificate stay."""
        self.api_server.kill()
        self.start_api_server()

    def start_api_server(self) -> None:
        """Start the API server again after `api_server.kill()`, and return when it is ready."""
        self.api_server.start()
        self._wait_for_api_server()

    # ------------------------------------------------------------------ parts

    def _api_server(self, flags: Sequence[str]) -> Process:
        pki = self.directory / "pki"
        return Process(
            "kube-apiserver",
            [
                str(self.binaries.kube_apiserver),
                f"--etcd-servers={self.etcd.url}",
                f"--secure-port={self.port}",
                "--bind-address=127.0.0.1",
                "--advertise-address=127.0.0.1",
                "--endpoint-reconciler-type=none",
                f"--cert-dir={pki}",
                f"--service-account-key-file={pki / 'sa.key'}",
                f"--service-account-signing-key-file={pki / 'sa.key'}",
                "--service-account-issuer=https://kubernetes.default.svc",
                "--service-cluster-ip-range=10.96.0.0/16",
                "--authorization-mode=RBAC,Node",
                f"--token-auth-file={self.directory / 'tokens.csv'}",
                "--allow-privileged",
                # Pods of the simulated fleet mount no tokens.
                "--disable-admission-plugins=ServiceAccount",
                f"--audit-policy-file={self.directory / 'audit-policy.yaml'}",
                f"--audit-log-path={self.audit_log}",
                "--audit-log-maxsize=10000",
                *flags,
            ],
            log=self.directory / "kube-apiserver.log",
        )

    def _controller_manager(self, flags: Sequence[str]) -> Process:
        return Process(
            CONTROLLER_MANAGER,
            [
                str(self.binaries.kube_controller_manager),
                f"--kubeconfig={self.kubeconfig(access.CONTROLLERS)}",
                f"--service-account-private-key-file={self.directory / 'pki' / 'sa.key'}",
                "--leader-elect=false",
                "--bind-address=127.0.0.1",
                f"--secure-port={reserve_port()}",
                f"--cert-dir={self.directory / 'pki' / 'controller-manager'}",
                "--concurrent-deployment-syncs=20",
                "--concurrent-gc-syncs=20",
                "--kube-api-qps=500",
                "--kube-api-burst=1000",
                *flags,
            ],
            log=self.directory / f"{CONTROLLER_MANAGER}.log",
        )

    def _scheduler(self) -> Process:
        return Process(
            SCHEDULER,
            [
                str(self.binaries.kube_scheduler),
                f"--kubeconfig={self.kubeconfig(access.SCHEDULER)}",
                "--leader-elect=false",
                "--bind-address=127.0.0.1",
                f"--secure-port={reserve_port()}",
                f"--cert-dir={self.directory / 'pki' / 'scheduler'}",
                "--kube-api-qps=500",
                "--kube-api-burst=1000",
            ],
            log=self.directory / f"{SCHEDULER}.log",
        )

    def _kwok(self) -> Process:
        return Process(
            KWOK,
            [
                str(self.binaries.kwok),
                f"--kubeconfig={self.kubeconfig(access.FLEET)}",
                f"--config={STAGES}",
                "--manage-all-nodes",
                "--node-lease-duration-seconds=40",
                "--cidr=10.128.0.0/12",
                f"--server-address=127.0.0.1:{reserve_port()}",
            ],
            log=self.directory / f"{KWOK}.log",
            environment={"HOME": str(self.directory)},  # no settings of the user's own kwok
        )

    def _write_files(self) -> None:
        pki = self.directory / "pki"
        pki.mkdir(exist_ok=True, mode=0o700)
        (pki / "sa.key").write_text(access.signing_key())
        (self.directory / "tokens.csv").write_text(access.token_file([*self.users.values()]))
        (self.directory / "audit-policy.yaml").write_text(access.audit_policy())

    def _write_kubeconfigs(self) -> None:
        authority = self.authority()
        for user in self.users.values():
            access.write_kubeconfig(
                self.kubeconfig(user.name),
                server=self.url,
                token=user.token,
                authority=authority,
            )

    # ------------------------------------------------------------------ readiness

    def _wait_for_api_server(self) -> None:
        self.api_server.wait_until(self._api_server_is_ready, READY_SECONDS)

    def _api_server_is_ready(self) -> bool:
        try:
            return self._read("/readyz") == b"ok"
        except OSError:  # refused, reset, not the certificate yet, or an HTTP error
            return False

    def _wait_for_nodes(self) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while (ready := self._ready_nodes()) < self.fleet.nodes:
            if time.monotonic() > deadline:
                raise ProcessError(
                    f"{ready} of {self.fleet.nodes} nodes are Ready after {READY_SECONDS:g} s:\n"
                    f"{self.controllers[KWOK].log_tail()}"
                )
            time.sleep(POLL_SECONDS * 5)

    def _ready_nodes(self) -> int:
        return sum(
            condition["type"] == "Ready" and condition["status"] == "True"
            for node in self.get("/api/v1/nodes")["items"]
            for condition in node["status"].get("conditions", ())
        )
