"""Lambda's own lines of an invocation, and the t4 items that are made of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from stepbench.records.formats.platform_lines import (
    PlatformLines,
    PlatformReport,
    PlatformStart,
    parse_platform_line,
    platform_item,
)
from stepbench.records.formats.second_sources import parse_report
from stepbench.records.formats.t4_items import parse_item

if TYPE_CHECKING:
    from stepbench.records.formats.function_lines import Invocation

TAG, REQUEST = "abcdefghij-0001", "40f6c622-67a3-4159-97f2-ce364a0cb7a8"
AT_MS = 1_718_645_035_826
AT_NS = AT_MS * 1_000_000
METRICS = {"durationMs": 18.593, "billedDurationMs": 19, "memorySizeMB": 2048, "maxMemoryUsedMB": 246}


def _line(kind: str, ms: int = 826, **record: Any) -> str:  # noqa: ANN401 -- JSON
    fields = {"requestId": REQUEST, **record}
    return json.dumps({"time": f"2024-06-17T17:23:55.{ms:03d}Z", "type": f"platform.{kind}", "record": fields})


def _report(ms: int = 845, **record: Any) -> str:  # noqa: ANN401 -- JSON
    return _line("report", ms, **{"metrics": METRICS, "status": "success", **record})


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (_line("start", version="$LATEST"), PlatformStart(REQUEST, AT_NS)),
        (_report(826), PlatformReport(REQUEST, AT_NS, 18_593_000, None, "")),
        (
            _report(826, metrics={**METRICS, "initDurationMs": 463.512}),
            PlatformReport(REQUEST, AT_NS, 18_593_000, 463_512_000, ""),
        ),
        (_report(826, status="timeout"), PlatformReport(REQUEST, AT_NS, 18_593_000, None, "Sandbox.Timedout")),
        (
            _report(826, status="error", errorType="Runtime.ExitError"),
            PlatformReport(REQUEST, AT_NS, 18_593_000, None, "Runtime.ExitError"),
        ),
        (_report(826, status="failure"), PlatformReport(REQUEST, AT_NS, 18_593_000, None, "failure")),
        (f"START RequestId: {REQUEST} Version: $LATEST", PlatformStart(REQUEST, AT_NS)),
        (
            f"REPORT RequestId: {REQUEST}\tDuration: 12.10 ms\tBilled Duration: 13 ms\tInit Duration: 203.12 ms\t",
            PlatformReport(REQUEST, AT_NS, 12_100_000, 203_120_000, ""),
        ),
        (
            f"REPORT RequestId: {REQUEST}\tDuration: 3000.00 ms\tStatus: timeout",
            PlatformReport(REQUEST, AT_NS, 3_000_000_000, None, "Sandbox.Timedout"),
        ),
    ],
)
def test_both_forms_of_both_lines_are_read(message: str, expected: PlatformStart | PlatformReport) -> None:
    """As Lambda writes them: JSON has its own time, text the log event's."""
    assert parse_platform_line(message, AT_MS) == expected


@pytest.mark.parametrize(
    "message",
    [
        f"END RequestId: {REQUEST}",
        "INIT_START Runtime Version: python:3.12.v1",
        _line("initStart"),
        _line("runtimeDone", status="success"),
        "{",
        '{"type":"platform.start"}',
        '{"type":"platform.start","time":"yesterday","record":{"requestId":"r"}}',
        '{"type":"platform.start","time":"2024-06-17T17:23:55","record":{"requestId":"r"}}',
        '{"type":"platform.report","time":"2024-06-17T17:23:55.826Z","record":{"requestId":"r"}}',
        '["platform.start"]',
        "what the function prints",
    ],
)
def test_all_other_lines_are_passed_over(message: str) -> None:
    """A function prints what it likes, also what looks alike."""
    assert parse_platform_line(message, AT_MS) is None
    assert parse_report(message) is None


def test_a_report_as_json_has_the_numbers_of_the_text() -> None:
    """The bill is made of it, whatever the format."""
    found = parse_report(
        _report(metrics={**METRICS, "initDurationMs": 10}, status="error", errorType="Runtime.OutOfMemory")
    )
    assert found is not None
    assert (found.billed_ms, found.memory_mb, found.max_memory_mb) == (19, 2_048, 246)
    assert (found.init_ms, found.failure) == (10, "Runtime.OutOfMemory")
    assert parse_report(_report(status="error", errorType="ValueError")).failure == ""  # type: ignore[union-attr]


class Copy:
    """The invocations of a copy, of which looks at its log show some."""

    def __init__(self) -> None:
        self.open: dict[str, Invocation] = {}
        self.done: set[str] = set()

    def look(self, *messages: str) -> list[str]:
        """Merge what one look shows; return the keys of what changed."""
        lines = PlatformLines(TAG, self.open, self.done)
        changed = [key for message in messages for key in lines.merge(AT_MS, message)]
        for key in [key for key in changed if self.open[key].whole]:
            self.done.add(key)
        return changed

    def item(self, key: str) -> dict[str, Any]:
        """Return the item of an invocation."""
        item = platform_item(self.open[key])
        assert item is not None
        return item


def test_an_invocation_is_an_item_that_only_its_request_names() -> None:
    """Joined and counted as any other; which event it was of is found later."""
    copy = Copy()
    key = copy.look(_line("start"), _report(metrics={**METRICS, "initDurationMs": 5}))[-1]
    item = parse_item({**copy.item(key), "sk": key})
    assert key == f"{REQUEST}#{AT_NS:020d}"
    assert (item.tokens, item.arrivals, item.batch, item.cold, item.init_ns) == ((REQUEST,), 1, 1, True, 5_000_000)
    assert item.run is not None
    assert (item.run.t4_ns, item.run.t5_ns, item.run.failed_from) == (AT_NS, AT_NS + 18_593_000, 1)


def test_what_has_not_ended_is_there_and_not_processed() -> None:
    """Killed with its sandbox, or still running: its start is known."""
    copy = Copy()
    (key,) = copy.look(_line("start"))
    assert (copy.item(key)["t5_ns"], copy.item(key)["failed_from"]) == (0, 0)
    assert copy.look(_line("start")) == []
    assert copy.look(_report()) == [key]
    assert copy.item(key)["failed_from"] == 1


def test_a_report_is_of_the_last_try_that_began_before_it() -> None:
    """Retries of an asynchronous invocation have the request id of the first."""
    copy = Copy()
    first, second = copy.look(_line("start", 100), _line("start", 500), _report(119, status="error", errorType="E"))[:2]
    copy.look(_report(519))
    items = [copy.item(key) for key in (first, second)]
    assert [item["error"] for item in items] == ["E", ""]
    assert [item["failed_from"] for item in items] == [0, 1]


def test_a_report_before_its_start_waits_for_the_next_look() -> None:
    """Lines become readable out of order, and each look begins before where the last one ended."""
    copy = Copy()
    assert copy.look(_report()) == []
    assert len(copy.look(_line("start"), _report())) == 2
