"""A trial's column files and t4 items, one after the other: from bucket and table, some of them read ahead."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from stepbench.contracts.target import DynamoDbTarget
from stepbench.errors import CorruptRecordsError
from stepbench.records.formats.columns import ColumnFile, ColumnHeader, decode
from stepbench.records.formats.t4 import decode_fallback
from stepbench.records.formats.t4_items import ItemColumns, T4Item, parse_item
from stepbench.records.storage import layout
from stepbench.records.storage.run_store import read_ahead

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stepbench.contracts.plan import TrialRef, TrialSpec
    from stepbench.records.storage.run_store import RunStore
    from stepbench.records.storage.trial_table import TrialTable


class FileNote(NamedTuple):
    """A column file without its rows. last_sequence: the largest, -1 without rows."""

    header: ColumnHeader
    last_t2_ns: int
    last_sequence: int


@dataclass
class RetainedRecords:
    """Whole files and items: of trials that compare sandboxes, or the results table with the log."""

    keep_files: bool
    keep_items: bool
    files: list[ColumnFile] = field(default_factory=list)
    items: list[T4Item] = field(default_factory=list)

    @classmethod
    def of(cls, spec: TrialSpec) -> RetainedRecords:
        """Return an empty collection of what this trial's analysis will need whole."""
        target = spec.offered.target
        same_sandbox = isinstance(target, DynamoDbTarget) and target.same_sandbox
        return cls(keep_files=same_sandbox, keep_items=same_sandbox or spec.offered.log_t4 != "none")


class StoredFiles:
    """
    Column files by attempt and flush; each pass reads them anew, so that none is kept.

    Those of invocations are in the table, but for such as it did not take.

    notes, damaged: by key, of those that decode and messages about the others.
    """

    def __init__(
        self, ref: TrialRef, runs: RunStore, retained: RetainedRecords, table: TrialTable | None = None
    ) -> None:
        """`table`: of a trial with invocations; the others' files are all in the bucket."""
        self._ref, self._runs, self._retained, self._table = ref, runs, retained, table
        self.notes: dict[str, FileNote] = {}
        self.damaged: dict[str, str] = {}

    def __iter__(self) -> Iterator[ColumnFile]:
        for key, body in self._bodies():
            try:
                file = decode(key, body)
            except CorruptRecordsError as error:
                self.damaged[key] = str(error)
                continue
            if key not in self.notes:
                rows = file.rows
                self.notes[key] = FileNote(file.header, rows.last_t2_ns, int(rows.sequence.max(initial=-1)))
                if self._retained.keep_files:
                    self._retained.files.append(file)
            yield file

    def _bodies(self) -> Iterator[tuple[str, bytes]]:
        kept = set[str]()
        for key, body in self._table.kept_files(self._ref.tag) if self._table is not None else ():
            kept.add(key)
            yield key, body
        yield from (found for found in _bodies(self._ref, self._runs, "") if found[0] not in kept)


class StoredItems:
    """
    T4 items of the table, then those that went to the bucket because the table was down. For one pass.

    notes: filled by whoever takes them. in_fallback: how many were in the bucket only; known at the end.
    """

    def __init__(self, ref: TrialRef, runs: RunStore, table: TrialTable, retained: RetainedRecords) -> None:
        self._ref, self._runs, self._table, self._retained = ref, runs, table, retained
        self.notes = ItemColumns()
        self.in_fallback = 0
        self.damaged: list[str] = []

    def __iter__(self) -> Iterator[T4Item]:
        fallback = {_identity(item): item for item in self._fallback()}
        for stored in self._table.t4_items(self._ref.tag):
            item = self._parse(stored)
            if item is not None:
                if fallback:
                    # An item can be in both places: the table took it, and the answer was lost.
                    fallback.pop(_identity(item), None)
                yield self._retain(item)
        for item in fallback.values():
            self.in_fallback += 1
            yield self._retain(item)

    def _retain(self, item: T4Item) -> T4Item:
        if self._retained.keep_items:
            self._retained.items.append(item)
        return item

    def _fallback(self) -> Iterator[T4Item]:
        for key in self._runs.keys(layout.t4_fallback_prefix(self._ref.tag)):
            try:
                yield parse_item(decode_fallback(key, self._runs.get_bytes(key)))
            except CorruptRecordsError as error:
                self.damaged.append(str(error))

    def _parse(self, item: Mapping[str, Any]) -> T4Item | None:
        try:
            return parse_item(item)
        except CorruptRecordsError as error:
            self.damaged.append(str(error))
            return None


def phase_files(ref: TrialRef, phase: int, runs: RunStore) -> Iterator[ColumnFile]:
    """Read a phase's column files, one at a time; those that do not decode are left out."""
    for key, body in _bodies(ref, runs, layout.phase_attempts(phase)):
        try:
            yield decode(key, body)
        except CorruptRecordsError:
            continue


def _identity(item: T4Item) -> tuple[str, bytes]:
    return item.request_id, item.entries.tobytes()


def _bodies(ref: TrialRef, runs: RunStore, attempts: str) -> Iterator[tuple[str, bytes]]:
    return read_ahead(list(runs.keys(layout.trial_key(ref, f"writers/{attempts}"))), runs.get_bytes)
