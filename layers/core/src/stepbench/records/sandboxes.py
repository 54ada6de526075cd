"""Which events were received by the very sandbox that wrote them, by its id on both sides."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from stepbench.records.columns import ColumnFile
    from stepbench.records.join import Joined
    from stepbench.records.t4 import T4Item


def same_sandbox(files: Sequence[ColumnFile], items: Iterable[T4Item], joined: Joined) -> NDArray[np.bool_] | None:
    """
    Per event; False also for what never arrived. None where no writer told a sandbox.

    Args:
        files: whose tokens name the sandbox that wrote: of a target with `same_sandbox`.
        items: whose sandbox received.
        joined: which attempt's row and which arrival stand for an event.
    """
    if not any(file.rows.tokens for file in files):
        return None
    wrote = _writers(files, joined)
    received = _receivers(items, joined)
    return np.array([bool(name) and name == other for name, other in zip(wrote, received, strict=True)], dtype=np.bool_)


def _writers(files: Sequence[ColumnFile], joined: Joined) -> list[str]:
    found = [""] * joined.grid.events
    for head, rows in files:
        slot = joined.grid.slot(head.phase, head.writer, head.slice)
        if slot < 0 or not rows.tokens:
            continue
        events = (joined.grid.base[slot] + rows.sequence).tolist()
        for event, token in zip(events, rows.tokens, strict=True):
            if joined.attempt[event] == head.attempt:
                found[event] = token
    return found


def _receivers(items: Iterable[T4Item], joined: Joined) -> list[str]:
    found = [""] * joined.grid.events
    for item in items:
        events = joined.grid.locate(item.entries)
        for event, t4_ns in zip(events.tolist(), item.entries["t4_ns"].tolist(), strict=True):
            if event >= 0 and t4_ns == joined.t4_ns[event]:
                found[event] = item.sandbox
    return found
