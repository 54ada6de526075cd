"""How fast a Map got its invocations done, window by window: as a sentence, and as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench import digits
from stepbench.report import document as doc
from stepbench.report import numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.contracts.measures import InvocationsResult
    from stepbench.report.run import WindowRow

_HEADINGS = (
    "Invocations",
    "At once",
    "Wall time",
    "Map",
    "Together",
    "One function",
    "Invocation",
    "Recording",
    doc.Column("Cold", label="Cold sandboxes", short="cold sandboxes"),
    "Connected",
)


def describe_invocations(found: InvocationsResult) -> str:
    """Describe them: `by 60 invocations, 5 at once, one function 107/s`; what is missing of them is said first."""
    lacking = found.planned - found.recorded
    done = f"by {digits.counted(found.recorded, 'invocation')}, {digits.count(found.at_once)} at once"
    alone = f", one function {digits.throughput(found.function_per_s)}" if found.function_per_s else ""
    return f"{done}{f' ({digits.count(lacking)} left no record)' if lacking else ''}{alone}"


def invocations_table(measured: Sequence[WindowRow]) -> doc.Table:
    """Return a row for each window with invocations."""
    caption = (
        "Invocations that a Map began as fast as max_concurrency let it, none of them held ready. At once: allowed, "
        "and seen by their own times. Wall time: from the first one's begin to the last one's end; Map: from when its "
        "items were made, before they were stored, to its own end, by Step Functions. Together: all acknowledged "
        "operations over the wall time. One function: its own over the time from its first send to its last answer, "
        "the median, and the slowest and the fastest. Invocation: from its begin until its rows are packed. Recording "
        "lies inside the wall time, and outside of one function's rate. Cold: invocations that were their sandbox's "
        "first. Connected: such as had to before their operations, and the median of what that took them; without "
        "reuse each operation does."
    )
    rows = tuple(_row(row) for row in measured if row.window.operations and row.window.operations.invocations)
    return doc.Table("invocations", caption, doc.columns("Trial", *_HEADINGS), doc.body(rows))


def _row(row: WindowRow) -> doc.Row:
    operations = row.window.operations
    found = operations.invocations if operations else None
    if operations is None or found is None:
        return doc.Row(doc.Cell(row.label), ())
    each = f", {digits.count(found.operations_each)} operations each" if found.operations_each > 1 else ""
    notes = [f"{found.map} Map{each}"]
    if found.tried_again:
        notes.append(f"{digits.count(found.tried_again)} tried again")
    if row.window.unsent:
        notes.append(f"{digits.counted(row.window.unsent, 'operation')} not begun")
    done, per_s = f"{digits.count(found.recorded)} of {digits.count(found.planned)}", operations.per_wall_s
    cells = (
        numbers.value("recorded", found.recorded, done, planned=found.planned, begun=found.begun),
        numbers.value("most_at_once", found.most_at_once, f"{found.at_once}, {found.most_at_once}"),
        _seconds("wall_s", found.wall_s),
        _seconds("map_s", found.map_s),
        numbers.value("per_wall_s", per_s, digits.throughput(per_s) if per_s else digits.NONE),
        numbers.value("function_per_s", found.function_per_s, _of_functions(found)),
        numbers.time("invocation_ms", found.invocation_ms),
        numbers.time("recording_ms", found.recording_ms),
        numbers.number("cold_sandboxes", found.cold_sandboxes),
        numbers.value("cold_connections", found.cold_connections, _connected(found), median_ms=found.connecting_ms),
    )
    return doc.Row(doc.head(row.label, row.trial, "; ".join(notes)), cells, doc.of_window(row))


def _seconds(metric: str, value_s: float | None) -> doc.Cell:
    return numbers.value(metric, value_s, digits.NONE if value_s is None else f"{digits.rounded(value_s)} s", unit="s")


def _connected(found: InvocationsResult) -> doc.Text:
    count = digits.count(found.cold_connections)
    if not found.cold_connections or found.connecting_ms is None:
        return count
    return (count, " ", doc.Span(digits.latency(found.connecting_ms), "interval"))


def _of_functions(found: InvocationsResult) -> doc.Text:
    if found.function_per_s is None or found.slowest_per_s is None or found.fastest_per_s is None:
        return digits.NONE
    ends = f"{digits.rate(found.slowest_per_s)} to {digits.rate(found.fastest_per_s)}"
    return (digits.throughput(found.function_per_s), " ", doc.Span(ends, "interval"))
