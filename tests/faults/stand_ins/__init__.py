"""
Stand-ins for what others install, where no real installation is at hand.

CRDs (`installing`), the controllers of LeaderWorkerSets (`leader_worker_sets`) and of a Gateway
(`gateways`), and AMD's operator (`reference_operator`). Each says what it stands for and what it
leaves out, is an administrator, and runs in the test's process: `in_thread(StandIn...(cluster))`.
"""

from __future__ import annotations

from pathlib import Path

LEADER_WORKER_SET_CRD = Path(__file__).with_name("leader_worker_set_crd.yaml")
INFERENCE_POOL_CRD = Path(__file__).with_name("inference_pool_crd.yaml")
