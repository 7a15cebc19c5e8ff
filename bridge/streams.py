"""
The streams and consumers that Weir declares, as pure configurations.

Source of the shapes: NATS JetStream API, `StreamConfig` and `ConsumerConfig`; durations are
nanoseconds. Schedules need nats-server >= 2.12 (ADR-51), TTLs per message >= 2.11 (ADR-43).
"""

from __future__ import annotations

from typing import Any, TypeAlias

from bridge.events import (
    DEAD_SUBJECT,
    HISTORY_SUBJECT,
    LEASE_SUBJECT,
    STATE_SUBJECT,
    TIMER_SUBJECT,
    WORK_SUBJECT,
)
from bridge.settings import Settings

Config: TypeAlias = dict[str, Any]

QUEUE = "WEIR_QUEUE"
LOCK = "WEIR_LOCK"
STATE = "WEIR_STATE"
DEAD = "WEIR_DEAD"
HISTORY = "WEIR_HISTORY"

CONFIG_VERSION = 1
"""What no setting says of a stream or consumer is changed only by a newer version than made it."""
VERSION_KEY = "weir.dev/config-version"
SETTINGS = ("num_replicas", "duplicate_window", "ack_wait")
"""What a setting says of a stream or consumer."""

_SECOND = 1_000_000_000
_DAY = 24 * 3600 * _SECOND
QUEUE_BYTES_MAX = 1 << 30
MESSAGE_BYTES_MAX = 128 << 10
HISTORY_BYTES_MAX = 512 << 20
LEASE_MARKER_SECONDS = 3600
"""How long the stream remembers that a lease ended without its holder's doing (ADR-43)."""
MAX_ACK_PENDING = 10_000
MAX_WAITING = 2_048


def stream_configs(settings: Settings) -> tuple[Config, ...]:
    """Return the five streams, the queue first."""
    common: Config = {
        "storage": "file",
        "num_replicas": settings.nats_replicas,
        "discard": "old",
        "allow_direct": True,
        "max_consumers": -1,
        "max_msgs": -1,
        "metadata": {VERSION_KEY: str(CONFIG_VERSION)},
    }
    one_per_subject: Config = {
        **common,
        "retention": "limits",
        "max_msgs_per_subject": 1,
        "max_bytes": -1,
        "max_msg_size": MESSAGE_BYTES_MAX,
        "max_age": 0,
        "allow_msg_ttl": True,
    }
    return (
        {
            **common,
            "name": QUEUE,
            "subjects": [f"{WORK_SUBJECT}.>", f"{TIMER_SUBJECT}.>"],
            "retention": "workqueue",
            "max_msgs_per_subject": 1,
            "max_bytes": QUEUE_BYTES_MAX,
            # Superseded messages can come back after a crash of the server (nats-server#8505)
            # and are never delivered: age takes them, the resync covers what it may take too much.
            "max_age": _DAY,
            "max_msg_size": MESSAGE_BYTES_MAX,
            "duplicate_window": int(settings.duplicate_window_seconds * _SECOND),
            "allow_msg_schedules": True,
            "allow_msg_ttl": True,
            "allow_rollup_hdrs": True,
        },
        # Not a KV bucket: it denies deletes, and a lease is released by deleting its sequence.
        # Where a lease ends by its TTL instead, the server leaves a marker: the holder died.
        {
            **one_per_subject,
            "name": LOCK,
            "subjects": [f"{LEASE_SUBJECT}.>"],
            "subject_delete_marker_ttl": LEASE_MARKER_SECONDS * _SECOND,
        },
        {**one_per_subject, "name": STATE, "subjects": [f"{STATE_SUBJECT}.>"]},
        {
            **one_per_subject,
            "name": DEAD,
            "subjects": [f"{DEAD_SUBJECT}.>"],
            "max_age": 30 * _DAY,
        },
        {
            **common,
            "name": HISTORY,
            "subjects": [f"{HISTORY_SUBJECT}.>"],
            "retention": "limits",
            "max_msgs_per_subject": 1_000,
            "max_bytes": HISTORY_BYTES_MAX,
            "max_age": 7 * _DAY,
            "max_msg_size": MESSAGE_BYTES_MAX,
        },
    )


def consumer_name(group: str) -> str:
    """Return the durable consumer's name of a group of kinds."""
    return f"handlers-{group}"


def consumer_config(group: str, kinds: tuple[str, ...], settings: Settings) -> Config:
    """
    Return the shared pull consumer of a group of kinds (lower-case names).

    No `max_deliver` and no `backoff`: poison is recognised by the handlers, and a message that the
    server gave up on would stay in the stream undelivered.
    """
    return {
        "name": consumer_name(group),
        "durable_name": consumer_name(group),
        "ack_policy": "explicit",
        "deliver_policy": "all",
        "replay_policy": "instant",
        "filter_subjects": [f"{WORK_SUBJECT}.{kind}.>" for kind in kinds],
        "ack_wait": int(settings.ack_wait_seconds * _SECOND),
        "max_deliver": -1,
        "max_ack_pending": MAX_ACK_PENDING,
        "max_waiting": MAX_WAITING,
        "num_replicas": 0,
        "metadata": {VERSION_KEY: str(CONFIG_VERSION)},
    }


def changed(found: Config, wanted: Config, *, with_settings: bool) -> Config | None:
    """
    Return what a stream or consumer is to become, None where it stays as it is.

    A newer version keeps its own; what an equal version made changes where the settings differ
    (`with_settings`). A kind that another version serves and this one does not stays served.
    """
    if _version(found) < _version(wanted):
        return wanted
    new = dict(found)
    lacking = [s for s in wanted.get("filter_subjects", ()) if s not in _subjects(found)]
    if lacking:
        new.pop("filter_subject", None)
        new["filter_subjects"] = _subjects(found) + lacking
    if with_settings and _version(found) == _version(wanted):
        # A consumer's replicas are 0: as many as its stream has.
        new |= {f: wanted[f] for f in SETTINGS if wanted.get(f) and wanted[f] != found.get(f)}
    return new if new != found else None


def _subjects(config: Config) -> list[str]:
    """Return a consumer's filters; the server tells a single one by another name."""
    one = config.get("filter_subject")
    return [*config.get("filter_subjects", ()), *([one] if one else [])]


def _version(config: Config) -> int:
    text = (config.get("metadata") or {}).get(VERSION_KEY, "0")
    return int(text) if text.isdecimal() else 0
