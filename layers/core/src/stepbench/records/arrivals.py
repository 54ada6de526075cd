"""The receivers' side of the join: all t4 entries of a trial as columns, tokens resolved, repeats told apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stepbench.contracts.identity import ANY_ATTEMPT, CANARY_PHASE, UNRESOLVED_PHASE
from stepbench.records.t4 import unpack

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from stepbench.records.columns import ColumnFile
    from stepbench.records.grid import Grid
    from stepbench.records.t4 import T4Item

_WATCHER = "watcher"


@dataclass(frozen=True)
class Arrivals:
    """
    Columns of all arrivals but canaries; shape (arrivals,).

    event: number in the grid, -1 = none. by_token: found by the store's token, or by a key that was there before any
    attempt, so `attempt` is the writer's word.
    item, request: which item, and a number for its request id. watched: seen by a watcher, at `position` (0 = none).
    """

    event: NDArray[np.int64]
    attempt: NDArray[np.uint8]
    t4_ns: NDArray[np.int64]
    t3_ns: NDArray[np.int64]
    position: NDArray[np.int64]
    batch_index: NDArray[np.int64]
    by_token: NDArray[np.bool_]
    item: NDArray[np.int64]
    request: NDArray[np.int64]
    batch: NDArray[np.int64]
    cold: NDArray[np.int64]
    watched: NDArray[np.bool_]
    canaries: int

    def select(self, index: NDArray[np.int64]) -> Arrivals:
        """Some of them; the number of canaries stays."""
        columns = {name: column[index] for name, column in vars(self).items() if name != "canaries"}
        return Arrivals(**columns, canaries=self.canaries)


def collect(grid: Grid, items: Iterable[T4Item], files: Sequence[ColumnFile]) -> Arrivals:
    """Unpacked items as columns."""
    kept = list(items)
    entries = np.concatenate([unpack(b"", "none"), *(each.entries for each in kept)])
    item = np.repeat(np.arange(len(kept)), [each.entries.size for each in kept]).astype(np.int64)
    event = grid.locate(entries)
    by_token = entries["phase"] == UNRESOLVED_PHASE
    if by_token.any():
        tokens = np.array(
            [token for each in kept for token in (each.tokens or ("",) * each.entries.size)], dtype=object
        )
        known = _events_by_token(grid, files)
        event[by_token] = [known.get(token, -1) for token in tokens[by_token]]
    canary = entries["phase"] == CANARY_PHASE
    requests: dict[str, int] = {}
    request = np.array([requests.setdefault(each.request_id, len(requests)) for each in kept], dtype=np.int64)
    columns = Arrivals(
        event=event,
        attempt=entries["attempt"],
        t4_ns=entries["t4_ns"].astype(np.int64),
        t3_ns=entries["t3_ns"].astype(np.int64),
        position=entries["position"].astype(np.int64),
        batch_index=entries["batch_index"].astype(np.int64),
        by_token=by_token | (entries["attempt"] == ANY_ATTEMPT),
        item=item,
        request=request[item],
        batch=np.array([each.batch for each in kept], dtype=np.int64)[item],
        cold=np.array([each.cold for each in kept], dtype=np.int64)[item],
        watched=np.array([each.source.startswith(_WATCHER) for each in kept], dtype=np.bool_)[item],
        canaries=int(np.count_nonzero(canary)),
    )
    return columns.select(np.nonzero(~canary)[0])


def count_repeats(
    events: int, arrivals: Arrivals, first: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """
    Per event, how often it arrived, and how many of those arrivals are Lambda's retries.

    Args:
        events: how many there are.
        arrivals: of known events only.
        first: per event, the index of its first arrival, or -1.
    """
    counts = np.bincount(arrivals.event, minlength=events)
    retried = np.zeros(events, np.int64)
    some = np.nonzero(counts[arrivals.event] > 1)[0] if arrivals.event.size else np.empty(0, np.int64)
    if some.size == 0:
        return counts, retried
    some = some[np.lexsort((some != first[arrivals.event[some]], arrivals.t4_ns[some], arrivals.event[some]))]
    again = arrivals.watched[some] & (arrivals.position[some] != 0) & _repeated(arrivals, some, arrivals.position)
    np.subtract.at(counts, arrivals.event[some[again]], 1)
    some = some[~again]
    retry = _repeated(arrivals, some, arrivals.request) & (_of_first(arrivals, some) != arrivals.item[some])
    np.add.at(retried, arrivals.event[some[retry]], 1)
    return counts, retried


def _events_by_token(grid: Grid, files: Sequence[ColumnFile]) -> dict[str, int]:
    known = {}
    for head, rows in files:
        slot = grid.slot(head.phase, head.writer, head.slice)
        if slot >= 0 and rows.tokens:
            events = (grid.span(slot, head.attempt)[0] + rows.sequence).tolist()
            known.update({token: event for token, event in zip(rows.tokens, events, strict=True) if token})
    return known


def _group_starts(arrivals: Arrivals, some: NDArray[np.int64], name: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each of `some` (in order of event and time): the place in `some` of the first with its event and name."""
    pairs = np.stack([arrivals.event[some], name[some]])
    _, where, group = np.unique(pairs, axis=1, return_index=True, return_inverse=True)
    starts: NDArray[np.int64] = where[group.reshape(-1)]
    return starts


def _repeated(arrivals: Arrivals, some: NDArray[np.int64], name: NDArray[np.int64]) -> NDArray[np.bool_]:
    repeated: NDArray[np.bool_] = np.not_equal(_group_starts(arrivals, some, name), np.arange(some.size))
    return repeated


def _of_first(arrivals: Arrivals, some: NDArray[np.int64]) -> NDArray[np.int64]:
    return arrivals.item[some[_group_starts(arrivals, some, arrivals.request)]]
