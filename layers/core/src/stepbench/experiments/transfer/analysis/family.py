"""
One error for all that a report finds: 5 %, shared out over kinds of findings, and of each kind over pairs.

Within a pair's share, tests of several cells share an error by Hochberg's rule, which holds for tests that are
independent, or depend on each other as cells and all sizes together do.

Source:
    Dunn (1961), Journal of the American Statistical Association 56 (shares); Hochberg (1988), Biometrika 75(4); Sarkar
    (1998), Annals of Statistics 26(2) (positive dependence).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

MODES, HOURS, WEEKDAYS, CHANGES = 0.02, 0.01, 0.01, 0.01
"""They add up to 5 %. Modes have most, since there are as many tests as cells."""


def found_among(p_values: Sequence[float | None], level: float) -> tuple[bool, ...]:
    """Return which of several tests reject, so that one of those that should not does with at most this probability."""
    ascending = sorted(value for value in p_values if value is not None)
    limit = -1.0
    for place, value in enumerate(ascending):
        if value <= level / (len(ascending) - place):
            limit = value
    return tuple(value is not None and value <= limit for value in p_values)
