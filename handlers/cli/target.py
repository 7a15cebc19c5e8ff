"""Which resources a user means: `idep team-a/chat`, `idep chat -n team-a`, `idep/chat`, `idep`."""

from __future__ import annotations

import argparse
import re

from msgspec import Struct

from bridge.events import CLUSTER_SCOPE, ObjectKey
from crds import KINDS, contract_of
from crds.contract import Contract
from crds.kind import LABEL, SUBDOMAIN
from handlers.cli.output import Mistake

NAMESPACE_DEFAULT = "default"
"""Where a bare name is looked for: no kubeconfig is read, so no context says otherwise."""
_NAME = re.compile(SUBDOMAIN)
NAMESPACE = re.compile(LABEL)
"""What Kubernetes allows; nothing that NATS takes for a wildcard or for two tokens."""


class Scope(Struct, frozen=True, kw_only=True):
    """Some resources, or one: what is empty is not narrowed down."""

    kind: str = ""
    namespace: str = ""
    name: str = ""

    def subject(self, prefix: str) -> str:
        """Return the subjects below `prefix` that are about these resources."""
        key = self.key
        if key is not None:
            return f"{prefix}.{key.token}"
        return f"{prefix}.{self.kind or '*'}.{self.namespace or '*'}.*"

    @property
    def key(self) -> ObjectKey | None:
        """The one resource, None where there may be several."""
        if not self.name:
            return None
        is_cluster_scope = self.namespace == CLUSTER_SCOPE
        return ObjectKey(self.kind, "" if is_cluster_scope else self.namespace, self.name)

    def __str__(self) -> str:
        if self.key is not None:
            return str(self.key)
        parts = [self.kind, self.namespace and f"namespace {self.namespace}"]
        return " in ".join(filter(None, parts))


def add_target(parser: argparse.ArgumentParser, *, of_list: bool = False) -> None:
    """Add KIND, NAME and `-n`; a list is narrowed down by them, and needs none."""
    parser.add_argument(
        "kind",
        nargs="?",
        metavar="KIND",
        help="kind of the resource, such as idep or inferadeployment; KIND/NAME works too",
    )
    parser.add_argument(
        "name",
        nargs="?",
        metavar="NAMESPACE/NAME",
        help="the resource; a bare NAME is looked for in --namespace",
    )
    parser.add_argument(
        "-n",
        "--namespace",
        metavar="NAMESPACE",
        help=f"namespace of a bare NAME (default: {NAMESPACE_DEFAULT})"
        + ("; without a NAME, all there (default: everywhere)" if of_list else ""),
    )


def one_of(arguments: argparse.Namespace) -> ObjectKey:
    """Return the resource that was named; raise Mistake where the words name no single one."""
    key = scope_of(arguments).key
    if key is None:
        raise Mistake("say which resource: KIND NAMESPACE/NAME, such as idep team-a/chat")
    return key


def scope_of(arguments: argparse.Namespace) -> Scope:
    """Return what the words name; raise Mistake where they name nothing that could exist."""
    word: str | None = arguments.kind
    name: str | None = arguments.name
    given: str = arguments.namespace or ""
    if given:
        _check(given, NAMESPACE, "namespace")
    if word is None:
        return Scope(namespace=given)
    if name is None and "/" in word:
        word, _, name = word.partition("/")
    kind = _contract(word).kind
    if name is None:
        return Scope(kind=kind.queue_name, namespace=given)
    namespace, slash, name = name.rpartition("/")
    _check(name, _NAME, "name")
    if not kind.namespaced:
        return Scope(kind=kind.queue_name, namespace=CLUSTER_SCOPE, name=name)
    if slash:
        _check(namespace, NAMESPACE, "namespace")
        if given and given != namespace:
            raise Mistake(f"{namespace}/{name} is not in namespace {given}: leave out one of them")
    return Scope(kind=kind.queue_name, namespace=namespace or given or NAMESPACE_DEFAULT, name=name)


def known_kinds() -> str:
    """Return the words for our kinds, for a message."""
    return ", ".join("/".join((c.kind.queue_name, *c.kind.short_names)) for c in KINDS)


def _contract(word: str) -> Contract:
    contract = contract_of(word)
    if contract is None:
        raise Mistake(f"{word!r} is not a kind of Weir; there is {known_kinds()}")
    return contract


def _check(word: str, pattern: re.Pattern[str], what: str) -> None:
    if not pattern.fullmatch(word):
        raise Mistake(f"{word!r} is no {what} that Kubernetes allows: a-z, 0-9, - and .")
