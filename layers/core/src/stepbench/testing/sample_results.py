"""
A made-up run that looks like a real one: four stores, one with losses, one that ended early.

For tests of what shows results, and for looking at a report without running anything. Nothing in it was measured;
the numbers hang together (accounting, quantiles, curves and series come from the same made-up events).
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stepbench.contracts.drawn import EcdfCurve, PhaseSpan, SeriesPoint
from stepbench.contracts.measures import Estimate, Latency, WindowResult
from stepbench.contracts.result import (
    Accounting,
    Caveat,
    Clock,
    Cost,
    Failure,
    Invocations,
    Manifest,
    TrialResult,
    TrialSummary,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

RATE_PER_S = 20
EVENTS = 200
_SECONDS = EVENTS // RATE_PER_S
_NEEDED = {0.5: 6, 0.9: 36, 0.95: 73, 0.99: 368, 0.999: 3_688}
_WRITE_OF_LOST_MS = 10.0
_EMULATED = Caveat(
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
    """One result a store; the same for the same seed."""
    return tuple(sample_result(store, index, random.Random(seed + index)) for index, store in enumerate(stores))  # noqa: S311


def sample_result(store: SampleStore, index: int, rng: random.Random) -> TrialResult:
    """200 warm-up and 200 measured events at 20/s; fewer measured ones where the store stops early."""
    warm_up = [_draw(store, rng, start=True) for _ in range(EVENTS)]
    measured: list[float | None] = [_draw(store, rng, start=False) for _ in range(store.stops_after)]
    for lost in rng.sample(range(len(measured)), store.lost):
        measured[lost] = None
    window = sample_window("unloaded", measured, store.write_share)
    ended_early = store.stops_after < EVENTS
    summary = TrialSummary(
        name=store.store,
        index=index,
        store=store.store,
        provider=store.provider,
        emulated=store.emulated,
        incomplete=ended_early,
        failure=Failure(error="WriterMissing", cause="1 of 2 writers ended: Runtime.ExitError")
        if ended_early
        else None,
        accounting=_accounting(store.stops_after, store.lost),
        warm_up=_accounting(EVENTS, 0),
        windows=(window,),
        clock=Clock(offset_ms=-0.0021, bound_ms=0.0104, text="32 samples against 127.0.0.1"),
        caveats=_caveats(store, ended_early=ended_early),
        invocations=_invocations(store, rng),
        cost_usd=Cost(estimate=0.0031 * (index + 1), actual=None if ended_early else 0.0029 * (index + 1)),
        floor_ms=latency([rng.lognormvariate(math.log(5.1), 0.12) for _ in range(200)])
        if store.store != "etcd"
        else None,
    )
    return TrialResult(
        summary=summary,
        series=_series("warm-up", 0, warm_up) + _series("unloaded", _SECONDS + 5, measured),
        phases=(
            PhaseSpan(name="warm-up", measured=False, from_s=0, to_s=_SECONDS),
            PhaseSpan(name="unloaded", measured=True, from_s=_SECONDS + 5, to_s=2 * _SECONDS + 5),
        ),
        ecdf=(_curve(measured),),
    )


def sample_window(name: str, times_ms: Sequence[float | None], write_share: float = 0.3) -> WindowResult:
    """A window over these trigger latencies; None for an event that never arrived."""
    came = [time for time in times_ms if time is not None]
    missing = len(times_ms) - len(came)
    writes = [(time or _WRITE_OF_LOST_MS) * write_share for time in times_ms]
    acknowledged = [time - write for time, write in zip(times_ms, writes, strict=True) if time is not None]
    late = [0.03 + 0.00005 * (place % 17) for place in range(len(times_ms))]
    return WindowResult(
        name=name,
        phase=name,
        n=len(times_ms),
        offered_per_s=float(RATE_PER_S),
        achieved_per_s=len(times_ms) / _SECONDS,
        latency_ms=latency(came, missing),
        after_ack_ms=latency(acknowledged, missing),
        response_write_ms=latency([write + 0.03 for write in writes]),
        response_trigger_ms=latency([time + 0.03 for time in came], missing),
        service_ms=latency(writes),
        lateness_ms=latency(late),
    )


def latency(times_ms: Sequence[float], missing: int = 0) -> Latency:
    """Order statistics with intervals from the normal approximation to the rank; `missing` count as infinite."""
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


def sample_manifest(run_id: str = "sample-run") -> Manifest:
    """What a local run's manifest holds."""
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
    tail = 3.0 if rng.random() < 0.02 else 1.0  # noqa: PLR2004 -- one in fifty
    return slower * tail * rng.lognormvariate(math.log(store.median_ms), store.spread)


def _estimate(ordered: Sequence[float], n: int, q: float) -> Estimate:
    if n < _NEEDED[q]:
        return Estimate(value=None, reason=f"n={n} < {_NEEDED[q]}")
    rank, reach = math.ceil(q * n) - 1, math.ceil(1.96 * math.sqrt(n * q * (1 - q)))
    if rank >= len(ordered):
        return Estimate(value=None, reason=f"> drain limit ({n - len(ordered)} of {n} not arrived)")
    if rank + reach >= len(ordered):
        return Estimate(value=ordered[rank], reason="upper end > drain limit")
    return Estimate(value=ordered[rank], low=ordered[max(0, rank - reach)], high=ordered[rank + reach])


def _accounting(sent: int, lost: int) -> Accounting:
    """Of `EVENTS` offered, so many sent; of those that the writer did not live to record, half arrived."""
    unrecorded = EVENTS - sent
    return Accounting(
        offered=EVENTS,
        sent=sent,
        unsent=0,
        unrecorded=unrecorded,
        ok=sent,
        failed=0,
        unknown=0,
        ok_arrived=sent - lost,
        failed_arrived=0,
        unknown_arrived=0,
        unrecorded_arrived=unrecorded // 2,
        received=sent - lost + unrecorded // 2,
        lost=lost,
        duplicates=2 if lost else 0,
        retried=1 if lost else 0,
        out_of_order=0,
        canaries=3,
    )


def _caveats(store: SampleStore, *, ended_early: bool) -> tuple[Caveat, ...]:
    found = [_EMULATED] if store.emulated else []
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
        points.append(
            SeriesPoint(
                second=from_second + second,
                phase=phase,
                offered=RATE_PER_S,
                acknowledged=len(part),
                arrived=len(came),
                p50_ms=came[len(came) // 2] if came else None,
                p90_ms=came[len(came) * 9 // 10] if came else None,
                max_ms=came[-1] if came else None,
            )
        )
    return tuple(points)


def _curve(times_ms: Sequence[float | None]) -> EcdfCurve:
    came = sorted(time for time in times_ms if time is not None)
    share = tuple((place + 1) / len(times_ms) for place in range(len(came)))
    return EcdfCurve(window="unloaded", phase="unloaded", latency_ms=tuple(came), probability=share)
