"""Decisions to configure a store anew, on the trial's time axis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.contracts.dataflow.chart_data import TuningMark

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from stepbench.contracts.tuned import TuningStep

NS_PER_S = 1_000_000_000


def tuning_marks(steps: Iterable[TuningStep], zero_ns: int) -> Iterator[TuningMark]:
    """Yield a mark for each decision; `zero_ns`: the trial's first t0."""
    for step in steps:
        decision, done = step.decision, step.done
        yield TuningMark(
            second=(decision.decided_ns - zero_ns) / NS_PER_S,
            phase=decision.phase,
            reconfigured=step.reconfigured,
            outage_s=done.away_s if done is not None else 0,
            text=f"changed: {', '.join(done.changed)}" if done is not None and done.changed else decision.reason,
        )
