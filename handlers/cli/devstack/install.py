"""
The project's own install step: builds of the backends from Go modules, once, into the cache.

A package is built in a folder of its own and renamed into place, under a lock, so that a cut-off
build is never taken for a whole one and two runs at once build it once.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from handlers.cli.devstack import versions
from handlers.cli.devstack.process import Process, remove_at_the_end, remove_directory
from handlers.cli.devstack.progress import Say, heartbeat, say

BUILD_SECONDS = 3600.0
"""A cold build of Kubernetes takes 4.5 minutes on two cores; far more is a hang."""

_GATEWAY_API_FILES = (
    "gateway.networking.k8s.io_gateways.yaml",
    "gateway.networking.k8s.io_httproutes.yaml",
)
_KUBERNETES_BINARIES = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")


class InstallError(Exception):
    """A package cannot be built here; one line says what is missing and how to get it."""


class Package(Struct, frozen=True, kw_only=True):
    """Files that belong to one release of one program."""

    name: str
    version: str
    oldest: str
    """The oldest release that serves, where it is found and not built."""
    files: tuple[str, ...]
    takes: str
    """How long a cold build takes, for the progress line."""
    build: Callable[[Go, Path], None]
    """`build(go, folder)`: put `files` into the folder."""


class Go:
    """The go command, run with its output in a log and its processes ended with ours."""

    def __init__(self, command: Path, work: Path) -> None:
        """Take the go command and an empty folder for modules that are written for a build."""
        self.command = command
        self.work = work
        self.log = work / "build.log"
        # Its scratch files go with the folder, also when it is killed.
        self.environment = {**os.environ, "CGO_ENABLED": "0", "GOTMPDIR": str(work)}
        if not self.environment.get("HOME"):  # Go looks for its caches nowhere else
            self.environment["HOME"] = str(_home())

    def run(self, *arguments: str, directory: Path | None = None, into: Path | None = None) -> None:
        """Run go; raise InstallError with the last line of its output when it fails."""
        environment = self.environment if into is None else self.environment | {"GOBIN": str(into)}
        process = Process(
            "go",
            [str(self.command), *arguments],
            log=self.log,
            environment=environment,
            directory=directory or self.work,
        )
        process.start()
        try:
            code = process.wait(BUILD_SECONDS)
        finally:
            process.kill()
        if code != 0:
            raise InstallError(
                f"`go {' '.join(arguments[:2])}` failed with {code}: "
                f"{(process.log_tail(1) or 'no output')[:500]}"
            )

    def module(self, name: str, version: str) -> dict[str, str]:
        """Download a module; return what go says of it (`Dir`, `GoMod`)."""
        done = subprocess.run(  # noqa: S603 - the go command
            [str(self.command), "mod", "download", "-json", f"{name}@v{version}"],
            cwd=self.work,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise InstallError(
                f"module {name}@v{version} cannot be downloaded: {_error_of(done.stdout)}"
            )
        answer: dict[str, str] = json.loads(done.stdout)
        return answer


def cache_directory(environment: Mapping[str, str]) -> Path:
    """Return the project's own cache: WEIR_CACHE_DIR, else `~/.cache/weir`."""
    given = environment.get("WEIR_CACHE_DIR")
    return Path(given).expanduser() if given else _home() / ".cache" / "weir"


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError as exc:
        raise InstallError(
            "this user has no home folder, where WEIR_CACHE_DIR and Go's caches are by default: "
            "set HOME to a folder that can be written and has 5 GB free"
        ) from exc


def folder_of(package: Package, cache: Path) -> Path:
    """Return the package's folder in the cache, stamped with version and platform."""
    system = f"{platform.system()}-{platform.machine()}".lower()
    return cache / f"{package.name}-{package.version}-{system}"


def install(package: Package, environment: Mapping[str, str], tell: Say = say) -> Path:
    """
    Return the folder that holds the package's files, built now unless it is there.

    Raises InstallError in one line.
    """
    cache = cache_directory(environment)
    folder = folder_of(package, cache)
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with _lock(cache / f"{folder.name}.lock", package, tell):
            if not folder.exists():
                _build(package, folder, find_go([package], environment), tell)
    except OSError as exc:
        raise InstallError(
            f"{package.name} cannot be put into {cache}: {exc.strerror}; set WEIR_CACHE_DIR to a "
            f"folder that can be written and has 5 GB free"
        ) from exc
    return folder


def find_go(packages: Sequence[Package], environment: Mapping[str, str]) -> Path:
    """
    Return the go command that can build the packages.

    Raises InstallError with all that is missing, at once, when there is none, or it is too old.
    """
    found = shutil.which("go", path=environment.get("PATH"))
    builds = ", ".join(f"{package.name} {package.version}" for package in packages)
    programs = "; ".join(f"{', '.join(p.files)} (>= {p.oldest})" for p in packages)
    remedy = (
        f"Go >= {versions.GO_OLDEST} is needed to build {builds}: install it, or have the programs "
        f"in the folder KUBEBUILDER_ASSETS or on PATH: {programs}"
    )
    if found is None:
        raise InstallError(remedy)
    said = subprocess.run(  # noqa: S603 - the go command
        [found, "env", "GOVERSION"], capture_output=True, text=True, check=False
    ).stdout.strip()
    # From 1.21 on, Go fetches the tool chain that a module asks for.
    if versions.as_numbers(said.removeprefix("go")) < (1, 21):
        raise InstallError(f"{remedy} (here is {said or 'none that works'})")
    return Path(found)


