"""
Made-up trials across a load step, and of a matrix with repeats, that look like real ones.

For tests of what shows results, and for looking at a report without running anything. Nothing in it was measured.
Quantiles, series, bins and boxes come from the same made-up events; intervals of comparisons are made up as well.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.samples.results import (
    EMULATED,
    ecdf_curve,
    numbered,
    replication,
    sample_summary,
    trial_summary,
    window_of_writes,
)

from stepbench.analysis.application import trigger_shares
from stepbench.contracts.chart_data import BoxStats, EcdfCurve, PhaseSpan, RateBins, SeriesPoint, StepSpan, WindowSpan
from stepbench.contracts.cost import Cost
from stepbench.contracts.findings import ChangePoint, Clock, Comparison, Modality
from stepbench.contracts.measures import Estimate, WindowResult
from stepbench.contracts.plan import Application
from stepbench.contracts.result import TrialResult

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.contracts.result import RunSummary

RATES_PER_S = (50, 100)
STEP_S = 40
WINDOWS = {"before": (20, 40), "after": (40, 60)}
BIN_S = 0.1
_PHASE = "step"
_BEGIN_S = 12.0
_PUBLISHED_MS = {"before": 1_157.0, "after": 1_335.0}
_MARGIN = 0.04
_CURVE_POINTS = 150


@dataclass(frozen=True)
class ElasticStore:
    """How one made-up store takes a doubled load: its median and spread before and after, and the share it loses."""

    store: str
    provider: str
    emulated: bool
    median_ms: tuple[float, float]
    spread: tuple[float, float]
    slow_share: float = 0.0
    lost_share: float = 0.0
    gap_bins: int = 0


ELASTIC_STORES = (
    ElasticStore("postgresql", "PostgreSQL 18.6 (wheel)", emulated=False, median_ms=(6.3, 7.2), spread=(0.2, 0.42)),
    ElasticStore(
        "s3", "MiniStack 1.5.33", emulated=True, median_ms=(9.4, 9.4), spread=(0.25, 0.25),
        slow_share=0.3, lost_share=0.03, gap_bins=3,
    ),
)  # fmt: skip


def elastic_results(stores: Sequence[ElasticStore] = ELASTIC_STORES, seed: int = 7) -> tuple[TrialResult, ...]:
    """Return one trial a store, from 50/s to 100/s after 40 of 80 seconds; the same for the same seed."""
    return tuple(elastic_result(store, index, random.Random(seed + index)) for index, store in enumerate(stores))  # noqa: S311


def elastic_result(store: ElasticStore, index: int, rng: random.Random) -> TrialResult:
    """Return a warm-up of 10 s, then a phase with one step in it, a window on each side."""
    events = _events(store, rng)
    windows = {name: [time for at_s, time in events if begin <= at_s < end] for name, (begin, end) in WINDOWS.items()}
    results = tuple(_window(name, windows[name], rate) for name, rate in zip(WINDOWS, RATES_PER_S, strict=True))
    moved = store.median_ms[1] / store.median_ms[0] > 1 + _MARGIN
    summary = trial_summary(
        f"{store.store}-elastic",
        store.store,
        index=index,
        provider=store.provider,
        emulated=store.emulated,
        windows=results,
        clock=Clock(offset_ms=0.0004, bound_ms=0.011, text="32 samples against 127.0.0.1"),
        caveats=(EMULATED,) if store.emulated else (),
        comparisons=(_comparison(windows["before"], windows["after"]),),
        change_points=_change_points(store, moved=moved),
        modality=tuple(_modality(store, name) for name in WINDOWS),
        replication=tuple(replication(each, _PUBLISHED_MS[each.name], "TriggerPerf, Fig. 7") for each in results),
        cost_usd=Cost(estimate=0.004, actual=0.0038),
    )
    return TrialResult(
        summary=summary,
        series=_series(events),
        phases=_phases(),
        ecdf=tuple(_curve(name, times) for name, times in windows.items()),
        boxes=tuple(_box(name, times) for name, times in windows.items()),
        rates=(_bins(events, store.gap_bins),),
    )


def matrix_results(
    points: Sequence[dict[str, Any]], repeats: int = 1, store: str = "postgresql", seed: int = 7
) -> tuple[TrialResult, ...]:
    """Return a short trial for each point and repeat, interleaved; the larger a point's numbers, the slower it is."""
    rng = random.Random(seed)  # noqa: S311
    rounds = [(repeat, point) for repeat in range(repeats) for point in points]
    return tuple(_matrix_result(store, index, repeat, point, rng) for index, (repeat, point) in enumerate(rounds))


