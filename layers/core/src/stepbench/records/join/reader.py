"""Everything that a trial left in bucket and table, read back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from stepbench.contracts.experiment import traits_of
from stepbench.contracts.phase import PhaseSchedule
from stepbench.records.formats.deliveries import T3_RESOLUTION_NS, UNKNOWN_STORE
from stepbench.records.join.arrivals import WatchGap, find_watch_gaps
from stepbench.records.join.grid import build_grid
from stepbench.records.join.sent import Attempts, attempt_of
from stepbench.records.join.trial import join
from stepbench.records.storage import layout
from stepbench.records.storage.stored import FileNote, RetainedRecords, StoredFiles, StoredItems
from stepbench.records.storage.watch_log import read_watches
from stepbench.workload.arrivals import SLICE_NS, most_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from stepbench.contracts.plan import TrialPlan, TrialSpec
    from stepbench.records.formats.columns import ColumnFile
    from stepbench.records.formats.t4_items import ItemColumns
    from stepbench.records.join.grid import StartedOperations
    from stepbench.records.join.joined import Joined
    from stepbench.records.storage.run_store import RunStore
    from stepbench.records.storage.trial_table import TrialTable

    _Due = tuple[NDArray[np.int64], NDArray[np.int64]]
    """Sequence numbers and t0 of one file's rows."""

_SECOND_NS = 1_000_000_000


@dataclass(frozen=True)
class TrialRecords:
    """
    Everything that was found of a trial.

    starts_ns: time zero of the phases that were planned. stops_ns: where phases ended that `until` ended before their
    schedule's end. started: attempts that were about to offer load. joined: what became of every scheduled event.
    files, items: what is to be known of each column file and each t4 item. in_fallback: how many of the items the table
    had not taken. damaged: column files that do not decode, one message each: the events in them are unrecorded.
    damaged_items: t4 items of which the same is true: the events in them have not arrived, as far as anybody knows.
    retained: files and items whole, where the plan has a question to them that the columns do not answer.
    watch_gaps: spans in which nobody watched.
    map_ends: when Maps of invocations had ended, by phase, in ISO 8601.
    broken_off: the trial failed or was stopped, so that clients may have ended earlier than planned.
    """

    spec: TrialSpec
    starts_ns: dict[int, int]
    stops_ns: dict[int, int]
    started: frozenset[str]
    joined: Joined
    files: tuple[FileNote, ...]
    items: ItemColumns
    in_fallback: int
    damaged: tuple[str, ...]
    damaged_items: tuple[str, ...]
    retained: RetainedRecords
    watch_gaps: tuple[WatchGap, ...] = ()
    map_ends: Mapping[int, str] = field(default_factory=dict)
    broken_off: bool = False

    def offered_s(self, phase: int) -> float:
        """
        Return how long the phase was offered, in seconds: as planned, or to where it ended earlier.

        `until` ends a phase where it says; clients who have done all that they were to do, or whose trial was broken
        off, with their last answer.
        """
        planned_s = self.spec.offered.phases[phase].length_s
        if phase in self.stops_ns:
            return (self.stops_ns[phase] - self.starts_ns[phase]) / _SECOND_NS
        if phase not in self.starts_ns or not self._is_bounded(phase):
            return planned_s
        last_ns = max((file.last_t2_ns for file in self.files if file.header.phase == phase), default=0)
        if traits_of(self.spec.plan.experiment).completes:  # what was started ends with its arrival
            last_ns = max(last_ns, int(self.joined.of_phase(phase).t4_ns.max(initial=0)))
        ended_s = (last_ns + 1 - self.starts_ns[phase]) / _SECOND_NS  # the last answer lies inside
        return min(planned_s, ended_s) if ended_s > 0 else planned_s

    def at_most_rows(self, phase: int) -> bool:
        """Return whether a writer offered all that `workload.arrivals.most_rows` lets it, and then no more."""
        plan = self.spec.offered
        return plan.phases[phase].closed is not None and any(
            file.last_sequence + 1 >= most_rows(plan, phase, file.header.slice)
            for file in self.files
            if file.header.phase == phase
        )

    def _is_bounded(self, phase: int) -> bool:
        planned = self.spec.offered.phases[phase]
        return not planned.is_open and (self.broken_off or planned.offers_number or self.at_most_rows(phase))


