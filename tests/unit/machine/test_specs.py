"""What is drawn as valid is, and what is drawn as wrong is not: as `weir render` judges it."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from crds.inferadeployment import CONTRACT
from crds.kubernetes import Manifest
from handlers.cli.render_check import faults
from handlers.handler import TerminalError
from tests.e2e.machine.model import rendered
from tests.e2e.machine.specs import (
    a_changed_spec,
    a_spec,
    a_terminal_spec,
    a_wrong_spec,
    is_terminal,
)
from tests.refused import resource


def chained(one: Callable[[Manifest], st.SearchStrategy[Manifest]]) -> st.SearchStrategy[Manifest]:
    """Return a strategy for what comes of a drawn spec."""
    return a_spec().flatmap(one)


@given(st.one_of(a_spec(), chained(a_changed_spec), chained(a_terminal_spec)))
@settings(max_examples=200)
def test_a_spec_that_is_drawn_is_one_that_the_api_server_takes(spec: Manifest) -> None:
    manifest = {**resource("ant"), "spec": spec}
    assert [str(fault) for fault in faults(manifest, CONTRACT)] == []


@given(chained(a_wrong_spec))
@settings(max_examples=200)
def test_a_wrong_spec_is_one_that_the_api_server_refuses(spec: Manifest) -> None:
    manifest = {**resource("ant"), "spec": spec}
    assert list(faults(manifest, CONTRACT))


@given(st.one_of(chained(a_changed_spec), chained(a_terminal_spec)))
@settings(max_examples=100)
def test_a_handler_refuses_exactly_the_terminal_ones(spec: Manifest) -> None:
    try:
        rendered({**resource("ant"), "spec": spec})
    except TerminalError:
        assert is_terminal(spec)
    else:
        assert not is_terminal(spec)
