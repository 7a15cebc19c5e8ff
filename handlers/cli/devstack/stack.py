"""All of it for one run: control plane, fleet and NATS, and Weir with the roles that we ship."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from msgspec import Struct

from handlers.cli.devstack import access, locate
from handlers.cli.devstack.borrowed import BorrowedCluster
from handlers.cli.devstack.cluster import Cluster
from handlers.cli.devstack.containers import run_k3s, run_nats
from handlers.cli.devstack.control_plane import ControlPlane
from handlers.cli.devstack.fleet import STAGES, Fleet, nodes, storage_class
from handlers.cli.devstack.nats_server import NatsServer
from handlers.cli.devstack.process import Process, remove_directory, run_directory
from handlers.cli.devstack.progress import Say, say
from handlers.cli.devstack.weir import Component, Setting, WeirProcess, shipped_manifests


class Step(Struct, frozen=True):
    """Something that was done, and how long it took."""

    what: str
    seconds: float


class Stack:
    """The parts of one run. `start`, then `stop` on every way out."""

    cluster: Cluster
    nats_url: str

    def __init__(
        self,
        environment: Mapping[str, str],
        *,
        directory: Path | None = None,
        fleet: Fleet | None = None,
        tell: Say = say,
    ) -> None:
        """Take where data and logs go; without a directory, one that `stop` removes."""
        self.environment = environment
        self.fleet = fleet or Fleet()
        self.directory = directory or run_directory("dev")
        self.weir: list[WeirProcess] = []
        self.parts: list[Process] = []
        self.steps: list[Step] = []
        self._tell = tell
        self._ends = ExitStack()
        if directory is None:
            self._ends.callback(remove_directory, self.directory)
        else:
            directory.mkdir(parents=True, exist_ok=True)

    def start(self, settings: Mapping[str, Setting] | None = None) -> None:
        """
        Start everything; return when the bridge and the handlers are ready.

        Raises MissingBackend, or ProcessError for what did not start.
        """
        cluster_from = locate.locate(locate.CONTROL_PLANE, self.environment, tell=self._tell)
        nats_from = locate.locate(locate.NATS, self.environment, tell=self._tell)
        with self.step("NATS with JetStream"):
            self.nats_url = self._start_nats(nats_from)
        with self.step("Kubernetes control plane, CRDs and roles"):
            self.cluster = self._start_cluster(cluster_from)
        with self.step("weir bridge and weir handlers"):
            for component in ("bridge", "handlers"):
                self._start_weir(component, settings or {})
            for process in self.weir:
                process.wait_ready()

    def stop(self) -> None:
        """End everything, in the opposite order."""
        self._ends.close()

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        """Tell of a step and keep the time that it takes."""
        begun = time.monotonic()
        yield
        seconds = time.monotonic() - begun
        self.steps.append(Step(what, seconds))
        self._tell(f"  {what:<52} {seconds:6.1f} s")

    def ended(self) -> list[Process]:
        """Return the native processes that ended by themselves."""
        return [process for process in (*self.parts, *self.weir) if not process.is_running]

    def _start_nats(self, source: locate.Address | locate.Files | locate.Container) -> str:
        if isinstance(source, locate.Address):
            return source.value
        if isinstance(source, locate.Container):
            container = run_nats(source.image)
            self._ends.callback(container.stop)
            return container.address
        server = NatsServer(source["nats-server"], self.directory)
        self._ends.callback(server.kill)
        server.start()
        self.parts.append(server.process)
        return server.url

    def _start_cluster(self, source: locate.Address | locate.Files | locate.Container) -> Cluster:
        if isinstance(source, locate.Address):
            return self._borrow(Path(source.value))
        if isinstance(source, locate.Container):
            return self._start_k3s(source.image)
        plane = ControlPlane(
            locate.control_plane_binaries(source, self.environment),
            directory=self.directory,
            fleet=self.fleet,
            manifests=shipped_manifests(),
        )
        self._ends.callback(plane.stop)
        plane.start()
        self.parts += [plane.etcd.process, plane.api_server, *plane.controllers.values()]
        return plane

    def _borrow(self, kubeconfig: Path) -> Cluster:
        lent = BorrowedCluster(
            kubeconfig, locate.kubectl(self.environment), manifests=shipped_manifests()
        )
        self._ends.callback(lent.stop)
        lent.start()
        return lent

    def _start_k3s(self, image: str) -> Cluster:
        """Start k3s and the simulated fleet; its own node takes no pods: it cannot pull ours."""
        container = run_k3s(image, self.directory)
        self._ends.callback(container.stop)
        lent = self._borrow(Path(container.address))
        lent.kubectl("cordon", "--selector=node-role.kubernetes.io/control-plane")
        lent.kubectl("create", "-f", "-", document=nodes(self.fleet))
        lent.kubectl("apply", "-f", "-", document=storage_class())
        kwok = locate.installed(locate.FLEET, self.environment, self._tell)
        process = Process(
            "kwok",
            [
                str(kwok["kwok"]),
                f"--kubeconfig={lent.kubeconfig()}",
                f"--config={STAGES}",
                "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
                "--node-lease-duration-seconds=40",
            ],
            log=self.directory / "kwok.log",
        )
        self._ends.callback(process.kill)
        process.start()
        self.parts.append(process)
        return lent

    def _start_weir(self, component: Component, settings: Mapping[str, Setting]) -> None:
        user = access.BRIDGE if component == "bridge" else access.HANDLERS
        process = WeirProcess(
            component,
            component,
            directory=self.directory,
            kubeconfig=self.cluster.kubeconfig(user),
            nats_url=self.nats_url,
            settings=settings,
        )
        self._ends.callback(process.terminate)
        self.weir.append(process)
        process.start()
