"""
The kinds of others that come and go: which of them the API server serves at the moment.

To begin with it serves all. Where no controller of theirs runs, nothing of them is ever ready.
"""

from __future__ import annotations

from collections.abc import Mapping

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

CRDS: Mapping[str, Crd] = {
    crd.kind.kind: crd for crd in (LEADER_WORKER_SETS, INFERENCE_POOLS, HTTP_ROUTES)
}


class OptionalKinds:
    """The optional kinds of one control plane."""

    def __init__(self, cluster: ControlPlane) -> None:
        """All are served now."""
        self._cluster = cluster
        self.absent: set[str] = set(CRDS)
        """Those that are not served."""
        install_crds(cluster, [GATEWAYS])
        self.restore()

    def restore(self) -> None:
        """All are served."""
        self.install(*self.absent)

    def install(self, *kinds: str) -> None:
        """These kinds are served."""
        new = self.absent.intersection(kinds)
        if new:
            install_crds(self._cluster, [CRDS[kind] for kind in sorted(new)])
            self.absent -= new

    def remove(self, kind: str) -> None:
        """A kind is not served, and its objects are gone."""
        if kind not in self.absent:
            self.absent.add(kind)
            remove_crds(self._cluster, [CRDS[kind]])
