"""
Stored t4 items, read: their packed entries as structured arrays, and what is known of each item, a column each.

The entries of many items are unpacked at once: one by one, each item costs more than it holds.
"""

from __future__ import annotations

import sys
from array import array
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from stepbench.errors import CorruptRecordsError
from stepbench.records.formats.function_runs import FunctionRun, RunColumns, parse_run
from stepbench.records.formats.t4 import (
    ENTRY,
    FUNCTION,
    PUSHED,
    Entry,
    Planes,
    is_planes,
    open_planes,
    split_planes,
    unpack_rows,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

_WATCHER = "watcher"
_EVERY_PLACE = tuple(range(ENTRY.size))
_KINDS = ("u1", "u1", "<u2", "<u2", "<u2", "<u4", "<i8", "<i8", "<i8")
ENTRY_TYPE = np.dtype(list(zip(Entry._fields, _KINDS, strict=True)))
"""`Entry`'s fields, as `ENTRY` lays them out."""


class T4Item(NamedTuple):
    """One stored item, checked. Its entries stay packed, some 4 bytes each, until somebody asks for them."""

    request_id: str
    packed: Planes
    tokens: tuple[str, ...]
    sandbox: str
    cold: bool
    init_ns: int
    batch: int
    source: str
    t3_resolution_ns: int
    ignored: int
    run: FunctionRun | None = None

    @property
    def arrivals(self) -> int:
        """Return how many entries."""
        return self.packed.rows

    @property
    def entries(self) -> NDArray[np.void]:
        """Return a structured array with `Entry`'s fields; `unpack_together` returns those of many items."""
        return unpack_together([self.packed])


def parse_item(item: Mapping[str, Any]) -> T4Item:
    """
    Parse an item that `TrialTable.t4_items` or `decode_fallback` returned.

    Raises:
        CorruptRecordsError: an attribute is missing, or the entries do not match the count.
    """
    key = str(item.get("sk", "without sort key"))
    try:
        packed = _open(bytes(item["entries"]), key)
        tokens = tuple(map(str, item.get("tokens", ())))
        if packed.rows != int(item["n"]) or (tokens and len(tokens) != packed.rows):
            message = f"t4 item {key}: n is {item['n']}, but it has {packed.rows} entries and {len(tokens)} tokens"
            raise CorruptRecordsError(message)
        return T4Item(
            request_id=key.rpartition("#")[0],
            packed=packed,
            tokens=tokens,
            sandbox=sys.intern(str(item["sandbox"])),
            cold=bool(item["cold"]),
            init_ns=int(item["init_ns"]),
            batch=int(item["batch"]),
            source=sys.intern(str(item["source"])),
            t3_resolution_ns=int(item.get("t3_resolution_ns", 0)),
            ignored=int(item.get("ignored", 0)),
            run=parse_run(key, item) if "t5_ns" in item else None,
        )
    except (KeyError, TypeError, ValueError) as error:
        message = f"t4 item {key}: {type(error).__name__}: {error}"
        raise CorruptRecordsError(message) from error


def unpack(packed: bytes, key: str) -> NDArray[np.void]:
    """
    Unpack to a structured array with `Entry`'s fields, shape (n,).

    Raises:
        CorruptRecordsError: the bytes are no entries; names `key`.
    """
    return unpack_together([_open(packed, key)])


def unpack_together(packs: Sequence[Planes]) -> NDArray[np.void]:
    """
    Return the entries of one pack after the other, as a structured array with `Entry`'s fields.

    Packs that stand side by side and have as many entries, and the same planes, are unpacked in one go.
    """
    rows, at = np.empty((sum(pack.rows for pack in packs), ENTRY.size), dtype=np.uint8), 0
    for (count, places), equal_shape in groupby(packs, key=shape_of):
        data = np.frombuffer(b"".join([pack.data for pack in equal_shape]), dtype=np.uint8)
        data = data.reshape(-1, ENTRY.size + len(places) * count)
        own = rows[at : at + len(data) * count].reshape(len(data), count, ENTRY.size)
        own[:] = data[:, np.newaxis, : ENTRY.size]
        for begin, place in enumerate(places):
            first = ENTRY.size + begin * count
            own[:, :, place] = data[:, first : first + count]
        at += len(data) * count
    return rows.view(ENTRY_TYPE).reshape(len(rows))


def shape_of(pack: Planes) -> tuple[int, tuple[int, ...]]:
    """Return what packs that are unpacked in one go have in common; sorted by it, most of them stand side by side."""
    return pack.rows, pack.places


class ItemColumns:
    """
    Columns with some 20 bytes of each t4 item: request, batch, source and cold start, a row in the order of `add`.

    runs: what only invocations of a measured function have; None of a trial without one.


    Request ids are kept as their hash values: of ten million, the odds that any two are equal are 1 in 370,000.
    """

    def __init__(self) -> None:
        self._request, self._batch = array("q"), array("I")
        self._watch = array("H")
        self._cold, self._received = bytearray(), bytearray()
        self.watches: dict[str, int] = {}
        """The number of each watch in `watch`, by its watcher's sandbox."""
        self._cold_init_ns: dict[int, int] = {}
        self.runs: RunColumns | None = None

    def __len__(self) -> int:
        return len(self._request)

    def add(self, items: Sequence[T4Item]) -> None:
        """Add a row for each item."""
        sources = {item.source for item in items}
        if self.runs is None and FUNCTION in sources:
            self.runs = RunColumns(len(self))
        if self.runs is not None:
            self.runs.add([item.run for item in items], [item.init_ns for item in items])
        self._request.extend([hash(item.request_id) for item in items])
        self._batch.extend([item.batch for item in items])
        self._cold.extend([item.cold for item in items])
        if sources <= PUSHED:
            self._watch.frombytes(bytes(2 * len(items)))
            self._received.extend(b"\1" * len(items))
        else:
            watches = [self._number(item.sandbox) if item.source.startswith(_WATCHER) else 0 for item in items]
            self._watch.extend(watches)
            self._received.extend([item.source in PUSHED for item in items])
        received = (item for item in items if item.cold and item.source in PUSHED)
        self._cold_init_ns.update((hash(item.request_id), item.init_ns) for item in received)

    @property
    def request(self) -> NDArray[np.int64]:
        """Return a number for each item's request id."""
        return np.frombuffer(self._request, dtype=np.int64)

    @property
    def batch(self) -> NDArray[np.uint32]:
        """Return how many records were delivered together."""
        return np.frombuffer(self._batch, dtype=np.uint32)

    @property
    def cold(self) -> NDArray[np.bool_]:
        """Return whether it was a sandbox's first invocation."""
        return np.frombuffer(self._cold, dtype=np.bool_)

    @property
    def watch(self) -> NDArray[np.uint16]:
        """Return the number of the watch that saw it; 0 where it was pushed."""
        return np.frombuffer(self._watch, dtype=np.uint16)

    @property
    def all_received(self) -> bool:
        """Return whether triggers that push brought all of them."""
        return bool(np.frombuffer(self._received, dtype=np.bool_).all())

    def invocations(self) -> RequestSet:
        """Return the request ids of invocations by push triggers, each once."""
        received = np.frombuffer(self._received, dtype=np.bool_)
        return RequestSet(np.unique(self.request[received]))

    @property
    def tries(self) -> int:
        """Return how many invocations by push triggers left an item; each try of a request counts."""
        return int(np.count_nonzero(np.frombuffer(self._received, dtype=np.bool_)))

    def cold_init_ns(self) -> dict[int, int]:
        """Return how long each cold start of what a trigger invoked took, by the hash of its request id."""
        return self._cold_init_ns

    def _number(self, sandbox: str) -> int:
        return self.watches.setdefault(sandbox, len(self.watches) + 1)


class RequestSet:
    """A set of request ids, by their hash values."""

    def __init__(self, ascending: NDArray[np.int64]) -> None:
        self._ascending = ascending

    def __len__(self) -> int:
        return self._ascending.size

    def __contains__(self, request_id: object) -> bool:
        place = int(np.searchsorted(self._ascending, hash(request_id)))
        return place < self._ascending.size and bool(self._ascending[place] == hash(request_id))


def _open(packed: bytes, key: str) -> Planes:
    """Return the entries as planes, however they are packed. Raises CorruptRecordsError as `unpack_rows` does."""
    if is_planes(packed):
        return open_planes(packed, key)
    rows = unpack_rows(packed, key)
    if len(rows) == ENTRY.size:
        return Planes(1, (), rows)
    first = rows[: ENTRY.size] or bytes(ENTRY.size)
    return Planes(len(rows) // ENTRY.size, _EVERY_PLACE, b"".join([first, *split_planes(rows)]))
