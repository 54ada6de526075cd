"""What a box plot draws of a window."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from stepbench.contracts.drawn import BoxStats
from stepbench.stats.quantiles import quantile

if TYPE_CHECKING:
    from stepbench.analysis.evidence import Evidence
    from stepbench.analysis.latency import Ascending
    from stepbench.analysis.windows import MeasuredWindow


def box(evidence: Evidence, window: MeasuredWindow) -> BoxStats:
    """Quantiles of the window's latency, without intervals: the table beside the plot has those."""
    ascending = window.ascending_latency()
    return BoxStats(
        window=window.name,
        phase=evidence.spec.plan.phases[window.phase].name,
        n=ascending.size,
        p1=_finite(ascending, 0.01),
        p25=_finite(ascending, 0.25),
        p50=_finite(ascending, 0.5),
        p75=_finite(ascending, 0.75),
        p90=_finite(ascending, 0.9),
        p99=_finite(ascending, 0.99),
    )


def _finite(ascending: Ascending, q: float) -> float | None:
    if ascending.size == 0:
        return None
    value = quantile(ascending, q)
    return value if math.isfinite(value) else None
