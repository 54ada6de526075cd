"""
Clocks are compared by latencies: events stamped by one clock against events stamped by two (Fig. 4 of the paper).

The first trial's events were written and received by one sandbox, the second's by different ones; each check says what
it lets one conclude, and what not.

In plain Python, since the report's function, which alone sees two trials, starts without NumPy. The difference of
medians gets its interval from those of the two medians, which know of the series' autocorrelation.

Source:
    Zou & Donner (2008), Statistics in Medicine 27(10) (a difference's interval from two intervals, "MOVER").
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, NamedTuple

from stepbench import digits
from stepbench.contracts.across_trials import ClockCheck, ClockComparison, Ks
from stepbench.contracts.findings import Replication
from stepbench.contracts.measures import Estimate
from stepbench.contracts.target import DynamoDbTarget
from stepbench.stats.over_runs import difference
from stepbench.stats.tails import kolmogorov_smirnov

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.chart_data import WindowSample
    from stepbench.contracts.findings import Clock
    from stepbench.contracts.measures import WindowResult
    from stepbench.contracts.plan import TrialSpec
    from stepbench.contracts.result import TrialResult

STATISTIC = "a single statistic"
MEASURES: tuple[Literal["latency_ms", "after_ack_ms"], ...] = ("latency_ms", "after_ack_ms")


class _CheckedWindow(NamedTuple):
    result: TrialResult
    sample: WindowSample
    window: WindowResult


def clock_checks(specs: Sequence[TrialSpec], results: Sequence[TrialResult]) -> tuple[ClockCheck, ...]:
    """
    Check clocks in each window of each trial with `same_sandbox` that has a counterpart without.

    Args:
        specs: the run's trials.
        results: theirs, in the same order; more may follow.
    """
    known = list(zip(specs, results, strict=False))
    checks: list[ClockCheck] = []
    for spec, result in known:
        counterpart = _counterpart(spec, known) if _in_one_sandbox(spec) else None
        if counterpart is not None:
            checks += [_check(spec, a, b) for a, b in _windows(result, counterpart)]
    return tuple(checks)


def median_shift(a: Estimate, b: Estimate) -> Estimate:
    """Return the median of b minus the median of a, with an interval where both have one."""
    lacking = next((f"{label}: {each.reason}" for label, each in (("a", a), ("b", b)) if each.value is None), None)
    return difference(b, a, lacking, a.reason or b.reason)


def _in_one_sandbox(spec: TrialSpec) -> bool:
    target = spec.plan.target
    return isinstance(target, DynamoDbTarget) and target.same_sandbox


def _counterpart(spec: TrialSpec, known: Sequence[tuple[TrialSpec, TrialResult]]) -> TrialResult | None:
    """Find the repeat's first trial of the store with several sandboxes; one comparable in all else comes first."""
    store, repeat = spec.offered.target.store, spec.repeat
    others = [
        (other, result)
        for other, result in known
        if (other.plan.target.store, other.repeat) == (store, repeat) and not _in_one_sandbox(other)
    ]
    comparable = [result for other, result in others if _experiment_key(other) == _experiment_key(spec)]
    return next(iter([*comparable, *(result for _, result in others)]), None)


def _experiment_key(spec: TrialSpec) -> tuple[object, ...]:
    """Return all that shapes a latency but the number of sandboxes."""
    target = spec.offered.target.model_copy(update={"same_sandbox": False})
    return spec.offered.phases, spec.offered.record, target, spec.offered.arrivals


def _windows(a: TrialResult, b: TrialResult) -> Iterator[tuple[_CheckedWindow, _CheckedWindow]]:
    """Pair windows of one name; without any such pair, the first of each trial."""
    left, right = list(_checked_windows(a)), list(_checked_windows(b))
    named = [(one, other) for one in left for other in right if one.sample.window == other.sample.window]
    yield from named or list(zip(left[:1], right[:1], strict=False))


def _checked_windows(result: TrialResult) -> Iterator[_CheckedWindow]:
    for sample in result.samples:
        for window in result.summary.windows:
            if (window.phase, window.name) == (sample.phase, sample.window):
                yield _CheckedWindow(result, sample, window)


def _check(spec: TrialSpec, a: _CheckedWindow, b: _CheckedWindow) -> ClockCheck:
    arrived = [latency_ms is not None for latency_ms in a.sample.latency_ms]
    together = a.sample.same_sandbox or (False,) * len(arrived)
    events, same = sum(arrived), sum(each for each, there in zip(together, arrived, strict=True) if there)
    clock, spoilt = b.result.summary.clock, _describe_misplaced(a.result.summary.name, events, same)
    comparisons = tuple(_comparison(measure, a, b, spoilt) for measure in MEASURES)
    return ClockCheck(
        a=a.result.summary.name,
        b=b.result.summary.name,
        store=spec.offered.target.store,
        window=a.sample.window,
        events=events,
        same_sandbox=same,
        offset_ms=clock.offset_ms,
        bound_ms=clock.bound_ms,
        comparisons=comparisons,
        replication=tuple(_replication(spec, a.sample, comparisons)),
    )


