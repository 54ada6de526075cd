"""
What became of every scheduled event, and its accounting: rows and arrivals, scattered into one array per column.

The rules, beyond reading what is there:

- A slot (a writer's slice) without a `started` mark, a row and an arrival was never offered: its events are unsent.
- An event without a row in a slot that was started is unrecorded, unless every attempt at the slot ended in good order
  with all its files: such an attempt has a row for all it sent, so the event was not sent.
- An arrival proves that its event was sent, whatever a missing record suggests.
- Where `until` ended a phase before its schedule's end, what was due from then on was not offered. Events are sent in
  order, so all that stand in their slot before one that was sent nonetheless (its writer saw the stop late) keep the
  outcome that they have by the other rules. A writer that died without having seen the stop may have sent some of
  the others, which neither row nor arrival shows.
- Rows of several attempts at one event: sent before unsent, then the earlier attempt. An arrival counts for the
  attempt whose row stands; another attempt's is unmatched.
- The earliest t4 is an event's arrival. More of the same event are duplicates, except one store position seen by two
  watchers. A duplicate with the request id of an earlier arrival, in another item, is Lambda's own retry.
- In closed loop nothing is scheduled: an event is an operation that an attempt started. One of which there is no row is
  unrecorded, and no attempt has another's events.
- Of operations nothing arrives.
- An arrival is in a watch gap if a watch was established, or its process went on, only after the event had been
  acknowledged, nobody else was watching then, and this watch delivered it first, or any after that (see
  `records.join.arrivals`).
- An arrival after the drain limit (counted from the last acknowledgement, or from the last t0 that may have been
  sent) is late, which is to say: not arrived. One in a watch gap is not: nobody was there to see it in time.
- Invocations whose lines name no event are of events by their order (`records.join.pairing`); where several events
  could be theirs, these have arrived, as many as there are invocations, and are not paired. An attempt that another one
  of its request follows has failed, whatever its lines say.
- What a measured function ended after the drain limit is not processed, likewise (see `records.join.processing`). Its
  duplicates are processings after the first: what comes again because it failed is none.

Files and items are taken in one after the other and none is kept; a column is as narrow as what it holds. A part of the
events has the same columns as the whole, so that an analysis goes through ten million of them a cache-full at a time.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from stepbench.contracts.result import Accounting
from stepbench.errors import AccountingError
from stepbench.model.request import Outcome
from stepbench.records.formats.columns import UNSENT
from stepbench.records.formats.t4_items import ItemColumns
from stepbench.records.join.arrivals import Arrivals
from stepbench.records.join.first_arrivals import UNPAIRED, settle_repeats, settle_times
from stepbench.records.join.joined import Joined
from stepbench.records.join.pairing import pair_arrivals
from stepbench.records.join.processing import find_processing
from stepbench.records.join.sent import NOT_OFFERED, UNRECORDED, Sent

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from stepbench.records.formats.columns import ColumnFile
    from stepbench.records.formats.t4_items import T4Item
    from stepbench.records.join.arrivals import WatchGap
    from stepbench.records.join.grid import Grid

ENTRIES_AT_ONCE = 1 << 14
"""Some 600 kB, which stay in a core's cache."""


