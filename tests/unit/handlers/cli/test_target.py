from __future__ import annotations

import argparse
import shlex

import pytest

from bridge.events import ObjectKey
from handlers.cli.output import Mistake
from handlers.cli.target import add_target, one_of, scope_of


def parsed(line: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_target(parser, of_list=True)
    return parser.parse_args(shlex.split(line))


@pytest.mark.parametrize(
    "line",
    [
        "idep team-a/chat",
        "inferadeployment team-a/chat",
        "InferaDeployment team-a/chat",
        "inferadeployments.infera.amd.com team-a/chat",
        "idep chat -n team-a",
        "-n team-a idep chat",
        "idep/chat --namespace team-a",
        "idep team-a/chat -n team-a",
    ],
)
def test_a_resource_is_named_as_with_kubectl(line: str) -> None:
    assert one_of(parsed(line)) == ObjectKey("inferadeployment", "team-a", "chat")


def test_a_bare_name_is_in_the_namespace_default() -> None:
    assert one_of(parsed("idep chat")) == ObjectKey("inferadeployment", "default", "chat")


@pytest.mark.parametrize(
    ("line", "subject"),
    [
        ("", "weir.d.*.*.*"),
        ("idep", "weir.d.inferadeployment.*.*"),
        ("-n team-a", "weir.d.*.team-a.*"),
        ("idep -n team-a", "weir.d.inferadeployment.team-a.*"),
        ("idep team-a/chat", "weir.d.inferadeployment.team-a.chat"),
        ("idep team-a/old.chat", "weir.d.inferadeployment.team-a.old_chat"),
    ],
)
def test_a_list_is_narrowed_down_by_the_words(line: str, subject: str) -> None:
    assert scope_of(parsed(line)).subject("weir.d") == subject


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("pod team-a/chat", "'pod' is not a kind of Weir; there is inferadeployment/idep"),
        ("idep team-a/chat -n team-b", "team-a/chat is not in namespace team-b"),
        ("idep 'team-a/*'", "'*' is no name"),
        ("idep 'team-a/>'", "'>' is no name"),
        ("idep '*/chat'", "'*' is no namespace"),
        ("idep a/b/c", "'a/b' is no namespace"),
        ("idep team-a/", "'' is no name"),
        ("idep Chat", "'Chat' is no name"),
        ("-n 'a b'", "'a b' is no namespace"),
    ],
)
def test_words_that_name_nothing_are_a_mistake(line: str, said: str) -> None:
    with pytest.raises(Mistake, match=r".") as caught:
        scope_of(parsed(line))

    assert said in str(caught.value)


def test_a_command_for_one_resource_asks_for_one() -> None:
    with pytest.raises(Mistake, match="say which resource: KIND NAMESPACE/NAME"):
        one_of(parsed("idep"))
