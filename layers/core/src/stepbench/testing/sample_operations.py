"""
Made-up trials of operations that look like real ones: kinds, connection reuse, TLS, a ladder of clients.

For tests of what shows results, and for looking at a report without running anything. Nothing in it was measured;
tables, curves and quantiles come from the same made-up operations.
"""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from stepbench.analysis.groups import group_results
from stepbench.analysis.scaling import scaling_curves
from stepbench.analysis.settings import setting_comparisons
from stepbench.contracts.drawn import BoxStats, EcdfCurve, PhaseSpan, SeriesPoint
from stepbench.contracts.measures import (
    ConnectingResult,
    Estimate,
    KindResult,
    OperationsResult,
    PercentileRow,
    Replication,
    WindowResult,
)
from stepbench.contracts.result import Accounting, Caveat, Clock, Cost, RunSummary, TrialResult, TrialSummary
from stepbench.stats.scalability import Usl
from stepbench.testing.sample_results import latency

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.contracts.result import Scalar

LADDER = (1, 2, 5, 10, 20, 50, 100)
_LEVELS = (50.0, 75.0, 87.5, 93.75, 99.21875, 99.90234375, 100.0)
_WINDOW = "steady"
_SECONDS = 20
_LATE_MS = 0.02
BENT, STRAIGHT = Usl(900.0, 0.03, 0.0006), Usl(1_400.0, 0.004, 0.0)
"""The first has its knee at 40 clients; the second has none."""
GENERATOR_PER_S = 15_000.0
Kinds = tuple[tuple[Literal["read", "insert", "overwrite", "update"], float], ...]
"""Each with its median, as a multiple of the trial's."""
_KINDS: Kinds = (
    ("read", 0.8),
    ("insert", 1.1),
    ("overwrite", 1.0),
    ("update", 1.05),
)
_PARTS = (("connect", 0.12), ("tls", 0.46), ("authenticate", 0.3), ("operate", 0.11))
_STALLS = Caveat(
    kind="stalls_hidden",
    text="Window steady: the longest operation took 312 ms, 61 times p99 (5.1 ms). Clients that wait offer nothing, so "
    "few operations show it: 0.05 % took more than 10 times p99. Had they been due at an even pace, half as fast, "
    "1.9 % would have waited so long.",
    remedy="Give load in place of closed: its response times, from t0, contain the waiting.",
)
GENERATOR_SHARE = 0.34
_SATURATED = Caveat(
    kind="saturated_generator",
    text="Window steady: the generator itself took 34 % of its clients' time, from when each was free until its "
    "operation was sent. So the store would take more from so many clients, and service times may contain the "
    "generator's own delay in reading answers.",
    remedy="Use more writers, more memory (CPU) per writer, or fewer clients; on one machine, close what else runs.",
)


class Sample(NamedTuple):
    """One made-up trial; `failed`: of its reads, for records that were not there."""

    name: str
    store: str
    provider: str
    clients: int
    median_ms: float
    per_s: float
    kinds: Kinds = _KINDS
    failed: int = 0
    connecting: bool = False
    caveats: tuple[Caveat, ...] = ()
    point: dict[str, Any] = {}  # noqa: RUF012 -- never changed
    base: str = ""
    repeat: int = 0
    published_ms: float | None = None


def operation_results(seed: int = 7) -> tuple[TrialResult, ...]:
    """Two stores, connections kept and not, TLS on and off three times each, two ladders of clients."""
    rng = random.Random(seed)  # noqa: S311
    ladders = [*_ladder("postgresql", BENT, rng), *_ladder("etcd", STRAIGHT, rng, GENERATOR_PER_S)]
    samples = [*_stores(), *_reuse(), *_tls(), *ladders]
    return tuple(made_up(sample, index, random.Random(seed + index)) for index, sample in enumerate(samples))  # noqa: S311


def over_trials(summary: RunSummary) -> RunSummary:
    """With what is worked out over trials, as `RenderReport` does it."""
    trials = summary.trials
    found = {"groups": group_results(trials), "scaling": scaling_curves(trials)}
    return summary.model_copy(update={**found, "settings": setting_comparisons(trials)})


