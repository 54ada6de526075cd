"""
Which files a dataset has, of which days and of whose runs: by their keys alone.

Apart from `transfer_datasets`, so that who only looks for names needs no Arrow.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import date
from typing import TYPE_CHECKING, NamedTuple, Protocol

from stepbench.records.storage import layout

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

READ_AT_ONCE = 16
"""A file a trial is small: its time is that of the way to the bucket."""


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

    names = tuple(objects.folders(layout.DATASETS))
    with ThreadPoolExecutor(READ_AT_ONCE) as threads:
        return tuple(name for name, has in zip(names, threads.map(has_any, names), strict=True) if has)


def dataset_keys(name: str, objects: Objects, teams: Iterable[str] | None = None) -> tuple[str, ...]:
    """Return the keys of a dataset's files by days; with teams, of theirs alone: no other team's are even listed."""
    prefixes = [layout.dataset_prefix(name, team) for team in ([""] if teams is None else sorted(set(teams)))]
    keys = (key for prefix in prefixes for key in objects.keys(prefix) if layout.dataset_day(key))
    return tuple(sorted(keys, key=lambda key: (layout.dataset_day(key), key)))
