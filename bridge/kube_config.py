"""Where the API server is and who we are to it, by the usual rules, as kubernetes-asyncio reads."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

import yaml

from bridge.kube_library import Configuration, config
from bridge.settings import SettingsError

_DEFAULT = "~/.kube/config"
_UNREADABLE = (config.ConfigException, yaml.YAMLError, OSError, TypeError, AttributeError)
"""What the library raises; the last two for a file that holds no mapping where one is due."""


async def load_configuration() -> Configuration:
    """
    Return what KUBECONFIG, ~/.kube/config or the pod's service account say.

    Raises SettingsError, naming the file, when none of them says anything.
    """
    configuration = Configuration()
    given = os.environ.get("KUBECONFIG")
    if os.environ.get("KUBERNETES_SERVICE_HOST") and not given:
        source = "the service account of this pod"
        try:
            config.load_incluster_config(  # type: ignore[no-untyped-call]
                client_configuration=configuration
            )
        except _UNREADABLE as exc:
            raise _none(source, exc, "give the pod one, or set KUBECONFIG") from exc
        return configuration
    source = f"KUBECONFIG={given}" if given else _DEFAULT
    # Of several the library passes by those that do not exist, and of none it says something else.
    if not _is_one_there(given or _DEFAULT):
        remedy = "name a file that exists" if given else "set KUBECONFIG, or run in a pod"
        raise _none(source, "no such file", remedy)
    try:
        # Read here: the library reads the variable once, when it is imported.
        await config.load_kube_config(config_file=given, client_configuration=configuration)
    except _UNREADABLE as exc:
        raise _none(source, exc, "mend it, or set KUBECONFIG to another") from exc
    return configuration


def _is_one_there(paths: str) -> bool:
    parts = filter(None, paths.split(os.pathsep))
    return any(Path(part).expanduser().exists() for part in parts)


def _none(source: str, reason: object, remedy: str) -> SettingsError:
    what = reason.strerror if isinstance(reason, OSError) and reason.strerror else str(reason)
    text = " ".join(what.split())
    return SettingsError(f"no Kubernetes configuration: {source}: {text}; {remedy}")


def ssl_context(configuration: Configuration) -> ssl.SSLContext:
    """Return what the configuration says of certificates."""
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if configuration.disable_strict_ssl_verification:
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context
