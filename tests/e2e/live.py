"""Resources that AMD's operator serves in a live cluster, played by its stand-in."""

from __future__ import annotations

import json
from contextlib import ExitStack

from crds.kind import Kind
from crds.kubernetes import LEADER_WORKER_SET, Manifest
from tests.e2e.stage import CHILD_KINDS, Stage, uid
from tests.e2e.terminal import Said, Terminal
from tests.faults.own_loop import in_thread
from tests.faults.stand_ins.reference_operator import (
    MANAGER,
    Golden,
    StandInReferenceOperator,
    golden,
)
from tests.stack.eventually import eventually

KINDS = (*CHILD_KINDS, LEADER_WORKER_SET)
"""Where LeaderWorkerSets are installed."""
SILENT_SECONDS = 2
"""After so long of its silence what AMD's operator served is ours to write."""
OF_OTHERS = "example.com/of-others"
"""A label and an annotation of somebody else."""
DISAGGREGATED = "flat-vllm-pd"
"""With a NATS of a named image, and both ways to say how long a worker drains."""
DECODE = f"{DISAGGREGATED}-decode"


class Live:
    """What AMD's operator serves in a namespace: resources that stand in goldens."""

    def __init__(
        self,
        stage: Stage,
        *names: str,
        manager: str = MANAGER,
        kinds: tuple[Kind, ...] = CHILD_KINDS,
    ) -> None:
        self.stage = stage
        self._kinds = kinds
        self.names = names
        self._manager = manager
        self._goldens = [_in_this_fleet(golden(name)) for name in names]

    def apply(self) -> None:
        """Apply the resources, as their user did."""
        self.stage.apply(*(served.resource for served in self._goldens))

    async def is_served_by_the_reference(self) -> None:
        """AMD's operator has made all as it wants it, serves it, and is stopped again."""
        offset = self.stage.audit.offset()
        with ExitStack() as running:
            for served in self._goldens:
                operator = StandInReferenceOperator(
                    self.stage.cluster, self.stage.namespace, served, self._manager
                )
                running.enter_context(in_thread(operator))
            await eventually(self._is_as_the_reference_wants_it, 60)
        assert self.stage.audit.mutating(
            from_offset=offset,
            namespace=self.stage.namespace,
            user_agent_prefix=f"stand-in-{self._manager}",
        )

    def _is_as_the_reference_wants_it(self) -> bool:
        for name in self.names:
            assert self.stage.resource(name)["status"]["state"] == "ready", name
        children = self.children()
        assert children
        for name, child in children.items():
            assert OF_OTHERS not in child["metadata"]["labels"], name
        return True

    async def is_ours(self) -> dict[str, Manifest]:
        """Return the children once all is Ready, and whose nobody's but ours and controllers'."""
        for name in self.names:
            await self.stage.ready(name, within_seconds=60)
        # It may still say so from before the reference served it.
        return await eventually(self._children_that_are_ours, 60)

    def _children_that_are_ours(self) -> dict[str, Manifest]:
        for name in self.names:
            assert self._manager not in managers(self.stage.resource(name)), name
        children = self.children()
        for name, child in children.items():
            assert self._manager not in managers(child), name
            assert "weir" in managers(child), name
        return children

    def children(self) -> dict[str, Manifest]:
        """Return all children."""
        return self.stage.children(self._kinds)

    def pods(self) -> dict[str, str]:
        """Return which pod (uid) has which name, without those that are on their way out."""
        return {
            uid(pod): pod["metadata"]["name"]
            for pod in self.stage.pods().values()
            if "deletionTimestamp" not in pod["metadata"]
        }

    def made_from(self) -> dict[str, Manifest]:
        """Return what the pods of each workload are made from: another one restarts them."""
        found = {}
        for name, child in self.children().items():
            spec = child.get("spec") or {}
            template = spec.get("template") or spec.get("leaderWorkerTemplate")
            if template:
                found[name] = template
        return found

    def mark_as_others_do(self) -> None:
        """Somebody labels and annotates every child."""
        names = [f"{kind.plural}.{kind.group}".rstrip(".") for kind in self._kinds]
        every = (",".join(names), "--selector=infera.amd.com/deployment")
        self.stage.kubectl("label", *every, f"{OF_OTHERS}=1")
        self.stage.kubectl("annotate", *every, f"{OF_OTHERS}=1", "--overwrite")

    def scale(self, replicas: int) -> None:
        """An autoscaler gives the decoders so many replicas."""
        self.stage.patch(
            f"deployment/{DECODE}",
            {"spec": {"replicas": replicas}},
            "--subresource=scale",
            "--field-manager=horizontal-pod-autoscaler",
        )

    def diff(self, **settings: str) -> Said:
        """Return what `weir render --diff -A` says."""
        cluster, nats = self.stage.cluster, self.stage.weir.nats
        settings = {"other_operator_seconds": str(SILENT_SECONDS), **settings}
        variables = {f"WEIR_{name.upper()}": value for name, value in settings.items()}
        terminal = Terminal(nats.url, cluster.kubeconfig(), **variables)
        return terminal.weir("render", "--diff", "-A")


def _in_this_fleet(served: Golden) -> Golden:
    """Return a golden whose volumes are of the class that the fleet has."""
    text = json.dumps([served.resource, served.children])
    resource, children = json.loads(text.replace('"fast"', '"kwok-volume"'))
    return Golden(
        resource=resource, children=children, status=served.status, managers=served.managers
    )


def managers(live: Manifest) -> set[str]:
    """Return who owns fields of an object."""
    return {entry["manager"] for entry in live["metadata"]["managedFields"]}
