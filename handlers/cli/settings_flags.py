"""Every setting as a flag: the variables of `bridge.settings`, in argparse's words."""

from __future__ import annotations

import argparse
import os
import socket
import uuid
from collections.abc import Iterable

import msgspec

from bridge.settings import Settings, read_settings, variable

NATS = ("nats_url", "nats_creds", "nats_ca", "nats_cert", "nats_key")
"""What a command needs to reach the queue."""


def add_settings(
    parser: argparse.ArgumentParser, fields: Iterable[str] = Settings.__struct_fields__
) -> None:
    """Add a flag per setting, or for these only."""
    group = parser.add_argument_group(
        "settings", "each is also a variable; the flag wins over the variable"
    )
    for field in fields:
        default = getattr(Settings(), field)
        group.add_argument(
            f"--{field.replace('_', '-')}",
            dest=f"setting_{field}",
            metavar="VALUE",
            help=f"{variable(field)} (default: {default if default != '' else 'none'})",
        )


def settings_of(arguments: argparse.Namespace) -> Settings:
    """
    Return the settings of flags and environment; raise SettingsError for a bad one.

    A process without a name gets the pod's or the host's, and something of its own.
    """
    flags = {
        field: value
        for field in Settings.__struct_fields__
        if (value := getattr(arguments, f"setting_{field}", None)) is not None
    }
    settings = read_settings(os.environ, flags)
    if settings.identity:
        return settings
    name = os.environ.get("POD_NAME") or socket.gethostname()
    return msgspec.structs.replace(settings, identity=f"{name}-{uuid.uuid4().hex[:8]}")
