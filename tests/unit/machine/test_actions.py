from __future__ import annotations

from hypothesis import given, settings

from tests.e2e.machine import actions
from tests.e2e.machine.actions import Apply, Calm, Kill, Sequence, Stop, as_python
from tests.e2e.machine.draw import sequences


@given(sequences(6))
@settings(max_examples=30)
def test_the_text_of_a_sequence_is_python_that_makes_it_again(sequence: Sequence) -> None:
    again = eval(as_python(sequence), vars(actions))  # noqa: S307 - our own text
    assert again == sequence


def test_the_text_says_what_is_not_as_usual_and_is_long_only_where_it_must_be() -> None:
    services = {"worker": {"componentType": "worker", "args": ["--a-long-argument"] * 5}}
    text = as_python((Calm(), Kill("nats"), Stop("bridge"), Apply("ant", {"services": services})))
    assert text.splitlines() == [
        "(",
        "    Calm(),",
        "    Kill(what='nats'),",
        "    Stop(what='bridge'),",
        "    Apply(name='ant', spec={",
        "        'services': {",
        "            'worker': {",
        "                'componentType': 'worker',",
        "                'args': [",
        *["                    '--a-long-argument',"] * 5,
        "                ],",
        "            },",
        "        },",
        "    }),",
        ")",
    ]
