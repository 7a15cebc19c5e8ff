from __future__ import annotations

from pathlib import Path

import pytest

from handlers.__main__ import main
from handlers.cli.devstack.demo import progress
from handlers.cli.devstack.weir import WeirProcess


def refusal_of(directory: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The one line by which `weir dev` refuses a folder."""
    assert main(["dev", f"--run-dir={directory}"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    [line] = said.err.splitlines()
    return line


def test_a_run_is_not_put_upon_what_an_earlier_one_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "audit.log").touch()

    assert refusal_of(tmp_path, capsys) == (
        f"weir: --run-dir {tmp_path} is not empty: name a new folder, or remove what an earlier "
        f"run left there"
    )


def test_a_folder_that_cannot_be_made_is_told_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()

    for folder in (tmp_path / "file" / "run", tmp_path / "file", Path("/proc/x")):
        assert refusal_of(folder, capsys).startswith(
            f"weir: --run-dir {folder} cannot be used: "
        ), folder


def test_the_demo_says_what_it_counts() -> None:
    status = {
        "state": "pending",
        "services": {"worker": {"replicas": 2, "readyReplicas": 1}, "server": {}},
    }
    found = ["deployment.apps/demo-worker", "service/demo", "pod/demo-worker-x"]

    assert progress(status, found) == (
        "pending: 2 children and 1 pods of theirs; ready: server 0/0, worker 1/2"
    )
    assert progress({}, []) == "no status yet: 0 children and 0 pods of theirs; ready: none"


def test_what_a_process_of_weir_leaves_in_its_temp_folder_goes_with_the_run(tmp_path: Path) -> None:
    process = WeirProcess(
        "bridge",
        "bridge",
        directory=tmp_path,
        kubeconfig=tmp_path / "kubeconfig",
        nats_url="nats://127.0.0.1:4222",
        settings={},
    )

    assert process.environment is not None
    assert process.environment["TMPDIR"] == str(tmp_path / "tmp")
    assert (tmp_path / "tmp").is_dir()
