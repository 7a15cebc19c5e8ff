"""The grace period of a worker's pod."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.inferadeployment.drain import (
    DRAIN_SECONDS_MAX,
    GRACE_SECONDS_MIN,
    drain_seconds,
    grace_seconds,
)
from tests.unit.handlers.inferadeployment.resources import a_resource, a_worker, group, pod_spec

Env = list[dict[str, Any]]


def env(*values: str) -> Env:
    return [{"name": "INFERA_DRAIN_TIMEOUT", "value": value} for value in values]


@pytest.mark.parametrize(
    ("args", "variables", "seconds"),
    [
        ([], [], None),
        (["--drain-timeout", "120"], [], 120),
        (["--drain-timeout=120"], [], 120),
        (["--drain-timeout", "1e2"], [], 100),
        (["--drain-timeout", "75.2"], [], 75.2),
        (["--drain-timeout", "3601"], [], 3600),
        (["--drain-timeout", "0"], [], None),
        (["--drain-timeout", "-5"], [], None),
        (["--drain-timeout", "nan"], [], None),
        (["--drain-timeout", "inf"], [], None),
        (["--drain-timeout", "soon"], [], None),
        (["--drain-timeout="], [], None),
        (["--model", "m", "--drain-timeout"], [], None),
        (["--drain-timeout", "--drain-timeout", "60"], [], 60),
        (["--drain-timeout", "60", "--drain-timeout", "90"], [], 90),
        (["--drain-timeout", "60", "--drain-timeout", "soon"], [], 60),
        (["--drain-timeout-factor", "60"], [], None),
        (["/bin/sh", "-c", "engine --drain-timeout 60"], [], None),
        ([], env("45.5"), 45.5),
        ([], env("45", "90"), 90),
        ([], env("45", "soon"), 45),
        (["--drain-timeout", "60"], env("90"), 60),
        (["--drain-timeout", "soon"], env("90"), 90),
        ([], [{"name": "INFERA_DRAIN_TIMEOUT", "valueFrom": {"fieldRef": {}}}], None),
        ([], [{"name": "OTHER", "value": "90"}], None),
        ([], [{"name": "INFERA_DRAIN_TIMEOUT", "value": 90}], None),
        ([], env("-inf"), None),
        ([], env("Infinity"), None),
        ([], env("1e400"), None),
        ([], env(""), None),
        ([], env("0"), None),
        ([], env("90", "0"), 90),
        ([], [*env("90"), {"name": "INFERA_DRAIN_TIMEOUT", "valueFrom": {}}], 90),
        (["--drain-timeout=60", "--drain-timeout", "90"], [], 90),
        (["--drain-timeout", "90", "--drain-timeout=60"], [], 60),
        (["--drain-timeout", "90", "--drain-timeout="], [], 90),
        (["--drain-timeout", "90", "--drain-timeout"], [], 90),
        (["--drain-timeout", "--port", "80"], [], None),
        (["--drain-timeout==60"], [], None),
        (["-drain-timeout", "60"], [], None),
        (["--drain-timeout=nan"], env("90"), 90),
        (["--drain-timeout", "75.2s"], [], None),
        (["--drain-timeout", "0.1"], [], 0.1),
        (["--drain-timeout", " 90"], [], None),
        (["--drain-timeout=90 "], [], None),
        ([], env("90\n"), None),
        (["--drain-timeout", "\u0669\u0660"], [], None),
        (["--drain-timeout", "1_000"], [], 1000),
        (["--drain-timeout", "+90"], [], 90),
        (["--drain-timeout", "90."], [], 90),
        (["--drain-timeout", ".9E2"], [], 90),
        (["--drain-timeout", "090"], [], 90),
        (["--drain-timeout", "1e-400"], [], None),
        (["--drain-timeout", "9e18"], [], 3600),
        (["--drain-timeout", "0x1p7"], [], 128),
        (["--drain-timeout", "0X1.8P+7"], [], 192),
        (["--drain-timeout", "0x40"], [], None),
        (["--drain-timeout", "0xp8"], [], None),
        (["--drain-timeout", "0x1p99999"], [], None),
        (["--drain-timeout", "0b11"], [], None),
        (["--drain-timeout", "iNf"], [], None),
        (["--drain-timeout", "1:30"], [], None),
    ],
)
def test_one_source_gives_the_last_valid_flag_over_the_last_valid_variable(
    args: list[str], variables: Env, seconds: float | None
) -> None:
    assert drain_seconds(args, variables) == seconds


@pytest.mark.parametrize(
    ("service_args", "service_env", "container", "grace"),
    [
        ([], [], {}, 120),
        (["--drain-timeout", "55"], [], {}, 120),
        (["--drain-timeout", "55.1"], [], {}, 121),
        (["--drain-timeout", "200"], [], {}, 265),
        (["--drain-timeout", "1e9"], [], {}, 3665),
        ([], env("75.2"), {}, 141),
        (["--drain-timeout", "200"], [], {"env": env("300")}, 365),
        (["--drain-timeout", "200"], [], {"args": ["--drain-timeout", "0"]}, 265),
        ([], env("200"), {"command": ["e", "--drain-timeout=300"], "args": []}, 365),
        ([], [], {"command": ["e", "--drain-timeout"], "args": ["300"]}, 365),
        ([], [], {"command": "no list", "args": [7], "env": {"not": "a list"}}, 120),
        (["--drain-timeout", "300"], [], {"env": env("200")}, 265),
        ([], env("300"), {"command": ["e", "--drain-timeout", "nan"]}, 365),
        ([], env("300"), {"command": ["e", "--drain-timeout", "1"]}, 120),
        ([], [], {"args": ["e --drain-timeout 300"]}, 120),
        (["--drain-timeout", "3600"], [], {}, 3665),
        (["--drain-timeout", "3599.5"], [], {}, 3665),
        ([], [], {"command": ["--drain-timeout=200"], "args": ["--drain-timeout=300"]}, 365),
    ],
)
def test_the_container_overrules_the_service_and_120_seconds_is_the_least(
    service_args: list[str], service_env: Env, container: dict[str, Any], grace: int
) -> None:
    assert grace_seconds(service_args, service_env, container) == grace


def test_spec_envs_count_because_they_are_in_the_container() -> None:
    resource = a_resource(envs=env("500"))
    assert pod_spec(resource)["terminationGracePeriodSeconds"] == 565


def test_the_last_valid_variable_counts_even_where_a_later_duplicate_is_dropped_with_it() -> None:
    worker = a_worker(env=env("500", "soon"))
    assert pod_spec(worker)["terminationGracePeriodSeconds"] == 565


@pytest.mark.parametrize(("given_seconds", "seconds"), [(30, 120), (120, 120), (900, 900)])
def test_an_own_grace_period_is_raised_and_never_lowered(given_seconds: int, seconds: int) -> None:
    own = {"containers": [{"name": "main"}], "terminationGracePeriodSeconds": given_seconds}
    spec = pod_spec(a_worker(extraPodSpec=own))
    assert spec["terminationGracePeriodSeconds"] == seconds


def test_args_of_a_service_with_its_own_pod_still_say_how_long_it_drains() -> None:
    worker = a_worker(
        extraPodSpec={"containers": [{"name": "main"}]}, args=["--drain-timeout", "200"]
    )
    assert pod_spec(worker)["terminationGracePeriodSeconds"] == 265


def test_a_group_drains_as_a_deployment_does() -> None:
    own = {"containers": [{"name": "main", "args": ["--drain-timeout", "400"]}]}
    for fields in ({"args": ["--drain-timeout", "400"]}, {"extraPodSpec": own}):
        template = group(a_worker(numberOfNodes=2, **fields))["leaderWorkerTemplate"]
        assert template["workerTemplate"]["spec"]["terminationGracePeriodSeconds"] == 465


def test_only_the_primary_container_of_an_own_pod_says_how_long_it_drains() -> None:
    slow = {"name": "slow", "args": ["--drain-timeout", "900"]}
    own = {"containers": [slow, {"name": "main", "env": env("200")}], "initContainers": [slow]}
    spec = pod_spec(a_worker(extraPodSpec=own))
    assert spec["terminationGracePeriodSeconds"] == 265


words = st.one_of(
    st.sampled_from(["--drain-timeout", "--drain-timeout=", "--drain-timeout=60"]),
    st.text(max_size=8),
    st.floats().map(str),
    st.floats().map(lambda number: f"--drain-timeout={number}"),
)
variables = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["INFERA_DRAIN_TIMEOUT", "OTHER"])},
        optional={"value": st.one_of(st.none(), st.integers(), words)},
    )
)


@given(args=st.lists(words), service_env=variables, command=st.lists(words), own_env=variables)
def test_whatever_is_written_the_grace_covers_the_drain_and_stays_within_bounds(
    args: list[str], service_env: Env, command: list[str], own_env: Env
) -> None:
    container = {"command": command, "env": own_env}
    grace = grace_seconds(args, service_env, container)
    drain = drain_seconds(command, own_env) or drain_seconds(args, service_env) or 30.0
    assert 0 < drain <= DRAIN_SECONDS_MAX
    assert grace == max(GRACE_SECONDS_MIN, math.ceil(drain) + 65)