def read_records(spec: TrialSpec, runs: RunStore, table: TrialTable, *, details: bool = False) -> TrialRecords:
    """
    Read a trial's schedule, rows and arrivals, and join them while reading.

    Column files are found by listing the bucket, since the pointer in the table is written after the file. Those of
    closed loop are read twice: before it is known what was started, its operations have no numbers.

    Args:
        spec: the trial.
        runs: where its files are.
        table: where its arrivals are.
        details: whether to keep of each arrival what only the export needs.

    Raises:
        AccountingError: the records contradict each other.
        RecordsUnavailableError: bucket or table do not answer.
    """
    starts_ns, retained = planned_starts(spec, runs), RetainedRecords.of(spec)
    stops_ns = table.stops_ns(spec.tag) if any(map(spec.may_end_early, range(len(spec.offered.phases)))) else {}
    invokes = any(phase.invoked for phase in spec.offered.phases)
    files = StoredFiles(spec.ref, runs, retained, table if invokes else None)
    arrivals = StoredItems(spec.ref, runs, table, retained)
    operations, started = None, frozenset(table.started(spec.tag))
    if not all(phase.is_open for phase in spec.offered.phases):
        counts = started_by_heartbeats(table.beats(spec.tag))
        counts |= _operations_of_invocations(spec.offered, starts_ns, started)
        operations = find_started_operations(spec.offered, starts_ns, files, counts)
    gaps = find_watch_gaps(read_watches(table, spec.tag)) if spec.offered.pull else ()
    joined = join(
        build_grid(spec.offered, starts_ns, operations),
        started,
        files,
        arrivals,
        round(spec.offered.drain_limit_s * _SECOND_NS),
        stops_ns=stops_ns,
        details=details,
        event_times=details or bool(event_time_resolution_ns(spec)),
        batches=spec.offered.target.delivers_batches,
        processing=spec.offered.target.function is not None,
        by_order=_tries_by_order(spec),
        notes=arrivals.notes,
        gaps=gaps,
    )
    return TrialRecords(
        spec=spec,
        starts_ns=starts_ns,
        stops_ns=stops_ns,
        started=started,
        joined=joined,
        files=tuple(files.notes.values()),
        items=arrivals.notes,
        in_fallback=arrivals.in_fallback,
        damaged=tuple(files.damaged.values()),
        damaged_items=tuple(arrivals.damaged),
        retained=retained,
        watch_gaps=gaps,
        map_ends=table.map_ends(spec.tag) if invokes else {},
    )


def _tries_by_order(spec: TrialSpec) -> int | None:
    """Return `join`'s argument of that name: Lambda gives a stream's retries new request ids."""
    target = spec.offered.target
    if target.function is None or target.function.times != "platform":
        return None
    return target.attempts if target.delivers_batches else 0


def event_time_resolution_ns(spec: TrialSpec) -> int:
    """Return the resolution of t3, in ns, that the trial's trigger reports of each event; 0 where there is none."""
    return T3_RESOLUTION_NS.get(spec.plan.target.store, 0) if traits_of(spec.plan.experiment).by_trigger else 0


def planned_starts(spec: TrialSpec, runs: RunStore) -> dict[int, int]:
    """Return time zero, ns, of the phases that `PlanPhase` has planned."""
    ref = spec.ref
    found = {
        phase: runs.find_model(layout.phase_key(ref, phase, "plan.json"), PhaseSchedule)
        for phase in range(len(spec.offered.phases))
    }
    return {phase: schedule.start_at_ns for phase, schedule in found.items() if schedule is not None}


