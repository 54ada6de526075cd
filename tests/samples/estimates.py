"""Series of known dependence, samples of them, and values and numbers of estimates that must be there."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np
import scipy

from stepbench.stats.estimates import Sample
from stepbench.stats.quantiles import at_level, order_statistic_levels

if TYPE_CHECKING:
    from stepbench.contracts.measures import Estimate

T = TypeVar("T")
Values = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


def present(value: T | None) -> T:
    """Return the value, which there must be."""
    assert value is not None
    return value


def numbers(estimate: Estimate | None) -> tuple[float, float, float]:
    """Return lower limit, value and upper limit, which there must be."""
    found = present(estimate)
    return present(found.low), present(found.value), present(found.high)


def order_statistic_interval(ascending: Values, q: float) -> tuple[float, float]:
    """Return the exact interval of the quantile of independent values."""
    levels = order_statistic_levels(ascending.size, q)
    return at_level(ascending, levels.low), at_level(ascending, levels.high)


def even_sample(values: Values, per_s: float = 20, drain_limit_s: float = 120) -> Sample:
    """Return a sample of values in ms at an even rate, of which those that are missing have waited until the limit."""
    at_s = np.arange(values.size) / per_s
    return Sample(values, at_s, values.size / per_s, drain_limit_s, np.random.default_rng(1), "", 1_000 * drain_limit_s)


def autoregressive(phi: float, n: int, seed: int = 1) -> Values:
    """Return an AR(1) in its steady state."""
    noise = np.random.default_rng(seed).standard_normal(n + 500)
    return np.asarray(scipy.signal.lfilter([1], [1, -phi], noise)[500:], dtype=np.float64)
