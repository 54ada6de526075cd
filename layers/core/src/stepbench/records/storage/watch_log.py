"""The changes that a watcher has seen, on their way into the results table."""

from __future__ import annotations

import contextlib
import uuid
from typing import TYPE_CHECKING, Any, NamedTuple

from stepbench.contracts.identity import EVENT_ID_CHARS, parse_event_id
from stepbench.digits import counted
from stepbench.errors import RecordsUnavailableError
from stepbench.records.formats.t4 import (
    FEW_ENTRIES,
    MAX_BATCH_INDEX,
    MAX_ENTRIES,
    Entry,
    EntryColumns,
    pack,
    pack_columns,
)
from stepbench.records.storage.layout import Watch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.model.request import Change, ChangeBatch
    from stepbench.records.storage.t4_store import T4Log, T4Store
    from stepbench.records.storage.trial_table import TrialTable


class _Item(NamedTuple):
    request_id: str
    t4_ns: int
    attributes: dict[str, Any]
    malformed: list[Change]
    position: int


class WatchLog:
    """
    The log of one turn of one lane.

    `add` runs where the watch is read, and only notes; `record` packs and sends, on another thread, and keeps what it
    could not send for the next time. What is packed is printed at once, and so only once.
    """

    def __init__(self, tag: str, store_name: str, lane: int, log: T4Log) -> None:
        self.watch = f"{lane}-{uuid.uuid4().hex[:8]}"
        self.sandbox = f"watcher-{self.watch}"
        self.established_ns: int | None = None
        self.seen = 0
        self.recorded_position = 0
        self._tag = tag
        self._store_name = store_name
        self._lane = lane
        self._log = log
        self._batches: list[ChangeBatch] = []
        self._waiting: list[_Item] = []
        self._items = 0
        self._claimed_position = 0

    def add(self, batch: ChangeBatch) -> None:
        """Note a batch; the first one, empty, says that the watch is established."""
        if self.established_ns is None:
            self.established_ns = batch.t4_ns
        if batch.changes:
            self.seen += len(batch.changes)
            self._batches.append(batch)

    def take(self) -> list[ChangeBatch]:
        """Take what was added since the last call; to be called on the thread that adds."""
        batches, self._batches = self._batches, []
        return batches

    def record(self, batches: Sequence[ChangeBatch], table: TrialTable, store: T4Store) -> None:
        """
        Store these, and what waited, in order.

        Raises:
            RecordsUnavailableError: some still wait.
        """
        for item in self._pack(batches):
            self._waiting.append(item)
            self._log.add(self._tag, item.request_id, item.t4_ns, item.attributes)
        while self._waiting:
            item = self._waiting[0]
            for place, change in enumerate(item.malformed):
                body = change.value.decode(errors="backslashreplace")
                store.put_malformed(self._store_name, item.t4_ns, item.request_id, place, body)
            store.put(self._tag, item.request_id, item.t4_ns, item.attributes)
            self.recorded_position = item.position
            self._waiting.pop(0)
        if self.recorded_position > self._claimed_position:
            # Unclaimed, the next lane takes up further back and sees some changes again, which does no harm.
            with contextlib.suppress(RecordsUnavailableError):
                table.set_position(self._tag, self.recorded_position)
                self._claimed_position = self.recorded_position

    def lost(self, error: RecordsUnavailableError) -> RecordsUnavailableError:
        """Return the error that says how much could not be stored."""
        entries = sum(item.attributes["n"] for item in self._waiting)
        return RecordsUnavailableError(f"{counted(entries, 'arrival')} of {self.sandbox} could not be stored: {error}")

    def _pack(self, batches: Sequence[ChangeBatch]) -> Iterator[_Item]:
        changes = [(batch.t4_ns, place, change) for batch in batches for place, change in enumerate(batch.changes)]
        largest = max((len(batch.changes) for batch in batches), default=0)
        for first in range(0, len(changes), MAX_ENTRIES):
            yield self._item(changes[first : first + MAX_ENTRIES], largest)

    def _item(self, changes: list[tuple[int, int, Change]], largest: int) -> _Item:
        packed, malformed = self._pack_columns(changes) or self._pack_one_by_one(changes)
        self._items += 1
        attributes = {
            "n": len(changes) - len(malformed),
            "entries": packed,
            "sandbox": self.sandbox,
            "cold": False,
            "init_ns": 0,
            "batch": largest,
            "source": f"watcher#{self._lane}",
            "t3_resolution_ns": 0,
            "ignored": 0,
        }
        first_t4_ns, last_position = changes[0][0], changes[-1][2].position
        return _Item(f"{self.sandbox}-{self._items:06d}", first_t4_ns, attributes, malformed, last_position)

    def _pack_columns(self, changes: list[tuple[int, int, Change]]) -> tuple[bytes, list[Change]] | None:
        """
        Pack entries that are all of this trial; return None where one is not, or they are few.

        Packing has the interpreter while the watch is read, so that what it takes is in latencies.
        """
        if len(changes) <= FEW_ENTRIES:
            return None
        texts = [change.value[:EVENT_ID_CHARS].decode("ascii", "replace") for _, _, change in changes]
        t4_ns, places, _ = zip(*changes, strict=True)
        positions = [change.position for _, _, change in changes]
        index = [min(place, MAX_BATCH_INDEX) for place in places]
        try:
            return pack_columns(self._tag, texts, EntryColumns(index, t4_ns, [0] * len(changes), positions)), []
        except ValueError:
            return None

    def _pack_one_by_one(self, changes: list[tuple[int, int, Change]]) -> tuple[bytes, list[Change]]:
        entries, malformed = [], []
        for t4_ns, place, change in changes:
            event = parse_event_id(change.value[:EVENT_ID_CHARS].decode("ascii", "replace"))
            if event is None or event.tag != self._tag:
                malformed.append(change)
            else:
                fields = (event.phase, event.attempt, event.writer, event.slice, place, event.sequence)
                entries.append(Entry(*fields, t4_ns, 0, change.position))
        return pack(entries), malformed


def read_watches(table: TrialTable, tag: str) -> list[Watch]:
    """Read which watches of a trial have been established, from their signs of life."""
    return [_watch(beat) for beat in table.beats(tag).values() if "established_ns" in beat]


def _watch(beat: dict[str, Any]) -> Watch:
    pauses = tuple((int(from_ns), int(to_ns)) for from_ns, to_ns in beat.get("pauses_ns", ()))
    return Watch(str(beat["sandbox"]), int(beat["established_ns"]), int(beat["at_ns"]), pauses)