def _stores() -> list[Sample]:
    redis = Sample("redis", "redis", "Valkey 8.1", 10, 0.72, 1_450, caveats=(_STALLS,), published_ms=0.72)
    dynamodb = Sample("dynamodb", "dynamodb", "DynamoDB Local 2.6", 10, 2.5, 430, failed=3, published_ms=2.5)
    return [redis, dynamodb]


def _reuse() -> list[Sample]:
    insert: Kinds = (("insert", 1.0),)
    kept = Sample(
        "sql-reuse", "postgresql", "PostgreSQL 18.6 (wheel)", 5, 1.4, 300, insert,
        point={"workload.reuse": True}, base="sql",
    )  # fmt: skip
    anew = kept._replace(name="sql-connect", median_ms=13, per_s=90, connecting=True, point={"workload.reuse": False})
    return [kept, anew]


def _tls() -> list[Sample]:
    return [
        Sample(
            f"redis-{'tls' if tls else 'plain'}", "redis", "Valkey 8.1", 1, 0.31 if tls else 0.22, 200,
            (("read", 1.0),), point={"target.tls": tls}, base="redis-read", repeat=repeat,
        )
        for repeat in range(3)
        for tls in (False, True)
    ]  # fmt: skip


def _ladder(name: str, law: Usl, rng: random.Random, most_per_s: float = math.inf) -> list[Sample]:
    """The law with 2 % of noise, up to where the generator holds back."""
    samples = []
    for clients in LADDER:
        per_s = law.throughput(clients) * math.exp(rng.gauss(0, 0.02))
        held_back = per_s > most_per_s
        per_s = most_per_s * (1 - 0.0005 * clients) if held_back else per_s
        samples.append(
            Sample(
                f"{name}-{clients}", name, name, clients, 1_000 * clients / per_s, per_s, (("read", 1.0),),
                caveats=(_SATURATED,) if held_back else (), point={"phases[1].closed.clients": clients}, base=name,
            )
        )  # fmt: skip
    return samples


