"""A trial's records as its writers and receivers would have left them, and such trials in memory, to be analysed."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from tests.samples.records import column_header, run_of, t4_item, writer_rows
from tests.samples.services import MemoryServices, small_plan, stored_trial
from tests.support.fake_clock import FakeClock

from stepbench.contracts.phase import PhaseSchedule
from stepbench.contracts.result import TrialResult
from stepbench.contracts.tasks import AnalyseTrialInput, StateError
from stepbench.model.request import Outcome
from stepbench.records.formats.columns import Rows, encode
from stepbench.records.formats.second_sources import LogCollection, ReportLine, ReportPage
from stepbench.records.formats.t4 import Entry
from stepbench.records.storage import layout
from stepbench.records.storage.layout import ClockSample
from stepbench.records.storage.trial_table import FilePointer
from stepbench.stages.analyse_trial import analyse_trial
from stepbench.workload.arrivals import phase_offsets_ns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from stepbench.contracts.measures import Latency
    from stepbench.contracts.plan import TrialPlan, TrialRef
    from stepbench.contracts.result import Caveat
    from stepbench.services import Services

SECOND_NS = 1_000_000_000
GAP_NS = 5 * SECOND_NS
LATENESS_NS = 20_000
SERVICE_NS = 2_000_000
START_NS = 1_700_000_000_000_000_000
PHASES: list[dict[str, Any]] = [
    {"name": "warm-up", "measured": False, "load": [{"rate_per_s": 20, "count": 40}]},
    {"name": "steady", "load": [{"rate_per_s": 20, "count": 200}]},
]


@dataclass
class FinishedTrial:
    """
    One writer's attempt per phase, acknowledged and delivered one by one.

    Args:
        services: where to leave the records.
        ref: of a trial that is stored (see `tests.samples.services.stored_trial`).
        plan: its plan, with one writer and one slice a phase.
        start_at_ns: time zero of its first phase.
        seed: of the random latencies.
    """

    services: Services
    ref: TrialRef
    plan: TrialPlan
    start_at_ns: int
    seed: int = 1
    latency_ns: dict[int, NDArray[np.int64]] = field(default_factory=dict)
    """By phase, t4 - t1 of each event."""

    def phase(  # noqa: PLR0913 -- what can be different
        self,
        phase: int,
        *,
        lost: tuple[int, ...] = (),
        source: str = "receiver",
        clocks: bool = True,
        to_s: float = math.inf,
        last: bool = True,
        event_ns: int | None = None,
        latency_ns: NDArray[np.int64] | None = None,
    ) -> None:
        """
        Leave everything that a phase leaves.

        Args:
            phase: its number.
            lost: events that were not delivered.
            source: of the deliveries.
            clocks: whether clocks were measured.
            to_s: events that are due so many seconds after its start, or later, were not offered.
            last: whether the writer has ended.
            event_ns: how long after t1 the store says that the event happened; None where it does not say.
            latency_ns: t4 - t1 of each event; None for random ones.
        """
        start_ns = self.start_of(phase)
        self.plan_phase(phase)
        rng = np.random.default_rng([self.seed, phase])
        offsets_ns = phase_offsets_ns(self.plan, phase, 0)
        t0_ns = offsets_ns[offsets_ns < to_s * SECOND_NS] + start_ns
        if latency_ns is None:
            latency_ns = rng.exponential(5e6, t0_ns.size).astype(np.int64) + SERVICE_NS
        self.latency_ns[phase] = latency_ns
        self.rows(phase, t0_ns, last=last)
        t4_ns = t0_ns + LATENESS_NS + latency_ns
        for number in np.setdiff1d(np.arange(t0_ns.size), lost).tolist():
            t3_ns = 0 if event_ns is None else int(t0_ns[number]) + LATENESS_NS + event_ns
            self.deliver(phase, number, int(t4_ns[number]), t3_ns, source=source, cold=number == 0)
        if clocks:
            for role in ("writer", "receiver"):
                sample = ClockSample(role, f"{role}-{phase}", start_ns, 1_000 if role == "receiver" else 0, 500)
                self.services.table.add_clock(self.ref.tag, sample)

    def start_of(self, phase: int) -> int:
        """Return the time zero of a phase, ns."""
        before = sum(planned.length_s for planned in self.plan.phases[:phase])
        return self.start_at_ns + round(before * SECOND_NS) + phase * GAP_NS

    def plan_phase(self, phase: int) -> None:
        """Leave the schedule as `PlanPhase` does, and the mark that its writer began."""
        schedule = PhaseSchedule(start_at_ns=self.start_of(phase))
        self.services.runs.put_model(layout.phase_key(self.ref, phase, "plan.json"), schedule)
        self.services.table.mark_started(self.ref.tag, layout.attempt_id(phase, 0, 0, 0))

    def refused(self, phase: int, errors: dict[int, tuple[Outcome, str]]) -> None:
        """Leave the rows of a phase of which these events, by number, failed or got no answer, and no arrivals."""
        self.plan_phase(phase)
        self.rows(phase, phase_offsets_ns(self.plan, phase, 0) + self.start_of(phase), errors=errors)

    def rows(
        self,
        phase: int,
        t0_ns: NDArray[np.int64],
        *,
        last: bool = True,
        errors: dict[int, tuple[Outcome, str]] | None = None,
    ) -> None:
        """Leave a column file and its pointer; `errors` are outcomes, with their errors, of events by number."""
        n = t0_ns.size
        t1_ns = t0_ns + LATENESS_NS
        outcome, error = np.zeros(n, dtype=np.uint8), np.zeros(n, dtype=np.uint16)
        names = ["", *dict.fromkeys(name for _, name in (errors or {}).values() if name)]
        for event, (ended, name) in (errors or {}).items():
            outcome[event], error[event] = ended, names.index(name)
        rows = Rows(np.arange(n), t0_ns, t1_ns, t1_ns + SERVICE_NS, outcome, error)
        attempt = layout.attempt_id(phase, 0, 0, 0)
        key = layout.column_file_key(self.ref, attempt, 0)
        ended_well = {"last": last, "drift_ns": 0 if last else None}
        header = column_header(self.ref, phase=phase, errors=tuple(names), **ended_well)
        self.services.runs.put_bytes(key, encode(header, rows))
        expected = rows.expected(self.plan.record.matching_share)
        self.services.table.add_file(self.ref.tag, FilePointer(attempt, 0, key, n, expected, rows.last_t2_ns))

    def deliver(
        self,
        phase: int,
        sequence: int,
        t4_ns: int,
        t3_ns: int = 0,
        *,
        source: str = "receiver",
        **attributes: Any,  # noqa: ANN401 -- an item's
    ) -> None:
        """Leave one invocation with one event."""
        entry = Entry(phase, 0, 0, 0, 0, sequence, t4_ns, t3_ns)
        item = t4_item([entry], source=source, init_ns=250_000_000, **attributes)
        self.services.table.put_t4(self.ref.tag, f"request-{phase}-{sequence}", t4_ns, item)

    def invoke(  # noqa: PLR0913 -- what can be different
        self,
        phase: int,
        events: Sequence[int],
        t4_ns: int,
        took_ns: int = 3_000_000,
        *,
        processed: int | None = None,
        error: str = "",
        request: str = "",
        **attributes: Any,  # noqa: ANN401 -- an item's
    ) -> None:
        """
        Leave one invocation of a measured function.

        Args:
            phase: of the events.
            events: their numbers, as they stand in the batch.
            t4_ns: when it began.
            took_ns: t5 - t4; 0 of one that never ended.
            processed: so many of the first events; None: all, or none after an error or without an end.
            error: the handler's.
            request: its id; one of its own, if empty.
            attributes: further ones of the item.
        """
        entries = [Entry(phase, 0, 0, 0, place, number, t4_ns) for place, number in enumerate(events)]
        done = processed if processed is not None else 0 if error or not took_ns else len(entries)
        run = run_of(t4_ns + took_ns if took_ns else 0, done, error)
        item = t4_item(entries, **{"init_ns": 250_000_000, **run, **attributes})
        self.services.table.put_t4(self.ref.tag, request or f"run-{phase}-{events[0]}-{t4_ns}", t4_ns, item)

    def deliver_together(self, phase: int, *batches: range, request: str = "batch") -> None:
        """Leave an invocation for each of these batches of events, 20 ms after the last of each was due."""
        t0_ns = phase_offsets_ns(self.plan, phase, 0) + self.start_of(phase)
        for batch in batches:
            t4_ns = int(t0_ns[batch[-1]]) + 20_000_000
            entries = [Entry(phase, 0, 0, 0, place, number, t4_ns) for place, number in enumerate(batch)]
            self.services.table.put_t4(self.ref.tag, f"{request}-{phase}-{batch[0]}", t4_ns, t4_item(entries))


class AnalysedTrial:
    """A trial of a warm-up (40 events) and a measured phase (200), in memory."""

    def __init__(self, stack_options: str = "", **plan: Any) -> None:  # noqa: ANN401 -- a plan's fields
        self.memory = MemoryServices(FakeClock(START_NS + 60 * SECOND_NS), stack_options=stack_options)
        self.plan = small_plan(**{"phases": PHASES, **plan})
        self.ref = stored_trial(self.memory.services, self.plan)
        self.records = FinishedTrial(self.memory.services, self.ref, self.plan, START_NS)

    def finish(self, source: str = "receiver", **phase: Any) -> AnalysedTrial:  # noqa: ANN401 -- as `FinishedTrial.phase`
        """Leave the records of both phases."""
        self.records.phase(0, source=source)
        self.records.phase(1, source=source, **phase)
        return self

    def measured_rows(
        self,
        lateness_ns: int | NDArray[np.int64],
        service_ns: int | NDArray[np.int64],
        outcome: Sequence[int] | None = None,
        error: str = "",
        **header: Any,  # noqa: ANN401 -- a column file's
    ) -> AnalysedTrial:
        """Leave the measured phase's rows, so late and so slow, without arrivals. `error`: of those that failed."""
        self.records.plan_phase(1)
        t0_ns = phase_offsets_ns(self.plan, 1, 0) + self.records.start_of(1)
        rows = writer_rows(t0_ns, lateness_ns=lateness_ns, service_ns=service_ns, outcome=outcome)
        rows = rows._replace(error=(rows.outcome == Outcome.FAILED).astype(np.uint16) * bool(error))
        key = layout.column_file_key(self.ref, layout.attempt_id(1, 0, 0, 0), 0)
        own = {"drift_ns": 0, "errors": ("", error), **header}
        origin = column_header(self.ref, phase=1, last=True, **own)
        self.memory.services.runs.put_bytes(key, encode(origin, rows))
        return self

    def floor_ms(self, **latencies_ms: list[float]) -> Latency | None:
        """Leave floors as they are measured before a run, by name, and return the one that the result has."""
        floors = {name: {"latencies_ms": values} for name, values in latencies_ms.items()}
        self.memory.services.runs.put_json(layout.run_key(self.ref.run_id, "floors.json"), floors)
        return self.result().summary.floor_ms

    def result(self, failure: StateError | None = None) -> TrialResult:
        """Return what the stage stores."""
        task = AnalyseTrialInput(ref=self.ref, failure=failure or StateError())
        key = analyse_trial(task, self.memory.services).result_key
        return self.memory.services.runs.get_model(key, TrialResult)

    def caveats(self, kind: str) -> list[Caveat]:
        """Return its caveats of a kind."""
        return [caveat for caveat in self.result().summary.caveats if caveat.kind == kind]

    def kinds(self, failure: StateError | None = None) -> set[str]:
        """Return the kinds of its caveats."""
        return {caveat.kind for caveat in self.result(failure).summary.caveats}

    def collected(
        self, *pages: ReportPage, expected: int = 0, seen: int = 0, every: int = 1, shared: bool = False
    ) -> None:
        """Leave logs as `CollectLogs` does, with a line for each call of the functions that no trial is without."""
        runs = self.memory.services.runs
        calls = {"PrepareTarget": 1, "AwaitTarget": 1, "PlanPhase": len(self.plan.phases), "AwaitArrivals": 1}
        pages += tuple(ReportPage(function=name, lines=tuple(_lines(count))) for name, count in calls.items())
        for number, page in enumerate(pages):
            runs.put_model(layout.trial_key(self.ref, f"logs/{page.function}/{number:06d}-0000.json"), page)
        collection = LogCollection(every=every, expected=expected, seen=seen, shared=shared)
        runs.put_model(layout.trial_key(self.ref, "logs/collection.json"), collection)


