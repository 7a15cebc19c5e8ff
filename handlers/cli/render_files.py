"""
The documents that `-f` names, as kubectl reads them: files, directories, `-`, YAML and JSON.

Stricter than a bare YAML parser where kubectl is: a key that stands twice is an error, and what
looks like a date or a time of day stays text.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml
from msgspec import Struct

from handlers.cli.output import CommandError

EXTENSIONS: Final = (".json", ".yaml", ".yml")
BYTES_MAX: Final = 16 << 20
DEPTH_MAX: Final = 100
_TOO_DEEP: Final = f"nested more than {DEPTH_MAX} levels deep"
VALUES_MAX: Final = 200_000
"""Aliases can make a page of YAML as large as one likes; this much is read of one document."""

PathTo = tuple[str | int, ...]


class Document(Struct, frozen=True, kw_only=True):
    """One object of a file, and where everything in it stands."""

    source: str
    number: int
    """Of the document in its file, from 1."""
    data: Any
    lines: dict[PathTo, int]
    at: PathTo = ()
    """Where the object is in its document: in the items of a List, or `()`."""

    def where(self, path: PathTo = ()) -> str:
        """Return file, document and line of a field, or of what would hold it."""
        full = (*self.at, *path)
        while full and full not in self.lines:
            full = full[:-1]
        line = self.lines.get(full)
        place = f"{self.source}, document {self.number}"
        return f"{place}, line {line}" if line else place


def documents(names: list[str], *, recursive: bool = False) -> Iterator[Document]:
    """Yield every object of what is named; raise CommandError for what cannot be read."""
    for name in names:
        for source, text in _texts(name, recursive=recursive):
            for document in _parsed(source, text):
                yield from _objects(document)


def _objects(document: Document) -> Iterator[Document]:
    """Yield the object, or the items of a List one by one."""
    data = document.data
    is_list = isinstance(data, dict) and data.get("kind") == "List" and "items" in data
    if not is_list:
        yield document
        return
    items = data["items"] or []
    if not isinstance(items, list):
        raise CommandError(f"{document.where(('items',))}: items must be a list")
    for index, item in enumerate(items):
        yield Document(
            source=document.source,
            number=document.number,
            data=item,
            lines=document.lines,
            at=("items", index),
        )


def _texts(name: str, *, recursive: bool) -> Iterator[tuple[str, str]]:
    if name == "-":
        yield "standard input", _decoded("standard input", sys.stdin.buffer.read(BYTES_MAX + 1))
        return
    if name.startswith(("http://", "https://")):
        raise CommandError(f"{name}: URLs are not read; use `curl -fsSL URL | weir render -f -`")
    for path in _files(Path(name), recursive=recursive):
        try:
            with path.open("rb") as file:
                data = file.read(BYTES_MAX + 1)
        except OSError as exc:
            raise CommandError(f"cannot read {path}: {exc.strerror or exc}") from exc
        yield str(path), _decoded(str(path), data)


def _files(path: Path, *, recursive: bool) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = sorted(
        file
        for file in path.glob("**/*" if recursive else "*")
        if file.suffix in EXTENSIONS and file.is_file()
    )
    if not found:
        raise CommandError(
            f"{path} holds no file that ends in {', '.join(EXTENSIONS)}"
            + ("" if recursive else "; -R looks in its directories too")
        )
    return found


def _decoded(source: str, data: bytes) -> str:
    if len(data) > BYTES_MAX:
        raise CommandError(f"{source} is larger than {BYTES_MAX >> 20} MiB: split it")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise CommandError(f"{source} is not UTF-8: {exc}") from exc


def _parsed(source: str, text: str) -> Iterator[Document]:
    """Yield the documents that are not empty."""
    if text.lstrip().startswith("{"):
        try:
            data = _json(text)
        except (ValueError, RecursionError):
            pass  # YAML may begin like this too, and says better what is wrong
        else:
            if _is_too_deep(data):
                raise CommandError(f"{source}, document 1: is {_TOO_DEEP}")
            yield Document(source=source, number=1, data=data, lines={})
            return
    loader = _Loader(text)
    number = 0
    try:
        while loader.check_node():
            number += 1
            lines: dict[PathTo, int] = {}
            node = loader.get_node()
            data = _Values(loader, lines).of(node, ()) if node is not None else None
            if data is not None:
                yield Document(source=source, number=number, data=data, lines=lines)
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        line = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = " ".join(filter(None, (exc.context, exc.problem)))
        raise CommandError(f"{source}, document {number or 1}{line}: {problem}") from exc
    except (yaml.YAMLError, RecursionError) as exc:
        reason = str(exc) if isinstance(exc, yaml.YAMLError) else "nested too deeply"
        raise CommandError(f"{source}, document {number or 1}: {reason}") from exc
    finally:
        loader.dispose()


def _json(text: str) -> Any:
    """Return the value of JSON; raise ValueError for anything else, and for a key that repeats."""

    def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise ValueError("a key stands twice")
        return found

    def refused(word: str) -> float:
        raise ValueError(f"{word} is not JSON")

    return json.loads(text, object_pairs_hook=distinct, parse_constant=refused)


class _Loader(yaml.SafeLoader):
    """Reads scalars as kubectl does, not as YAML 1.1 asks: no dates, and no 12:30 as a number."""


_Loader.yaml_implicit_resolvers = {
    first: [
        (tag, pattern)
        for tag, pattern in resolvers
        if tag.rpartition(":")[2] not in ("timestamp", "int", "float")
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:int",
    re.compile(r"[-+]?(0|[1-9][0-9_]*|0b[01_]+|0[0-7_]+|0x[0-9a-fA-F_]+)\Z"),
    list("-+0123456789"),
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(
        r"""[-+]?(
            [0-9][0-9_]*\.[0-9_]* | \.[0-9][0-9_]* |
            [0-9][0-9_]*(\.[0-9_]*)?[eE][-+]?[0-9]+ | \.[0-9_]+[eE][-+]?[0-9]+
        )\Z""",
        re.VERBOSE,
    ),
    list("-+0123456789."),
)


def _is_too_deep(data: Any) -> bool:
    level = [data]
    for _ in range(DEPTH_MAX + 1):
        if not level:
            return False
        level = [
            item
            for value in level
            if isinstance(value, dict | list)
            for item in (value.values() if isinstance(value, dict) else value)
        ]
    return bool(level)


class _Values:
    """Plain data from the nodes of one document, with the line of every value."""

    def __init__(self, loader: _Loader, lines: dict[PathTo, int]) -> None:
        self._loader = loader
        self._lines = lines

    def of(self, node: yaml.Node, path: PathTo) -> Any:
        """Return what a node holds."""
        self._lines[path] = node.start_mark.line + 1
        if len(path) > DEPTH_MAX:
            raise _error(node, f"is {_TOO_DEEP}")
        if len(self._lines) > VALUES_MAX:
            raise _error(node, f"holds more than {VALUES_MAX:,} values")
        match node:
            case yaml.MappingNode():
                return self._mapping(node, path)
            case yaml.SequenceNode():
                return [self.of(item, (*path, index)) for index, item in enumerate(node.value)]
            case _:
                return self._scalar(node)

    def _mapping(self, node: yaml.MappingNode, path: PathTo) -> dict[str, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            word = str(key.value)
            if word in seen:
                raise _error(key, f"{word!r} stands twice in one object: remove one of them")
            seen.add(word)
        self._loader.flatten_mapping(node)
        found: dict[str, Any] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise _error(key, "a key must be text")
            found[key.value] = self.of(value, (*path, key.value))
            # A field that holds no more than its name is looked for where the name stands.
            self._lines[(*path, key.value)] = key.start_mark.line + 1
        return found

    def _scalar(self, node: yaml.Node) -> Any:
        kind = node.tag.rpartition(":")[2]
        if kind not in ("str", "int", "float", "bool", "null"):
            raise _error(node, f"{node.tag} is no type that JSON has")
        try:
            return self._loader.construct_object(node)
        except ValueError as exc:
            raise _error(node, f"{node.value!r} is no {kind}") from exc


def _error(node: yaml.Node, problem: str) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
