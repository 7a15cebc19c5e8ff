from __future__ import annotations

from tests.e2e.machine.actions import Action, Calm, Kill, Pause, Resume, Sequence
from tests.e2e.machine.shrink import shortest

CULPRITS = (Pause("ant"), Kill("nats"))


async def test_only_the_actions_that_matter_are_left_and_in_their_order() -> None:
    runs: list[Sequence] = []

    async def fails(sequence: Sequence) -> bool:
        runs.append(sequence)
        return all(one in sequence for one in CULPRITS)

    padding: tuple[Action, ...] = (Calm(), Resume("bee"), Calm(), Kill("bridge"), Calm())
    long = (*padding, CULPRITS[0], *padding, *padding, CULPRITS[1], *padding)
    assert await shortest(long, fails) == CULPRITS
    assert len(runs) <= 2 * len(long)


async def test_a_sequence_that_fails_whatever_is_in_it_becomes_one_action() -> None:
    async def fails(_: Sequence) -> bool:
        return True

    assert len(await shortest((Calm(),) * 7, fails)) == 1


async def test_a_failure_that_does_not_come_again_leaves_the_sequence_as_it_is() -> None:
    async def fails(_: Sequence) -> bool:
        return False

    assert await shortest(CULPRITS, fails) == CULPRITS
