"""A small set of rows that has each wanted combination at least once."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import TypeVar

Row = TypeVar("Row")


def cover(rows: Sequence[Row], combinations: Callable[[Row], Collection[Hashable]], seed: int) -> list[Row]:
    """
    Choose rows until every combination that any row has is in one that was chosen: greedily, the most new ones first.

    Args:
        rows: all that are possible.
        combinations: what a row covers, pairs of its values for example.
        seed: decides between rows that add as many, so another seed gives another set.

    Returns:
        Some of the rows, in the order chosen. The set is small, not the smallest: that is NP-hard.

    Source:
        Cohen, Dalal, Fredman & Patton (1997), The AETG System, IEEE Transactions on Software Engineering 23(7).
    """
    left = {row: set(combinations(row)) for row in random.Random(seed).sample(rows, len(rows))}  # noqa: S311 -- no secret
    missing = set[Hashable]().union(*left.values())
    chosen = []
    while missing:
        best = max(left, key=lambda row: len(left[row] & missing))
        missing -= left.pop(best)
        chosen.append(best)
    return chosen
