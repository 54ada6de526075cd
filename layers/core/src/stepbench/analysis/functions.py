"""What REPORT lines say of a trial's functions, and writers of their CPU."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from stepbench.contracts.result import Invocations
from stepbench.stats.quantiles import quantile

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stepbench.analysis.evidence import Evidence
    from stepbench.records.formats.second_sources import ReportLine, ReportPage


def summarise_functions(pages: Iterable[ReportPage]) -> tuple[Invocations, ...]:
    """Return what each function that ran did, by name."""
    lines = lines_by_function(pages)
    return tuple(summarise_function(name, list(by_id.values())) for name, by_id in sorted(lines.items()) if by_id)


def lines_by_function(pages: Iterable[ReportPage]) -> dict[str, dict[str, ReportLine]]:
    """Return the lines by function and request id: a log that is read again has the same ones."""
    lines: dict[str, dict[str, ReportLine]] = {}
    for page in pages:
        lines.setdefault(page.function, {}).update((line.request_id, line) for line in page.lines)
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
