"""The Inference Gateway of an InferaDeployment, as users ask for one: AMD's fields."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct

from crds.fields import Port, Text, limits, list_set, rule
from crds.kubernetes import Manifest


class Gaie(Struct, frozen=True, kw_only=True, rename="camel"):
    """An Inference Gateway in front of the workers (Gateway API Inference Extension)."""

    rules: ClassVar[tuple[Manifest, ...]] = (
        rule(
            "!has(self.enabled) || !self.enabled"
            " || (has(self.tokenizerPath) && self.tokenizerPath != '')",
            "gaie.enabled needs gaie.tokenizerPath: set it to the tokenizer of the workers' model",
        ),
        rule(
            "!has(self.enabled) || !self.enabled"
            " || (has(self.gatewayName) && self.gatewayName != '')",
            "gaie.enabled needs gaie.gatewayName: set it to the Gateway that takes the route",
        ),
    )

    enabled: bool = False
    """true adds a frontend to every worker pod, an endpoint picker, a pool and a route."""
    epp_image: Text | None = None
    """Image of endpoint picker and frontend; spec.image when left out."""
    tokenizer_path: Text | None = None
    """Tokenizer of the workers' model, as those pods can load it."""
    gateway_name: Annotated[str, limits(maxLength=253)] | None = None
    """Gateway that the route attaches to."""
    gateway_namespace: Annotated[str, limits(maxLength=63)] | None = None
    """Namespace of that Gateway; the own one when left out."""
    hostnames: (
        Annotated[list[Annotated[str, limits(maxLength=253)]], list_set(), limits(maxItems=16)]
        | None
    ) = None
    """Host names of the route; any when left out."""
    frontend_port: Port = 8000
    """Port of the frontend in every worker pod."""
    model_name: Text | None = None
    """Accepted and used nowhere, as in AMD's operator."""
