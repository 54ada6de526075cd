"""
Looks at the speed of the machine: a loop that counts its own work by slices of 5 ms.

It takes all of its core, so it runs before anything is measured and after, never beside it. Some hosts slow a core down
to a tenth for 50 ms twice every 1.3 s, and say so nowhere: neither as steal nor as time in a run queue.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from stepbench.contracts.findings import SlowSpells
from stepbench.stats.slow_spells import find_slow_spells

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SLICE_NS = 5_000_000
SPEED_CHECK_S = 1.3
WARM_UP_S = 0.05
"""An idle core takes some time to raise its clock, which is no spell."""


def check_core(
    seconds: float = SPEED_CHECK_S,
    now_ns: Callable[[], int] = time.monotonic_ns,
    cpu_ns: Callable[[], int] = time.thread_time_ns,
) -> SlowSpells:
    """
    Count work for so long, on this thread, and return when it was slow.

    now_ns: a monotonic clock. cpu_ns: the thread's own time on a processor.
    """
    count_work(round(WARM_UP_S * 1e9), now_ns)
    before_ns = cpu_ns()
    edges_ns, work = count_work(round(seconds * 1e9), now_ns)
    return find_slow_spells(edges_ns, work, cpu_ns() - before_ns)


def check_cores(cores: Sequence[int] | None = None, seconds: float = SPEED_CHECK_S) -> SlowSpells:
    """
    Look for so long on each core, one after the other, and return what was seen on all of them together.

    Args:
        cores: by default the first and the last that this thread may use; none where the system does not let
            us choose: then on whichever it is put.
        seconds: on each.
    """
    if not hasattr(os, "sched_setaffinity"):
        return check_core(seconds)
    before = os.sched_getaffinity(0)
    found = []
    try:
        for core in dict.fromkeys((min(before), max(before)) if cores is None else cores):
            os.sched_setaffinity(0, {core})
            found.append(check_core(seconds))
    finally:
        os.sched_setaffinity(0, before)
    return SlowSpells.merged(found) or check_core(seconds)


def count_work(length_ns: int, now_ns: Callable[[], int]) -> tuple[list[int], list[int]]:
    """Return where slices begin and the last one ends, at least one, and how often the loop went round in each."""
    edges_ns: list[int] = [now_ns()]
    work: list[int] = []
    until_ns = edges_ns[0] + length_ns
    while not work or edges_ns[-1] < until_ns:
        rounds, end_ns = 0, edges_ns[-1] + SLICE_NS
        while (reached_ns := now_ns()) < end_ns:
            rounds += 1
        work.append(rounds)
        edges_ns.append(reached_ns)
    return edges_ns, work
