"""The evidence is all that the analysis looks at, gathered in one place so that everything after is pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from stepbench.contracts.documents import Failure, Served
from stepbench.contracts.experiment import measure_of
from stepbench.contracts.findings import SlowSpells
from stepbench.contracts.phase import PrecisionLooks
from stepbench.errors import TrialCancelledError
from stepbench.records.formats.second_sources import LogCollection, RefusedDeliveries, ReportPage
from stepbench.records.join.reader import count_malformed, read_records
from stepbench.records.storage import layout
from stepbench.records.storage.run_store import find_served, read_t4_lines, read_utilisations

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from stepbench.clock import Clock
    from stepbench.contracts.findings import Utilisation
    from stepbench.contracts.plan import TrialSpec
    from stepbench.contracts.tasks import StateError
    from stepbench.costs.standing import Deployment
    from stepbench.records.formats.t4_lines import T4Line
    from stepbench.records.join.joined import Joined
    from stepbench.records.join.reader import TrialRecords
    from stepbench.records.storage.layout import ClockSample
    from stepbench.records.storage.run_store import RunStore
    from stepbench.records.storage.trial_table import TrialTable

_SECOND_NS = 10**9
FLOOR_PER_S = 20
"""At which pace a local run sends the events of a floor."""


@dataclass(frozen=True)
class Evidence:
    """
    The evidence of one trial holds all that its analysis reads.

    floor_ms: latencies of the emulator's bare trigger, measured in the same run; empty where there is none.
    slow_spells: of this machine, or of the writers' sandboxes; None where nobody looked.
    t4_lines, damaged_t4_lines: the receivers' log, where the plan asks for it; the latter as messages.
    missing: why the state machine gave a slice up, by phase, writer and slice.
    refused: what Lambda gave up to deliver to the receiver.
    load_hosts: what writers ran on, where that was none of Lambda's sandboxes.
    looks: at the precision of phases with `until`, by phase, where there were any.
    utilisations: of probes, and of the phases at the rate they found.
    taken_at_ns, held_s: since when the trial has held its target, and how long. objects: how many are in the bucket.
    """

    spec: TrialSpec
    failure: StateError
    records: TrialRecords
    joined: Joined
    clocks: tuple[ClockSample, ...]
    missing: dict[tuple[int, int, int], Failure]
    load_hosts: tuple[str, ...]
    malformed: int
    refused: RefusedDeliveries
    served: Served
    pages: tuple[ReportPage, ...]
    collection: LogCollection | None
    floor_ms: tuple[float, ...]
    slow_spells: SlowSpells | None
    t4_lines: tuple[T4Line, ...]
    damaged_t4_lines: tuple[str, ...]
    looks: dict[int, PrecisionLooks]
    utilisations: tuple[Utilisation, ...]
    deployment: Deployment
    taken_at_ns: int
    held_s: float
    objects: int

    @property
    def cut_off_ns(self) -> int | None:
        """Return since when a stopped trial's events have had less than the drain limit to arrive; None of others."""
        if self.failure.Error != TrialCancelledError.__name__:
            return None
        last_t2_ns = max((file.last_t2_ns for file in self.records.files), default=0)  # nobody waited longer for it
        return last_t2_ns - round(self.spec.offered.drain_limit_s * _SECOND_NS)

    @property
    def lost(self) -> NDArray[np.bool_]:
        """Return which events are lost, by number in the grid."""
        return self.joined.lost(self.cut_off_ns)


class Stored(NamedTuple):
    """Where a trial has left what is analysed; `failure` is why it ended early, and `deployment` what has run it."""

    spec: TrialSpec
    failure: StateError
    runs: RunStore
    table: TrialTable
    clock: Clock
    deployment: Deployment


