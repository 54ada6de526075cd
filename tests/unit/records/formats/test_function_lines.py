"""Lines that a measured function's layer prints, and the t4 items that are made of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.samples.estimates import present

from stepbench.contracts.identity import EventId, put_key
from stepbench.records.formats.function_lines import Invocation, item_of, merge_lines, parse_line
from stepbench.records.formats.t4_items import parse_item

TAG = "abcdefghij-0001"
T4, T5 = 1_700_000_000_000_000_000, 1_700_000_000_050_000_000
SEQUENCES = ("11", "12", "13")


def _line(name: str, **fields: Any) -> str:  # noqa: ANN401 -- JSON
    return json.dumps({f"stepbench.{name}": {"trial": TAG, "request": "r-1", "t4": T4, **fields}})


def _begin(source: str, records: list[list[Any]], **fields: Any) -> str:  # noqa: ANN401 -- JSON
    known = {"sandbox": "s1", "cold": True, "init_ns": 7, "batch": len(records), "source": source, "records": records}
    return _line("t4", **{**known, **fields})


def _stream(number: int) -> list[Any]:
    event = EventId(TAG, 0, 0, 0, 0, number).text()
    return ["INSERT", [put_key(EventId(TAG, 0, 0, 0, 0, number), 59)], event, 1_700_000_000, SEQUENCES[number]]


def _item(*lines: str) -> dict[str, Any]:
    invocations: dict[str, Invocation] = {}
    list(merge_lines(TAG, invocations, lines))
    (invocation,) = invocations.values()
    item = item_of(TAG, invocation)
    assert item is not None
    return item


def test_an_invocation_becomes_an_item_that_readers_of_receivers_items_know() -> None:
    """So canaries, counts and the join need to know nothing of functions."""
    item = _item(_begin("aws:dynamodb", [_stream(0), _stream(1)], t4_resolution_ns=1_000), _line("t5", t5=T5))

    parsed = parse_item({"sk": f"r-1#{T4:020d}", **item})

    assert parsed.arrivals == 2
    assert parsed.entries["sequence"].tolist() == [0, 1]
    assert parsed.entries["t4_ns"].tolist() == [T4, T4]
    assert (parsed.cold, parsed.init_ns, parsed.source) == (True, 7, "function")
    assert (item["t5_ns"], item["failed_from"], item["error"]) == (T5, 2, "")
    assert present(parsed.run).resolution_ns == 1_000


@pytest.mark.parametrize(
    ("called", "expected"),
    [({}, T4), ({"called": T4 + 9}, T4 + 9), ({"called": T4 - 1}, T4), ({"called": T5 + 1}, T4)],
)
def test_a_handler_is_called_behind_t4_or_at_it(called: dict[str, int], expected: int) -> None:
    """What the layer does with a large batch first is no time of the handler's; one that cannot be counts as none."""
    item = _item(_begin("aws:dynamodb", [_stream(0)]), _line("t5", t5=T5, **called))

    assert present(parse_item({"sk": f"r-1#{T4:020d}", **item}).run).called_ns == expected


@pytest.mark.parametrize(
    ("end", "failed_from"),
    [
        ({"failed": None}, 3),
        ({"failed": []}, 3),
        ({"failed": ["13", "12"]}, 1),
        ({"failed": [""]}, 0),
        ({"failed": ["unknown", "13"]}, 0),
        ({"error": "ValueError"}, 0),
    ],
)
def test_what_comes_again_counts_as_not_processed(end: dict[str, Any], failed_from: int) -> None:
    """Lambda takes a stream up again at the first record that failed, whatever became of those behind it."""
    begin = _begin("aws:dynamodb", [_stream(0), _stream(1), _stream(2)])

    assert _item(begin, _line("t5", t5=T5, **end))["failed_from"] == failed_from


def test_one_that_has_not_ended_has_processed_nothing_yet() -> None:
    """It may have timed out; its events have arrived all the same."""
    item = _item(_begin("aws:dynamodb", [_stream(0)]))

    assert (item["n"], item["t5_ns"], item["failed_from"]) == (1, 0, 0)


