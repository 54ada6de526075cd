"""
Student's t, and least squares with three unknowns that may not be negative, in plain Python.

The report's function, which needs them, has no SciPy. With three unknowns there are seven sets of those that are not 0.
The best of their unconstrained solutions without a negative part is the solution, since the problem is convex; no
iteration, and no tolerance to choose.

Source:
    Lawson & Hanson (1974), Solving Least Squares Problems, chapter 23 (the conditions of Kuhn and Tucker).
"""

from __future__ import annotations

import math
from operator import mul
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

Vector = tuple[float, float, float]
NORMAL_975 = 1.959963984540054
_STUDENT_975 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
"""97.5 % points for 1 to 30 degrees of freedom: Abramowitz & Stegun (1964), table 26.10."""
_SETS = ((0, 1, 2), (0, 1), (0, 2), (1, 2), (0,), (1,), (2,))
_SINGULAR = 1e-12
"""A smaller pivot among columns of length 1 is rounding."""


def student_975(degrees: float) -> float:
    """
    Return the 97.5 % point of Student's t; fractions of a degree are rounded down, to the wider interval.

    Source:
        Beyond the table: Abramowitz & Stegun (1964), 26.7.5, two terms; exact to 0.0001.
    """
    whole = math.floor(degrees)
    if whole <= len(_STUDENT_975):
        return _STUDENT_975[whole - 1]
    z = NORMAL_975
    return z + (z**3 + z) / (4 * whole) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * whole**2)


def least_squares(rows: Sequence[Vector], target: Sequence[float]) -> Vector:
    """
    Return the x >= 0 with the smallest sum of squares of rows · x - target.

    Args:
        rows: n of them, with columns of length 1.
        target: n of them.
    """
    columns = list(zip(*rows, strict=True))
    gram = [[_dot(one, other) for other in columns] for one in columns]
    goal = [_dot(column, target) for column in columns]
    best, most = (0.0, 0.0, 0.0), 0.0
    for chosen in _SETS:
        found = _solve([[gram[i][j] for j in chosen] + [goal[i]] for i in chosen])
        if found is None or min(found) < 0:
            continue
        # What a solution takes off the sum of squares; all three at once take off most.
        gain = sum(value * goal[at] for value, at in zip(found, chosen, strict=True))
        if gain > most:
            parts = dict(zip(chosen, found, strict=True))
            best, most = (parts.get(0, 0.0), parts.get(1, 0.0), parts.get(2, 0.0)), gain
        if len(chosen) == len(gram):
            break
    return best


def _dot(one: Sequence[float], other: Sequence[float]) -> float:
    return math.fsum(map(mul, one, other))


def _solve(matrix: list[list[float]]) -> list[float] | None:
    """Solve a symmetric positive matrix with its right side by Gauss and Jordan; None where it is singular."""
    n = len(matrix)
    for pivot in range(n):
        if matrix[pivot][pivot] < _SINGULAR:
            return None
        matrix[pivot] = [value / matrix[pivot][pivot] for value in matrix[pivot]]
        for row in range(n):
            if row != pivot:
                factor = matrix[row][pivot]
                matrix[row] = [value - factor * base for value, base in zip(matrix[row], matrix[pivot], strict=True)]
    return [row[-1] for row in matrix]
