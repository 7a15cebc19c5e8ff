"""Who may talk to the control plane, as what, and how that is written down."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Sequence
from pathlib import Path

import yaml
from msgspec import Struct

MASTERS = "system:masters"

ADMIN = "admin"
BRIDGE = "weir-bridge"
HANDLERS = "weir-handlers"
CONTROLLERS = "system:kube-controller-manager"
SCHEDULER = "system:kube-scheduler"
FLEET = "kwok"

_COMPONENTS = (CONTROLLERS, SCHEDULER, FLEET)

_P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_P256_OID = bytes.fromhex("06082a8648ce3d030107")


class User(Struct, frozen=True, kw_only=True):
    """A user with a static token."""

    name: str
    token: str
    groups: tuple[str, ...] = ()


def make_users() -> dict[str, User]:
    """Return the users by name: Weir's two with no group, the others as masters."""
    masters = {ADMIN, *_COMPONENTS}
    return {
        name: User(
            name=name,
            token=secrets.token_hex(16),
            groups=(MASTERS,) if name in masters else (),
        )
        for name in (ADMIN, BRIDGE, HANDLERS, *_COMPONENTS)
    }


def token_file(users: Sequence[User]) -> str:
    """
    Return the text of `--token-auth-file`.

    Source: Kubernetes docs, "Authenticating", static token file.
    """
    return "".join(f'{u.token},{u.name},{u.name},"{",".join(u.groups)}"\n' for u in users)


def write_kubeconfig(path: Path, *, server: str, token: str, authority: bytes = b"") -> Path:
    """Write a kubeconfig for one server and one token; `authority` is PEM, empty for plain HTTP."""
    cluster = {"server": server}
    if authority:
        cluster["certificate-authority-data"] = base64.b64encode(authority).decode()
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "weir", "cluster": cluster}],
        "users": [{"name": "weir", "user": {"token": token}}],
        "contexts": [{"name": "weir", "context": {"cluster": "weir", "user": "weir"}}],
        "current-context": "weir",
    }
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return path


def signing_key() -> str:
    """
    Return a new EC private key in PEM, with which the API server signs service account tokens.

    Written by hand because it is 51 bytes: RFC 5915, the optional public key left out.
    """
    number = (1 + secrets.randbelow(_P256_ORDER - 1)).to_bytes(32, "big")
    curve = bytes([0xA0, len(_P256_OID)]) + _P256_OID
    body = bytes([0x02, 1, 1, 0x04, len(number)]) + number + curve
    text = base64.encodebytes(bytes([0x30, len(body)]) + body).decode()
    return f"-----BEGIN EC PRIVATE KEY-----\n{text}-----END EC PRIVATE KEY-----\n"


def audit_policy() -> str:
    """
    Return the audit policy: every finished request, with its body where it changes something.

    Left out is only what the components read and their leases and events, which say nothing
    about Weir and are most of the traffic.
    """
    changing = ["create", "update", "patch", "delete", "deletecollection"]
    policy = {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [
            {
                "level": "None",
                "users": [*_COMPONENTS],
                "verbs": ["get", "list", "watch"],
            },
            {
                "level": "None",
                "users": [*_COMPONENTS],
                "resources": [
                    {"group": "coordination.k8s.io", "resources": ["leases"]},
                    {"group": "", "resources": ["events"]},
                    {"group": "events.k8s.io", "resources": ["events"]},
                ],
            },
            {"level": "None", "users": ["system:apiserver"]},
            # What users write may be nested deeper than any reader of the log can decode.
            {"level": "Metadata", "users": [ADMIN], "resources": [{"group": "infera.amd.com"}]},
            {"level": "Request", "users": [ADMIN, BRIDGE, HANDLERS], "verbs": changing},
            {"level": "Metadata"},
        ],
    }
    return yaml.safe_dump(policy, sort_keys=False)
