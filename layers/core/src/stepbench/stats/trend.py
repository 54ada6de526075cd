"""
Whether a measure rises or falls all through its window, so that its quantiles depend on how long the window is.

Medians of equal spans of time are looked at, which neither a heavy tail nor a short stall moves. There is a trend where
the last three of ten all lie beyond twice the first three, or where they lie a quarter beyond them and a line through
the ranks of finer medians has a slope that chance gives once in a thousand windows, with the dependence that is left
about the line taken into account.

And whether events were accepted faster than they were worked through, so that the latency is a queue's. By Little's law
the events that wait are the rate times the latency: while a queue grows, the latency does, by as many seconds a second
as is the share of events that come too fast. How large it is when the window ends says how long the window was, and
nothing else.

Source:
    Hamed & Rao (1998), Journal of Hydrology 204 (a trend of ranks, its variance corrected for autocorrelation); Kendall
    (1954), Biometrika 41 (bias of the first autocorrelation).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import special

from stepbench.contracts.measures import FELL_BEHIND
from stepbench.digits import rate
from stepbench.stats import dependence

if TYPE_CHECKING:
    from numpy.typing import NDArray

SPANS = 10
ENDS, ENDS_WORDS = 3, "three tenths"
"""So many spans at either end are set against each other."""
LEAST_EVENTS = 50
APART = 2.0
LEAST_RATIO = 1.25
"""Less may well be what a machine's neighbours do."""
_SIGNIFICANCE = 0.001
_FINEST = 60
_EVENTS_A_BIN = 5
_MIN_INDEPENDENT = 6


class Trend(NamedTuple):
    """Medians of the first and of the last spans, and of all of them; nan where a span has no value."""

    before: float
    after: float
    medians: NDArray[np.float64]

    @classmethod
    def between_ends(cls, medians: NDArray[np.float64]) -> Trend:
        """Return the trend from the first to the last spans of shape (SPANS,)."""
        return cls(float(np.median(medians[:ENDS])), float(np.median(medians[-ENDS:])), medians)

    @property
    def ratio(self) -> float:
        """Return after over before."""
        return self.after / self.before


def find_trend(values: NDArray[np.float64], at_s: NDArray[np.float64], length_s: float) -> Trend | None:
    """
    Return how a measure changed over its window; None where it did not, or too few values tell.

    Args:
        values: shape (n,), above 0 (others are left out); `inf` = missing, left out as well.
        at_s: shape (n,), seconds since the window's start.
        length_s: of the window.
    """
    known = np.isfinite(values) & (values > 0)
    values, at_s = values[known], at_s[known]
    if values.size < LEAST_EVENTS:
        return None
    medians = bin_medians(values, at_s, length_s, SPANS)
    first, last = medians[:ENDS], medians[-ENDS:]
    if np.isnan(first).any() or np.isnan(last).any():
        return None
    trend = Trend.between_ends(medians)
    size = max(trend.ratio, 1 / trend.ratio)
    apart = max(last.min() / first.max(), first.min() / last.max())
    if apart >= APART or (size >= LEAST_RATIO and _is_sloped(values, at_s, length_s)):
        return trend
    return None


def end_of_arrivals_s(values: NDArray[np.float64], at_s: NDArray[np.float64], length_s: float) -> float:
    """
    Return since when most values are missing; the window's length where that is less than one of its spans.

    Values that are missing here and there do not move it: before it most are known, wherever one begins to count.

    Args:
        values: shape (n,); `inf` = missing.
        at_s: shape (n,), ascending, seconds since the window's start.
        length_s: of the window.
    """
    surplus = np.cumsum(np.where(np.isfinite(values), 1, -1))
    known = int(np.argmax(surplus)) + 1 if surplus.size and surplus.max() > 0 else 0
    end_s = float(at_s[known]) if known < at_s.size else length_s
    return end_s if length_s - end_s >= length_s / SPANS else length_s


def bin_medians(
    values: NDArray[np.float64], at_s: NDArray[np.float64], length_s: float, bins: int
) -> NDArray[np.float64]:
    """Return the median of each of so many equal spans of time, shape (bins,); nan where a span has no value."""
    place = np.clip((at_s * (bins / length_s)).astype(np.int64), 0, bins - 1)
    order = np.lexsort((values, place))
    ascending, counts = values[order], np.bincount(place, minlength=bins)
    begins = np.cumsum(counts) - counts
    found = np.full(bins, math.nan)
    some = counts > 0
    low, high = begins[some] + (counts[some] - 1) // 2, begins[some] + counts[some] // 2
    found[some] = (ascending[low] + ascending[high]) / 2
    return found


def _is_sloped(values: NDArray[np.float64], at_s: NDArray[np.float64], length_s: float) -> bool:
    """Return whether a line through the ranks of medians has a slope that is no chance."""
    medians = bin_medians(values, at_s, length_s, min(_FINEST, values.size // _EVENTS_A_BIN))
    times = np.nonzero(~np.isnan(medians))[0].astype(np.float64)
    ranks = dependence.ranks(medians[~np.isnan(medians)])
    times -= times.mean()
    ranks -= ranks.mean()
    power = float(ranks @ ranks)
    if power == 0:
        return False
    rest = ranks - times * (float(times @ ranks) / float(times @ times))
    explained = 1 - float(rest @ rest) / power
    independent = ranks.size / dependence.time_about_fit(rest, 2)
    if independent < _MIN_INDEPENDENT:
        return False
    t = math.sqrt(explained * (independent - 2) / max(1 - explained, 1e-12))
    return 2 * float(special.stdtr(independent - 2, -t)) < _SIGNIFICANCE


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
    where most of the last never arrived. waiting: by how many events the backlog grew between these, of those that had
    not ended when the window did: retries make latency grow by more than waiting does.
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
    span_s, after_s = length_s - since_s, math.inf if is_cut else trend.after
    return Backlog(accepted / span_s, kept_up / span_s, trend.before, after_s, min(waiting, left))


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
