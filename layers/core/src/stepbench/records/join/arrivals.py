"""
The receivers' side of the join: t4 items, taken in one after the other, as columns of the grid's events.

All entries of an item that have one t4 are a *delivery*: one invocation, mostly. An event keeps the number of its
delivery, 4 bytes, and the delivery its time and all that its entries have in common. An event that arrives again is
kept aside (see `records.join.first_arrivals`).

A watch begins when it is established, and again whenever its process goes on after it had stood still. If no other
watch runs at that moment, nobody has seen what was acknowledged before (a *watch gap*): the watch delivers it
afterwards, and its latency is that of the watch's absence, not of the store. Where lanes overlap, as they do when they
hand over, there is no gap.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepbench.contracts.identity import ANY_ATTEMPT, CANARY_PHASE, UNRESOLVED_PHASE
from stepbench.digits import counted
from stepbench.errors import AccountingError
from stepbench.model.request import Outcome
from stepbench.records.formats.columns import UNSENT
from stepbench.records.formats.t4_items import ItemColumns, shape_of, unpack_together
from stepbench.records.join.sent import UNRECORDED, Narrow

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from stepbench.records.formats.t4_items import T4Item
    from stepbench.records.join.grid import Grid
    from stepbench.records.join.sent import Sent

    EventsOf = Callable[[Collection[str]], Mapping[str, int]]
    """Returns which events tokens name."""
    from stepbench.records.storage.layout import Watch


class WatchGap(NamedTuple):
    """
    A span in which nobody watched, ns since the epoch.

    Events are in it that were acknowledged by `to_ns` and that the watch of this sandbox delivered from `from_ns` on,
    or any watch after `to_ns`: two that stood still go on one after the other.
    """

    sandbox: str
    from_ns: int
    to_ns: int


def find_watch_gaps(watches: Sequence[Watch]) -> tuple[WatchGap, ...]:
    """Return the gaps between the first watch's start and the last one's, by time."""
    stretches = sorted(((*span, watch.sandbox) for watch in watches for span in _stretches(watch)), key=itemgetter(0))
    watched_to_ns = accumulate((to_ns for _, to_ns, _ in stretches), max)
    return tuple(
        WatchGap(sandbox, before_ns, from_ns)
        for before_ns, (from_ns, _, sandbox) in zip(watched_to_ns, stretches[1:], strict=False)
        if before_ns < from_ns
    )


def _stretches(watch: Watch) -> Iterator[tuple[int, int]]:
    """Yield the spans in which a watch surely ran: between its pauses, in one of which its last sign of life may be."""
    begins = (watch.established_ns, *(to_ns for _, to_ns in watch.pauses_ns))
    ends = (*(from_ns for from_ns, _ in watch.pauses_ns), watch.alive_ns)
    return ((begin_ns, max(begin_ns, end_ns)) for begin_ns, end_ns in zip(begins, ends, strict=True))


class Entries(NamedTuple):
    """
    Columns of some arrivals.

    event: number in the grid, -1 = none. by_token: found by the store's token, or by a key that was there before any
    attempt, so `attempt` is what the writer says. item: which.
    """

    event: NDArray[np.int64]
    attempt: NDArray[np.uint8]
    t4_ns: NDArray[np.int64]
    t3_ns: NDArray[np.int64]
    position: NDArray[np.int64]
    batch_index: NDArray[np.uint16]
    by_token: NDArray[np.bool_]
    item: NDArray[np.int64]

    def some(self, which: NDArray[np.bool_]) -> Entries:
        """Return the arrivals that are chosen."""
        return Entries._make(column[which] for column in self)


class RepeatedArrivals(NamedTuple):
    """Arrivals of events that had arrived already; columns as in `Arrivals`."""

    event: NDArray[np.int64]
    delivery: NDArray[np.int64]
    batch_index: NDArray[np.int64]
    position: NDArray[np.int64]
    t3_ns: NDArray[np.int64]


@dataclass
class Arrivals:
    """
    All that has arrived so far; a column has a value for each of the grid's events.

    delivery: number of the delivery with which it came first of all that were added, 0 = none. position: of what a
    watcher saw, 0 = none. t3_ns: kept if asked for.
    """

    grid: Grid
    sent: Sent
    items: ItemColumns
    keep_t3: bool = True
    canaries: int = 0
    unmatched: int = 0
    repeated: list[RepeatedArrivals] = field(default_factory=list)
    _delivery_t4_ns: list[NDArray[np.int64]] = field(default_factory=lambda: [np.zeros(1, np.int64)])
    _delivery_item: list[NDArray[np.int64]] = field(default_factory=lambda: [np.zeros(1, np.int64)])
    _deliveries: int = 1
    _unnamed: list[tuple[Entries, list[str]]] = field(default_factory=list)
    _contradicted: list[NDArray[np.int64]] = field(default_factory=list)
    _proven: list[Entries] = field(default_factory=list)

    def __post_init__(self) -> None:
        n = self.grid.events
        self.delivery, self.batch_index = np.zeros(n, np.uint32), np.zeros(n, np.uint16)
        self.position = Narrow(n)
        self.t3_ns = np.zeros(n if self.keep_t3 else 0, np.int64)

    def add(self, items: Sequence[T4Item]) -> None:
        """Add the entries of some more items, at least one."""
        first, items = len(self.items), sorted(items, key=lambda item: shape_of(item.packed))
        self.items.add(items)
        raw = unpack_together([item.packed for item in items])
        numbers = np.repeat(np.arange(first, len(self.items)), [item.arrivals for item in items])
        entries = Entries(
            event=self.grid.locate(raw),
            attempt=raw["attempt"],
            t4_ns=raw["t4_ns"],
            t3_ns=raw["t3_ns"],
            position=raw["position"],
            batch_index=raw["batch_index"],
            by_token=raw["attempt"] == ANY_ATTEMPT,
            item=numbers,
        )
        if (raw["phase"] >= min(CANARY_PHASE, UNRESOLVED_PHASE)).any():
            entries = self._without_special(entries, raw["phase"], items)
        self._match(entries)

    @property
    def unnamed(self) -> tuple[NDArray[np.int64], NDArray[np.int64], list[str]]:
        """Return of the entries that tell only a token: when each came, with which item, and its token."""
        t4_ns, item = (np.concatenate([np.empty(0, np.int64), *(getattr(each, name) for each, _ in self._unnamed)])
                       for name in ("t4_ns", "item"))  # fmt: skip
        return t4_ns, item, [token for _, tokens in self._unnamed for token in tokens]

    def complete(self, events_of: EventsOf) -> None:
        """
        Match entries that tell only a token, and take all that arrived for sent, whatever a missing record suggests.

        Raises:
            AccountingError: a writer says that it was not.
        """
        needed = {token for _, tokens in self._unnamed for token in tokens if token}
        known = events_of(needed) if needed else {}
        for entries, tokens in self._unnamed:
            events = np.array([known.get(token, -1) for token in tokens], dtype=np.int64)
            self._match(entries._replace(event=events))
        self._unnamed.clear()
        if self._contradicted:
            count = np.unique(np.concatenate(self._contradicted)).size
            message = f"{counted(count, 'event')} arrived that the writer says it did not send"
            raise AccountingError(message)
        if self._proven:
            event = np.concatenate([each.event for each in self._proven])
            attempt = np.concatenate([each.attempt for each in self._proven])
            self.sent.outcome[event] = UNRECORDED
            # Backwards, so that the smallest attempt stays where several arrived.
            order = np.argsort(-attempt.astype(np.int64), kind="stable")
            self.sent.attempt[event[order]] = attempt[order]

    def delivery_t4_ns(self) -> NDArray[np.int64]:
        """Return the t4 of each delivery by its number; 0 for number 0."""
        return np.concatenate(self._delivery_t4_ns)

    def delivery_item(self) -> NDArray[np.int64]:
        """Return the item of each delivery by its number."""
        return np.concatenate(self._delivery_item)

    def _without_special(self, entries: Entries, phase: NDArray[np.uint8], items: Sequence[T4Item]) -> Entries:
        """Return all but canaries, which are counted, and entries that only a token names, which are put off."""
        canary, unnamed = phase == CANARY_PHASE, phase == UNRESOLVED_PHASE
        self.canaries += int(np.count_nonzero(canary))
        if unnamed.any():
            tokens = np.array([token for item in items for token in _tokens(item)], dtype=object)
            put_off = entries._replace(by_token=unnamed).some(unnamed)
            self._unnamed.append((put_off, tokens[unnamed].tolist()))
        return entries.some(~(canary | unnamed))

    def _match(self, entries: Entries) -> None:
        known = entries.event >= 0
        if not known.all():
            self.unmatched += int(np.count_nonzero(~known))
            entries = entries.some(known)
        outcome = self.sent.outcome.take(entries.event)
        same = (entries.attempt == self.sent.attempt.take(entries.event)) | entries.by_token
        if not ((outcome <= Outcome.UNKNOWN) & same).all():
            entries = self._judge(entries, outcome, same)
        if entries.event.size:
            self._take(entries)

    def _judge(self, entries: Entries, outcome: NDArray[np.uint8], same: NDArray[np.bool_]) -> Entries:
        by_row = outcome <= Outcome.UNKNOWN
        contradicted = (outcome == UNSENT) & same
        if contradicted.any():
            self._contradicted.append(entries.event[contradicted])
        if not by_row.all():
            self._proven.append(entries.some(~by_row))
        keep = ~by_row | same
        self.unmatched += int(np.count_nonzero(~keep))
        return entries.some(keep)

    def _take(self, entries: Entries) -> None:
        delivery, fresh = self._number(entries), self.delivery.take(entries.event) == 0
        ascending = np.sort(entries.event.astype(self.delivery.dtype))  # an event's number is no wider
        twice = ascending[1:][ascending[1:] == ascending[:-1]]
        if twice.size:
            places = np.nonzero(np.isin(entries.event, twice))[0]
            is_later = np.ones(places.size, dtype=np.bool_)
            is_later[np.unique(entries.event[places], return_index=True)[1]] = False
            fresh[places[is_later]] = False
        if not fresh.all():
            other, later = entries.some(~fresh), delivery[~fresh]
            t3_ns = other.t3_ns if self.keep_t3 else np.zeros(later.size, np.int64)
            batch_index = other.batch_index.astype(np.int64)
            self.repeated.append(RepeatedArrivals(other.event, later, batch_index, other.position.copy(), t3_ns))
            entries, delivery = entries.some(fresh), delivery[fresh]
        self.delivery[entries.event] = delivery
        self.batch_index[entries.event] = entries.batch_index
        if entries.position.any():
            self.position.put(entries.event, entries.position)
        if self.keep_t3:
            self.t3_ns[entries.event] = entries.t3_ns

    def _number(self, entries: Entries) -> NDArray[np.int64]:
        """Return the number of each entry's delivery; deliveries of the items in hand are new."""
        begins = np.ones(entries.item.size, dtype=np.bool_)
        begins[1:] = (entries.item[1:] != entries.item[:-1]) | (entries.t4_ns[1:] != entries.t4_ns[:-1])
        numbers = np.cumsum(begins) + (self._deliveries - 1)
        self._delivery_t4_ns.append(entries.t4_ns[begins])
        self._delivery_item.append(entries.item[begins])
        self._deliveries = int(numbers[-1]) + 1
        return numbers


def _tokens(item: T4Item) -> tuple[str, ...]:
    return item.tokens or ("",) * item.arrivals
