"""
A made-up run that looks like a real one: four stores, one with losses, one that ended early.

For tests of what shows results, and for looking at a report without running anything. Nothing in it was measured;
the numbers hang together (accounting, quantiles, curves and series come from the same made-up events).
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from stepbench.analysis.clock_check import clock_checks
from stepbench.contracts.chart_data import EcdfCurve, PhaseSpan, SeriesPoint, WindowSample
from stepbench.contracts.cost import Cost
from stepbench.contracts.documents import Failure, Manifest
from stepbench.contracts.findings import Clock, Replication
from stepbench.contracts.invocations import Invocations
from stepbench.contracts.measures import Estimate, Latency, WindowResult
from stepbench.contracts.plan import TrialPlan, TrialSpec
from stepbench.contracts.result import Accounting, Caveat, RunSummary, TrialResult, TrialSummary
from stepbench.contracts.threshold_grammar import parse_threshold
from stepbench.contracts.thresholds import DEFAULTS
from stepbench.experiments.report.headline import headline_tables
from stepbench.experiments.report.page import render_page
from stepbench.report.summary import RunFacts, summarise

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

RATE_PER_S = 20
EVENTS = 200
_SECONDS = EVENTS // RATE_PER_S
_NEEDED = {0.5: 6, 0.9: 36, 0.95: 73, 0.99: 368, 0.999: 3_688}
_WRITE_OF_LOST_MS = 10.0
EMULATED = Caveat(
    kind="emulated",
    text="The emulator answered, not AWS: this latency says how fast the emulator is.",
    remedy="Deploy the stack to an AWS account and run the same plan there.",
)


@dataclass(frozen=True)
class SampleStore:
    """How one made-up store behaves."""

    store: str
    provider: str
    emulated: bool
    median_ms: float
    spread: float
    write_share: float
    lost: int = 0
    stops_after: int = EVENTS


STORES = (
    SampleStore("s3", "MiniStack 1.5.33", emulated=True, median_ms=9.4, spread=0.28, write_share=0.3),
    SampleStore("dynamodb", "MiniStack 1.5.33", emulated=True, median_ms=12.1, spread=0.35, write_share=0.25, lost=3),
    SampleStore("postgresql", "PostgreSQL 18.6 (wheel)", emulated=False, median_ms=6.3, spread=0.2, write_share=0.12),
    SampleStore(
        "etcd", "etcd 3.5.1 (wheel)", emulated=False, median_ms=0.91, spread=0.16, write_share=0.6, stops_after=130
    ),
)


def sample_results(stores: Sequence[SampleStore] = STORES, seed: int = 7) -> tuple[TrialResult, ...]:
    """Return one result a store; the same for the same seed."""
    return tuple(sample_result(store, index, random.Random(seed + index)) for index, store in enumerate(stores))  # noqa: S311


def sample_result(store: SampleStore, index: int, rng: random.Random) -> TrialResult:
    """Return 200 warm-up and 200 measured events at 20/s; fewer measured where the store stops early."""
    warm_up = [_draw(store, rng, start=True) for _ in range(EVENTS)]
    measured: list[float | None] = [_draw(store, rng, start=False) for _ in range(store.stops_after)]
    for lost in rng.sample(range(len(measured)), store.lost):
        measured[lost] = None
    window = sample_window("unloaded", measured, store.write_share)
    ended_early = store.stops_after < EVENTS
    failure = Failure(error="WriterMissing", cause="1 of 2 writers ended: Runtime.ExitError")
    summary = trial_summary(
        store.store,
        store.store,
        index=index,
        provider=store.provider,
        emulated=store.emulated,
        incomplete=ended_early,
        failure=failure if ended_early else None,
        accounting=_accounting(store.stops_after, store.lost),
        warm_up=_accounting(EVENTS, 0),
        windows=(window,),
        clock=Clock(offset_ms=-0.0021, bound_ms=0.0104, text="32 samples against 127.0.0.1"),
        caveats=_caveats(store, ended_early=ended_early),
        invocations=_invocations(store, rng),
        cost_usd=Cost(estimate=0.0031 * (index + 1), actual=None if ended_early else 0.0029 * (index + 1)),
        floor_ms=None
        if store.store == "etcd"
        else latency([rng.lognormvariate(math.log(5.1), 0.12) for _ in range(200)]),
    )
    return TrialResult(
        summary=summary,
        series=_series("warm-up", 0, warm_up) + _series("unloaded", _SECONDS + 5, measured),
        phases=(
            PhaseSpan(name="warm-up", measured=False, from_s=0, to_s=_SECONDS),
            PhaseSpan(name="unloaded", measured=True, from_s=_SECONDS + 5, to_s=2 * _SECONDS + 5),
        ),
        ecdf=(ecdf_curve("unloaded", "unloaded", sorted(filter(None, measured)), len(measured)),),
    )


def changed(result: TrialResult, **fields: Any) -> TrialResult:  # noqa: ANN401 -- a summary's fields
    """Return the result with other fields in its summary."""
    return result.model_copy(update={"summary": result.summary.model_copy(update=fields)})


def numbered(results: Iterable[TrialResult]) -> tuple[TrialResult, ...]:
    """Return the results as those of one run, in this order."""
    return tuple(changed(result, index=index) for index, result in enumerate(results))


def sample_window(name: str, times_ms: Sequence[float | None], write_share: float = 0.3) -> WindowResult:
    """Return a window over these trigger latencies; None for an event that never arrived."""
    writes = [(time or _WRITE_OF_LOST_MS) * write_share for time in times_ms]
    acknowledged = [time - write for time, write in zip(times_ms, writes, strict=True) if time is not None]
    late = [0.03 + 0.00005 * (place % 17) for place in range(len(times_ms))]
    window = window_of_writes(name, name, times_ms, writes, acknowledged, late)
    return window.model_copy(update={"offered_per_s": float(RATE_PER_S), "achieved_per_s": len(times_ms) / _SECONDS})


def window_of_writes(  # noqa: PLR0913, PLR0917 -- a window's columns
    name: str,
    phase: str,
    times_ms: Sequence[float | None],
    writes_ms: Sequence[float],
    after_ack_ms: Sequence[float],
    late_ms: Sequence[float],
    rate_per_s: float = 0,
) -> WindowResult:
    """Return a window over these times; a trigger latency of None is of an event that never arrived."""
    came = [time for time in times_ms if time is not None]
    missing = len(times_ms) - len(came)
    return WindowResult(
        name=name,
        phase=phase,
        n=len(times_ms),
        sent=len(times_ms),
        lost=missing,
        duplicates=0,
        offered_per_s=float(rate_per_s),
        achieved_per_s=float(rate_per_s),
        latency_ms=latency(came, missing),
        after_ack_ms=latency(after_ack_ms, missing),
        event_resolution_ms=1.0,
        to_event_ms=latency(writes_ms[: len(came)], missing),
        from_event_ms=latency(after_ack_ms, missing),
        response_write_ms=latency([write + 0.03 for write in writes_ms]),
        response_trigger_ms=latency([time + 0.03 for time in came], missing),
        service_ms=latency(writes_ms),
        lateness_ms=latency(late_ms),
    )


def ecdf_curve(window: str, phase: str, ordered: Sequence[float], n: int, places: Iterable[int] = ()) -> EcdfCurve:
    """Return the curve through some of the sorted latencies, or through all, out of `n` events."""
    chosen = tuple(places) or tuple(range(len(ordered)))
    times, share = (tuple(ordered[place] for place in chosen), tuple((place + 1) / n for place in chosen))
    return EcdfCurve(window=window, phase=phase, latency_ms=times, probability=share)


def latency(times_ms: Sequence[float], missing: int = 0) -> Latency:
    """Return order statistics with normal intervals of their ranks; `missing` count as infinite."""
    ordered = sorted(times_ms)
    n = len(ordered) + missing
    p50, p90, p95, p99, p999 = (_estimate(ordered, n, q) for q in _NEEDED)
    return Latency(
        n=n,
        missing=missing,
        p50=p50,
        p90=p90,
        p95=p95,
        p99=p99,
        p999=p999,
        min=ordered[0] if ordered else None,
        mean=sum(ordered) / len(ordered) if ordered and not missing else None,
        max=ordered[-1] if ordered and not missing else None,
    )


def trial_summary(name: str, store: str, **fields: Any) -> TrialSummary:  # noqa: ANN401 -- a summary's fields
    """Return the summary of a complete trial in a real store, without accounting or caveats unless they are given."""
    defaults: dict[str, Any] = {
        "index": 0,
        "provider": store,
        "emulated": False,
        "incomplete": False,
        "accounting": None,
        "caveats": (),
        "clock": Clock(offset_ms=None, bound_ms=None),
        "cost_usd": Cost(estimate=0),
    }
    return TrialSummary(**{**defaults, "name": name, "store": store, **fields})


def accounting(**counts: Any) -> Accounting:  # noqa: ANN401 -- its fields
    """Return an accounting in which all that is not given is 0."""
    required = (name for name, field in Accounting.model_fields.items() if field.is_required())
    return Accounting(**{**dict.fromkeys(required, 0), **counts})


def series_point(second: float, phase: str, counts: tuple[int, int, int], ordered: Sequence[float]) -> SeriesPoint:
    """Return one second of a series: how many were offered, acknowledged and arrived, and the sorted latencies."""
    n = len(ordered)
    p50, p90, highest = (ordered[n // 2], ordered[n * 9 // 10], ordered[-1]) if ordered else (None, None, None)
    names = ("offered", "acknowledged", "arrived", "p50_ms", "p90_ms", "max_ms")
    fields = dict(zip(names, (*counts, p50, p90, highest), strict=True))
    return SeriesPoint.model_validate({"second": second, "phase": phase, **fields})


def replication(window: WindowResult, published_ms: float, source: str) -> Replication:
    """Return the median beside a published one; after the acknowledgement where the window has that."""
    ours, after_ack = window.latency_ms.p50, window.after_ack_ms and window.after_ack_ms.p50
    ratio, ratio_after_ack = (each and _over(each, published_ms) for each in (ours, after_ack))
    return Replication(
        metric="p50",
        window=window.name,
        phase=window.phase,
        published=published_ms,
        unit="ms",
        source=source,
        ours=ours,
        ours_after_ack=after_ack,
        ratio=ratio,
        ratio_after_ack=ratio_after_ack,
    )


def _over(ours: Estimate, published_ms: float) -> Estimate:
    value, low, high = (None if end is None else end / published_ms for end in (ours.value, ours.low, ours.high))
    return Estimate(value=value, low=low, high=high, reason=ours.reason)


def sample_facts(plan: str = "quick-unloaded", run_id: str = "run-1") -> RunFacts:
    """Return the facts of a run that took 2 min 14 s."""
    started_at = datetime(2025, 6, 1, 12, 0, tzinfo=UTC)
    return RunFacts(run_id, plan, started_at, started_at + timedelta(seconds=134))


def sample_summary(results: Sequence[TrialResult], plan: str = "quick-unloaded") -> RunSummary:
    """Summarise a run of these trials."""
    return summarise(sample_facts(plan), results, [parse_threshold(DEFAULTS[0])])


def refused_result(result: TrialResult, errors: dict[str, int], unknown: int = 0) -> TrialResult:
    """Return the result with these errors in its first window, so many of them without an answer."""
    window, *others = result.summary.windows
    counts = {"sent": window.n + sum(errors.values()), "failed": sum(errors.values()) - unknown, "unknown": unknown}
    return changed(result, windows=(window.model_copy(update={**counts, "errors": errors}), *others))


def sample_page(results: Sequence[TrialResult]) -> str:
    """Render the page of a run of these trials."""
    return render_page(sample_summary(results), results, sample_manifest())


def headline_rows(summary: RunSummary) -> list[dict[str, str]]:
    """Return the rows of all headline tables as a terminal is given them, by heading."""
    return [
        dict(zip(table.headings("terminal"), map(str, table.cells(row, "terminal")), strict=True))
        for table in headline_tables(summary)
        for row in table.rows
    ]


def sample_manifest(run_id: str = "sample-run") -> Manifest:
    """Build what a local run's manifest holds."""
    function: dict[str, str | int] = {
        "runtime": "python3.11",
        "memory_mb": 1024,
        "timeout_s": 900,
        "architecture": "x86_64",
        "code_sha256": "c2FtcGxl",
    }
    return Manifest(
        run_id=run_id,
        stepbench_version="0.1.0",
        code_sha256="5a" * 32,
        libraries={"boto3": "1.44.1", "numpy": "2.4.6", "uvloop": "0.22.1"},
        region="us-east-1",
        runtime="python3.11",
        architecture="x86_64",
        emulated=True,
        price_table_date="2025-07-01",
        functions={f"stepbench-{name}": function for name in ("ReceiveEvents", "RunWriter")},
        stores={store.store: store.provider for store in STORES},
        sandboxes=11,
    )


