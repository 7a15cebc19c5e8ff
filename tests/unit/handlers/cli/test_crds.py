"""`weir crds generate | check`."""
# ruff: noqa: S104 - an address in a pod

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import yaml

import crds
from crds.contract import Contract
from crds.schema import crd
from handlers.__main__ import main
from handlers.cli.crds import JSON_BYTES_MAX, as_yaml, dump


def test_the_files_beside_the_types_are_what_would_be_written() -> None:
    assert main(["crds", "check"]) == 0


@pytest.mark.parametrize("contract", crds.KINDS, ids=lambda contract: contract.kind.kind)
def test_a_crd_is_small_enough_for_client_side_apply_and_free_of_anchors(
    contract: Contract,
) -> None:
    assert len(msgspec.json.encode(crd(contract))) <= JSON_BYTES_MAX
    text = as_yaml(contract)
    assert yaml.safe_load(text) == crd(contract)
    assert "&id" not in text
    assert text.startswith("# Written by `weir crds generate`")


def test_what_is_written_passes_the_check_and_an_edit_of_it_does_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = ["--directory", str(tmp_path)]
    assert main(["crds", "check", *folder]) == 1
    said = capsys.readouterr()
    assert "inferadeployments.infera.amd.com.yaml: no such file" in said.err
    assert "run `weir crds generate`" in said.err
    assert said.out == ""
    assert main(["crds", "generate", *folder]) == 0
    assert "inferadeployments.infera.amd.com.yaml" in capsys.readouterr().out
    assert main(["crds", "check", *folder]) == 0
    (written,) = tmp_path.iterdir()
    written.write_text(written.read_text().replace("  - idep", "  - other"), encoding="utf-8")
    assert main(["crds", "check", *folder]) == 1
    shown = capsys.readouterr().out
    assert "-    - other" in shown
    assert "+    - idep" in shown


def test_writing_again_changes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = ["--directory", str(tmp_path)]
    main(["crds", "generate", *folder])
    capsys.readouterr()
    assert main(["crds", "generate", *folder]) == 0
    assert capsys.readouterr().out == ""


def test_a_folder_that_is_not_there_is_said_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["crds", "generate", "--directory", str(tmp_path / "none")]) == 1
    assert "cannot write" in capsys.readouterr().err
    assert main(["crds", "check", "--directory", str(tmp_path / "none")]) == 1
    said = capsys.readouterr()
    assert (said.out, said.err) == (
        "",
        f"weir: {tmp_path / 'none'}: no such folder: name one with --directory\n",
    )


def test_a_file_that_cannot_be_read_is_said_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "inferadeployments.infera.amd.com.yaml"
    file.write_bytes(b"\xff")
    assert main(["crds", "check", "--directory", str(tmp_path)]) == 1
    assert capsys.readouterr().err == f"weir: cannot read {file}: no text\n"


@pytest.mark.parametrize(
    "text", ["y", "N", "1e3", "0x1f", "1_000", "+1", ".5", "0.0.0.0", "yes", "null", "-", ""]
)
def test_text_that_a_reader_of_yaml_may_take_for_something_else_is_quoted(text: str) -> None:
    assert dump({"value": text}) == f"value: '{text}'\n"


def test_other_text_is_not() -> None:
    assert dump({"value": "rocm/infera:1"}) == "value: rocm/infera:1\n"
