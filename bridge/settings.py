"""
Every setting of the bridge and the handlers, read once, by a command.

A setting is a flag and a variable: `ack_wait_seconds` is `--ack-wait-seconds` and
`WEIR_ACK_WAIT_SECONDS`; the flag wins. Units stand last in the name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta, Struct, structs

_SECONDS_MAX = 10 * 365 * 24 * 3600.0
TEXT = "text"
_Positive = Annotated[float, Meta(gt=0, le=_SECONDS_MAX)]
_Count = Annotated[int, Meta(ge=1)]


class SettingsError(Exception):
    """A setting has a value that it cannot have; the text names the variable and the remedy."""


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings, with the defaults of production; tests shorten times through variables."""

    nats_url: str = "nats://127.0.0.1:4222"
    """NATS servers that carry the queue, comma-separated."""
    nats_creds: str = ""
    """File with NATS user credentials."""
    nats_ca: str = ""
    """File with the certificate authorities that NATS is checked against."""
    nats_cert: str = ""
    """File with the certificate that this process shows to NATS."""
    nats_key: str = ""
    """File with the key of that certificate."""
    nats_engine_url: str = ""
    """The engines' side of the same NATS, as pods reach it; written into pods."""
    nats_default: Literal["managed", "shared"] = "managed"
    """Which NATS a deployment gets that does not say; shared needs an engine URL."""
    nats_replicas: Annotated[int, Meta(ge=1, le=5)] = 1
    """Replicas of the streams: 3 on a NATS cluster."""
    own_namespace: str = "weir-system"
    """Where Weir itself runs, and `weir pause --all` leaves the ConfigMap `weir-pause`."""
    pause_check_seconds: _Positive = 5.0
    """How often handlers look whether they are to stop writing."""
    watch_namespaces: str = ""
    """Namespaces to watch, comma-separated; empty is all."""
    identity: str = ""
    """Name of this process in leases, history and the User-Agent; empty makes one."""
    dry_run: bool = False
    """Nothing is written to Kubernetes; what would be is in history, log and metrics."""
    concurrency: Annotated[int, Meta(ge=1, le=1000)] = 16
    """Reconciles at once in one handler process, per consumer."""
    http: str = ":8080"
    """Where /healthz, /readyz and /metrics are served; `off` serves nothing."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """What is logged: this and all that is worse."""

    lease_seconds: Annotated[float, Meta(ge=1, le=_SECONDS_MAX)] = 12.0
    """An object is its handler's for so long after the last renewal."""
    lease_renew_seconds: _Positive = 4.0
    """How often a handler renews the lease of what it works on; at most half of the former."""
    ack_wait_seconds: _Positive = 10.0
    """A message whose handler is silent for so long is given to another."""
    conflict_backoff_seconds: _Positive = 0.02
    """First wait when another process holds the object; doubles up to the next setting."""
    conflict_backoff_max_seconds: _Positive = 0.5
    """The longest such wait."""
    write_timeout_seconds: _Positive = 5.0
    """What every mutating call asks of the API server, and the lease left that it needs."""
    reconcile_seconds_max: _Positive = 120.0
    """One reconcile is cut off after so long."""
    shutdown_seconds: _Positive = 15.0
    """After SIGTERM, reconciles have so long to finish before they are given back."""

    backoff_seconds: _Positive = 1.0
    """First retry after a failure of our own; doubles up to the next setting."""
    backoff_max_seconds: _Positive = 300.0
    """The longest wait between two retries."""
    quarantine_failures: _Count = 10
    """So many own failures in a row quarantine an object."""
    quarantine_retry_seconds: _Positive = 300.0
    """What is in quarantine is tried this often."""
    convict_crashes: _Count = 3
    """So many deaths of a process that ran the object alone convict it."""
    convict_crashes_in_doubt: _Count = 10
    """So many convict it while a suspect has outlived its deaths: processes die of other things."""
    child_retry_seconds: _Positive = 5.0
    """First retry after a refusal that concerns one child; doubles up to the next setting."""
    child_retry_max_seconds: _Positive = 60.0
    """The longest wait of a child that is refused."""
    not_ready_seconds: _Positive = 10.0
    """While a resource is not ready it is looked at this often, at first."""
    not_ready_seconds_max: _Positive = 60.0
    """While it has not been ready for long, this often."""
    successor_pods_seconds: _Positive = 120.0
    """A workload gives way to its successor of another kind once that lacks pods for so long.

    No quota and no gate is told of in the status of a LeaderWorkerSet; a controller that lives
    makes pods within seconds, or a minute where it is busy.
    """
    rollouts_per_minute: Annotated[int, Meta(ge=1, le=1000)] = 10
    """So many workloads a minute get new pods because Weir renders them anew; edits are free."""
    other_renderer_seconds: _Positive = 5.0
    """A handler older than an object's renderer gives it back for so long."""
    other_operator_seconds: Annotated[float, Meta(ge=0, le=3600)] = 60.0
    """Nothing is written to what another operator wrote to within so long; 0 looks for none."""
    renderer_mark_seconds: Annotated[float, Meta(ge=1, le=_SECONDS_MAX)] = 60.0
    """How long the mark of a live renderer version outlives its last renewal."""

    resync_seconds: _Positive = 600.0
    """Every object is looked at once per so many seconds, spread over them."""
    resyncs_per_list: Annotated[int, Meta(ge=1)] = 6
    """Of so many periodic looks at an object one also lists its children, whatever is known."""
    resync_rate_per_second: _Positive = 500.0
    """At most so many resync events a second."""
    child_hold_seconds: Annotated[float, Meta(ge=0, le=10)] = 0.1
    """Changes of one resource's children within so long of each other are one event.

    It is held five times as long at most.
    """
    stream_check_seconds: _Positive = 5.0
    """How often the streams and the consumer are checked, and made again when missing."""
    duplicate_window_seconds: Annotated[float, Meta(ge=1, le=_SECONDS_MAX)] = 120.0
    """Within so long the queue drops a message whose id it has had."""
    watch_seconds: _Positive = 290.0
    """What a watch asks of the server as its length."""
    watch_idle_seconds: _Positive = 70.0
    """Silence on a watch, bookmarks included, after which it is taken for dead.

    The server sends a bookmark about every minute (source: kube-apiserver, watch cache).
    """
    list_page_size: Annotated[int, Meta(ge=1, le=10000)] = 500
    """Objects that one answer of the API server lists."""
    pending_max: _Count = 100_000
    """Events remembered while NATS is away; beyond them a resync takes over."""

    @property
    def namespaces(self) -> tuple[str, ...]:
        """The namespaces to watch; empty means all."""
        return tuple(filter(None, (part.strip() for part in self.watch_namespaces.split(","))))


