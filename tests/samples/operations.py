"""
Made-up trials of operations that look like real ones: kinds, connection reuse, TLS, a ladder of clients.

For tests of what shows results, and for looking at a report without running anything. Nothing in it was measured;
tables, curves and quantiles come from the same made-up operations. `planned_results` has those of a plan, trial by
trial: medians follow from store, TLS, reuse, cluster, region and clients by invented factors.
"""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from tests.samples.results import accounting, ecdf_curve, latency, replication, series_point, trial_summary

from stepbench.analysis.comparability import flatten_setup, group_results
from stepbench.analysis.verdicts import describe_emulated, plan_verdicts
from stepbench.contracts.chart_data import BoxStats, EcdfCurve, PhaseSpan, SeriesPoint
from stepbench.contracts.cost import Cost
from stepbench.contracts.measures import ConnectingResult, KindResult, OperationsResult, PercentileRow, WindowResult
from stepbench.contracts.result import Caveat, RunSummary, TrialResult
from stepbench.experiments.operations.scaling import scaling_curves
from stepbench.stats.scalability import Usl

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.plan import TrialPlan, TrialSpec
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
_KINDS: Kinds = (("read", 0.8), ("insert", 1.1), ("overwrite", 1.0), ("update", 1.05))
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
    clients: int  # 0 in open loop
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
    window: str = _WINDOW
    phase: str = _WINDOW
    group: str = ""
    setup: dict[str, Scalar] | None = None


def operation_results(seed: int = 7) -> tuple[TrialResult, ...]:
    """Return trials of two stores, connections kept and not, TLS on and off three times each, two ladders."""
    rng = random.Random(seed)  # noqa: S311
    ladders = [*_ladder("postgresql", BENT, rng), *_ladder("etcd", STRAIGHT, rng, GENERATOR_PER_S)]
    samples = [*_stores(), *_reuse(), *_tls(), *ladders]
    return tuple(made_up(sample, index, random.Random(seed + index)) for index, sample in enumerate(samples))  # noqa: S311


