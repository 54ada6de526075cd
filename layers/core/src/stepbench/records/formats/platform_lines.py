"""
What Lambda itself logs of each invocation, read into t4 items. Pure.

Where neither a layer nor the function says when it runs, two lines do: START, at t4, and REPORT, with the duration up
to t5. As JSON they have their own time; as text it is the log event's. Both are in whole milliseconds. They name an
invocation and no event, so an item has the request id in place of an identity (`records.join.pairing`).

Source:
    AWS Lambda's developer guide, "Configuring JSON and plain text log formats" and "Log-level filtering": at the level
    INFO both lines are written.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from stepbench.contracts.identity import UNRESOLVED_PHASE
from stepbench.records.formats.function_lines import Begin, End, Invocation
from stepbench.records.formats.second_sources import parse_report
from stepbench.records.formats.t4 import FUNCTION, Entry, pack

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

RESOLUTION_NS = 1_000_000
"""Of either line's time."""
TIMED_OUT = "Sandbox.Timedout"
"""Lambda's name for an invocation that it has ended at its time-out."""
_START = re.compile(r"START RequestId: (\S+)")
_MS_NS = 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SUCCESS = "success"


class PlatformStart(NamedTuple):
    """An invocation begins: its sandbox is there, and has the event."""

    request: str
    at_ns: int


class PlatformReport(NamedTuple):
    """An invocation has ended. init_ns: None if its sandbox had been there before. error: its type; "" = none."""

    request: str
    at_ns: int
    duration_ns: int
    init_ns: int | None
    error: str


def parse_platform_line(message: str, timestamp_ms: int) -> PlatformStart | PlatformReport | None:
    """Return what a line of the log says; None for any line that is not Lambda's own. `timestamp_ms`: the event's."""
    if message.startswith("{"):
        return _parse_json(message)
    if started := _START.match(message):
        return PlatformStart(started[1], timestamp_ms * _MS_NS)
    report = parse_report(message)
    if report is None:
        return None
    error = TIMED_OUT if report.failure == "timeout" else report.failure
    init_ns = None if report.init_ms is None else round(report.init_ms * _MS_NS)
    return PlatformReport(report.request_id, timestamp_ms * _MS_NS, round(report.duration_ms * _MS_NS), init_ns, error)


def _parse_json(message: str) -> PlatformStart | PlatformReport | None:
    try:
        line = json.loads(message)
        kind, record = line["type"], line["record"]
        if kind not in {"platform.start", "platform.report"}:
            return None
        request, at_ns = str(record["requestId"]), _time_ns(line["time"])
        if kind == "platform.start":
            return PlatformStart(request, at_ns)
        metrics, status = record["metrics"], str(record.get("status", _SUCCESS))
        init_ns = round(metrics["initDurationMs"] * _MS_NS) if "initDurationMs" in metrics else None
        return PlatformReport(request, at_ns, round(metrics["durationMs"] * _MS_NS), init_ns, _error(status, record))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None  # the function's own, whatever it looks like


def _time_ns(text: str) -> int:
    since = datetime.fromisoformat(text) - _EPOCH
    return round(since.total_seconds() * 1_000) * _MS_NS


def _error(status: str, record: Mapping[str, Any]) -> str:
    if status == _SUCCESS:
        return ""
    return str(record.get("errorType") or (TIMED_OUT if status == "timeout" else status))


class PlatformLines:
    """
    The invocations of a copy, to which its lines are added one after the other, in the order of their times.

    A report has no time of its invocation's start. It is of the last one of its request that began before it; one that
    comes before that start's line is passed over, since the next look shows it again.

    Args:
        tag: the trial's.
        invocations: those of which something is to come, by their keys; changed.
        done: keys of the others that may be shown again.
    """

    def __init__(self, tag: str, invocations: dict[str, Invocation], done: Iterable[str]) -> None:
        self._tag, self._invocations = tag, invocations
        self._begun: dict[str, set[int]] = {}
        for key in (*invocations, *done):
            request, _, at_ns = key.rpartition("#")
            self._begun.setdefault(request, set()).add(int(at_ns))

    def merge(self, timestamp_ms: int, message: str) -> Iterator[str]:
        """Add a log event; yield the key of the invocation that it has changed, if there is one."""
        match parse_platform_line(message, timestamp_ms):
            case PlatformStart(request, at_ns) if at_ns not in self._begun.get(request, ()):
                begin = Begin(trial=self._tag, request=request, t4=at_ns, sandbox="", batch=0)
                self._begun.setdefault(request, set()).add(at_ns)
                self._invocations[begin.key] = Invocation(begin=begin)
                yield begin.key
            case PlatformReport() as report:
                starts = self._begun.get(report.request, ())
                at_ns = max((each for each in starts if each <= report.at_ns + RESOLUTION_NS), default=-1)
                key = f"{report.request}#{at_ns:020d}"
                if key in self._invocations:
                    self._invocations[key] = _ended(self._invocations[key], report)
                    yield key


def _ended(invocation: Invocation, report: PlatformReport) -> Invocation:
    begin = invocation.begin
    if begin is None:
        return invocation
    cold = report.init_ns is not None
    end = End(
        trial=begin.trial, request=begin.request, t4=begin.t4, t5=begin.t4 + report.duration_ns, error=report.error
    )
    return Invocation(begin=begin.model_copy(update={"cold": cold, "init_ns": report.init_ns or 0}), end=end)


def platform_item(invocation: Invocation) -> dict[str, Any] | None:
    """Return the t4 item of an invocation: one arrival, which only its request id names."""
    begin, end = invocation.begin, invocation.end
    if begin is None:
        return None
    ended_well = end is not None and not end.error
    return {
        "n": 1,
        "entries": pack([Entry(UNRESOLVED_PHASE, 0, 0, 0, 0, 0, begin.t4)]),
        "tokens": [begin.request],
        "ignored": 0,
        "sandbox": begin.sandbox,
        "cold": begin.cold,
        "init_ns": begin.init_ns,
        "batch": 1,
        "source": FUNCTION,
        "t3_resolution_ns": 0,
        "t5_ns": end.t5 if end else 0,
        "failed_from": 1 if ended_well else 0,
        "error": end.error if end else "",
    }
