from __future__ import annotations

from tests.bench.row import Sizes
from tests.bench.rows import ROWS


def test_rows_have_names_of_their_own_and_say_the_sizes_of_the_run() -> None:
    told = [row.told(Sizes(births=20, edits=7)) for row in ROWS]

    assert len({row.name for row in ROWS}) == len(ROWS)
    assert told[0].startswith("20 InferaDeployments ")
    assert "Up to 7 edits" in told[2]
    assert not [text for text in told if "{" in text]
