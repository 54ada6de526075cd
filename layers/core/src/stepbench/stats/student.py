"""Student's t without SciPy, which the report's function does not have."""

from __future__ import annotations

import math

NORMAL_975 = 1.959963984540054
_STUDENT_975 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
"""97.5 % points for 1 to 30 degrees of freedom: Abramowitz & Stegun (1964), table 26.10."""


def student_975(degrees: float) -> float:
    """
    The 97.5 % point of Student's t; fractions of a degree of freedom are rounded down, to the wider interval.

    Source:
        Beyond the table: Abramowitz & Stegun (1964), 26.7.5, two terms; exact to 0.0001.
    """
    whole = math.floor(degrees)
    if whole <= len(_STUDENT_975):
        return _STUDENT_975[whole - 1]
    z = NORMAL_975
    return z + (z**3 + z) / (4 * whole) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * whole**2)
