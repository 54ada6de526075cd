"""
Least squares with three unknowns, none of which may be negative, in plain Python.

With three unknowns there are seven sets of those that are not 0. The best of their unconstrained solutions without a
negative part is the solution, since the problem is convex; no iteration, and no tolerance to choose.

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
_SETS = ((0, 1, 2), (0, 1), (0, 2), (1, 2), (0,), (1,), (2,))
_SINGULAR = 1e-12
"""Of a pivot among columns of length 1: what is smaller is rounding."""


def least_squares(rows: Sequence[Vector], target: Sequence[float]) -> Vector:
    """
    The x >= 0 with the smallest sum of squares of rows · x - target.

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
    """Gauss and Jordan on a symmetric positive matrix with its right side; None where it is singular."""
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
