"""Children at a real API server: made once as rendered, and left alone from then on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crds.kubernetes import Manifest
from handlers import plan
from tests.services.handlers.conftest import Desk
from tests.services.handlers.renderings import (
    ODD,
    ORDINARY,
    PLAIN,
    UNKNOWN,
    Rendered,
    a_container,
    a_deployment,
)

APPLIES_MAX = 2
"""One that remembers what was dropped; one more where a controller wrote in between."""


async def _named(desk: Desk, table: Mapping[str, Rendered]) -> dict[str, Manifest]:
    """Return the renderings by title, each under a name of its own; the bindings' role exists."""
    await desk.made(PLAIN["Role"](desk))
    made = {}
    for number, (title, rendered) in enumerate(table.items()):
        manifest = rendered(desk)
        manifest["metadata"]["name"] = f"child-{number}"
        made[title] = manifest
    return made


def _verbs(desk: Desk) -> list[str]:
    return [what.split()[0] for what in desk.written]


async def _make(desk: Desk, manifest: Manifest) -> dict[str, Any]:
    """Return all that is worth knowing of two reconciles, one after the other."""
    child = await desk.made(manifest)
    if child.problem is not None:
        return {"problem": child.problem, "verbs": _verbs(desk), "ignored": ()}
    verbs = _verbs(desk)
    live = await desk.live(manifest)
    again = await desk.made(manifest)
    return {
        "problem": again.problem,
        "verbs": verbs,
        "matches": plan.matches(manifest, live),
        "again": _verbs(desk),
        "ignored": child.ignored,
        "forgotten": set(child.ignored) ^ set(again.ignored),
    }


async def test_a_child_is_made_by_one_create_and_matches_at_once(desk: Desk) -> None:
    seen = {
        title: await _make(desk, item) for title, item in (await _named(desk, ORDINARY)).items()
    }
    made_at_once: dict[str, Any] = {
        "problem": None,
        "verbs": ["create"],
        "matches": True,
        "again": [],
        "ignored": (),
        "forgotten": set(),
    }
    assert {title: how for title, how in seen.items() if how != made_at_once} == {}


def _variables(manifest: Manifest) -> object:
    return manifest["spec"]["template"]["spec"]["containers"][0]["env"]


async def test_owners_are_merged_only_before_a_path_is_dropped_and_it_goes(desk: Desk) -> None:
    def variables(**values: str) -> Manifest:
        manifest = ORDINARY["a small deployment"](desk)
        container = manifest["spec"]["template"]["spec"]["containers"][0]
        container["env"] = [{"name": name, "value": value} for name, value in values.items()]
        return manifest

    steps = [
        (variables(A="1"), ["create"]),
        (variables(A="2"), ["apply"]),
        (variables(A="2", B="1"), ["apply"]),
        (variables(B="1"), ["own", "apply"]),
        (variables(C="1"), ["apply"]),
    ]
    for manifest, verbs in steps:
        await desk.made(manifest)
        assert _verbs(desk) == verbs
        assert _variables(await desk.live(manifest)) == _variables(manifest)
        await desk.made(manifest)
        assert _verbs(desk) == []


async def test_what_follows_from_a_value_by_default_follows_it_after_an_edit(desk: Desk) -> None:
    def with_image(image: str) -> Manifest:
        manifest = ORDINARY["a small deployment"](desk)
        manifest["spec"]["template"]["spec"]["containers"][0]["image"] = image
        return manifest

    policies = {}
    # Not further: what was defaulted after an apply is nobody's, so that no later apply drops it.
    for image in ("engine:1", "engine:2", "engine:latest"):
        await desk.made(with_image(image))
        live = await desk.live(with_image(image))
        container = live["spec"]["template"]["spec"]["containers"][0]
        policies[container["image"]] = container["imagePullPolicy"]
    assert policies == {
        "engine:1": "IfNotPresent",
        "engine:2": "IfNotPresent",
        "engine:latest": "Always",
    }


