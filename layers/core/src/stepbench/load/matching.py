"""
Which events the trigger's filter is to let pass. Pure, and told by an event's place in its slice alone.

Nothing has to be recorded of it: writers, `AwaitArrivals` and the analysis work it out alike, for every attempt.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FINEST = 10**9
"""Times a sequence number, which has 32 bits, this is still below 2 ** 63."""


def matching(share: float, sequence: NDArray[np.int64]) -> NDArray[np.bool_]:
    """
    Event k passes if floor((k + 1) * share) > floor(k * share): as evenly spread as can be, floor(n * share) of n.

    In whole numbers: as floats, 100 * 0.29 would be below 29.

    Args:
        share: from 0 (excluded) to 1; taken as the simplest fraction that is this float, so that 0.1 is a tenth.
        sequence: places in a slice, from 0; any shape.
    """
    part = Fraction(share).limit_denominator(_FINEST)
    passes: NDArray[np.bool_] = sequence * part.numerator % part.denominator + part.numerator >= part.denominator
    return passes


def all_matching(share: float, events: int) -> NDArray[np.bool_]:
    """The same of a slice's first events; shape (events,)."""
    return matching(share, np.arange(events, dtype=np.int64))
