"""`weir crds generate | check`: the CustomResourceDefinitions, from the types beside them."""

from __future__ import annotations

import argparse
import difflib
import sys
from pathlib import Path

import msgspec
import yaml

import crds
from crds.contract import Contract
from crds.kubernetes import Manifest
from crds.schema import crd
from handlers.cli import output
from handlers.cli.output import CommandError

JSON_BYTES_MAX = 262_144
"""Of a CRD as compact JSON: `kubectl apply` keeps a copy in an annotation, whose limit this is."""
_READ_AS_BOOLEANS = ("y", "Y", "n", "N")
_NUMBERS_BEGIN_WITH = tuple("0123456789+-.")
_HEADER = "# Written by `weir crds generate` from crds/{module}.py; edit that file instead.\n"


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `weir crds` to the commands."""
    parser = subparsers.add_parser("crds", help="write or check the CustomResourceDefinitions")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for action, help_text, run in (
        ("generate", "write the files", generate),
        ("check", "fail when a file differs from what would be written", check),
    ):
        command = actions.add_parser(action, help=help_text, description=help_text)
        command.add_argument(
            "--directory",
            type=Path,
            default=Path(crds.__file__).parent,
            help="where the files are (default: the crds package)",
        )
        command.set_defaults(run=output.told(run))


def generate(arguments: argparse.Namespace) -> int:
    """Write every CRD; print the files that changed."""
    for path, text in _files(arguments.directory).items():
        if _read(path) == text:
            continue
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as exc:
            raise CommandError(f"cannot write {path}: {exc.strerror or exc}") from exc
        print(f"wrote {path}")
    return 0


def check(arguments: argparse.Namespace) -> int:
    """Print how the files differ from what would be written; 1 when any does."""
    directory: Path = arguments.directory
    if not directory.is_dir():
        raise CommandError(f"{directory}: no such folder: name one with --directory")
    drifted = False
    for path, text in _files(directory).items():
        present = _read(path)
        if present == text:
            continue
        drifted = True
        if not present:
            output.say(f"weir: {path}: no such file, or an empty one")
            continue
        sys.stdout.writelines(
            difflib.unified_diff(
                present.splitlines(keepends=True),
                text.splitlines(keepends=True),
                fromfile=str(path),
                tofile="what `weir crds generate` writes",
            )
        )
    if drifted:
        output.say("The CRDs are behind their types: run `weir crds generate`.")
    return int(drifted)


def as_yaml(contract: Contract) -> str:
    """
    Return the CRD of a kind as the text of its file.

    Raises ValueError when it is too large for `kubectl apply`.
    """
    manifest = crd(contract)
    size = len(msgspec.json.encode(manifest))
    if size > JSON_BYTES_MAX:
        raise ValueError(
            f"the CRD of {contract.kind.kind} is {size:,} bytes of JSON, and `kubectl apply` "
            f"takes at most {JSON_BYTES_MAX:,}: shorten its documentation"
        )
    return _HEADER.format(module=contract.kind.queue_name) + dump(manifest)


def dump(manifest: Manifest) -> str:
    """
    Return YAML that kubectl reads as it was meant: no anchors, keys in their order.

    kubectl takes y, n and 1e3 for a boolean and a number, PyYAML does not: they are quoted, as is
    all text that begins like a number.
    """
    return yaml.dump(manifest, Dumper=_Plain, sort_keys=False, width=100, allow_unicode=True)


class _Plain(yaml.SafeDumper):
    """Writes an object that is used twice twice, and quotes what could be taken for no text."""

    def ignore_aliases(self, data: object) -> bool:
        """Say that nothing is ever referred to."""
        del data
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    is_ambiguous = text in _READ_AS_BOOLEANS or text[:1] in _NUMBERS_BEGIN_WITH
    style = "'" if is_ambiguous and "\n" not in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Plain.add_representer(str, _represent_text)


def _files(directory: Path) -> dict[Path, str]:
    return {
        directory / f"{contract.kind.crd_name}.yaml": as_yaml(contract) for contract in crds.KINDS
    }


def _read(path: Path) -> str:
    """Return what a file holds, nothing where there is none."""
    if not path.exists():
        return ""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else "no text"
        raise CommandError(f"cannot read {path}: {reason or exc}") from exc
