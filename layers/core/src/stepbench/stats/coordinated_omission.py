"""
What a closed loop hides: while a store stalls, its clients wait and offer nothing, so few operations see the stall.

Times of closed-loop operations are set beside those of operations that were due on a schedule; each of the two has
its quantiles and their ratio says what would have been left out.

Source:
    Tene (2015), How NOT to measure latency (coordinated omission); Schroeder, Wierman & Harchol-Balter (2006), Open
    versus closed: a cautionary tale, NSDI '06.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepbench.stats.percentile_table import LEVELS, percentile_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepbench.contracts.measures import Estimate
    from stepbench.stats.estimates import Sample


class OmissionRow(NamedTuple):
    """
    One quantile of both. `ratio` is open over closed, `hidden` their difference; None where one has no value.

    closed: what the closed loop shows (service time). open: what who keeps to a schedule waits (response time).
    """

    q: float
    closed: Estimate
    open: Estimate
    hidden: float | None
    ratio: float | None


def omission_table(closed: Sample, open_: Sample, levels: tuple[float, ...] = LEVELS) -> tuple[OmissionRow, ...]:
    """
    The two side by side, in the samples' unit.

    Args:
        closed: service times (t2 - t1), as a closed loop measures them.
        open_: response times from the intended start (t2 - t0) of an open loop on the same store, or
            `scheduled_response` of the same service times.
        levels: which quantiles; 1 is the largest.
    """
    rows = zip(percentile_table(closed, levels), percentile_table(open_, levels), strict=True)
    return tuple(_row(in_closed.q, in_closed.estimate, in_open.estimate) for in_closed, in_open in rows)


def _row(q: float, closed: Estimate, open_: Estimate) -> OmissionRow:
    if closed.value is None or open_.value is None:
        return OmissionRow(q, closed, open_, None, None)
    ratio = open_.value / closed.value if closed.value > 0 else None
    return OmissionRow(q, closed, open_, open_.value - closed.value, ratio)


def scheduled_response(service: NDArray[np.float64], interval: float) -> NDArray[np.float64]:
    """
    How long one client's operations would have taken from their due times, had one been due every `interval`.

    Each waits until those before it are answered: W' = max(0, W + S - interval), response = W + S. It supposes that
    the store would have answered each as fast as it did, so it says what a client would have waited for at least.

    Args:
        service: shape (n,), one client's service times in order.
        interval: between due times, same unit, at least 0.

    Source:
        Lindley (1952), The theory of queues with a single server, Mathematical Proceedings of the Cambridge
        Philosophical Society 48(2); as a reflected random walk, Asmussen (2003), Applied Probability and Queues, III.7.
    """
    walk = np.concatenate(([0.0], np.cumsum(service - interval)[:-1])) if service.size else service
    wait = walk - np.minimum.accumulate(walk)
    response: NDArray[np.float64] = wait + service
    return response
