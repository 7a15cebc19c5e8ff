"""Settings: a flag and a variable each, and words that help where a value cannot be."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bridge.settings import Settings, SettingsError, flag, read_settings, variable

DEFAULTS = {field.name: field.default for field in msgspec.structs.fields(Settings)}
SWITCHES = [name for name, value in DEFAULTS.items() if isinstance(value, bool)]
NUMBERS = {
    name: value
    for name, value in DEFAULTS.items()
    if isinstance(value, int | float) and name not in SWITCHES
}


def test_nothing_given_is_the_defaults() -> None:
    assert read_settings({}, {}) == Settings()
    assert read_settings({"WEIR_NATS_URL": "", "PATH": "/bin", "WEIR_TEST_BACKEND": "x"}, {}) == (
        Settings()
    )


def test_the_defaults_pass_their_own_checks() -> None:
    given = {variable(name): f"{value}" for name, value in DEFAULTS.items()}
    assert read_settings(given, {}) == Settings()


@pytest.mark.parametrize("name", DEFAULTS)
def test_every_setting_is_a_variable_and_a_flag_and_the_flag_wins(name: str) -> None:
    other = {
        "nats_default": "shared",
        "log_level": "debug",
        "nats_replicas": "3",
        "lease_renew_seconds": "3",
        "ack_wait_seconds": "11",
        "write_timeout_seconds": "4",
    }.get(name)
    if other is None:
        default = DEFAULTS[name]
        other = "text" if isinstance(default, str) else f"{default + 1}"
    expected: Any = type(DEFAULTS[name])(other)
    assert getattr(read_settings({variable(name): other}, {}), name) == expected
    assert getattr(read_settings({variable(name): "not this"}, {name: other}), name) == expected


def test_variables_are_named_as_the_documentation_says() -> None:
    assert variable("ack_wait_seconds") == "WEIR_ACK_WAIT_SECONDS"
    assert variable("nats_url") == "WEIR_NATS_URL"


@pytest.mark.parametrize("name", SWITCHES)
def test_a_switch_is_true_or_false_and_nothing_else(name: str) -> None:
    assert getattr(read_settings({variable(name): "true"}, {}), name) is True
    assert getattr(read_settings({variable(name): "false"}, {}), name) is False
    with pytest.raises(SettingsError, match=f"{variable(name)}=maybe: must be true or false"):
        read_settings({variable(name): "maybe"}, {})


@pytest.mark.parametrize("text", ["many", "-1", "nan", "inf", "1e999", "1 s"])
@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_that_cannot_be_is_refused_by_the_name_of_its_variable(
    name: str, text: str
) -> None:
    with pytest.raises(SettingsError, match=variable(name)) as refused:
        read_settings({variable(name): text}, {})
    assert f"{variable(name)}={text}: must be a" in str(refused.value)
    assert "number" in str(refused.value)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("log_level", "loud", "must be debug, info, warning or error"),
        ("nats_default", "none", "must be managed or shared"),
        ("concurrency", "0", "must be a whole number from 1 to 1000"),
        ("concurrency", "x", "must be a whole number from 1 to 1000"),
        ("quarantine_failures", "0", "must be a whole number of at least 1"),
        ("write_timeout_seconds", "0", "must be a number above 0 and at most 315360000"),
    ],
)
def test_what_a_setting_may_be_is_said_with_the_name_that_was_used(
    name: str, text: str, said: str
) -> None:
    with pytest.raises(SettingsError) as by_variable:
        read_settings({variable(name): text}, {})
    with pytest.raises(SettingsError) as by_flag:
        read_settings({variable(name): "unused"}, {name: text})
    assert str(by_variable.value) == f"{variable(name)}={text}: {said}"
    assert str(by_flag.value) == f"{flag(name)}={text}: {said}"


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"lease_renew_seconds": "7"}, ("--lease-renew-seconds=7", "WEIR_LEASE_SECONDS=12")),
        ({"write_timeout_seconds": "8"}, ("WEIR_LEASE_SECONDS=12", "--write-timeout-seconds=8")),
        ({"ack_wait_seconds": "4"}, ("--ack-wait-seconds=4", "WEIR_LEASE_RENEW_SECONDS=4")),
    ],
)
def test_times_that_do_not_fit_together_are_refused_by_their_names(
    given: dict[str, str], named: tuple[str, str]
) -> None:
    with pytest.raises(SettingsError) as refused:
        read_settings({}, given)
    assert all(name in str(refused.value) for name in named)


@pytest.mark.parametrize(
    ("text", "namespaces"), [("", ()), ("a", ("a",)), (" a, b ,", ("a", "b")), (",", ())]
)
def test_namespaces_are_a_list_and_none_is_all(text: str, namespaces: tuple[str, ...]) -> None:
    assert read_settings({"WEIR_WATCH_NAMESPACES": text}, {}).namespaces == namespaces
