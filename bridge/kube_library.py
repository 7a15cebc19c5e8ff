"""
The part of kubernetes-asyncio that is used: configuration and credentials.

The package's own `__init__` imports every API class and model of Kubernetes, which cost each of
our processes 0.4 s of CPU before its first step and 37 MB for good (measured with 36.1). So its
two outer packages stand here as shells that know where their modules are; none of those that
`config` needs looks for anything else in them.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

_PACKAGE = "kubernetes_asyncio"


def _shell(name: str, path: Path) -> ModuleType:
    shell = ModuleType(name)
    shell.__path__ = [str(path)]
    sys.modules[name] = shell
    return shell


if _PACKAGE not in sys.modules:
    _spec = importlib.util.find_spec(_PACKAGE)
    if _spec is not None and _spec.origin is not None:
        _home = Path(_spec.origin).parent
        _shell(_PACKAGE, _home)
        _client = _shell(f"{_PACKAGE}.client", _home / "client")
        _client.Configuration = importlib.import_module(  # type: ignore[attr-defined]
            f"{_PACKAGE}.client.configuration"
        ).Configuration
        _client.ApiClient = None  # type: ignore[attr-defined]  # of a function that nobody calls

from kubernetes_asyncio import config  # noqa: E402 - the shells first
from kubernetes_asyncio.client import Configuration  # noqa: E402
from kubernetes_asyncio.config import ConfigException  # noqa: E402

__all__ = ["ConfigException", "Configuration", "config"]
