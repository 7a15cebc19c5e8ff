"""Every state that a namespace's pods were in, one after the other: a look now and then is not."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import aclosing, suppress

from crds.kubernetes import POD, Manifest
from handlers.cli.devstack.cluster import Cluster
from tests.faults.stand_ins.client import Client

Moment = Mapping[str, Manifest]
"""The pods by name."""


class PodsSeen:
    """
    Watches the pods of a namespace while it is started.

    A watch tells every change of every pod in the order in which the API server stored them.
    """

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        """Take the namespace; an administrator's kubeconfig is used."""
        self.moments: list[Moment] = []
        """The pods at the start, and after every change; the present ones last."""
        self._client = Client(cluster.kubeconfig(), "pods-seen")
        self._path = POD.path(namespace)
        self._watching: asyncio.Task[None]

    async def start(self) -> None:
        """Watch from now on; what is there now is known."""
        self._client.open()
        listed = await self._client.get(self._path)
        self.moments.append({pod["metadata"]["name"]: pod for pod in listed["items"]})
        version = listed["metadata"]["resourceVersion"]
        self._watching = asyncio.create_task(self._watch(version))

    async def stop(self) -> None:
        """Watch no more; raise what ended it before, since then something was not seen."""
        self._watching.cancel()
        with suppress(asyncio.CancelledError):
            await self._watching
        await self._client.close()

    async def _watch(self, version: str) -> None:
        async with aclosing(self._client.watch(self._path, resourceVersion=version)) as events:
            async for event in events:
                pod = event["object"]
                pods = dict(self.moments[-1])
                match event["type"]:
                    case "ADDED" | "MODIFIED":
                        pods[pod["metadata"]["name"]] = pod
                    case "DELETED":
                        pods.pop(pod["metadata"]["name"], None)
                    case _:
                        raise AssertionError(f"the watch of pods broke: {event}")
                self.moments.append(pods)
        raise AssertionError("the watch of pods ended")
