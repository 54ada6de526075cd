"""One trial's result, from all that was gathered. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepbench.analysis.boxes import box
from stepbench.analysis.change_points import change_points
from stepbench.analysis.clock import clock
from stepbench.analysis.comparisons import comparisons
from stepbench.analysis.doubts import Findings, doubts
from stepbench.analysis.evidence import FLOOR_PER_S
from stepbench.analysis.found_rate import found_rate
from stepbench.analysis.functions import invocations
from stepbench.analysis.modality import modality
from stepbench.analysis.rates import rates
from stepbench.analysis.replication import replication
from stepbench.analysis.samples import window_samples
from stepbench.analysis.setup import setup_of
from stepbench.analysis.stopping import as_offered, stopped
from stepbench.analysis.timeline import phase_spans, series
from stepbench.analysis.windows import measured_windows, window_curve, window_result
from stepbench.contracts.measures import Latency
from stepbench.contracts.result import Accounting, Cost, Failure, TrialResult, TrialSummary
from stepbench.costs import Usage, actual_cost
from stepbench.records.books import account
from stepbench.records.columns import UNSENT
from stepbench.stats.estimates import Sample

if TYPE_CHECKING:
    from stepbench.analysis.evidence import Evidence
    from stepbench.contracts.measures import WindowResult
    from stepbench.contracts.result import Invocations

NOTHING_MEASURED = "NothingMeasuredError"


def trial_result(evidence: Evidence) -> TrialResult:
    """
    Everything that the report shows of the trial.

    Raises:
        AccountingError: the books do not balance.
    """
    windows = list(measured_windows(evidence))
    measured, warm_up = _books(evidence)
    results = tuple(window_result(evidence, window) for window in windows)
    failure = evidence.failure.failure() or _nothing_measured(results)
    ended = stopped(evidence, results)
    findings = Findings(
        accounting=tuple(books for books in (measured, warm_up) if books is not None),
        windows=results,
        clock=clock(evidence),
        failure=failure,
        stopped=ended,
    )
    functions, spec = invocations(evidence), evidence.spec
    summary = TrialSummary(
        name=spec.name,
        index=spec.index,
        experiment=spec.plan.experiment,
        store=spec.plan.target.store,
        provider=evidence.provider,
        emulated=evidence.emulated,
        incomplete=failure is not None,
        failure=failure,
        accounting=measured,
        warm_up=warm_up,
        windows=findings.windows,
        clock=findings.clock,
        caveats=doubts(evidence, findings),
        invocations=functions,
        comparisons=comparisons(evidence, windows),
        change_points=change_points(evidence),
        modality=tuple(modality(evidence, window) for window in windows),
        replication=replication(spec.plan, windows, results),
        found_rate=found_rate(evidence),
        stopped=ended,
        cost_usd=Cost(estimate=spec.estimate_usd, actual=_cost(evidence, functions)),
        floor_ms=_floor(evidence),
        group=spec.group or spec.name,
        base=spec.base,
        repeat=spec.repeat,
        point=spec.point,
        setup=setup_of(spec.plan),
    )
    return TrialResult(
        summary=summary,
        series=series(evidence),
        phases=phase_spans(evidence),
        ecdf=tuple(window_curve(evidence, window) for window in windows),
        boxes=tuple(box(evidence, window) for window in windows),
        rates=rates(evidence),
        samples=window_samples(evidence, windows),
    )


def _nothing_measured(windows: tuple[WindowResult, ...]) -> Failure | None:
    """A trial that went through all its states and has a window without one acknowledged event has failed as well."""
    empty = [window.name for window in windows if window.n == 0]
    if not empty:
        return None
    return Failure(
        error=NOTHING_MEASURED, cause=f"no event of window {', '.join(empty)} that had to arrive was acknowledged"
    )


def _books(evidence: Evidence) -> tuple[Accounting | None, Accounting | None]:
    """The measured phases', and the others'; None where none of them was planned."""
    joined, phases = evidence.joined, evidence.spec.plan.phases
    measured = np.zeros(joined.size, dtype=np.bool_)
    for number, phase in enumerate(phases):
        measured[slice(*joined.grid.span_of_phase(number))] = phase.measured
    planned = {phases[phase].measured for phase in evidence.records.starts_ns}
    return (
        account(joined, measured, malformed=evidence.malformed) if True in planned else None,
        account(joined, ~measured, apart=False) if False in planned else None,
    )


def _cost(evidence: Evidence, functions: tuple[Invocations, ...]) -> float:
    """Events that may have been sent are billed as sent; logs that are not all there are not used."""
    whole = _logs_are_whole(evidence, functions)
    usage = Usage(
        sent=int(np.count_nonzero(evidence.joined.offered & (evidence.joined.outcome != UNSENT))),
        batches=len(evidence.records.items),
        invocations=sum(each.invocations for each in functions) if whole else None,
        billed_ms=sum(each.billed_ms for each in functions) if whole else None,
        preloaded=evidence.spec.plan.preloaded_keys,
    )
    return actual_cost(as_offered(evidence.spec.plan, evidence), usage)


def _logs_are_whole(evidence: Evidence, functions: tuple[Invocations, ...]) -> bool:
    """Whether every receiver, every attempt of a writer, and a watcher where there must be one left a REPORT line."""
    collection = evidence.collection
    if collection is None or collection.every > 1 or collection.seen < collection.expected:
        return False
    reported = {each.function: each.invocations for each in functions}
    watched = not evidence.records.items.all_received
    return reported.get("RunWriter", 0) >= len(evidence.records.started) and (
        not watched or reported.get("WatchChanges", 0) > 0
    )


def _floor(evidence: Evidence) -> Latency | None:
    """Sent at an even pace, as an unloaded trial's events are."""
    values_ms = np.array(evidence.floor_ms, dtype=np.float64)
    if values_ms.size == 0:
        return None
    at_s = np.arange(values_ms.size) / FLOOR_PER_S
    rng = np.random.default_rng(evidence.spec.plan.seed)
    return Sample(values_ms, at_s, values_ms.size / FLOOR_PER_S, evidence.spec.plan.drain_limit_s, rng).latency()
