"""Tasks of any shape: so many bytes go on, and a wrong one among them is noticed."""

from __future__ import annotations

import itertools
import time
from types import SimpleNamespace
from typing import Any

import pytest

from stepbench.contracts.dataflow.dag import Parameter
from stepbench.experiments.dataflow.tasks.application import (
    ApplicationError,
    TaskAnswer,
    TaskCall,
    find_maker,
    find_task,
)
from stepbench.experiments.dataflow.tasks.applications import synthetic
from stepbench.experiments.dataflow.tasks.applications.synthetic import body_of, work


def call(inputs: dict[str, Any] | None = None, dag_input: bytes | None = None, **parameters: Parameter) -> TaskCall:
    """Return what a task of stage "a" is given, which passes on two objects to "b" and one to "c"."""
    return TaskCall(inputs or {}, dag_input, parameters, "a", 0, 1, {"b": 2, "c": 1}, 7)


def passed_on(answer: TaskAnswer) -> list[Any]:
    """Return all objects."""
    return [value for values in answer.outputs.values() for value in values]


@pytest.mark.parametrize("size", [0, 1, 2**20, 2**20 + 1, 5_000_000])
def test_objects_are_as_large_as_they_are_to_be(size: int) -> None:
    """A study by size depends on it."""
    assert [len(each["body"]) for each in passed_on(work(call(output_bytes=size)))] == [size] * 3


def test_objects_are_a_share_of_what_has_come() -> None:
    """By hand: 3,000 bytes in, half of them out, in three parts."""
    answer = work(call(dag_input=bytes(3_000), output_ratio=0.5))
    assert [len(each["body"]) for each in passed_on(answer)] == [500] * 3


def test_the_same_task_makes_the_same_and_no_two_objects_are_alike() -> None:
    """A retry overwrites with what was there; a store that mixes objects up is found out."""
    first, second = (passed_on(work(call(output_bytes=100))) for _ in range(2))
    assert first == second
    assert len({each["body"] for each in first}) == 3


def test_a_reader_finds_a_wrong_byte() -> None:
    """`right` proves that the data came through."""
    value = passed_on(work(call(output_bytes=2_000_000)))[0]
    assert work(call({"before": [value]})).result == {"objects": 1, "checked_bytes": 2_000_000, "right": True}
    body = bytearray(value["body"])
    body[1_500_000] ^= 1
    with pytest.raises(ApplicationError, match=f"{value['name']} has other bytes"):
        work(call({"before": [{**value, "body": bytes(body)}]}))


def test_computing_takes_as_much_of_the_processor_as_it_is_to() -> None:
    """And not merely as much time, of which a busy machine has less to give."""
    before_s = time.thread_time()
    work(call(compute_ms=20, output_bytes=1))
    assert time.thread_time() - before_s >= 0.02


def test_computing_ends_with_the_first_look_at_which_it_has_had_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that goes on by 1 ms at each look: 20 of them after the first, which says when it begins."""
    looks = itertools.count()
    monkeypatch.setattr(synthetic, "time", SimpleNamespace(thread_time=lambda: next(looks) / 1e3))
    work(call(compute_ms=20, output_bytes=1))
    assert next(looks) == 21


def test_sleeping_takes_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """It stands for waiting, on a machine that has others to serve."""
    slept: list[float] = []
    monkeypatch.setattr(synthetic, "time", SimpleNamespace(sleep=slept.append))
    work(call(compute_ms=20, compute="sleep", output_bytes=1))
    assert slept == [0.02]


@pytest.mark.parametrize(("name", "value"), [("compute", "dream"), ("output_bytes", "much")])
def test_a_parameter_without_a_meaning_is_named(name: str, value: str) -> None:
    """Rather than something else measured."""
    with pytest.raises(ApplicationError, match=f"parameter {name} is"):
        find_task("synthetic.work")(call(None, None, **{name: value}))


def test_a_share_of_nothing_is_refused() -> None:
    """Objects of 0 bytes would be measured."""
    with pytest.raises(ApplicationError, match=r"parameter output_ratio is 0\.5, and is a share of"):
        find_task("synthetic.work")(call(output_ratio=0.5))


def test_the_input_is_the_seeds() -> None:
    """Made anew, it is the same."""
    make = find_maker("synthetic.bytes")
    assert make({"input_bytes": 10}, 3) == make({"input_bytes": 10}, 3) == body_of("3/input", 10)
    assert make({"input_bytes": 10}, 4) != make({"input_bytes": 10}, 3)
