"""REPORT lines, which Lambda writes into a function's log group after every invocation."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from stepbench.contracts.base import Contract

if TYPE_CHECKING:
    from collections.abc import Iterable

PATTERN = '"REPORT RequestId"'
"""`filterPattern` of FilterLogEvents."""
_REQUEST = re.compile(r"^REPORT RequestId: (\S+)")
_FIELD = re.compile(r"\b(Duration|Billed Duration|Init Duration|Memory Size|Max Memory Used): ([\d.]+) (?:ms|MB)")


class ReportLine(Contract):
    """One invocation. `init_ms` only where it was a cold start (emulators do not say)."""

    request_id: str
    duration_ms: float
    billed_ms: float
    memory_mb: int
    max_memory_mb: int | None
    init_ms: float | None = None


class ReportPage(Contract):
    """What one page of FilterLogEvents held; stored as `logs/<function>/<slice>-<page>.json`."""

    function: str
    lines: tuple[ReportLine, ...]


class LogCollection(Contract):
    """How the collection ended; stored as `logs/collection.json`."""

    every: int
    """Of the receiver's minutes, every so many-th was read; 1 = all."""
    expected: int
    """Distinct request ids in the receivers' t4 items."""
    seen: int
    """Of those, how many have a REPORT line."""
    t4_expected: int = 0
    """Request ids of all t4 items that the trial's `log_t4` wants in the log."""
    t4_seen: int = 0
    """Of those, how many have a t4 line."""


def parse_report(message: str) -> ReportLine | None:
    """The line's numbers, or None for any other line."""
    request = _REQUEST.match(message)
    fields = {name: float(value) for name, value in _longest_names(message)}
    if request is None or "Duration" not in fields:
        return None
    return ReportLine(
        request_id=request[1],
        duration_ms=fields["Duration"],
        billed_ms=fields.get("Billed Duration", fields["Duration"]),
        memory_mb=int(fields.get("Memory Size", 0)),
        max_memory_mb=int(fields["Max Memory Used"]) or None if "Max Memory Used" in fields else None,
        init_ms=fields.get("Init Duration"),
    )


def parse_reports(events: Iterable[dict[str, Any]]) -> tuple[ReportLine, ...]:
    """The REPORT lines among the `events` of a FilterLogEvents answer."""
    found = (parse_report(event["message"]) for event in events)
    return tuple(line for line in found if line is not None)


def _longest_names(message: str) -> Iterable[tuple[str, str]]:
    # Fields are tab-separated, so "Billed Duration" is not also read as "Duration".
    for part in message.split("\t"):
        field = _FIELD.match(part.strip())
        if field is not None:
            yield field[1], field[2]
