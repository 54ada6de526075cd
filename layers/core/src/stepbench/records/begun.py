"""
Which operations closed-loop clients began: the schedule of a load that has none, from what is left of it. Pure.

A writer's last sign of life says how many it had begun; its rows may say more. Of an attempt that ended in good order
with all its files there is a row for each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepbench.load.arrivals import SLICE_NS
from stepbench.records.attempts import Attempts, attempt_of
from stepbench.records.layout import attempt_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from stepbench.contracts.plan import TrialPlan
    from stepbench.records.columns import ColumnFile
    from stepbench.records.grid import Begun

_WRITER = "writer#"


class _Due(NamedTuple):
    """Of one file's rows what is needed here."""

    sequence: NDArray[np.int64]
    t0_ns: NDArray[np.int64]


def begun_by_beats(beats: Mapping[str, Mapping[str, object]]) -> dict[str, int]:
    """How many operations each attempt of a writer had begun at its last sign of life, by the attempt's id."""
    begun = {}
    for who, beat in beats.items():
        progress = beat.get("progress")
        if who.startswith(_WRITER) and isinstance(progress, dict):
            begun[who.removeprefix(_WRITER)] = int(progress.get("planned", 0))
    return begun


def begun_operations(
    plan: TrialPlan, starts_ns: Mapping[int, int], files: Iterable[ColumnFile], begun: Mapping[str, int]
) -> Begun:
    """
    When each operation of closed loop was due.

    What has no row is taken to have been due with the one before it, or else at its slice's beginning.

    Args:
        plan: the trial's.
        starts_ns: phase to its time zero, for the phases that were planned.
        files: all column files, in any order; gone through once.
        begun: operations by attempt, as far as is known; of an attempt that ended in good order its rows say it all.
    """
    attempts, by_attempt = Attempts(), {attempt: list[_Due]() for attempt in begun}
    for file in files:
        attempts.add(file.header)
        if plan.phases[file.header.phase].closed is not None:
            by_attempt.setdefault(attempt_of(file.header), []).append(_Due(file.rows.sequence, file.rows.t0_ns))
    whole = attempts.whole()
    operations: dict[tuple[int, int, int], dict[int, NDArray[np.int64]]] = {}
    for attempt in sorted(by_attempt):
        phase, writer, slice_, number = attempt_names(attempt)
        if phase not in starts_ns or plan.phases[phase].closed is None:
            continue
        count = 0 if attempt in whole else begun.get(attempt, 0)
        due_ns = _due_ns(by_attempt.pop(attempt), count, starts_ns[phase] + slice_ * SLICE_NS)
        operations.setdefault((phase, writer, slice_), {})[number] = due_ns
    return operations


def _due_ns(rows: Sequence[_Due], begun: int, slice_start_ns: int) -> NDArray[np.int64]:
    count = max([begun, *(int(each.sequence.max(initial=-1)) + 1 for each in rows)])
    due_ns = np.full(count, slice_start_ns, dtype=np.int64)
    known = np.zeros(count, dtype=np.int64)
    for each in rows:
        due_ns[each.sequence] = each.t0_ns
        known[each.sequence] = each.sequence
    filled: NDArray[np.int64] = due_ns[np.maximum.accumulate(known)]
    return filled
