"""Delays of events: by a stall of the store, or by a writer that stood still; who is late beside them is too slow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepbench.analysis.stalls import LEAST_NS
from stepbench.model.request import Outcome
from stepbench.records.join.sent import UNRECORDED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from stepbench.records.join.joined import Joined

    Span = tuple[int, int]
    """It begins at the one and ends before the other, in ns since the epoch."""

ON_TIME_NS = 1_000_000
"""An event that was sent so late at most was not kept from being sent."""


def delayed(spans: Sequence[Span], events: Joined) -> NDArray[np.bool_]:
    """
    Return which of a slot's events, of open loop, were due in one of the spans or while its queue was worked off.

    That is until one is sent on time again, and at most for as long as the span itself: who never catches up is late
    for another reason.
    """
    if not spans:
        return np.zeros(events.size, dtype=np.bool_)
    t0_ns = events.t0_ns
    was_on_time = (events.lateness_ns <= ON_TIME_NS) & (events.outcome <= Outcome.UNKNOWN)
    on_time = np.append(np.nonzero(was_on_time)[0], t0_ns.size)
    waited = np.zeros(t0_ns.size, dtype=np.bool_)
    times_ns = [(begin_ns, end_ns, 2 * end_ns - begin_ns) for begin_ns, end_ns in spans]
    edges = np.searchsorted(t0_ns, np.array(times_ns, np.int64).reshape(-1, 3))
    for first, end, latest in edges[edges[:, 0] < edges[:, 2]].tolist():  # of very many spans, few are in a slot
        waited[first : min(int(on_time[np.searchsorted(on_time, end)]), latest)] = True
    return waited


def find_standstills(events: Joined, places: int) -> Iterator[Span]:
    """
    Yield when a slot's writer, in open loop, stood still: for more than 0.25 s it sent nothing, and nothing held it.

    That is, an event was due in the first half of the time, and there was a place in flight for it. Where records are
    missing, nobody knows.

    Args:
        events: of one slot.
        places: how many requests the writer may have in flight.
    """
    sent = events.outcome <= Outcome.UNKNOWN
    if not sent.any():
        return
    due_ns = events.t0_ns
    sent_ns = np.sort(np.append(due_ns[0], events.t1_ns[sent]))  # it may stand still before it has sent anything
    pauses = np.nonzero(np.diff(sent_ns) > LEAST_NS)[0]
    if not pauses.size:
        return
    begin_ns, end_ns = sent_ns[pauses], sent_ns[pauses + 1]
    middle_ns = (begin_ns + end_ns) // 2
    in_flight = pauses - np.searchsorted(np.sort(events.t2_ns[sent]), middle_ns, side="right")
    due = np.searchsorted(due_ns, middle_ns) - np.searchsorted(due_ns, begin_ns, side="right")
    due += pauses == 0  # the first event is what the first pause begins with
    unrecorded_ns = due_ns[events.outcome == UNRECORDED]
    unknown = np.searchsorted(unrecorded_ns, end_ns) - np.searchsorted(unrecorded_ns, begin_ns)
    still = (due > 0) & (in_flight < places) & (unknown == 0)
    yield from zip(begin_ns[still].tolist(), end_ns[still].tolist(), strict=True)
