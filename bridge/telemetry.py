"""
Logs, metrics and traces of every Weir process.

Logs are JSON lines on stderr: a constant message and fields, those bound around the call
included, with the ids of the span that is open. Metrics are OpenTelemetry instruments behind a
Prometheus reader (`exposition()` is what /metrics serves). Spans leave the process only when
OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is set; they exist without it,
so that log lines of one change share a trace id across processes.

Until `set_up`, and after `shut_down`, everything here works and goes nowhere but to stderr.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
import prometheus_client
from opentelemetry import trace
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.metrics import CallbackOptions, Meter, NoOpMeter, Observation
from opentelemetry.sdk.metrics import Histogram, MeterProvider
from opentelemetry.sdk.metrics.view import ExplicitBucketHistogramAggregation, View
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import NoOpTracer, Span, SpanKind, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.process_collector import ProcessCollector

from bridge.settings import Settings

_EXPORT_SECONDS: Final = 1.0
"""A dead collector may delay the end of a process by this much, not by the SDK's ten seconds."""

_BUCKETS_SECONDS: Final = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0),
)

prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
"""No `_created` series beside those of API calls: OpenTelemetry's instruments have none."""

_propagator = TraceContextTextMapPropagator()


# Logs


_bound: ContextVar[Mapping[str, Any]] = ContextVar("bound", default={})  # noqa: B039 - never mutated
_encoder = msgspec.json.Encoder(enc_hook=str)
_exceptions = logging.Formatter()


class Log:
    """A named logger whose lines are a constant message and fields."""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(f"weir.{name}")

    def debug(self, message: str, **fields: object) -> None:
        """Say that we looked."""
        self._write(logging.DEBUG, message, fields)

    def info(self, message: str, **fields: object) -> None:
        """Say that the world changed."""
        self._write(logging.INFO, message, fields)

    def warning(self, message: str, **fields: object) -> None:
        """Say that something failed and is tried again."""
        self._write(logging.WARNING, message, fields)

    def error(
        self, message: str, *, exception: BaseException | None = None, **fields: object
    ) -> None:
        """Say that somebody must act; the exception's traceback is in the line."""
        self._write(logging.ERROR, message, fields, exception)

    def _write(
        self,
        level: int,
        message: str,
        fields: Mapping[str, object],
        exception: BaseException | None = None,
    ) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(
                level, message, extra={"fields": {**_bound.get(), **fields}}, exc_info=exception
            )


def logger(name: str) -> Log:
    """Return the logger of a module, under `weir.`."""
    return Log(name)


@contextmanager
def bound(**fields: object) -> Iterator[None]:
    """Every line of this task inside carries these fields."""
    token = _bound.set({**_bound.get(), **fields})
    try:
        yield
    finally:
        _bound.reset(token)


class _JsonLines(logging.Handler):
    """One JSON object per record, of our loggers and of libraries, on whatever stderr is now."""

    def emit(self, record: logging.LogRecord) -> None:
        """The record is written, unless stderr is gone."""
        try:
            sys.stderr.write(_line(record) + "\n")
            sys.stderr.flush()
        except (OSError, ValueError):
            self.handleError(record)


def _line(record: logging.LogRecord) -> str:
    line: dict[str, Any] = {
        "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
        "level": record.levelname.lower(),
        "logger": record.name,
        "message": record.getMessage(),
        **getattr(record, "fields", {}),
    }
    context = trace.get_current_span().get_span_context()
    if context.is_valid:
        line["trace_id"] = trace.format_trace_id(context.trace_id)
        line["span_id"] = trace.format_span_id(context.span_id)
    if record.exc_info:
        line["exception"] = _exceptions.formatException(record.exc_info)
    return _encoder.encode(line).decode()


# Metrics


WatchAges = Callable[[], Iterable[tuple[str, str, float]]]
"""Returns (kind, namespace, seconds since the watch last heard anything) of every watch."""


