from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from handlers.cli.devstack import versions
from handlers.cli.devstack.install import Go, InstallError, Package, folder_of, install
from tests.stack.eventually import PATIENCE_SECONDS, eventually
from tests.stack.runs import a_run, line_of


def a_go(tmp_path: Path, answer: str = "echo go1.99.0") -> dict[str, str]:
    """The environment of a machine whose `go` is a stand-in."""
    folder = tmp_path / "go-bin"
    folder.mkdir()
    go = folder / "go"
    go.write_text(f"#!/bin/sh\n{answer}\n")
    go.chmod(0o755)
    return {"PATH": str(folder), "WEIR_CACHE_DIR": str(tmp_path / "cache")}


def a_package(build: Callable[[Go, Path], None]) -> Package:
    return Package(
        name="tool",
        version="1.2.3",
        oldest="1.0",
        files=("tool",),
        takes="a moment",
        build=build,
    )


def unheard(_line: str) -> None:
    """Progress that this test says nothing about."""


def make_tool(_go: Go, folder: Path) -> None:
    (folder / "tool").write_text("made")


def test_a_package_is_built_once_and_told(tmp_path: Path) -> None:
    environment = a_go(tmp_path)
    package = a_package(make_tool)
    told: list[str] = []

    folder = install(package, environment, told.append)
    assert (folder / "tool").read_text() == "made"
    assert told[0] == "building tool 1.2.3 from Go modules, a moment, once ..."
    assert told[1].startswith("built tool 1.2.3 in ")

    assert install(package, environment, told.append) == folder
    assert len(told) == 2


def test_two_runs_at_once_build_once_and_the_second_says_that_it_waits(tmp_path: Path) -> None:
    environment = a_go(tmp_path)
    building, go_on = threading.Event(), threading.Event()
    builds: list[Path] = []

    def slow(go: Go, folder: Path) -> None:
        builds.append(folder)
        building.set()
        assert go_on.wait(PATIENCE_SECONDS)
        make_tool(go, folder)

    waits = threading.Event()

    def tell(line: str) -> None:
        if line.startswith("another run is building tool 1.2.3"):
            waits.set()

    package = a_package(slow)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(install, package, environment, tell)
        assert building.wait(PATIENCE_SECONDS)
        second = pool.submit(install, package, environment, tell)
        assert waits.wait(PATIENCE_SECONDS)
        go_on.set()
        assert first.result(PATIENCE_SECONDS) == second.result(PATIENCE_SECONDS)

    assert len(builds) == 1


def test_a_build_that_fails_leaves_nothing_that_looks_built(tmp_path: Path) -> None:
    environment = a_go(tmp_path)

    def fail(_go: Go, folder: Path) -> None:
        (folder / "tool").write_text("half")
        raise InstallError("no space left")

    with pytest.raises(InstallError, match="no space left"):
        install(a_package(fail), environment, unheard)

    folder = folder_of(a_package(fail), tmp_path / "cache")
    assert not folder.exists()
    assert [path.name for path in folder.parent.iterdir()] == [f"{folder.name}.lock"]
    assert (install(a_package(make_tool), environment, unheard) / "tool").read_text() == "made"


def test_what_a_killed_build_left_is_not_taken_for_a_package(tmp_path: Path) -> None:
    environment = a_go(tmp_path)
    package = a_package(make_tool)
    folder = folder_of(package, tmp_path / "cache")
    half = folder.with_name(f"{folder.name}.building-x") / "result"
    half.mkdir(parents=True)
    (half / "tool").write_text("half")

    assert (install(package, environment, unheard) / "tool").read_text() == "made"
    assert not half.exists()


def test_a_build_that_makes_too_little_is_refused(tmp_path: Path) -> None:
    environment = a_go(tmp_path)

    with pytest.raises(InstallError, match="the build of tool made no tool"):
        install(a_package(lambda _go, _folder: None), environment, unheard)


def test_an_old_go_is_refused_with_the_version_that_is_needed(tmp_path: Path) -> None:
    environment = a_go(tmp_path, "echo go1.19.8")

    with pytest.raises(InstallError, match=r"Go >= 1.26 is needed .* \(here is go1.19.8\)"):
        install(a_package(make_tool), environment, unheard)


def test_a_go_that_fails_is_quoted_in_one_line(tmp_path: Path) -> None:
    answer = (
        '[ "$1" = env ] && echo go1.99.0 && exit 0\necho downloading\necho no route >&2\nexit 2'
    )
    environment = a_go(tmp_path, answer)

    def build(go: Go, _folder: Path) -> None:
        go.run("build", "-o", "x")

    with pytest.raises(InstallError) as caught:
        install(a_package(build), environment, unheard)
    assert str(caught.value) == "`go build -o` failed with 2: no route"


def test_go_finds_its_caches_where_no_home_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = a_go(tmp_path, '[ "$1" = env ] && echo go1.99.0 && exit 0\n[ -d "$HOME" ]')
    monkeypatch.delenv("HOME")

    def build(go: Go, folder: Path) -> None:
        go.run("build")
        make_tool(go, folder)

    assert (install(a_package(build), environment, unheard) / "tool").exists()


def test_a_cache_that_cannot_be_written_is_told_with_the_remedy(tmp_path: Path) -> None:
    environment = a_go(tmp_path)
    (tmp_path / "cache").write_text("a file")

    with pytest.raises(InstallError, match="set WEIR_CACHE_DIR"):
        install(a_package(make_tool), environment, unheard)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("v1.36.3", (1, 36, 3)),
        ("1.36.3+k3s1", (1, 36, 3)),
        ("1.26rc1", (1, 26)),
        ("devel", ()),
        ("3.5", (3, 5)),
    ],
)
def test_versions_compare_by_their_leading_numbers(text: str, numbers: tuple[int, ...]) -> None:
    assert versions.as_numbers(text) == numbers


async def test_a_killed_run_leaves_no_half_built_package(tmp_path: Path) -> None:
    environment = a_go(tmp_path)

    def found() -> list[Path]:
        return list((tmp_path / "cache").iterdir())

    script = f"""
        import time
        from pathlib import Path
        from handlers.cli.devstack.install import Package, install
        def build(go, folder):
            print(folder.parent, flush=True)
            time.sleep(600)
        install(
            Package(name="t", version="1", oldest="1", files=("t",), takes="", build=build),
            {environment!r},
        )
    """
    with a_run(script) as run:
        half = Path(line_of(run))
        assert half in found()
        run.kill()

        await eventually(lambda: half not in found())
