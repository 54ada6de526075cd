"""
Whether a window's events were accepted faster than they were worked through, so that the latency is a queue's.

By Little's law the events that wait are the rate times the latency: while a queue grows, the latency does, by as many
seconds a second as is the share of events that come too fast. How large it is when the window ends says how long the
window was, and nothing else.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepbench.contracts.measures import FELL_BEHIND
from stepbench.digits import rate
from stepbench.stats.trend import ENDS, LEAST_EVENTS, SPANS, Trend, bin_medians, end_of_arrivals_s, find_trend

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LEAST_RATIO = 1.5
_LEAST_WAITING = 3
_LEAST_LEFT = 0.01
"""Of the events that came, more are not worked through when the window ends: less is kept up with."""
_LEAST_SHARE = 0.002
"""So many seconds a second the latency grows at least, unless it grows tenfold: less is a store that gets slower."""
_STEEP = 0.1
"""From here on it need not grow to half as much again: in a queue that was long when the window began, it does not."""
_TENFOLD = 10.0
_BETWEEN_ENDS = 1 - ENDS / SPANS
"""The first and the last three tenths have their middles so much of the window apart."""


class Backlog(NamedTuple):
    """
    Events that waited ever longer.

    accepted_per_s, kept_up_per_s: how many came and how many were worked through, from when it fell behind until the
    window's end. before_s, after_s: the latency's medians in the window's first and last three tenths; after is `inf`
    where most of the last never arrived. waiting: by how many events the backlog grew between these.
    """

    accepted_per_s: float
    kept_up_per_s: float
    before_s: float
    after_s: float
    waiting: float

    def times(self, number: int) -> Backlog:
        """Return it of so many times as many events, of which only every so many was looked at."""
        return self._replace(
            accepted_per_s=number * self.accepted_per_s,
            kept_up_per_s=number * self.kept_up_per_s,
            waiting=number * self.waiting,
        )

    @property
    def reason(self) -> str:
        """Return why a quantile of the window has no interval."""
        kept_up, accepted = (rate(round(per_s, 1)) for per_s in (self.kept_up_per_s, self.accepted_per_s))
        return f"{FELL_BEHIND}: kept up with {kept_up} of {accepted}/s"


def find_backlog(elapsed_s: NDArray[np.float64], at_s: NDArray[np.float64], length_s: float) -> Backlog | None:
    """
    Return the backlog that grew in a window, in open loop; None where all was worked through as it came.

    Where most events never arrived from some moment on, those before it tell: they waited ever longer where a queue
    held up the rest, and no longer than usual where the rest was lost.

    Args:
        elapsed_s: shape (n,), what each accepted event took; `inf` where it has not arrived.
        at_s: shape (n,), ascending, when it came, in seconds since the window's start.
        length_s: of the window.
    """
    until_s = end_of_arrivals_s(elapsed_s, at_s, length_s)
    lost = np.isinf(elapsed_s) & (at_s < until_s)
    known = np.isfinite(elapsed_s) & (elapsed_s > 0) & (at_s < until_s)
    is_cut = until_s < length_s
    if at_s.size and length_s - at_s[-1] >= length_s / SPANS:  # a writer that fell behind sent the last of it never
        until_s = min(until_s, float(at_s[-1]))
    if not until_s:
        return None
    known_s, known_at_s = elapsed_s[known], at_s[known]
    trend = find_trend(known_s, known_at_s, until_s) or _rises_throughout(known_s, known_at_s, until_s)
    if is_cut:
        trend = _up_to_the_last(trend, known_s, known_at_s, until_s, length_s)
    if trend is None:
        return None
    grown_s = trend.after - trend.before
    share = grown_s / (_BETWEEN_ENDS * until_s)
    if trend.ratio < _LEAST_RATIO and share < _STEEP:
        return None
    since_s = 0.0 if trend.ratio < _LEAST_RATIO else _began_s(trend, until_s, 1 if is_cut else ENDS)
    came, ended_s = at_s >= since_s, at_s + elapsed_s
    accepted = int(np.count_nonzero(came))
    kept_up = int(np.count_nonzero((ended_s >= since_s) & (ended_s < length_s)))
    left = accepted - kept_up - int(np.count_nonzero(came & lost))
    if left <= _LEAST_LEFT * accepted:
        return None
    waiting = left if is_cut else grown_s * at_s.size / until_s
    if waiting < _LEAST_WAITING or (share < _LEAST_SHARE and trend.ratio < _TENFOLD):
        return None
    span_s = length_s - since_s
    return Backlog(accepted / span_s, kept_up / span_s, trend.before, math.inf if is_cut else trend.after, waiting)


def _rises_throughout(known_s: NDArray[np.float64], at_s: NDArray[np.float64], until_s: float) -> Trend | None:
    """Return how latency rose from each tenth to the next, which is no chance however little it was to what it was."""
    if known_s.size < LEAST_EVENTS:
        return None
    medians = bin_medians(known_s, at_s, until_s, SPANS)
    return Trend.between_ends(medians) if np.all(np.diff(medians) > 0) else None


def _up_to_the_last(
    trend: Trend | None, known_s: NDArray[np.float64], at_s: NDArray[np.float64], until_s: float, length_s: float
) -> Trend | None:
    """
    Return how latency rose up to the last events before most never arrived; None where these were as before.

    What rises late and fast shows no trend over all of it: there the last ones have waited for as long as the window
    went on without arrivals, as the last that a queue lets through do, and tenfold what the first had.
    """
    if known_s.size < 2 * _LEAST_WAITING:
        return None
    last_s = float(np.median(known_s[-max(_LEAST_WAITING, known_s.size // 50) :]))
    if trend:
        return trend if last_s >= _LEAST_RATIO * trend.before else None
    first_s = float(np.median(known_s[: max(_LEAST_WAITING, known_s.size // 10)]))
    if last_s < max(length_s - until_s, _TENFOLD * first_s):
        return None
    return Trend(first_s, last_s, bin_medians(known_s, at_s, until_s, SPANS))


def _began_s(trend: Trend, length_s: float, ends: int) -> float:
    """Return when the latency last was about what it was at first; 0 where it has grown from the window's start."""
    middle = trend.medians[:-ends]
    as_at_first = np.nonzero(middle <= _LEAST_RATIO * middle[0])[0]
    return float(as_at_first[-1] + 1) * length_s / trend.medians.size if as_at_first.size > 1 else 0.0
