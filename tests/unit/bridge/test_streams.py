"""The streams and consumers as configurations."""

from __future__ import annotations

import pytest

from bridge import streams
from bridge.jetstream import groups
from bridge.settings import Settings
from crds import KINDS

SETTINGS = Settings(nats_replicas=3, ack_wait_seconds=7.5, duplicate_window_seconds=60)
CONFIGS = {config["name"]: config for config in streams.stream_configs(SETTINGS)}


def test_the_streams_are_those_that_others_rely_on() -> None:
    assert {name: config["subjects"] for name, config in CONFIGS.items()} == {
        "WEIR_QUEUE": ["weir.w.>", "weir.t.>"],
        "WEIR_LOCK": ["weir.l.>"],
        "WEIR_STATE": ["weir.s.>"],
        "WEIR_DEAD": ["weir.d.>"],
        "WEIR_HISTORY": ["weir.h.>"],
    }


def test_the_queue_is_declared_first_because_a_later_lease_stream_was_made_again() -> None:
    assert next(iter(CONFIGS)) == streams.QUEUE


@pytest.mark.parametrize("name", CONFIGS)
def test_every_stream_survives_its_server_and_says_who_made_it(name: str) -> None:
    config = CONFIGS[name]
    assert config["storage"] == "file"
    assert config["num_replicas"] == 3
    assert config["metadata"] == {streams.VERSION_KEY: str(streams.CONFIG_VERSION)}


def test_a_lease_can_be_released_and_leaves_a_mark_when_it_ends_by_itself() -> None:
    config = CONFIGS[streams.LOCK]
    assert not config.get("deny_delete")
    assert config["allow_msg_ttl"]
    assert config["subject_delete_marker_ttl"] > 0
    assert config["max_msgs_per_subject"] == 1


def test_only_the_queue_is_taken_from_and_it_compacts() -> None:
    queue = CONFIGS[streams.QUEUE]
    assert queue["retention"] == "workqueue"
    assert queue["max_msgs_per_subject"] == 1
    assert queue["discard"] == "old"  # schedules and refusals exclude each other
    assert queue["duplicate_window"] == 60_000_000_000
    assert {config["retention"] for name, config in CONFIGS.items() if name != streams.QUEUE} == {
        "limits"
    }


def test_a_consumer_serves_its_kinds_and_gives_up_on_nothing() -> None:
    config = streams.consumer_config("g", ("a", "b"), SETTINGS)
    assert config["filter_subjects"] == ["weir.w.a.>", "weir.w.b.>"]
    assert config["durable_name"] == config["name"] == "handlers-g"
    assert config["ack_wait"] == 7_500_000_000
    assert config["max_deliver"] == -1
    assert "backoff" not in config


def test_every_kind_has_one_consumer() -> None:
    served = [kind for kinds in groups().values() for kind in kinds]
    assert sorted(served) == sorted(contract.kind.queue_name for contract in KINDS)
