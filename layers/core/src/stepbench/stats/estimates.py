"""
Which interval a quantile gets, or why it gets none; its value is there in any case.

1. No autocorrelation to be seen (Ljung-Box, 5 %, on ranks and on which values lie below the quantile): exact order
   statistics.
2. Autocorrelated, and 20 blocks of max(1 s, 5 autocorrelation times) fit: block bootstrap over time.
3. Autocorrelated, and the window is too short for blocks: order statistics of n / autocorrelation time values, with
   the longest of three estimates of that time.
4. Otherwise, or where that leaves fewer values than the quantile needs, none, with the reason.
5. Nor has a quantile of values that grow all through the window: another window would have another quantile.

`docs/decisions/` says why.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from stepbench.contracts.experiment import QUANTILES
from stepbench.contracts.measures import Estimate, Latency, PercentileRow
from stepbench.contracts.published import QUANTILE_METRICS, TABLE_METRICS
from stepbench.errors import InsufficientSampleError
from stepbench.stats import bootstrap, dependence
from stepbench.stats.quantiles import Levels, at_level, lowest_level, min_sample, order_statistic_levels, quantile

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

SIGNIFICANCE = 0.05
NOTHING = "nothing was measured"
_BEYOND = "> drain limit"
_ENOUGH_FOR_DEPENDENCE = min_sample(0.9)
"""Of fewer values a test of dependence sees little: bounds from 12 would be wrong in up to 15 % where it is strong."""
LEVELS = tuple(QUANTILE_METRICS.get(metric, 1.0) for metric in TABLE_METRICS)
"""Quantiles of the table of percentiles, from 0 to 1."""


@dataclass(frozen=True)
class Sample:
    """
    A sample holds one measure over one window.

    values: shape (n,), by ascending time; `inf` = missing. at_s: shape (n,), seconds since the window's start.
    unsteady: why no quantile has an interval, where the values grow as long as the window lasts; else empty.
    missing_over: what missing values are at least; None where that is not known.
    """

    values: NDArray[np.float64]
    at_s: NDArray[np.float64]
    length_s: float
    drain_limit_s: float
    rng: np.random.Generator
    unsteady: str = ""
    missing_over: float | None = None
    _clusterings: dict[float, float] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def ascending(self) -> NDArray[np.float64]:
        """Return the values in order of size."""
        return np.sort(self.values)

    @cached_property
    def finite(self) -> NDArray[np.float64]:
        """Return the values that are not missing, in order of size."""
        return self.ascending[: int(np.searchsorted(self.ascending, np.inf))]

    @cached_property
    def rank_time(self) -> float:
        """Return the autocorrelation time of the ranks."""
        return _visible_time(dependence.ranks(self.values), dependence.first_order_time)

    def autocorrelation_time(self, q: float) -> float:
        """
        Return the autocorrelation time in events; 1 where no autocorrelation is to be seen.

        Beside the ranks, what counts is how the values above the quantile cluster: stalls make few of them, which
        hardly show in the ranks. The higher the quantile, the fewer there are to show it: so what lower ones of
        `QUANTILES` show holds for it, too, and a sample is never worth more at p99.9 than at p99.
        """
        shown_by = [each for each in QUANTILES.values() if each <= q] or [q]
        return max(self.rank_time, *map(self._clustering, shown_by))

    def _clustering(self, q: float) -> float:
        """Return the autocorrelation time of which values lie above a quantile, or are missing as it is."""
        if q not in self._clusterings:
            limit = quantile(self.ascending, q)
            at_most = self.values <= limit if math.isfinite(limit) else np.isfinite(self.values)
            self._clusterings[q] = _visible_time(at_most.astype(np.float64))
        return self._clusterings[q]

    def count_blocks(self, time: float) -> int:
        """Return how many blocks fit for an autocorrelation time in events; 0 where none are needed."""
        return 0 if time == 1 else bootstrap.block_count(self.length_s, time * self.length_s / self.values.size)

    def levels(self, q: float) -> Levels:
        """
        Return the levels of the sample between which the quantile lies, by the rules above.

        Raises:
            InsufficientSampleError: no interval can be had; the message is the reason to print.
        """
        time = self.enough_time(q)
        blocks = self.count_blocks(time)
        if blocks >= bootstrap.MIN_BLOCKS:
            return self._bootstrap_levels(q, time, blocks)
        return order_statistic_levels(self.values.size / time, q)

    def enough_time(self, *qs: float) -> float:
        """
        Return the longest autocorrelation time, in events, of quantiles that the sample is large enough for.

        Raises:
            InsufficientSampleError: it is too small for one of them; the message is the reason to print.
        """
        if self.unsteady:
            raise InsufficientSampleError(self.unsteady)
        n, needed = self.values.size, max(min_sample(q) for q in qs)
        time = max(self.autocorrelation_time(q) for q in qs) if n >= min_sample(0.5) else 1.0
        if n / time < needed:  # of dependent values it takes more than of independent ones, however few there are
            message = f"n={n} < {needed}" if time == 1 else f"{int(n / time)} of {n} independent < {needed}"
            raise InsufficientSampleError(message)
        return time

    def check_reach(self, level: float) -> None:
        """
        Check that the sample reaches a level at which an interval ends.

        Raises:
            InsufficientSampleError: it does not.
        """
        if level * (self.values.size + 1) > self.values.size:
            message = "the interval's upper limit lies beyond the largest value"
            raise InsufficientSampleError(message)

    def _bootstrap_levels(self, q: float, time: float, blocks: int) -> Levels:
        block = bootstrap.block_index(self.at_s, self.length_s, blocks)
        at_most = self.values <= quantile(self.ascending, q)
        weights = bootstrap.block_weights(blocks, self.rng)
        widen = bootstrap.seam_factor(self.values.size / blocks / time)
        levels = bootstrap.bootstrap_levels(at_most, block, weights, q, widen=widen)
        self.check_reach(levels.high)
        return levels

    def estimate(self, q: float) -> Estimate:
        """
        Return the quantile with its interval, or with the reason why it has none.

        It has no value where nothing was measured, and where it lies in the missing mass: then only the lower limit of
        `at_least`. Of values that grow it has a lower limit only, too: what it was in the first half of the window.
        """
        beyond = f"{_BEYOND} ({self.drain_limit_s:g} s)"
        if self.values.size == 0:
            return Estimate(value=None, reason=NOTHING)
        value = quantile(self.ascending, q)
        if math.isinf(value):
            reason = f"{beyond}; {self.unsteady}" if self.unsteady else beyond
            return Estimate(value=None, low=self.at_least(q), reason=reason)
        try:
            levels = self.levels(q)
        except InsufficientSampleError as shortage:
            return Estimate(value=value, low=self._early(q, value) if self.unsteady else None, reason=str(shortage))
        low, high = (
            min(at_level(self.ascending, levels.low), value),
            max(at_level(self.ascending, levels.high), value),
        )
        if math.isinf(high):
            return Estimate(value=value, low=low, high=None, reason=f"upper limit {beyond}")
        return Estimate(value=value, low=low, high=high)

    def at_least(self, q: float) -> float | None:
        """
        Return what a quantile is at least, with 97.5 % confidence, where its interval has no upper end.

        None where the sample is too small to show how its values depend on each other, or worth fewer independent ones
        than an interval of the median takes, and where even that lies in the missing mass, of which nothing is known.
        """
        n = self.values.size
        if self.unsteady or n < _ENOUGH_FOR_DEPENDENCE:
            return None
        worth = n / self.autocorrelation_time(q)
        if worth < min_sample(0.5):
            return None
        least = min(at_level(self.ascending, lowest_level(worth, q)), quantile(self.ascending, q))
        return least if math.isfinite(least) else self.missing_over

    def _early(self, q: float, value: float) -> float | None:
        """Return the first half's quantile, at most the given one of the whole window; None where it is missing."""
        half = np.sort(self.values[self.at_s < self.length_s / 2])
        early = quantile(half, q) if half.size else math.inf
        return min(early, value) if math.isfinite(early) else None

    def latency(self) -> Latency:
        """Return all that the summary shows of a measure."""
        finite = self.finite
        estimates = {name: self.estimate(q) for name, q in QUANTILES.items()}
        known = ((name, self.at_least(q)) for name, q in QUANTILES.items() if estimates[name].low is None)
        return Latency(
            n=self.values.size,
            missing=self.values.size - finite.size,
            **estimates,
            at_least={name: value for name, value in known if value is not None},
            min=float(finite[0]) if finite.size else None,
            # A mean of those that arrived would be the better, the more is lost.
            mean=float(finite.mean()) if finite.size == self.values.size > 0 else None,
            max=float(finite[-1]) if finite.size else None,
        )


