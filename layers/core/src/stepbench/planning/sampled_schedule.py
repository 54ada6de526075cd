"""What of a plan's schedule only NumPy's random numbers tell; `planning.schedule` asks it where NumPy is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepbench.workload.arrivals import phase_offsets_ns, slice_cuts, think_times_ns
from stepbench.workload.payloads import matching

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepbench.contracts.phase import Window
    from stepbench.contracts.plan import TrialPlan
    from stepbench.contracts.workload import ClosedLoad

_SECOND_NS = 1_000_000_000


def windows_without(plan: TrialPlan, phase: int, windows: Sequence[Window]) -> list[Window]:
    """Return the windows in which no writer has an event due that passes the filter."""
    left = list(windows)
    for writer in range(plan.writers):
        if not left:
            break
        due_ns = _passing_ns(plan, phase, writer)
        left = [window for window in left if not _count(due_ns, window)]
    return left


def _passing_ns(plan: TrialPlan, phase: int, writer: int) -> NDArray[np.int64]:
    due_ns = phase_offsets_ns(plan, phase, writer)
    if plan.record.matching_share == 1:
        return due_ns
    cuts = slice_cuts(plan, phase, due_ns)
    sequence = np.arange(due_ns.size) - np.repeat(cuts[:-1], np.diff(cuts))
    return due_ns[matching(plan.record.matching_share, sequence)]


def _count(due_ns: NDArray[np.int64], window: Window) -> int:
    ends_ns = [round(end_s * _SECOND_NS) for end_s in (window.from_s, window.to_s)]
    first, last = np.searchsorted(due_ns, ends_ns)
    return int(last - first)


def first_client_ns(plan: TrialPlan, phase: int, load: ClosedLoad) -> int:
    """Return when the first client of a closed-loop phase begins, in ns from the phase's start."""
    seeds = ((plan.seed, phase, 0, 0, client) for client in range(load.clients))
    return min(next(think_times_ns(load.think_ms / 1e3, load.think, seed)) for seed in seeds)
