"""What operations have beside latency and rate: kinds, percentiles with counts, errors, and parts of connecting."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepbench.analysis.evidence import gather
from stepbench.analysis.findings import OwnAnalysis
from stepbench.analysis.functions import generator_cpu
from stepbench.analysis.latency import NS_PER_MS
from stepbench.analysis.trial import trial_result
from stepbench.analysis.windows import NS_PER_S
from stepbench.contracts.measures import ConnectingResult, KindResult, OperationsResult
from stepbench.contracts.workload import OPERATION_KINDS, Kind
from stepbench.experiments.operations.invocations import invocations_result
from stepbench.model.request import Outcome
from stepbench.stats.estimates import percentile_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from stepbench.analysis.evidence import Evidence, Stored
    from stepbench.analysis.windows import MeasuredWindow
    from stepbench.contracts.measures import KindName
    from stepbench.contracts.result import TrialResult
    from stepbench.records.join.joined import Joined

_NS_PER_MINUTE = 60 * NS_PER_S
_NAMES: dict[Kind, KindName] = {
    Kind.READ: "read",
    Kind.INSERT: "insert",
    Kind.OVERWRITE: "overwrite",
    Kind.UPDATE: "update",
    Kind.READ_MODIFY_WRITE: "read_modify_write",
    Kind.SCAN: "scan",
}
_PARTS = ("connect_ns", "tls_ns", "authenticate_ns", "operate_ns")


def analyse(stored: Stored) -> TrialResult:
    """Return everything that the report shows of the trial; raises as `gather` and `trial_result` do."""
    return trial_result(gather(stored), OperationsAnalysis())


class OperationsAnalysis(OwnAnalysis):
    """What windows of operations have beyond latencies and counts."""

    def window(self, evidence: Evidence, window: MeasuredWindow) -> OperationsResult | None:
        """Return one window's result; None of a trial without a workload."""
        plan, joined = evidence.spec.offered, evidence.joined
        if plan.workload is None:
            return None
        closed = plan.phases[window.phase].closed
        service = window.sample(window.latency_ms())
        invocations = invocations_result(evidence.records, window.phase)
        wall_s = _wall_s(joined, window) if plan.phases[window.phase].offers_number else None
        wall_s = invocations.wall_s if invocations else wall_s
        return OperationsResult(
            clients=plan.waiting_clients(window.phase),
            kinds=tuple(_kinds(joined, window)),
            percentiles=percentile_table(service),
            per_minute=_per_minute(joined, window),
            wall_s=wall_s,
            per_wall_s=window.n / wall_s if wall_s else None,
            retries=int(_extra(joined, "retries", window.scheduled).sum()),
            generator_share=None if closed is None else _generator_share(joined, window.acknowledged, closed.think_ms),
            generator_cpu=generator_cpu(evidence, window.phase),
            connecting=None if plan.workload.reuse else _connecting(joined, window),
            invocations=invocations,
        )


def _kinds(joined: Joined, window: MeasuredWindow) -> Iterator[KindResult]:
    """Yield the kinds that were sent, in the order of `Kind`."""
    kinds = _extra(joined, "kind", window.scheduled)
    for kind in OPERATION_KINDS:
        events = window.scheduled[kinds == kind]
        sent = [int(np.count_nonzero(joined.outcome[events] == outcome)) for outcome in Outcome]
        if sum(sent) == 0:
            continue
        ok = events[joined.outcome[events] == Outcome.OK]
        service = window.sample(joined.service_ns[ok].astype(np.int64) / NS_PER_MS, events=ok)
        response = window.sample(_response_ns(joined, ok) / NS_PER_MS, events=ok)
        yield KindResult(
            kind=_NAMES[kind],
            ok=sent[Outcome.OK],
            failed=sent[Outcome.FAILED],
            unknown=sent[Outcome.UNKNOWN],
            service_ms=service.latency(),
            response_ms=response.latency(),
            percentiles=percentile_table(service),
        )


def _per_minute(joined: Joined, window: MeasuredWindow) -> tuple[int, ...]:
    minutes = int(window.length_s / 60 + 1e-9)
    counts = np.zeros(minutes, np.int64)
    for part in joined.of_phase(window.phase).parts():
        place = (part.t2_ns[part.outcome == Outcome.OK] - window.start_ns) // _NS_PER_MINUTE
        counts += np.bincount(place[(place >= 0) & (place < minutes)], minlength=minutes)
    return tuple(counts.tolist())


def _wall_s(joined: Joined, window: MeasuredWindow) -> float | None:
    """Return the time from the first send to the last answer of those that were answered; None without any."""
    events = window.acknowledged
    if events.size == 0:
        return None
    t2_ns = joined.t0_ns[events] + _response_ns(joined, events)
    t1_ns = t2_ns - joined.service_ns[events]
    return float(t2_ns.max() - t1_ns.min()) / NS_PER_S


def _generator_share(joined: Joined, events: NDArray[np.int64], think_ms: float) -> float | None:
    """Return the generator's share of the whole cycle, pauses included: a pausing client would offer little more."""
    cycles_ns = int(_response_ns(joined, events).sum()) + events.size * think_ms * NS_PER_MS
    return float(int(joined.lateness_ns[events].sum()) / cycles_ns) if cycles_ns > 0 else None


def _response_ns(joined: Joined, events: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the time from t0 to t2 of events that were sent."""
    return joined.lateness_ns[events].astype(np.int64) + joined.service_ns[events]


def _connecting(joined: Joined, window: MeasuredWindow) -> ConnectingResult | None:
    """Return the parts of acknowledged operations; None where none of them made a connection."""
    parts = {name: _extra(joined, name, window.acknowledged) for name in _PARTS}
    service_ns = joined.service_ns[window.acknowledged]
    accounted_ns = sum(int(part.sum()) for part in parts.values())
    if accounted_ns == 0:
        return None
    connect_ms, tls_ms, authenticate_ms, operate_ms = (
        window.sample(part_ns / NS_PER_MS).latency() for part_ns in parts.values()
    )
    return ConnectingResult(
        connect_ms=connect_ms,
        tls_ms=tls_ms if parts["tls_ns"].any() else None,
        authenticate_ms=authenticate_ms if parts["authenticate_ns"].any() else None,
        operate_ms=operate_ms,
        unaccounted_share=1 - accounted_ns / int(service_ns.sum()),
    )


def _extra(joined: Joined, name: str, events: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a column that only operations have; one that is not stored is all 0."""
    column = joined.extras.get(name)
    return np.zeros(events.size, np.int64) if column is None else column[events].astype(np.int64)