def _replication(
    spec: TrialSpec, sample: WindowSample, comparisons: Sequence[ClockComparison]
) -> Iterator[Replication]:
    """Yield the published distances of this window, with ours of either measure."""
    ours, after_ack = (_distance(comparison.ks) for comparison in comparisons)
    for published in spec.offered.published:
        if published.metric == "ks" and published.window in {None, sample.window}:
            found = Replication.of(published, ours, after_ack, window=sample.window, phase=sample.phase)
            ratios = {"ratio": _alone(found.ratio), "ratio_after_ack": _alone(found.ratio_after_ack)}
            yield found.model_copy(update=ratios)


def _alone(ratio: Estimate | None) -> Estimate | None:
    """Return a ratio without the p-value and sizes that its distance has."""
    return ratio.model_copy(update={"reason": STATISTIC}) if ratio and ratio.value is not None else ratio


def _distance(ks: Ks | None) -> Estimate:
    if ks is None:
        return Estimate(value=None, reason="one of the two measured nothing")
    return Estimate(value=ks.d, reason=f"{STATISTIC}; {digits.p_value(ks.p_value)}, n = {ks.n}, m = {ks.m}")


def _comparison(
    measure: Literal["latency_ms", "after_ack_ms"], a: _CheckedWindow, b: _CheckedWindow, spoilt: str
) -> ClockComparison:
    ks = _ks(getattr(a.sample, measure), getattr(b.sample, measure))
    shift = median_shift(getattr(a.window, measure).p50, getattr(b.window, measure).p50)
    text = f"{spoilt}{_describe_distributions(ks, shift)} {_describe_medians(shift, b.result.summary.clock)}"
    return ClockComparison(measure=measure, ks=ks, median_shift_ms=shift, text=text)


def _ks(a: Sequence[float | None], b: Sequence[float | None]) -> Ks | None:
    """Test the two samples. Missing values count as the largest; None where one side has no value at all."""
    if not a or not b or all(each is None for each in a) or all(each is None for each in b):
        return None
    left, right = ([math.inf if each is None else each for each in side] for side in (a, b))
    return kolmogorov_smirnov(left, right)


def _describe_misplaced(name: str, events: int, same: int) -> str:
    """Describe events that the writing sandbox did not receive, which spoil the check; empty where there are none."""
    if same == events:
        return ""
    were = "was" if events - same == 1 else "were"
    which = f"{events - same} of the {digits.counted(events, 'event')} of {name} {were} not received by the sandbox"
    return f"{which} that wrote them: two clocks stamped them, and they are in these numbers. "


def _describe_distributions(ks: Ks | None, shift: Estimate) -> str:
    if ks is None:
        return "One of the two trials measured nothing, so there is nothing to compare."
    events = f"{ks.n} against {digits.counted(ks.m, 'event')}"
    if ks.d > ks.critical_d:
        return f"{events} do tell the two apart (D {ks.d:.3f} > {ks.critical_d:.3f}, {digits.p_value(ks.p_value)})."
    text = f"{events} do not tell the two apart (D {ks.d:.3f} ≤ {ks.critical_d:.3f}, {digits.p_value(ks.p_value)});"
    text += " that is not proof that they are equal"
    if shift.low is None or shift.high is None:
        return f"{text}, and how large a difference would go unseen is not known."
    unseen_ms = max(abs(shift.low), abs(shift.high))
    return f"{text}: a difference of medians up to {digits.latency(unseen_ms)} would go unseen."


def _describe_medians(shift: Estimate, clock: Clock) -> str:
    if shift.value is None:
        return f"Their medians cannot be compared ({shift.reason})."
    medians = f"The medians differ by {digits.shown(shift)}"
    if shift.low is None or shift.high is None:
        return f"{medians}, without an interval that could be held against the clocks."
    if clock.offset_ms is None or clock.bound_ms is None:
        return f"{medians}; the clocks' offset was not measured, so nothing bounds what they may add to it."
    low, high = clock.offset_ms - clock.bound_ms, clock.offset_ms + clock.bound_ms
    offset = f"the clocks' measured offset ({digits.offset(clock.offset_ms, clock.bound_ms)})"
    if low <= shift.low and shift.high <= high:
        return f"{medians}, all of which {offset} could explain: nothing here speaks against the clocks' bound."
    if shift.high < low or high < shift.low:
        return (
            f"{medians}, which {offset} does not explain: the paths differ too (the one sandbox is warm from its "
            "write, and can receive only once that invocation has ended), or the clocks are further apart than "
            "measured."
        )
    return f"{medians}; {offset} could explain a part of that interval, and the events are too few to tell."
