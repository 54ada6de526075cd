"""REPORT lines, which Lambda writes into a function's log group after every invocation."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from stepbench.contracts.base import Contract

if TYPE_CHECKING:
    from collections.abc import Iterable

PATTERN = '"REPORT RequestId"'
"""`filterPattern` of FilterLogEvents."""
_MS_MB_PER_GB_S = 1_000 * 1_024
_REQUEST = re.compile(r"^REPORT RequestId: (\S+)")
_FAILURE = re.compile(r"\tStatus: (?:error\tError Type: )?(timeout|\S+\.\S+)")
_FIELD = re.compile(r"\b(Duration|Billed Duration|Init Duration|Memory Size|Max Memory Used): ([\d.]+) (?:ms|MB)")


class ReportLine(Contract):
    """
    One invocation. `init_ms` only where it was a cold start, `failure` only where Lambda ended it (not by emulators).

    failure: `timeout`, or an error type such as `Runtime.OutOfMemory`.
    """

    request_id: str
    duration_ms: float
    billed_ms: float
    memory_mb: int
    max_memory_mb: int | None
    init_ms: float | None = None
    failure: str = ""

    @property
    def gb_s(self) -> float:
        """Return the billed time times the memory, in GB-seconds."""
        return self.billed_ms * self.memory_mb / _MS_MB_PER_GB_S


class ReportPage(Contract):
    """The content of one page of FilterLogEvents; stored as `logs/<function>/<slice>-<page>.json`."""

    function: str
    lines: tuple[ReportLine, ...]


class LogCollection(Contract):
    """The end of a collection; stored as `logs/collection.json`."""

    every: int
    """Every so many-th of the receiver's minutes was read; 1 = all."""
    expected: int
    """Distinct request ids in the receivers' t4 items."""
    seen: int
    """So many of the expected ids have a REPORT line."""
    t4_expected: int = 0
    """Request ids of all t4 items that the trial's `log_t4` wants in the log."""
    t4_seen: int = 0
    """So many of these ids have a t4 line."""
    calls: int = 1
    """How often CollectLogs was called."""
    shared: bool = False
    """Another run held a target between the trial's lease and the collection's end: it is in the same logs."""
    others: tuple[str, ...] = ()
    """In place of `shared`, of earlier versions: those runs."""


def parse_report(message: str) -> ReportLine | None:
    """Parse the line's numbers; return None for any other line."""
    request = _REQUEST.match(message)
    # Fields are tab-separated, so "Billed Duration" is not also read as "Duration".
    found = (_FIELD.match(part.strip()) for part in message.split("\t"))
    fields = {field[1]: float(field[2]) for field in found if field is not None}
    if request is None or "Duration" not in fields:
        return None
    return ReportLine(
        request_id=request[1],
        duration_ms=fields["Duration"],
        billed_ms=fields.get("Billed Duration", fields["Duration"]),
        memory_mb=int(fields.get("Memory Size", 0)),
        max_memory_mb=int(fields["Max Memory Used"]) or None if "Max Memory Used" in fields else None,
        init_ms=fields.get("Init Duration"),
        failure=failure[1] if (failure := _FAILURE.search(message)) else "",
    )


def parse_reports(events: Iterable[dict[str, Any]]) -> tuple[ReportLine, ...]:
    """Parse the REPORT lines among the `events` of a FilterLogEvents answer."""
    found = (parse_report(event["message"]) for event in events)
    return tuple(line for line in found if line is not None)
