"""One InferaDeployment on the stack, from `kubectl apply` to its deletion, as a user sees it."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml

from handlers.cli.devstack.cluster import Cluster
from handlers.cli.devstack.process import ProcessError
from handlers.cli.devstack.stack import Stack
from handlers.cli.devstack.weir import REPOSITORY

EXAMPLE = Path(__file__).with_name("demo.yaml")
NAMESPACE = "weir-demo"
NAME = "demo"

READY_SECONDS = 120.0
GONE_SECONDS = 60.0
POLL_SECONDS = 0.2

RESOURCE = f"/apis/infera.amd.com/v1alpha1/namespaces/{NAMESPACE}/inferadeployments/{NAME}"
CHILD_KINDS = "deployments,statefulsets,services,serviceaccounts,roles,rolebindings,pods"
SELECTOR = f"--selector=infera.amd.com/deployment={NAME}"

_CONDITIONS = (
    "go-template={{range .status.conditions}}"
    '{{printf "%-12s %-8s %-20s %s\\n" .type .status .reason .message}}{{end}}'
)


class DemoError(Exception):
    """The demo did not get where it should; the text says what was seen last."""


def show(stack: Stack, within_seconds: float = READY_SECONDS) -> None:
    """
    Create the example, show what Weir makes of it, delete it, show that nothing is left.

    Raises DemoError when it is not Ready in time, or not gone.
    """
    cluster = stack.cluster
    _show(cluster, "apply", "-f", example())
    with stack.step(f"InferaDeployment {NAMESPACE}/{NAME} Ready"):
        _wait(lambda: _is_ready(_resource(cluster)), within_seconds, "Ready", cluster)
    _show(cluster, "get", "idep", NAME, "-n", NAMESPACE)
    _show(cluster, "get", CHILD_KINDS, "-n", NAMESPACE, SELECTOR)
    _show(cluster, "get", "idep", NAME, "-n", NAMESPACE, "-o", _CONDITIONS)
    _history(stack)
    with stack.step("deleted, and every child gone"):
        _show(cluster, "delete", "idep", NAME, "-n", NAMESPACE)
        _wait(lambda: not _children(cluster), GONE_SECONDS, "gone", cluster)
    _show(cluster, "get", CHILD_KINDS, "-n", NAMESPACE, SELECTOR)
    cluster.kubectl("delete", "namespace", NAMESPACE, "--wait=false")
    print("\nWhat took how long:")
    for step in stack.steps:
        print(f"  {step.what:<52} {step.seconds:6.1f} s")


def example() -> str:
    """Return the path of the example as one would type it here."""
    here = Path.cwd()
    return str(EXAMPLE.relative_to(here) if EXAMPLE.is_relative_to(here) else EXAMPLE)


def _wait(reached: Callable[[], bool], within_seconds: float, what: str, cluster: Cluster) -> None:
    """Wait with a line for every change of what is seen; raise DemoError after so long."""
    begun = time.monotonic()
    seen = ""
    while not reached():
        now = _progress(cluster)
        waited = time.monotonic() - begun
        if now != seen:
            seen = now
            print(f"  {waited:5.1f} s  {seen}", file=sys.stderr, flush=True)
        if waited > within_seconds:
            raise DemoError(f"{NAME} is not {what} after {within_seconds:g} s; last seen: {seen}")
        time.sleep(POLL_SECONDS)


def _progress(cluster: Cluster) -> str:
    return progress(_resource(cluster).get("status", {}), _children(cluster))


def progress(status: dict[str, Any], found: Sequence[str]) -> str:
    """Return in a line how far a resource is; `found` are its objects, as `kubectl -o name`."""
    pods = sum(name.startswith("pod/") for name in found)
    ready = ", ".join(
        f"{name} {service.get('readyReplicas', 0)}/{service.get('replicas', 0)}"
        for name, service in sorted(status.get("services", {}).items())
    )
    state = status.get("state", "no status yet")
    counted = f"{len(found) - pods} children and {pods} pods of theirs"
    return f"{state}: {counted}; ready: {ready or 'none'}"


def _is_ready(resource: dict[str, Any]) -> bool:
    conditions = resource.get("status", {}).get("conditions", ())
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def _resource(cluster: Cluster) -> dict[str, Any]:
    found = cluster.kubectl("get", "--raw", RESOURCE, check=False)
    if found.returncode:
        return {}
    resource: dict[str, Any] = yaml.safe_load(found.stdout)
    return resource


def _children(cluster: Cluster) -> list[str]:
    found = cluster.kubectl("get", CHILD_KINDS, "-n", NAMESPACE, SELECTOR, "-o", "name")
    return found.stdout.split()


def _show(cluster: Cluster, *arguments: str) -> None:
    """Print a kubectl command and what it answers."""
    short = ["..." if argument == _CONDITIONS else argument for argument in arguments]
    print(f"\n$ kubectl {shlex.join(short)}", flush=True)
    done = cluster.kubectl(*arguments)
    print((done.stdout + done.stderr).strip(), flush=True)


def _history(stack: Stack) -> None:
    """Print what Weir has done, by the command that anyone may use."""
    arguments = ["history", "inferadeployment", f"{NAMESPACE}/{NAME}"]
    print(f"\n$ weir {' '.join(arguments)}", flush=True)
    done = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-m", "handlers", *arguments],
        cwd=REPOSITORY,
        env={**os.environ, "WEIR_NATS_URL": stack.nats_url},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=READY_SECONDS,
        check=False,
    )
    print(done.stdout.strip(), flush=True)
    if done.returncode:
        raise ProcessError(f"weir history ended with {done.returncode}: {done.stderr.strip()}")
