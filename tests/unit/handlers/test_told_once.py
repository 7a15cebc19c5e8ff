"""Events that stand in for a status: the API server keeps the first of a generation by its name."""

from __future__ import annotations

from typing import cast

from crds.kubernetes import Manifest
from handlers.conditions import READY, Transition
from handlers.kube_events import post_events
from handlers.writes import Writer

TOLD = Transition(
    type=READY, status="False", reason="InvalidSpec", message="replicas is no number", warning=True
)


class FakeWriter:
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.names: list[str] = []

    async def post_event(self, _namespace: str, manifest: Manifest) -> None:
        """Keep the Event's name."""
        self.names.append(manifest["metadata"]["name"])


async def _names(*generations: int, once: bool) -> list[str]:
    writer = FakeWriter()
    for generation in generations:
        resource: Manifest = {
            "apiVersion": "infera.amd.com/v1alpha1",
            "kind": "InferaDeployment",
            "metadata": {
                "name": "chat",
                "namespace": "team-a",
                "uid": "0",
                "resourceVersion": str(len(writer.names)),
                "generation": generation,
            },
        }
        now = "2026-01-01T00:00:00Z"
        await post_events(cast("Writer", writer), resource, [TOLD], "a-handler", now, once=once)
    return writer.names


async def test_what_is_told_once_has_one_name_per_generation() -> None:
    first, again, edited = await _names(1, 1, 2, once=True)

    assert first == again
    assert edited != first


async def test_what_a_status_remembers_is_told_anew_each_time() -> None:
    first, again = await _names(1, 1, once=False)

    assert first != again
