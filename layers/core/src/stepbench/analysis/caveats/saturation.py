"""The generator's part in the numbers: where it was the bottleneck, or the host gave it the CPU too late."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepbench.analysis.functions import generator_cpu
from stepbench.analysis.latency import NS_PER_MS
from stepbench.analysis.stalls import ON_TIME_NS, delayed, find_standstills
from stepbench.analysis.windows import NS_PER_S
from stepbench.contracts.measures import MOST_GENERATOR_SHARE
from stepbench.contracts.result import Caveat
from stepbench.digits import latency
from stepbench.model.request import Outcome
from stepbench.stats.quantiles import min_sample, quantile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from stepbench.analysis.evidence import Evidence
    from stepbench.analysis.findings import Findings
    from stepbench.analysis.stalls import Span, Stall
    from stepbench.analysis.windows import MeasuredWindow
    from stepbench.contracts.measures import OperationsResult
    from stepbench.records.join.joined import Joined
    from stepbench.records.join.sent import Ints

LATENESS_MS = 1.0
LATENESS_SHARE = 0.1
QUEUED_SHARE = 0.01
LITTLE_CPU = 0.5
"""A writer that used less, a quarter of it for punctual sends, had CPU to spare: what made it late was not its work."""
_JUDGED = (0.5, 0.9, 0.95, 0.99)


class _Queues(NamedTuple):
    """How many measured events waited for a place in flight, of how many, and when which writer stood still."""

    waited: int
    judged: int
    standstills: Sequence[tuple[int, Span]]
    """Each with its phase."""

    @property
    def matter(self) -> bool:
        return self.waited > QUEUED_SHARE * self.judged


def find_saturation(evidence: Evidence, findings: Findings) -> Iterator[Caveat]:
    """
    Report each window whose events were sent too late, and events that queued at the in-flight cap.

    Too late, in open loop: p99 of lateness above 1 ms, and response times that lateness makes more than a tenth longer
    at p50, p90, p95 or p99; of these, only quantiles that the window has events enough for are judged. It is the host's
    jitter if the writers had CPU to spare and no queue. In closed loop: the generator took more than a tenth of its
    clients' time, their pauses included, or four fifths of its CPU. Not where writes go through `CheckClock`, whose
    invocation then is in that lateness. What a stall of the store delayed is left out; what queued behind a writer that
    had stood still is no queue, and that it did is said whatever the quantiles are.
    """
    if evidence.spec.offered.target.receiver == "CheckClock":
        return
    stalls = findings.stalls
    delays = {phase: _delayed_in_phase(evidence, phase, stalls) for phase in {stall.phase for stall in stalls}}
    queues = _find_queues(evidence, delays)
    for place, (window, result) in enumerate(zip(findings.measured_windows, findings.windows, strict=True)):
        found: Iterable[Caveat] = ()
        if evidence.spec.offered.phases[window.phase].is_open:
            found = _check_lateness(evidence, window, delays.get(window.phase), queues)
        elif result.operations is not None:
            found = _check_generator(evidence, result.name, result.operations)
        yield from (caveat.model_copy(update={"windows": (place,)}) for caveat in found)
    if queues.matter:
        text = (
            f"{queues.waited} of {queues.judged} measured events waited for one of "
            f"{evidence.spec.offered.max_in_flight} places in flight of their writer: response times contain that, "
            "latencies from t1 do not."
        )
        yield Caveat(kind="saturated_generator", text=text, remedy="Raise max_in_flight or writers, or lower the rate.")


def _check_lateness(
    evidence: Evidence, window: MeasuredWindow, delayed_in_phase: NDArray[np.bool_] | None, queues: _Queues
) -> Iterator[Caveat]:
    joined = evidence.joined
    events = window.acknowledged  # those whose response times are shown
    if delayed_in_phase is not None:
        events = events[~delayed_in_phase[events - joined.grid.span_of_phase(window.phase)[0]]]
    lateness_ns = joined.lateness_ns[events].astype(np.int64)
    stood_still = [span for phase, span in queues.standstills if phase == window.phase and window.meets(*span)]
    effect = _describe_effect(lateness_ns, joined.service_ns[events])
    if not events.size or not (effect or stood_still):
        return
    text = f"Window {window.name}: {effect or 'events were sent late'}.{_describe_standstills(evidence, stood_still)}"
    cpu = _cpu_in_window(evidence, window)
    if queues.matter or cpu is None or cpu >= LITTLE_CPU:
        remedy = f"Use more writers, {_more_cpu(evidence)}, or a lower rate; on one machine, close what else runs."
        yield Caveat(kind="saturated_generator", text=text, remedy=remedy)
        return
    text += (
        f" The latest was sent {latency(int(lateness_ns.max()) / NS_PER_MS)} late. Yet the busiest writer used "
        f"{100 * cpu:.0f} % of the CPU that it can get, and no places in flight were missing: the machine gave it the "
        "CPU too late (or it was stopped, or waited for new connections). Latencies from t1 do not contain that."
    )
    remedy = f"Close what else runs on the machine; more writers do not help. On AWS, use {_more_cpu(evidence)}."
    yield Caveat(kind="host_jitter", text=text, remedy=remedy)


def _describe_effect(lateness_ns: NDArray[np.int64], service_ns: Ints) -> str:
    """Describe how late events were sent, and which quantile of response times that makes longer the most, if any."""
    judged = [q for q in _JUDGED if lateness_ns.size >= min_sample(q)]
    if not judged:
        return ""
    lateness_ms = quantile(np.sort(lateness_ns) / np.float64(NS_PER_MS), judged[-1])
    if lateness_ms <= LATENESS_MS:
        return ""
    response_ms, service_ms = np.sort(lateness_ns + service_ns) / NS_PER_MS, np.sort(service_ns) / NS_PER_MS
    pairs = ((quantile(response_ms, q), quantile(service_ms, q), q) for q in judged)
    with_it_ms, without_ms, q = max(pairs, key=lambda pair: pair[0] / max(pair[1], 1 / NS_PER_MS))
    if with_it_ms <= (1 + LATENESS_SHARE) * without_ms:
        return ""
    return (
        f"{100 * (1 - judged[-1]):.0f} % of the events were sent more than {lateness_ms:.2f} ms late, which makes "
        f"p{100 * q:.0f} of response times {latency(with_it_ms)} instead of {latency(without_ms)}"
    )


def _describe_standstills(evidence: Evidence, spans: Sequence[Span]) -> str:
    if not spans:
        return ""
    begin_ns, end_ns = max(spans, key=lambda span: span[1] - span[0])
    zero_ns = evidence.joined.grid.timetable.first_ns()
    from_s, to_s = ((each_ns - zero_ns) / NS_PER_S for each_ns in (begin_ns, end_ns))
    others = "" if len(spans) == 1 else f"; it is the longest of {len(spans)} such times"
    return f" Between {from_s:.1f} s and {to_s:.1f} s of the trial a writer stood still, with events due{others}."


def _cpu_in_window(evidence: Evidence, window: MeasuredWindow) -> float | None:
    """Return the busiest writer's share of its CPU: the phase's, and more of it where the window's rate was higher."""
    cpu, phase = generator_cpu(evidence, window.phase), evidence.joined.of_phase(window.phase)
    if cpu is None:
        return None
    mean_per_s = int(np.count_nonzero(phase.offered)) / evidence.records.offered_s(window.phase)
    return cpu * max(1.0, window.offered / window.length_s / mean_per_s)


