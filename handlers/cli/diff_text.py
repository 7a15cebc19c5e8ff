"""What `weir render --diff` found, for people and for machines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from bridge.events import ObjectKey
from handlers.apply import Child
from handlers.children import Matched
from handlers.cli import output
from handlers.conditions import Reason
from handlers.difference import FieldChange
from handlers.dry_run import Foretold
from handlers.handler import Problem
from handlers.lookout import OTHER_OPERATOR
from handlers.stays import Stay

Action = Literal["create", "change", "replace", "delete", "blocked", "untried", "leave"]

_SIGNS: Final[dict[Action, str]] = {
    "create": "+",
    "change": "~",
    "replace": "~",
    "delete": "-",
    "blocked": "!",
    "untried": "?",
    "leave": "=",
}
_VALUE_LENGTH_MAX: Final = 160
"""Characters of a value in text; JSON holds all of it."""
_NOT_TRIED: Final = re.compile(r'User ".*" cannot |does not support dry run')
"""Words of the API server for who may not ask, and for a webhook that cannot be asked."""


class ObjectDifference(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """One child that is not as it would be, or that is left although it is not."""

    action: Action
    kind: str
    name: str
    fields: tuple[FieldChange, ...] = ()
    restarts: bool = False
    """The pods of a workload that stays would be replaced."""
    pods: int = 0
    """So many are replaced, or end with their workload."""
    reason: str = ""
    message: str = ""


class Compared(Struct, frozen=True, kw_only=True):
    """One resource beside what handlers would make of it."""

    kind: str
    key: ObjectKey
    objects: tuple[ObjectDifference, ...] = ()
    note: str = ""
    """Why nothing would be done for the resource as a whole."""
    waits: str = ""
    """Why nothing of this would be done now: another operator still writes."""
    error: str = ""
    """Why it could not be found out."""
    is_new: bool = False
    """It is not in the cluster yet."""
    is_refused: bool = False
    """Only an edit of it helps; until then nothing is made of it."""

    @property
    def title(self) -> str:
        """Kind, namespace and name."""
        where = f"{self.key.namespace}/" if self.key.namespace else ""
        return f"{self.kind} {where}{self.key.name}"

    @property
    def differs(self) -> bool:
        """Whether a child is not as it would be, or nobody can say what it should be."""
        return self.is_refused or any(one.action != "leave" for one in self.objects)

    @property
    def is_worth_telling(self) -> bool:
        """Whether a person gets to see it."""
        return bool(self.objects or self.note or self.waits)


def objects_of(matched: Matched, foretold: Iterable[Foretold]) -> tuple[ObjectDifference, ...]:
    """Return what a dry run says: children in the order of their making, what goes, what stays."""
    kept = {problem.child: problem for problem in matched.problems}
    places = {child.name: place for place, child in enumerate(matched.children)}
    stays = {stay.child: stay for stay in matched.stays}
    # Children are worked on in parallel; the same cluster is to give the same text.
    ordered = sorted(foretold, key=lambda one: (places.get(one.name, len(places)), one.name))
    return (
        *(_changed(one, stays.get(one.name)) for one in ordered if one.name not in kept),
        *(_kept(problem) for problem in kept.values()),
        *(_fixed(child) for child in matched.children if child.unchangeable),
        *(_staying(stay) for stay in matched.stays if stay.is_blocked),
    )


def as_text(one: Compared) -> str:
    """Return a resource and its objects, a line each, and a line per field."""
    lines = [output.printable(one.title + (" (not in the cluster yet)" if one.is_new else ""))]
    if one.note:
        lines.append(f"  = {output.printable(one.note)}")
    if one.waits:
        lines.append(f"  ! {output.printable(f'{OTHER_OPERATOR}: {one.waits}')}")
    for changed in one.objects:
        said = f"{_SIGNS[changed.action]} {changed.kind}/{changed.name}"
        lines.append("  " + output.printable(f"{said}{_consequence(changed)}"))
        lines += [f"      {line}" for line in _field_lines(changed)]
    return "\n".join(lines)


def summary(found: list[Compared]) -> str:
    """Return the line that says how much differs."""
    objects = [changed for one in found for changed in one.objects]
    words = ("create", "change", "replace", "delete", "blocked", "untried", "leave")
    counts = {word: sum(changed.action == word for changed in objects) for word in words}
    counts["refused"] = sum(one.is_refused for one in found)
    said = ", ".join(f"{word} {count}" for word, count in counts.items() if count)
    restarting = [changed for changed in objects if changed.restarts]
    pods = sum(changed.pods for changed in restarting)
    which = f"{sum(one.differs for one in found)} of {output.plural(len(found), 'resource')} differ"
    restart = (
        f"{output.plural(pods, 'pod')} of {output.plural(len(restarting), 'workload')} restart"
        if restarting
        else "no pod restarts"
    )
    waiting = sum(bool(one.waits) for one in found)
    wait = f"{waiting} would wait for another operator to stop" if waiting else ""
    return "; ".join(filter(None, (which, said, restart, wait)))


def as_plain(found: list[Compared]) -> Any:
    """Return everything for a machine."""
    return {
        "differs": any(one.differs for one in found),
        "resources": [
            {
                "kind": one.kind,
                "namespace": one.key.namespace,
                "name": one.key.name,
                "differs": one.differs,
                "exists": not one.is_new,
                **({"note": one.note} if one.note else {}),
                **({"waits": one.waits} if one.waits else {}),
                **({"error": one.error} if one.error else {}),
                "objects": msgspec.to_builtins(one.objects),
            }
            for one in found
        ],
    }


def _changed(one: Foretold, stay: Stay | None) -> ObjectDifference:
    return ObjectDifference(
        action="change" if one.verb == "apply" else one.verb,
        kind=one.name.kind,
        name=one.name.name,
        fields=one.fields,
        restarts=one.restarts,
        pods=one.pods,
        reason=Reason.HANDING_OVER if stay else "",
        message=stay.said if stay else "",
    )


def _fixed(child: Child) -> ObjectDifference:
    fields = ", ".join(f"spec.{field}" for field in child.unchangeable)
    return ObjectDifference(
        action="blocked",
        kind=child.name.kind,
        name=child.name.name,
        reason=Reason.IMMUTABLE_FIELD,
        message=f"only a new object can hold another {fields}: stays as it is",
    )


def _staying(stay: Stay) -> ObjectDifference:
    return ObjectDifference(
        action="leave",
        kind=stay.child.kind,
        name=stay.child.name,
        reason=Reason.HANDING_OVER,
        message=stay.said,
    )


def _kept(problem: Problem) -> ObjectDifference:
    is_untried = problem.reason == "Refused" and _NOT_TRIED.search(problem.message)
    return ObjectDifference(
        action="untried" if is_untried else "blocked",
        kind=problem.child.kind,
        name=problem.child.name,
        reason=problem.reason,
        message=problem.message,
    )


def _consequence(changed: ObjectDifference) -> str:
    match changed.action:
        case "blocked" | "leave":
            return f": {changed.reason}: {changed.message}"
        case "untried":
            return f": what would change is not known: {changed.message}"
        case "delete":
            ends = f"{output.plural(changed.pods, 'pod')} would end" if changed.pods else ""
            said = "; ".join(filter(None, (ends, changed.message)))
            return f": {said}" if said else ""
        case "change" if changed.restarts:
            return f": {output.plural(changed.pods, 'pod')} would restart"
        case "replace":
            return ": deleted and made anew"
        case _:
            return ""


def _field_lines(changed: ObjectDifference) -> list[str]:
    told = [field for field in changed.fields if not field.is_mark]
    if not told and changed.action == "change":
        return ["only Weir's marks, and whose its fields are"]
    return [
        output.printable(f"{field.path}: {_value(field.old)} -> {_value(field.new)}")
        for field in told
    ]


def _value(value: Any) -> str:
    if value is None:
        return output.NONE
    text = value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _VALUE_LENGTH_MAX else f"{text[:_VALUE_LENGTH_MAX]}..."
