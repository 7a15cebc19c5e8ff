"""`weir bridge` and `weir handlers`: the two processes."""

from __future__ import annotations

import argparse

from bridge.run import run_bridge
from handlers.cli.settings_flags import add_settings, settings_of
from handlers.registry import HANDLERS
from handlers.run import run_handlers


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add both to the commands."""
    bridge = subparsers.add_parser(
        "bridge",
        help="turn changes in Kubernetes into messages",
        description="Watch our resources and their children, and publish what changed to NATS. "
        "Any number may run at once.",
    )
    add_settings(bridge)
    bridge.set_defaults(run=lambda arguments: run_bridge(settings_of(arguments)))
    handlers = subparsers.add_parser(
        "handlers",
        help="take messages and make the cluster match",
        description="Take messages from NATS and make the cluster match the resources that they "
        "name. Any number may run at once, none is needed while nothing changes.",
    )
    add_settings(handlers)
    handlers.set_defaults(run=lambda arguments: run_handlers(settings_of(arguments), HANDLERS))
