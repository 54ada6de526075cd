"""How many modes a window's latency has."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from stepbench.contracts.measures import Modality
from stepbench.errors import InsufficientSampleError
from stepbench.stats.modality import find_modes

if TYPE_CHECKING:
    from stepbench.analysis.evidence import Evidence
    from stepbench.analysis.windows import MeasuredWindow

_PURPOSE = 3


def modality(evidence: Evidence, window: MeasuredWindow) -> Modality:
    """Of every k-th event, k = the autocorrelation time: a cluster of events that resemble each other is no mode."""
    phase = evidence.spec.plan.phases[window.phase].name
    sample = window.sample(window.latency_ms(), _PURPOSE)
    every = math.ceil(sample.rank_time) if sample.values.size else 1
    try:
        found = find_modes(sample.values[::every], sample.rng)
    except InsufficientSampleError as shortage:
        reason = f"every {every}th event: {shortage}" if every > 1 else str(shortage)
        return Modality(window=window.name, phase=phase, reason=reason)
    return Modality(window=window.name, phase=phase, p_value=found.p_value, modes_ms=found.at)