def variable(field: str) -> str:
    """Return the environment variable of a setting."""
    return f"WEIR_{field.upper()}"


def flag(field: str) -> str:
    """Return the flag of a setting."""
    return f"--{field.replace('_', '-')}"


def known_as(field: str) -> str:
    """Return both names of a setting, for errors that are found after it was read."""
    return f"{flag(field)} ({variable(field)})"


def allowed(field: str) -> str:
    """Return what a setting may be, in words that follow "must be"."""
    import msgspec.inspect as msi  # noqa: PLC0415 - for help and errors only

    (known,) = (each for each in structs.fields(Settings) if each.name == field)
    match msi.type_info(known.type):
        case msi.LiteralType():
            *others, last = get_args(known.type)
            return f"{', '.join(others)} or {last}"
        case msi.IntType(ge=least, le=most):
            return f"a whole number {_range(least, None, most)}"
        case msi.FloatType(ge=least, gt=above, le=most):
            return f"a number {_range(least, above, most)}"
        case msi.BoolType():
            return "true or false"
        case _:
            return TEXT


def read_settings(environment: Mapping[str, str], flags: Mapping[str, str]) -> Settings:
    """
    Return the settings that flags (by field name) and the environment give.

    Raises SettingsError with the name of the flag or variable that was used, and what it may be.
    """
    given: dict[str, Any] = {}
    names = {field: variable(field) for field in Settings.__struct_fields__}
    for field in Settings.__struct_fields__:
        value = flags.get(field, environment.get(variable(field)))
        if value is not None and value != "":
            given[field] = value
        if field in flags:
            names[field] = flag(field)
    for field, value in given.items():
        try:
            msgspec.convert({field: value}, Settings, strict=False)
        except msgspec.ValidationError as exc:
            text = f"{names[field]}={value}: must be {allowed(field)}"
            raise SettingsError(text) from exc
    settings = msgspec.convert(given, Settings, strict=False)
    _fit_together(settings, names)
    return settings


def _fit_together(settings: Settings, names: Mapping[str, str]) -> None:
    """Raise SettingsError where times contradict each other."""

    def said(field: str) -> str:
        return f"{names[field]}={getattr(settings, field):g}"

    if settings.lease_renew_seconds * 2 > settings.lease_seconds:
        raise SettingsError(
            f"{said('lease_renew_seconds')} must be at most half of "
            f"{said('lease_seconds')}, or one late renewal loses the object"
        )
    if settings.lease_seconds - settings.lease_renew_seconds <= settings.write_timeout_seconds:
        raise SettingsError(
            f"{said('lease_seconds')} less {said('lease_renew_seconds')} must "
            f"exceed {said('write_timeout_seconds')}, or no write could ever start"
        )
    if settings.ack_wait_seconds <= settings.lease_renew_seconds:
        raise SettingsError(
            f"{said('ack_wait_seconds')} must exceed {said('lease_renew_seconds')}, at which a "
            f"handler says that it works, or what it works on is given to another"
        )


def _range(least: float | None, above: float | None, most: float | None) -> str:
    if above is not None:
        return f"above {above:.10g}" + (f" and at most {most:.10g}" if most is not None else "")
    if most is None:
        return f"of at least {least:.10g}"
    return f"from {least:.10g} to {most:.10g}"
