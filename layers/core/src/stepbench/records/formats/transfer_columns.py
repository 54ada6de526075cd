"""
Reads of files in memory: one array a field of `TransferRow`, one entry a read.

What a row does not say is `UNTOLD` in columns of integers and nan in those of floats, so that rows of others, which
know neither sandbox nor first byte, are columns like ours.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple, Self, get_args

import numpy as np

from stepbench.contracts.transfer.plan import PLATFORMS, SOURCES
from stepbench.contracts.transfer.rows import TransferOutcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from stepbench.contracts.transfer.rows import TransferRow

    Integers = NDArray[np.int64]

UNTOLD = -1
OUTCOMES: tuple[TransferOutcome, ...] = get_args(TransferOutcome)
OK, FAILED, UNKNOWN = range(len(OUTCOMES))
CODED: dict[str, tuple[str, ...]] = {"platform": PLATFORMS, "source": SOURCES, "outcome": OUTCOMES}


class Texts(NamedTuple):
    """They are one text a read: `codes`, shape (n,), are places in `table`, which holds each text once."""

    codes: Integers
    table: tuple[str, ...]

    @classmethod
    def of(cls, texts: Sequence[str]) -> Texts:
        """Return texts as codes, the table in order of first appearance."""
        places: dict[str, int] = {}
        codes = [places.setdefault(text, len(places)) for text in texts]
        return cls(np.array(codes, np.int64), tuple(places))

    def take(self, chosen: NDArray[Any]) -> Texts:
        """Return those of some reads, with the table as it is."""
        return Texts(self.codes[chosen], self.table)


@dataclass(frozen=True)
class TransferColumns:
    """
    All reads of a trial, or of a dataset over a span.

    Arrays are of shape (n,), int64 unless said otherwise; names and units are those of `TransferRow`. platform, source
    and outcome are places in PLATFORMS, SOURCES and OUTCOMES. digest_ok and cold are 1, 0 or UNTOLD. cpu_ns,
    digest_ns and memory_bytes, which a row says nothing of with 0, are UNTOLD then. mib_ns holds the times of all reads
    one after the other; those of read i lie at mib_offsets[i] to mib_offsets[i + 1], so mib_offsets is (n + 1,).
    """

    trial: Integers
    number: Integers
    attempt: Integers
    place: Integers
    due_at_ns: Integers
    began_at_ns: Integers
    platform: Integers
    source: Integers
    file_bytes: Integers
    received_bytes: Integers
    connect_ns: Integers
    first_byte_ns: Integers
    transfer_ns: Integers
    digest_ok: Integers
    digest_ns: Integers
    cpu_ns: Integers
    served: Integers
    cold: Integers
    cached_share: NDArray[np.float64]
    memory_bytes: Integers
    outcome: Integers
    run_id: Texts
    path: Texts
    sandbox: Texts
    task: Texts
    zone: Texts
    network_interface: Texts
    error: Texts
    mib_ns: Integers
    mib_offsets: Integers

    @classmethod
    def of(cls, rows: Iterable[TransferRow]) -> Self:
        """Return rows as columns, in their order."""
        listed = list(rows)
        columns: dict[str, Any] = {name: _column(name, [getattr(row, name) for row in listed]) for name in ROW_FIELDS}
        marks = [row.mib_ns for row in listed]
        columns["mib_ns"] = np.array([mark for row in marks for mark in row], np.int64)
        columns["mib_offsets"] = np.cumsum([0, *map(len, marks)], dtype=np.int64)
        return cls(**columns)

    @property
    def size(self) -> int:
        """Return how many reads there are."""
        return self.began_at_ns.size

    def take(self, chosen: NDArray[Any]) -> Self:
        """Return some reads, by a mask of shape (n,) or by their places, in this order."""
        places = np.arange(self.size)[chosen]
        starts, lengths = self.mib_offsets[places], np.diff(self.mib_offsets)[places]
        offsets = np.cumsum(np.concatenate([[0], lengths]), dtype=np.int64)
        columns: dict[str, Any] = {
            name: column.take(places) if isinstance(column := getattr(self, name), Texts) else column[places]
            for name in ROW_FIELDS
        }
        marks = self.mib_ns[np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])]
        return type(self)(**columns, mib_ns=marks, mib_offsets=offsets)

    def marks(self, read: int) -> Integers:
        """Return when each whole MiB of one read was there, ns since its start; empty where it is untold."""
        return self.mib_ns[self.mib_offsets[read] : self.mib_offsets[read + 1]]


TEXT_FIELDS = ("run_id", "path", "sandbox", "task", "zone", "network_interface", "error")
ROW_FIELDS = tuple(field.name for field in fields(TransferColumns) if not field.name.startswith("mib_"))
"""Columns with one entry a read, which are all but the times of MiB."""
ZERO_IS_UNTOLD = ("digest_ns", "cpu_ns", "memory_bytes")


def _column(name: str, values: list[Any]) -> Any:  # noqa: ANN401 -- texts, integers or floats
    if name in TEXT_FIELDS:
        return Texts.of(values)
    if name == "cached_share":
        return np.array([np.nan if value is None else value for value in values], np.float64)
    if name in CODED:
        return np.array([CODED[name].index(value) for value in values], np.int64)
    found = np.array([UNTOLD if value is None else value for value in values], np.int64)
    if name in ZERO_IS_UNTOLD:
        found[found == 0] = UNTOLD
    return found
