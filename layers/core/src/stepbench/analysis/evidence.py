"""All that the analysis looks at, gathered in one place so that everything after is pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from stepbench.contracts.measure import measure_of
from stepbench.contracts.phase_documents import PrecisionLooks
from stepbench.records import layout
from stepbench.records.reader import count_malformed, find_provider, read_records, ref_of
from stepbench.records.report_lines import LogCollection, ReportPage
from stepbench.records.t4_pages import read_t4_lines
from stepbench.records.utilisations import read_utilisations

if TYPE_CHECKING:
    from stepbench.contracts.plan import TrialSpec
    from stepbench.contracts.result import Utilisation
    from stepbench.contracts.tasks import StateError
    from stepbench.records.clock_sample import ClockSample
    from stepbench.records.join import Joined
    from stepbench.records.reader import TrialRecords
    from stepbench.records.t4_lines import T4Line
    from stepbench.stages.services import Services

FLOOR_PER_S = 20
"""At which pace a local run sends the events of a floor."""


@dataclass(frozen=True)
class Evidence:
    """
    One trial.

    floor_ms: latencies of the emulator's bare trigger, measured in the same run; empty where there is none.
    t4_lines, damaged_t4_lines: the receivers' log, where the plan asks for it; the latter as messages.
    looks: at the precision of phases with `until`, by phase, where there were any.
    utilisations: of probes, and of the phases at the rate they found.
    """

    spec: TrialSpec
    failure: StateError
    records: TrialRecords
    joined: Joined
    clocks: tuple[ClockSample, ...]
    malformed: int
    provider: str
    emulated: bool
    pages: tuple[ReportPage, ...]
    collection: LogCollection | None
    floor_ms: tuple[float, ...]
    t4_lines: tuple[T4Line, ...]
    damaged_t4_lines: tuple[str, ...]
    looks: dict[int, PrecisionLooks]
    utilisations: tuple[Utilisation, ...]


def gather(spec: TrialSpec, failure: StateError, services: Services) -> Evidence:
    """
    Read everything.

    Raises:
        AccountingError: the records contradict each other.
        RecordsUnavailableError: bucket or table do not answer.
    """
    ref, store = ref_of(spec), spec.plan.target.store
    records = replace(read_records(spec, services.runs, services.table), broken_off=bool(failure.Error))
    from_ns = min(records.starts_ns.values(), default=services.clock.now_ns())
    provider, emulated = find_provider(ref, services.runs)
    t4_lines, damaged_t4_lines = read_t4_lines(ref, services.runs)
    return Evidence(
        spec=spec,
        failure=failure,
        records=records,
        joined=records.joined(),
        clocks=tuple(services.table.clocks(ref.tag)),
        malformed=count_malformed(store, services.runs, services.table, from_ns, services.clock.now_ns()),
        provider=provider or store,
        emulated=bool(emulated),
        pages=_pages(spec, services),
        collection=services.runs.find_model(layout.trial_key(ref, "logs/collection.json"), LogCollection),
        floor_ms=_floor(spec, services),
        t4_lines=t4_lines,
        damaged_t4_lines=damaged_t4_lines,
        looks=_looks(spec, services),
        utilisations=read_utilisations(spec, services.runs),
    )


def _looks(spec: TrialSpec, services: Services) -> dict[int, PrecisionLooks]:
    ref = ref_of(spec)
    found = {
        number: services.runs.find_model(layout.phase_key(ref, number, "until.json"), PrecisionLooks)
        for number, phase in enumerate(spec.plan.phases)
        if phase.until is not None
    }
    return {number: looks for number, looks in found.items() if looks is not None}


def _pages(spec: TrialSpec, services: Services) -> tuple[ReportPage, ...]:
    keys = services.runs.keys(layout.trial_key(ref_of(spec), "logs/"))
    return tuple(services.runs.get_model(key, ReportPage) for key in keys if not key.endswith("/collection.json"))


def _floor(spec: TrialSpec, services: Services) -> tuple[float, ...]:
    target = spec.plan.target
    if not measure_of(spec.plan.experiment).arrives:
        return ()
    if spec.plan.pull and (target.store != "etcd" or target.endpoint is not None):
        return ()  # the floor is that of this machine's own etcd
    floors: dict[str, Any] = services.runs.find_json(layout.run_key(spec.run_id, "floors.json")) or {}
    name = "etcd_watch" if spec.plan.target.store == "etcd" else "async_invoke"
    return tuple(float(latency_ms) for latency_ms in floors.get(name, {}).get("latencies_ms", ()))
