"""The generator's part in the numbers: where it was the bottleneck, or the host gave it the CPU too late."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepbench.analysis.latency import NS_PER_MS
from stepbench.analysis.operations import generator_cpu
from stepbench.analysis.stalls import delayed
from stepbench.analysis.windows import measured_windows
from stepbench.contracts.measures import MOST_GENERATOR_SHARE
from stepbench.contracts.result import Caveat
from stepbench.model.result import Outcome
from stepbench.stats.quantiles import quantile

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from stepbench.analysis.evidence import Evidence
    from stepbench.analysis.stalls import Stall
    from stepbench.analysis.windows import MeasuredWindow
    from stepbench.contracts.measures import OperationsResult, WindowResult

LATENESS_MS = 1.0
LATENESS_SHARE = 0.1
QUEUED_SHARE = 0.01
LITTLE_CPU = 0.5
"""A writer that used less, a quarter of it for punctual sends, had CPU to spare: what made it late was not its work."""
_P99 = 0.99
_WHAT = {"trigger": "write", "operations": "operation"}


def find_saturation_caveats(
    evidence: Evidence, results: Sequence[WindowResult], stalls: Sequence[Stall]
) -> Iterator[Caveat]:
    """
    Report each window whose events were sent too late, and events that queued at the in-flight cap.

    Too late, in open loop: p99 of lateness above 1 ms and above a tenth of the median response time, which it is a part
    of. It is the host's jitter if the writers had CPU to spare and no queue. In closed loop: the generator took more
    than a tenth of its clients' time, their pauses included, or four fifths of its CPU. Not where writes go through
    `CheckClock`, whose invocation then is in that lateness. What a stall of the store delayed is left out.
    """
    if evidence.spec.plan.target.receiver == "CheckClock":
        return
    delays = {phase: _delayed_in_phase(evidence, phase, stalls) for phase in {stall.phase for stall in stalls}}
    queued, judged = _count_queued(evidence, delays)
    has_queue = queued > QUEUED_SHARE * judged
    for window in measured_windows(evidence):
        if evidence.spec.plan.phases[window.phase].closed is None:
            yield from _check_lateness(evidence, window, delays.get(window.phase), has_queue=has_queue)
    for result in results:
        if result.operations is not None:
            yield from _check_generator(result.name, result.operations, evidence.spec.plan.writers)
    if has_queue:
        text = (
            f"{queued} of {judged} measured events waited for one of {evidence.spec.plan.max_in_flight} places "
            "in flight of their writer: response times contain that, latencies from t1 do not."
        )
        yield Caveat(kind="saturated_generator", text=text, remedy="Raise max_in_flight or writers, or lower the rate.")


def _check_lateness(
    evidence: Evidence, window: MeasuredWindow, delayed_in_phase: NDArray[np.bool_] | None, *, has_queue: bool
) -> Iterator[Caveat]:
    joined = evidence.joined
    sent = window.scheduled[joined.outcome[window.scheduled] <= Outcome.UNKNOWN]
    if delayed_in_phase is not None:
        sent = sent[~delayed_in_phase[sent - joined.grid.span_of_phase(window.phase)[0]]]
    if sent.size == 0:
        return
    ascending_ms = np.sort(joined.lateness_ns[sent]) / np.float64(NS_PER_MS)
    lateness_ms = quantile(ascending_ms, _P99)
    response_ns = joined.lateness_ns[sent].astype(np.int64) + joined.service_ns[sent]
    response_ms = quantile(np.sort(response_ns) / NS_PER_MS, 0.5)
    if lateness_ms <= max(LATENESS_MS, LATENESS_SHARE * response_ms):
        return
    text = (
        f"Window {window.name}: 1 % of the events were sent more than {lateness_ms:.2f} ms late, against a "
        f"median {_WHAT[evidence.spec.plan.experiment]} of {response_ms:.2f} ms"
    )
    cpu = _cpu_in_window(evidence, window)
    if has_queue or cpu is None or cpu >= LITTLE_CPU:
        text += "; response times contain that."
        remedy = (
            "Use more writers, more memory (CPU) per writer, or a lower rate; on one machine, close what else runs."
        )
        yield Caveat(kind="saturated_generator", text=text, remedy=remedy)
        return
    text += (
        f", and up to {ascending_ms[-1]:.2f} ms. Yet the busiest writer used {100 * cpu:.0f} % of the CPU that it can "
        "get, and no places in flight were missing: the machine gave it the CPU too late (or it was stopped, or waited "
        "for new connections). Response times contain that, latencies from t1 do not."
    )
    remedy = "Close what else runs on the machine; more writers do not help. On AWS, give writers more memory (CPU)."
    yield Caveat(kind="host_jitter", text=text, remedy=remedy)


def _cpu_in_window(evidence: Evidence, window: MeasuredWindow) -> float | None:
    """Return the busiest writer's share of its CPU: the phase's, and more of it where the window's rate was higher."""
    cpu, phase = generator_cpu(evidence, window.phase), evidence.joined.of_phase(window.phase)
    if cpu is None:
        return None
    mean_per_s = int(np.count_nonzero(phase.offered)) / evidence.records.offered_s(window.phase)
    return cpu * max(1.0, window.offered / window.length_s / mean_per_s)


