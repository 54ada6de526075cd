"""
What became of every scheduled event: writers' rows and receivers' arrivals, scattered into one array per column.

The rules, beyond reading what is there:

- A slot (a writer's slice) without a `started` mark, a row and an arrival was never offered: its events are unsent.
- An event without a row in a slot that was begun is unrecorded, unless every attempt at the slot ended in good order
  with all its files: such an attempt has a row for all it sent, so the event was not sent.
- An arrival proves that its event was sent, whatever a missing record suggests.
- Where `until` ended a phase before its schedule's end, what was due from then on was not offered. Events are sent in
  order, so all that stand in their slot before one that was sent nonetheless (its writer saw the stop late) keep the
  outcome that they have by the other rules. A writer that died without having seen the stop may have sent some of
  the others, which neither row nor arrival tells.
- Rows of several attempts at one event: sent before unsent, then the earlier attempt. An arrival counts for the
  attempt whose row stands; another attempt's is unmatched.
- The earliest t4 is an event's arrival. More of the same event are duplicates, except one store position seen by two
  watchers. A duplicate with the request id of an earlier arrival, in another item, is Lambda's own retry.
- In closed loop nothing is scheduled: an event is an operation that an attempt began. One of which there is no row is
  unrecorded, and no attempt has another's events.
- Of operations nothing arrives.
- An arrival after the drain limit (counted from the last acknowledgement, or from the last t0 that may have been
  sent) is late, which is to say: not arrived.

Files and items are taken in one after the other and none is kept; a column is as narrow as what it holds. A part of the
events has the same columns as the whole, so that an analysis goes through ten million of them a cache-full at a time.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from stepbench.records.arrivals import Arrivals
from stepbench.records.arrived import settle_times
from stepbench.records.items import Items
from stepbench.records.joined import Joined
from stepbench.records.sent import Sent

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from stepbench.records.columns import ColumnFile
    from stepbench.records.grid import Grid
    from stepbench.records.t4 import T4Item

__all__ = ["Joined", "join"]
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
    notes: Items | None = None,
) -> Joined:
    """
    Everything that is known of every scheduled event.

    Args:
        grid: the schedule.
        started: ids of the attempts that were about to offer load.
        files: all column files, in any order; gone through again where arrivals tell no event but a token.
        items: all t4 items, in any order; gone through once.
        drain_limit_ns: how long after the last acknowledgement an arrival counts.
        stops_ns: phase to where it ended, for those that ended before their schedule's end.
        details: whether to keep t3, batch and batch_index, which only the export needs.
        notes: where to keep what is to be known of items.

    Raises:
        AccountingError: records contradict each other, or name events that were never scheduled.
    """
    sent = Sent.nothing(grid)
    for file in files:
        sent.add(file)
    sent.fill_in(sent.begun_slots(started))
    arrivals = Arrivals(grid, sent, Items() if notes is None else notes, details)
    for some in _groups(items):
        arrivals.add(some)
    arrivals.name(lambda tokens: _events_by_token(grid, files, tokens))
    arrivals.prove()
    for phase, stop_at_ns in (stops_ns or {}).items():
        sent.end_phase(phase, stop_at_ns)
    limit_ns = sent.drain_end_ns(drain_limit_ns)
    came = settle_times(arrivals, limit_ns, details=details)
    return Joined(
        grid=grid,
        first=0,
        attempt=sent.attempt,
        outcome=sent.outcome,
        error=sent.error,
        lateness_ns=sent.lateness_ns.values,
        service_ns=sent.service_ns.values,
        came=came,
        errors=tuple(sent.errors),
        extras={name: column.values for name, column in sent.extras.items()},
        canaries=arrivals.canaries,
        unmatched=arrivals.unmatched,
        sent_twice=sent.sent_twice,
        limit_ns=limit_ns,
    )


def _groups(items: Iterable[T4Item]) -> Iterator[list[T4Item]]:
    """So many that their entries fill the cache."""
    source = iter(items)
    while some := list(islice(source, 1)):
        entries = some[0].arrivals
        for item in source:
            some.append(item)
            entries += item.arrivals
            if entries >= ENTRIES_AT_ONCE:
                break
        yield some


def _events_by_token(grid: Grid, files: Iterable[ColumnFile], tokens: Collection[str]) -> dict[str, int]:
    known = {}
    for head, rows in files:
        slot = grid.slot(head.phase, head.writer, head.slice)
        if slot >= 0 and rows.tokens:
            events = (grid.span(slot, head.attempt)[0] + rows.sequence).tolist()
            known.update({name: event for name, event in zip(rows.tokens, events, strict=True) if name in tokens})
    return known
