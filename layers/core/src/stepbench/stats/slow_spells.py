"""
Spells in which a machine was slow, from the work that a loop did in each short slice of time.

A pause is seen as well: the slice that it falls into is longer, and has no more work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepbench.contracts.findings import SLOW, SlowSpells

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
