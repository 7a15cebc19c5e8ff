from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from bridge.events import ChildHint, ObjectKey
from bridge.index import Index, News, Scope
from crds.kubernetes import DEPLOYMENT, SERVICE, ObjectMeta
from tests.unit.bridge.objects import ENGINE, a_meta

DEPLOYMENTS = Scope(DEPLOYMENT, "")
A = ObjectKey("engine", "ns", "a")
B = ObjectKey("engine", "ns", "b")

BYTES_PER_OBJECT_MAX = 400


def apply(
    index: Index, meta: ObjectMeta, owner: ObjectKey | None, digest: int = 1, *, keep: bool = False
) -> tuple[ObjectKey, ...] | None:
    change = index.apply(DEPLOYMENTS, meta, owner, digest, keep=keep)
    return None if change is None else change.keys


def news(index: Index, meta: ObjectMeta, owner: ObjectKey | None, digest: int = 1) -> News | None:
    change = index.apply(DEPLOYMENTS, meta, owner, digest, keep=False)
    return None if change is None else change.news


def test_a_state_that_is_known_concerns_nobody() -> None:
    index = Index()
    assert apply(index, a_meta(), A) == (A,)
    assert apply(index, a_meta(resource_version="8"), A) is None
    assert apply(index, a_meta(resource_version="9"), A, digest=2) == (A,)


def test_what_is_new_is_an_object_its_owner_or_how_it_is() -> None:
    index = Index()
    assert news(index, a_meta(), A) is News.APPEARED
    assert news(index, a_meta(), A, digest=2) is News.ALTERED
    assert news(index, a_meta(), B, digest=3) is News.MOVED
    assert news(index, a_meta(), B, digest=3) is None


@pytest.mark.parametrize("is_empty", [False, True])
def test_of_what_a_list_names_nobody_knows_what_was_there_before(is_empty: bool) -> None:
    index = Index()
    if not is_empty:
        apply(index, a_meta(uid="known"), A)
    index.begin_list(DEPLOYMENTS)
    assert news(index, a_meta(uid="met"), A) is News.LISTED
    index.end_list(DEPLOYMENTS)
    assert news(index, a_meta(uid="new"), A) is News.APPEARED


def test_a_change_of_owner_concerns_both() -> None:
    index = Index()
    apply(index, a_meta(), A)
    assert apply(index, a_meta(), B) == (B, A)
    assert list(index.children(A)) == []
    assert list(index.children(B)) == [ChildHint("Deployment", "a", "uid-a")]
    assert apply(index, a_meta(), None) == (B,)


def test_what_is_nobodys_is_not_remembered_unless_it_is_kept() -> None:
    index = Index()
    assert apply(index, a_meta(), None) is None
    assert len(index) == 0
    assert apply(index, a_meta(), None, keep=True) == ()
    assert len(index) == 1


def test_what_a_finished_list_does_not_name_is_gone() -> None:
    index = Index()
    for name in ("stays", "goes"):
        apply(index, a_meta(name=name, uid=name), A)
    index.begin_list(DEPLOYMENTS)
    apply(index, a_meta(name="stays", uid="stays"), A)
    assert [record.name for record in index.end_list(DEPLOYMENTS)] == ["goes"]
    assert [child.name for child in index.children(A)] == ["stays"]


def test_a_list_that_was_cut_off_takes_nothing_away() -> None:
    index = Index()
    for name in ("one", "two"):
        apply(index, a_meta(name=name, uid=name), A)
    index.begin_list(DEPLOYMENTS)
    apply(index, a_meta(name="one", uid="one"), A)
    index.begin_list(DEPLOYMENTS)
    for name in ("one", "two"):
        apply(index, a_meta(name=name, uid=name), A)
    assert index.end_list(DEPLOYMENTS) == []


def test_an_object_that_was_replaced_under_its_name_is_two() -> None:
    index = Index()
    apply(index, a_meta(uid="old"), A)
    index.begin_list(DEPLOYMENTS)
    assert apply(index, a_meta(uid="new"), A) == (A,)
    assert [record.uid for record in index.end_list(DEPLOYMENTS)] == ["old"]


def test_a_list_of_one_scope_takes_nothing_from_another() -> None:
    index = Index()
    other = Scope(DEPLOYMENT, "elsewhere")
    apply(index, a_meta(), A)
    index.apply(other, a_meta(uid="far"), B, 1, keep=False)
    index.begin_list(other)
    assert [record.uid for record in index.end_list(other)] == ["far"]
    assert len(index) == 1


def test_a_resource_is_no_child_of_itself() -> None:
    index = Index()
    index.apply(Scope(ENGINE, ""), a_meta(uid="r"), A, 1, keep=True)
    apply(index, a_meta(), A)
    assert list(index.children(A)) == [ChildHint("Deployment", "a", "uid-a")]


def test_owners_come_latest_change_first() -> None:
    index = Index()
    apply(index, a_meta(uid="1", resource_version="90"), A)
    apply(index, a_meta(uid="2", resource_version="100"), B)
    assert index.owners() == [B, A]
    apply(index, a_meta(uid="3", resource_version="1000"), A)
    assert index.owners() == [A, B]


