from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stepbench.stages.turns import Turns

TURNS = Turns(base_ns=1_000, length_ns=600, overlap_ns=10)


def test_lanes_take_turns() -> None:
    """By hand: turns begin at 1000, 1600, 2200; the first is lane 0's and ends 10 after the second begins."""
    assert (TURNS.ends_ns(0, 1_000), TURNS.ends_ns(1, 1_000)) == (1_610, None)
    assert (TURNS.ends_ns(0, 1_600), TURNS.ends_ns(1, 1_600)) == (None, 2_210)
    assert (TURNS.next_start_ns(0, 1_000), TURNS.next_start_ns(1, 1_000)) == (2_200, 1_600)
    assert (TURNS.next_start_ns(0, 1_605), TURNS.next_start_ns(1, 1_605)) == (2_200, 2_800)


def test_a_clock_behind_the_one_that_took_the_target_counts_as_the_first_turn() -> None:
    """Two hosts' clocks differ by a millisecond; lane 0 begins all the same."""
    assert TURNS.ends_ns(0, 990) == 1_610


@given(st.integers(1_000, 10**7))
def test_at_every_moment_exactly_one_lane_may_begin_and_the_next_begins_before_it_ends(now_ns: int) -> None:
    """A moment that nobody watches is a lost event."""
    holder = next(lane for lane in (0, 1) if TURNS.ends_ns(lane, now_ns) is not None)
    other = 1 - holder
    assert TURNS.ends_ns(other, now_ns) is None
    ends_ns = TURNS.ends_ns(holder, now_ns)
    assert ends_ns is not None
    assert now_ns < TURNS.next_start_ns(other, now_ns) == ends_ns - 10
    assert TURNS.ends_ns(other, TURNS.next_start_ns(other, now_ns)) is not None