def _draw(store: SampleStore, rng: random.Random, *, start: bool) -> float:
    slower = 1.6 if start else 1.0
    tail = 3.0 if rng.random() < 0.02 else 1.0
    return slower * tail * rng.lognormvariate(math.log(store.median_ms), store.spread)


def _estimate(ordered: Sequence[float], n: int, q: float) -> Estimate:
    if n == 0:
        return Estimate(value=None, reason="nothing was measured")
    rank, reach = math.ceil(q * n) - 1, math.ceil(1.96 * math.sqrt(n * q * (1 - q)))
    if rank >= len(ordered):
        return Estimate(value=None, reason="> drain limit (120 s)")
    if n < _NEEDED[q]:
        return Estimate(value=ordered[rank], reason=f"n={n} < {_NEEDED[q]}")
    if rank + reach >= len(ordered):
        return Estimate(value=ordered[rank], reason="upper end > drain limit")
    return Estimate(value=ordered[rank], low=ordered[max(0, rank - reach)], high=ordered[rank + reach])


def _accounting(sent: int, lost: int) -> Accounting:
    """Account for `EVENTS` offered, so many sent; of those that the writer did not live to record, half arrived."""
    unrecorded = EVENTS - sent
    arrived = {"ok_arrived": sent - lost, "unrecorded_arrived": unrecorded // 2}
    came = {"received": sum(arrived.values()), "duplicates": 2 if lost else 0, "retried": 1 if lost else 0, **arrived}
    return accounting(offered=EVENTS, sent=sent, unrecorded=unrecorded, ok=sent, lost=lost, canaries=3, **came)


def _caveats(store: SampleStore, *, ended_early: bool) -> tuple[Caveat, ...]:
    found = [EMULATED] if store.emulated else []
    if store.lost:
        text = f"{store.lost} acknowledged events had not arrived 120 s after the last write."
        found.append(
            Caveat(kind="lost_events", text=text, remedy="Look into the on-failure queue, then raise drain_limit_s.")
        )
    if ended_early:
        text = "Writer 1 ended before its slice did; 70 events are unrecorded."
        found.append(Caveat(kind="incomplete", text=text, remedy="Run the trial again; the cause is shown at the top."))
    short = "n=200 is too few for an interval of p99."
    found.append(Caveat(kind="short_sample", text=short, remedy="Offer at least 368 events in the window."))
    return tuple(found)


def _invocations(store: SampleStore, rng: random.Random) -> tuple[Invocations, ...]:
    name = "WatchChanges" if store.store == "etcd" else "ReceiveEvents"
    return (
        Invocations(
            function=name,
            invocations=4 if store.store == "etcd" else 398,
            cold_starts=2,
            init_ms_p50=212.0 + rng.random(),
            init_ms_max=260.5,
            duration_ms_p50=3.1,
            duration_ms_max=41.8,
            billed_ms=1_420.0,
            max_memory_mb=86,
        ),
        Invocations(function="RunWriter", invocations=4, cold_starts=4, init_ms_p50=480.2, init_ms_max=533.0,
                    duration_ms_p50=15_020.0, duration_ms_max=15_480.0, billed_ms=60_300.0, max_memory_mb=121),
    )  # fmt: skip


def _series(phase: str, from_second: int, times_ms: Sequence[float | None]) -> tuple[SeriesPoint, ...]:
    points = []
    for second in range(_SECONDS):
        part = times_ms[second * RATE_PER_S : (second + 1) * RATE_PER_S]
        came = sorted(time for time in part if time is not None)
        points.append(series_point(from_second + second, phase, (RATE_PER_S, len(part), len(came)), came))
    return tuple(points)


_WRITE_MS = 3.0


def checked_pair(shift_ms: float = 0.0, seed: int = 7) -> tuple[list[TrialSpec], list[TrialResult]]:
    """Return two trials of 200 events; those of the second, with different sandboxes, take `shift_ms` longer."""
    rng = random.Random(seed)  # noqa: S311
    pair = [[rng.gauss(12, 1) + longer_ms for _ in range(EVENTS)] for longer_ms in (0.0, shift_ms)]
    specs = [clock_spec("one-sandbox", 0, same_sandbox=True), clock_spec("two-sandboxes", 1, same_sandbox=False)]
    results = [clock_result(spec, latencies) for spec, latencies in zip(specs, pair, strict=True)]
    return specs, results


def checked_summary(specs: Sequence[TrialSpec], results: Sequence[TrialResult]) -> RunSummary:
    """Summarise a run of these trials, with the clock checks of its pairs."""
    summary = sample_summary(results, "quick-clock")
    return summary.model_copy(update={"clock_checks": clock_checks(specs, results)})


def clock_spec(name: str, index: int, *, same_sandbox: bool, **spec: Any) -> TrialSpec:  # noqa: ANN401 -- its fields
    """Return a trial of one window at ten events a second."""
    plan = TrialPlan.model_validate(
        {
            "target": {"store": "dynamodb", "same_sandbox": same_sandbox},
            "phases": [{"name": "compared", "load": [{"rate_per_s": 10, "count": EVENTS}]}],
            "published": [{"metric": "ks", "d": 0.14, "source": "TriggerPerf, Fig. 4"}] if same_sandbox else [],
        }
    )
    return TrialSpec(
        **{"run_id": "run-1", "index": index, "name": name, "tag": name, "plan": plan, "estimate_usd": 0, **spec}
    )


def clock_result(
    spec: TrialSpec, latency_ms: Sequence[float | None], *, elsewhere: int = 0, bound_ms: float | None = 0.05
) -> TrialResult:
    """Build what its analysis leaves; `elsewhere`: how many events another sandbox received."""
    in_one = getattr(spec.plan.target, "same_sandbox", False)
    values: list[float | None] = list(latency_ms)
    summary = trial_summary(
        spec.name,
        spec.plan.target.store,
        index=spec.index,
        provider="MiniStack 1.5.33",
        emulated=True,
        windows=(_window(values),),
        clock=Clock(offset_ms=None if bound_ms is None else 0.0, bound_ms=bound_ms),
    )
    sample = WindowSample(
        window="compared",
        phase="compared",
        length_s=EVENTS / 10,
        at_s=tuple(number / 10 for number in range(len(values))),
        latency_ms=tuple(values),
        after_ack_ms=tuple(None if value is None else value - _WRITE_MS for value in values),
        same_sandbox=tuple(number >= elsewhere for number in range(len(values))) if in_one else None,
    )
    return TrialResult(summary=summary, series=(), phases=(), ecdf=(), samples=(sample,))


def _window(values: list[float | None]) -> WindowResult:
    came = [value - _WRITE_MS for value in values if value is not None]
    return sample_window("compared", values).model_copy(update={"after_ack_ms": latency(came, len(values) - len(came))})
