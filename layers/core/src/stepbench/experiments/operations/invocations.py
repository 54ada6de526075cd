"""How a Map got the invocations of a phase with `invoked` done: how many, in what time, and what they took."""

from __future__ import annotations

from datetime import datetime
from statistics import median
from typing import TYPE_CHECKING

from stepbench.analysis.windows import NS_PER_S
from stepbench.contracts.measures import InvocationsResult
from stepbench.records.storage.layout import attempt_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stepbench.contracts.plan import TrialPlan
    from stepbench.records.formats.columns import InvocationNote
    from stepbench.records.join.reader import TrialRecords

_NS_PER_MS = 1_000_000


def invocations_result(records: TrialRecords, phase: int) -> InvocationsResult | None:
    """Return what became of a phase's invocations; None of a phase that has none."""
    plan: TrialPlan = records.spec.offered
    load = plan.phases[phase].invoked
    if load is None:
        return None
    own = [file.header for file in records.files if file.header.phase == phase and file.header.invocation]
    notes = [header.invocation for header in own if header.invocation is not None]
    begun = {attempt_names(attempt) for attempt in records.started if attempt_names(attempt)[0] == phase}
    writers = {writer for _, writer, _, _ in begun}
    reuses = plan.workload is not None and plan.workload.reuse
    connecting_ns = [note.connecting_ns for note in notes if note.connections and reuses]
    return InvocationsResult(
        planned=plan.writers,
        begun=len(writers),
        recorded=len({header.writer for header in own}),
        tried_again=sum(number > 0 for *_, number in begun),
        operations_each=load.operations,
        map=load.map,
        at_once=plan.concurrency(phase),
        most_at_once=most_at_once((note.begin_ns, note.end_ns) for note in notes),
        wall_s=wall_s(notes),
        map_s=_map_s(records, phase),
        **_rates(notes),
        invocation_ms=_median_ms([note.end_ns - note.begin_ns for note in notes]),
        sandboxes=len({note.sandbox for note in notes}),
        cold_sandboxes=sum(note.cold for note in notes),
        cold_connections=len(connecting_ns) if reuses else None,
        connecting_ms=_median_ms(connecting_ns),
        recording_ms=recording_ms(notes),
    )


def wall_s(notes: Sequence[InvocationNote]) -> float | None:
    """Return the time from the first begin to the last end; None without any."""
    if not notes:
        return None
    return (max(note.end_ns for note in notes) - min(note.begin_ns for note in notes)) / NS_PER_S


def _map_s(records: TrialRecords, phase: int) -> float | None:
    """Return the time from when the phase was planned, right before its Map, to the Map's end; None if not noted."""
    ended = records.map_ends.get(phase)
    return None if ended is None else datetime.fromisoformat(ended).timestamp() - records.starts_ns[phase] / NS_PER_S


def most_at_once(spans_ns: Iterable[tuple[int, int]]) -> int:
    """Return how many of these spans of time overlap at one moment, at most."""
    edges = [edge for begin, end in spans_ns for edge in ((begin, 1), (end, -1))]
    most = now = 0
    for _, step in sorted(edges):
        now += step
        most = max(most, now)
    return most


def recording_ms(notes: Sequence[InvocationNote]) -> float | None:
    """
    Return what recording takes an invocation: the median of marking its begin, and that of storing its rows.

    An invocation stores its rows last, so that how long that took is known by the next one of the process only.
    """
    marking_ms = _median_ms([note.marking_ns for note in notes])
    storing_ms = _median_ms([note.stored_ns for note in notes if note.stored_ns is not None])
    return None if marking_ms is None else marking_ms + (marking_ms if storing_ms is None else storing_ms)


def _rates(notes: Sequence[InvocationNote]) -> dict[str, float | None]:
    rates = [NS_PER_S * note.acknowledged / note.operating_ns for note in notes if note.operating_ns]
    names = ("function_per_s", "slowest_per_s", "fastest_per_s")
    found = (median(rates), min(rates), max(rates)) if rates else (None, None, None)
    return dict(zip(names, found, strict=True))


def _median_ms(times_ns: Sequence[int]) -> float | None:
    return median(times_ns) / _NS_PER_MS if times_ns else None
