"""Settings: a flag and a variable each, and words that help where a value cannot be."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bridge.settings import Settings, SettingsError, read_settings, variable

DEFAULTS = {field.name: field.default for field in msgspec.structs.fields(Settings)}
NUMBERS = {name: value for name, value in DEFAULTS.items() if isinstance(value, int | float)}


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


@pytest.mark.parametrize("text", ["many", "-1", "nan", "inf", "1e999", "1 s"])
@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_that_cannot_be_is_refused_by_the_name_of_its_variable(
    name: str, text: str
) -> None:
    with pytest.raises(SettingsError, match=variable(name)) as refused:
        read_settings({variable(name): text}, {})
    assert text in str(refused.value)
    assert "Expected" in str(refused.value) or "out of range" in str(refused.value)


@pytest.mark.parametrize(
    ("name", "text", "choice"),
    [
        ("log_level", "loud", "loud"),
        ("nats_default", "none", "none"),
        ("concurrency", "0", ">= 1"),
        ("concurrency", "100000", "<= 1000"),
        ("nats_replicas", "9", "<= 5"),
    ],
)
def test_a_choice_that_is_none_is_refused_with_its_bounds(
    name: str, text: str, choice: str
) -> None:
    with pytest.raises(SettingsError, match=variable(name)) as refused:
        read_settings({variable(name): text}, {})
    assert choice in str(refused.value)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"lease_renew_seconds": "7"}, ("WEIR_LEASE_RENEW_SECONDS=7", "WEIR_LEASE_SECONDS=12")),
        ({"write_timeout_seconds": "8"}, ("WEIR_LEASE_SECONDS=12", "WEIR_WRITE_TIMEOUT_SECONDS=8")),
        ({"ack_wait_seconds": "4"}, ("WEIR_ACK_WAIT_SECONDS=4", "WEIR_LEASE_RENEW_SECONDS=4")),
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