def _visible_time(series: NDArray[np.float64], *others: Callable[[NDArray[np.float64]], float]) -> float:
    """Return the longest estimate of the autocorrelation time; 1 where no autocorrelation is to be seen."""
    # A test that sees everything in a large sample would call nothing independent: it is not asked.
    if series.size <= dependence.MAX_POINTS and dependence.ljung_box(series) >= SIGNIFICANCE:
        return 1.0
    return max(estimate(series) for estimate in (dependence.autocorrelation_time, *others))


def percentile_table(sample: Sample) -> tuple[PercentileRow, ...]:
    """Return the value at each of `LEVELS`, and how many are at most that; None and 0 where it is missing."""
    rows = []
    for q in LEVELS:
        value = quantile(sample.ascending, q) if sample.values.size else math.inf
        known = math.isfinite(value)
        count = int(np.searchsorted(sample.ascending, value, side="right")) if known else 0
        rows.append(PercentileRow(percentile=100 * q, value_ms=value if known else None, count=count))
    return tuple(rows)


def largest(sample: Sample) -> Estimate:
    """Return the largest value, which has no interval; none where some are missing."""
    if sample.values.size == 0:
        return Estimate(value=None, reason=NOTHING)
    largest = float(sample.ascending[-1])
    if math.isinf(largest):
        return Estimate(value=None, reason=f"{_BEYOND} ({sample.drain_limit_s:g} s)")
    return Estimate(value=largest)
