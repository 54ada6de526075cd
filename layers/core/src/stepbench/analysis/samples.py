"""Small windows' values one by one: what a later comparison of trials needs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from stepbench.analysis.latency import after_ack
from stepbench.contracts.drawn import WindowSample
from stepbench.contracts.measure import measure_of
from stepbench.contracts.target import DynamoDbTarget
from stepbench.records.sandboxes import same_sandbox

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from stepbench.analysis.evidence import Evidence
    from stepbench.analysis.windows import MeasuredWindow

MAX_EVENTS = 1_000


def window_samples(evidence: Evidence, windows: Sequence[MeasuredWindow]) -> tuple[WindowSample, ...]:
    """Of DynamoDB's windows that are small enough, since of its trials pairs may check clocks."""
    plan = evidence.spec.plan
    if not isinstance(plan.target, DynamoDbTarget) or not measure_of(plan.experiment).arrives:
        return ()
    same = written_and_received(evidence)
    return tuple(_sample(evidence, window, same) for window in windows if 0 < window.n <= MAX_EVENTS)


def written_and_received(evidence: Evidence) -> NDArray[np.bool_] | None:
    """Per event, whether one sandbox did both; None for a target without `same_sandbox`."""
    target = evidence.spec.plan.target
    if not isinstance(target, DynamoDbTarget) or not target.same_sandbox:
        return None
    return same_sandbox(evidence.records.kept.files, evidence.records.kept.items, evidence.joined)


def _sample(evidence: Evidence, window: MeasuredWindow, same: NDArray[np.bool_] | None) -> WindowSample:
    latency_ms = window.latency_ms()
    return WindowSample(
        window=window.name,
        phase=evidence.spec.plan.phases[window.phase].name,
        length_s=window.length_s,
        at_s=tuple(window.sample(latency_ms).at_s.tolist()),
        latency_ms=_finite(latency_ms),
        after_ack_ms=_finite(window.values_ms(after_ack)),
        same_sandbox=None if same is None else tuple(same[window.acknowledged].tolist()),
    )


def _finite(values_ms: NDArray[np.float64]) -> tuple[float | None, ...]:
    return tuple(value if math.isfinite(value) else None for value in values_ms.tolist())
