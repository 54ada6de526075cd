"""One trial's result is computed from all the evidence that was gathered."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepbench.analysis.caveats import find_caveats
from stepbench.analysis.clocks import measure_clock, window_samples
from stepbench.analysis.comparability import place_in_run
from stepbench.analysis.costs import trial_cost
from stepbench.analysis.distributions import box, comparisons, modality, replication, window_curve
from stepbench.analysis.evidence import FLOOR_PER_S, gather
from stepbench.analysis.findings import Findings, OwnAnalysis
from stepbench.analysis.functions import count_deliveries, lines_by_function, median_of, summarise_function
from stepbench.analysis.handler import FURTHER_APART, handler_points, handler_result
from stepbench.analysis.latency import (
    NS_PER_MS,
    after_ack,
    from_event,
    latency_of,
    lateness,
    response_trigger,
    response_write,
    service,
    to_event,
)
from stepbench.analysis.outcomes import count_errors
from stepbench.analysis.precision import found_rate, stopped_phases
from stepbench.analysis.rates import change_points, rates
from stepbench.analysis.stalls import find_stalls
from stepbench.analysis.timeline import phase_spans, series, stall_spans
from stepbench.analysis.windows import measured_windows
from stepbench.contracts.documents import Failure
from stepbench.contracts.invocations import Invocations
from stepbench.contracts.measures import Latency, WindowResult
from stepbench.contracts.result import Accounting, TrialResult, TrialSummary
from stepbench.model.request import Outcome
from stepbench.records.join.reader import event_time_resolution_ns
from stepbench.records.join.trial import account
from stepbench.stats.estimates import Sample

if TYPE_CHECKING:
    from stepbench.analysis.evidence import Evidence, Stored
    from stepbench.analysis.windows import MeasuredWindow
    from stepbench.records.formats.t4_items import ItemColumns

NOTHING_MEASURED = "NothingMeasuredError"
RECEIVER = "ReceiveEvents"


def analyse(stored: Stored) -> TrialResult:
    """Return the result of a trial to which its experiment adds nothing; raises as `gather` and `trial_result` do."""
    return trial_result(gather(stored), OwnAnalysis())


def trial_result(evidence: Evidence, own: OwnAnalysis) -> TrialResult:
    """
    Return everything that the report shows of the trial; `own` is the part that its experiment adds.

    Raises:
        AccountingError: the accounting does not balance.
    """
    windows = list(measured_windows(evidence))
    measured, warm_up = _account(evidence)
    results = tuple(_window_result(evidence, window, own) for window in windows)
    added = own.trial(evidence, windows, results)
    failure = evidence.failure.failure() or _nothing_measured(evidence, results) or added.failure
    stopped = tuple(stopped_phases(evidence, results))
    stalls = find_stalls(evidence)
    findings = Findings(
        measured, warm_up, results, measure_clock(evidence), failure, stopped, tuple(windows), stalls, added
    )
    functions, spec = _invocations(evidence), evidence.spec
    function = spec.offered.target.function
    summary = TrialSummary(
        **place_in_run(spec),
        name=spec.name,
        index=spec.index,
        store=spec.offered.target.store,
        provider=evidence.served.provider,
        load_hosts=evidence.load_hosts,
        emulated=evidence.served.emulated,
        stand_ins=evidence.served.stand_ins,
        function=function.described if function else "",
        function_metrics=evidence.collection.metrics if evidence.collection else None,
        incomplete=failure is not None,
        failure=failure,
        accounting=measured,
        warm_up=warm_up,
        windows=results,
        clock=findings.clock,
        caveats=find_caveats(evidence, findings),
        invocations=functions,
        comparisons=comparisons(evidence, windows),
        change_points=change_points(evidence),
        modality=tuple(modality(evidence, window) for window in windows),
        replication=replication(spec.offered, windows, results),
        found_rate=found_rate(evidence),
        stopped=stopped,
        cost_usd=trial_cost(evidence, functions, added.use),
        floor_ms=_floor(evidence),
        slow_spells=evidence.slow_spells,
        dataflow=added.dataflow,
    )
    return TrialResult(
        summary=summary,
        series=series(evidence),
        phases=phase_spans(evidence),
        ecdf=tuple(window_curve(evidence, window) for window in windows),
        stalls=stall_spans(evidence, stalls),
        boxes=tuple(box(evidence, window) for window in windows),
        rates=rates(evidence),
        samples=window_samples(evidence, windows),
        handler=handler_points(evidence),
        dataflow=added.chart_data,
    )


def _window_result(evidence: Evidence, window: MeasuredWindow, own: OwnAnalysis) -> WindowResult:
    """Return what the summary says of a window."""
    outcomes = evidence.joined.outcome[window.unacknowledged]
    resolution_ns = event_time_resolution_ns(evidence.spec)
    return WindowResult(
        name=window.name,
        phase=evidence.spec.offered.phases[window.phase].name,
        n=window.n,
        sent=window.sent,
        unsent=window.unsent,
        failed=int(np.count_nonzero(outcomes == Outcome.FAILED)),
        unknown=int(np.count_nonzero(outcomes == Outcome.UNKNOWN)),
        errors=count_errors(evidence.joined, window.unacknowledged),
        lost=window.count_lost(evidence.cut_off_ns),
        duplicates=window.count_duplicates(),
        offered_per_s=window.offered / window.length_s,
        achieved_per_s=window.achieved_per_s,
        kept_up_per_s=window.backlog.kept_up_per_s if window.backlog else None,
        latency_ms=window.latency(latency_of(evidence.spec.offered)),
        after_ack_ms=window.arrival_latency(after_ack),
        event_resolution_ms=resolution_ns / NS_PER_MS if resolution_ns else None,
        to_event_ms=window.latency(to_event) if resolution_ns else None,
        from_event_ms=window.latency(from_event) if resolution_ns else None,
        response_write_ms=window.latency(response_write),
        response_trigger_ms=window.arrival_latency(response_trigger),
        service_ms=window.latency(service),
        lateness_ms=window.latency(lateness),
        deliveries=count_deliveries(evidence, window),
        operations=own.window(evidence, window),
        handler=handler_result(evidence, window),
    )


def _nothing_measured(evidence: Evidence, windows: tuple[WindowResult, ...]) -> Failure | None:
    """Fail a trial that passed all its states and has a window without one event that was acknowledged and watched."""
    empty = [window.name for window in windows if window.n == 0]
    if not empty:
        return None
    watched = " while anybody watched" if evidence.records.watch_gaps else ""
    cause = f"no event of window {', '.join(empty)} that had to arrive was acknowledged{watched}"
    if evidence.joined.unpaired.any():
        cause = f"of window {', '.join(empty)} no event is known to be of one invocation. {FURTHER_APART}"
    return Failure(error=NOTHING_MEASURED, cause=cause)


def _account(evidence: Evidence) -> tuple[Accounting | None, Accounting | None]:
    """Account for the measured phases and for the others; None where none of them was planned."""
    joined, phases = evidence.joined, evidence.spec.offered.phases
    measured = np.zeros(joined.size, dtype=np.bool_)
    for number, phase in enumerate(phases):
        measured[slice(*joined.grid.span_of_phase(number))] = phase.measured
    planned, cut_off_ns = {phases[phase].measured for phase in evidence.records.starts_ns}, evidence.cut_off_ns
    return (
        account(joined, measured, malformed=evidence.malformed, cut_off_ns=cut_off_ns) if True in planned else None,
        account(joined, ~measured, apart=False, cut_off_ns=cut_off_ns) if False in planned else None,
    )


def _floor(evidence: Evidence) -> Latency | None:
    """Return the floor's latency; its events are sent at an even pace, as an unloaded trial's are."""
    values_ms = np.array(evidence.floor_ms, dtype=np.float64)
    if values_ms.size == 0:
        return None
    at_s = np.arange(values_ms.size) / FLOOR_PER_S
    rng = np.random.default_rng(evidence.spec.offered.seed)
    return Sample(values_ms, at_s, values_ms.size / FLOOR_PER_S, evidence.spec.offered.drain_limit_s, rng).latency()


def _invocations(evidence: Evidence) -> tuple[Invocations, ...]:
    """Return what each function that ran did, by name: from REPORT lines, and from the receivers' own stamps."""
    lines = lines_by_function(evidence.pages)
    items = evidence.records.items
    receiver = evidence.spec.offered.receiver
    if receiver == RECEIVER:
        # It serves every trial of the stack: only this trial's invocations count. CheckClock serves one at a time.
        own = items.invocations()
        lines[RECEIVER] = {key: line for key, line in lines.get(RECEIVER, {}).items() if line.request_id in own}
    found = (summarise_function(name, list(own.values())) for name, own in sorted(lines.items()) if own)
    completed = tuple(_add_own_stamps(each, items) if each.function == receiver else each for each in found)
    if completed or not items.tries:
        return completed
    return (_add_own_stamps(Invocations(function=receiver, invocations=items.tries, cold_starts=0), items),)


def _add_own_stamps(reported: Invocations, items: ItemColumns) -> Invocations:
    """Take cold starts from the receivers' own stamps where no REPORT line reports any, as an emulator's."""
    cold = [init_ns / NS_PER_MS for init_ns in items.cold_init_ns().values()]
    if reported.cold_starts or not cold:
        return reported
    update = {"cold_starts": len(cold), "init_ms_p50": median_of(cold), "init_ms_max": max(cold, default=None)}
    return reported.model_copy(update=update)
