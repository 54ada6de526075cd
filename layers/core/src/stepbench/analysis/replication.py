"""Published numbers beside ours: times, and ratios of two times."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stepbench.contracts.measure import measure_of
from stepbench.contracts.measures import Estimate, Replication
from stepbench.stats.comparison import METRICS, ratio_between, ratio_within

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.analysis.windows import MeasuredWindow
    from stepbench.contracts.measures import WindowResult
    from stepbench.contracts.plan import Published, TrialPlan
    from stepbench.stats.estimates import Sample

NOT_MEASURED = Estimate(value=None, reason="the window was not measured")
RATE = "a count over the whole window, of which no interval is made"
_TRIGGER, _AFTER_ACK, _OVER = 2, 3, 2
"""Purposes, as in `MeasuredWindow.sample`; what a ratio is over has its own."""


class Measured(NamedTuple):
    """A window, and what came of it."""

    window: MeasuredWindow
    result: WindowResult

    def sample(self, purpose: int, *, after_ack: bool) -> Sample:
        """Latency, or that after the acknowledgement."""
        values_ms = self.window.after_ack_ms() if after_ack else None
        return self.window.sample(self.window.latency_ms() if values_ms is None else values_ms, purpose)


def replication(
    plan: TrialPlan, windows: Sequence[MeasuredWindow], results: Sequence[WindowResult]
) -> tuple[Replication, ...]:
    """
    One entry for each number in the plan's `published`, whether we have one to set beside it or not.

    Args:
        plan: the trial's.
        windows: the measured windows.
        results: what came of them, in the same order.
    """
    planned = [(phase.name, window.name) for phase in plan.phases for window in phase.all_windows()]
    measured = {(each.phase, each.name): Measured(window, each) for window, each in zip(windows, results, strict=True)}
    arrives = measure_of(plan.experiment).arrives
    return tuple(_replication(published, planned, measured, arrives=arrives) for published in plan.published)


def _replication(
    published: Published,
    planned: Sequence[tuple[str, str]],
    measured: dict[tuple[str, str], Measured],
    *,
    arrives: bool,
) -> Replication:
    place = _place(published.window, planned)
    over = _place(published.over, planned) if published.over else place
    ours, base = measured.get(place), measured.get(over)
    number = published.value_ms or published.per_minute or published.ratio or 0.0  # exactly one is there, and above 0
    own = _ours(published, ours, base, after_ack=False)
    twice = arrives and published.per_minute is None
    after_ack = _ours(published, ours, base, after_ack=True) if twice else None
    over_words = f"{published.over_metric or published.metric} of {over[1]}" if published.ratio else ""
    return Replication(
        metric=published.metric,
        window=place[1],
        phase=place[0],
        over=over_words,
        published=number,
        unit="ratio" if published.ratio else "per_minute" if published.per_minute else "ms",
        bound=published.bound,
        source=published.source,
        ours=own,
        ours_after_ack=after_ack,
        ratio=_over_number(own, number),
        ratio_after_ack=None if after_ack is None else _over_number(after_ack, number),
    )


def _place(name: str | None, planned: Sequence[tuple[str, str]]) -> tuple[str, str]:
    """Phase and window."""
    return next(names for names in planned if name in {None, names[1]})


def _ours(published: Published, ours: Measured | None, base: Measured | None, *, after_ack: bool) -> Estimate:
    if ours is None or base is None:
        return NOT_MEASURED
    if published.per_minute is not None:
        return Estimate(value=60 * ours.result.achieved_per_s, reason=RATE)
    if published.ratio is None:
        latency = ours.result.after_ack_ms if after_ack else ours.result.latency_ms
        found: Estimate = getattr(latency, published.metric)
        return found
    above, below = METRICS[published.metric], METRICS[published.over_metric or published.metric]
    sample = ours.sample(_AFTER_ACK if after_ack else _TRIGGER, after_ack=after_ack)
    if ours is base:
        return ratio_within(sample, above, below, sample.rng)
    if ours.window.overlaps(base.window):
        return Estimate(value=None, reason="the windows overlap")
    return ratio_between(base.sample(_OVER, after_ack=after_ack), sample, below, above, sample.rng)


def _over_number(estimate: Estimate, published: float) -> Estimate:
    low, value, high = (
        None if each is None else each / published for each in (estimate.low, estimate.value, estimate.high)
    )
    return Estimate(value=value, low=low, high=high, reason=estimate.reason)