def _build(package: Package, folder: Path, go: Path, tell: Say) -> None:
    names = ", ".join(package.files)
    tell(f"building {names} {package.version} from Go modules, {package.takes}, once ...")
    begun = time.monotonic()
    prefix = f"{folder.name}.building-"
    for left in folder.parent.glob(f"{prefix}*"):  # of a build on a machine that crashed
        shutil.rmtree(left, ignore_errors=True)
    # A name of its own: the reaper of a killed run may still be removing that one's folder.
    building = Path(tempfile.mkdtemp(prefix=prefix, dir=folder.parent))
    remove_at_the_end(building)
    work, result = building / "work", building / "result"
    work.mkdir()
    result.mkdir()
    try:
        with heartbeat(f"building {package.name} {package.version}", tell):
            package.build(Go(go, work), result)
        missing = [name for name in package.files if not (result / name).exists()]
        if missing:
            raise InstallError(f"the build of {package.name} made no {', '.join(missing)}")
        result.rename(folder)
    finally:
        remove_directory(building)
    tell(f"built {package.name} {package.version} in {time.monotonic() - begun:.0f} s: {folder}")


@contextmanager
def _lock(path: Path, package: Package, tell: Say) -> Iterator[None]:
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell(f"another run is building {package.name} {package.version}; waiting for it ...")
            with heartbeat(f"waiting for {package.name} {package.version}", tell):
                fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _error_of(answer: str) -> str:
    try:
        return str(json.loads(answer)["Error"]).strip().splitlines()[-1]
    except (ValueError, KeyError, IndexError):
        return "go gave no reason"


def _build_kubernetes(go: Go, folder: Path) -> None:
    """
    Build the control plane from its published module.

    `k8s.io/kubernetes` asks for its staging modules at v0.0.0, replaced by folders that only its
    repository has; here they are replaced by the releases published with it (v0.36.3 for v1.36.3).
    """
    version = versions.KUBERNETES
    staging = "v0." + version.split(".", 1)[1]
    source = Path(go.module("k8s.io/kubernetes", version)["GoMod"]).read_text()
    directives = re.findall(r"^(?:go|godebug) .*$", source, re.MULTILINE)
    replaced = sorted(set(re.findall(r"(k8s\.io/[a-z-]+) => \./staging", source)))
    commands = [f"k8s.io/kubernetes/cmd/{name}" for name in _KUBERNETES_BINARIES]
    lines = [
        "module weir.test/controlplane",
        *directives,
        f"require k8s.io/kubernetes v{version}",
        *(f"replace {name} => {name} {staging}" for name in replaced),
        *(f"tool {command}" for command in commands),
    ]
    (go.work / "go.mod").write_text("\n".join(lines) + "\n")
    go.run("mod", "tidy")
    # Without these the server calls itself v0.0.0-master and clients refuse it.
    stamp = "k8s.io/component-base/version"
    major, minor, _ = version.split(".")
    flags = (
        f"-s -w -X {stamp}.gitVersion=v{version} "
        f"-X {stamp}.gitMajor={major} -X {stamp}.gitMinor={minor}"
    )
    go.run("build", "-trimpath", "-ldflags", flags, "-o", f"{folder}/", *commands)


def _build_etcd(go: Go, folder: Path) -> None:
    """Build etcd; `go install` refuses it because its go.mod has replace lines."""
    go.run("mod", "init", "weir.test/etcd")
    go.run("get", f"go.etcd.io/etcd/server/v3@v{versions.ETCD}")
    go.run(
        "build",
        "-trimpath",
        "-ldflags",
        "-s -w",
        "-o",
        f"{folder}/etcd",
        "go.etcd.io/etcd/server/v3",
    )


def _build_kwok(go: Go, folder: Path) -> None:
    go.run(
        "install",
        "-trimpath",
        "-ldflags",
        "-s -w",
        f"sigs.k8s.io/kwok/cmd/kwok@v{versions.KWOK}",
        into=folder,
    )


def _build_nats_server(go: Go, folder: Path) -> None:
    go.run(
        "install",
        "-trimpath",
        "-ldflags",
        "-s -w",
        f"github.com/nats-io/nats-server/v2@v{versions.NATS_SERVER}",
        into=folder,
    )


def _fetch_gateway_api(go: Go, folder: Path) -> None:
    """Copy the CRDs of the standard channel out of their module."""
    module = go.module("sigs.k8s.io/gateway-api", versions.GATEWAY_API)
    for name in _GATEWAY_API_FILES:
        shutil.copyfile(Path(module["Dir"]) / "config" / "crd" / "standard" / name, folder / name)


KUBERNETES = Package(
    name="kubernetes",
    version=versions.KUBERNETES,
    oldest=versions.KUBERNETES_OLDEST,
    files=_KUBERNETES_BINARIES,
    takes="about 5 min",
    build=_build_kubernetes,
)
ETCD = Package(
    name="etcd",
    version=versions.ETCD,
    oldest=versions.ETCD_OLDEST,
    files=("etcd",),
    takes="about 30 s",
    build=_build_etcd,
)
KWOK = Package(
    name="kwok",
    version=versions.KWOK,
    oldest=versions.KWOK_OLDEST,
    files=("kwok",),
    takes="about 1 min",
    build=_build_kwok,
)
NATS_SERVER = Package(
    name="nats-server",
    version=versions.NATS_SERVER,
    oldest=versions.NATS_SERVER_OLDEST,
    files=("nats-server",),
    takes="about 20 s",
    build=_build_nats_server,
)
GATEWAY_API = Package(
    name="gateway-api",
    version=versions.GATEWAY_API,
    oldest=versions.GATEWAY_API,
    files=_GATEWAY_API_FILES,
    takes="a few seconds",
    build=_fetch_gateway_api,
)
"""Two CRDs, which tests install; no program."""
