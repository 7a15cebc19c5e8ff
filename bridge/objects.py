"""
What the bridge reads of an object: its metadata, and the few status fields that matter.

The API server's bytes are decoded typed. What does not fit (a value of a type that nobody
expects, JSON nested beyond what a recursive decoder takes) is skimmed instead: a flat scan that
pulls out field by field what can be had, so that one odd object never stops its kind.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from crds.kubernetes import ObjectMeta

_Odd: Final = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)
_NOTHING: Final = Raw(b"null")


class Seen(Struct, frozen=True, gc=False):
    """An object as the bridge saw it."""

    meta: ObjectMeta
    status: Mapping[str, bytes]
    """The status fields that were asked for, as the server spelled them."""


class Line(Struct, gc=False):
    """One line of a watch; `object` is read according to `type`."""

    type: str
    object: Raw


class _PageMeta(Struct, rename="camel", frozen=True, gc=False):
    resource_version: str
    continue_: str = msgspec.field(default="", name="continue")


class Page(Struct, gc=False):
    """One page of a list."""

    metadata: _PageMeta
    """Required: what has no version is no list, and must not pass for an empty one."""
    items: list[Raw] | None = None


class _Object(Struct, gc=False):
    metadata: ObjectMeta
    status: Raw = _NOTHING


_line = msgspec.json.Decoder(Line)
_page = msgspec.json.Decoder(Page)
_page_meta = msgspec.json.Decoder(_PageMeta)
_object = msgspec.json.Decoder(_Object)
_status = msgspec.json.Decoder(dict[str, Raw] | None)
_string = msgspec.json.Decoder(str)
_meta_fields: Final[dict[str, tuple[str, msgspec.json.Decoder[Any]]]] = {
    field.encode_name: (field.name, msgspec.json.Decoder(field.type))
    for field in msgspec.structs.fields(ObjectMeta)
}


def read_line(raw: bytes) -> Line | None:
    """Return a line of a watch, None where it is none."""
    try:
        return _line.decode(raw)
    except _Odd:
        parts = dict(_members(raw))
        try:
            return Line(_string.decode(parts["type"]), Raw(parts["object"]))
        except (KeyError, *_Odd):
            return None


def read_page(raw: bytes) -> Page | None:
    """Return a page of a list, None where it is none."""
    try:
        return _page.decode(raw)
    except _Odd:
        parts = dict(_members(raw))
        try:
            return Page(
                _page_meta.decode(parts["metadata"]),
                [Raw(item) for item in _elements(parts["items"])],
            )
        except (KeyError, *_Odd):
            return None


def read_object(raw: bytes | Raw, status_fields: tuple[str, ...] = ()) -> Seen:
    """Return what matters of an object, as much of it as can be had."""
    try:
        read = _object.decode(raw)
        meta, status = read.metadata, bytes(read.status)
    except _Odd:
        parts = dict(_members(bytes(raw)))
        meta, status = _skim_meta(parts.get("metadata", b"")), parts.get("status", b"")
    return Seen(meta, _pick(status, status_fields) if status_fields else {})


def _pick(status: bytes, names: tuple[str, ...]) -> dict[str, bytes]:
    fields: Mapping[str, Raw | bytes]
    try:
        fields = _status.decode(status) or {}
    except _Odd:
        fields = dict(_members(status))
    return {name: bytes(fields[name]) for name in names if name in fields}


def _skim_meta(raw: bytes) -> ObjectMeta:
    had: dict[str, Any] = {}
    for name, value in _members(raw):
        if name in _meta_fields:
            field, decoder = _meta_fields[name]
            try:
                had[field] = decoder.decode(value)
            except _Odd:
                continue
    return ObjectMeta(**had)


# A scan that needs no stack: strings and structure are tokens, depth is a number.


_TOKEN: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[][{},]', re.DOTALL)
_MEMBER: Final = re.compile(rb'("[^"\\]*(?:\\.[^"\\]*)*")\s*:\s*', re.DOTALL)


def _members(raw: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the members of the object that `raw` is; nothing where it is none."""
    for part in _parts(raw, b"{"):
        if found := _MEMBER.match(part):
            try:
                yield _string.decode(found.group(1)), part[found.end() :]
            except _Odd:
                continue


def _elements(raw: bytes) -> Iterator[bytes]:
    """Yield the elements of the array that `raw` is; nothing where it is none."""
    return (part for part in _parts(raw, b"[") if part)


def _parts(raw: bytes, opening: bytes) -> Iterator[bytes]:
    """Yield what stands between the outermost commas."""
    start = depth = 0
    for token in _TOKEN.finditer(raw):
        mark = token.group()
        if mark in (b"{", b"["):
            if depth == 0:
                if mark != opening:
                    return
                start = token.end()
            depth += 1
        elif mark in (b"}", b"]"):
            depth -= 1
            if depth == 0:
                yield raw[start : token.start()].strip()
                return
        elif mark == b"," and depth == 1:
            yield raw[start : token.start()].strip()
            start = token.end()
