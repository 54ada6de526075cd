"""The queue of runs, as pure functions of its entries: who waits for whom, and for how long."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from stepbench.contracts.runs import QueueEntry


def ahead_of(entry: QueueEntry, entries: Iterable[QueueEntry]) -> tuple[QueueEntry, ...]:
    """Return the runs that a waiting one waits for, in the order in which they go: those that run come first."""
    if entry.admitted_at:
        return ()
    entries = list(entries)
    found = [each for each in entries if each.admitted_at]
    found += [each for each in _waiting(entries) if each.order < entry.order]
    return tuple(each for each in found if not set(each.targets).isdisjoint(entry.targets))


def expected_starts(entries: Iterable[QueueEntry], now: datetime) -> dict[str, datetime]:
    """Return when each waiting run should have its turn, by run id; a run that is late is expected to end now."""
    entries = list(entries)
    free_at: dict[str, datetime] = {}
    for entry in entries:
        if entry.admitted_at:
            ends_at = max(now, entry.admitted_at + timedelta(seconds=entry.expected_s))
            free_at.update(dict.fromkeys(entry.targets, ends_at))
    starts = {}
    for entry in _waiting(entries):
        starts[entry.run_id] = start = max([now, *(free_at.get(target, now) for target in entry.targets)])
        free_at.update(dict.fromkeys(entry.targets, start + timedelta(seconds=entry.expected_s)))
    return starts


def _waiting(entries: Iterable[QueueEntry]) -> list[QueueEntry]:
    return sorted((entry for entry in entries if not entry.admitted_at), key=lambda entry: entry.order)