def experiment_run(plan: str = "quick-elastic") -> tuple[RunSummary, tuple[TrialResult, ...]]:
    """Two elastic trials, a matrix of one dimension with repeats, and one of two; and shares by the first two."""
    lined_up = matrix_results([{"target.batch_size": size} for size in (1, 10, 100)], repeats=3)
    grid = [
        {"record.value_bytes": size, "phases[0].load[0].rate_per_s": rate} for size in (100, 1000) for rate in (10, 100)
    ]
    results = numbered([*elastic_results(), *lined_up, *matrix_results(grid, store="dynamodb")])
    summary = sample_summary(results, plan)
    shares = tuple(trigger_shares(sample_applications(), summary.trials[:2]))
    return summary.model_copy(update={"shares": shares}), results


def sample_applications() -> tuple[Application, ...]:
    """Return a short chain and a long one."""
    thumbnails = ((2, None), (4, "measured"))
    etl = ((9, None), (40, "measured"), (6, "measured"))
    return tuple(
        Application.model_validate(
            {
                "name": name,
                "source": "made up",
                "functions": [
                    {"name": f"step {number}", "duration_ms": ms, "trigger": trigger}
                    for number, (ms, trigger) in enumerate(functions)
                ],
            }
        )
        for name, functions in (("thumbnails", thumbnails), ("etl", etl))
    )


def _matrix_result(store: str, index: int, repeat: int, point: dict[str, Any], rng: random.Random) -> TrialResult:
    slower = math.prod(1 + math.log10(value) for value in point.values() if isinstance(value, int | float))
    run = rng.lognormvariate(0, 0.05)
    times: list[float | None] = [3.0 * slower * run * rng.lognormvariate(0, 0.3) for _ in range(200)]
    group = "-".join([store, *map(str, point.values())])
    summary = trial_summary(
        f"{group}-r{repeat + 1}",
        store,
        index=index,
        provider="PostgreSQL 18.6 (wheel)",
        windows=(_window("steady", times, RATES_PER_S[0], "steady"),),
        clock=Clock(offset_ms=0.0, bound_ms=0.01),
        cost_usd=Cost(estimate=0.001, actual=0.001),
        group=group,
        base="" if "target.store" in point else store,
        repeat=repeat,
        point=point,
    )
    return TrialResult(summary=summary, series=(), phases=(), ecdf=(_curve("steady", times, "steady"),))


def _events(store: ElasticStore, rng: random.Random) -> list[tuple[float, float | None]]:
    """Return (t0 in seconds of the phase, trigger latency in ms or None if lost)."""
    found: list[tuple[float, float | None]] = []
    for part, rate_per_s in enumerate(RATES_PER_S):
        for place in range(rate_per_s * STEP_S):
            slow = 4.0 if rng.random() < store.slow_share else 1.0
            time = slow * rng.lognormvariate(math.log(store.median_ms[part]), store.spread[part])
            lost = part == 1 and rng.random() < store.lost_share
            found.append((part * STEP_S + place / rate_per_s, None if lost else time))
    return found


def _window(name: str, times_ms: Sequence[float | None], rate_per_s: float, phase: str = _PHASE) -> WindowResult:
    came = [time for time in times_ms if time is not None]
    writes, after_ack = [0.2 * time for time in came], [0.8 * time for time in came]
    return window_of_writes(name, phase, times_ms, writes, after_ack, [0.03] * len(came), rate_per_s)


def _quantile(times_ms: Sequence[float | None], q: float) -> float | None:
    ordered = sorted(math.inf if time is None else time for time in times_ms)
    value = ordered[min(len(ordered) - 1, math.ceil(q * len(ordered)) - 1)]
    return value if math.isfinite(value) else None


def _box(name: str, times_ms: Sequence[float | None]) -> BoxStats:
    p1, p25, p50, p75, p90, p99 = (_quantile(times_ms, q) for q in (0.01, 0.25, 0.5, 0.75, 0.9, 0.99))
    return BoxStats(window=name, phase=_PHASE, n=len(times_ms), p1=p1, p25=p25, p50=p50, p75=p75, p90=p90, p99=p99)


def _about(value: float, margin: float | None = None) -> Estimate:
    reach = abs(value) * _MARGIN if margin is None else margin
    return Estimate(value=value, low=value - reach, high=value + reach)


