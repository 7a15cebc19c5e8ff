"""
How the commands print: tables for people, JSON and YAML for machines, and nothing a terminal obeys.

What a name, an error or a subject holds was written by others. Control characters, and those that
turn the direction of writing, are printed as escapes: they can neither move the cursor nor hide.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import re
import sys
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

import yaml

Format = Literal["table", "wide", "json", "yaml", "name"]

COLUMN_GAP = "   "
"""As between the columns of kubectl."""
NONE = "<none>"
UNKNOWN = "<unknown>"
_HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Unicode categories: controls, invisible formatting, lone surrogates, line and paragraph ends."""
_SECONDS, _MINUTES, _HOURS = (1, "s"), (60, "m"), (3_600, "h")
_DAYS, _YEARS = (86_400, "d"), (31_536_000, "y")
_Unit = tuple[int, str]
_STEPS: tuple[tuple[float, _Unit, _Unit | None], ...] = (
    (120, _SECONDS, None),
    (600, _MINUTES, _SECONDS),
    (3 * 3_600, _MINUTES, None),
    (8 * 3_600, _HOURS, _MINUTES),
    (2 * 86_400, _HOURS, None),
    (8 * 86_400, _DAYS, _HOURS),
    (2 * 31_536_000, _DAYS, None),
    (8 * 31_536_000, _YEARS, _DAYS),
    (math.inf, _YEARS, None),
)
"""An age below so many seconds is said in these units."""
_LIKE_A_NUMBER = re.compile(r"[-+.]?[0-9][-+.:_0-9a-fA-FoOxX]*|[yYnN]")
"""Text that kubectl's YAML may take for a number (403e10) or a boolean, and PyYAML does not."""
_KIBI = 1024
_SIZE_UNITS = ("KiB", "MiB", "GiB", "TiB")


class CommandError(Exception):
    """What was asked for cannot be done; the text says why and what to do."""

    exit_code = 1


class Mistake(CommandError):
    """The words of the command make no sense."""

    exit_code = 2


Run = Callable[[argparse.Namespace], int]


def told(run: Run) -> Run:
    """Return the command with its errors told in one line, and as its exit code."""

    def guarded(arguments: argparse.Namespace) -> int:
        try:
            return run(arguments)
        except CommandError as exc:
            say(f"weir: {exc}")
            return exc.exit_code

    return guarded


def add_output(parser: argparse.ArgumentParser, *formats: Format, default: Format) -> None:
    """Add `-o`, as kubectl has it."""
    parser.add_argument(
        "-o",
        "--output",
        choices=formats,
        default=default,
        metavar="FORMAT",
        help=f"{', '.join(formats)} (default: {default})",
    )


