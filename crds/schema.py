"""
A type becomes the structural OpenAPI v3 schema and the CRD that the API server enforces.

A field's documentation is the string under it, so that `kubectl explain` says what the source
says. What has no structural form is refused when the CRD is generated, not when it is applied.

Source: Kubernetes documentation, "Specifying a structural schema".
"""

from __future__ import annotations

import ast
import copy
import inspect
import itertools
import textwrap
from typing import Any

import msgspec.inspect as msi
from msgspec import NODEFAULT, Struct

from crds.contract import Contract
from crds.fields import RULES, VERBATIM, Column
from crds.kubernetes import Manifest, ObjectMeta

_NAME_LENGTH_MAX = 253
"""Of any Kubernetes object; rules over `metadata.name` are costed by it."""


class NotStructuralError(TypeError):
    """A type has no structural schema; the text says where and what to do."""


def crd(contract: Contract) -> Manifest:
    """Return the CustomResourceDefinition that serves a kind."""
    kind = contract.kind
    columns: tuple[Column, ...] = getattr(contract.resource, "columns", ())
    version: Manifest = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [_column(column) for column in columns],
        "schema": {"openAPIV3Schema": structural(contract.resource)},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.crd_name},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "names": {
                "kind": kind.kind,
                "listKind": f"{kind.kind}List",
                "plural": kind.plural,
                "singular": kind.kind.lower(),
                "shortNames": list(kind.short_names),
            },
            "versions": [version],
        },
    }


def structural(resource: type[Struct]) -> Manifest:
    """Return the schema of a whole resource: `apiVersion`, `kind`, `metadata`, spec and status."""
    schema = _struct(resource, resource.__name__)
    schema["properties"] = {
        "apiVersion": {"type": "string", "description": "Version of this resource's schema."},
        "kind": {"type": "string", "description": "Name of this kind."},
        "metadata": {
            "type": "object",
            "properties": {"name": {"type": "string", "maxLength": _NAME_LENGTH_MAX}},
        },
        **{name: field for name, field in schema["properties"].items() if name != "metadata"},
    }
    schema["required"] = [name for name in schema.get("required", ()) if name != "metadata"]
    if "status" in schema["properties"]:
        _strip_defaults(schema["properties"]["status"])
    return schema


def _column(column: Column) -> Manifest:
    built: Manifest = {"name": column.name, "type": column.type, "jsonPath": column.json_path}
    if column.description:
        built["description"] = column.description
    if column.priority:
        built["priority"] = column.priority
    return built


def _struct(cls: type[Struct], path: str) -> Manifest:
    info = msi.type_info(cls)
    if not isinstance(info, msi.StructType):
        raise NotStructuralError(f"{path}: {cls} is no Struct")
    documented = field_docs(cls)
    schema: Manifest = {"type": "object"}
    if cls.__doc__:
        schema["description"] = _one_line(cls.__doc__)
    required = [field.encode_name for field in info.fields if field.required]
    if required:
        schema["required"] = required
    schema["properties"] = {
        field.encode_name: _field(field, documented.get(field.name), f"{path}.{field.encode_name}")
        for field in info.fields
        if field.type != msi.type_info(ObjectMeta)
    }
    if rules := getattr(cls, "rules", ()):
        schema[RULES] = [dict(rule) for rule in rules]
    return schema


def _field(field: msi.Field, documentation: str | None, path: str) -> Manifest:
    schema = _schema(field.type, path)
    if documentation:
        schema = {"description": documentation, **_without(schema, "description")}
    if field.default is not NODEFAULT and field.default is not None:
        schema["default"] = copy.deepcopy(field.default)
    return schema


def _schema(described: msi.Type, path: str) -> Manifest:
    match described:
        case msi.Metadata(type=inner, extra_json_schema=extra):
            extra = dict(extra or {})
            finished = extra.pop(VERBATIM, None)
            schema = copy.deepcopy(finished) if finished else _schema(inner, path)
            return {**schema, **copy.deepcopy(extra)}
        case msi.UnionType(types=types):
            others = [alternative for alternative in types if alternative != msi.NoneType()]
            if len(others) != 1:
                raise NotStructuralError(f"{path}: a union has no structural form; use verbatim()")
            return _schema(others[0], path)
        case msi.StructType(cls=cls):
            return _struct(cls, path)
        case msi.ListType(item_type=item):
            return {"type": "array", "items": _schema(item, f"{path}[]")}
        case msi.DictType(value_type=value):
            return {"type": "object", "additionalProperties": _schema(value, f"{path}{{}}")}
        case _:
            return _scalar(described, path)


def _scalar(described: msi.Type, path: str) -> Manifest:
    match described:
        case msi.BoolType():
            return {"type": "boolean"}
        case msi.IntType(ge=least, le=most):
            schema: Manifest = {"type": "integer", "format": "int64"}
            if least is not None:
                schema["minimum"] = least
            if most is not None:
                schema["maximum"] = most
            return schema
        case msi.StrType(min_length=shortest, max_length=longest, pattern=pattern):
            bounds = {"minLength": shortest, "maxLength": longest, "pattern": pattern}
            return {"type": "string", **{k: v for k, v in bounds.items() if v is not None}}
        case msi.LiteralType(values=values) if all(isinstance(value, str) for value in values):
            return {"type": "string", "enum": list(values)}
        case _:
            raise NotStructuralError(f"{path}: {described} has no structural form; use verbatim()")


def field_docs(cls: type[Struct]) -> dict[str, str]:
    """Return the strings that stand under the fields of a class, and of those it inherits."""
    docs: dict[str, str] = {}
    for owner in reversed(cls.__mro__):
        if owner in (object, Struct) or not issubclass(owner, Struct):
            continue
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
        body: list[Any] = getattr(definition, "body", [])
        for statement, following in itertools.pairwise(body):
            match statement, following:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(text))),
                ):
                    docs[name] = _one_line(text)
    return docs


def _one_line(text: str) -> str:
    return " ".join(text.split()).replace("`", "")


def _without(schema: Manifest, key: str) -> Manifest:
    return {name: value for name, value in schema.items() if name != key}


def _strip_defaults(schema: Manifest) -> None:
    """Remove every default below: status holds what was seen, never what was assumed."""
    schema.pop("default", None)
    nested = [*schema.get("properties", {}).values(), schema.get("items")]
    nested.append(schema.get("additionalProperties"))
    for child in nested:
        if isinstance(child, dict):
            _strip_defaults(child)