def _delayed_in_phase(evidence: Evidence, phase: int, stalls: Sequence[Stall]) -> NDArray[np.bool_]:
    """Return which of a phase's events a stall of the store delayed; none in closed loop, where none is due then."""
    grid, own = evidence.joined.grid, [stall for stall in stalls if stall.phase == phase]
    first, end = grid.span_of_phase(phase)
    found = np.zeros(end - first, dtype=np.bool_)
    if evidence.spec.plan.phases[phase].closed is None:
        for slot in np.nonzero(grid.phase == phase)[0].tolist():
            events = evidence.joined.of_slot(slot)
            found[events.first - first : events.first - first + events.size] = delayed(own, events)
    return found


def _check_generator(window: str, found: OperationsResult, writers: int) -> Iterator[Caveat]:
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


def _count_queued(evidence: Evidence, delays: Mapping[int, NDArray[np.bool_]]) -> tuple[int, int]:
    """Count measured events that were sent late into the last free place, and all that are judged."""
    grid, phases = evidence.joined.grid, evidence.spec.plan.phases
    counts = [
        _count_queued_in_slot(evidence, slot, delays.get(phase))
        for slot, phase in enumerate(grid.phase.tolist())
        if phases[phase].measured and phases[phase].load
    ]
    return sum(queued for queued, _ in counts), sum(judged for _, judged in counts)


def _count_queued_in_slot(evidence: Evidence, slot: int, delayed_in_phase: NDArray[np.bool_] | None) -> tuple[int, int]:
    events = evidence.joined.of_slot(slot)
    sent = events.outcome <= Outcome.UNKNOWN
    judged = np.ones(int(np.count_nonzero(sent)), dtype=np.bool_)
    if delayed_in_phase is not None:
        first = events.first - evidence.joined.grid.span_of_phase(int(evidence.joined.grid.phase[slot]))[0]
        judged = ~delayed_in_phase[first : first + events.size][sent]
    t1_ns, t2_ns, lateness_ns = events.t1_ns[sent], events.t2_ns[sent], events.lateness_ns[sent]
    order = np.argsort(t1_ns, kind="stable")
    ended = np.searchsorted(np.sort(t2_ns), t1_ns[order], side="right")
    full = np.arange(1, order.size + 1) - ended >= evidence.spec.plan.max_in_flight
    late = lateness_ns[order] > LATENESS_MS * NS_PER_MS
    return int(np.count_nonzero(full & late & judged[order])), int(np.count_nonzero(judged))
