"""Eight bytes that change when, and only when, something changed that a reconcile must see."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

import msgspec

from bridge.objects import Seen

ANNOTATION_PREFIX: Final = "weir.dev/"

_encoder = msgspec.json.Encoder(order="sorted")


def digest(seen: Seen, *, any_change: bool = False) -> int:
    """
    Return the digest of what matters of an object.

    That is its spec by `generation` (by `resourceVersion` where the server keeps none, as of
    Services, Roles and ConfigMaps, and with `any_change`), labels, our annotations, owners,
    deletion, and the status fields that were read.
    """
    meta = seen.meta
    ours = {
        name: value
        for name, value in (meta.annotations or {}).items()
        if name.startswith(ANNOTATION_PREFIX)
    }
    version = meta.generation if meta.generation and not any_change else meta.resource_version
    matter = _encoder.encode(
        (version, meta.labels, ours, meta.owner_references, meta.deletion_timestamp)
    )
    hashed = blake2b(matter, digest_size=8)
    for name, value in seen.status.items():
        hashed.update(name.encode())
        hashed.update(value)
    return int.from_bytes(hashed.digest(), "big")
