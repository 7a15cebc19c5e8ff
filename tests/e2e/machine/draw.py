"""
Sequences drawn from a seed: the same seed and length give the same sequence.

Hypothesis draws and does not run them: a run takes minutes and depends on the machine's timing, so
a failure is told from the run that showed it, not from a second one, and its sequence is shortened
by `shrink.py` where somebody asks for that.
"""

from __future__ import annotations

from collections.abc import Iterator

import hypothesis
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st
from msgspec import Struct, field

from crds.kubernetes import Manifest
from tests.e2e.machine.actions import (
    HANDLERS,
    OPTIONAL,
    Action,
    Apply,
    Begun,
    Calm,
    Continue,
    Cut,
    Delete,
    Install,
    Kill,
    Lose,
    Pause,
    Remove,
    Resume,
    Scale,
    Sequence,
    Squat,
    Stop,
    Touch,
    Unsquat,
    Wipe,
    Wrong,
)
from tests.e2e.machine.specs import (
    a_changed_spec,
    a_spec,
    a_spec_of_other_nodes,
    a_terminal_spec,
    a_wrong_spec,
)
from tests.e2e.machine.touches import GROUPS, TOUCHES, WORKLOADS, touches_of

NAMES = ("ant", "bee", "cat")
_EXAMPLES = 12
"""Hypothesis begins with the simplest sequences; the last of so many is taken."""
_CHOICES = (
    *("apply",) * 9,
    *("touch",) * 6,
    *("delete",) * 3,
    *("wrong",) * 2,
    *("kill",) * 3,
    *("cut",) * 2,
    *("pause",) * 2,
    *("squat",) * 2,
    *("kind",) * 4,
    *("nodes",) * 4,
    "terminal",
    "scale",
    "stop",
    "wipe",
    "lose",
)
_FAULTS = (*("kill",) * 3, "cut", "stop")
"""What befalls a reconcile in its middle."""


class Sketch(Struct):
    """What a sequence has made so far, as far as it matters for what may come next."""

    specs: dict[str, Manifest] = field(default_factory=dict)
    paused: set[str] = field(default_factory=set)
    squats: set[str] = field(default_factory=set)
    absent: set[str] = field(default_factory=set)
    is_stopped: bool = False

    @property
    def children(self) -> list[str]:
        """The children that there should be."""
        return sorted({c for name, spec in self.specs.items() for c in children_of(name, spec)})


def children_of(name: str, spec: Manifest) -> Iterator[str]:
    """Yield the children of a resource, as the documentation names them."""
    if spec.get("discoveryBackend") != "etcd":
        yield from (f"{kind}/{name}-disc" for kind in ("ServiceAccount", "Role", "RoleBinding"))
    nats = spec.get("nats") or {}
    if not nats or nats.get("deploy"):
        yield from (f"{kind}/{name}-nats" for kind in ("Service", "StatefulSet"))
    if (spec.get("gaie") or {}).get("enabled"):
        yield from (f"{kind}/{name}-epp" for kind in ("Service", "Deployment"))
        yield from (f"InferencePool/{name}-pool", f"HTTPRoute/{name}-route")
    for service, given in spec["services"].items():
        is_group = given.get("numberOfNodes", 1) > 1
        yield f"{'LeaderWorkerSet' if is_group else 'Deployment'}/{name}-{service}"
        if given["componentType"] == "server":
            yield f"Service/{name}-{service}"


@st.composite
def sequences(draw: st.DrawFn, length: int) -> Sequence:
    """Draw a sequence with so many actions between its calms."""
    sketch = Sketch()
    drawn: list[Action] = []
    for number in range(length):
        is_at_rest = not drawn or isinstance(drawn[-1], Calm)
        drawn += _next(draw, sketch, "apply" if number == 0 else draw(st.sampled_from(_CHOICES)))
        if is_at_rest and isinstance(drawn[-1], Apply) and draw(st.integers(0, 2)) == 0:
            drawn += [Begun(), _fault(draw, sketch, draw(st.sampled_from(_FAULTS)))]
        if draw(st.integers(0, 2)):
            drawn.append(Calm())
    return tuple(drawn)


def drawn(seed: int, length: int) -> Sequence:
    """Return the sequence of a seed."""
    found: list[Sequence] = []

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=_EXAMPLES,
        phases=(Phase.generate,),
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @hypothesis.given(sequences(length))
    def note(sequence: Sequence) -> None:
        found.append(sequence)

    note()
    return found[-1]


