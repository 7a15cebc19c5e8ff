"""The command `weir`."""

from __future__ import annotations

import argparse
import importlib
import sys

from bridge.settings import SettingsError

MODULES = {
    "bridge": "serve",
    "handlers": "serve",
    "crds": "crds",
    "render": "render",
    "queue": "queue",
    "dead": "dead",
    "history": "history",
    "dev": "dev",
}
"""Which module of handlers/cli serves a command; it adds its parser and sets `run`."""


def main(arguments: list[str] | None = None) -> int:
    """Run one command; return its exit code: 0 done, 1 failed, 2 a mistake in the words."""
    parser = argparse.ArgumentParser(
        prog="weir",
        description="Event-driven, serverless reconciler for LLM inference on Kubernetes.",
    )
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    words = sys.argv[1:] if arguments is None else arguments
    # A handler is to work within a second of its start: only its own module is imported.
    wanted = MODULES.get(words[0]) if words else None
    for name in [wanted] if wanted else dict.fromkeys(MODULES.values()):
        importlib.import_module(f"handlers.cli.{name}").add_parser(subparsers)
    chosen = parser.parse_args(words)
    try:
        return int(chosen.run(chosen))
    except SettingsError as exc:
        print(f"weir: {exc}", file=sys.stderr)  # noqa: T201 - the command's only output
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return 0


if __name__ == "__main__":
    sys.exit(main())