def _comparison(before: Sequence[float | None], after: Sequence[float | None]) -> Comparison:
    (a25, a50, a75, a90), (b25, b50, b75, b90) = (
        [_quantile(times, q) or math.nan for q in (0.25, 0.5, 0.75, 0.9)] for times in (before, after)
    )
    return Comparison(
        phase_a=_PHASE,
        a="before",
        phase_b=_PHASE,
        b="after",
        median_shift_ms=_about(b50 - a50, 0.2),
        median_ratio=_about(b50 / a50),
        iqr_ratio=_about((b75 - b25) / (a75 - a25)),
        tail_ratio=_about((b90 / b50) / (a90 / a50)),
    )


def _change_points(store: ElasticStore, *, moved: bool) -> tuple[ChangePoint, ...]:
    before, after = map(float, RATES_PER_S)
    rate = ChangePoint(
        phase=_PHASE,
        series="achieved_per_s",
        at_s=_about(STEP_S + 0.1, 0.1),
        p_value=0.0005,
        before=before,
        after=after,
    )
    low, high = store.median_ms
    if not moved:
        none = Estimate(value=None, reason="no change seen")
        return (rate, ChangePoint(phase=_PHASE, series="latency_ms", at_s=none, p_value=0.4))
    latency_ms = ChangePoint(
        phase=_PHASE, series="latency_ms", at_s=_about(STEP_S + 0.5, 0.9), p_value=0.012, before=low, after=high
    )
    return (rate, latency_ms)


def _modality(store: ElasticStore, window: str) -> Modality:
    if store.slow_share:
        low = store.median_ms[0]
        return Modality(window=window, phase=_PHASE, p_value=0.002, modes_ms=(low, 4 * low))
    return Modality(window=window, phase=_PHASE, p_value=0.37, modes_ms=(store.median_ms[0],))


def _phases() -> tuple[PhaseSpan, ...]:
    low, high = map(float, RATES_PER_S)
    steps = (StepSpan(rate_per_s=low, from_s=0, to_s=STEP_S), StepSpan(rate_per_s=high, from_s=STEP_S, to_s=2 * STEP_S))
    windows = tuple(WindowSpan(name=name, from_s=begin, to_s=end) for name, (begin, end) in WINDOWS.items())
    warm_up = (StepSpan(rate_per_s=low, from_s=0, to_s=10),)
    return (
        PhaseSpan(name="warm-up", measured=False, from_s=0, to_s=10, steps=warm_up),
        PhaseSpan(
            name=_PHASE, measured=True, from_s=_BEGIN_S, to_s=_BEGIN_S + 2 * STEP_S, steps=steps, windows=windows
        ),
    )


def _series(events: Sequence[tuple[float, float | None]]) -> tuple[SeriesPoint, ...]:
    seconds: dict[int, list[float | None]] = {}
    for at_s, time in events:
        seconds.setdefault(int(at_s), []).append(time)
    return tuple(
        SeriesPoint(
            second=_BEGIN_S + second,
            phase=_PHASE,
            offered=len(times),
            acknowledged=len(times),
            arrived=sum(time is not None for time in times),
            p50_ms=_quantile(times, 0.5),
            p90_ms=_quantile(times, 0.9),
            max_ms=_quantile(times, 1.0),
        )
        for second, times in seconds.items()
    )


def _bins(events: Sequence[tuple[float, float | None]], gap_bins: int) -> RateBins:
    """Return bins of a generator that stands still, and sends at once, after the gap, what came due in it."""
    number = round(2 * STEP_S / BIN_S)
    offered, sent, acknowledged = [0] * number, [0] * number, [0] * (number + 1)
    step = round(STEP_S / BIN_S)
    for place, (at_s, _) in enumerate(events):
        due = int(at_s / BIN_S + 1e-9)
        at = step + gap_bins if step <= due < step + gap_bins else due
        offered[due] += 1
        sent[at] += 1
        acknowledged[at if place % 7 else at + 1] += 1
    return RateBins(
        phase=_PHASE, bin_s=BIN_S, offered=tuple(offered), sent=tuple(sent), acknowledged=tuple(acknowledged)
    )


def _curve(name: str, times_ms: Sequence[float | None], phase: str = _PHASE) -> EcdfCurve:
    came = sorted(time for time in times_ms if time is not None)
    every = max(1, len(came) // _CURVE_POINTS)
    places = sorted({*range(0, len(came), every), len(came) - 1})
    return ecdf_curve(name, phase, came, len(times_ms), places)