async def test_a_service_account_goes_after_edits_and_its_copy_does_not_bring_it_back(
    desk: Desk,
) -> None:
    def pods(image: str, **account: str) -> Manifest:
        container = a_container(image=f"registry.example/{image}")
        return a_deployment({"containers": [container], **account})(desk)

    # The second drops a path, so that all of ours becomes an apply's; the third is one more.
    for manifest in (
        pods("a:1", serviceAccountName="demo-disc", schedulerName="own"),
        pods("a:1", serviceAccountName="demo-disc"),
        pods("a:2", serviceAccountName="other-disc"),
        pods("a:2"),
    ):
        await desk.made(manifest)
        wanted = manifest["spec"]["template"]["spec"].get("serviceAccountName")
        live = (await desk.live(manifest))["spec"]["template"]["spec"]
        accounts = (live.get("serviceAccountName"), live.get("serviceAccount"))
        assert accounts == (wanted, wanted)
        await desk.made(manifest)
        assert _verbs(desk) == []


async def test_a_default_gives_way_to_what_excludes_it(desk: Desk) -> None:
    def with_volume(**source: Any) -> Manifest:
        manifest = ORDINARY["a small deployment"](desk)
        manifest["spec"]["template"]["spec"]["volumes"] = [{"name": "cache", **source}]
        return manifest

    def with_strategy(type_: str) -> Manifest:
        manifest = with_volume(persistentVolumeClaim={"claimName": "c"})
        manifest["spec"]["strategy"] = {"type": type_}
        return manifest

    claim = {"persistentVolumeClaim": {"claimName": "c"}}
    for manifest in (with_volume(), with_volume(**claim)):
        assert (await desk.made(manifest)).problem is None
    live = await desk.live(manifest)
    assert live["spec"]["template"]["spec"]["volumes"] == [{"name": "cache", **claim}]

    # No path of a rendering tells of this one: the server refuses it first.
    for type_ in ("RollingUpdate", "Recreate"):
        manifest = with_strategy(type_)
        manifest["metadata"]["name"] = "other"
        assert (await desk.made(manifest)).problem is None
    assert (await desk.live(manifest))["spec"]["strategy"] == {"type": "Recreate"}


async def test_what_the_server_leaves_out_as_empty_is_applied_once_and_then_quiet(
    desk: Desk,
) -> None:
    seen = {title: await _make(desk, item) for title, item in (await _named(desk, ODD)).items()}
    for title, how in seen.items():
        assert how.pop("verbs").count("apply") <= APPLIES_MAX, title
    quiet: dict[str, Any] = {
        "problem": None,
        "matches": True,
        "again": [],
        "ignored": (),
        "forgotten": set(),
    }
    assert {title: how for title, how in seen.items() if how != quiet} == {}


async def test_what_the_server_does_not_know_is_named_and_then_left_in_peace(desk: Desk) -> None:
    seen = {title: await _make(desk, item) for title, item in (await _named(desk, UNKNOWN)).items()}
    for title, how in seen.items():
        assert any("noSuchField" in path for path in how.pop("ignored")), title
        assert how.pop("verbs").count("apply") <= APPLIES_MAX, title
    quiet: dict[str, Any] = {"problem": None, "matches": True, "again": [], "forgotten": set()}
    assert {title: how for title, how in seen.items() if how != quiet} == {}


async def test_an_edit_that_brings_unknown_or_empty_fields_settles_too(desk: Desk) -> None:
    seen = {}
    for title, manifest in (await _named(desk, {**UNKNOWN, **ODD})).items():
        before = PLAIN[manifest["kind"]](desk)
        before["metadata"]["name"] = manifest["metadata"]["name"]
        await desk.made(before)
        seen[title] = how = await _make(desk, manifest)
        is_named = any("noSuchField" in path for path in how.pop("ignored"))
        assert is_named is (title in UNKNOWN), title
        del how["verbs"]
    quiet: dict[str, Any] = {"problem": None, "matches": True, "again": [], "forgotten": set()}
    assert {title: how for title, how in seen.items() if how != quiet} == {}
