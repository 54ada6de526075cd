"""
Clocks compared by latencies: events stamped by one clock against events stamped by two (Fig. 4 of the paper).

The first trial's were written and received by one sandbox, the second's by different ones.

In plain Python, since the report's function, which alone sees two trials, has no NumPy. The difference of medians
gets its interval from those of the two medians, which know of the series' autocorrelation.

Source:
    Zou & Donner (2008), Statistics in Medicine 27(10) (a difference's interval from two intervals, "MOVER").
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, NamedTuple

from stepbench.analysis.clock_words import conclusion, elsewhere
from stepbench.contracts.measures import ClockCheck, ClockComparison, Estimate, Ks
from stepbench.contracts.target import DynamoDbTarget
from stepbench.stats.two_sample import kolmogorov_smirnov

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.drawn import WindowSample
    from stepbench.contracts.measures import WindowResult
    from stepbench.contracts.plan import TrialSpec
    from stepbench.contracts.result import TrialResult

MEASURES: tuple[Literal["latency_ms", "after_ack_ms"], ...] = ("latency_ms", "after_ack_ms")


class _Side(NamedTuple):
    result: TrialResult
    sample: WindowSample
    window: WindowResult


def clock_checks(specs: Sequence[TrialSpec], results: Sequence[TrialResult]) -> tuple[ClockCheck, ...]:
    """
    One for each window of each trial with `same_sandbox` that has a counterpart without.

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
    """Median of b minus median of a, with an interval where both have one."""
    lacking = next((f"{label}: {each.reason}" for label, each in (("a", a), ("b", b)) if each.value is None), None)
    if lacking is not None:
        return Estimate(value=None, reason=lacking)
    before, after = a.value or 0.0, b.value or 0.0
    if a.low is None or a.high is None or b.low is None or b.high is None:
        return Estimate(value=after - before, reason=a.reason or b.reason)
    low = after - before - math.hypot(after - b.low, a.high - before)
    high = after - before + math.hypot(b.high - after, before - a.low)
    return Estimate(value=after - before, low=low, high=high)


def _in_one_sandbox(spec: TrialSpec) -> bool:
    target = spec.plan.target
    return isinstance(target, DynamoDbTarget) and target.same_sandbox


def _counterpart(spec: TrialSpec, known: Sequence[tuple[TrialSpec, TrialResult]]) -> TrialResult | None:
    """The same repeat's first trial of the store with several sandboxes; one that is otherwise alike first."""
    store, repeat = spec.plan.target.store, spec.repeat
    others = [
        (other, result)
        for other, result in known
        if (other.plan.target.store, other.repeat) == (store, repeat) and not _in_one_sandbox(other)
    ]
    alike = [result for other, result in others if _rest(other) == _rest(spec)]
    return next(iter([*alike, *(result for _, result in others)]), None)


def _rest(spec: TrialSpec) -> tuple[object, ...]:
    """All that shapes a latency but the number of sandboxes."""
    target = spec.plan.target.model_copy(update={"same_sandbox": False})
    return spec.plan.phases, spec.plan.record, target, spec.plan.arrivals


def _windows(a: TrialResult, b: TrialResult) -> Iterator[tuple[_Side, _Side]]:
    """Windows of one name; without any such pair, the first of each."""
    left, right = list(_sides(a)), list(_sides(b))
    named = [(one, other) for one in left for other in right if one.sample.window == other.sample.window]
    yield from named or list(zip(left[:1], right[:1], strict=False))


def _sides(result: TrialResult) -> Iterator[_Side]:
    for sample in result.samples:
        for window in result.summary.windows:
            if (window.phase, window.name) == (sample.phase, sample.window):
                yield _Side(result, sample, window)


def _check(spec: TrialSpec, a: _Side, b: _Side) -> ClockCheck:
    arrived = [latency_ms is not None for latency_ms in a.sample.latency_ms]
    told = a.sample.same_sandbox or (False,) * len(arrived)
    events, same = sum(arrived), sum(each for each, there in zip(told, arrived, strict=True) if there)
    clock, spoilt = b.result.summary.clock, elsewhere(a.result.summary.name, events, same)
    return ClockCheck(
        a=a.result.summary.name,
        b=b.result.summary.name,
        store=spec.plan.target.store,
        window=a.sample.window,
        events=events,
        same_sandbox=same,
        offset_ms=clock.offset_ms,
        bound_ms=clock.bound_ms,
        comparisons=tuple(_comparison(measure, a, b, spoilt) for measure in MEASURES),
    )


def _comparison(measure: Literal["latency_ms", "after_ack_ms"], a: _Side, b: _Side, spoilt: str) -> ClockComparison:
    ks = _ks(getattr(a.sample, measure), getattr(b.sample, measure))
    shift = median_shift(getattr(a.window, measure).p50, getattr(b.window, measure).p50)
    text = spoilt + conclusion(ks, shift, b.result.summary.clock)
    return ClockComparison(measure=measure, ks=ks, median_shift_ms=shift, text=text)


def _ks(a: Sequence[float | None], b: Sequence[float | None]) -> Ks | None:
    """Missing values count as the largest; None where one side has none at all."""
    if not a or not b or all(each is None for each in a) or all(each is None for each in b):
        return None
    left, right = ([math.inf if each is None else each for each in side] for side in (a, b))
    found = kolmogorov_smirnov(left, right)
    return Ks(
        d=found.d,
        at_ms=found.at if math.isfinite(found.at) else None,
        p_value=found.p_value,
        n=found.n,
        m=found.m,
        critical_d=found.critical_d,
    )
