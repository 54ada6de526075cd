"""What REPORT lines say of a trial's functions, writers of their CPU, and receivers of their batches, by window."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from stepbench.contracts.experiment import traits_of
from stepbench.contracts.invocations import BatchCount, Deliveries, Invocations
from stepbench.stats.quantiles import quantile

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from stepbench.analysis.evidence import Evidence
    from stepbench.analysis.windows import MeasuredWindow
    from stepbench.records.formats.second_sources import ReportLine, ReportPage


def summarise_functions(pages: Iterable[ReportPage]) -> tuple[Invocations, ...]:
    """Return what each function that ran did, by name."""
    lines = lines_by_function(pages)
    return tuple(summarise_function(name, list(own.values())) for name, own in sorted(lines.items()) if own)


def lines_by_function(pages: Iterable[ReportPage]) -> dict[str, dict[tuple[str, int], ReportLine]]:
    """Return the lines by function, and by request id and time: a log that is read again has the same ones."""
    lines: dict[str, dict[tuple[str, int], ReportLine]] = {}
    for page in pages:
        lines.setdefault(page.function, {}).update(((line.request_id, line.at_ms), line) for line in page.lines)
    return lines


def summarise_function(name: str, lines: Sequence[ReportLine]) -> Invocations:
    """Return what the lines of one function say of it."""
    inits = [line.init_ms for line in lines if line.init_ms is not None]
    durations = [line.duration_ms for line in lines]
    return Invocations(
        function=name,
        invocations=len(lines),
        cold_starts=len(inits),
        init_ms_p50=median_of(inits),
        init_ms_max=max(inits, default=None),
        duration_ms_p50=median_of(durations),
        duration_ms_max=max(durations, default=None),
        billed_ms=sum(line.billed_ms for line in lines),
        billed_gb_s=sum(line.gb_s for line in lines),
        max_memory_mb=max((line.max_memory_mb for line in lines if line.max_memory_mb is not None), default=None),
    )


def median_of(values: Iterable[float]) -> float | None:
    """Return the median; None of nothing."""
    ascending = np.sort(np.array(list(values), dtype=np.float64))
    return quantile(ascending, 0.5) if ascending.size else None


def generator_cpu(evidence: Evidence, phase: int) -> float | None:
    """Return the busiest writer's share of its CPU: the mean over its slices, whose last files record it."""
    shares: dict[int, list[float]] = {}
    for header in (file.header for file in evidence.records.files):
        if header.phase == phase and header.cpu_share is not None:
            shares.setdefault(header.writer, []).append(header.cpu_share)
    return max(map(fmean, shares.values()), default=None)


_COMMONEST = 10


def count_deliveries(evidence: Evidence, window: MeasuredWindow) -> Deliveries | None:
    """Return the sizes of the batches that brought the window's events; None where there are none, or nothing came."""
    joined, items, target = evidence.joined, evidence.records.items, evidence.spec.offered.target
    if not target.delivers_batches or not traits_of(evidence.spec.plan.experiment).by_trigger:
        return None
    events = joined.of_phase(window.phase)
    own = window.acknowledged - events.first
    rows = np.unique(events.item[own[events.arrived[own]]])
    _, invocations = np.unique(items.request[rows], return_index=True)  # a retry has its first try's request id
    return describe_batches(items.batch[rows[invocations]]) if rows.size else None


def describe_batches(sizes: NDArray[np.uint32]) -> Deliveries:
    """Describe the records per invocation, shape (n,), n >= 1."""
    ascending = np.sort(sizes)
    records, counts = np.unique(ascending, return_counts=True)
    order = np.lexsort((records, -counts))[:_COMMONEST]
    return Deliveries(
        invocations=ascending.size,
        min=int(ascending[0]),
        p50=quantile(ascending, 0.5),
        p90=quantile(ascending, 0.9),
        max=int(ascending[-1]),
        mean=float(ascending.mean()),
        commonest=tuple(BatchCount(records=int(records[n]), invocations=int(counts[n])) for n in order.tolist()),
    )