def join(  # noqa: PLR0913 -- all that a trial leaves
    grid: Grid,
    started: Collection[str],
    files: Iterable[ColumnFile],
    items: Iterable[T4Item],
    drain_limit_ns: int,
    *,
    stops_ns: Mapping[int, int] | None = None,
    details: bool = True,
    event_times: bool = True,
    batches: bool = False,
    processing: bool = False,
    by_order: int | None = None,
    notes: ItemColumns | None = None,
    gaps: Sequence[WatchGap] = (),
) -> Joined:
    """
    Join everything that is known of every scheduled event.

    Args:
        grid: the schedule.
        started: ids of the attempts that were about to offer load.
        files: all column files, in any order; gone through again where arrivals tell no event but a token.
        items: all t4 items, in any order; gone through once.
        drain_limit_ns: how long after the last acknowledgement an arrival counts.
        stops_ns: phase to where it ended, for those that ended before their schedule's end.
        details: whether to keep batch and batch_index, which only the export needs.
        event_times: whether to keep t3.
        batches: whether to keep with which item each event came.
        processing: whether a measured function has received them, so that they are processed as well; keeps items, too.
        by_order: where invocations name no event: how often a stream tries one, 0 where retries keep their request id.
        notes: where to keep what is to be known of items.
        gaps: in which nobody watched.

    Raises:
        AccountingError: records contradict each other, or name events that were never scheduled.
    """
    sent = Sent.of(grid, started, files)
    arrivals = Arrivals(grid, sent, ItemColumns() if notes is None else notes, event_times)
    for group in _groups(items):
        arrivals.add(group)
    pairing = None if by_order is None else pair_arrivals(sent, arrivals, drain_limit_ns, by_order)
    if pairing is None:
        arrivals.complete(lambda tokens: _events_by_token(grid, files, tokens))
    for phase, stop_at_ns in (stops_ns or {}).items():
        sent.end_phase(phase, stop_at_ns)
    limit_ns = sent.drain_end_ns(drain_limit_ns)
    every = settle_repeats(arrivals)
    processed = find_processing(arrivals, every) if processing else None
    kept = {"details": details, "batches": batches or processing}
    first = settle_times(arrivals, limit_ns, every, **kept, gaps=gaps)
    if pairing is not None:
        first.flags[pairing.unpaired] |= UNPAIRED
    return Joined(
        grid=grid,
        attempt=sent.attempt,
        outcome=sent.outcome,
        error=sent.error,
        lateness_ns=sent.lateness_ns.values,
        service_ns=sent.service_ns.values,
        first_arrivals=first,
        processing=processed,
        errors=tuple(sent.errors),
        extras={name: column.values for name, column in sent.extras.items()},
        canaries=arrivals.canaries,
        unmatched=arrivals.unmatched,
        sent_twice=sent.sent_twice,
        limit_ns=limit_ns,
    )


def _groups(items: Iterable[T4Item]) -> Iterator[list[T4Item]]:
    """Yield groups of items whose entries fill the cache."""
    source = iter(items)
    while group := list(islice(source, 1)):
        entries = group[0].arrivals
        for item in source:
            group.append(item)
            entries += item.arrivals
            if entries >= ENTRIES_AT_ONCE:
                break
        yield group


def _events_by_token(grid: Grid, files: Iterable[ColumnFile], tokens: Collection[str]) -> dict[str, int]:
    known = {}
    for head, rows in files:
        slot = grid.slot(head.phase, head.writer, head.slice)
        if slot >= 0 and rows.tokens:
            events = (grid.span(slot, head.attempt)[0] + rows.sequence).tolist()
            known.update({name: event for name, event in zip(rows.tokens, events, strict=True) if name in tokens})
    return known


def account(
    joined: Joined, among: NDArray[np.bool_], *, malformed: int = 0, apart: bool = True, cut_off_ns: int | None = None
) -> Accounting:
    """
    Count where some of a trial's events went, and check that the sums are right.

    Args:
        joined: the trial's events.
        among: shape (events,), which of them.
        malformed: deliveries that named nothing, to be counted beside the events.
        apart: whether this accounting carries the trial's canaries, unmatched and malformed deliveries.
        cut_off_ns: of a trial that was stopped, since when its acknowledged events have not had the time to arrive.

    Raises:
        AccountingError: it does not balance.
    """
    counts = dict.fromkeys(_counts(joined.part(0, 0), among[:0], cut_off_ns), 0)
    for part in joined.parts():
        found = _counts(part, among[part.first : part.first + part.size] & part.offered, cut_off_ns)
        counts = {name: counts[name] + count for name, count in found.items()}
    accounting = Accounting(
        **counts,
        unmatched=joined.unmatched if apart else 0,
        malformed=malformed if apart else 0,
        canaries=joined.canaries if apart else 0,
        awaited=joined.grid.arrives,
    )
    check(accounting)
    return accounting


