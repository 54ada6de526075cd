"""
Which event each invocation was of, where its lines name none: found by order, where that leaves one answer. Pure.

Assumed is that an event reaches the function for the first time within the drain limit of its send, or never; under one
request id, unless it is of a stream that tries it again; and that the writers' and the function's clocks are less than
`CLOCKS_APART_NS` apart. Nobody but the trial's trigger invokes the copy.

A send opens an event. A start is of one that is open: sent before it, not started, and not so long ago that it will
never start. Which one it is does not matter for the count: the one that was sent first is taken, which leaves the most
open. As soon as none is open, what follows has nothing to do with what came before. Between two such moments lies a
*stretch*. In a stretch with one event, all starts are of that event: it is *paired*. Where there are more, each may be
any one's: as many have arrived as there are starts, and none of them has a latency of its own.

A start while nothing is open contradicts the assumption: some event came twice under two ids. The second one may have
been taken for the next event's, that one's for the one after it, and so on. So nothing is paired since the last pause
that was longer than the limit. An event that is lost just as another comes twice is not noticed.

The clocks matter where a start and a send are close. A start counts when it may have been at the latest, an end of the
wait when it was at the latest, so that doubt leaves events open.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepbench.model.request import Outcome
from stepbench.records.formats.platform_lines import RESOLUTION_NS
from stepbench.records.join.sent import UNRECORDED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from stepbench.records.join.arrivals import Arrivals
    from stepbench.records.join.sent import Sent

CLOCKS_APART_NS = 10_000_000
"""Clocks that are kept by NTP are surely no further apart."""
TRIED_AGAIN = "tried again"
"""Stands for the error of an attempt that another one of its request follows, if its lines have none."""
_ENDLESS = np.iinfo(np.int64).max


class Sends(NamedTuple):
    """
    Events that may reach the function, in any order.

    event: numbers in the grid. sent_ns: when each was sent, at the earliest. open_until_ns: when it has started if it
    ever does; the largest number where nobody knows when it was sent.
    """

    event: NDArray[np.int64]
    sent_ns: NDArray[np.int64]
    open_until_ns: NDArray[np.int64]


class Starts(NamedTuple):
    """
    Requests of invocations, in any order; retries of the same request are one.

    first_ns: when each began first. comes_again: its event comes again under another id, since it failed, in a stream.
    """

    request: Sequence[str]
    first_ns: NDArray[np.int64]
    comes_again: NDArray[np.bool_]


class Pairing(NamedTuple):
    """
    What follows from the order.

    event: by request, which event it is counted for; none of what is no event's. canaries: requests before any event.
    unpaired: events that are counted together with others, of which none has times of its own.
    """

    event: Mapping[str, int]
    canaries: frozenset[str]
    unpaired: NDArray[np.int64]


def pair_by_order(sends: Sends, starts: Starts, *, resolution_ns: int, attempts: int) -> Pairing:
    """
    Pair what can be paired.

    Args:
        sends: all of the trial but canaries.
        starts: all of the trial, canaries included.
        resolution_ns: of the starts' times, which are rounded down.
        attempts: after so many failures a stream's event does not come again.
    """
    order = _Order(attempts, slack_ns=2 * CLOCKS_APART_NS + resolution_ns)
    latest_ns = starts.first_ns + resolution_ns + CLOCKS_APART_NS
    moments = np.concatenate([sends.sent_ns, latest_ns])
    is_start = np.repeat([False, True], [sends.sent_ns.size, latest_ns.size])
    for moment in np.lexsort((is_start, moments)).tolist():
        if moment < sends.sent_ns.size:
            order.send(int(sends.event[moment]), int(sends.sent_ns[moment]), int(sends.open_until_ns[moment]))
        else:
            at = moment - sends.sent_ns.size
            earliest_ns = int(starts.first_ns[at]) - CLOCKS_APART_NS
            order.start(starts.request[at], earliest_ns, comes_again=bool(starts.comes_again[at]))
    return order.pairing()


def pair_arrivals(sent: Sent, arrivals: Arrivals, limit_ns: int, stream_attempts: int) -> Pairing:
    """
    Pair the arrivals that only a request id names, and complete them.

    Args:
        sent: the writers' side.
        arrivals: all of the trial; changed.
        limit_ns: the drain limit.
        stream_attempts: how often a stream tries an event, each time under another id; 0 where retries keep theirs.

    Raises:
        AccountingError: see `Arrivals.complete`.
    """
    t4_ns, item, requests = arrivals.unnamed
    order = np.argsort(t4_ns, kind="stable")
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for place in order.tolist():
        first.setdefault(requests[place], place)
        last[requests[place]] = place
    begun, ended = (np.array(list(places.values()), np.int64) for places in (first, last))
    runs = arrivals.items.runs
    fails = np.zeros(begun.size, np.bool_)
    if runs is not None:
        runs.fail(np.setdiff1d(item, item[ended]), TRIED_AGAIN)
        fails = (runs.failed_from[item[ended]] == 0) & bool(stream_attempts)
    starts = Starts(list(first), t4_ns[begun], fails)
    pairing = pair_by_order(_sends(sent, limit_ns), starts, resolution_ns=RESOLUTION_NS, attempts=stream_attempts)
    arrivals.complete(lambda _tokens: pairing.event)
    canaries = sum(request in pairing.canaries for request in requests)
    arrivals.unmatched -= canaries
    arrivals.canaries += canaries
    return pairing


def _sends(sent: Sent, limit_ns: int) -> Sends:
    """Return what may have reached the function: whatever the store did not refuse."""
    event = np.nonzero(np.isin(sent.outcome, (Outcome.OK, Outcome.UNKNOWN, UNRECORDED)))[0]
    sent_ns = sent.grid.t0_ns[event] + sent.lateness_ns.values[event]
    unknown = sent.outcome[event] == UNRECORDED
    return Sends(event, sent_ns, np.where(unknown, _ENDLESS, sent_ns + limit_ns))


class _Stretch:
    """Events from one moment at which none is open to the next, and how many starts and failures they had."""

    def __init__(self) -> None:
        self.events: list[int] = []
        self.starts = self.failures = 0


class _Order:
    """
    Sends and starts, taken one after the other.

    attempts: see `pair_by_order`. slack_ns: how long after an event's last moment its start may be taken, at most.
    """

    def __init__(self, attempts: int, slack_ns: int) -> None:
        self._attempts, self._slack_ns = attempts, slack_ns
        self._open: list[tuple[int, int]] = []
        self._stretches: list[_Stretch] = []
        self._pause = 0
        self._over_ns = 0
        self._contradicted: dict[int, int] = {}
        self._event: dict[str, int] = {}
        self._canaries: set[str] = set()

    def send(self, event: int, sent_ns: int, open_until_ns: int) -> None:
        """Open an event; where none was open, a stretch begins."""
        now_ns = sent_ns - self._slack_ns
        self._end_waits(now_ns)
        if not self._open:
            if self._over_ns < now_ns:
                self._pause = len(self._stretches)
            self._stretches.append(_Stretch())
        self._stretches[-1].events.append(event)
        self._over_ns = max(self._over_ns, open_until_ns)
        heapq.heappush(self._open, (open_until_ns, event))

    def start(self, request: str, earliest_ns: int, *, comes_again: bool) -> None:
        """Count a request for the event whose wait ends first; the same of all that are open, but for the count."""
        self._end_waits(earliest_ns)
        if not self._stretches:
            self._canaries.add(request)
        elif not self._open:
            self._contradicted[self._pause] = len(self._stretches)
        else:
            stretch = self._stretches[-1]
            stretch.starts += 1
            stretch.failures += comes_again
            self._event[request] = self._open[0][1]
            given_up = len(stretch.events) == 1 and stretch.failures >= self._attempts
            if not comes_again or given_up:
                heapq.heappop(self._open)

    def _end_waits(self, now_ns: int) -> None:
        while self._open and self._open[0][0] < now_ns:
            heapq.heappop(self._open)

    def pairing(self) -> Pairing:
        """Return what has been found. Where nothing started, nothing is in doubt: all are lost."""
        together = [stretch for stretch in self._stretches if len(stretch.events) > 1]
        contradicted = [stretch for since, end in self._contradicted.items() for stretch in self._stretches[since:end]]
        unpaired = {event for stretch in (*together, *contradicted) if stretch.starts for event in stretch.events}
        return Pairing(self._event, frozenset(self._canaries), np.array(sorted(unpaired), np.int64))
