from __future__ import annotations

import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from bridge.settings import Settings, flag, variable
from handlers.__main__ import MODULES, main
from handlers.cli.devstack.weir import REPOSITORY

GOLDEN = Path(__file__).with_name("golden")


def test_the_version_is_that_of_the_distribution(capsys: pytest.CaptureFixture[str]) -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]

    with pytest.raises(SystemExit) as ended:
        main(["--version"])

    assert ended.value.code == 0
    assert capsys.readouterr().out == f"weir {project['version']}\n"


def test_every_command_is_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])

    assert ended.value.code == 0
    listed = {line.split()[0] for line in capsys.readouterr().out.splitlines() if line.strip()}
    assert listed >= set(MODULES)


@pytest.mark.parametrize("command", ["bridge", "handlers"])
def test_help_says_what_every_setting_means_what_it_may_be_and_its_default(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])

    assert ended.value.code == 0
    said = " ".join(capsys.readouterr().out.split())
    meant = {
        field: said.partition(f" {flag(field)} VALUE ")[2].partition(f" ({variable(field)}")
        for field in Settings.__struct_fields__
    }
    without_meaning = [field for field, parts in meant.items() if len(parts[0].split()) < 4]
    assert without_meaning == []
    assert meant["nats_default"][2].startswith("; managed or shared; default: managed)")
    assert meant["lease_seconds"][2].startswith("; default: 12)")
    assert meant["dry_run"][2].startswith("; true or false; default: false)")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("", "needs --nats-engine-url (WEIR_NATS_ENGINE_URL): set it to the NATS of this platform"),
        ("nats://u:geheim@n:4222", "WEIR_NATS_ENGINE_URL) must hold no user, password or token"),
    ],
)
def test_handlers_that_are_to_share_a_nats_by_default_start_only_where_one_is_named(
    url: str, said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once, before anything is asked of a NATS or an API server."""
    monkeypatch.setenv("WEIR_NATS_DEFAULT", "shared")
    monkeypatch.setenv("WEIR_NATS_ENGINE_URL", url)

    assert main(["handlers"]) == 2

    err = capsys.readouterr().err
    assert err.startswith("weir: --nats-default (WEIR_NATS_DEFAULT)=shared")
    assert said in err
    assert "geheim" not in err


@pytest.mark.parametrize("words", [[], ["frobnicate"], ["dead"], ["history", "--limit", "-1"]])
def test_words_that_make_no_command_are_a_mistake(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)

    assert ended.value.code == 2
    assert "error:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "least"),
    [
        (["history", "--limit", "x"], 0),
        (["history", "--limit", "-1"], 0),
        (["dev", "--nodes", "1.5"], 1),
        (["dev", "--pods-per-node", "0"], 1),
    ],
)
def test_what_a_number_must_be_is_said(
    words: list[str], least: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)

    assert ended.value.code == 2
    _, flag_, number = words
    said = f"error: argument {flag_}: '{number}' must be a whole number of at least {least}\n"
    assert capsys.readouterr().err.endswith(said)


def test_a_reader_that_closes_the_pipe_early_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)

    done = subprocess.run(
        [sys.executable, "-m", "handlers", "render", "-f", str(GOLDEN / "resources.yaml")],
        cwd=REPOSITORY,
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writing)

    assert done.returncode == 0
    assert done.stderr.splitlines()[1:] == []


RENDER = ["render", "-f", str(GOLDEN / "resources.yaml")]


@pytest.mark.parametrize(
    ("words", "redirection"),
    [(["--help"], ">/dev/full"), (["--version"], ">&-"), (RENDER, ">/dev/full"), (RENDER, ">&-")],
)
def test_what_cannot_be_printed_is_an_error_in_one_line(words: list[str], redirection: str) -> None:
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {redirection}', "sh", sys.executable, "-m", "handlers", *words],
        cwd=REPOSITORY,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    *warnings, last = done.stderr.splitlines()
    assert last.startswith("weir: cannot write to standard output: ")
    assert all(line.startswith("Warning: ") for line in warnings)


def test_closed_standard_streams_are_taken_by_no_file_of_the_process() -> None:
    closed = ["sh", "-c", 'exec "$@" <&- 2>&-', "sh", sys.executable, "-m", "handlers", *RENDER]
    done = subprocess.run(closed, cwd=REPOSITORY, stdout=subprocess.PIPE, check=False)

    assert done.returncode == 0
    assert done.stdout.splitlines()[1:] == (GOLDEN / "rendered.yaml").read_bytes().splitlines()[1:]


INTERRUPTED = """
import importlib.abc, os, signal, sys

class Interrupts(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == sys.argv[1]:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupts())
from handlers.__main__ import main
sys.exit(main(["queue"]))
"""


@pytest.mark.parametrize("module", ["msgspec", "nats"])
def test_ctrl_c_while_imports_run_ends_it_without_a_traceback(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, module],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")
