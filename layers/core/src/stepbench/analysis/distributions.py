"""
Each measured window's distribution of latency: its curve, its box, and its modes.

It is compared with the window before, and with published numbers: times, rates, and ratios of two times.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from stepbench.contracts.across_trials import OVERLAP
from stepbench.contracts.chart_data import BoxStats, EcdfCurve
from stepbench.contracts.experiment import measure_of
from stepbench.contracts.findings import Comparison, Modality, Replication
from stepbench.contracts.measures import Estimate
from stepbench.contracts.published import DAG_METRICS, QUANTILE_METRICS, WRITE_METRICS
from stepbench.errors import InsufficientSampleError
from stepbench.stats.comparison import METRICS, Differences, compare, ratio_between, ratio_within
from stepbench.stats.estimates import largest
from stepbench.stats.modality import find_modes
from stepbench.stats.quantiles import ecdf, quantile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.analysis.evidence import Evidence
    from stepbench.analysis.latency import Ascending
    from stepbench.analysis.windows import MeasuredWindow
    from stepbench.contracts.measures import WindowResult
    from stepbench.contracts.plan import TrialPlan
    from stepbench.contracts.published import Published
    from stepbench.stats.estimates import Sample

_COMPARISON_PURPOSE, _MODALITY_PURPOSE = 1, 3
"""Each use of random numbers has its own, see `MeasuredWindow.sample`."""
NOT_MEASURED = Estimate(value=None, reason="the window was not measured")
RATE = "a count over the whole window, of which no interval is made"
WALL_RATE = "a count over the wall time, of which no interval is made"
WALL = "one time, of which no interval is made"
OF_FUNCTIONS = "the median over the functions, of which no interval is made"
_COUNTED = frozenset({"per_minute", "per_s", "s"})
"""Units of rates and wall times, which are no samples'."""
LARGEST = "the largest of the sample, which has no interval"
_TRIGGER, _AFTER_ACK, _OVER = 2, 3, 2
"""Purposes, as in `MeasuredWindow.sample`; what a ratio is over has its own."""


def window_curve(evidence: Evidence, window: MeasuredWindow) -> EcdfCurve:
    """Return the window's empirical distribution of latency."""
    curve = ecdf(window.ascending_latency().all_ms())
    return EcdfCurve(
        window=window.name,
        phase=evidence.spec.offered.phases[window.phase].name,
        latency_ms=tuple(curve.value.tolist()),
        probability=tuple(curve.probability.tolist()),
    )


def box(evidence: Evidence, window: MeasuredWindow) -> BoxStats:
    """Return quantiles of the window's latency, without intervals: the table beside the plot has those."""
    ascending = window.ascending_latency()
    return BoxStats(
        window=window.name,
        phase=evidence.spec.offered.phases[window.phase].name,
        n=ascending.size,
        **{f"p{percent}": _finite(ascending, percent / 100) for percent in (1, 25, 50, 75, 90, 99)},
    )


def modality(evidence: Evidence, window: MeasuredWindow) -> Modality:
    """Test every k-th event, k = the autocorrelation time: a cluster of events that resemble each other is no mode."""
    phase = evidence.spec.offered.phases[window.phase].name
    sample = window.sample(window.latency_ms(), _MODALITY_PURPOSE)
    every = math.ceil(sample.rank_time) if sample.values.size else 1
    try:
        found = find_modes(sample.values[::every], sample.rng)
    except InsufficientSampleError as shortage:
        kept = sample.values[::every].size
        independent = f"{kept} of {sample.values.size} independent"
        reason = str(shortage).replace(f"n={kept}", independent) if every > 1 else str(shortage)
        return Modality(window=window.name, phase=phase, reason=reason)
    return Modality(window=window.name, phase=phase, p_value=found.p_value, modes_ms=found.at)


def comparisons(evidence: Evidence, windows: Sequence[MeasuredWindow]) -> tuple[Comparison, ...]:
    """Compare each measured window with the one before it, in the plan's order; of DAGs only with the same one's."""
    plan = evidence.spec.offered
    dags = [plan.dag_of(plan.phases[window.phase]) if plan.dags else None for window in windows]
    pairs = zip(pairwise(windows), pairwise(dags), strict=True)
    return tuple(_comparison(evidence, a, b) for (a, b), (dag_a, dag_b) in pairs if dag_a == dag_b)


def _finite(ascending: Ascending, q: float) -> float | None:
    value = quantile(ascending, q) if ascending.size else math.inf
    return value if math.isfinite(value) else None


def _comparison(evidence: Evidence, a: MeasuredWindow, b: MeasuredWindow) -> Comparison:
    phases = evidence.spec.offered.phases
    if a.overlaps(b):
        found = Differences(*[Estimate(value=None, reason=OVERLAP)] * 4)
    else:
        sample_b = b.sample(b.latency_ms(), _COMPARISON_PURPOSE)
        found = compare(a.sample(a.latency_ms()), sample_b, sample_b.rng)
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


