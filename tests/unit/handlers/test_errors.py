"""Every error of an edge has one class above it."""

from __future__ import annotations

import asyncio
from typing import TypeVar

import pytest

import bridge.jetstream
import bridge.kube_errors
from bridge.jetstream import BusError, BusUnavailable
from bridge.kube_errors import Conflict, KubeError, Refused, Throttled, Unavailable
from handlers.errors import KUBERNETES, NATS, DependencyDown, GiveBack, LeaseLost, settled_as

E = TypeVar("E", bound=Exception)


def subclasses(root: type[E]) -> list[type[E]]:
    """Return a class and all below it."""
    return [root, *(cls for child in root.__subclasses__() for cls in subclasses(child))]


KUBE_ERRORS: dict[str, type[BaseException] | None] = {
    # name: what it is settled as; None: counted as our own failure
    "KubeError": None,
    "Gone": None,
    "Conflict": GiveBack,
    "AlreadyExists": None,
    "NotFound": None,
    "NotServed": None,
    "Refused": None,
    "Throttled": DependencyDown,
    "Unavailable": DependencyDown,
}


def test_the_map_knows_every_error_of_the_api_client() -> None:
    assert {cls.__name__ for cls in subclasses(KubeError)} == set(KUBE_ERRORS)


@pytest.mark.parametrize("cls", subclasses(KubeError))
def test_every_error_of_the_api_client_is_settled(cls: type[KubeError]) -> None:
    error = cls(422, "Reason", "text")
    expected = KUBE_ERRORS[cls.__name__]
    found = settled_as(error)
    assert found is error if expected is None else isinstance(found, expected)


@pytest.mark.parametrize("cls", subclasses(BusError))
def test_every_error_of_the_bus_is_a_dependency_that_is_down(cls: type[BusError]) -> None:
    found = settled_as(cls("text"))
    assert isinstance(found, DependencyDown)
    assert found.backend == NATS


@pytest.mark.parametrize(
    ("status", "is_out"), [(0, True), (500, False), (502, True), (503, True), (504, False)]
)
def test_only_a_backend_of_which_nothing_answers_is_out(status: int, *, is_out: bool) -> None:
    found = settled_as(Unavailable(status, "x", "x"))
    assert isinstance(found, DependencyDown)
    assert (found.backend, found.is_out) == (KUBERNETES, is_out)


@pytest.mark.parametrize(
    "error",
    [Refused(401, "Unauthorized", "x"), Refused(403, "Forbidden", "x"), Throttled(429, "x", "x")],
)
def test_what_concerns_our_access_is_never_an_outage(error: KubeError) -> None:
    found = settled_as(error)
    assert isinstance(found, DependencyDown)
    assert not found.is_out


SLOW: list[tuple[KubeError | TimeoutError, bool]] = [
    (Throttled(429, "TooManyRequests", "x"), True),
    (Unavailable(0, "ConnectionLost", "Server disconnected"), True),
    (Unavailable(504, "Timeout", "x"), True),
    (TimeoutError("not done in 120 s"), True),
    (Unavailable(500, "InternalError", "failed calling webhook"), False),
    (Refused(403, "Forbidden", "x"), False),
]


@pytest.mark.parametrize(("error", "is_slow"), SLOW)
def test_only_what_fewer_calls_could_help_counts_as_slow(
    error: KubeError | TimeoutError, *, is_slow: bool
) -> None:
    found = settled_as(error)
    assert isinstance(found, DependencyDown)
    assert found.is_slow is is_slow


def test_the_words_and_the_patience_of_the_server_are_kept() -> None:
    found = settled_as(Throttled(429, "TooManyRequests", "slow down", 9.0))
    assert isinstance(found, DependencyDown)
    assert found.after_seconds == 9.0
    assert "slow down" in str(found)


@pytest.mark.parametrize(
    "error", [ValueError("x"), LeaseLost("x"), GiveBack("x", 1), asyncio.CancelledError()]
)
def test_what_has_its_class_already_keeps_it(error: BaseException) -> None:
    assert settled_as(error) is error


def test_no_error_of_an_edge_is_an_error_of_another() -> None:
    for cls in (*subclasses(KubeError), *subclasses(BusError)):
        assert not issubclass(cls, OSError)
        assert cls.__module__ in {bridge.kube_errors.__name__, bridge.jetstream.__name__}
    assert not issubclass(BusUnavailable, KubeError)
    assert not issubclass(Conflict, BusError)
