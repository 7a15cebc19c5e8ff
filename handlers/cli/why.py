"""`weir why KIND NS/NAME`: what a resource waits for, since when, and what to do about it."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Awaitable
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, TypeVar

import msgspec

from bridge.events import ObjectKey
from bridge.settings import Settings
from crds import BY_QUEUE_NAME
from handlers.cli import output
from handlers.cli.connection import hush, on_bus
from handlers.cli.output import CommandError
from handlers.cli.settings_flags import NATS, add_settings, settings_of
from handlers.cli.target import add_target, one_of
from handlers.cli.why_cluster import read_cluster
from handlers.cli.why_findings import Findings
from handlers.cli.why_queue import read_queue
from handlers.cli.why_reasons import Explanation, explain
from handlers.cli.why_text import as_text, headline

OF_INSTALL: Final = ("nats_default", "nats_engine_url", "other_operator_seconds")
"""What of an install tells how children are to be, and when handlers would make them so."""

T = TypeVar("T")


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `weir why` to the commands."""
    parser = subparsers.add_parser(
        "why",
        help="say what a resource waits for, since when, and what to do about it",
        description="Say what a resource waits for, since when, and what to do about it: from its "
        "status, children and pods as the API server of KUBECONFIG has them, and from its "
        "messages, lease, failures and history in NATS. Nothing is written.",
        epilog="Where one of the two cannot be asked, the other's half is told, with a warning. "
        "Ends with 0 whenever it could tell, whatever it told; with 1 where neither can be asked, "
        "or there is no such resource.",
    )
    add_target(parser)
    output.add_output(parser, "table", "json", "yaml", default="table")
    add_settings(parser, (*NATS, *OF_INSTALL))
    parser.set_defaults(run=output.told(run))


def run(arguments: argparse.Namespace) -> int:
    """Print the explanation; 1 where there is nothing to explain."""
    found = asyncio.run(_find(one_of(arguments), settings_of(arguments)))
    for error in filter(None, (found.cluster_error, found.queue_error)):
        output.warn(error)
    if found.cluster is None and found.queue is None:
        raise CommandError(f"nothing can be said of {found.key}: neither half can be asked")
    explanation = explain(found)
    if arguments.output in ("json", "yaml"):
        sys.stdout.write(output.machine(_plain(found, explanation), arguments.output))
    else:
        print(as_text(found, explanation))
    return int(found.cluster is not None and not found.cluster.exists)


async def _find(key: ObjectKey, settings: Settings) -> Findings:
    """Return what both sides hold, asked at once; a side that cannot be asked says why."""
    hush()
    (cluster, cluster_error), (queue, queue_error) = await asyncio.gather(
        _or_error(read_cluster(settings, key)),
        _or_error(on_bus(settings, partial(read_queue, key))),
    )
    return Findings(
        key=key,
        contract=BY_QUEUE_NAME[key.kind],
        now=datetime.now(UTC),
        cluster=cluster,
        cluster_error=cluster_error,
        queue=queue,
        queue_error=queue_error,
        other_operator_seconds=settings.other_operator_seconds,
    )


async def _or_error(reading: Awaitable[T]) -> tuple[T | None, str]:
    try:
        return await reading, ""
    except CommandError as exc:
        return None, str(exc)


def _plain(found: Findings, explanation: Explanation) -> dict[str, Any]:
    """Return all of it for machines; a side that could not be asked is null, with its error."""
    return {
        "kind": found.key.kind,
        "namespace": found.key.namespace,
        "name": found.key.name,
        "summary": headline(found, explanation),
        "isReady": explanation.is_ready,
        "waitingFor": msgspec.to_builtins(explanation.causes),
        "steps": list(explanation.steps),
        "notes": list(explanation.notes),
        "kubernetes": msgspec.to_builtins(found.cluster),
        "nats": msgspec.to_builtins(found.queue),
        "errors": {"kubernetes": found.cluster_error, "nats": found.queue_error},
    }