def _next(draw: st.DrawFn, sketch: Sketch, choice: str) -> Iterator[Action]:
    """Yield what comes next; something is done to what exists, or it is made first."""
    name = draw(st.sampled_from(NAMES))
    if name not in sketch.specs and sketch.specs and draw(st.integers(0, 2)):
        name = draw(st.sampled_from(sorted(sketch.specs)))
    spec = sketch.specs.get(name)
    match choice:
        case "wrong":
            yield Wrong(name, draw(a_wrong_spec(spec or draw(a_spec()))))
        case "terminal":
            base = spec or draw(a_spec())
            yield Apply(name, draw(a_terminal_spec(base)))
            sketch.specs.setdefault(name, base)
        case "nodes" if spec is not None:
            sketch.specs[name] = draw(a_spec_of_other_nodes(spec))
            yield Apply(name, sketch.specs[name])
        case "delete" if spec is not None:
            yield from _delete(draw, sketch, name, spec)
        case "pause" if spec is not None:
            is_paused = name in sketch.paused
            yield Resume(name) if is_paused else Pause(name)
            sketch.paused ^= {name}
        case "touch" | "scale" | "squat" if sketch.children:
            yield from _meddle(draw, sketch, choice)
        case "kind":
            missed = [kind for kind in OPTIONAL if kind in sketch.absent]
            is_missed = bool(missed) and draw(st.booleans())
            kind = draw(st.sampled_from(missed if is_missed else OPTIONAL))
            yield Install(kind) if kind in sketch.absent else Remove(kind)
            sketch.absent ^= {kind}
        case "kill" | "cut" | "stop" | "wipe" | "lose":
            yield _fault(draw, sketch, choice)
        case _:
            sketch.specs[name] = draw(a_changed_spec(spec)) if spec else draw(a_spec())
            yield Apply(name, sketch.specs[name])


def _delete(draw: st.DrawFn, sketch: Sketch, name: str, spec: Manifest) -> Iterator[Action]:
    del sketch.specs[name]
    sketch.paused.discard(name)
    yield Delete(name, draw(st.sampled_from(("background", "background", "foreground", "orphan"))))
    if draw(st.booleans()):
        sketch.specs[name] = draw(a_changed_spec(spec))
        yield Apply(name, sketch.specs[name])


def _meddle(draw: st.DrawFn, sketch: Sketch, choice: str) -> Iterator[Action]:
    child = draw(st.sampled_from(sketch.children))
    kind = child.partition("/")[0]
    if choice == "scale" and kind in ("Deployment", "LeaderWorkerSet"):
        yield Scale(child, draw(st.integers(0, 3)))
    elif choice == "squat":
        if draw(st.booleans()) and sketch.squats:
            freed = draw(st.sampled_from(sorted(sketch.squats)))
            sketch.squats.remove(freed)
            yield Unsquat(freed)
            return
        name = draw(st.sampled_from(NAMES))
        wanted = list(children_of(name, draw(a_spec())))
        squat = draw(st.sampled_from(wanted))
        sketch.squats.add(squat)
        yield Squat(squat)
    else:
        weighted = touches_of(kind) + [t for t in touches_of(kind) if kind in WORKLOADS][:4]
        weighted += [t for t in touches_of(kind) if kind == GROUPS][:3]
        what = draw(st.sampled_from(weighted))
        yield Touch(child, what, draw(st.sampled_from(TOUCHES[what].by)))


def _fault(draw: st.DrawFn, sketch: Sketch, choice: str) -> Action:
    match choice:
        case "kill":
            return Kill(draw(st.sampled_from((*HANDLERS, "bridge", "nats"))))
        case "cut":
            return Cut(draw(st.sampled_from(("nats", "api"))), draw(st.booleans()))
        case "wipe":
            return Wipe()
        case "lose":
            streams = ("WEIR_QUEUE", "WEIR_LOCK", "WEIR_STATE", "WEIR_HISTORY", "the consumer")
            return Lose(draw(st.sampled_from(streams)))
    if sketch.is_stopped:
        sketch.is_stopped = False
        return Continue()
    what = draw(st.sampled_from((*HANDLERS, "bridge")))
    sketch.is_stopped = draw(st.booleans()) if what in HANDLERS else False
    return Stop(what, sketch.is_stopped)