def _delayed_in_phase(evidence: Evidence, phase: int, stalls: Sequence[Stall]) -> NDArray[np.bool_]:
    """Return which of a phase's events a stall of the store delayed; none in closed loop, where none is due then."""
    grid = evidence.joined.grid
    own = [(stall.begin_ns, stall.end_ns) for stall in stalls if stall.phase == phase]
    first, end = grid.span_of_phase(phase)
    found = np.zeros(end - first, dtype=np.bool_)
    if evidence.spec.offered.phases[phase].is_open:
        for slot in np.nonzero(grid.phase == phase)[0].tolist():
            events = evidence.joined.of_slot(slot)
            found[events.first - first : events.first - first + events.size] = delayed(own, events)
    return found


def _more_cpu(evidence: Evidence) -> str:
    """Name what gives writers more CPU where they run."""
    on_host = evidence.spec.offered.load_from == "host"
    return "a load host with more cores" if on_host else "more memory (CPU) per writer"


def _check_generator(evidence: Evidence, window: str, found: OperationsResult) -> Iterator[Caveat]:
    if not found.held_back:
        return
    writers = evidence.spec.offered.writers
    share, cpu, alone = found.generator_share or 0, found.generator_cpu or 0, (found.clients or 0) <= writers
    remedy = f"Use more writers, {_more_cpu(evidence)}, or fewer clients; on one machine, close what else runs."
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


def _find_queues(evidence: Evidence, delays: Mapping[int, NDArray[np.bool_]]) -> _Queues:
    """Count measured events that were sent late, as soon as a place was free, and all that are judged."""
    grid, phases = evidence.joined.grid, evidence.spec.offered.phases
    waited, judged, standstills = 0, 0, []
    for slot, phase in enumerate(grid.phase.tolist()):
        if phases[phase].measured and phases[phase].load:
            events = evidence.joined.of_slot(slot)
            spans = tuple(find_standstills(events, evidence.spec.offered.max_in_flight))
            left_out = delayed(spans, events)
            if phase in delays:
                first = events.first - grid.span_of_phase(phase)[0]
                left_out |= delays[phase][first : first + events.size]
            counts = _count_queued_in_slot(events, left_out, evidence.spec.offered.max_in_flight)
            waited, judged = waited + counts[0], judged + counts[1]
            standstills += [(phase, span) for span in spans]
    return _Queues(waited, judged, standstills)


def _count_queued_in_slot(events: Joined, left_out: NDArray[np.bool_], places: int) -> tuple[int, int]:
    sent = events.outcome <= Outcome.UNKNOWN
    judged = ~left_out[sent]
    t1_ns, t2_ns, lateness_ns = events.t1_ns[sent], events.t2_ns[sent], events.lateness_ns[sent]
    order = np.argsort(t1_ns, kind="stable")
    # Who waited for a place was sent as soon as an answer freed one: a moment before, all others had taken them all.
    ended = np.searchsorted(np.sort(t2_ns), t1_ns[order] - ON_TIME_NS, side="right")
    full = np.arange(order.size) - ended >= places
    late = lateness_ns[order] > LATENESS_MS * NS_PER_MS
    return int(np.count_nonzero(full & late & judged[order])), int(np.count_nonzero(judged))
