"""From clock offsets of single sandboxes to one offset between receivers and writers, with its bound."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence


class Reading(NamedTuple):
    """One sandbox's clock minus the reference: the truth lies within `offset_ns` ± `bound_ns`."""

    offset_ns: int
    bound_ns: int


class Offset(NamedTuple):
    """Receiver clock minus writer clock: the truth for every pair lies within `offset_ns` ± `bound_ns`."""

    offset_ns: float
    bound_ns: float


def offset_between(receivers: Sequence[Reading], writers: Sequence[Reading]) -> Offset | None:
    """
    The hull of all pairs' offsets: its middle, and half its width as the bound. None if either side is unmeasured.

    A pair (r, w) differs by (offset_r - offset_w) ± (bound_r + bound_w), since the bound of the smallest round trip
    is hard: the reference was read somewhere between sending and receiving.

    Source:
        Marzullo & Owicki (1983), ACM SIGOPS Review 19(3) (intervals); RFC 5905, section 8 (offset and round trip).
    """
    if not receivers or not writers:
        return None
    r, w = np.array(receivers, dtype=np.int64), np.array(writers, dtype=np.int64)
    low = int((r[:, 0] - r[:, 1]).min() - (w[:, 0] + w[:, 1]).max())
    high = int((r[:, 0] + r[:, 1]).max() - (w[:, 0] - w[:, 1]).min())
    return Offset((low + high) / 2, (high - low) / 2)


def certain_drift_ns(readings: Sequence[Reading]) -> int:
    """By how much one sandbox's clock has surely moved against the reference between its readings; 0 if none surely."""
    if not readings:
        return 0
    highest_low = max(reading.offset_ns - reading.bound_ns for reading in readings)
    lowest_high = min(reading.offset_ns + reading.bound_ns for reading in readings)
    return max(0, highest_low - lowest_high)
