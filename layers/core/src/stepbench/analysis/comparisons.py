"""Each measured window against the one before it, in the plan's order."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from stepbench.contracts.measures import Comparison, Estimate
from stepbench.stats.comparison import Differences, compare

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.analysis.evidence import Evidence
    from stepbench.analysis.windows import MeasuredWindow

_PURPOSE = 1


def comparisons(evidence: Evidence, windows: Sequence[MeasuredWindow]) -> tuple[Comparison, ...]:
    """One fewer than there are windows."""
    return tuple(_comparison(evidence, a, b) for a, b in pairwise(windows))


def _comparison(evidence: Evidence, a: MeasuredWindow, b: MeasuredWindow) -> Comparison:
    phases, found = evidence.spec.plan.phases, _differences(a, b)
    return Comparison(
        phase_a=phases[a.phase].name,
        a=a.name,
        phase_b=phases[b.phase].name,
        b=b.name,
        median_shift_ms=found.median_shift,
        median_ratio=found.median_ratio,
        iqr_ratio=found.iqr_ratio,
        tail_ratio=found.tail_ratio,
    )


def _differences(a: MeasuredWindow, b: MeasuredWindow) -> Differences:
    if a.overlaps(b):
        # Events in both windows would be taken for agreement between them.
        none = Estimate(value=None, reason="the windows overlap")
        return Differences(none, none, none, none)
    of_a, of_b = a.sample(a.latency_ms()), b.sample(b.latency_ms(), _PURPOSE)
    return compare(of_a, of_b, of_b.rng)
