"""
Which paths a rendering holds, as a short text that its child remembers.

An apply leaves what another entry of `managedFields` owns, ours of the child's creation included:
so before a path is dropped, entries have to be merged (fields.py), which is a write of its own.
What the text of the last rendering says is that no path is dropped, as by nearly every edit.

The entry of the creation owns what the server defaulted, too. Most of that is the same whatever
else an object holds; a default that follows from a rendered value counts as a path here, so that it
is made anew with that value (IMAGE, and a volume that names no source).
"""

from __future__ import annotations

import base64
import hashlib
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from crds.kubernetes import Manifest

DIGEST_BYTES = 5
"""Of a path: two of one object's 100 are alike once in 200 million objects."""
REMEMBERED = 4096
"""Digests of paths of fields that are kept: they are the same few in all objects."""
IMAGE = "image"
"""`imagePullPolicy` is Always by default where the tag is `latest`, or there is none."""
KEYED_BY_NAME = frozenset({"containers", "initContainers", "env", "volumes"})
"""
Lists of a pod spec whose items are told by their name alone.

Source: `x-kubernetes-list-map-keys` in the API server's OpenAPI schema, of these and of ATOMIC.
"""
ATOMIC = frozenset({"command", "args"})
"""Lists of a container that are one value."""


def paths_text(manifest: Manifest) -> str:
    """Return the paths that a rendering holds, whatever their values."""
    return base64.b64encode(b"".join(sorted(_digests(manifest)))).decode()


def holds_all(manifest: Manifest, text: str) -> bool:
    """Return whether a rendering holds every path of another's text; False of what is no text."""
    try:
        known = base64.b64decode(text, validate=True)
    except ValueError:
        return False
    if not known or len(known) % DIGEST_BYTES:
        return False
    starts = range(0, len(known), DIGEST_BYTES)
    return {known[start : start + DIGEST_BYTES] for start in starts} <= _digests(manifest)


def _digests(manifest: Manifest) -> set[bytes]:
    fields: list[str] = []
    words: list[str] = []
    _collect(manifest, "", "", fields, words)
    return {*map(_digest_of_field, fields), *map(_digest, words)}


def _digest(path: str) -> bytes:
    return hashlib.blake2b(path.encode(errors="surrogatepass"), digest_size=DIGEST_BYTES).digest()


_digest_of_field = lru_cache(maxsize=REMEMBERED)(_digest)


def _collect(value: Any, path: str, name: str, fields: list[str], words: list[str]) -> None:
    """Add the paths at which something stands; of a list whose keys are not known, its words."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            if item is not None:
                _collect(item, f"{path}\0{key}", key, fields, words)
    elif isinstance(value, list) and name in KEYED_BY_NAME and all(map(_is_named, value)):
        for item in value:
            inside = f"{path}\0[{item['name']}]"
            _collect(item, inside, "", fields, words)
            if len(item) == 1:
                fields.append(f"{inside}\0nothing else")
    elif isinstance(value, list) and name not in ATOMIC:
        words.append(f"{path}\0{msgspec.json.encode(value, order='deterministic').decode()}")
    elif name == IMAGE and isinstance(value, str):
        fields.append(f"{path}\0{'latest' if _is_latest(value) else 'fixed'}")
    else:
        fields.append(path)


def _is_named(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(item.get("name"), str)


def _is_latest(image: str) -> bool:
    """Source: Kubernetes documentation, "Default image pull policy"."""
    name, _, digest = image.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    return tag == "latest" or not (tag or digest)