class _ApiCalls:
    """
    Requests to the API server: Prometheus' own instruments, since nothing is counted as often.

    Those of OpenTelemetry took 6 % of the CPU of births (py-spy), these take a fifth of that.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._count = prometheus_client.Counter(
            "weir_api_calls", "Requests to the API server", ("verb", "code"), registry=registry
        )
        self._seconds = prometheus_client.Histogram(
            "weir_api_call_duration_seconds",
            "Duration of requests to the API server",
            ("verb",),
            registry=registry,
            buckets=_BUCKETS_SECONDS,
        )
        self._known: dict[tuple[str, str], tuple[Callable[[], None], Callable[[float], None]]] = {}

    def add(self, verb: str, code: str, seconds: float) -> None:
        """Count one."""
        known = self._known.get((verb, code))
        if known is None:
            known = self._count.labels(verb, code).inc, self._seconds.labels(verb).observe
            self._known[verb, code] = known
        count, observe = known
        count()
        observe(seconds)


class Metrics:
    """The instruments; made anew when a meter and a registry arrive."""

    def __init__(self) -> None:
        self._watch_ages: WatchAges = tuple
        self.attach(NoOpMeter("weir"), CollectorRegistry())

    def attach(self, meter: Meter, registry: CollectorRegistry) -> None:
        """Everything counted from now on goes to these."""
        self._meter = meter
        self._api_calls = _ApiCalls(registry)
        self._generic: dict[str, Any] = {}
        self._published = meter.create_counter(
            "weir_published", description="Events that were published to the queue"
        )
        self._reconciles = meter.create_counter(
            "weir_reconciles", description="Reconciles by their outcome"
        )
        self._reconcile_seconds = meter.create_histogram(
            "weir_reconcile_duration_seconds", description="Duration of reconciles"
        )
        self._pending = meter.create_gauge(
            "weir_queue_pending", description="Messages that wait for a handler"
        )
        self._in_flight = meter.create_gauge(
            "weir_queue_in_flight", description="Messages in a handler's hands"
        )
        self._breakers = meter.create_gauge(
            "weir_breaker_open", description="1 while a backend is taken for unreachable"
        )
        meter.create_observable_gauge(
            "weir_watch_age_seconds",
            callbacks=[self._observe_watch_ages],
            description="Time since a watch last heard from the API server",
        )

    def api_call(self, verb: str, code: int | str, seconds: float) -> None:
        """Count one request; `code` is the HTTP status, or what stood in for it."""
        self._api_calls.add(verb, str(code), seconds)

    def published(self, kind: str, type: str, result: str) -> None:  # noqa: A002 - CloudEvents' word
        """Count one event: `result` is stored, duplicate or failed."""
        self._published.add(1, {"kind": kind, "type": type, "result": result})

    def reconciled(self, kind: str, outcome: str, reason: str, seconds: float) -> None:
        """Count one reconcile and its duration."""
        self._reconciles.add(1, {"kind": kind, "outcome": outcome, "reason": reason})
        self._reconcile_seconds.record(seconds, {"kind": kind, "outcome": outcome})

    def set_queue_depth(self, consumer: str, pending: int, in_flight: int) -> None:
        """Remember how deep a consumer's queue is; the sum is what scalers use."""
        self._pending.set(pending, {"consumer": consumer})
        self._in_flight.set(in_flight, {"consumer": consumer})

    def set_watch_age_callback(self, ages: WatchAges) -> None:
        """From now on `ages` is asked for the age of the watches."""
        self._watch_ages = ages

    def breaker(self, backend: str, *, open: bool) -> None:  # noqa: A002 - what breakers are
        """Remember whether a backend is taken for unreachable."""
        self._breakers.set(int(open), {"backend": backend})

    def count(self, name: str, amount: int = 1, **labels: str) -> None:
        """Add to the counter of this name (shown with `_total`)."""
        instrument = self._generic.get(name)
        if instrument is None:
            instrument = self._generic[name] = self._meter.create_counter(name)
        instrument.add(amount, labels)

    def gauge(self, name: str, value: float, **labels: str) -> None:
        """Set the gauge of this name."""
        instrument = self._generic.get(name)
        if instrument is None:
            instrument = self._generic[name] = self._meter.create_gauge(name)
        instrument.set(value, labels)

    def _observe_watch_ages(self, _: CallbackOptions) -> Iterable[Observation]:
        for kind, namespace, seconds in self._watch_ages():
            yield Observation(seconds, {"kind": kind, "namespace": namespace})


