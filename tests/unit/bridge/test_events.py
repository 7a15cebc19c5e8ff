"""The envelope of a message."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.events import (
    WORK_SUBJECT,
    ChangeEvent,
    ChildHint,
    EventType,
    ObjectKey,
    decode,
    deleted_id,
    encode,
    joined,
    observed_id,
    resync_id,
    seen_id,
)

LABEL = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,10}[a-z0-9])?", fullmatch=True)
NAME = st.lists(LABEL, min_size=1, max_size=4).map(".".join)
KEYS = st.builds(
    ObjectKey, st.from_regex(r"[a-z]{1,20}", fullmatch=True), st.just("") | LABEL, NAME
)
HINTS = st.lists(st.builds(ChildHint, st.text(max_size=9), NAME, st.text(max_size=9)), max_size=3)
EVENTS = st.builds(
    ChangeEvent,
    key=KEYS,
    type=st.sampled_from(EventType),
    id=st.text("abc:-.", min_size=1),
    source=st.just("weir/bridge"),
    time=st.just("") | st.just("2026-01-01T00:00:00Z"),
    traceparent=st.just("") | st.just("00-ab-cd-01"),
    children=HINTS.map(tuple),
)
KEY = ObjectKey("inferadeployment", "a", "b.c")


@given(KEYS)
def test_a_token_is_three_subject_tokens_and_gives_its_key_back(key: ObjectKey) -> None:
    assert key.token.count(".") == 2
    assert all(key.token.split("."))
    assert ObjectKey.from_token(key.token) == key


@given(KEYS, KEYS)
def test_two_objects_never_share_a_token(left: ObjectKey, right: ObjectKey) -> None:
    assert (left.token == right.token) is (left == right)


@pytest.mark.parametrize(
    ("key", "token", "text"),
    [
        (KEY, "inferadeployment.a.b_c", "inferadeployment a/b.c"),
        (ObjectKey("inferacluster", "", "x"), "inferacluster._.x", "inferacluster._.x"),
    ],
)
def test_a_key_is_written_as_people_and_subjects_need_it(
    key: ObjectKey, token: str, text: str
) -> None:
    assert key.token == token
    assert str(key) == text


NO_TOKENS = ["", "a", "a.b", "a.b.c.d", "k.n.x?y", "k.n.x/status", "k.n.#", "k.n.", "k..x", "k.*.x"]
NO_NAMES = ["K.n.x", "k.n.x y", "k.n.-x", "k.n.ü", "k.n." + "x" * 254]


@pytest.mark.parametrize("token", [*NO_TOKENS, *NO_NAMES])
def test_what_is_no_token_is_refused(token: str) -> None:
    with pytest.raises(ValueError, match="is the token of no object"):
        ObjectKey.from_token(token)


@given(EVENTS, st.sampled_from(["0", "1", "t"]))
def test_an_event_comes_back_as_it_was_sent(event: ChangeEvent, slot: str) -> None:
    headers, payload = encode(event)
    assert decode(f"{WORK_SUBJECT}.{event.key.token}.{slot}", headers, payload) == event


def test_headers_are_those_of_a_cloud_event_in_the_nats_binding() -> None:
    event = ChangeEvent(key=KEY, type=EventType.DELETED, id="i", time="t", traceparent="p")
    headers, payload = encode(event)
    assert headers == {
        "ce-specversion": "1.0",
        "ce-datacontenttype": "application/json",
        "ce-id": "i",
        "ce-type": "dev.weir.deleted",
        "ce-source": "weir/bridge",
        "ce-subject": "inferadeployment.a.b_c",
        "ce-time": "t",
        "traceparent": "p",
        "Nats-Msg-Id": "i",
    }
    assert payload == b""


@given(
    st.none()
    | st.dictionaries(st.sampled_from(["ce-type", "ce-id", "traceparent", "x"]), st.text()),
    st.binary() | st.just(b"[" * 100_000) | st.just(b'[["a"]]') | st.just(b"[[1,2,3]]"),
)
def test_nothing_but_the_subject_decides_what_is_looked_at(
    headers: dict[str, str] | None, payload: bytes
) -> None:
    event = decode(f"{WORK_SUBJECT}.{KEY.token}.0", headers, payload)
    assert event.key == KEY
    assert event.type in EventType


def test_a_message_without_headers_is_a_timers_and_one_of_no_known_type_a_change() -> None:
    subject = f"{WORK_SUBJECT}.{KEY.token}.t"
    assert decode(subject, None, b"").type is EventType.TIMER
    assert decode(subject, {"ce-type": "dev.weir.of-tomorrow"}, b"").type is EventType.CHANGED


@given(KEYS, KEYS, st.text(min_size=1), st.text(min_size=1))
def test_ids_tell_states_deletions_resyncs_and_keys_apart(
    key: ObjectKey, other: ObjectKey, uid: str, version: str
) -> None:
    ids = [
        seen_id(key, uid, version),
        deleted_id(key, uid, version),
        observed_id(key, uid, version),
        resync_id(key, f"{version}:1"),
        resync_id(key, f"{version}:2"),
    ]
    assert len(set(ids)) == 5
    assert all(id_.startswith(f"{key.token}:") for id_ in ids)
    assert (seen_id(other, uid, version) == seen_id(key, uid, version)) is (other == key)


def an_event(type_: EventType, *children: str) -> ChangeEvent:
    hints = tuple(ChildHint("Service", name, f"uid-{name}") for name in children)
    return ChangeEvent(key=KEY, type=type_, id=type_.value, children=hints)


@pytest.mark.parametrize(
    ("one", "other", "weightier"),
    [
        (EventType.OBSERVED, EventType.OBSERVED, EventType.OBSERVED),
        (EventType.OBSERVED, EventType.CHANGED, EventType.CHANGED),
        (EventType.OBSERVED, EventType.DELETED, EventType.DELETED),
        (EventType.CHANGED, EventType.RESYNC, EventType.RESYNC),
        (EventType.REFERRED, EventType.OBSERVED, EventType.REFERRED),
        (EventType.REFERRED, EventType.CHANGED, EventType.REFERRED),
        (EventType.REFERRED, EventType.DELETED, EventType.REFERRED),
        (EventType.REFERRED, EventType.RESYNC, EventType.RESYNC),
    ],
)
def test_of_two_looks_the_weightier_does_for_both_and_every_hint_is_kept(
    one: EventType, other: EventType, weightier: EventType
) -> None:
    pair = an_event(one, "a", "b"), an_event(other, "b", "c")
    for first, second in (pair, pair[::-1]):
        look = joined(first, second)
        assert look is not None
        assert look.type is weightier
        assert {hint.name for hint in look.children} == {"a", "b", "c"}


@pytest.mark.parametrize("due", [EventType.TIMER, EventType.RETRY])
@pytest.mark.parametrize("other", EventType)
def test_what_is_due_gets_a_look_of_its_own(due: EventType, other: EventType) -> None:
    assert joined(an_event(due), an_event(other)) is None
    assert joined(an_event(other), an_event(due)) is None