def _counts(part: Joined, among: NDArray[np.bool_], cut_off_ns: int | None) -> dict[str, int]:
    outcome, arrived, filtered = part.outcome, part.arrived & among, ~part.matching & among
    total, arrived_by = _by_outcome(outcome, among), _by_outcome(outcome, arrived)
    lost = part.lost(cut_off_ns)
    return {
        "offered": sum(total),
        "sent": sum(total[code] for code in Outcome),
        "unsent": total[UNSENT],
        "unrecorded": total[UNRECORDED],
        "ok": total[Outcome.OK],
        "failed": total[Outcome.FAILED],
        "unknown": total[Outcome.UNKNOWN],
        "ok_arrived": arrived_by[Outcome.OK],
        "failed_arrived": arrived_by[Outcome.FAILED],
        "unknown_arrived": arrived_by[Outcome.UNKNOWN],
        "unrecorded_arrived": arrived_by[UNRECORDED],
        "received": int(np.count_nonzero(arrived)),
        "lost": int(np.count_nonzero(lost & among)),
        "cut_off": int(np.count_nonzero(part.missing & ~lost & among)),
        "held_back": int(np.count_nonzero(filtered & (outcome == Outcome.OK) & ~arrived)) if part.grid.arrives else 0,
        "leaked": int(np.count_nonzero(filtered & arrived)),
        "watch_gap": int(np.count_nonzero(arrived & part.watch_gap)),
        "unpaired": int(np.count_nonzero(arrived & part.unpaired)),
        "duplicates": int(part.duplicates[among].sum()),
        "retried": int(part.retried[among].sum()),
        "out_of_order": int(np.count_nonzero(part.disorder & among)),
        "late": int(np.count_nonzero(part.late & among)),
        **_processed(part, among, cut_off_ns),
    }


def _processed(part: Joined, among: NDArray[np.bool_], cut_off_ns: int | None) -> dict[str, int]:
    """Count what became of the events in a measured function; nothing of another trial."""
    if part.processing is None:
        return {}
    processed, failed = part.processed & among, part.failed_in_handler(cut_off_ns) & among
    return {
        "processed": int(np.count_nonzero(processed)),
        "failed_in_handler": int(np.count_nonzero(failed)),
        "cut_off_in_handler": int(np.count_nonzero(part.arrived & among & ~processed & ~failed)),
        "processed_twice": int(part.processing.again[among].sum()),
    }


def _by_outcome(outcome: NDArray[np.uint8], among: NDArray[np.bool_]) -> list[int]:
    return [int(np.count_nonzero((outcome == code) & among)) for code in range(NOT_OFFERED)]


def check(found: Accounting) -> None:
    """
    Check the equations of `docs/measurement.md`.

    Raises:
        AccountingError: names the first that does not hold.
    """
    equations = {
        "offered = sent + unsent + unrecorded": found.offered == found.sent + found.unsent + found.unrecorded,
        "sent = ok + failed + unknown": found.sent == found.ok + found.failed + found.unknown,
        "received = ok + failed + unknown + unrecorded, arrived": found.received
        == found.ok_arrived + found.failed_arrived + found.unknown_arrived + found.unrecorded_arrived,
        "lost = ok - ok arrived - held back - cut off": found.lost
        == (found.ok - found.ok_arrived - found.held_back - found.cut_off if found.awaited else 0),
        "nothing arrives that is not awaited": found.awaited or found.received == 0,
        "leaked <= received": found.leaked <= found.received,
        "watch gap <= received": found.watch_gap <= found.received,
        "unpaired <= received": found.unpaired <= found.received,
        "arrived <= all, for each outcome": found.ok_arrived <= found.ok
        and found.failed_arrived <= found.failed
        and found.unknown_arrived <= found.unknown
        and found.unrecorded_arrived <= found.unrecorded,
        "retried <= duplicates": found.retried <= found.duplicates,
        "received = processed + failed in the handler + cut off there": found.processed is None
        or found.received == found.processed + found.failed_in_handler + found.cut_off_in_handler,
        "duplicates = processed twice, in a measured function": found.processed is None
        or found.duplicates == found.processed_twice,
    }
    broken = [equation for equation, holds in equations.items() if not holds]
    if broken:
        message = f"the accounting does not balance: {broken[0]}; {found.model_dump_json()}"
        raise AccountingError(message)
