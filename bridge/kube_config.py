"""Where the API server is and who we are to it, by the usual rules, as kubernetes-asyncio reads."""

from __future__ import annotations

import os
import shutil
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml
from msgspec import Struct

from bridge.kube_library import Configuration, config
from bridge.settings import SettingsError

_DEFAULT = "~/.kube/config"
_UNREADABLE = (config.ConfigException, yaml.YAMLError, OSError, TypeError, AttributeError)
"""What the library raises; the last two for a file that holds no mapping where one is due."""


class Access(Struct, frozen=True):
    """What the configuration says of the API server, and its certificates, read."""

    configuration: Configuration
    context: ssl.SSLContext


async def load_access() -> Access:
    """
    Return what KUBECONFIG, ~/.kube/config or the pod's service account say.

    No file is left of the certificates and keys that a kubeconfig holds. Raises SettingsError,
    naming the file, when none of them says anything.
    """
    configuration = Configuration()
    given = os.environ.get("KUBECONFIG")
    if os.environ.get("KUBERNETES_SERVICE_HOST") and not given:
        source = "the service account of this pod"
        try:
            config.load_incluster_config(  # type: ignore[no-untyped-call]
                client_configuration=configuration
            )
            return Access(configuration, _ssl_context(configuration))
        except _UNREADABLE as exc:
            raise _none(source, exc, "give the pod one, or set KUBECONFIG") from exc
    source = f"KUBECONFIG={given}" if given else _DEFAULT
    # Of several the library passes by those that do not exist, and of none it says something else.
    if not _is_one_there(given or _DEFAULT):
        remedy = "name a file that exists" if given else "set KUBECONFIG, or run in a pod"
        raise _none(source, "no such file", remedy)
    try:
        with _files.lent() as folder:
            # Read here: the library reads the variable once, when it is imported.
            await config.load_kube_config(
                config_file=given, client_configuration=configuration, temp_file_path=str(folder)
            )
            return Access(configuration, _ssl_context(configuration))
    except _UNREADABLE as exc:
        raise _none(source, exc, "mend it, or set KUBECONFIG to another") from exc


def _is_one_there(paths: str) -> bool:
    parts = filter(None, paths.split(os.pathsep))
    return any(Path(part).expanduser().exists() for part in parts)


def _none(source: str, reason: object, remedy: str) -> SettingsError:
    what = reason.strerror if isinstance(reason, OSError) and reason.strerror else str(reason)
    text = " ".join(what.split())
    return SettingsError(f"no Kubernetes configuration: {source}: {text}; {remedy}")


class _PrivateFiles:
    """
    The files that the library makes of a kubeconfig's certificates and keys, while it needs them.

    It removes them when the process ends, which a killed process does not live to see. It also
    remembers which file has which content, and never closes one that it made: so a later load
    finds them where they were, and opens none anew.
    """

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._contents: dict[Path, bytes] = {}
        self._loads = 0

    @contextmanager
    def lent(self) -> Iterator[Path]:
        """Give a folder that nobody else may read; it is gone when the last load is over."""
        folder = self._folder or Path(tempfile.mkdtemp(prefix="weir-"))
        self._loads += 1
        try:
            if self._folder is not None and self._loads == 1:
                folder.mkdir(mode=0o700)  # fails where somebody else has taken the name
            self._folder = folder
            for path, content in self._contents.items():
                path.touch(mode=0o600)
                path.write_bytes(content)
            yield folder
        finally:
            self._loads -= 1
            if not self._loads and folder.is_dir():
                self._contents |= {path: path.read_bytes() for path in folder.iterdir()}
                shutil.rmtree(folder)


_files = _PrivateFiles()


def _ssl_context(configuration: Configuration) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if configuration.disable_strict_ssl_verification:
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context