METRICS: Final = Metrics()


# Traces


def span(
    name: str, *, kind: SpanKind = SpanKind.INTERNAL, parent: str = "", **attributes: str | int
) -> AbstractContextManager[Span]:
    """
    Return a context in which a span is open.

    `parent` is a W3C traceparent; without one the open span is it.

    An exception that leaves it marks it as failed. Where spans go nowhere, one inside another is
    not made: log lines need the trace's id, and nobody sees more.
    """
    opened = trace.get_current_span()
    if not parent and not _process.exports_spans and opened.get_span_context().is_valid:
        return nullcontext(opened)
    context = _propagator.extract({"traceparent": parent}) if parent else None
    return _process.tracer.start_as_current_span(
        name, context=context, kind=kind, attributes=attributes
    )


def fail_span(reason: str) -> None:
    """Mark the open span as failed, without an exception."""
    trace.get_current_span().set_status(StatusCode.ERROR, reason)


def traceparent() -> str:
    """Return the W3C traceparent of the open span, empty without one."""
    carrier: dict[str, str] = {}
    _propagator.inject(carrier)
    return carrier.get("traceparent", "")


# The process


class _Process:
    """What `set_up` made and `shut_down` ends."""

    def __init__(self) -> None:
        self.tracer: Tracer = NoOpTracer()
        self.registry = CollectorRegistry()
        self.meters: MeterProvider | None = None
        self.spans: TracerProvider | None = None
        self.handler: logging.Handler | None = None
        self.exports_spans = False


_process = _Process()


def set_up(component: str, settings: Settings) -> None:
    """Logs, metrics and traces of this process carry `component` and go where they should."""
    shut_down()
    _set_up_logs(settings.log_level)
    resource = Resource.create(
        {
            "service.namespace": "weir",
            **({} if "OTEL_SERVICE_NAME" in os.environ else {"service.name": f"weir-{component}"}),
            **({"service.instance.id": settings.identity} if settings.identity else {}),
        }
    )
    _process.registry = CollectorRegistry()
    ProcessCollector(registry=_process.registry)
    _process.meters = MeterProvider(
        metric_readers=[
            PrometheusMetricReader(
                disable_target_info=True, scope_info_enabled=False, registry=_process.registry
            )
        ],
        resource=resource,
        shutdown_on_exit=False,
        views=[
            View(
                instrument_name="*_seconds",
                instrument_type=Histogram,
                aggregation=ExplicitBucketHistogramAggregation(_BUCKETS_SECONDS),
            )
        ],
    )
    METRICS.attach(_process.meters.get_meter("weir"), _process.registry)
    _process.spans = TracerProvider(resource=resource, shutdown_on_exit=False)
    _process.exports_spans = any(
        os.environ.get(name)
        for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    )
    if _process.exports_spans:
        _export_spans(_process.spans)
    _process.tracer = _process.spans.get_tracer("weir")


def shut_down() -> None:
    """What was recorded is exported; nothing of `set_up` is left."""
    METRICS.attach(NoOpMeter("weir"), CollectorRegistry())
    METRICS.set_watch_age_callback(tuple)
    _process.tracer = NoOpTracer()
    if _process.spans is not None:
        _process.spans.shutdown()
        _process.spans = None
    if _process.meters is not None:
        _process.meters.shutdown()
        _process.meters = None
    if _process.handler is not None:
        logging.getLogger().removeHandler(_process.handler)
        _process.handler = None


def exposition() -> bytes:
    """Return the metrics in Prometheus' text format."""
    return generate_latest(_process.registry)


def _set_up_logs(level: str) -> None:
    _process.handler = _JsonLines()
    root = logging.getLogger()
    root.addHandler(_process.handler)
    # Libraries speak when something is wrong; their own retries are told by our loggers.
    root.setLevel(logging.WARNING)
    logging.getLogger("weir").setLevel(level.upper())


def _export_spans(spans: TracerProvider) -> None:
    # Imported here: 15 MB and 60 ms that a process without a collector does not pay.
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
        OTLPSpanExporter,
    )

    spans.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(timeout=_EXPORT_SECONDS)))
