from __future__ import annotations

from itertools import combinations

import pytest
from tests.faults.cases import MOMENTS, REQUESTS, STREAMS, every_case, tour
from tests.faults.covering import cover

MOST_CASES = 96
"""Of 50 s each, three at a time, which leaves a third of the tour's 40 minutes to its other tests."""


def test_four_rows_are_enough_for_all_pairs_of_three_coins() -> None:
    """Any two of the columns show each of (0, 0), (0, 1), (1, 0), (1, 1); less than four rows cannot."""
    rows = [(a, b, c) for a in (0, 1) for b in (0, 1) for c in (0, 1)]

    def pairs(row: tuple[int, ...]) -> list[tuple[tuple[int, int], ...]]:
        return list(combinations(enumerate(row), 2))

    chosen = cover(rows, pairs, seed=1)
    assert {pair for row in chosen for pair in pairs(row)} == {pair for row in rows for pair in pairs(row)}
    assert len(chosen) == 4


@pytest.mark.parametrize("seed", range(20))
def test_the_tour_hits_each_process_in_each_way_at_each_moment(seed: int) -> None:
    """Whatever the seed: it decides only which of the rest come along."""
    chosen = tour(seed)
    everything = set(every_case(idle=False))
    assert set(chosen) <= everything
    for columns in ((0, 1), (0, 2), (2, 3)):
        assert {tuple(case[c] for c in columns) for case in chosen} == {
            tuple(case[c] for c in columns) for case in everything
        }
    ungrouped = {case for case in everything if case.fault not in (*REQUESTS, *STREAMS)}
    assert {(case.fault, case.moment) for case in ungrouped} <= {(case.fault, case.moment) for case in chosen}
    for kinds in (REQUESTS, STREAMS):
        assert {case.moment for case in chosen if case.fault in kinds} == set(MOMENTS)
    assert len(chosen) == len(set(chosen)) <= MOST_CASES


def test_a_tour_can_be_run_again_and_another_seed_is_another_tour() -> None:
    """A failure of the night names its seed."""
    assert tour(7) == tour(7)
    assert tour(7) != tour(8)
