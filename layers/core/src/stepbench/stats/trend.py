"""
Whether a measure rises or falls all through its window, so that its quantiles depend on how long the window is.

Medians of equal spans of time are looked at, which neither a heavy tail nor a short stall moves. There is a trend where
the last three of ten all lie beyond twice the first three, or where they lie a quarter beyond them and a line through
the ranks of finer medians has a slope that chance gives once in a thousand windows, with the dependence that is left
about the line taken into account.

Source:
    Hamed & Rao (1998), Journal of Hydrology 204 (a trend of ranks, its variance corrected for autocorrelation); Kendall
    (1954), Biometrika 41 (bias of the first autocorrelation).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import special

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
_MAX_PHI = 0.99


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
    independent = ranks.size / _time(rest)
    if independent < _MIN_INDEPENDENT:
        return False
    t = math.sqrt(explained * (independent - 2) / max(1 - explained, 1e-12))
    return 2 * float(special.stdtr(independent - 2, -t)) < _SIGNIFICANCE


def _time(rest: NDArray[np.float64]) -> float:
    """Return the autocorrelation time about a line, in bins; its fit makes the first autocorrelation too small."""
    power = float(rest @ rest)
    if power == 0:
        return 1.0
    first = float(rest[1:] @ rest[:-1]) / power
    phi = min(max(first + (2 + 4 * first) / rest.size, 0.0), _MAX_PHI)
    return max((1 + phi) / (1 - phi), dependence.autocorrelation_time(rest))
