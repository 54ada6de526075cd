from __future__ import annotations

import pytest

from stepbench.records.join.arrivals import WatchGap, find_watch_gaps
from stepbench.records.storage.layout import Watch

A, B = Watch("a", established_ns=0, alive_ns=600), Watch("b", established_ns=590, alive_ns=900)


@pytest.mark.parametrize(
    ("watches", "gaps"),
    [
        ([], []),
        ([A], []),
        ([B, A], []),  # they overlapped when they handed over
        ([A, Watch("c", 620, 700)], [WatchGap("c", 600, 620)]),
        ([A, B, Watch("c", 620, 700)], []),  # one died beside another that went on
        ([A, Watch("c", 620, 700), Watch("d", 710, 720)], [WatchGap("c", 600, 620), WatchGap("d", 700, 710)]),
        ([Watch("a", 0, 600, ((100, 150), (300, 340)))], [WatchGap("a", 100, 150), WatchGap("a", 300, 340)]),
        ([A, Watch("b", 590, 900, ((592, 598),))], []),
        ([Watch("a", 0, 600, ((580, 595),)), B], [WatchGap("b", 580, 590)]),  # nobody ran when the other began
        ([Watch("a", 0, 600, ((592, 598),)), Watch("b", 590, 900, ((592, 599),))], [WatchGap("a", 592, 598)]),
        ([Watch("a", 0, 150, ((100, 200),)), Watch("b", 300, 400)], [WatchGap("a", 100, 200), WatchGap("b", 200, 300)]),
    ],
)
def test_a_gap_is_where_no_watch_ran_when_one_began(watches: list[Watch], gaps: list[WatchGap]) -> None:
    """A hand-over makes none, or every ten minutes some events would be set aside."""
    assert find_watch_gaps(watches) == tuple(gaps)
