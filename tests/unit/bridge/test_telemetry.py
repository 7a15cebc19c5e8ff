from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from bridge import telemetry
from bridge.settings import Settings
from bridge.telemetry import METRICS, bound, exposition, logger, span, traceparent

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture(autouse=True)
def telemetry_is_on() -> Iterator[None]:
    telemetry.set_up("test", Settings(identity="me", log_level="debug"))
    yield
    telemetry.shut_down()


def read_lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_a_line_is_a_constant_message_and_fields(capsys: pytest.CaptureFixture[str]) -> None:
    with bound(kind="Engine"), bound(name="a"):
        logger("relay").info("published", id="x", error=ValueError("odd"))
    logger("relay").debug("looked")
    first, second = read_lines(capsys)
    assert first["message"] == "published"
    assert (first["level"], first["logger"]) == ("info", "weir.relay")
    assert (first["kind"], first["name"], first["id"], first["error"]) == (
        "Engine",
        "a",
        "x",
        "odd",
    )
    assert "kind" not in second
    assert second["time"].endswith("+00:00")


def test_a_traceback_is_part_of_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        int("here")
    except ValueError as exc:
        logger("relay").error("failed", exception=exc)
    [line] = read_lines(capsys)
    assert line["exception"].endswith("base 10: 'here'")


def test_lines_of_libraries_are_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    logging.getLogger("some.library").warning("odd: %s", "x")
    logging.getLogger("some.library").info("chatter")
    [line] = read_lines(capsys)
    assert (line["logger"], line["message"]) == ("some.library", "odd: x")


def test_a_line_inside_a_span_carries_its_trace(capsys: pytest.CaptureFixture[str]) -> None:
    with span("reconcile", parent=PARENT):
        logger("worker").info("inside")
    logger("worker").info("outside")
    inside, outside = read_lines(capsys)
    assert inside["trace_id"] == PARENT.split("-")[1]
    assert "trace_id" not in outside


def test_the_level_is_that_of_the_settings(capsys: pytest.CaptureFixture[str]) -> None:
    telemetry.set_up("test", Settings(log_level="warning"))
    logger("relay").info("unheard")
    logger("relay").warning("heard")
    assert [line["message"] for line in read_lines(capsys)] == ["heard"]


@pytest.mark.parametrize(
    ("collector", "spans"),
    [
        pytest.param("http://127.0.0.1:9", 3, id="spans are exported"),
        pytest.param("", 2, id="nobody sees what is inside"),
    ],
)
def test_a_span_goes_on_in_the_trace_of_its_parent_and_is_handed_on(
    collector: str, spans: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector)
    telemetry.set_up("test", Settings())
    with span("publish", parent=PARENT):
        here = traceparent()
        with span("inner"):
            inner = traceparent()
    assert {text.split("-")[1] for text in (PARENT, here, inner)} == {PARENT.split("-")[1]}
    assert len({text.split("-")[2] for text in (PARENT, here, inner)}) == spans
    assert traceparent() == ""


@pytest.mark.parametrize("parent", ["", "nonsense", "00-0-0-00", PARENT.upper()])
def test_a_parent_that_is_none_begins_a_trace(parent: str) -> None:
    with span("publish", parent=parent):
        assert traceparent().split("-")[1] not in ("", PARENT.split("-")[1], "0" * 32)


def test_an_exception_passes_through_a_span_as_it_is() -> None:
    with pytest.raises(LookupError), span("fails"):
        raise LookupError


def test_metrics_have_the_names_that_dashboards_use() -> None:
    METRICS.api_call("GET", 200, 0.003)
    METRICS.published("engine", "dev.weir.changed", "stored")
    METRICS.reconciled("engine", "ok", "Applied", 0.02)
    METRICS.set_queue_depth("kubernetes", 3, 2)
    METRICS.set_watch_age_callback(lambda: [("Pod", "ns", 1.5)])
    METRICS.breaker("etcd", open=True)
    METRICS.count("weir_odd", 2, kind="x")
    METRICS.gauge("weir_level", 0.5)
    text = exposition().decode()
    for line in (
        'weir_api_calls_total{code="200",verb="GET"} 1.0',
        'weir_api_call_duration_seconds_bucket{le="0.005",verb="GET"} 1.0',
        'weir_published_total{kind="engine",result="stored",type="dev.weir.changed"} 1.0',
        'weir_reconciles_total{kind="engine",outcome="ok",reason="Applied"} 1.0',
        'weir_reconcile_duration_seconds_count{kind="engine",outcome="ok"} 1.0',
        'weir_queue_pending{consumer="kubernetes"} 3.0',
        'weir_queue_in_flight{consumer="kubernetes"} 2.0',
        'weir_watch_age_seconds{kind="Pod",namespace="ns"} 1.5',
        'weir_breaker_open{backend="etcd"} 1.0',
        'weir_odd_total{kind="x"} 2.0',
        "weir_level 0.5",
    ):
        assert line in text


def test_before_and_after_nothing_is_counted_and_nothing_fails() -> None:
    telemetry.shut_down()
    METRICS.count("weir_odd")
    with span("nowhere"):
        assert traceparent() == ""
    telemetry.set_up("test", Settings())
    assert "weir_odd" not in exposition().decode()
