"""One trace from the watch to the status, the metrics that operators alert on, logs as JSON."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from handlers.cli.devstack.control_plane import ControlPlane
from handlers.cli.devstack.weir import WeirProcess
from tests.builders import an_infera_deployment
from tests.e2e.crowd import log_lines
from tests.e2e.stage import Stage
from tests.faults.dead_port import dead_port
from tests.faults.own_loop import in_thread
from tests.stack.eventually import eventually
from tests.stack.fixtures import Weir


class Span(NamedTuple):
    """What a collector learns of a span."""

    service: str
    name: str
    trace: str
    parent: str
    id: str
    target: str


class Collector:
    """An OTLP/HTTP collector that remembers what it gets."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.url = ""
        self._runner: web.AppRunner

    async def start(self) -> None:
        """Take exports at `url` from now on."""
        application = web.Application()
        application.router.add_post("/v1/traces", self.receive)
        self._runner = web.AppRunner(application)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        """Take nothing any more."""
        await self._runner.cleanup()

    async def receive(self, request: web.Request) -> web.Response:
        """Take one export."""
        export = ExportTraceServiceRequest.FromString(await request.read())
        for resource in export.resource_spans:
            service = _attributes(resource.resource.attributes)["service.name"]
            for scope in resource.scope_spans:
                for span in scope.spans:
                    self.spans.append(
                        Span(
                            service,
                            span.name,
                            span.trace_id.hex(),
                            span.parent_span_id.hex(),
                            span.span_id.hex(),
                            _attributes(span.attributes).get("target", ""),
                        )
                    )
        return web.Response()


def _attributes(pairs: object) -> dict[str, str]:
    return {pair.key: pair.value.string_value for pair in pairs}  # type: ignore[attr-defined]


@pytest.fixture
def collector() -> Iterator[Collector]:
    with in_thread(Collector()) as found:
        yield found


async def test_one_trace_spans_the_watch_the_writes_and_the_status(
    control_plane: ControlPlane, namespace: str, weir: Weir, collector: Collector
) -> None:
    stage = Stage(control_plane, namespace, weir)
    environment = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_BSP_SCHEDULE_DELAY": "200",
    }
    weir.bridge(environment=environment).wait_ready()
    handlers = weir.handlers(environment=environment)
    handlers.wait_ready()
    stage.apply(an_infera_deployment("traced").with_server().with_worker())
    await stage.ready("traced")

    def of_the_birth() -> list[Span]:
        created = [s for s in collector.spans if s.target == "create Deployment/traced-server"]
        assert len(created) == 1, [s.target for s in collector.spans]
        found = [s for s in collector.spans if s.trace == created[0].trace]
        assert "status InferaDeployment" in {s.name for s in found}, found
        return found

    spans = await eventually(of_the_birth)
    (published,) = [s for s in spans if s.service == "weir-bridge"]
    assert published.name == "publish"
    (reconciled,) = [s for s in spans if s.name == "reconcile"]
    assert (reconciled.service, reconciled.parent) == ("weir-handlers", published.id)
    writes = {s.target: s.parent for s in spans if s.target}
    assert set(writes.values()) == {reconciled.id}
    assert {"create Service/traced-server", "status InferaDeployment/traced"} <= set(writes)

    told = [line for line in log_lines(handlers) if line["message"] == "reconciled"]
    assert published.trace in {line["trace_id"] for line in told}
    assert all({"kind", "namespace", "name", "action"} <= set(line) for line in told)


async def test_metrics_tell_depth_durations_outcomes_watch_age_and_calls(
    control_plane: ControlPlane, namespace: str, weir: Weir
) -> None:
    stage = Stage(control_plane, namespace, weir)
    stage.start(stream_check_seconds=0.5)
    stage.apply(an_infera_deployment("counted").with_server().with_worker())
    await stage.ready("counted")
    bridge, handlers = _metrics(stage.bridge), _metrics(stage.handlers)
    assert "weir_watch_age_seconds{" in bridge
    assert 'weir_published_total{kind="inferadeployment"' in bridge
    for line in (
        'weir_queue_pending{consumer="kubernetes"}',
        'weir_queue_in_flight{consumer="kubernetes"}',
        'weir_reconcile_duration_seconds_bucket{kind="inferadeployment"',
        'weir_reconciles_total{kind="inferadeployment",outcome="changed",reason=""}',
        'weir_api_calls_total{code="201",verb="POST"}',
    ):
        assert line in handlers, handlers


async def test_a_dead_collector_costs_no_reconcile_and_a_second_at_exit(
    control_plane: ControlPlane, namespace: str, weir: Weir
) -> None:
    stage = Stage(control_plane, namespace, weir)
    with dead_port() as port:
        environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}"}
        stage.bridge = weir.bridge(environment=environment)
        stage.handlers = weir.handlers(environment=environment)
        stage.bridge.wait_ready()
        stage.handlers.wait_ready()
        stage.apply(an_infera_deployment("untraced").with_server().with_worker())
        await stage.ready("untraced")
        assert stage.handlers.terminate() == 0


def _metrics(process: WeirProcess) -> str:
    with urllib.request.urlopen(process.http_url + "/metrics") as answer:  # noqa: S310 - loopback
        text: str = answer.read().decode()
    return text
