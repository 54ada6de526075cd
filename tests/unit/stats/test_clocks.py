from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stepbench.stats.clocks import Offset, Reading, certain_drift_ns, offset_between

sides = st.lists(st.tuples(st.integers(-(10**9), 10**9), st.integers(0, 10**6)), min_size=1, max_size=6)


def test_one_pair_differs_by_its_readings_and_both_bounds() -> None:
    """Receiver 70 ± 5 ahead of the reference, writer 30 ± 10: 40 ± 15."""
    assert offset_between([Reading(70, 5)], [Reading(30, 10)]) == Offset(40, 15)


def test_many_sandboxes_give_the_hull_of_all_pairs() -> None:
    """By hand: low = 68 - 41 = 27, high = 105 - 20 = 85, so 56 ± 29."""
    receivers = [Reading(70, 2), Reading(100, 5)]
    writers = [Reading(30, 10), Reading(40, 1)]
    assert offset_between(receivers, writers) == Offset(56, 29)


def test_an_unmeasured_side_leaves_the_offset_unmeasured() -> None:
    """Zero would read as perfect clocks."""
    assert offset_between([], [Reading(1, 1)]) is None
    assert offset_between([Reading(1, 1)], []) is None


@given(sides, sides)
def test_the_bound_holds_for_every_pair(r: list[tuple[int, int]], w: list[tuple[int, int]]) -> None:
    """Whichever receiver got whichever writer's event."""
    receivers, writers = [Reading(*each) for each in r], [Reading(*each) for each in w]
    found = offset_between(receivers, writers)
    assert found is not None
    for receiver in receivers:
        for writer in writers:
            middle, bound = receiver.offset_ns - writer.offset_ns, receiver.bound_ns + writer.bound_ns
            assert found.offset_ns - found.bound_ns <= middle - bound
            assert middle + bound <= found.offset_ns + found.bound_ns


def test_drift_is_what_the_bounds_cannot_explain() -> None:
    """10 ± 3 and then 20 ± 4: at least from 13 to 16. Overlapping readings say nothing."""
    assert certain_drift_ns([Reading(10, 3), Reading(20, 4)]) == 3
    assert certain_drift_ns([Reading(10, 3), Reading(14, 4)]) == 0
    assert certain_drift_ns([]) == 0