@dataclass(frozen=True)
class WindowMeasurement:
    """It holds a measured window and its result."""

    window: MeasuredWindow
    result: WindowResult

    def sample(self, purpose: int, *, after_ack: bool) -> Sample:
        """Return the sample of latency, or of latency after the acknowledgement."""
        values_ms = self.window.after_ack_ms() if after_ack else None
        return self.window.sample(self.window.latency_ms() if values_ms is None else values_ms, purpose)

    def quantile(self, metric: str, *, after_ack: bool) -> Estimate:
        """Return a percentile, or the largest value; those of the summary are as they are there."""
        if metric in WRITE_METRICS:
            written: Estimate = getattr(self.result.service_ms, WRITE_METRICS[metric])
            return written
        known: Estimate | None = getattr(
            self.result.after_ack_ms if after_ack else self.result.latency_ms, metric, None
        )
        if metric in QUANTILE_METRICS and known is not None:
            return known
        sample = self._after_ack if after_ack else self._timed
        if metric in QUANTILE_METRICS:
            return sample.estimate(QUANTILE_METRICS[metric])
        found = largest(sample)
        return found if found.reason else found.model_copy(update={"reason": LARGEST})

    def count_to(self, estimate: Estimate) -> int | None:
        """Return how many of the latencies are at most so long."""
        if estimate.value is None:
            return None
        return int(np.searchsorted(self._timed.ascending, estimate.value, side="right"))

    @cached_property
    def _timed(self) -> Sample:
        """Return the sample that percentiles are of, once: of millions of events it takes seconds."""
        return self.sample(_TRIGGER, after_ack=False)

    @cached_property
    def _after_ack(self) -> Sample:
        return self.sample(_AFTER_ACK, after_ack=True)


def replication(
    plan: TrialPlan, windows: Sequence[MeasuredWindow], results: Sequence[WindowResult]
) -> tuple[Replication, ...]:
    """
    Return one entry for each number in the plan's `published`, even where we have none to set beside it.

    Args:
        plan: the trial's.
        windows: the measured windows.
        results: what came of them, in the same order.
    """
    planned = [(phase.name, window.name) for phase in plan.phases for window in phase.all_windows()]
    measured = {
        (each.phase, each.name): WindowMeasurement(window, each) for window, each in zip(windows, results, strict=True)
    }
    arrives = measure_of(plan.experiment).arrives
    of_runs = DAG_METRICS | {"ks"}  # see `dataflow.analysis.media` and `clock_check`; of two trials `trial_ratios`
    own = [each for each in plan.published if each.metric not in of_runs and each.over_trial is None]
    return tuple(_replication(published, planned, measured, arrives=arrives) for published in own)


def _replication(
    published: Published,
    planned: Sequence[tuple[str, str]],
    measured: dict[tuple[str, str], WindowMeasurement],
    *,
    arrives: bool,
) -> Replication:
    place = _place(published.window, planned)
    over = _place(published.over, planned) if published.over else place
    ours, base = measured.get(place), measured.get(over)
    own = _ours(published, ours, base, after_ack=False)
    twice = arrives and published.unit in {"ms", "ratio"} and published.metric not in WRITE_METRICS
    after_ack = _ours(published, ours, base, after_ack=True) if twice else None
    over_words = f"{published.over_metric or published.metric} of {over[1]}" if published.ratio else ""
    return Replication.of(
        published,
        own,
        after_ack,
        window=place[1],
        phase=place[0],
        over=over_words,
        published_count=published.count,
        count=ours.count_to(own) if ours and published.count else None,
    )


def _counted(published: Published, ours: WindowMeasurement) -> Estimate:
    """Return a rate, or a wall time: of a number of operations over their wall time, else over the whole window."""
    operations = ours.result.operations
    invocations = operations.invocations if operations else None
    if published.metric == "wall":
        return Estimate(value=invocations and invocations.wall_s, reason=WALL)
    if published.metric == "function_throughput":
        return Estimate(value=invocations and invocations.function_per_s, reason=OF_FUNCTIONS)
    times = 60 if published.unit == "per_minute" else 1
    by_wall = operations and operations.per_wall_s
    return Estimate(value=times * ours.result.throughput_per_s, reason=WALL_RATE if by_wall else RATE)


def _place(name: str | None, planned: Sequence[tuple[str, str]]) -> tuple[str, str]:
    """Return phase and window."""
    return next(names for names in planned if name in {None, names[1]})


def _ours(
    published: Published, ours: WindowMeasurement | None, base: WindowMeasurement | None, *, after_ack: bool
) -> Estimate:
    if ours is None or base is None:
        return NOT_MEASURED
    if published.unit in _COUNTED:
        return _counted(published, ours)
    if published.ratio is None:
        return ours.quantile(published.metric, after_ack=after_ack)
    above, below = METRICS[published.metric], METRICS[published.over_metric or published.metric]
    sample = ours.sample(_AFTER_ACK if after_ack else _TRIGGER, after_ack=after_ack)
    if ours is base:
        return ratio_within(sample, above, below, sample.rng)
    if ours.window.overlaps(base.window):
        return Estimate(value=None, reason=OVERLAP)
    return ratio_between(base.sample(_OVER, after_ack=after_ack), sample, below, above, sample.rng)
