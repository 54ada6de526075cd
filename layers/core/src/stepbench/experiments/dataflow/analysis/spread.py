"""Measures over tasks, objects and executions, with intervals in which tasks of one execution count as one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepbench.contracts.dataflow.result import Spread
from stepbench.stats.intervals import Series

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepbench.contracts.measures import Estimate

NS_PER_MS = 1e6
MIB = 2**20


def spread(values: Sequence[float] | NDArray[np.float64], executions: int) -> Spread:
    """
    Return a measure's quantiles, with intervals.

    Args:
        values: by the executions' due times.
        executions: how many they are of: no more of the values are taken as independent.
    """
    series = Series(np.array(values, dtype=np.float64), executions)
    size = series.values.size
    return Spread(
        n=size,
        p50=series.quantile(0.5),
        p95=series.quantile(0.95),
        mean=float(series.values.mean()) if size else None,
        max=float(series.ascending[-1]) if size else None,
    )


def spread_ms(values_ns: Sequence[int], executions: int) -> Spread:
    """Return the same of times in ns, in ms."""
    return spread([value / NS_PER_MS for value in values_ns], executions)


def mean_share(shares: Sequence[float]) -> Estimate:
    """Return the mean of one share an execution."""
    return Series(np.array(shares, dtype=np.float64)).mean()


def median_or_none(values: Sequence[float]) -> float | None:
    """Return the median of values that need no interval."""
    return float(np.median(values)) if values else None
