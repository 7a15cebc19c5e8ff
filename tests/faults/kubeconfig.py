"""What a kubeconfig says of the API server, and the same kubeconfig pointed at a proxy."""

from __future__ import annotations

import base64
import ssl
import tempfile
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct


class ApiServer(Struct, frozen=True, kw_only=True):
    """How the current context of a kubeconfig reaches its API server."""

    url: str
    tls: ssl.SSLContext | None
    token: str = ""


def api_server(path: Path) -> ApiServer:
    """Return the API server of the current context, with its certificates loaded."""
    cluster, user = _current(yaml.safe_load(path.read_text()))
    url = cluster["server"].rstrip("/")
    return ApiServer(url=url, tls=_tls(cluster, user), token=_token(user))


def point_at(from_path: Path, to_path: Path, url: str) -> None:
    """Write *from_path* to *to_path* with *url* as the server; who the user is stays."""
    config = yaml.safe_load(from_path.read_text())
    cluster, _ = _current(config)
    for key in ("certificate-authority", "certificate-authority-data", "tls-server-name"):
        cluster.pop(key, None)
    cluster.pop("insecure-skip-tls-verify", None)
    cluster["server"] = url
    to_path.write_text(yaml.safe_dump(config))
    to_path.chmod(0o600)


def _current(config: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the cluster and the user of the current context, as parts of *config*."""
    context = _named(config, "context", config["current-context"])
    return _named(config, "cluster", context["cluster"]), _named(config, "user", context["user"])


def _named(config: dict[str, Any], what: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(e[what] for e in config[f"{what}s"] if e["name"] == name)
    return found


def _token(user: dict[str, Any]) -> str:
    if "tokenFile" in user:
        return Path(user["tokenFile"]).read_text().strip()
    return str(user.get("token", ""))


def _tls(cluster: dict[str, Any], user: dict[str, Any]) -> ssl.SSLContext | None:
    if not cluster["server"].startswith("https:"):
        return None
    data = cluster.get("certificate-authority-data")
    context = ssl.create_default_context(
        cafile=cluster.get("certificate-authority"),
        cadata=base64.b64decode(data).decode() if data else None,
    )
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    with tempfile.TemporaryDirectory() as scratch:
        cert = _file(user, "client-certificate", Path(scratch))
        key = _file(user, "client-key", Path(scratch))
        if cert and key:
            context.load_cert_chain(cert, key)
    return context


def _file(user: dict[str, Any], key: str, scratch: Path) -> Path | None:
    """Return a file with what *key* or its inline form says: OpenSSL loads files only."""
    if inline := user.get(f"{key}-data"):
        written = scratch / key
        written.write_bytes(base64.b64decode(inline))
        return written
    return Path(user[key]) if key in user else None
