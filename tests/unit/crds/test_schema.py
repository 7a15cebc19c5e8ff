"""A type becomes a structural schema."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from msgspec import Meta, Struct

from crds import KINDS
from crds.contract import Contract
from crds.fields import EnvVar, Quantity, limits, list_map, list_set, rule, rules
from crds.kubernetes import Manifest, ObjectMeta
from crds.schema import NotStructuralError, crd, structural


class Inner(Struct, kw_only=True, rename="camel"):
    """Says what it is."""

    rules = (rule("has(self.someName)", "needs a name"),)

    some_name: str
    """Name of `it`,
    in two lines."""
    count: Annotated[int, Meta(ge=1, le=9)] = 3
    mode: Literal["a", "b"] | None = None


class Spec(Struct, kw_only=True, rename="camel"):
    """One field of every sort."""

    inner: Inner | None = None
    by_name: Annotated[dict[str, Inner], limits(maxProperties=4)] | None = None
    words: Annotated[list[str], list_set()] | None = None
    env: Annotated[list[EnvVar], list_map("name")] | None = None
    """Variables."""
    size: Quantity | None = None
    """How large."""
    url: Annotated[str, limits(maxLength=9), rules(rule("self != ''", "empty"))] | None = None


class Status(Struct, kw_only=True, rename="camel"):
    """A default where none belongs."""

    ready: bool = False


class Thing(Struct, kw_only=True, rename="camel"):
    """A whole resource."""

    metadata: ObjectMeta
    spec: Spec
    status: Status | None = None


SCHEMA = structural(Thing)
SPEC: Manifest = SCHEMA["properties"]["spec"]["properties"]


def test_names_are_those_of_the_wire_and_documentation_is_the_string_below_the_field() -> None:
    inner = SPEC["inner"]
    assert inner["properties"]["someName"] == {
        "type": "string",
        "description": "Name of it, in two lines.",
    }
    assert inner["required"] == ["someName"]
    assert inner["description"] == "Says what it is."
    assert inner["x-kubernetes-validations"] == [
        {"rule": "has(self.someName)", "message": "needs a name"}
    ]


def test_bounds_enums_and_defaults_are_those_of_the_type() -> None:
    inner = SPEC["inner"]["properties"]
    assert inner["count"] == {
        "type": "integer",
        "format": "int64",
        "minimum": 1,
        "maximum": 9,
        "default": 3,
    }
    assert inner["mode"] == {"type": "string", "enum": ["a", "b"]}


def test_maps_lists_and_finished_schemas_keep_their_own_documentation() -> None:
    assert SPEC["byName"]["additionalProperties"]["required"] == ["someName"]
    assert SPEC["byName"]["maxProperties"] == 4
    assert SPEC["words"]["x-kubernetes-list-type"] == "set"
    assert SPEC["env"]["x-kubernetes-list-map-keys"] == ["name"]
    assert SPEC["env"]["description"] == "Variables."
    assert SPEC["env"]["items"]["properties"]["valueFrom"]
    assert SPEC["size"]["x-kubernetes-int-or-string"] is True
    assert SPEC["size"]["description"] == "How large."
    assert SPEC["url"]["maxLength"] == 9


def test_the_root_is_a_kubernetes_object_and_its_status_has_no_defaults() -> None:
    assert list(SCHEMA["properties"]) == ["apiVersion", "kind", "metadata", "spec", "status"]
    assert SCHEMA["required"] == ["spec"]
    assert "default" not in SCHEMA["properties"]["status"]["properties"]["ready"]


class Either(Struct):
    """A union."""

    value: int | list[str]


class Pair(Struct):
    """A tuple."""

    value: tuple[int, int]


class Untyped(Struct):
    """No type at all."""

    value: Any


@pytest.mark.parametrize("refused", [Either, Pair, Untyped])
def test_what_has_no_structural_form_is_refused_by_its_path(refused: type[Struct]) -> None:
    with pytest.raises(NotStructuralError, match=rf"{refused.__name__}\.value"):
        structural(refused)


def schemas(schema: Manifest) -> list[Manifest]:
    """Return a schema and every one below it."""
    found = [schema]
    below = [*schema.get("properties", {}).values(), schema.get("items")]
    for child in [*below, schema.get("additionalProperties")]:
        if isinstance(child, dict):
            found += schemas(child)
    return found


@pytest.mark.parametrize("contract", KINDS, ids=lambda contract: contract.kind.kind)
def test_every_field_of_a_kind_is_documented_and_every_rule_says_what_to_do(
    contract: Contract,
) -> None:
    root = structural(contract.resource)
    metadata = root["properties"]["metadata"]
    for schema in schemas(root):
        for name, field in schema.get("properties", {}).items():
            is_the_servers_own = field in (metadata, metadata["properties"]["name"])
            assert field.get("description") or is_the_servers_own, f"{name} is undocumented"
        for given in schema.get("x-kubernetes-validations", ()):
            assert len(given["message"]) > 20
            assert "\n" not in given["message"]


@pytest.mark.parametrize("contract", KINDS, ids=lambda contract: contract.kind.kind)
def test_a_kind_is_served_and_stored_with_a_status_of_its_own(contract: Contract) -> None:
    manifest = crd(contract)
    assert manifest["metadata"]["name"] == contract.kind.crd_name
    assert manifest["spec"]["names"]["shortNames"] == list(contract.kind.short_names)
    (version,) = manifest["spec"]["versions"]
    assert (version["served"], version["storage"]) == (True, True)
    assert version["subresources"] == {"status": {}}
