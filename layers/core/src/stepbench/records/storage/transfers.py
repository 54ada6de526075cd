"""
Transfers as they are stored: rows that processes left, their lines in the log, and the files of datasets by key.

Apart from `transfer_datasets`, so that who only looks for names needs no Arrow.
"""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pydantic import TypeAdapter

from stepbench.contracts.transfer.plan import PublishedTransfer
from stepbench.contracts.transfer.rows import TransferRow, TransferRows
from stepbench.records.formats.second_sources import parse_transfer_line
from stepbench.records.storage import layout
from stepbench.records.storage.run_store import read_ahead, read_log_lines

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from stepbench.contracts.plan import TrialRef
    from stepbench.records.storage.run_store import RunStore


def read_transfers(ref: TrialRef, runs: RunStore) -> tuple[TransferRow, ...]:
    """
    Return the rows of a trial, of all attempts, by process, attempt and place.

    Raises:
        RecordsUnavailableError: the bucket does not answer.
    """
    keys = runs.keys(layout.transfers_prefix(ref))
    return tuple(row for key in keys for row in runs.get_model(key, TransferRows).rows)


def read_logged_transfers(ref: TrialRef, runs: RunStore) -> tuple[dict[str, TransferRow], tuple[str, ...]]:
    """
    Return the trial's lines by the reads' names, and a message for each line that is cut or garbled.

    Raises:
        RecordsUnavailableError: the bucket does not answer.
    """
    lines, damaged = read_log_lines(ref, runs, parse_transfer_line)
    return {row.name: row for tag, row in lines if tag == ref.tag}, damaged


def logged_reads(ref: TrialRef, runs: RunStore) -> set[str]:
    """Return the names of the reads of which there is a line."""
    return set(read_logged_transfers(ref, runs)[0])


def first_attempts(rows: tuple[TransferRow, ...]) -> tuple[tuple[TransferRow, ...], int]:
    """
    Return the rows of each process's first attempt that left any, and how many rows other attempts left.

    An attempt may have stored its rows and died before it said so; it is run again then, and read the file twice.
    """
    first: dict[int, int] = {}
    for row in rows:
        first[row.number] = min(row.attempt, first.get(row.number, row.attempt))
    counted = tuple(row for row in rows if row.attempt == first[row.number])
    return counted, len(rows) - len(counted)


class Objects(Protocol):
    """It stores files by key, which is all a dataset needs of a bucket: a `RunStore`, or a folder of this machine."""

    def put_bytes(self, key: str, body: bytes) -> None:
        """Store a file whole, or not at all."""

    def get_bytes(self, key: str) -> bytes:
        """Return a file's content."""
        ...

    def keys(self, prefix: str) -> Iterator[str]:
        """Yield all keys under a prefix, in order."""
        ...

    def folders(self, prefix: str) -> Iterator[str]:
        """Yield the names of the folders right below a prefix that is one, and that hold anything, in order."""
        ...


_PUBLISHED = TypeAdapter(tuple[PublishedTransfer, ...])


def put_published(name: str, team: str, published: tuple[PublishedTransfer, ...], objects: Objects) -> None:
    """
    Store the published numbers of the plan that adds a team's rows to a dataset, in place of an earlier plan's.

    Those stay where the plan has none.

    Raises:
        RecordsUnavailableError: the bucket does not answer.
    """
    if published:
        objects.put_bytes(layout.dataset_published_key(name, team), _PUBLISHED.dump_json(published))


def published_keys(name: str, objects: Objects, teams: Iterable[str] | None = None) -> tuple[str, ...]:
    """Return the keys of the published numbers beside a dataset, one a team at most; with teams, of theirs alone."""
    folders = map(layout.dataset_team, objects.folders(layout.dataset_prefix(name))) if teams is None else teams
    found = (objects.keys(layout.dataset_published_key(name, team)) for team in sorted(set(folders) - {""}))
    return tuple(key for keys in found for key in keys)


def read_published(name: str, objects: Objects, teams: Iterable[str] | None = None) -> tuple[PublishedTransfer, ...]:
    """
    Return the numbers that plans have published beside a dataset, each once; with teams, of theirs alone.

    Raises:
        RecordsUnavailableError: the bucket does not answer.
    """
    files = (objects.get_bytes(key) for key in published_keys(name, objects, teams))
    numbers = [each for file in files for each in _PUBLISHED.validate_json(file)]
    return tuple({each.model_dump_json(): each for each in numbers}.values())


class Span(NamedTuple):
    """Days of UTC, from the first to before the last; None: as far as there are any."""

    first: date | None = None
    end: date | None = None

    def holds(self, day: date) -> bool:
        """Return whether a day is one of them."""
        return (self.first is None or self.first <= day) and (self.end is None or day < self.end)

    @property
    def words(self) -> str:
        """Return which days they are; empty for all."""
        begin = f"from {self.first}" if self.first else ""
        end = f"before {self.end}" if self.end else ""
        return " and ".join(filter(None, (begin, end)))

    def choose(self, keys: Iterable[str]) -> tuple[str, ...]:
        """Return those of a dataset's files that are of these days."""
        return tuple(key for key in keys if self.holds(date.fromisoformat(layout.dataset_day(key))))


def dataset_names(objects: Objects, teams: Collection[str] | None = None) -> tuple[str, ...]:
    """Return the names of all datasets; with teams, of those to which a run of one of them has added rows."""

    def has_any(name: str) -> bool:
        found = {layout.dataset_team(folder) for folder in objects.folders(layout.dataset_prefix(name))} - {""}
        return bool(found if teams is None else found.intersection(teams))

    return tuple(name for name, has in read_ahead(tuple(objects.folders(layout.DATASETS)), has_any) if has)


def dataset_keys(name: str, objects: Objects, teams: Iterable[str] | None = None) -> tuple[str, ...]:
    """Return the keys of a dataset's files by days; with teams, of theirs alone: no other team's are even listed."""
    prefixes = [layout.dataset_prefix(name, team) for team in ([""] if teams is None else sorted(set(teams)))]
    keys = (key for prefix in prefixes for key in objects.keys(prefix) if layout.dataset_day(key))
    return tuple(sorted(keys, key=lambda key: (layout.dataset_day(key), key)))
