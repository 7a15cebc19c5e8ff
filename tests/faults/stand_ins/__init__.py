"""Stand-ins for the CRDs of others, where no real installation is at hand."""

from __future__ import annotations

from pathlib import Path

LEADER_WORKER_SET_CRD = Path(__file__).with_name("leader_worker_set_crd.yaml")
INFERENCE_POOL_CRD = Path(__file__).with_name("inference_pool_crd.yaml")
