"""
Stalls of the store, where requests were in flight and it answered none for long; and writers that stood still.

And which events either delayed: who is late beside them is too slow.

What was sent meanwhile distinguishes a stall of the store from the generator's: a writer that runs goes on sending,
or has as many in flight as it may.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepbench.model.errors import NO_ANSWER, TIMEOUT, WITHDRAWN, connect_error
from stepbench.model.request import Outcome
from stepbench.records.formats.columns import UNSENT
from stepbench.records.join.sent import UNRECORDED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from stepbench.analysis.evidence import Evidence
    from stepbench.contracts.plan import TrialPlan
    from stepbench.records.join.joined import Joined

    Ticks = NDArray[np.uint32]
    Span = tuple[int, int]
    """It begins at the one and ends before the other, in ns since the epoch."""

TICK_NS = 100_000
"""Times are compared in ticks from the phase's start: 4 bytes an event, for phases of up to 119 hours."""
LEAST_NS = 250_000_000
"""No shorter silence is a stall: a host that is busy, or a store that flushes, makes those in clean runs."""
TIMES_USUAL = 10
"""A silence that is so many times the usual one belongs to no tail, as a service time of so many times p99 does."""
SILENT = frozenset({TIMEOUT, NO_ANSWER, WITHDRAWN, connect_error(TimeoutError())})
"""Errors of requests that failed, since nothing of them had left, and that nobody answered."""
_P99 = 0.99
TIMES_SERVICE = 2
"""A silence may be as long as the store takes for a request: before a phase's first answer, it always is."""
_LOW = 0.25
"""Of service times: a stall makes those of its own requests long, from nothing to its length."""
_RARE = 5
"""In a short phase 1 % is less than one; a handful of stalls still does not make stalls usual."""
_WAITING = 2
"""One slow request is a tail; where two wait and nobody is answered, it is the store."""
_LEEWAY_NS = 5_000_000


class Requests(NamedTuple):
    """
    The requests of a phase, each column sorted by itself: which row is whose does not matter.

    due, sent, ended: ticks, of those that were sent. unsent: when the others were due. What got no answer ended with
    the next answer of any, if it was not given up before: one request that is lost makes no silence between the answers
    of the others. given_up: when those ended that were given up before.
    """

    due: Ticks
    sent: Ticks
    ended: Ticks
    unsent: Ticks
    given_up: Ticks


class Stall(NamedTuple):
    """
    The store answered nothing in [begin_ns, end_ns) of a phase.

    in_flight: requests at its end. events: these, and what was due and could not be sent.
    """

    phase: int
    begin_ns: int
    end_ns: int
    in_flight: int
    events: int

    @property
    def length_ns(self) -> int:
        """Return how long it took."""
        return self.end_ns - self.begin_ns


def find_stalls(evidence: Evidence) -> tuple[Stall, ...]:
    """Return the store's stalls in all phases, in order of time."""
    plan, starts_ns = evidence.spec.offered, evidence.records.starts_ns
    return tuple(
        Stall(phase, start_ns + begin * TICK_NS, start_ns + end * TICK_NS, in_flight, events)
        for phase, start_ns in sorted(starts_ns.items())
        for begin, end, in_flight, events in stalls_among(
            _read_requests(evidence.joined.of_phase(phase), start_ns), _most_in_flight(plan, phase)
        )
    )


