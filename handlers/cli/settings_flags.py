"""Every setting as a flag: the variables of `bridge.settings`, in argparse's words."""

from __future__ import annotations

import argparse
import os
import socket
import uuid
from collections.abc import Iterable
from functools import cache
from typing import Any

import msgspec

from bridge.settings import TEXT, Settings, allowed, flag, read_settings, variable

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
        group.add_argument(
            flag(field), dest=f"setting_{field}", metavar="VALUE", action=_Setting, field=field
        )


class _Setting(argparse.Action):
    """Stores the text of a setting; what it means is looked up when its help is printed."""

    def __init__(self, option_strings: list[str], field: str, **known: Any) -> None:
        super().__init__(option_strings, **known, help="%(meaning)s")
        self.meaning = _Meaning(field)

    def __call__(self, _parser: object, namespace: argparse.Namespace, value: Any, *_: Any) -> None:
        setattr(namespace, self.dest, value)


class _Meaning:
    """The help of a setting, as text: its documentation, what it may be, and its default."""

    def __init__(self, field: str) -> None:
        self._field = field

    def __str__(self) -> str:
        default = getattr(Settings(), self._field)
        shown = f"{default:g}" if isinstance(default, float) else str(default)
        if isinstance(default, bool):
            shown = shown.lower()
        # Of a time nobody needs to be told that it is a number.
        may_be = "" if isinstance(default, float) else allowed(self._field)
        said = "" if may_be in ("", TEXT) else f"; {may_be}"
        return (
            f"{_documentation()[self._field]} "
            f"({variable(self._field)}{said}; default: {'none' if shown == '' else shown})"
        )


@cache
def _documentation() -> dict[str, str]:
    """Return the strings that stand under the settings; no start but that of help pays for it."""
    from crds.schema import field_docs  # noqa: PLC0415 - likewise

    return field_docs(Settings)


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
