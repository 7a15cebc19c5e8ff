"""What a test waits for may take its time: on a machine that is busy, a second is nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from handlers.cli.devstack.weir import REPOSITORY

LEAST_SECONDS = 20
BOUND_AT = {"eventually": 1, "wait_for": 1, "wait_until": 1, "timeout": 0}
"""Where calls that wait have their bound; a keyword says it by its name."""
BOUND_AS = {"within_seconds", "timeout"}
ENDS_BY_FORCE = "terminate"
"""Its bound is for what ignores a signal: nothing is awaited that would come."""


def test_no_bound_on_what_is_awaited_is_short() -> None:
    """Inside `pytest.raises` nothing is: there the bound itself is what is shown."""
    found = [
        f"{path.relative_to(REPOSITORY)}:{number}"
        for path in sorted((REPOSITORY / "tests").rglob("*.py"))
        for number in _hasty(ast.parse(path.read_text("utf-8")))
    ]
    assert found == []


def test_a_short_bound_is_found_however_it_is_given() -> None:
    hasty = """
await eventually(ready, 5)
await eventually(ready, within_seconds=5)
async with asyncio.timeout(2):
    await gone.wait()
await asyncio.wait_for(gone.wait(), 2)
with pytest.raises(TimeoutError):
    await asyncio.wait_for(gone.wait(), 0.5)
await eventually(ready, 30)
"""
    assert list(_hasty(ast.parse(hasty))) == [2, 3, 4, 6]


def _hasty(node: ast.AST) -> Iterator[int]:
    """Yield the lines of calls that give up soon, but those that are expected to."""
    if isinstance(node, ast.With) and any("raises" in ast.dump(i) for i in node.items):
        return
    if isinstance(node, ast.Call) and any(map(_is_short, _bounds(node))):
        yield node.lineno
    for child in ast.iter_child_nodes(node):
        yield from _hasty(child)


def _bounds(call: ast.Call) -> Iterator[ast.expr]:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name == ENDS_BY_FORCE:
        return
    if name in BOUND_AT:
        yield from call.args[BOUND_AT[name] :][:1]
    yield from (keyword.value for keyword in call.keywords if keyword.arg in BOUND_AS)


def _is_short(bound: ast.expr) -> bool:
    value = bound.value if isinstance(bound, ast.Constant) else None
    return isinstance(value, int | float) and value < LEAST_SECONDS
