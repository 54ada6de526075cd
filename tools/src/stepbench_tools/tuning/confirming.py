"""Whether a found configuration keeps its gain when it is started anew beside the released one. Pure."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

import numpy as np

from stepbench.contracts.tuning import Confirmation
from stepbench.stats.quantiles import at_level, min_sample, order_statistic_levels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.contracts.tuning import StoreWorkload
    from stepbench_tools.tuning.search import Evaluation

_MEDIAN = 0.5


def confirm(
    workload: StoreWorkload, starts: Sequence[Evaluation], *, found_gain: float, predicted_per_s: float
) -> Confirmation:
    """
    Return what starts say that nobody chose the configuration by.

    Args:
        workload: under which all of them were measured.
        starts: of one configuration, at least one; each is one value, since turns within a start are alike.
        found_gain: what the search has seen.
        predicted_per_s: what the model says.
    """
    gains = np.sort([each.gain for each in starts])
    interval: tuple[float | None, float | None] = (None, None)
    if gains.size >= min_sample(_MEDIAN):
        levels = order_statistic_levels(gains.size, _MEDIAN)
        interval = at_level(gains, levels.low), at_level(gains, levels.high)
    return Confirmation(
        workload=workload,
        configuration=starts[0].configuration,
        gains=tuple(each.gain for each in starts),
        found_gain=found_gain,
        gain=float(np.median(gains)),
        gain_low=interval[0],
        gain_high=interval[1],
        predicted_per_s=predicted_per_s,
        measured_per_s=statistics.median(value for each in starts for value in each.per_s),
    )


def kept_share(confirmation: Confirmation) -> float | None:
    """Return how much of the gain above 1 that the search has seen is there on new starts; None where it saw none."""
    found = confirmation.found_gain - 1
    return (confirmation.gain - 1) / found if found > 0 else None
