"""A shorter sequence that fails, too."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator

from tests.e2e.machine.actions import Sequence


async def shortest(sequence: Sequence, fails: Callable[[Sequence], Awaitable[bool]]) -> Sequence:
    """
    Return what is left of a failing sequence when no part of it can be left out any more.

    Halves first, then smaller parts, at last single actions: so a sequence of n actions is run
    about 2 n times at most where a few of them matter.
    """
    size = len(sequence)
    while size >= 1:
        for shorter in _without_a_part(sequence, size):
            if await fails(shorter):
                sequence = shorter
                break
        else:
            size //= 2
    return sequence


def _without_a_part(sequence: Sequence, size: int) -> Iterator[Sequence]:
    """Yield the sequence without so many actions in a row, from its end to its beginning."""
    for begin in range(len(sequence) - size, -1, -size):
        shorter = sequence[:begin] + sequence[begin + size :]
        if shorter:
            yield shorter
