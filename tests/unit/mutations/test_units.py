from __future__ import annotations

import json

import pytest
from tests.mutations.units import definition_units, python_units, room_of

MODULE = '''
LIMIT = 3

class Port(Protocol):
    def send(self) -> None: ...

class Socket:
    def send(self, data: bytes) -> int:
        """Send it."""
        while (self.open
               and data):
            with self.lock as held:
                self.count += 1  # é
        def inner() -> None:
            close()
        return 1

    def __repr__(self) -> str:
        return "Socket"
'''


def test_places_are_statements_and_heads_of_functions() -> None:
    """Constants, protocols, docstrings and `repr` are nobody's behaviour; a head is changed without its body."""
    assert [(unit.function, unit.text) for unit in python_units(MODULE.encode())] == [
        ("Socket.send", "self.open and data"),
        ("Socket.send", "self.lock"),
        ("Socket.send", "self.count += 1"),
        ("Socket.send.inner", "close()"),
        ("Socket.send", "return 1"),
    ]


def test_a_place_is_where_its_text_is() -> None:
    """A fault a byte beside its place is a syntax error, which every test finds."""
    source = MODULE.encode()
    pieces = {unit.text: source[unit.start : unit.end] for unit in python_units(source)}
    assert pieces["self.open and data"] == b"self.open\n               and data"
    assert pieces["return 1"] == b"return 1"


def test_clauses_of_a_state_are_places() -> None:
    """What is retried and caught decides how a run ends, and no line of Python has it."""
    retry: list[dict[str, object]] = [{"ErrorEquals": ["Busy"], "MaxAttempts": 3}, {"ErrorEquals": ["States.ALL"]}]
    source = json.dumps({"States": {"Work": {"Type": "Task", "Retry": retry}}}).encode()
    (unit,) = definition_units(source)
    assert (unit.function, json.loads(source[unit.start : unit.end])) == ("Work", retry)
    assert [(operator, json.loads(text)) for operator, text in unit.variants()] == [
        ("dropped", retry[1:]),
        ("dropped", retry[:1]),
        ("constant", [{**retry[0], "MaxAttempts": 4}, retry[1]]),
    ]


@pytest.mark.parametrize(
    ("name", "room"),
    [
        ("layers/core/src/stepbench/stats/tails.py", "stats"),
        ("layers/core/src/stepbench/clock.py", "clock"),
        ("tools/src/stepbench_tools/local/deploy.py", "local"),
        ("functions/run_task.py", "functions"),
        ("statemachines/trial.asl.json", "statemachines"),
    ],
)
def test_a_room_is_the_first_level_of_the_package(name: str, room: str) -> None:
    """The table counts by room; a room without faults would look protected."""
    assert room_of(name) == room
