"""What closed-loop load hides of a store's stalls: its clients wait, and offer nothing meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepbench.analysis.latency import NS_PER_MS
from stepbench.analysis.windows import NS_PER_S, measured_windows
from stepbench.contracts.result import Caveat
from stepbench.stats.coordinated_omission import scheduled_response

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from stepbench.analysis.doubts import Findings
    from stepbench.analysis.evidence import Evidence
    from stepbench.analysis.windows import MeasuredWindow

STALL = 10.0
"""An operation that takes so many times p99 belongs to no tail; something stood still."""
PACE = 0.5
"""Of each client's own pace: at the whole of it, a schedule would have no time to catch up."""


def stall_doubts(evidence: Evidence, findings: Findings) -> Iterator[Caveat]:
    """One for each closed-loop window whose longest operation took more than `STALL` times p99."""
    for window, result in zip(measured_windows(evidence), findings.windows, strict=True):
        p99_ms, longest_ms = result.latency_ms.p99.value, result.latency_ms.max
        if evidence.spec.plan.phases[window.phase].closed is None or p99_ms is None or longest_ms is None:
            continue
        if longest_ms > STALL * p99_ms:
            seen, due = _shares(evidence, window, STALL * p99_ms)
            text = (
                f"Window {window.name}: the longest operation took {longest_ms:.4g} ms, {longest_ms / p99_ms:.0f} "
                f"times p99 ({p99_ms:.3g} ms). Clients that wait offer nothing, so few operations show it: "
                f"{seen:.2g} % took more than {STALL:g} times p99. Had they been due at an even pace, half as fast, "
                f"{due:.2g} % would have waited so long."
            )
            remedy = "Give load in place of closed: its response times, from t0, contain the waiting."
            yield Caveat(kind="stalls_hidden", text=text, remedy=remedy)


def _shares(evidence: Evidence, window: MeasuredWindow, limit_ms: float) -> tuple[float, float]:
    """Percent of operations above the limit: as measured, and as a schedule would have had them."""
    service_ms = window.latency_ms()
    client = evidence.joined.extras.get("client")
    numbers = np.zeros(service_ms.size, np.int64) if client is None else client[window.acknowledged]
    due_ms = [
        _scheduled(service_ms[numbers == number], window.length_s * NS_PER_S / NS_PER_MS)
        for number in np.unique(numbers).tolist()
    ]
    seen = np.count_nonzero(service_ms > limit_ms) / service_ms.size
    return 100 * seen, 100 * float(np.count_nonzero(np.concatenate(due_ms) > limit_ms)) / service_ms.size


def _scheduled(service_ms: NDArray[np.float64], length_ms: float) -> NDArray[np.float64]:
    return scheduled_response(service_ms, length_ms / service_ms.size / PACE)