def count_malformed(store: str, runs: RunStore, table: TrialTable, from_ns: int, to_ns: int) -> int:
    """Count deliveries that named nothing, or not even a store, while the trial held its target."""
    count = 0
    for name in (store, UNKNOWN_STORE):
        prefix = layout.malformed_fallback_prefix(name)
        in_bucket = (key.removeprefix(prefix).removesuffix(".txt") for key in runs.keys(prefix))
        found = {each for each in in_bucket if from_ns <= int(each.split("-")[0]) <= to_ns}
        # One can be in both places: the table took it, and the answer was lost.
        found.update(str(item["sk"]).replace("#", "-") for item in table.malformed(name, from_ns, to_ns))
        count += len(found)
    return count


_WRITER = "writer#"


def started_by_heartbeats(beats: Mapping[str, Mapping[str, object]]) -> dict[str, int]:
    """Return how many operations each attempt of a writer had started at its last sign of life, by the attempt's id."""
    started = {}
    for who, beat in beats.items():
        progress = beat.get("progress")
        if who.startswith(_WRITER) and isinstance(progress, dict):
            started[who.removeprefix(_WRITER)] = int(progress.get("planned", 0))
    return started


def _operations_of_invocations(plan: TrialPlan, planned: Iterable[int], started: Iterable[str]) -> dict[str, int]:
    """
    Return how many operations each attempt at an invocation had, by the attempt's id: all that it was to do.

    One that has begun and recorded nothing may have done them; one that never came has not sent them.
    """
    found: dict[str, int] = {}
    for phase in planned:
        if (load := plan.phases[phase].invoked) is None:
            continue
        begun = [attempt for attempt in started if layout.attempt_names(attempt)[0] == phase]
        absent = set(range(plan.writers)) - {layout.attempt_names(attempt)[1] for attempt in begun}
        attempts = [*begun, *(layout.attempt_id(phase, writer, 0, 0) for writer in absent)]
        found |= dict.fromkeys(attempts, load.operations)
    return found


def find_started_operations(
    plan: TrialPlan, starts_ns: Mapping[int, int], files: Iterable[ColumnFile], started: Mapping[str, int]
) -> StartedOperations:
    """
    Find when each operation of closed loop was due.

    A writer's last sign of life says how many it had started; its rows may say more. An operation without a row is
    taken to have been due with the one before it, or else at its slice's beginning.

    Args:
        plan: the trial's.
        starts_ns: phase to its time zero, for the phases that were planned.
        files: all column files, in any order; gone through once.
        started: operations by attempt, as far as is known; of an attempt that ended in good order its rows say it all.
    """
    attempts = Attempts()
    by_attempt: dict[str, list[_Due]] = {attempt: [] for attempt in started}
    for file in files:
        attempts.add(file.header)
        if not plan.phases[file.header.phase].is_open:
            by_attempt.setdefault(attempt_of(file.header), []).append((file.rows.sequence, file.rows.t0_ns))
    whole = attempts.whole()
    operations: dict[tuple[int, int, int], dict[int, NDArray[np.int64]]] = {}
    for attempt in sorted(by_attempt):
        phase, writer, slice_, number = layout.attempt_names(attempt)
        if phase not in starts_ns or plan.phases[phase].is_open:
            continue
        count = 0 if attempt in whole else started.get(attempt, 0)
        due_ns = _due_ns(by_attempt.pop(attempt), count, starts_ns[phase] + slice_ * SLICE_NS)
        operations.setdefault((phase, writer, slice_), {})[number] = due_ns
    return operations


def _due_ns(rows: Sequence[_Due], started: int, slice_start_ns: int) -> NDArray[np.int64]:
    count = max([started, *(int(sequence.max(initial=-1)) + 1 for sequence, _ in rows)])
    due_ns = np.full(count, slice_start_ns, dtype=np.int64)
    known = np.zeros(count, dtype=np.int64)
    for sequence, t0_ns in rows:
        due_ns[sequence] = t0_ns
        known[sequence] = sequence
    filled: NDArray[np.int64] = due_ns[np.maximum.accumulate(known)]
    return filled
