"""The command `weir`."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, cast

from handlers.cli.stdout import CannotPrint, Stdout, forget_stdout, open_what_is_closed

MODULES = {
    "bridge": "serve",
    "handlers": "serve",
    "crds": "crds",
    "render": "render",
    "queue": "queue",
    "dead": "dead",
    "history": "history",
    "why": "why",
    "pause": "pause",
    "resume": "pause",
    "dev": "dev",
}
"""Which module of handlers/cli serves a command; it adds its parser and sets `run`."""


def main(arguments: list[str] | None = None) -> int:
    """Run one command; return its exit code: 0 done, 1 failed, 2 a mistake in the words."""
    open_what_is_closed()
    words = sys.argv[1:] if arguments is None else arguments
    try:
        with contextlib.redirect_stdout(cast("IO[str]", Stdout(sys.stdout))):
            try:
                return _run(words)
            finally:
                # Also of help, which ends the process: what could not be printed is no success.
                sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except (BrokenPipeError, CannotPrint) as exc:
        forget_stdout()
        if isinstance(exc.__cause__ or exc, BrokenPipeError):
            # Whoever read has read enough.
            return 0
        print(f"weir: cannot write to standard output: {exc}", file=sys.stderr)  # noqa: T201
        return 1


def _run(words: list[str]) -> int:
    with _dying_of_ctrl_c():
        from bridge.settings import SettingsError  # noqa: PLC0415 - imports are what takes time

        chosen = _parser(words).parse_args(words)
    try:
        return int(chosen.run(chosen))
    except SettingsError as exc:
        print(f"weir: {exc}", file=sys.stderr)  # noqa: T201 - the command's only output
        return 2


def _parser(words: list[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="weir",
        description="Event-driven, serverless reconciler for LLM inference on Kubernetes.",
    )
    parser.add_argument("--version", action=_Version, help="print the version, and end")
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    # A handler is to work within a second of its start: only its own module is imported.
    wanted = MODULES.get(words[0]) if words else None
    is_version = words[:1] == ["--version"]
    for name in [wanted] if wanted else () if is_version else dict.fromkeys(MODULES.values()):
        importlib.import_module(f"handlers.cli.{name}").add_parser(subparsers)
    return parser


@contextlib.contextmanager
def _dying_of_ctrl_c() -> Iterator[None]:
    """
    Let Ctrl-C end the process as a signal does: an exception amid imports is not always caught.

    Where it is ignored, as in the background of a shell, it stays so.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class _Version(argparse.Action):
    """Prints the version of the installed distribution; only then is it looked for."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str) -> None:  # noqa: A002
        super().__init__(option_strings, dest, nargs=0, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        sys.stdout.write(f"weir {_version()}\n")
        parser.exit()


def _version() -> str:
    """Return the distribution's version; from a checkout that is not installed, its own."""
    import importlib.metadata  # noqa: PLC0415 - no other command pays for it
    import tomllib  # noqa: PLC0415

    try:
        return importlib.metadata.version("weir-operator")
    except importlib.metadata.PackageNotFoundError:
        project = Path(__file__).parents[1] / "pyproject.toml"
        return str(tomllib.loads(project.read_text("utf-8"))["project"]["version"])


if __name__ == "__main__":
    sys.exit(main())
