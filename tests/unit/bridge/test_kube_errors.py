"""What the API server answers, as one of our errors."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.kube_errors import (
    ERROR_TEXT_MAX,
    AlreadyExists,
    Conflict,
    Gone,
    KubeError,
    NotFound,
    NotServed,
    Refused,
    Throttled,
    Unavailable,
    error_of,
)


def a_status(reason: str, message: str = "words", **details: Any) -> bytes:
    """Return a Status object as kube-apiserver writes it."""
    return json.dumps(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
            "details": details,
        }
    ).encode()


CLASSES: list[tuple[int, str, type[KubeError]]] = [
    (400, "BadRequest", Refused),
    (401, "Unauthorized", Refused),
    (403, "Forbidden", Refused),
    (404, "NotFound", NotFound),
    (405, "MethodNotAllowed", Refused),
    (409, "Conflict", Conflict),
    (409, "AlreadyExists", AlreadyExists),
    (410, "Expired", Gone),
    (410, "Gone", Gone),
    (413, "RequestEntityTooLarge", Refused),
    (415, "UnsupportedMediaType", Refused),
    (422, "Invalid", Refused),
    (429, "TooManyRequests", Throttled),
    (500, "InternalError", Unavailable),
    (503, "ServiceUnavailable", Unavailable),
    (504, "Timeout", Unavailable),
]


@pytest.mark.parametrize(("status", "reason", "expected"), CLASSES)
def test_the_class_of_an_answer_follows_from_its_code_and_reason(
    status: int, reason: str, expected: type[KubeError]
) -> None:
    error = error_of(status, a_status(reason, name="chat"))
    assert type(error) is expected
    assert (error.status, error.reason, error.message) == (status, reason, "words")
    assert str(error) == f"{status} {reason}: words"


def test_words_have_no_line_end() -> None:
    assert str(error_of(404, b"404 page not found\n")) == "404 HTTP404: 404 page not found"


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"404 page not found\n", NotServed),
        (b'{"reason":"NotFound","message":"could not find the requested","details":{}}', NotServed),
        (b'{"reason":"NotFound","message":"x","details":{"name":"x","kind":"pods"}}', NotFound),
    ],
)
def test_a_404_that_names_no_object_is_of_the_kind(body: bytes, kind: type[KubeError]) -> None:
    assert type(error_of(404, body)) is kind


def test_the_causes_of_a_refusal_are_kept() -> None:
    body = a_status(
        "Forbidden", causes=[{"reason": "NamespaceTerminating", "message": "m", "field": "f"}]
    )
    assert error_of(403, body).causes == ("NamespaceTerminating",)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [(None, None), ("3", 3.0), ("", None), ("Wed, 21 Oct 2026 07:28:00 GMT", None), ("²", None)],
)
def test_a_wait_is_read_where_it_is_a_number_of_seconds(
    header: str | None, seconds: float | None
) -> None:
    assert error_of(429, a_status("TooManyRequests"), header).retry_after_seconds == seconds


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>bad gateway</html>", b"null", b"[]", b'{"message":null}', b"\xff", b"[" * 9999],
)
def test_an_answer_of_somebody_between_us_and_the_server_is_an_error_too(body: bytes) -> None:
    error = error_of(502, body)
    assert isinstance(error, Unavailable)
    assert error.reason == "HTTP502"
    assert len(error.message) <= ERROR_TEXT_MAX


@given(st.integers(300, 599), st.binary(), st.none() | st.text())
def test_whatever_is_answered_is_one_error_of_bounded_words(
    status: int, body: bytes, header: str | None
) -> None:
    error = error_of(status, body, header)
    assert error.status == status
    assert len(error.message) <= ERROR_TEXT_MAX


def test_no_answer_at_all_says_so_without_a_code() -> None:
    assert str(Unavailable(0, "ConnectionLost", "reset")) == "ConnectionLost: reset"
