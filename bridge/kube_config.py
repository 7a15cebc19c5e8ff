"""Where the API server is and who we are to it, by the usual rules, as kubernetes-asyncio reads."""

from __future__ import annotations

import os
import ssl

import yaml

from bridge.kube_library import Configuration, config
from bridge.settings import SettingsError

_UNREADABLE = (config.ConfigException, yaml.YAMLError, OSError, TypeError, AttributeError)
"""What the library raises; the last two for a file that holds no mapping where one is due."""


async def load_configuration() -> Configuration:
    """
    Return what KUBECONFIG, ~/.kube/config or the pod's service account say.

    Raises SettingsError when none of them says anything.
    """
    configuration = Configuration()
    try:
        if os.environ.get("KUBERNETES_SERVICE_HOST") and not os.environ.get("KUBECONFIG"):
            config.load_incluster_config(  # type: ignore[no-untyped-call]
                client_configuration=configuration
            )
        else:
            # Read here: the library reads the variable once, when it is imported.
            await config.load_kube_config(
                config_file=os.environ.get("KUBECONFIG"), client_configuration=configuration
            )
    except _UNREADABLE as exc:
        raise SettingsError(
            f"no Kubernetes configuration: {exc}; set KUBECONFIG, or run in a pod"
        ) from exc
    return configuration


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
