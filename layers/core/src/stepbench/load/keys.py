"""
Which key each update overwrites. Pure.

Keys are drawn before the clock starts, from the slice's own random stream, so every attempt at it writes the same ones.
The key with the smallest number is the one that is drawn most.

Source:
    Zipf's law over a finite number of keys as in YCSB: Cooper et al. (2010), Benchmarking cloud serving systems with
    YCSB, SoCC '10, section 4.1; here by inversion of the exact distribution, without YCSB's approximation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepbench.contracts.plan import Record


def key_probabilities(record: Record) -> NDArray[np.float64]:
    """How probable each key is; shape (distinct_keys,), the sum is 1."""
    keys = record.distinct_keys or 1
    weights = np.ones(keys)
    if record.key_distribution == "zipf":
        weights = np.arange(1, keys + 1, dtype=np.float64) ** -record.zipf_exponent
    elif record.key_distribution == "hot":
        # The others together weigh one.
        weights /= keys - 1
        weights[0] = record.hot_share / (1 - record.hot_share)
    probabilities: NDArray[np.float64] = weights / weights.sum()
    return probabilities


def draw_keys(record: Record, events: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """The number of the key that each event overwrites, from 0; shape (events,)."""
    if record.key_distribution == "uniform":
        return rng.integers(0, record.distinct_keys or 1, events)
    ends = np.cumsum(key_probabilities(record))
    ends[-1] = 1.0  # what rounding has left below it belongs to the last key
    return np.searchsorted(ends, rng.random(events), side="right").astype(np.int64)
