from __future__ import annotations

from fractions import Fraction
from math import floor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepbench.load.matching import all_matching, matching


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        (1, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
        (0.5, [1, 3, 5, 7, 9]),
        (0.1, [9]),
        (0.3, [3, 6, 9]),
        (0.75, [1, 2, 3, 5, 6, 7, 9]),
        (1e-9, []),
    ],
)
def test_the_matching_are_evenly_spread(share: float, expected: list[int]) -> None:
    """Worked by hand from floor((k + 1) * share) > floor(k * share)."""
    assert np.nonzero(all_matching(share, 10))[0].tolist() == expected


@pytest.mark.parametrize(("share", "events"), [(0.29, 100), (0.57, 100), (0.1, 1_000_000), (1 / 3, 999_999)])
def test_a_share_is_meant_as_it_is_written(share: float, events: int) -> None:
    """In floats, 100 * 0.29 is 28.999999999999996: one event too few, and another one in each writer and analysis."""
    assert np.count_nonzero(all_matching(share, events)) == round(share * events)


@given(st.integers(1, 1_000), st.integers(1, 1_000), st.integers(0, 2**32 - 1))
def test_every_place_follows_the_definition(part: int, more: int, place: int) -> None:
    """Up to the last sequence number that an identity can hold."""
    share = Fraction(part, part + more)
    expected = floor((place + 1) * share) > floor(place * share)
    assert matching(float(share), np.array([place])).tolist() == [expected]


def test_the_largest_numbers_do_not_overflow() -> None:
    """A billionth, and 2 ** 32 - 1 events before: 4.29e18 of 9.22e18."""
    share = (10**9 - 1) / 10**9
    found = matching(share, np.array([2**32 - 1, 10**9 - 1, 10**9, 0], dtype=np.int64))
    assert found.tolist() == [True, True, False, False]
