"""Which paths a rendering holds: what changes between two of them drops a path, or does not."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest

from handlers.paths import DIGEST_BYTES, holds_all, paths_text

Edit = Callable[[dict[str, Any]], object]

RENDERED: dict[str, Any] = {
    "metadata": {"name": "d", "labels": {"a": "b"}},
    "spec": {
        "replicas": 1,
        "template": {
            "spec": {
                "containers": [
                    {
                        "name": "engine",
                        "image": "engine:1",
                        "args": ["--a", "--b"],
                        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                        "ports": [{"name": "http", "containerPort": 80}],
                    }
                ],
                "volumes": [{"name": "cache", "emptyDir": {}}],
                "tolerations": [{"key": "gpu", "operator": "Exists"}],
            }
        },
    },
}


def engine(manifest: dict[str, Any]) -> dict[str, Any]:
    container: dict[str, Any] = manifest["spec"]["template"]["spec"]["containers"][0]
    return container


def edited(edit: Edit) -> dict[str, Any]:
    manifest = copy.deepcopy(RENDERED)
    edit(manifest)
    return manifest


KEEPS: dict[str, Edit] = {
    "nothing": lambda _: None,
    "another image": lambda m: engine(m).update(image="registry.example:5000/engine:2"),
    "an image by digest": lambda m: engine(m).update(image="registry.example:5000/engine@sha256:0"),
    "another number": lambda m: m["spec"].update(replicas=7),
    "fewer arguments": lambda m: engine(m).update(args=[]),
    "another value of a variable": lambda m: engine(m)["env"][0].update(value="9"),
    "one variable more": lambda m: engine(m)["env"].append({"name": "C", "value": "3"}),
    "variables in another order": lambda m: engine(m)["env"].reverse(),
    "a field more": lambda m: m["spec"].update(paused=True),
    "a label more": lambda m: m["metadata"]["labels"].update(c="d"),
    "a sidecar": lambda m: m["spec"]["template"]["spec"]["containers"].append({"name": "x"}),
}
DROPS: dict[str, Edit] = {
    "the default pull policy of a tag": lambda m: engine(m).update(image="engine:latest"),
    "the same, without a tag": lambda m: engine(m).update(image="registry.example:5000/engine"),
    "a field": lambda m: m["spec"].pop("replicas"),
    "a field that is null": lambda m: m["spec"].update(replicas=None),
    "a label": lambda m: m["metadata"]["labels"].pop("a"),
    "a variable": lambda m: engine(m)["env"].pop(0),
    "a variable's name": lambda m: engine(m)["env"][0].update(name="Z"),
    "a variable's kind": lambda m: engine(m)["env"].__setitem__(
        0, {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    ),
    "all variables": lambda m: engine(m).update(env=[]),
    "a container's name": lambda m: engine(m).update(name="other"),
    "a port's number, which is its key": lambda m: engine(m)["ports"][0].update(containerPort=81),
    "a volume's kind": lambda m: m["spec"]["template"]["spec"]["volumes"][0].update(
        emptyDir=None, hostPath={"path": "/a"}
    ),
    "a toleration": lambda m: m["spec"]["template"]["spec"]["tolerations"].clear(),
}


@pytest.mark.parametrize("edit", KEEPS.values(), ids=KEEPS)
def test_an_edit_that_takes_nothing_away_keeps_all_paths(edit: Edit) -> None:
    assert holds_all(edited(edit), paths_text(RENDERED))


@pytest.mark.parametrize("edit", DROPS.values(), ids=DROPS)
def test_an_edit_that_takes_something_away_is_seen(edit: Edit) -> None:
    assert not holds_all(edited(edit), paths_text(RENDERED))


@pytest.mark.parametrize("text", ["", "no text", "AAAA", "Zm9v\n", "é"])
def test_what_says_nothing_is_taken_for_paths_that_are_dropped(text: str) -> None:
    assert not holds_all(RENDERED, text)


@pytest.mark.parametrize("items", [["a"], [{"value": "1"}], [{"name": 7}], [None]])
def test_items_without_a_name_are_compared_as_they_are(items: list[Any]) -> None:
    odd = edited(lambda m: engine(m).update(env=items))
    assert holds_all(odd, paths_text(odd))
    assert not holds_all(RENDERED, paths_text(odd))


def test_a_volume_that_named_no_source_has_the_servers_until_it_names_one() -> None:
    def with_volume(**source: Any) -> dict[str, Any]:
        volumes = [{"name": "cache", **source}]
        return edited(lambda m: m["spec"]["template"]["spec"].update(volumes=volumes))

    bare = paths_text(with_volume())
    assert holds_all(with_volume(), bare)
    assert not holds_all(with_volume(persistentVolumeClaim={"claimName": "c"}), bare)


def test_the_text_is_short_and_the_same_in_any_order() -> None:
    mixed = dict(reversed(RENDERED.items()))
    assert paths_text(mixed) == paths_text(RENDERED)
    leaves = 14
    assert len(paths_text(RENDERED)) == 4 * math.ceil(leaves * DIGEST_BYTES / 3)