def made_up(sample: Sample, index: int, rng: random.Random) -> TrialResult:
    """All that the report shows of it, from the same made-up operations."""
    count = min(4_000, round(sample.per_s * _SECONDS))
    times = {
        kind: [_draw(sample.median_ms * factor, rng) for _ in range(count // len(sample.kinds))]
        for kind, factor in sample.kinds
    }
    every = sorted(time for found in times.values() for time in found)
    window = _window(sample, times, every)
    summary = TrialSummary(
        name=sample.name,
        index=index,
        experiment="operations",
        store=sample.store,
        provider=sample.provider,
        emulated=False,
        incomplete=False,
        accounting=_accounting(len(every), sample.failed),
        windows=(window,),
        clock=Clock(offset_ms=None, bound_ms=None),
        caveats=sample.caveats,
        replication=(_replication(window, sample.published_ms),) if sample.published_ms else (),
        cost_usd=Cost(estimate=0.002, actual=0.0019),
        group=sample.name,
        base=sample.base or sample.name,
        repeat=sample.repeat,
        point=sample.point,
        setup=_setup(sample),
    )
    return TrialResult(
        summary=summary,
        series=_series(every, rng),
        phases=(PhaseSpan(name=_WINDOW, measured=True, from_s=0, to_s=_SECONDS),),
        ecdf=(_curve(every),),
        boxes=(_box(every),),
    )


def _setup(sample: Sample) -> dict[str, Scalar]:
    """As `analysis.setup` would tell it of such a plan."""
    mix = {f"workload.mix.{kind}": 1.0 for kind, _ in sample.kinds}
    load = {f"phases[{_WINDOW}].closed.clients": sample.clients, "writers": 1}
    varied = {path: value for path, value in sample.point.items() if not path.startswith("phases")}
    return {"target.store": sample.store, **mix, "workload.reuse": True, **load, **varied}


def _draw(median_ms: float, rng: random.Random) -> float:
    tail = 4.0 if rng.random() < 0.01 else 1.0  # noqa: PLR2004 -- one in a hundred
    return tail * rng.lognormvariate(math.log(median_ms), 0.25)


def _window(sample: Sample, times: dict[Any, list[float]], every: Sequence[float]) -> WindowResult:
    kinds = tuple(
        KindResult(
            kind=kind,
            ok=len(found),
            failed=sample.failed if place == 0 else 0,
            unknown=0,
            service_ms=latency(found),
            response_ms=latency([time + _LATE_MS for time in found]),
            percentiles=_table(sorted(found)),
        )
        for place, (kind, found) in enumerate(times.items())
    )
    return WindowResult(
        name=_WINDOW,
        phase=_WINDOW,
        n=len(every),
        offered_per_s=sample.per_s,
        achieved_per_s=sample.per_s,
        latency_ms=latency(every),
        after_ack_ms=None,
        response_write_ms=latency([time + _LATE_MS for time in every]),
        response_trigger_ms=None,
        service_ms=latency(every),
        lateness_ms=latency([_LATE_MS] * len(every)),
        operations=OperationsResult(
            clients=sample.clients,
            generator_share=GENERATOR_SHARE if _SATURATED in sample.caveats else 0.02,
            kinds=kinds,
            percentiles=_table(every),
            per_minute=(),
            errors={"not_found": sample.failed} if sample.failed else {},
            retries=0,
            connecting=_connecting(every) if sample.connecting else None,
        ),
    )


def _connecting(every: Sequence[float]) -> ConnectingResult:
    connect, tls, authenticate, operate = (latency([share * time for time in every]) for _, share in _PARTS)
    unaccounted = 1 - sum(share for _, share in _PARTS)
    return ConnectingResult(
        connect_ms=connect, tls_ms=tls, authenticate_ms=authenticate, operate_ms=operate, unaccounted_share=unaccounted
    )


def _table(ordered: Sequence[float]) -> tuple[PercentileRow, ...]:
    rows = []
    for level in _LEVELS:
        place = max(0, math.ceil(level / 100 * len(ordered)) - 1)
        rows.append(PercentileRow(percentile=level, value_ms=ordered[place], count=place + 1))
    return tuple(rows)


def _accounting(ok: int, failed: int) -> Accounting:
    zeros = dict.fromkeys(
        ("unsent", "unrecorded", "unknown", "ok_arrived", "failed_arrived", "unknown_arrived", "unrecorded_arrived",
         "received", "lost", "duplicates", "out_of_order"), 0,
    )  # fmt: skip
    return Accounting(offered=ok + failed, sent=ok + failed, ok=ok, failed=failed, awaited=False, **zeros)


def _replication(window: WindowResult, published_ms: float) -> Replication:
    ours = window.latency_ms.p50
    ends = [None if end is None else end / published_ms for end in (ours.value, ours.low, ours.high)]
    return Replication(
        metric="p50",
        window=window.name,
        phase=window.phase,
        published=published_ms,
        unit="ms",
        bound=None,
        source="Bianchi (2020), latency mode, read",
        ours=ours,
        ours_after_ack=None,
        ratio=Estimate(value=ends[0], low=ends[1], high=ends[2]),
        ratio_after_ack=None,
    )


def _series(every: Sequence[float], rng: random.Random) -> tuple[SeriesPoint, ...]:
    points = []
    for second in range(_SECONDS):
        part = sorted(rng.choices(every, k=max(2, len(every) // _SECONDS)))
        points.append(
            SeriesPoint(
                second=second,
                phase=_WINDOW,
                offered=len(part),
                acknowledged=len(part),
                arrived=0,
                p50_ms=part[len(part) // 2],
                p90_ms=part[len(part) * 9 // 10],
                max_ms=part[-1],
            )
        )
    return tuple(points)


def _curve(every: Sequence[float]) -> EcdfCurve:
    """Thinned as `stats.curves.ecdf` does it: dense where the tail is."""
    n = len(every)
    tail = {n - round(n ** (step / 40)) for step in range(41)}
    places = sorted({*range(0, n, max(1, n // 100)), *tail, n - 1} & set(range(n)))
    return EcdfCurve(
        window=_WINDOW,
        phase=_WINDOW,
        latency_ms=tuple(every[place] for place in places),
        probability=tuple((place + 1) / n for place in places),
    )


def _box(every: Sequence[float]) -> BoxStats:
    p1, p25, p50, p75, p90, p99 = (every[round(q * (len(every) - 1))] for q in (0.01, 0.25, 0.5, 0.75, 0.9, 0.99))
    return BoxStats(window=_WINDOW, phase=_WINDOW, n=len(every), p1=p1, p25=p25, p50=p50, p75=p75, p90=p90, p99=p99)
