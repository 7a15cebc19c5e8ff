"""The pods of a resource, or of one of its workloads, as the API server holds them now."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from crds.kubernetes import POD

if TYPE_CHECKING:
    from bridge.kube import Kube
    from crds.kubernetes import Manifest

PODS_MAX = 500
"""So many are enough where some of them tell what the others would."""


async def read_pods(
    kube: Kube, namespace: str, label_selector: str, *, limit: int | None = PODS_MAX
) -> list[Manifest]:
    """Return the pods with these labels, or the first `limit` of them."""
    data = await kube.list_objects(POD, namespace, label_selector=label_selector, limit=limit)
    return list(msgspec.json.decode(data).get("items") or ())
