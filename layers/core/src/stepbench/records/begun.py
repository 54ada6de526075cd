"""
Which operations closed-loop clients began: the schedule of a load that has none, from what is left of it. Pure.

A writer's last sign of life says how many it had begun; its rows may say more. Of an attempt that ended in good order
with all its files there is a row for each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepbench.load.arrivals import SLICE_NS
from stepbench.records.layout import attempt_id, attempt_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from stepbench.contracts.plan import TrialPlan
    from stepbench.records.columns import ColumnFile
    from stepbench.records.grid import Begun

_WRITER = "writer#"


def begun_by_beats(beats: Mapping[str, Mapping[str, object]]) -> dict[str, int]:
    """How many operations each attempt of a writer had begun at its last sign of life, by the attempt's id."""
    begun = {}
    for who, beat in beats.items():
        progress = beat.get("progress")
        if who.startswith(_WRITER) and isinstance(progress, dict):
            begun[who.removeprefix(_WRITER)] = int(progress.get("planned", 0))
    return begun


def begun_operations(
    plan: TrialPlan, starts_ns: Mapping[int, int], files: Sequence[ColumnFile], begun: Mapping[str, int]
) -> Begun:
    """
    When each operation of closed loop was due.

    What has no row is taken to have been due with the one before it, or else at its slice's beginning.

    Args:
        plan: the trial's.
        starts_ns: phase to its time zero, for the phases that were planned.
        files: all column files, in any order.
        begun: operations by attempt, of attempts that may have begun more than they recorded.
    """
    by_attempt: dict[str, list[ColumnFile]] = {attempt: [] for attempt in begun}
    for file in files:
        head = file.header
        by_attempt.setdefault(attempt_id(head.phase, head.writer, head.slice, head.attempt), []).append(file)
    operations: dict[tuple[int, int, int], dict[int, NDArray[np.int64]]] = {}
    for attempt, own in by_attempt.items():
        phase, writer, slice_, number = attempt_names(attempt)
        if phase not in starts_ns or plan.phases[phase].closed is None:
            continue
        due_ns = _due_ns(own, begun.get(attempt, 0), starts_ns[phase] + slice_ * SLICE_NS)
        operations.setdefault((phase, writer, slice_), {})[number] = due_ns
    return operations


def _due_ns(files: Sequence[ColumnFile], begun: int, slice_start_ns: int) -> NDArray[np.int64]:
    count = max([begun, *(int(file.rows.sequence.max(initial=-1)) + 1 for file in files)])
    due_ns = np.full(count, slice_start_ns, dtype=np.int64)
    known = np.zeros(count, dtype=np.int64)
    for file in files:
        due_ns[file.rows.sequence] = file.rows.t0_ns
        known[file.rows.sequence] = file.rows.sequence
    filled: NDArray[np.int64] = due_ns[np.maximum.accumulate(known)]
    return filled
