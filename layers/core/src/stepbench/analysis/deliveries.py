"""How many records each invocation was handed, by window: what became of a batch size."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepbench.contracts.experiment import traits_of
from stepbench.contracts.measures import BatchCount, Deliveries
from stepbench.stats.quantiles import quantile

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepbench.analysis.evidence import Evidence
    from stepbench.analysis.windows import MeasuredWindow

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