def stalls_among(requests: Requests, most_in_flight: int) -> Iterator[tuple[int, int, int, int]]:
    """
    Yield begin, end, requests in flight and events that waited, of each stall of the store; times in ticks.

    A silence is the time between two answers while requests were in flight. A request that is given up does not end
    it, if others still are, if the next is sent at once, or if the next gets no answer either: what a client's time-out
    cuts into several is one. It is a stall if it is longer than 0.25 s, than ten times the usual one (p99, the five
    longest left out) and than twice a request's time, and two waited for so long; one where no more may be in flight.
    It is none of the store's if events were due in it and nothing was sent.

    Args:
        requests: of all writers.
        most_in_flight: of all writers together.
    """
    silences, unended = _silences(requests, 1)
    if silences.max(initial=0) <= LEAST_NS // TICK_NS:
        return
    ended = np.delete(silences, unended) if unended.size else silences
    place = max(0, min(int(_P99 * ended.size), ended.size - 1 - _RARE))
    usual = int(np.partition(ended, place)[place]) if ended.size > _RARE else 0
    limit = max(LEAST_NS // TICK_NS, TIMES_USUAL * usual, TIMES_SERVICE * _low_service(requests))
    waited, unended = _silences(requests, min(_WAITING, most_in_flight))
    waited[unended] = 0
    found = np.nonzero(waited > limit)[0]
    begin = requests.ended[found] - silences[found]
    last = np.append(begin[1:] > begin[:-1], [True] * bool(found.size)).astype(np.bool_)
    begin, end = begin[last], requests.ended[found[last]]
    answered = np.searchsorted(requests.ended, end)
    in_flight = np.searchsorted(requests.sent, end) - answered
    events = np.maximum(np.searchsorted(requests.due, end) - answered, in_flight)
    events += _count(requests.unsent, begin, end) + _count(requests.given_up, begin, end)
    stores = ~_stood_still(requests, begin, end, 2 * usual) | (in_flight >= most_in_flight)
    columns = (begin, end, in_flight, events)
    yield from zip(*(column[stores].tolist() for column in columns), strict=True)


def _most_in_flight(plan: TrialPlan, phase: int) -> int:
    return plan.waiting_clients(phase) or plan.writers * plan.max_in_flight


def _read_requests(events: Joined, start_ns: int) -> Requests:
    counts = [int(np.count_nonzero(part.outcome <= Outcome.UNKNOWN)) for part in events.parts()]
    due, sent, ended = (np.empty(sum(counts), np.uint32) for _ in range(3))
    answered, unsent, at = np.empty(sum(counts), np.bool_), [np.empty(0, np.uint32)], 0
    for part, count in zip(events.parts(), counts, strict=True):
        was_sent, place, since_ns = part.outcome <= Outcome.UNKNOWN, slice(at, at + count), part.t0_ns - start_ns
        unsent.append(_ticks(since_ns[part.outcome == UNSENT]))
        since_ns = since_ns[was_sent]
        for column, more_ns in ((due, 0), (sent, part.lateness_ns[was_sent]), (ended, part.service_ns[was_sent])):
            since_ns += more_ns
            column[place] = _ticks(since_ns)
        answered[place] = _is_answered(part)[was_sent]
        at += count
    given_up = end_unanswered(sent, ended, answered)
    found = Requests(due, sent, ended, np.concatenate(unsent), given_up)
    for column in found:
        column.sort()
    return found


def _is_answered(part: Joined) -> NDArray[np.bool_]:
    """Return which the store said anything about; a time-out before a connection is none of its answers."""
    silent = np.array([error in SILENT for error in part.errors], np.bool_)
    named = silent[part.error] if silent.any() else np.zeros(part.size, np.bool_)
    found: NDArray[np.bool_] = (part.outcome < Outcome.UNKNOWN) & ~((part.outcome == Outcome.FAILED) & named)
    return found


def _ticks(since_ns: NDArray[np.int64]) -> Ticks:
    return np.maximum(since_ns // TICK_NS, 0).astype(np.uint32)


def end_unanswered(sent: Ticks, ended: Ticks, answered: NDArray[np.bool_]) -> Ticks:
    """
    Let what got no answer end with the next answer after it was sent, if that is before it was given up.

    Returns:
        When the others ended, which were given up without any answer since they were sent.
    """
    if answered.all():
        return np.empty(0, np.uint32)
    answers = np.append(np.sort(ended[answered]), ended.max())
    following = answers[np.searchsorted(answers[:-1], sent[~answered], side="right")]  # that of its own tick was before
    given_up = ended[~answered]
    ended[~answered] = np.minimum(following, given_up)
    return given_up[given_up < following]


def _silences(requests: Requests, waiting: int) -> tuple[Ticks, NDArray[np.int64]]:
    """
    Return how long before each end there was no answer, and at least so many were in flight.

    The k-th end comes after k - 1 others; so k + `waiting` - 1 have been sent once so many are in flight.

    Returns:
        The silences, and the places of those that their end does not end: a request was given up, and so many still are
        in flight, or the next comes within `LEAST_NS`, or is given up as well.
    """
    begins = requests.sent[waiting - 1 :].copy()
    ends = requests.ended[: begins.size]
    unended = _places(requests.given_up, ends)
    follows = np.append(np.diff(unended) == 1, [False] * bool(unended.size)).astype(np.bool_)
    follows, unended = follows[unended < ends.size - 1], unended[unended < ends.size - 1]
    unended = unended[follows | (begins[unended + 1] <= ends[unended] + LEAST_NS // TICK_NS)]
    np.maximum(begins[1:], ends[:-1], out=begins[1:])
    if unended.size:
        begins[unended + 1] = 0
        np.maximum.accumulate(begins, out=begins)
    np.minimum(begins, ends, out=begins)
    return np.subtract(ends, begins, out=begins), unended


def _low_service(requests: Requests) -> int:
    """Return a low quantile of how long requests take, in ticks; the k-th end less the k-th start is near to it."""
    waits = requests.ended - requests.sent
    place = int(_LOW * waits.size)
    waits.partition(place)
    return int(waits[place])


def _places(some: Ticks, among: Ticks) -> NDArray[np.int64]:
    """Return where some of a column's values stand in it, each at a place of its own; without those behind its end."""
    places = np.searchsorted(among, some) + np.arange(some.size) - np.searchsorted(some, some)
    return places[places < among.size]


def _stood_still(requests: Requests, begin: Ticks, end: Ticks, usual: int) -> NDArray[np.bool_]:
    """
    Return in which silences the generator itself stood still: events were due in the first half, none was sent.

    What was sent just after the last answer says nothing: nobody is answered for so long at any time. And what is sent
    at the very end may have been sent by a generator that goes on again.
    """
    length = end - begin
    first = begin + np.minimum(length // 4, max(usual, _LEEWAY_NS // TICK_NS))
    due = sum(_count(column, first, begin + length // 2) for column in (requests.due, requests.unsent))
    stood_still: NDArray[np.bool_] = (due > 0) & (_count(requests.sent, first, begin + length // 4 * 3) == 0)
    return stood_still


def _count(column: Ticks, begin: Ticks, end: Ticks) -> NDArray[np.int64]:
    """Count how much of a column lies in each [begin, end)."""
    return np.searchsorted(column, end) - np.searchsorted(column, begin)


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
