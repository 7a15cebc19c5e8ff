"""Sequences that showed a fault once, and those that chance seldom draws, by what they show."""

from __future__ import annotations

from collections.abc import Mapping

from tests.e2e.machine.actions import Apply, Calm, Scale, Sequence

WRITTEN: Mapping[str, Sequence] = {
    "a workload is scaled to zero, which leaves no name, and taken back by an edit": (
        Apply(
            name="cat",
            spec={
                "image": "registry.example/infera:2",
                "nats": {"deploy": False},
                "services": {"worker": {"componentType": "worker"}},
            },
        ),
        Calm(),
        Scale(child="Deployment/cat-worker", replicas=0),
        Calm(),
        Apply(
            name="cat",
            spec={
                "image": "registry.example/infera:3",
                "nats": {"deploy": False},
                "services": {"worker": {"componentType": "worker"}},
            },
        ),
        Calm(),
        Apply(
            name="cat",
            spec={
                "image": "registry.example/infera:3",
                "nats": {"deploy": False},
                "services": {"worker": {"componentType": "worker", "replicas": 2}},
            },
        ),
        Calm(),
    ),
}
