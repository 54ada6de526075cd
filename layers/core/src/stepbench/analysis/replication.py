"""Published numbers beside ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.contracts.result import Estimate, Replication

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.contracts.plan import Published, TrialPlan
    from stepbench.contracts.result import Latency, WindowResult


def replication(plan: TrialPlan, windows: Sequence[WindowResult]) -> tuple[Replication, ...]:
    """One entry for each number in the plan's `published`, whether we have one to set beside it or not."""
    planned = [(phase.name, window.name) for phase in plan.phases for window in phase.all_windows()]
    return tuple(_replication(published, planned, windows) for published in plan.published)


def _replication(
    published: Published, planned: Sequence[tuple[str, str]], windows: Sequence[WindowResult]
) -> Replication:
    phase, name = next(names for names in planned if published.window in {None, names[1]})
    ours = next((window for window in windows if (window.phase, window.name) == (phase, name)), None)
    latency_ms = _metric(ours.latency_ms if ours else None, published.metric)
    after_ack_ms = _metric(ours.after_ack_ms if ours else None, published.metric)
    return Replication(
        metric=published.metric,
        window=name,
        phase=phase,
        published_ms=published.value_ms,
        source=published.source,
        latency_ms=latency_ms,
        after_ack_ms=after_ack_ms,
        ratio=_over(latency_ms, published.value_ms),
        ratio_after_ack=_over(after_ack_ms, published.value_ms),
    )


def _metric(measure: Latency | None, metric: str) -> Estimate:
    if measure is None:
        return Estimate(value=None, reason="the window was not measured")
    found: Estimate = getattr(measure, metric)
    return found


def _over(estimate: Estimate, published_ms: float) -> Estimate:
    low, value, high = (
        None if each is None else each / published_ms for each in (estimate.low, estimate.value, estimate.high)
    )
    return Estimate(value=value, low=low, high=high, reason=estimate.reason)