def over_trials(summary: RunSummary) -> RunSummary:
    """Add what is computed over trials, as `RenderReport` does."""
    trials = summary.trials
    found = {"groups": group_results(trials), "scaling": scaling_curves(trials)}
    said = {"verdicts": plan_verdicts(trials), "not_compared": describe_emulated(trials)}
    return summary.model_copy(update={**found, **said})


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
    """Return the law with 2 % of noise, up to where the generator holds back."""
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
    """Return all that the report shows of it, from the same made-up operations."""
    count = min(4_000, round(sample.per_s * _SECONDS))
    times = {
        kind: [_draw(sample.median_ms * factor, rng) for _ in range(count // len(sample.kinds))]
        for kind, factor in sample.kinds
    }
    every = sorted(time for found in times.values() for time in found)
    window = _window(sample, times, every)
    ok, failed, published_ms = len(every), sample.failed, sample.published_ms
    summary = trial_summary(
        sample.name,
        sample.store,
        index=index,
        experiment="operations",
        provider=sample.provider,
        accounting=accounting(offered=ok + failed, sent=ok + failed, ok=ok, failed=failed, awaited=False),
        windows=(window,),
        caveats=sample.caveats,
        replication=(replication(window, published_ms, "Bianchi (2020), latency mode, read"),) if published_ms else (),
        cost_usd=Cost(estimate=0.002, actual=0.0019),
        group=sample.group or sample.name,
        base=sample.base or sample.name,
        repeat=sample.repeat,
        point=sample.point,
        setup=_setup(sample) if sample.setup is None else sample.setup,
    )
    return TrialResult(
        summary=summary,
        series=_series(sample.phase, every, rng),
        phases=(PhaseSpan(name=sample.phase, measured=True, from_s=0, to_s=_SECONDS),),
        ecdf=(_curve(sample, every),),
        boxes=(_box(sample, every),),
    )


def _setup(sample: Sample) -> dict[str, Scalar]:
    """Build the setup that `analysis.comparability` would find in such a plan."""
    mix = {f"workload.mix.{kind}": 1.0 for kind, _ in sample.kinds}
    load = {f"phases[{_WINDOW}].closed.clients": sample.clients, "writers": 1}
    varied = {path: value for path, value in sample.point.items() if not path.startswith("phases")}
    return {"target.store": sample.store, **mix, "workload.reuse": True, **load, **varied}


def _draw(median_ms: float, rng: random.Random) -> float:
    tail = 4.0 if rng.random() < 0.01 else 1.0
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
        name=sample.window,
        phase=sample.phase,
        n=len(every),
        sent=len(every) + sample.failed,
        failed=sample.failed,
        errors={"not_found": sample.failed} if sample.failed else {},
        offered_per_s=sample.per_s,
        achieved_per_s=sample.per_s,
        latency_ms=latency(every),
        after_ack_ms=None,
        response_write_ms=latency([time + _LATE_MS for time in every]),
        response_trigger_ms=None,
        service_ms=latency(every),
        lateness_ms=latency([_LATE_MS] * len(every)),
        operations=OperationsResult(
            clients=sample.clients or None,
            generator_share=GENERATOR_SHARE if _SATURATED in sample.caveats else 0.02,
            kinds=kinds,
            percentiles=_table(every),
            per_minute=(),
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


def _series(phase: str, every: Sequence[float], rng: random.Random) -> tuple[SeriesPoint, ...]:
    points = []
    for second in range(_SECONDS):
        part = sorted(rng.choices(every, k=max(2, len(every) // _SECONDS)))
        points.append(series_point(second, phase, (len(part), len(part), 0), part))
    return tuple(points)


def _curve(sample: Sample, every: Sequence[float]) -> EcdfCurve:
    """Return a curve thinned as `stats.quantiles.ecdf` does it: dense where the tail is."""
    n = len(every)
    tail = {n - round(n ** (step / 40)) for step in range(41)}
    places = sorted({*range(0, n, max(1, n // 100)), *tail, n - 1} & set(range(n)))
    return ecdf_curve(sample.window, sample.phase, every, n, places)


def _box(sample: Sample, every: Sequence[float]) -> BoxStats:
    p1, p25, p50, p75, p90, p99 = (every[round(q * (len(every) - 1))] for q in (0.01, 0.25, 0.5, 0.75, 0.9, 0.99))
    cuts = {"p1": p1, "p25": p25, "p50": p50, "p75": p75, "p90": p90, "p99": p99}
    return BoxStats(window=sample.window, phase=sample.phase, n=len(every), **cuts)


_SERVICE_MS = {"redis": 0.3, "dynamodb": 4.0, "etcd": 1.2, "dsql": 6.0, "cassandra": 1.5}
_OTHERS_MS = 0.8
_FACTORS: tuple[tuple[str, dict[object, float]], ...] = (
    ("target.tls", {True: 1.2}),
    ("workload.reuse", {False: 9.0}),
    ("target.cluster", {True: 1.1, "multi": 1.4}),
)
_REMOTE_MS = 65.0


def planned_results(specs: Sequence[TrialSpec]) -> tuple[TrialResult, ...]:
    """Return one for each trial of operations, with the names, windows and setup of a run."""
    return tuple(made_up(_sample(spec), spec.index, random.Random(spec.index)) for spec in specs)  # noqa: S311


def _sample(spec: TrialSpec) -> Sample:
    number, measured = next((at, phase) for at, phase in enumerate(spec.offered.phases) if phase.measured)
    median_ms = alone_ms = _median_ms(spec)
    clients = measured.closed.clients if measured.closed else 0
    if measured.invoked and measured.invoked.operations > 1:
        clients = spec.offered.concurrency(number)
    if clients:
        median_ms = 1_000 * clients / Usl(1_000 / alone_ms, 0.03, 0.0001).throughput(clients)
    per_s = 1_000 * clients / (median_ms + (measured.closed.think_ms if measured.closed else 0))
    store = spec.offered.target.store
    window, phase = next((window, phase) for phase in spec.offered.phases for window in phase.all_windows())
    return Sample(
        name=spec.name,
        store=store,
        provider=store,
        clients=clients,
        median_ms=median_ms,
        per_s=per_s or (measured.load[0].rate_per_s if measured.load else 50),
        kinds=tuple(_kinds(spec.offered)),
        point=spec.point,
        base=spec.base,
        repeat=spec.repeat,
        window=window.name,
        phase=phase.name,
        group=spec.group,
        setup=flatten_setup(spec.offered),
    )


def _median_ms(spec: TrialSpec) -> float:
    setup: dict[str, Any] = flatten_setup(spec.offered)
    median_ms = _SERVICE_MS.get(spec.offered.target.store, _OTHERS_MS)
    for path, factors in _FACTORS:
        median_ms *= factors.get(setup.get(path), 1.0)
    return median_ms + (_REMOTE_MS if setup.get("target.region") else 0.0)


def _kinds(plan: TrialPlan) -> Iterator[tuple[Any, float]]:
    mix = plan.workload.mix if plan.workload else None
    yield from ((kind.name.lower(), 1.0 + 0.1 * kind) for kind in sorted(mix.kinds if mix else ()))
