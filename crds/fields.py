"""The words in which a type says what the API server shall accept: bounds, rules, columns."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from msgspec import Meta, Struct

from crds.kubernetes import Manifest

VERBATIM = "$verbatim"
"""Key under which a field carries its finished schema past the generator."""
RULES = "x-kubernetes-validations"


class Column(Struct, frozen=True, kw_only=True):
    """A column of `kubectl get`."""

    name: str
    json_path: str
    type: str = "string"
    priority: int = 0
    """0 is always shown, 1 with `-o wide`."""
    description: str = ""


REASON = Column(
    name="REASON",
    json_path='.status.conditions[?(@.type=="Ready")].reason',
    description="Why it is ready, or is not; the message says more.",
)
"""The last column of every kind, behind those that scripts count."""


def rule(
    expression: str, message: str, *, says: str | None = None, sees_old: bool = False
) -> Manifest:
    """
    Return a CEL rule; `self` is the field or object that carries it.

    `says` is a CEL expression for a message that names the culprit, `message` what stands in for
    it. With `sees_old` the rule also runs on creation, and `oldSelf` is an optional: that is how
    an object that is already stored may keep what a new one may not have.

    Source: Kubernetes documentation, "CRD validation rules".
    """
    built: Manifest = {"rule": expression, "message": message}
    if says is not None:
        built["messageExpression"] = says
    if sees_old:
        built["optionalOldSelf"] = True
    return built


def rules(*given: Manifest) -> Meta:
    """Attach CEL rules to a field."""
    return Meta(extra_json_schema={RULES: list(given)})


def limits(**bounds: int) -> Meta:
    """
    Bound a field in the API server only: `limits(maxLength=63)`.

    CEL's cost is estimated from these bounds, so every field that a rule reads needs one. Reading
    does not enforce them: what is stored already is served.
    """
    return Meta(extra_json_schema=dict(bounds))


def list_map(*keys: str) -> Meta:
    """Say that a list is a map by these keys, of which the server refuses duplicates."""
    return Meta(
        extra_json_schema={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": list(keys),
        }
    )


def list_set() -> Meta:
    """Say that a list is a set, of which the server refuses duplicates."""
    return Meta(extra_json_schema={"x-kubernetes-list-type": "set"})


def verbatim(schema: Manifest) -> Meta:
    """Replace what the generator would make of a field's type; the description stays."""
    return Meta(extra_json_schema={VERBATIM: schema})


Int32 = Annotated[int, Meta(extra_json_schema={"format": "int32"})]
Port: TypeAlias = Annotated[Int32, Meta(ge=1, le=65535)]
Text: TypeAlias = Annotated[str, limits(maxLength=1024)]

_NOT_A_QUANTITY = "must be a Kubernetes quantity that is not negative, such as 500m, 4 or 64Gi"
Quantity: TypeAlias = Annotated[
    int | str,
    verbatim(
        {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-int-or-string": True,
            "maxLength": 32,
            RULES: [
                rule(
                    "type(self) == string"
                    " ? isQuantity(self) && quantity(self).compareTo(quantity('0')) >= 0"
                    " : int(self) >= 0",
                    _NOT_A_QUANTITY,
                )
            ],
        }
    ),
]
"""A number or a string such as `64Gi`."""

EnvVar: TypeAlias = Annotated[
    dict[str, Any],
    verbatim(
        {
            "type": "object",
            "description": "A Kubernetes EnvVar.",
            "required": ["name"],
            "properties": {
                "name": {"type": "string", "minLength": 1, "description": "Name of the variable."},
                "value": {"type": "string", "description": "Its value; $(OTHER) is expanded."},
                "valueFrom": {
                    "type": "object",
                    "description": "Where the value comes from, instead of value.",
                    "x-kubernetes-preserve-unknown-fields": True,
                },
            },
            "x-kubernetes-preserve-unknown-fields": True,
            RULES: [
                rule(
                    "!has(self.valueFrom) || !has(self.value) || self.value == ''",
                    "value and valueFrom exclude each other: keep one of them",
                )
            ],
        }
    ),
]
"""A Kubernetes EnvVar, kept as it is."""

PodSpec: TypeAlias = Annotated[
    dict[str, Any],
    verbatim(
        {
            "type": "object",
            "required": ["containers"],
            "properties": {
                "containers": {
                    "type": "array",
                    "description": "The containers, whole; at least one.",
                    "minItems": 1,
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {
                            "name": {"type": "string", "description": "Name of the container."}
                        },
                        "x-kubernetes-preserve-unknown-fields": True,
                    },
                }
            },
            "x-kubernetes-preserve-unknown-fields": True,
        }
    ),
]
"""A Kubernetes PodSpec, kept as it is, fields included that no released version knows."""

LABEL_KEY = "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"
LABEL_VALUE = "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"
PodLabels: TypeAlias = Annotated[
    dict[
        str,
        Annotated[str, Meta(extra_json_schema={"pattern": LABEL_VALUE, "maxLength": 63})],
    ],
    limits(maxProperties=64),
    rules(
        rule(
            f"self.all(key, key.matches('{LABEL_KEY}'))",
            "podLabels has a key that is no label key: use [domain/]name",
        )
    ),
]
"""Labels of a pod."""
