"""`weir pause` and `weir resume`: the brake, for one resource or for everything."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import msgspec

from bridge.events import ObjectKey
from bridge.kube import MERGE_PATCH, Kube, connect_kube
from bridge.kube_errors import AlreadyExists, KubeError, NotFound
from bridge.settings import Settings
from crds import BY_QUEUE_NAME
from crds.kubernetes import CONFIG_MAP
from handlers.cli import output
from handlers.cli.output import CommandError, Mistake
from handlers.cli.settings_flags import add_settings, settings_of
from handlers.cli.target import add_target, one_of
from handlers.pause import ANNOTATION, CONFIG_MAP_NAME

REASON_LENGTH_MAX = 200
WRITE_SECONDS = 10.0


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add both to the commands."""
    pausing = subparsers.add_parser(
        "pause",
        help="have handlers write nothing, to one resource's children or at all",
        description="While a resource is paused its children are neither created, changed nor "
        "deleted; its status says what waits. It outlives restarts, until `weir resume`.",
    )
    _add_what(pausing)
    pausing.add_argument("--reason", default="", metavar="TEXT", help="why, for whoever finds it")
    pausing.set_defaults(run=output.told(run_pause))
    resuming = subparsers.add_parser(
        "resume",
        help="have handlers write again",
        description="End a pause: what waited is done within seconds.",
    )
    _add_what(resuming)
    resuming.set_defaults(run=output.told(run_resume))


def _add_what(parser: argparse.ArgumentParser) -> None:
    add_target(parser)
    parser.add_argument("--all", action="store_true", help="every resource of every kind")
    add_settings(parser, ("own_namespace",))


def run_pause(arguments: argparse.Namespace) -> int:
    """Put the brake on."""
    key = _what(arguments)
    if key is not None:
        if arguments.reason:
            raise Mistake("--reason goes with --all; a resource is paused by an annotation alone")
        _carry_out(lambda kube: _annotate(kube, key, "true"))
        print(f"{key} is paused; `weir resume` takes it up again")
        return 0
    settings = settings_of(arguments)
    reason = output.printable(arguments.reason)[:REASON_LENGTH_MAX]
    is_new = _carry_out(lambda kube: _pause_all(kube, settings.own_namespace, reason))
    since = "handlers stop writing" if is_new else "it was paused already; handlers write nothing"
    print(f"everything is paused: {since} within seconds; `weir resume --all` ends it")
    return 0


def run_resume(arguments: argparse.Namespace) -> int:
    """Take the brake off."""
    key = _what(arguments)
    if key is not None:
        _carry_out(lambda kube: _annotate(kube, key, None))
        print(f"{key} is taken up again")
        return 0
    settings = settings_of(arguments)
    was_on = _carry_out(lambda kube: _resume_all(kube, settings.own_namespace))
    print("handlers write again within seconds" if was_on else "nothing was paused as a whole")
    return 0


def _what(arguments: argparse.Namespace) -> ObjectKey | None:
    """Return the resource that was named, None for everything."""
    if arguments.all:
        if arguments.kind or arguments.namespace:
            raise Mistake("--all is everything: leave out the kind, the name and -n")
        return None
    return one_of(arguments)


def _carry_out(action: Callable[[Kube], Awaitable[bool]]) -> bool:
    async def connected() -> bool:
        async with connect_kube(Settings(identity="weir-pause"), "cli") as kube:
            return await action(kube)

    try:
        return asyncio.run(connected())
    except KubeError as exc:
        raise CommandError(
            f"the API server says {exc}; check KUBECONFIG, and what you may do there"
        ) from exc


async def _annotate(kube: Kube, key: ObjectKey, value: str | None) -> bool:
    kind = BY_QUEUE_NAME[key.kind].kind
    try:
        await kube.request(
            "PATCH",
            kind.path(key.namespace, key.name),
            body=msgspec.json.encode({"metadata": {"annotations": {ANNOTATION: value}}}),
            content_type=MERGE_PATCH,
        )
    except NotFound as exc:
        raise CommandError(f"there is no {key}") from exc
    return True


async def _pause_all(kube: Kube, namespace: str, reason: str) -> bool:
    """Return whether it was not paused before."""
    since = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    manifest = {
        "apiVersion": CONFIG_MAP.api_version,
        "kind": CONFIG_MAP.kind,
        "metadata": {"name": CONFIG_MAP_NAME},
        "data": {"since": since, **({"reason": reason} if reason else {})},
    }
    try:
        await kube.create(CONFIG_MAP, namespace, manifest, timeout_seconds=WRITE_SECONDS)
    except AlreadyExists:
        return False
    except NotFound as exc:
        raise CommandError(
            f"there is no namespace {namespace}: say with --own-namespace, or the variable "
            f"WEIR_OWN_NAMESPACE, where Weir runs"
        ) from exc
    return True


async def _resume_all(kube: Kube, namespace: str) -> bool:
    """Return whether it was paused before."""
    try:
        await kube.request("DELETE", CONFIG_MAP.path(namespace, CONFIG_MAP_NAME))
    except NotFound:
        return False
    return True