def whole_number(least: int) -> Callable[[str], int]:
    """Return what reads a flag's number, and says what it must be where it is none."""

    def read(text: str) -> int:
        with contextlib.suppress(ValueError):
            if (number := int(text)) >= least:
                return number
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number of at least {least}")

    return read


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return aligned columns under upper-case headers; empty cells but the last say `<none>`."""
    cells = [[*(printable(cell) or NONE for cell in row[:-1]), printable(row[-1])] for row in rows]
    lines = [[header.upper() for header in headers], *cells]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headers))]
    return "\n".join(
        COLUMN_GAP.join(
            cell.ljust(width) for cell, width in zip(line, widths, strict=True)
        ).rstrip()
        for line in lines
    )


def fields(pairs: Iterable[tuple[str, str]]) -> str:
    """Return `Name:   value` lines, as `kubectl describe` has them."""
    known = [(f"{name}:", printable(value) or NONE) for name, value in pairs]
    width = max((len(name) for name, _ in known), default=0)
    return "\n".join(f"{name.ljust(width)}{COLUMN_GAP}{value}" for name, value in known)


def machine(data: Any, form: Literal["json", "yaml"]) -> str:
    """Return plain data as a document that ends with a line end."""
    if form == "json":
        return as_json(data)
    return as_yaml(data)


def as_json(data: Any) -> str:
    """Return indented JSON in which every character that a terminal might obey is escaped."""
    return _escaped(json.dumps(data, indent=2, ensure_ascii=False), _json_escape) + "\n"


def as_yaml(data: Any) -> str:
    """Return YAML in which every character that a terminal might obey is escaped."""
    text = _yaml(data, allow_unicode=True)
    if _hidden(text.replace("\n", "")):
        # Only a quoted scalar can hold an escape, and only this asks for quotes.
        return _yaml(data, allow_unicode=False)
    return text


def say(text: str) -> None:
    """Print a line for people on stderr: stdout is for what was asked for."""
    print(printable(text), file=sys.stderr)


def warn(text: str) -> None:
    """Print what a user should know although the command goes on."""
    say(f"Warning: {text}")


def printable(text: str) -> str:
    """Return text as one line that a terminal only shows."""
    return _escaped(re.sub(r"\s*[\r\n]+\s*", " ", text).replace("\t", " ").strip(), _escape)


def age(since: datetime | None, now: datetime) -> str:
    """
    Return how long ago that was, as `kubectl get` says it: 45s, 5m, 3h12m, 2d4h, 400d.

    Source: k8s.io/apimachinery `duration.HumanDuration`.
    """
    if since is None:
        return UNKNOWN
    seconds = int((now - since).total_seconds())
    if seconds < -1:
        return "<invalid>"
    return _duration(max(0, seconds))


def moment(text: str) -> datetime | None:
    """Return a time of RFC 3339, nanoseconds cut to microseconds; None for anything else."""
    try:
        found = datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", text))
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def clock(when: datetime | None) -> str:
    """Return a time as Kubernetes writes it: RFC 3339 in UTC, to the second."""
    if when is None:
        return UNKNOWN
    return when.astimezone(UTC).replace(microsecond=0).isoformat().replace("+00:00", "Z")


def size(count: int) -> str:
    """Return a number of bytes for people: 512B, 1.5KiB."""
    if count < _KIBI:
        return f"{count}B"
    power = min(len(_SIZE_UNITS), int(math.log(count, _KIBI)))
    return f"{count / _KIBI**power:.1f}{_SIZE_UNITS[power - 1]}"


def plural(count: int, noun: str) -> str:
    """Return `1 event`, `2 events`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


class _Plain(yaml.SafeDumper):
    """No anchors, and text of several lines as text of several lines."""

    def ignore_aliases(self, data: object) -> bool:
        """Say that nothing is ever referred to."""
        del data
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else "'" if _LIKE_A_NUMBER.fullmatch(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Plain.add_representer(str, _text)


def _yaml(data: Any, *, allow_unicode: bool) -> str:
    text: str = yaml.dump(
        data, Dumper=_Plain, sort_keys=False, width=math.inf, allow_unicode=allow_unicode
    )
    return text


def _duration(seconds: int) -> str:
    large, small = next((large, small) for below, large, small in _STEPS if seconds < below)
    text = f"{seconds // large[0]}{large[1]}"
    rest = seconds % large[0] // small[0] if small else 0
    return f"{text}{rest}{small[1]}" if small and rest else text


def _hidden(text: str) -> bool:
    return any(unicodedata.category(character) in _HIDDEN for character in text)


def _escaped(text: str, escape: Callable[[str], str]) -> str:
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        escape(character)
        if unicodedata.category(character) in _HIDDEN and character != "\n"
        else character
        for character in text
    )


def _escape(character: str) -> str:
    code = ord(character)
    if code < 0x100:  # noqa: PLR2004 - two digits
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"  # noqa: PLR2004 - four


def _json_escape(character: str) -> str:
    return json.dumps(character)[1:-1] if ord(character) > 0x7E else f"\\u{ord(character):04x}"  # noqa: PLR2004 - ASCII
