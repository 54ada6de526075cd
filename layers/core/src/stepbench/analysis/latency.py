"""Every event's latency, as its experiment measures it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepbench.contracts.measure import measure_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepbench.contracts.plan import TrialPlan
    from stepbench.records.join import Joined

NS_PER_MS = 1_000_000


def latency_ms(joined: Joined, plan: TrialPlan) -> NDArray[np.float64]:
    """t4 - t1 of triggers, `inf` where the event had not arrived by the drain limit; t2 - t1 of operations."""
    if not measure_of(plan.experiment).arrives:
        service_ms: NDArray[np.float64] = (joined.t2_ns - joined.t1_ns) / NS_PER_MS
        return service_ms
    return np.where(joined.arrived, (joined.t4_ns - joined.t1_ns) / NS_PER_MS, np.inf)
