from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from handlers.cli.devstack import locate, versions
from handlers.cli.devstack.install import ETCD, KUBERNETES, KWOK, folder_of
from handlers.cli.devstack.weir import REPOSITORY

ALL = [locate.CONTROL_PLANE, locate.NATS, locate.ETCD_SERVICE]


def a_program(folder: Path, name: str, version: str) -> Path:
    """A stand-in that answers `--version` as the real program does."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{name} version {version}'\n")
    path.chmod(0o755)
    return path


def bare(tmp_path: Path, **more: str) -> dict[str, str]:
    """The environment of a machine that has nothing."""
    return {"PATH": str(tmp_path / "empty"), "WEIR_CACHE_DIR": str(tmp_path / "cache"), **more}


def no_docker() -> bool:
    return False


def docker() -> bool:
    return True


@pytest.mark.parametrize("service", ALL, ids=lambda service: service.variable)
def test_an_address_in_the_environment_wins(service: locate.Service, tmp_path: Path) -> None:
    environment = bare(tmp_path, **{service.variable: "somewhere"})

    found = locate.locate(service, environment, docker_answers=docker)

    assert found == locate.Address("somewhere")


@pytest.mark.parametrize("service", ALL, ids=lambda service: service.variable)
def test_a_pinned_address_that_is_not_set_is_told(service: locate.Service, tmp_path: Path) -> None:
    with pytest.raises(locate.MissingBackend, match=f"asks for {service.variable}"):
        locate.locate(service, bare(tmp_path, WEIR_TEST_BACKEND="env"))


def test_a_pinned_docker_without_a_daemon_is_told(tmp_path: Path) -> None:
    environment = bare(tmp_path, WEIR_TEST_BACKEND="docker")

    with pytest.raises(locate.MissingBackend, match="no Docker daemon answers"):
        locate.locate(locate.NATS, environment, docker_answers=no_docker)


def test_an_unknown_source_is_told(tmp_path: Path) -> None:
    with pytest.raises(locate.MissingBackend, match="none of auto, env, native, docker"):
        locate.locate(locate.NATS, bare(tmp_path, WEIR_TEST_BACKEND="podman"))


def test_docker_is_asked_only_where_no_program_is_found(tmp_path: Path) -> None:
    environment = bare(tmp_path)
    assert locate.locate(locate.ETCD_SERVICE, environment, docker_answers=docker) == (
        locate.Container(locate.ETCD_SERVICE.image)
    )

    program = a_program(tmp_path / "bin", "etcd", "3.6.1")
    environment["PATH"] = str(tmp_path / "bin")
    assert locate.locate(locate.ETCD_SERVICE, environment, docker_answers=docker) == {
        "etcd": program
    }


def test_assets_come_before_path_and_path_before_the_cache(tmp_path: Path) -> None:
    environment = bare(
        tmp_path, KUBEBUILDER_ASSETS=str(tmp_path / "assets"), PATH=str(tmp_path / "path")
    )
    places = [
        tmp_path / "assets",
        tmp_path / "path",
        folder_of(ETCD, tmp_path / "cache"),
    ]
    programs = [a_program(place, "etcd", "3.6.1") for place in places]

    for program in programs:
        assert locate.find(ETCD, environment) == {"etcd": program}
        program.unlink()
    assert locate.find(ETCD, environment) is None


def test_a_program_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    old = a_program(tmp_path / "path", "etcd", "3.4.23")
    good = a_program(folder_of(ETCD, tmp_path / "cache"), "etcd", "3.7.3")
    environment = bare(tmp_path, PATH=str(old.parent))

    assert locate.find(ETCD, environment) == {"etcd": good}


def test_the_parts_of_a_release_come_from_one_place(tmp_path: Path) -> None:
    assets = tmp_path / "assets"
    a_program(assets, "kube-apiserver", "1.34.1")  # as envtest has it: without controllers
    cache = folder_of(KUBERNETES, tmp_path / "cache")
    whole = {name: a_program(cache, name, "1.36.3") for name in KUBERNETES.files}

    assert locate.find(KUBERNETES, bare(tmp_path, KUBEBUILDER_ASSETS=str(assets))) == whole


def test_the_locator_says_in_one_line_what_is_missing_and_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(locate.MissingBackend) as caught:
        locate.locate(locate.CONTROL_PLANE, bare(tmp_path), docker_answers=no_docker)

    assert str(caught.value) == (
        f"a Kubernetes control plane is missing: Go >= 1.26 is needed to build "
        f"etcd {versions.ETCD}, kubernetes {versions.KUBERNETES}, kwok {versions.KWOK}: "
        f"install it, or have the programs in the folder KUBEBUILDER_ASSETS or on PATH: "
        f"etcd (>= 3.5); kube-apiserver, kube-controller-manager, kube-scheduler (>= 1.34); "
        f"kwok (>= 0.8)"
    )


def test_five_programs_are_a_control_plane(tmp_path: Path) -> None:
    assets = tmp_path / "assets"
    programs = {
        name: a_program(assets, name, "99.0.0")
        for package in (ETCD, KUBERNETES, KWOK)
        for name in package.files
    }
    assert len(programs) == 5

    environment = bare(tmp_path, KUBEBUILDER_ASSETS=str(assets))

    found = locate.locate(locate.CONTROL_PLANE, environment, docker_answers=no_docker)
    assert found == programs


def test_weir_dev_on_a_bare_machine_says_one_line_and_ends_with_1(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "handlers", "dev"],
        cwd=REPOSITORY,
        env=bare(tmp_path, WEIR_TEST_BACKEND="native"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 1
    assert done.stdout == ""
    [line] = done.stderr.splitlines()
    assert line.startswith("weir: a Kubernetes control plane is missing: Go >= 1.26 is needed")


def test_the_kubectl_of_the_virtual_environment_comes_before_a_wrapper_on_path(
    tmp_path: Path,
) -> None:
    wrapper = a_program(tmp_path, "kubectl", "1.0.0")

    found = locate.kubectl(bare(tmp_path, PATH=str(wrapper.parent)))

    assert found == Path(sysconfig.get_path("scripts")) / "kubectl"


def test_a_docker_daemon_that_is_not_there_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path / 'no.sock'}")

    assert not locate.docker_daemon_answers()