def test_an_object_is_known_by_its_key() -> None:
    """As ReceiveEvents reads it: the key may be escaped, and the time has a zone."""
    key = put_key(EventId(TAG, 0, 0, 0, 0, 5), 59)
    record = [key.replace("/", "%2F"), "ObjectCreated:Put", "2023-11-14T22:13:20.000Z", "v1"]

    parsed = parse_item({"sk": f"r-1#{T4:020d}", **_item(_begin("aws:s3", [record]), _line("t5", t5=T5))})

    assert parsed.entries["sequence"].tolist() == [5]
    assert parsed.entries["t3_ns"].tolist() == [1_700_000_000_000_000_000]


def test_an_event_of_postgresql_is_known_by_its_name() -> None:
    """Its payload names it, with the time of the trigger in microseconds."""
    record = [EventId(TAG, 0, 0, 0, 0, 9).text(), 1_700_000_000_000_001]

    parsed = parse_item({"sk": f"r-1#{T4:020d}", **_item(_begin("stepbench:postgresql", [record]))})

    assert parsed.entries["sequence"].tolist() == [9]
    assert parsed.entries["t3_ns"].tolist() == [1_700_000_000_000_001_000]


def test_the_records_of_a_large_batch_come_behind_the_handler_in_any_order() -> None:
    """CloudWatch gives no order to lines of one millisecond; the end alone does not say what there was."""
    begin = _line("t4", sandbox="s1", batch=3, source="aws:dynamodb")
    first = _line("records", **{"from": 0}, records=[_stream(0)])
    rest = _line("records", **{"from": 1}, records=[_stream(1)])
    end = _line("t5", t5=T5, failed=["12"], records=[_stream(2)])
    invocations: dict[str, Invocation] = {}

    list(merge_lines(TAG, invocations, [rest, end, begin]))
    (key,) = invocations
    assert not invocations[key].whole

    list(merge_lines(TAG, invocations, [first]))
    item = item_of(TAG, invocations[key])
    assert invocations[key].whole
    assert item is not None
    assert (item["n"], item["failed_from"]) == (3, 1)


@pytest.mark.parametrize(
    "message",
    [
        "",
        "REPORT RequestId: r-1",
        '{"stepbench.t4": 1}',
        '{"stepbench.t4": {"trial": "x"}}',
        '{"stepbench.t9": {}}',
        '{"stepbench.t4": {"trial',
        '{"stepbench.t4": {}, "other": 1}',
        _line("t5", t5=-1),
        _line("t5", t5=2**63),
        _line("t4", sandbox="s", batch=0, init_ns=2**63),
        _line("t4", sandbox="s", batch=0, request="r" * 1_000),
        _line("t5", t5=T5, error="\ud800"),
        _line("t5", t5=T5) + " and more",
    ],
)
def test_other_lines_are_none(message: str) -> None:
    """The user's code prints into the same log, whatever it likes."""
    assert parse_line(message) is None


def test_what_stands_before_a_line_is_passed_over() -> None:
    """A part of a line of the function's own, whatever it is, or what a logger puts before each text."""
    line = _line("t5", t5=T5)
    for before in (".", "2023-11-14T22:13:20.000Z\tr-1\tINFO\t", line, '{"stepbench.t4": '):
        assert parse_line(before + line) == parse_line(line) is not None


def test_lines_of_another_trial_are_not_taken() -> None:
    """A handler may print what it has read, such as another trial's log."""
    invocations: dict[str, Invocation] = {}

    assert list(merge_lines("klmnopqrst-0000", invocations, [_begin("aws:s3", [])])) == []
    assert not invocations


def test_records_of_another_shape_are_no_events() -> None:
    """Somebody else's object in the bucket, say: the invocation is no arrival of the trial's."""
    invocations: dict[str, Invocation] = {}
    list(merge_lines(TAG, invocations, [_begin("aws:s3", [["other/key", "ObjectCreated:Put"]])]))
    (invocation,) = invocations.values()

    assert item_of(TAG, invocation) is None


@pytest.mark.parametrize("record", [[], ["INSERT", 5, None], ["INSERT", None, "", 0, "12"], [None]])
def test_a_record_that_could_not_be_read_is_no_event_and_breaks_nothing(record: list[Any]) -> None:
    """The stages that take the log in have to go on: they also remove the copy."""
    begin = _begin("aws:dynamodb", [_stream(0), record])
    item = _item(begin, _line("t5", t5=T5, failed=["11"]))

    assert (item["n"], item["failed_from"]) == (1, 0)
