"""What a closed loop hides of a store's stalls: clients that wait offer nothing (coordinated omission)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepbench.analysis.latency import NS_PER_MS
from stepbench.analysis.windows import NS_PER_S
from stepbench.contracts.result import Caveat

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from stepbench.analysis.caveats.findings import Findings
    from stepbench.analysis.evidence import Evidence
    from stepbench.analysis.windows import MeasuredWindow

STALL = 10.0
"""An operation that takes so many times p99 belongs to no tail; something stood still."""
PACE = 0.5
"""A schedule at a client's own full pace would have no time to catch up, so it has this share of it."""


def find_hidden_stalls(evidence: Evidence, findings: Findings) -> Iterator[Caveat]:
    """Report each closed-loop window whose longest operation took more than `STALL` times p99."""
    for place, (window, result) in enumerate(zip(findings.measured_windows, findings.windows, strict=True)):
        p99_ms, longest_ms = result.latency_ms.p99.value, result.latency_ms.max
        if evidence.spec.offered.phases[window.phase].closed is None or p99_ms is None or longest_ms is None:
            continue
        if longest_ms > STALL * p99_ms:
            seen, due = _stalled_shares(evidence, window, STALL * p99_ms)
            text = (
                f"Window {window.name}: the longest operation took {longest_ms:.4g} ms, {longest_ms / p99_ms:.0f} "
                f"times p99 ({p99_ms:.3g} ms). Clients that wait offer nothing, so few operations show it: "
                f"{seen:.2g} % took more than {STALL:g} times p99. Had they been due at an even pace, half as fast, "
                f"{due:.2g} % would have waited so long."
            )
            remedy = "Give load in place of closed: its response times, from t0, contain the waiting."
            yield Caveat(kind="stalls_hidden", text=text, remedy=remedy, windows=(place,))


def _stalled_shares(evidence: Evidence, window: MeasuredWindow, limit_ms: float) -> tuple[float, float]:
    """Return the percentage of operations above the limit, as measured and as a schedule would have had them."""
    service_ms = window.latency_ms()
    client = evidence.joined.extras.get("client")
    numbers = np.zeros(service_ms.size, np.int64) if client is None else client[window.acknowledged]
    length_ms = window.length_s * NS_PER_S / NS_PER_MS
    own = (service_ms[numbers == number] for number in np.unique(numbers).tolist())
    due_ms = [scheduled_response(client_ms, length_ms / client_ms.size / PACE) for client_ms in own]
    seen = np.count_nonzero(service_ms > limit_ms) / service_ms.size
    return 100 * seen, 100 * float(np.count_nonzero(np.concatenate(due_ms) > limit_ms)) / service_ms.size


def scheduled_response(service: NDArray[np.float64], interval: float) -> NDArray[np.float64]:
    """
    Return how long one client's operations would have taken, had one been due every `interval`.

    Each waits until those before it are answered: W' = max(0, W + S - interval), response = W + S. It supposes that
    the store would have answered each as fast as it did, so it says what a client would have waited for at least.

    Args:
        service: shape (n,), one client's service times in order.
        interval: between due times, same unit, at least 0.

    Source:
        Tene (2015), How NOT to measure latency (coordinated omission); Schroeder, Wierman & Harchol-Balter (2006), Open
        versus closed: a cautionary tale, NSDI '06; Lindley (1952), The theory of queues with a single server,
        Mathematical Proceedings of the Cambridge Philosophical Society 48(2); as a reflected random walk, Asmussen
        (2003), Applied Probability and Queues, III.7.
    """
    walk = np.concatenate(([0.0], np.cumsum(service - interval)[:-1])) if service.size else service
    wait = walk - np.minimum.accumulate(walk)
    response: NDArray[np.float64] = wait + service
    return response
