"""A trial's records as its writers and receivers would have left them, without running anything."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from stepbench.contracts.phase_documents import PhaseSchedule
from stepbench.load.arrivals import phase_offsets_ns
from stepbench.records import layout
from stepbench.records.clock_sample import ClockSample
from stepbench.records.columns import Rows, encode
from stepbench.records.t4 import Entry
from stepbench.records.trial_table import FilePointer
from stepbench.testing.records import column_header, t4_item

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepbench.contracts.plan import TrialPlan
    from stepbench.contracts.tasks import TrialRef
    from stepbench.stages.services import Services

SECOND_NS = 1_000_000_000
GAP_NS = 5 * SECOND_NS
LATENESS_NS = 20_000
SERVICE_NS = 2_000_000


@dataclass
class FinishedTrial:
    """
    One writer's attempt per phase, acknowledged and delivered one by one.

    Args:
        services: where to leave the records.
        ref: of a trial that is stored (see `testing.trials.stored_trial`).
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
        """
        start_ns = self.start_of(phase)
        self.plan_phase(phase)
        rng = np.random.default_rng([self.seed, phase])
        offsets_ns = phase_offsets_ns(self.plan, phase, 0)
        t0_ns = offsets_ns[offsets_ns < to_s * SECOND_NS] + start_ns
        latency_ns = rng.exponential(5e6, t0_ns.size).astype(np.int64) + SERVICE_NS
        self.latency_ns[phase] = latency_ns
        self.rows(phase, t0_ns, last=last)
        t4_ns = t0_ns + LATENESS_NS + latency_ns
        for number in np.setdiff1d(np.arange(t0_ns.size), lost).tolist():
            self.deliver(phase, number, int(t4_ns[number]), source=source, cold=number == 0)
        if clocks:
            for role in ("writer", "receiver"):
                sample = ClockSample(role, f"{role}-{phase}", start_ns, 1_000 if role == "receiver" else 0, 500)
                self.services.table.add_clock(self.ref.tag, sample)

    def start_of(self, phase: int) -> int:
        """Time zero of a phase, ns."""
        before = sum(planned.length_s for planned in self.plan.phases[:phase])
        return self.start_at_ns + round(before * SECOND_NS) + phase * GAP_NS

    def plan_phase(self, phase: int) -> None:
        """As `PlanPhase` leaves it, and the mark that its writer began."""
        schedule = PhaseSchedule(start_at_ns=self.start_of(phase))
        self.services.runs.put_model(layout.phase_key(self.ref, phase, "plan.json"), schedule)
        self.services.table.mark_started(self.ref.tag, layout.attempt_id(phase, 0, 0, 0))

    def rows(self, phase: int, t0_ns: NDArray[np.int64], *, last: bool = True) -> None:
        """A column file and its pointer."""
        n = t0_ns.size
        t1_ns = t0_ns + LATENESS_NS
        zeros = np.zeros(n, dtype=np.uint8)
        rows = Rows(np.arange(n), t0_ns, t1_ns, t1_ns + SERVICE_NS, zeros, zeros.astype(np.uint16))
        attempt = layout.attempt_id(phase, 0, 0, 0)
        key = layout.column_file_key(self.ref, attempt, 0)
        header = column_header(self.ref, phase=phase, last=last, drift_ns=0 if last else None)
        self.services.runs.put_bytes(key, encode(header, rows))
        expected = rows.expected(self.plan.record.matching_share)
        self.services.table.add_file(self.ref.tag, FilePointer(attempt, 0, key, n, expected, rows.last_t2_ns))

    def deliver(self, phase: int, sequence: int, t4_ns: int, *, source: str = "receiver", cold: bool = False) -> None:
        """One invocation with one event."""
        entry = Entry(phase, 0, 0, 0, 0, sequence, t4_ns)
        item = t4_item([entry], source=source, cold=cold, init_ns=250_000_000)
        self.services.table.put_t4(self.ref.tag, f"request-{phase}-{sequence}", t4_ns, item)
