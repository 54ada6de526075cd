"""Whether the generator, and not the store, was the bottleneck."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepbench.analysis.latency import NS_PER_MS
from stepbench.analysis.windows import measured_windows
from stepbench.contracts.measures import MOST_GENERATOR_SHARE
from stepbench.contracts.result import Caveat
from stepbench.contracts.target import receiver_of
from stepbench.drivers.protocol import Outcome
from stepbench.stats.quantiles import quantile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.analysis.doubts import Findings
    from stepbench.analysis.evidence import Evidence
    from stepbench.analysis.windows import MeasuredWindow
    from stepbench.contracts.measures import OperationsResult

LATENESS_MS = 1.0
LATENESS_SHARE = 0.1
QUEUED_SHARE = 0.01
_P99 = 0.99
_WHAT = {"trigger": "write", "operations": "operation"}


def saturation_doubts(evidence: Evidence, findings: Findings) -> Iterator[Caveat]:
    """
    One caveat per window whose events were sent too late, and one if events queued at the in-flight cap.

    Too late, in open loop: p99 of lateness above 1 ms and above a tenth of the median response time, which it is a part
    of. In closed loop: the generator took more than a tenth of its clients' time, their pauses included, or four fifths
    of its CPU. Not where writes go through `CheckClock`, whose invocation then is in that lateness.
    """
    if receiver_of(evidence.spec.plan.target) == "CheckClock":
        return
    for window in measured_windows(evidence):
        if evidence.spec.plan.phases[window.phase].closed is None:
            yield from _late(evidence, window)
    for result in findings.windows:
        if result.operations is not None:
            yield from _held_back(result.name, result.operations, evidence.spec.plan.writers)
    queued, sent_in_all = _queued(evidence)
    if queued > QUEUED_SHARE * sent_in_all:
        text = (
            f"{queued} of {sent_in_all} measured events waited for one of {evidence.spec.plan.max_in_flight} places "
            "in flight of their writer: response times contain that, latencies from t1 do not."
        )
        yield Caveat(kind="saturated_generator", text=text, remedy="Raise max_in_flight or writers, or lower the rate.")


def _late(evidence: Evidence, window: MeasuredWindow) -> Iterator[Caveat]:
    joined = evidence.joined
    sent = window.scheduled[joined.outcome[window.scheduled] <= Outcome.UNKNOWN]
    if sent.size == 0:
        return
    lateness_ms = quantile(np.sort(joined.lateness_ns[sent]) / np.float64(NS_PER_MS), _P99)
    response_ns = joined.lateness_ns[sent].astype(np.int64) + joined.service_ns[sent]
    response_ms = quantile(np.sort(response_ns) / NS_PER_MS, 0.5)
    if lateness_ms > max(LATENESS_MS, LATENESS_SHARE * response_ms):
        text = (
            f"Window {window.name}: 1 % of the events were sent more than {lateness_ms:.2f} ms late, against a "
            f"median {_WHAT[evidence.spec.plan.experiment]} of {response_ms:.2f} ms; response times contain that."
        )
        remedy = (
            "Use more writers, more memory (CPU) per writer, or a lower rate; on one machine, close what else runs."
        )
        yield Caveat(kind="saturated_generator", text=text, remedy=remedy)


def _held_back(window: str, found: OperationsResult, writers: int) -> Iterator[Caveat]:
    if not found.held_back:
        return
    share, cpu, alone = found.generator_share or 0, found.generator_cpu or 0, (found.clients or 0) <= writers
    remedy = "Use more writers, more memory (CPU) per writer, or fewer clients; on one machine, close what else runs."
    if share > MOST_GENERATOR_SHARE:
        text = (
            f"Window {window}: the generator itself took {100 * share:.0f} % of its clients' time, from when each was "
            "free until its operation was sent. So the store would take more from so many clients"
        )
        # A client that has its writer to itself never waits while another is served.
        text += "." if alone else ", and service times may contain the generator's own delay in reading answers."
    else:
        text = (
            f"Window {window}: the busiest writer used {100 * cpu:.0f} % of the CPU that it can get. So answers waited "
            "until it got to them: service times contain that, and the store may take more from so many clients."
        )
    yield Caveat(kind="saturated_generator", text=text, remedy=remedy)


def _queued(evidence: Evidence) -> tuple[int, int]:
    """Measured events that were sent late into the last free place, and all that were sent."""
    grid, phases = evidence.joined.grid, evidence.spec.plan.phases
    measured = [slot for slot, phase in enumerate(grid.phase.tolist()) if phases[phase].measured and phases[phase].load]
    counts = [_queued_in(evidence, slot) for slot in measured]
    return sum(queued for queued, _ in counts), sum(sent for _, sent in counts)


def _queued_in(evidence: Evidence, slot: int) -> tuple[int, int]:
    events = evidence.joined.of_slot(slot)
    sent = events.outcome <= Outcome.UNKNOWN
    t1_ns, t2_ns, lateness_ns = events.t1_ns[sent], events.t2_ns[sent], events.lateness_ns[sent]
    order = np.argsort(t1_ns, kind="stable")
    ended = np.searchsorted(np.sort(t2_ns), t1_ns[order], side="right")
    full = np.arange(1, order.size + 1) - ended >= evidence.spec.plan.max_in_flight
    late = lateness_ns[order] > LATENESS_MS * NS_PER_MS
    return int(np.count_nonzero(full & late)), order.size
