"""
The schema of a pod template as a CRD holds it, made from what an API server says of its own pods.

The real CRD of LeaderWorkerSet inlines the types of k8s.io/api: fields that it does not know are
dropped, lists merge by their keys, a port's protocol has a default. What the API server publishes
comes from the same types.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crds.kubernetes import Manifest

OPENAPI = "/openapi/v3/api/v1"
"""Where an API server publishes the schemas of the core group."""
_POD_SPEC = "io.k8s.api.core.v1.PodSpec"
_KEPT = (
    "type",
    "format",
    "required",
    "enum",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
)
_STRINGS = {"type": "object", "additionalProperties": {"type": "string"}}
_METADATA: Manifest = {
    "type": "object",
    "properties": {
        "annotations": _STRINGS,
        "finalizers": {"type": "array", "items": {"type": "string"}},
        "labels": _STRINGS,
        "name": {"type": "string"},
        "namespace": {"type": "string"},
    },
}
"""What the generator of CRDs leaves of the metadata of an embedded object."""


def pod_template_schema(openapi: Mapping[str, Any]) -> Manifest:
    """Return the structural schema of a pod template from the document at OPENAPI."""
    schemas = openapi["components"]["schemas"]
    spec = _structural(schemas[_POD_SPEC], schemas)
    return {"type": "object", "properties": {"metadata": _METADATA, "spec": spec}}


def _structural(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> Manifest:
    """Return a schema with references put in place, and without descriptions."""
    for reference in (schema, *schema.get("allOf", ())):
        if "$ref" in reference:
            return _structural(schemas[reference["$ref"].rpartition("/")[2]], schemas)
    if "oneOf" in schema:  # a quantity, or a number that may be a word
        return {"x-kubernetes-int-or-string": True}
    found: Manifest = {key: schema[key] for key in _KEPT if key in schema}
    if "properties" in schema:
        required = schema.get("required", ())
        found["properties"] = {
            name: _with_default(_structural(child, schemas), child, is_required=name in required)
            for name, child in schema["properties"].items()
        }
    for key in ("items", "additionalProperties"):
        if key in schema:
            found[key] = _structural(schema[key], schemas)
    return found


def _with_default(found: Manifest, schema: Mapping[str, Any], *, is_required: bool) -> Manifest:
    """
    Return the schema of a field with the default that the type gives it.

    The document also has the zero value of every required field and `{}` of every struct; those
    are no defaults of the type, and no CRD has them.
    """
    default = schema.get("default")
    if is_required or default is None or isinstance(default, dict):
        return found
    return {**found, "default": default}
