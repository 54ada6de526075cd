"""Everything that a trial left in bucket and table, read back."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stepbench.contracts.tasks import PhaseSchedule, TrialRef
from stepbench.errors import CorruptRecordsError
from stepbench.load.slices import most_rows
from stepbench.records import layout
from stepbench.records.begun import begun_by_beats, begun_operations
from stepbench.records.columns import ColumnFile, decode
from stepbench.records.grid import Grid, build_grid
from stepbench.records.join import Joined, join
from stepbench.records.sent import whole_attempts
from stepbench.records.t4 import T4Item, decode_fallback, parse_item

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from stepbench.contracts.plan import TrialSpec
    from stepbench.records.run_store import RunStore
    from stepbench.records.trial_table import TrialTable

_PARALLEL_READS = 16
_SECOND_NS = 1_000_000_000


@dataclass(frozen=True)
class TrialRecords:
    """
    What was found.

    starts_ns: time zero of the phases that were planned. stops_ns: where phases ended that `until` ended before their
    schedule's end. started: attempts that were about to offer load. begun: of closed loop, how many operations each
    attempt had begun at its last sign of life, unless it ended in good order.
    in_fallback: how many of `items` the table had not taken. damaged: what does not decode, one message each; the
    events in it are unrecorded, or not arrived.
    broken_off: the trial failed or was stopped, so that clients may have ended earlier than planned.
    """

    spec: TrialSpec
    starts_ns: dict[int, int]
    stops_ns: dict[int, int]
    started: frozenset[str]
    files: tuple[ColumnFile, ...]
    items: tuple[T4Item, ...]
    in_fallback: int
    damaged: tuple[str, ...]
    begun: dict[str, int] = field(default_factory=dict)
    broken_off: bool = False

    @property
    def grid(self) -> Grid:
        """The schedule of the planned phases; built anew each time."""
        plan, starts_ns = self.spec.plan, self.starts_ns
        return build_grid(plan, starts_ns, begun_operations(plan, starts_ns, self.files, self.begun))

    def joined(self) -> Joined:
        """What became of every scheduled event. Raises AccountingError."""
        drain_limit_ns = round(self.spec.plan.drain_limit_s * _SECOND_NS)
        return join(self.grid, self.started, self.files, self.items, drain_limit_ns, stops_ns=self.stops_ns)

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
        last_t2_ns = max((file.rows.last_t2_ns for file in self.files if file.header.phase == phase), default=0)
        ended_s = (last_t2_ns + 1 - self.starts_ns[phase]) / _SECOND_NS  # the last answer lies inside
        return min(planned_s, ended_s) if ended_s > 0 else planned_s

    def at_most_rows(self, phase: int) -> bool:
        """Whether a writer offered all that `load.slices.most_rows` lets it, and then no more."""
        plan = self.spec.plan
        return plan.phases[phase].closed is not None and any(
            int(file.rows.sequence.max(initial=-1)) + 1 >= most_rows(plan, phase, file.header.slice)
            for file in self.files
            if file.header.phase == phase
        )

    def _is_bounded(self, phase: int) -> bool:
        closed = self.spec.plan.phases[phase].closed
        return closed is not None and (self.broken_off or closed.operations is not None or self.at_most_rows(phase))


def ref_of(spec: TrialSpec) -> TrialRef:
    """The trial's reference."""
    return TrialRef(run_id=spec.run_id, trial=spec.index, tag=spec.tag)


def read_records(spec: TrialSpec, runs: RunStore, table: TrialTable) -> TrialRecords:
    """
    Read a trial's schedule, rows and arrivals.

    Column files are found by listing the bucket, since the pointer in the table is written after the file.

    Raises:
        RecordsUnavailableError: bucket or table do not answer.
    """
    damaged: list[str] = []
    ref = ref_of(spec)
    fallback = _fallback_items(ref, runs, damaged)
    stored = list(_parse(table.t4_items(ref.tag), damaged))
    # An item can be in both places: the table took it, and the answer was lost.
    keys = {(each.request_id, each.entries.tobytes()) for each in stored} if fallback else set()
    extra = [each for each in fallback if (each.request_id, each.entries.tobytes()) not in keys]
    files = _column_files(ref, runs, damaged)
    return TrialRecords(
        spec=spec,
        starts_ns=planned_starts(spec, runs),
        stops_ns=_stops(spec, table),
        started=frozenset(table.started(ref.tag)),
        files=files,
        items=(*stored, *extra),
        in_fallback=len(extra),
        damaged=tuple(damaged),
        begun=_begun(spec, table, files),
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


def _begun(spec: TrialSpec, table: TrialTable, files: tuple[ColumnFile, ...]) -> dict[str, int]:
    """No request where nothing is closed loop."""
    if not any(phase.closed for phase in spec.plan.phases):
        return {}
    whole = whole_attempts(files)
    return {attempt: begun for attempt, begun in begun_by_beats(table.beats(spec.tag)).items() if attempt not in whole}


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


def phase_files(ref: TrialRef, phase: int, runs: RunStore) -> Iterator[ColumnFile]:
    """A phase's column files, one at a time; those that do not decode are left out."""
    return _read_files(ref, runs, [], layout.phase_attempts(phase))


def _column_files(ref: TrialRef, runs: RunStore, damaged: list[str]) -> tuple[ColumnFile, ...]:
    return tuple(_read_files(ref, runs, damaged))


def _read_files(ref: TrialRef, runs: RunStore, damaged: list[str], attempts: str = "") -> Iterator[ColumnFile]:
    keys = list(runs.keys(layout.trial_key(ref, f"writers/{attempts}")))
    with ThreadPoolExecutor(_PARALLEL_READS) as pool:
        yield from _decoded(zip(keys, pool.map(runs.get_bytes, keys), strict=True), damaged)


def _decoded(files: Iterable[tuple[str, bytes]], damaged: list[str]) -> Iterable[ColumnFile]:
    for key, body in files:
        try:
            yield decode(key, body)
        except CorruptRecordsError as error:
            damaged.append(str(error))


def _fallback_items(ref: TrialRef, runs: RunStore, damaged: list[str]) -> list[T4Item]:
    items: list[dict[str, Any]] = []
    for key in runs.keys(layout.t4_fallback_prefix(ref.tag)):
        try:
            items.append(decode_fallback(key, runs.get_bytes(key)))
        except CorruptRecordsError as error:
            damaged.append(str(error))
    return list(_parse(items, damaged))


def _parse(items: Iterable[dict[str, Any]], damaged: list[str]) -> Iterable[T4Item]:
    for item in items:
        try:
            yield parse_item(item)
        except CorruptRecordsError as error:
            damaged.append(str(error))


def find_provider(ref: TrialRef, runs: RunStore) -> tuple[str | None, bool | None]:
    """What serves the store and whether it is emulated, as PrepareTarget noted it; None where it did not get there."""
    document = runs.find_json(layout.trial_key(ref, "provider.json"))
    if document is None:
        return None, None
    return str(document["provider"]), bool(document["emulated"])
