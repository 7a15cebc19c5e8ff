"""`weir bridge` and `weir handlers`: the two processes."""

from __future__ import annotations

import argparse

from bridge.run import run_bridge
from bridge.settings import Settings, SettingsError, known_as
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
    handlers.set_defaults(run=_run_handlers)


def _run_handlers(arguments: argparse.Namespace) -> int:
    settings = settings_of(arguments)
    require_engines_nats(settings)
    return run_handlers(settings, HANDLERS)


def require_engines_nats(settings: Settings) -> None:
    """
    Raise SettingsError where engines are to share a NATS by default, and none is named for them.

    Else every deployment that does not say would be refused, one by one, by a process that is
    healthy. No value is in the text: it may be a password.
    """
    if settings.nats_default != "shared":
        return
    url = known_as("nats_engine_url")
    if not settings.nats_engine_url:
        raise SettingsError(
            f"{known_as('nats_default')}=shared needs {url}: set it to the NATS of this platform "
            f"as pods reach it, such as nats://HOST:4222, or leave the default at managed"
        )
    if "@" in settings.nats_engine_url:
        raise SettingsError(
            f"{known_as('nats_default')}=shared: {url} must hold no user, password or token, which "
            f"every reader of a pod would see: let that NATS take engines without (no_auth_user)"
        )
