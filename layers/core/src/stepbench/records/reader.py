"""Everything that a trial left in bucket and table, read back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stepbench.contracts.phase_documents import PhaseSchedule
from stepbench.contracts.tasks import TrialRef
from stepbench.load.slices import most_rows
from stepbench.records import layout
from stepbench.records.begun import begun_by_beats, begun_operations
from stepbench.records.grid import build_grid
from stepbench.records.join import join
from stepbench.records.stored import FileNote, Kept, StoredFiles, StoredItems

if TYPE_CHECKING:
    from stepbench.contracts.plan import TrialSpec
    from stepbench.records.items import Items
    from stepbench.records.joined import Joined
    from stepbench.records.run_store import RunStore
    from stepbench.records.trial_table import TrialTable

_SECOND_NS = 1_000_000_000


@dataclass(frozen=True)
class TrialRecords:
    """
    What was found.

    starts_ns: time zero of the phases that were planned. stops_ns: where phases ended that `until` ended before their
    schedule's end. started: attempts that were about to offer load. events: all of them, with what became of each.
    files, items: what is to be known of each column file and each t4 item. in_fallback: how many of the items the table
    had not taken. damaged: what does not decode, one message each; the events in it are unrecorded, or not arrived.
    kept: files and items whole, where the plan has a question to them that the columns do not answer.
    broken_off: the trial failed or was stopped, so that clients may have ended earlier than planned.
    """

    spec: TrialSpec
    starts_ns: dict[int, int]
    stops_ns: dict[int, int]
    started: frozenset[str]
    events: Joined
    files: tuple[FileNote, ...]
    items: Items
    in_fallback: int
    damaged: tuple[str, ...]
    kept: Kept
    broken_off: bool = False

    def joined(self) -> Joined:
        """What became of every scheduled event."""
        return self.events

    def offered_s(self, phase: int) -> float:
        """
        How long the phase was offered, in seconds: as planned, or to where it ended earlier.

        `until` ends a phase where it says; clients who have done all that they were to do, or whose trial was broken
        off, with their last answer.
        """
        planned_s = self.spec.plan.phases[phase].length_s
        if phase in self.stops_ns:
            return (self.stops_ns[phase] - self.starts_ns[phase]) / _SECOND_NS
        if phase not in self.starts_ns or not self._is_bounded(phase):
            return planned_s
        last_t2_ns = max((file.last_t2_ns for file in self.files if file.header.phase == phase), default=0)
        ended_s = (last_t2_ns + 1 - self.starts_ns[phase]) / _SECOND_NS  # the last answer lies inside
        return min(planned_s, ended_s) if ended_s > 0 else planned_s

    def at_most_rows(self, phase: int) -> bool:
        """Whether a writer offered all that `load.slices.most_rows` lets it, and then no more."""
        plan = self.spec.plan
        return plan.phases[phase].closed is not None and any(
            file.last_sequence + 1 >= most_rows(plan, phase, file.header.slice)
            for file in self.files
            if file.header.phase == phase
        )

    def _is_bounded(self, phase: int) -> bool:
        closed = self.spec.plan.phases[phase].closed
        return closed is not None and (self.broken_off or closed.operations is not None or self.at_most_rows(phase))


def ref_of(spec: TrialSpec) -> TrialRef:
    """The trial's reference."""
    return TrialRef(run_id=spec.run_id, trial=spec.index, tag=spec.tag)


def read_records(spec: TrialSpec, runs: RunStore, table: TrialTable, *, details: bool = False) -> TrialRecords:
    """
    Read a trial's schedule, rows and arrivals, and join them while reading.

    Column files are found by listing the bucket, since the pointer in the table is written after the file. Those of
    closed loop are read twice: before it is known what was begun, its operations have no numbers.

    Args:
        spec: the trial.
        runs: where its files are.
        table: where its arrivals are.
        details: whether to keep of each arrival what only the export needs.

    Raises:
        AccountingError: the records contradict each other.
        RecordsUnavailableError: bucket or table do not answer.
    """
    starts_ns, stops_ns = planned_starts(spec, runs), _stops(spec, table)
    kept = Kept.of(spec)
    files, arrivals = StoredFiles(ref_of(spec), runs, kept), StoredItems(ref_of(spec), runs, table, kept)
    begun = _begun(spec, table)
    operations = begun_operations(spec.plan, starts_ns, files, begun) if _is_closed(spec) else None
    started = frozenset(table.started(spec.tag))
    events = join(
        build_grid(spec.plan, starts_ns, operations),
        started,
        files,
        arrivals,
        round(spec.plan.drain_limit_s * _SECOND_NS),
        stops_ns=stops_ns,
        details=details,
        notes=arrivals.notes,
    )
    return TrialRecords(
        spec=spec,
        starts_ns=starts_ns,
        stops_ns=stops_ns,
        started=started,
        events=events,
        files=tuple(files.notes.values()),
        items=arrivals.notes,
        in_fallback=arrivals.in_fallback,
        damaged=(*arrivals.damaged, *files.damaged.values()),
        kept=kept,
    )


def planned_starts(spec: TrialSpec, runs: RunStore) -> dict[int, int]:
    """Time zero, ns, of the phases that `PlanPhase` has planned."""
    ref = ref_of(spec)
    found = {
        phase: runs.find_model(layout.phase_key(ref, phase, "plan.json"), PhaseSchedule)
        for phase in range(len(spec.plan.phases))
    }
    return {phase: schedule.start_at_ns for phase, schedule in found.items() if schedule is not None}


def _stops(spec: TrialSpec, table: TrialTable) -> dict[int, int]:
    """Where phases with `until` ended; no request where there is none."""
    return table.stops_ns(spec.tag) if any(phase.until for phase in spec.plan.phases) else {}


def _is_closed(spec: TrialSpec) -> bool:
    return any(phase.closed for phase in spec.plan.phases)


def _begun(spec: TrialSpec, table: TrialTable) -> dict[str, int]:
    """No request where nothing is closed loop."""
    return begun_by_beats(table.beats(spec.tag)) if _is_closed(spec) else {}


def count_malformed(store: str, runs: RunStore, table: TrialTable, from_ns: int, to_ns: int) -> int:
    """Deliveries that named nothing, or not even a store, while the trial held its target."""
    count = 0
    for name in (store, layout.UNKNOWN_STORE):
        prefix = layout.malformed_fallback_prefix(name)
        in_bucket = (key.removeprefix(prefix).removesuffix(".txt") for key in runs.keys(prefix))
        found = {each for each in in_bucket if from_ns <= int(each.split("-")[0]) <= to_ns}
        # One can be in both places: the table took it, and the answer was lost.
        found.update(str(item["sk"]).replace("#", "-") for item in table.malformed(name, from_ns, to_ns))
        count += len(found)
    return count


def find_provider(ref: TrialRef, runs: RunStore) -> tuple[str | None, bool | None]:
    """What serves the store and whether it is emulated, as PrepareTarget noted it; None where it did not get there."""
    document = runs.find_json(layout.trial_key(ref, "provider.json"))
    if document is None:
        return None, None
    return str(document["provider"]), bool(document["emulated"])
