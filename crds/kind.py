"""What a Kubernetes kind is called, and the API paths that follow from it."""

from __future__ import annotations

from urllib.parse import quote

from msgspec import Struct

LABEL = "[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
"""What Kubernetes calls an RFC 1123 label: a namespace's name."""
SUBDOMAIN = "[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?"
"""An RFC 1123 subdomain, but for dots in a row: the names of most objects."""


class Kind(Struct, frozen=True, kw_only=True):
    """
    A kind as the API server serves it.

    Source of the paths: Kubernetes API conventions, "Resource URIs".
    """

    group: str
    """API group; the empty string is the core group."""
    version: str
    kind: str
    plural: str
    short_names: tuple[str, ...] = ()
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """`group/version`, or the bare version in the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def queue_name(self) -> str:
        """The kind's token in NATS subjects: its name in lower case."""
        return self.kind.lower()

    @property
    def crd_name(self) -> str:
        """Name of the CustomResourceDefinition that would serve this kind."""
        return f"{self.plural}.{self.group}"

    def path(
        self,
        namespace: str | None = None,
        name: str | None = None,
        subresource: str | None = None,
    ) -> str:
        """
        Return the path of a collection (without a namespace: of all), object or subresource.

        A name may come from a message or a status: what it holds begins no query. That it is one
        segment (`is_segment`) is for the caller to see to, since servers decode a slash.
        """
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        if namespace and self.namespaced:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        if name:
            parts.append(quote(name, safe=""))
            if subresource:
                parts.append(subresource)
        return "/".join(parts)


def is_segment(name: str) -> bool:
    """Return whether a name can name an object (source: apimachinery, path segment names)."""
    return name not in ("", ".", "..") and not set("/%") & set(name)
