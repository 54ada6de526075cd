"""
Looks at the speed of the machine: a loop that counts its own work by slices of 5 ms.

It takes all of its core, so it runs before anything is measured and after, never beside it. Some hosts slow a core down
to a tenth for 50 ms twice every 1.3 s, and say so nowhere: neither as steal nor as time in a run queue. A pause is seen
as well: the slice that it falls into is longer, and has no more work.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import numpy as np

from stepbench.contracts.findings import SLOW, SlowSpells

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray


FULL_SPEED_QUANTILE = 0.9
"""Of the slices' speeds, this one stands for the machine's: the largest may be a clock's error."""


def find_slow_spells(edges_ns: Sequence[int], work: Sequence[int], cpu_ns: int) -> SlowSpells:
    """
    Return the spells of one thread.

    Full speed is that of the fast slices, or the mean over the CPU time if that is higher: where a quota stops the
    thread in every slice, none is fast.

    Args:
        edges_ns: shape (n + 1,), n >= 1, ascending: where slices begin, and the last one's end.
        work: shape (n,): how much was done in each, in any unit.
        cpu_ns: how long the thread had a processor, all slices together; 0 where that is not known.
    """
    lengths_ns = np.diff(np.asarray(edges_ns, dtype=np.float64))
    done = np.asarray(work, dtype=np.float64)
    speeds = done / lengths_ns
    while_running = done.sum() / cpu_ns if cpu_ns > 0 else 0.0
    slow = speeds < SLOW * max(float(np.quantile(speeds, FULL_SPEED_QUANTILE)), while_running)
    spells_ns = list(_spells_ns(lengths_ns, slow))
    return SlowSpells(
        looked_s=float(lengths_ns.sum()) / 1e9,
        share=float(lengths_ns[slow].sum() / lengths_ns.sum()),
        longest_ms=max(spells_ns, default=0.0) / 1e6,
        spells=len(spells_ns),
    )


def _spells_ns(lengths_ns: NDArray[np.float64], slow: NDArray[np.bool_]) -> Iterator[float]:
    """
    Yield how long each spell lasted, from its first slow slice to its last.

    A spell is over once the machine has run at speed for as long as it was slow: until then, what the spell has held
    up may still wait.
    """
    backlog_ns = since_begin_ns = spell_ns = 0.0
    for length_ns, is_slow in zip(lengths_ns.tolist(), slow.tolist(), strict=True):
        if is_slow:
            backlog_ns, since_begin_ns = backlog_ns + length_ns, since_begin_ns + length_ns
            spell_ns = since_begin_ns
        elif backlog_ns > length_ns:
            backlog_ns, since_begin_ns = backlog_ns - length_ns, since_begin_ns + length_ns
        else:
            if spell_ns:
                yield spell_ns
            backlog_ns = since_begin_ns = spell_ns = 0.0
    if spell_ns:
        yield spell_ns


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
