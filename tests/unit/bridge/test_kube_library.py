"""What a process of ours loads of kubernetes-asyncio, and that it is enough."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import yaml

ENOUGH = """
import asyncio, sys
from bridge.kube_config import load_access
configuration = asyncio.run(load_access()).configuration
print(configuration.host, asyncio.run(configuration.get_api_key_with_prefix("BearerToken")))
print(*sorted(name for name in sys.modules if name.startswith("kubernetes_asyncio.client")))
"""


def test_a_kubeconfig_is_read_without_the_classes_of_the_api(tmp_path: Path) -> None:
    api_version = "client.authentication.k8s.io/v1"
    answer = {"apiVersion": api_version, "kind": "ExecCredential", "status": {"token": "secret"}}
    exec_plugin = {
        "apiVersion": api_version,
        "command": sys.executable,
        "interactiveMode": "Never",
        "args": ["-c", f"print({json.dumps(json.dumps(answer))})"],
    }
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "here", "cluster": {"server": "https://api.example:6443"}}],
        "users": [{"name": "me", "user": {"exec": exec_plugin}}],
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
    }
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(kubeconfig), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", ENOUGH],
        cwd=Path(__file__).parents[3],
        env={"KUBECONFIG": str(path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said, modules = done.stdout.splitlines()
    assert said == "https://api.example:6443 Bearer secret"
    assert "kubernetes_asyncio.client.configuration" in modules.split()
    assert not [name for name in modules.split() if "models" in name or "api" in name]
