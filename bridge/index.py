"""
What the bridge remembers: per object who owns it and what it looked like.

The index answers three questions: does this state matter (its digest is new), who must look
(the owner, and the former one where it changed), and what does a resource own (the hint). A
finished list is a diff: what it does not name is gone.

Seventy thousand objects live here, so a record is one small untracked struct; metadata is kept
only of objects that references are judged by.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import NamedTuple

from msgspec import Struct

from bridge.digest import ANNOTATION_PREFIX
from bridge.events import ChildHint, ObjectKey
from crds.kind import Kind
from crds.kubernetes import ObjectMeta


class Scope(NamedTuple):
    """What one watch covers: a kind, in one namespace or, with an empty one, in all."""

    kind: Kind
    namespace: str


class News(Enum):
    """What is new about an object."""

    APPEARED = "appeared"
    """Nothing of its name was there: had something been, its deletion was told."""
    LISTED = "listed"
    """It was met in a list: what was there before it is not known."""
    ALTERED = "altered"
    """It has the same owner, and another digest."""
    MOVED = "moved"
    """It has another owner."""


class Change(NamedTuple):
    """A state that matters."""

    keys: tuple[ObjectKey, ...]
    """Whom it concerns: the owner, and the former one where it changed."""
    news: News


class Record(Struct, gc=False):
    """An object as it was last seen."""

    kind: str
    """As in manifests."""
    name: str
    uid: str
    version: int
    """The resourceVersion; 0 where that is no number."""
    owner: ObjectKey | None
    digest: int
    meta: ObjectMeta | None
    """Kept where asked: what identifies the object, its labels and our annotations."""


class _Scoped(Struct):
    records: dict[str, Record]
    """By uid."""
    listing: set[str] | None = None
    """The uids that a running list has named; None where none runs, or none could be missed."""
    is_listing: bool = False
    """A list runs: what it is the first to name may have replaced something."""


class Index:
    """The memory of one bridge."""

    def __init__(self) -> None:
        self._scopes: dict[Scope, _Scoped] = {}
        self._owned: dict[ObjectKey, list[Record]] = {}

    def apply(
        self, scope: Scope, meta: ObjectMeta, owner: ObjectKey | None, digest: int, *, keep: bool
    ) -> Change | None:
        """
        Remember a state; return whom it concerns, None where nothing that matters changed.

        With `keep`, the metadata is remembered too. What is nobody's and not kept is not
        remembered.
        """
        scoped = self._scoped(scope)
        if scoped.listing is not None:
            scoped.listing.add(meta.uid)
        record = scoped.records.get(meta.uid)
        if record is None:
            if owner is None and not keep:
                return None
            record = Record(scope.kind.kind, meta.name, meta.uid, version(meta), None, digest, None)
            scoped.records[meta.uid] = record
            before, changed = None, True
            news = News.LISTED if scoped.is_listing else News.APPEARED
        else:
            before, changed = record.owner, record.digest != digest
            news = News.ALTERED if owner == before else News.MOVED
            record.version = version(meta)
            record.digest = digest
        if keep:
            record.meta = _kept(meta, record)
        if owner != before:
            self._move(record, owner)
            return Change(tuple(key for key in (owner, before) if key is not None), news)
        if not changed:
            return None
        return Change((owner,) if owner is not None else (), news)

    def delete(self, scope: Scope, uid: str) -> Record | None:
        """Forget an object; return what was known of it, None where nothing was."""
        scoped = self._scoped(scope)
        if scoped.listing is not None:
            scoped.listing.discard(uid)
        record = scoped.records.pop(uid, None)
        if record is not None:
            self._unlink(record)
        return record

    def begin_list(self, scope: Scope) -> None:
        """A list begins; one that was cut off before is forgotten."""
        scoped = self._scoped(scope)
        # Where nothing is known, nothing can be missed: the largest list needs no set of names.
        scoped.listing = set() if scoped.records else None
        scoped.is_listing = True

    def end_list(self, scope: Scope) -> list[Record]:
        """Return the objects that the list did not name, which are forgotten now."""
        scoped = self._scoped(scope)
        named, scoped.listing, scoped.is_listing = scoped.listing, None, False
        if named is None:
            return []
        return [
            record
            for uid in [uid for uid in scoped.records if uid not in named]
            if (record := self.delete(scope, uid)) is not None
        ]

    def forget(self, scope: Scope) -> list[Record]:
        """Return every object of a scope, all of which are forgotten now."""
        self.begin_list(scope)
        return self.end_list(scope)

    def owners(self) -> list[ObjectKey]:
        """
        Return every key that is known: of resources, and of owners that are gone.

        Those that changed last come first, so that whoever looks at all of them begins with
        what was missed.
        """
        return sorted(
            self._owned,
            key=lambda key: max(record.version for record in self._owned[key]),
            reverse=True,
        )

    def knows(self, key: ObjectKey) -> bool:
        """Return whether there is an object of this key."""
        return key in self._owned

    def children(self, key: ObjectKey) -> Iterator[ChildHint]:
        """Yield what a resource owns, without itself."""
        for record in self._owned.get(key, ()):
            if record.kind.lower() != key.kind or record.name != key.name:
                yield ChildHint(record.kind, record.name, record.uid)

    def kept(self, kind: Kind) -> Iterator[tuple[ObjectKey | None, ObjectMeta]]:
        """Yield owner and metadata of the objects of a kind whose metadata was kept."""
        for scope, scoped in self._scopes.items():
            if scope.kind == kind:
                for record in scoped.records.values():
                    if record.meta is not None:
                        yield record.owner, record.meta

    def owners_in(self, scope: Scope) -> set[ObjectKey]:
        """Return the owners of the objects of one scope."""
        records: Iterable[Record] = self._scoped(scope).records.values()
        return {record.owner for record in records if record.owner is not None}

    def __len__(self) -> int:
        return sum(len(scoped.records) for scoped in self._scopes.values())

    def _scoped(self, scope: Scope) -> _Scoped:
        scoped = self._scopes.get(scope)
        if scoped is None:
            scoped = self._scopes[scope] = _Scoped({})
        return scoped

    def _move(self, record: Record, owner: ObjectKey | None) -> None:
        self._unlink(record)
        if owner is None:
            record.owner = None
            return
        siblings = self._owned.get(owner)
        if siblings is None:
            owner = ObjectKey(owner.kind, sys.intern(owner.namespace), owner.name)
            self._owned[owner] = [record]
        else:
            # One key object per owner, shared by all that it owns.
            owner = siblings[0].owner or owner
            siblings.append(record)
        record.owner = owner

    def _unlink(self, record: Record) -> None:
        if record.owner is None:
            return
        siblings = self._owned[record.owner]
        siblings[:] = [sibling for sibling in siblings if sibling is not record]
        if not siblings:
            del self._owned[record.owner]


def version(meta: ObjectMeta) -> int:
    """
    Return the resourceVersion as a number, 0 where it is none.

    Source: Kubernetes API concepts, "Resource versions": comparable as decimals (KEP-5504).
    """
    return int(meta.resource_version) if meta.resource_version.isdecimal() else 0


def _kept(meta: ObjectMeta, record: Record) -> ObjectMeta:
    """Return what references may be judged by, sharing what the record has already."""
    ours = {k: v for k, v in (meta.annotations or {}).items() if k.startswith(ANNOTATION_PREFIX)}
    return ObjectMeta(
        name=record.name,
        namespace=sys.intern(meta.namespace or "") or None,
        uid=record.uid,
        labels={sys.intern(k): sys.intern(v) for k, v in (meta.labels or {}).items()} or None,
        annotations=ours or None,
    )
