"""
The kinds of others that come and go: which of them the API server serves at the moment.

To begin with it serves all. Where no controller of theirs runs, nothing of them is ever ready.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from handlers.cli.devstack.control_plane import ControlPlane
from tests.faults.stand_ins.installing import (
    GATEWAYS,
    HTTP_ROUTES,
    INFERENCE_POOLS,
    LEADER_WORKER_SETS,
    Crd,
    install_crds,
    remove_crds,
)
from tests.witness.audit import AuditLog

CRDS: Mapping[str, Crd] = {
    crd.kind.kind: crd for crd in (LEADER_WORKER_SETS, INFERENCE_POOLS, HTTP_ROUTES)
}


class OptionalKinds:
    """The optional kinds of one control plane."""

    def __init__(self, cluster: ControlPlane) -> None:
        """All are served now."""
        self._cluster = cluster
        self._audit = AuditLog(cluster.audit_log)
        self.absent: set[str] = set(CRDS)
        """Those that are not served."""
        self._since: dict[str, int] = {}
        """Where in the audit log each was installed last."""
        install_crds(cluster, [GATEWAYS])
        self.restore()

    def restore(self) -> None:
        """All are served."""
        self.install(*self.absent)

    def install(self, *kinds: str) -> None:
        """These kinds are served."""
        new = self.absent.intersection(kinds)
        if not new:
            return
        self._since |= dict.fromkeys(new, self._audit.offset())
        install_crds(self._cluster, [CRDS[kind] for kind in sorted(new)])
        self.absent -= new

    def are_collected(self, kinds: Iterable[str]) -> bool:
        """Whether the garbage collector watches these kinds since they were installed last."""
        return all(map(self._is_collected, kinds))

    def _is_collected(self, kind: str) -> bool:
        events = self._audit.events(from_offset=self._since[kind], stage="ResponseStarted")
        return any(
            event.verb == "watch"
            and event.landed
            and event.object_ref.resource == CRDS[kind].kind.plural
            and event.user_agent.startswith("kube-controller-manager")
            for event in events
        )

    def remove(self, kind: str) -> None:
        """A kind is not served, and its objects are gone."""
        if kind not in self.absent:
            self.absent.add(kind)
            remove_crds(self._cluster, [CRDS[kind]])