def test_an_owner_that_is_gone_is_known_while_something_is_its() -> None:
    index = Index()
    resources = Scope(ENGINE, "")
    index.apply(resources, a_meta(uid="r"), A, 1, keep=False)
    apply(index, a_meta(), A)
    index.delete(resources, "r")
    assert index.owners() == [A]
    index.delete(DEPLOYMENTS, "uid-a")
    assert index.owners() == []
    assert not index.knows(A)


def test_kept_metadata_is_what_identifies_the_labels_and_our_annotations() -> None:
    index = Index()
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": "x", "weir.dev/paused": ""}
    apply(index, a_meta(annotations=annotations), A, keep=True)
    [(owner, meta)] = index.kept(DEPLOYMENT)
    assert owner == A
    assert (meta.name, meta.uid, meta.labels) == ("a", "uid-a", a_meta().labels)
    assert meta.annotations == {"weir.dev/paused": ""}


def seventy_thousand() -> Iterator[tuple[Scope, ObjectMeta, ObjectKey]]:
    """Yield 10,000 resources with six children each, decoded anew as from the wire."""
    for n in range(10_000):
        name = f"deployment-{n}"
        for scope, suffixes in (
            (Scope(ENGINE, ""), [""]),
            (DEPLOYMENTS, ["-server", "-worker"]),
            (Scope(SERVICE, ""), ["-server", "-nats", "-epp", "-disc"]),
        ):
            for suffix in suffixes:
                uid = f"{n:08x}-0000-4000-8000-{abs(hash(suffix)) % 2**48:012x}"
                version = str(1_000_000 + n)
                meta = a_meta(name=name + suffix, uid=uid, resource_version=version, labels={})
                yield scope, meta, ObjectKey("engine", "ns", name)


def test_seventy_thousand_objects_take_little_memory() -> None:
    index = Index()
    tracemalloc.start()
    try:
        for scope, meta, owner in seventy_thousand():
            index.apply(scope, meta, owner, hash(meta.uid) & 0xFFFF_FFFF_FFFF_FFFF, keep=False)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(index) == 70_000
    assert held / len(index) < BYTES_PER_OBJECT_MAX


UIDS = st.sampled_from([f"uid-{n}" for n in range(5)])
KEYS = st.sampled_from([None, A, B])


class IndexAgainstModel(RuleBasedStateMachine):
    """The index, and a plain dictionary of what exists."""

    def __init__(self) -> None:
        super().__init__()
        self.index = Index()
        self.model: dict[str, tuple[ObjectKey, int]] = {}
        self.named: set[str] | None = None

    @rule(uid=UIDS, owner=KEYS, digest=st.integers(0, 2))
    def apply(self, uid: str, owner: ObjectKey | None, digest: int) -> None:
        """An object is seen."""
        before = self.model.get(uid)
        concerned = apply(self.index, a_meta(name=uid, uid=uid), owner, digest)
        was, is_known = (before[0], before[1] == digest) if before else (None, owner is None)
        if owner == was and is_known:
            assert concerned is None
        else:
            assert set(concerned or ()) == {key for key in (owner, was) if key}
        self._remember(uid, owner, digest)
        if self.named is not None:
            self.named.add(uid)

    def _remember(self, uid: str, owner: ObjectKey | None, digest: int) -> None:
        if owner is not None:
            self.model[uid] = (owner, digest)
        else:
            self.model.pop(uid, None)
            self.index.delete(DEPLOYMENTS, uid)

    @rule(uid=UIDS)
    def delete(self, uid: str) -> None:
        """An object is seen to go."""
        record = self.index.delete(DEPLOYMENTS, uid)
        before = self.model.pop(uid, None)
        assert (record.owner if record else None) == (before[0] if before else None)
        if self.named is not None:
            self.named.discard(uid)

    @rule()
    def begin_list(self) -> None:
        """A list begins."""
        self.index.begin_list(DEPLOYMENTS)
        self.named = set()

    @precondition(lambda self: self.named is not None)
    @rule()
    def end_list(self) -> None:
        """The list has named all that exists."""
        gone = {record.uid for record in self.index.end_list(DEPLOYMENTS)}
        assert self.named is not None
        assert gone == set(self.model) - self.named
        for uid in gone:
            del self.model[uid]
        self.named = None

    @invariant()
    def children_and_owners_are_those_that_exist(self) -> None:
        """The index holds what the model holds."""
        assert len(self.index) == len(self.model)
        for key in (A, B):
            children = {child.uid for child in self.index.children(key)}
            assert children == {uid for uid, (owner, _) in self.model.items() if owner == key}
            assert self.index.knows(key) == bool(children)
        assert set(self.index.owners()) == {owner for owner, _ in self.model.values()}


TestIndexAgainstModel = IndexAgainstModel.TestCase
TestIndexAgainstModel.settings = settings(max_examples=60, stateful_step_count=30)