def _lines(count: int) -> Iterator[ReportLine]:
    for number in range(count):
        yield ReportLine(request_id=f"call-{number}", duration_ms=1, billed_ms=1, memory_mb=512, max_memory_mb=90)


GAP = range(60, 100)
"""Events of the measured phase that are due from 3 s to 5 s, at 20/s."""


def watched_with_a_gap(
    windows: Sequence[dict[str, Any]] = (),
    **second_watch: Any,  # noqa: ANN401 -- a heartbeat's attributes
) -> AnalysedTrial:
    """Leave a trial on etcd of which one watch died after 3 s, and the next was established after 5 s."""
    trial = AnalysedTrial(store="etcd", phases=[PHASES[0], {**PHASES[1], "windows": windows}])
    trial.records.phase(0, source="watcher#0")
    trial.records.phase(1, source="watcher#0", lost=(*GAP, *range(100, 200)))
    start_ns = trial.records.start_of(1)
    again_ns = start_ns + 5 * SECOND_NS
    t4_ns = start_ns + np.arange(200) * SECOND_NS // 20 + 20_000 + trial.records.latency_ns[1]
    for number in range(60, 200):
        at_ns = max(again_ns + 1_000_000, int(t4_ns[number]))
        trial.records.deliver(1, number, at_ns, source="watcher#0", sandbox="again")
    beats = {
        "sandbox": (START_NS - SECOND_NS, start_ns + 3 * SECOND_NS, {}),
        "again": (again_ns, start_ns + 20 * SECOND_NS, second_watch),
    }
    for sandbox, (established_ns, at_ns, more) in beats.items():
        key = {"pk": layout.trial_pk(trial.ref.tag), "sk": f"{layout.HEARTBEAT}watcher#{sandbox}"}
        item = {**key, "sandbox": sandbox, "established_ns": established_ns, "at_ns": at_ns, "progress": {}, **more}
        trial.memory.table.put_item(Item=item)
    return trial