def gather(stored: Stored) -> Evidence:
    """
    Read all that a trial left in the results bucket and the results table.

    Raises:
        AccountingError: the records contradict each other.
        RecordsUnavailableError: bucket or table do not answer.
    """
    spec, failure, runs, table, clock, deployment = stored
    ref, store = spec.ref, spec.offered.target.store
    records = replace(read_records(spec, runs, table), broken_off=bool(failure.Error))
    from_ns = min(records.starts_ns.values(), default=clock.now_ns())
    taken_at_ns = _taken_at_ns(spec, table, from_ns)
    t4_lines, damaged_t4_lines = read_t4_lines(ref, runs)
    return Evidence(
        spec=spec,
        failure=failure,
        records=records,
        joined=records.joined,
        clocks=tuple(table.clocks(ref.tag)),
        missing={
            slot: Failure(error=error, cause=cause) for slot, (error, cause) in table.missing_writers(ref.tag).items()
        },
        load_hosts=_load_hosts(spec, table),
        malformed=count_malformed(store, runs, table, from_ns, clock.now_ns()),
        refused=runs.find_model(layout.trial_key(ref, "refused.json"), RefusedDeliveries) or RefusedDeliveries(),
        served=find_served(ref, runs) or Served(provider=store, emulated=False),
        pages=_report_pages(spec, runs),
        collection=runs.find_model(layout.trial_key(ref, "logs/collection.json"), LogCollection),
        floor_ms=_floor_ms(spec, runs),
        slow_spells=_slow_spells(spec, runs, records),
        t4_lines=t4_lines,
        damaged_t4_lines=damaged_t4_lines,
        looks=_looks(spec, runs),
        utilisations=read_utilisations(spec, runs),
        deployment=deployment,
        taken_at_ns=taken_at_ns,
        held_s=max(0, clock.now_ns() - taken_at_ns) / _SECOND_NS,
        objects=sum(1 for _ in runs.keys(layout.trial_key(ref, ""))),
    )


def _taken_at_ns(spec: TrialSpec, table: TrialTable, from_ns: int) -> int:
    """Return when the trial took its lease; of one that is given back already, when its load began."""
    return next((lease.taken_at_ns for lease in table.leases() if lease.tag == spec.tag), from_ns)


def _load_hosts(spec: TrialSpec, table: TrialTable) -> tuple[str, ...]:
    if spec.offered.load_from == "lambda":
        return ()
    return tuple(sorted({host for beat in table.beats(spec.tag).values() if (host := beat.get("load_host"))}))


def _looks(spec: TrialSpec, runs: RunStore) -> dict[int, PrecisionLooks]:
    ref = spec.ref
    found = {
        number: runs.find_model(layout.phase_key(ref, number, "until.json"), PrecisionLooks)
        for number in range(len(spec.offered.phases))
        if spec.may_end_early(number)
    }
    return {number: looks for number, looks in found.items() if looks is not None}


def _report_pages(spec: TrialSpec, runs: RunStore) -> tuple[ReportPage, ...]:
    keys = runs.keys(layout.trial_key(spec.ref, "logs/"))
    return tuple(runs.get_model(key, ReportPage) for key in keys if not key.endswith("/collection.json"))


def _slow_spells(spec: TrialSpec, runs: RunStore, records: TrialRecords) -> SlowSpells | None:
    first = (file.header for file in records.files if file.header.flush == 0)  # all files of an attempt have the same
    looks = [header.slow_spells for header in first if header.slow_spells is not None]
    here = runs.find_model(layout.machine_key(spec.run_id), SlowSpells)
    return SlowSpells.merged(looks or ([here] if here else []))


def _floor_ms(spec: TrialSpec, runs: RunStore) -> tuple[float, ...]:
    target = spec.offered.target
    if not measure_of(spec.offered.experiment).arrives:
        return ()
    if spec.offered.pull and (target.store != "etcd" or target.endpoint is not None):
        return ()  # the floor is that of this machine's own etcd
    floors: dict[str, Any] = runs.find_json(layout.run_key(spec.run_id, "floors.json")) or {}
    name = "etcd_watch" if spec.offered.target.store == "etcd" else "async_invoke"
    return tuple(float(latency_ms) for latency_ms in floors.get(name, {}).get("latencies_ms", ()))
