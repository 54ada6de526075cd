"""
What a report shows of DAGs, made up: two applications through three stores, one of them emulated, one tuned.

Nothing in it was measured; times hang together: parts add up to tasks, and tasks to executions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tests.samples.results import accounting, numbered, sample_summary, sample_window, trial_summary

from stepbench.contracts.chart_data import PhaseSpan
from stepbench.contracts.dataflow.dag import Dag, DagInput, Input, Stage
from stepbench.contracts.dataflow.report import (
    DagReplication,
    DataflowBin,
    DataflowChartData,
    ExpectedMix,
    Gantt,
    GanttRow,
    GanttSpan,
    Medium,
    MediumAnswer,
    TuningMark,
)
from stepbench.contracts.dataflow.result import (
    CriticalTask,
    DagWindow,
    DataflowCost,
    DataflowFindings,
    EdgeResult,
    ExecutionAccounting,
    ObjectAccounting,
    PathShare,
    Spread,
    StageResult,
)
from stepbench.contracts.measures import Estimate
from stepbench.contracts.result import TrialResult
from stepbench.contracts.tuning import (
    AppliedConfiguration,
    CassandraConfiguration,
    EffectiveConfiguration,
    Expected,
    StoreWorkload,
    TuningDecision,
    TuningStep,
)
from stepbench.workload.topology import all_objects

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.dataflow.result import PathPart
    from stepbench.contracts.result import RunSummary

EXECUTIONS = 6
VIDEO = Dag(
    name="video",
    input=DagInput(maker="video.render"),
    stages=(
        Stage(name="split", task="video.split"),
        Stage(name="extract", task="video.extract", tasks=6, inputs=(Input(stage="split", kind="scatter"),)),
        Stage(name="classify", task="video.classify", tasks=6, inputs=(Input(stage="extract", kind="scatter"),)),
        Stage(name="labels", task="video.labels", inputs=(Input(stage="classify", kind="gather"),)),
    ),
)
LEARNING = Dag(
    name="learning",
    input=DagInput(maker="learning.digits"),
    stages=(
        Stage(name="pca", task="learning.pca"),
        Stage(name="train", task="learning.train", tasks=6, inputs=(Input(stage="pca", kind="broadcast"),)),
        Stage(
            name="test",
            task="learning.test",
            inputs=(Input(stage="train", kind="gather"), Input(stage="pca", kind="broadcast")),
        ),
    ),
)
DAGS = (VIDEO, LEARNING)
BLOB_BYTES = {"split": 524_288, "extract": 48_000, "classify": 4_100, "pca": 2_097_152, "train": 180_000}
_COMPUTE_MS = {"split": 40.0, "extract": 90.0, "classify": 25.0, "labels": 4.0, "pca": 180.0, "train": 350.0}
_START_MS, _BARRIER_MS, _OPEN_MS, _INPUT_MS = 18.0, 22.0, 6.0, 9.0


class SampleMedium(NamedTuple):
    """How one made-up store behaves: its own time, its rate, the dollars of an execution."""

    name: str
    store: str
    provider: str
    emulated: bool
    store_ms: float
    mib_per_s: float
    usd: float


MEDIA = (
    SampleMedium("s3", "s3", "MiniStack 1.5.33", emulated=True, store_ms=9, mib_per_s=60, usd=4.1e-5),
    SampleMedium("redis", "redis", "Valkey 8.1 (wheel)", emulated=False, store_ms=0.4, mib_per_s=600, usd=9.4e-5),
    SampleMedium("cassandra", "cassandra", "Cassandra 5.0.9", emulated=False, store_ms=4, mib_per_s=110, usd=6.2e-5),
)


def about(value: float) -> Estimate:
    """Return a number with an interval of some per cent."""
    return Estimate(value=value, low=value * 0.94, high=value * 1.08)


def spread(value: float, n: int = EXECUTIONS) -> Spread:
    """Return a measure whose values lie near each other."""
    tail = Estimate(value=value * 1.3, reason=f"n={n} < 73")
    return Spread(n=n, p50=about(value), p95=tail, mean=value * 1.02, max=value * 1.4)


def transfer_ms(medium: SampleMedium, blob_bytes: int) -> float:
    """Return how long bytes are on their way."""
    return blob_bytes / 2**20 / medium.mib_per_s * 1_000


def task_parts(dag: Dag, stage: Stage, medium: SampleMedium) -> dict[str, float]:
    """Return the parts of one task, in ms."""
    stages = dag.by_name
    reads = [
        (BLOB_BYTES[each.stage], stages[each.stage].tasks if each.kind != "scatter" else 1) for each in stage.inputs
    ]
    consumers = dag.consumers_of(stage.name)
    writes = [(BLOB_BYTES[stage.name], each.tasks if kind == "scatter" else 1) for each, kind in consumers]
    if stage.name == "extract":
        writes = [(BLOB_BYTES["extract"], 1)]
    passed = {
        name: sum(number * (medium.store_ms + transfer_ms(medium, size)) for size, number in moved)
        for name, moved in (("get", reads), ("put", writes))
    }
    own = {
        "open": _OPEN_MS,
        "input": _INPUT_MS if stage.takes_input else 0.0,
        "compute": _COMPUTE_MS.get(stage.name, 60.0),
    }
    return {**own, **passed, "rest": 1.5}


def dag_window(dag: Dag, medium: SampleMedium, phase: str) -> DagWindow:
    """Return one window's executions."""
    path = path_ms(dag, medium)
    whole = sum(path.values())
    passing = path["get"] + path["put"]
    latency = sample_window(phase, [whole * (1 + 0.01 * place) for place in range(EXECUTIONS)]).latency_ms
    return DagWindow(
        dag=dag.name,
        window=phase,
        phase=phase,
        n=EXECUTIONS,
        completed=EXECUTIONS,
        failed=0,
        end_to_end_ms=latency.model_copy(update={"p50": about(whole)}),
        from_start_ms=latency,
        path=tuple(PathShare(part=part, ms=spread(ms), share=about(ms / whole)) for part, ms in path.items()),
        critical=tuple(
            CriticalTask(level=level, stage=stages[0].name, executions=EXECUTIONS, most_often=stages[0].tasks - 1)
            for level, stages in enumerate(dag.levels)
        ),
        passing_on_path=about(passing / whole),
        passing_of_tasks=about(0.9 * passing / whole),
        orchestration=about((path["start"] + path["barrier"]) / whole),
        stages=tuple(_stage(dag, stage, level, medium) for level, each in enumerate(dag.levels) for stage in each),
        levels=(),
        edges=tuple(_edges(dag, medium)),
        passed_mib=spread(sum(BLOB_BYTES[each.producer] * (1 + each.reads) for each in all_objects(dag)) / 2**20),
    )


def path_ms(dag: Dag, medium: SampleMedium) -> dict[PathPart, float]:
    """Return what an execution's time consists of."""
    parts = [task_parts(dag, stages[0], medium) for stages in dag.levels]
    path: dict[PathPart, float] = {"start": _START_MS, "barrier": _BARRIER_MS * (len(dag.levels) - 1)}
    names: tuple[PathPart, ...] = ("open", "input", "get", "compute", "put", "rest")
    return path | {name: sum(each[name] for each in parts) for name in names}


def _stage(dag: Dag, stage: Stage, level: int, medium: SampleMedium) -> StageResult:
    parts = task_parts(dag, stage, medium)
    whole, n = sum(parts.values()), EXECUTIONS * stage.tasks
    times: dict[str, Any] = {f"{name}_ms": spread(ms, n) for name, ms in parts.items()}
    times["get_ms" if stage.takes_input else "input_ms"] = None
    if not dag.consumers_of(stage.name):
        times["put_ms"] = None
    return StageResult(
        name=stage.name,
        task=stage.task,
        level=level,
        tasks=stage.tasks,
        duration_ms=spread(whole * 1.1),
        task_ms=spread(whole, n),
        passing_share=about((parts["get"] + parts["put"]) / whole),
        stragglers=spread(1.2) if stage.tasks >= 3 else None,
        cold_starts=1,
        init_ms=310.0,
        retries=0,
        memory_mib=142.0,
        cpu_share=0.6,
        **times,
    )


def _edges(dag: Dag, medium: SampleMedium) -> Iterator[EdgeResult]:
    objects = all_objects(dag)
    for stage in dag.stages:
        for each in stage.inputs:
            own = [one for one in objects if (one.producer, one.consumer) == (each.stage, stage.name)]
            size = BLOB_BYTES[each.stage]
            network = transfer_ms(medium, size)
            whole = medium.store_ms + network
            rate = spread(size / 2**20 / whole * 1_000)
            times = {
                "put": whole, "get": whole, "serialise": 0.4, "put_network": network, "put_store": medium.store_ms,
                "get_store": medium.store_ms * 0.8, "get_network": network, "deserialise": 0.3,
            }  # fmt: skip
            yield EdgeResult(
                producer=each.stage,
                consumer=stage.name,
                kind=each.kind,
                objects=len(own),
                reads=sum(one.reads for one in own),
                blob_bytes=spread(size),
                put_mib_per_s=rate,
                get_mib_per_s=rate,
                put_requests=1.0,
                get_requests=1.0,
                failed=0,
                **{f"{name}_ms": spread(ms) for name, ms in times.items()},
            )


def object_accounting(dags: tuple[Dag, ...] = DAGS, **changes: int | None) -> ObjectAccounting:
    """Return an accounting that is complete, but for the changes."""
    objects = [each for dag in dags for each in all_objects(dag)]
    written = EXECUTIONS * len(objects)
    reads = EXECUTIONS * sum(each.reads for each in objects)
    fields = {
        "expected": written, "written": written, "unwritten": 0, "read": written, "unread": 0, "reads_expected": reads,
        "reads": reads, "reads_missing": 0, "again": 0, "not_found": 0, "damaged": 0, "failed": 0, "deleted": written,
        "unconfirmed": 0, "left": 0, "not_deleted": 0,
    }  # fmt: skip
    return ObjectAccounting(**{**fields, **changes})


def findings(
    medium: SampleMedium, dags: tuple[Dag, ...] = DAGS, tuning: tuple[TuningStep, ...] = ()
) -> DataflowFindings:
    """Return what one trial shows: each DAG in a phase of its own."""
    windows = tuple(dag_window(dag, medium, dag.name) for dag in dags)
    tasks = EXECUTIONS * sum(dag.tasks for dag in dags)
    started = EXECUTIONS * len(dags)
    results = {
        "video/labels-0": '{"labels": [3, 1, 4, 1, 5, 9], "right": 6}',
        "learning/test-0": '{"accuracy": 0.9611}',
    }
    return DataflowFindings(
        dags=dags,
        executions=ExecutionAccounting(
            started=started, completed=started, failed=0, unfinished=0, tasks=tasks, attempts=tasks, failed_attempts=0,
            cold_starts=7,
        ),
        objects=object_accounting(dags),
        expected=tuple(_expected(dag) for dag in dags),
        windows=windows,
        costs=tuple(_costs(windows, medium)),
        results={name: text for name, text in results.items() if name.partition("/")[0] in {dag.name for dag in dags}},
        tuning=tuning,
    )  # fmt: skip


def _expected(dag: Dag) -> ExpectedMix:
    objects = all_objects(dag)
    reads = sum(each.reads for each in objects)
    share = reads / (reads + len(objects))
    return ExpectedMix(
        dag=dag.name,
        tasks=dag.tasks,
        objects=len(objects),
        reads=reads,
        read_share=share,
        mix="read-heavy" if share > 0.6 else "balanced",
        concurrency=max(sum(stage.tasks for stage in level) for level in dag.levels),
        edges=(),
        levels=(),
        text=f"{len(objects)} objects, {reads} reads: {100 * share:.0f} % of requests read.",
    )


def _costs(windows: tuple[DagWindow, ...], medium: SampleMedium) -> Iterator[DataflowCost]:
    for window in windows:
        for idle in (False, True):
            usd = medium.usd * (3 if idle and medium.store != "s3" else 1)
            seconds = (window.end_to_end_ms.p50.value or 0) / 1_000
            yield DataflowCost(
                dag=window.dag, window=window.window, phase=window.phase, prices="eu-west-1, 2026-11", idle=idle,
                usd=about(usd), parts_usd={"store": usd / 2, "functions": usd / 2},
                perf_per_usd=about(1 / seconds / usd), modelled="AWS's prices, local times",
            )  # fmt: skip


def drawn(medium: SampleMedium, dags: tuple[Dag, ...] = DAGS, marks: tuple[TuningMark, ...] = ()) -> DataflowChartData:
    """Return what the charts of one trial draw."""
    bins = tuple(
        DataflowBin(second=second, phase=dags[second // 8 % len(dags)].name, completed=1, puts=12, gets=18,
                    put_mib=3 + second % 3, get_mib=5 + second % 4)
        for second in range(16) if second != 7
    )  # fmt: skip
    return DataflowChartData(gantts=tuple(gantt(dag, medium) for dag in dags), bin_s=1, bins=bins, marks=marks)


def gantt(dag: Dag, medium: SampleMedium) -> Gantt:
    """Return one execution; the last task of the first wide level was tried twice."""
    at, rows = _START_MS, []
    for level, stages in enumerate(dag.levels):
        ends = []
        for stage in stages:
            parts = task_parts(dag, stage, medium)
            for index in range(stage.tasks):
                begin = at + 1.5 * index
                end = begin + sum(parts.values())
                retried = level == 1 and index == stage.tasks - 1
                if retried:
                    rows.append(_row(_Attempt(stage.name, index, 0, level, begin, {"open": _OPEN_MS}, ok=False)))
                    begin, end = begin + 40, end + 40
                ends.append(end)
                rows.append(_row(_Attempt(stage.name, index, int(retried), level, begin, parts)))
        at = max(ends) + _BARRIER_MS
        latest = max(range(len(rows)), key=lambda place: (rows[place].level, rows[place].to_ms))
        rows[latest] = rows[latest].model_copy(update={"critical": True})
    event = "run0000-0001"
    return Gantt(
        dag=dag.name, window=dag.name, phase=dag.name, event=event, start_ms=0.3, end_ms=at - 8, rows=tuple(rows)
    )


class _Attempt(NamedTuple):
    """An attempt at a task: whose, when, of which parts."""

    stage: str
    task: int
    number: int
    level: int
    begin: float
    parts: dict[str, float]
    ok: bool = True


def _row(of: _Attempt) -> GanttRow:
    spans, at = [], of.begin
    for name in ("open", "input", "get", "compute", "put", "rest"):
        took = of.parts.get(name, 0.0)
        if took:
            moved = {"blob_bytes": 524_288, "objects": 2, "mib_per_s": 88.0} if name in {"get", "put"} else {}
            spans.append(GanttSpan(kind=name, from_ms=at, to_ms=at + took, **moved))
            at += took
    error = "" if of.ok else "truncated: 3 of 9 bytes"
    return GanttRow(
        stage=of.stage, index=of.task, attempt=of.number, level=of.level, from_ms=of.begin, to_ms=at, ok=of.ok,
        cold=of.task == 0, critical=False, error=error, spans=tuple(spans),
    )  # fmt: skip


def media_answers(media: tuple[SampleMedium, ...] = MEDIA) -> tuple[MediumAnswer, ...]:
    """Return which store is the best for each DAG, by time and by dollars; emulated ones are not ranked."""
    real = [each for each in media if not each.emulated]
    return tuple(
        MediumAnswer(
            dag=dag.name,
            phase=dag.name,
            window=dag.name,
            measure="end_to_end",
            ranked=tuple(
                Medium(name=each.name, group=each.name, runs=1, value=about(sum(path_ms(dag, each).values())))
                for each in sorted(real, key=lambda each: sum(path_ms(dag, each).values()))
            ),
            not_ranked=tuple(each.name for each in media if each.emulated),
            sure=True,
            advantage=about(1.3),
            text=f"For {dag.name}, redis is the fastest: 1.30 times as fast as cassandra.",
        )
        for dag in DAGS
    )


PUBLISHED = (
    DagReplication(
        metric="perf_per_dollar", trial="cassandra", over_trial="s3", dag="video", phase="video", window="video",
        published=2.89, unit="ratio", source="section 4.1", note="The introduction says up to 3.06.", ours=about(0.8),
        ours_idle=about(0.3), ratio=about(0.28), ratio_idle=about(0.1), caveat="the store of s3 is emulated",
    ),
    DagReplication(
        metric="passing_share", trial="cassandra", dag="learning", phase="learning", window="learning", published=0.75,
        unit="share", bound="above", source="introduction", ours=about(0.16), ratio=about(0.21),
    ),
)  # fmt: skip
RELEASED = EffectiveConfiguration(
    version="5.0.9", compaction=("UCS",), concurrent_writes=32, file_cache_mib=0, memtable_cleanup_threshold=0.33,
    concurrent_compactors=2,
)  # fmt: skip
TUNED = CassandraConfiguration(
    compaction="LCS", concurrent_writes=16, file_cache_mib=128, memtable_cleanup_threshold=0.2, concurrent_compactors=4
)


def tuning_steps() -> tuple[TuningStep, ...]:
    """Return three decisions: one to reconfigure, two to leave the store as it is, once after a look at it."""
    workload = StoreWorkload(read_share=0.5, blob_bytes=524_288, clients=6)
    shared = {
        "decided_ns": 1, "mode": "adaptive", "ahead": (Expected(workload=workload, duration_s=60),), "nodes": 1,
        "old_per_s": 210.0, "reconfiguration_s": 12.0,
    }  # fmt: skip
    pays = TuningDecision(
        phase="video", dag="video", old=None, new=TUNED, new_per_s=290.0, old_benefit=12_600, new_benefit=17_400,
        cost=2_520, reconfigure=True, reason="it pays", **shared,
    )  # fmt: skip
    not_worth = TuningDecision(
        phase="learning", dag="learning", old=TUNED, new=None, new_per_s=215.0, old_benefit=12_600, new_benefit=12_900,
        cost=2_520, reconfigure=False, reason="it does not pay", **shared,
    )  # fmt: skip
    after = RELEASED.model_copy(
        update={"compaction": ("LCS",), "file_cache_mib": 128, "notes": ("threshold: advised against",)}
    )
    done = AppliedConfiguration(before=RELEASED, after=after, changed=("file_cache_mib",), away_s=11.4)
    looked_at = AppliedConfiguration(before=after, after=after, changed=())
    again = not_worth.model_copy(update={"phase": "video"})
    return (
        TuningStep(decision=pays, done=done), TuningStep(decision=not_worth), TuningStep(decision=again, done=looked_at)
    )  # fmt: skip


MARKS = (
    TuningMark(second=0.0, phase="video", reconfigured=True, outage_s=1.4, text="file_cache_mib"),
    TuningMark(second=8.0, phase="learning", reconfigured=False, text="it does not pay"),
)


def dataflow_trial(medium: SampleMedium, *, tuned: bool = False) -> TrialResult:
    """Return the result of a trial of `dataflow`."""
    steps, marks = (tuning_steps(), MARKS) if tuned else ((), ())
    shown = findings(medium, tuning=steps)
    windows = tuple(
        sample_window(each.window, [(each.from_start_ms.p50.value or 0) * (1 + 0.01 * n) for n in range(EXECUTIONS)])
        for each in shown.windows
    )
    n = EXECUTIONS * len(DAGS)
    whole = {"offered": n, "sent": n, "ok": n, "ok_arrived": n, "received": n}
    summary = trial_summary(
        f"{medium.name}-adaptive" if tuned else medium.name,
        medium.store,
        experiment="dataflow",
        provider=medium.provider,
        emulated=medium.emulated,
        windows=windows,
        accounting=accounting(**whole),
        dataflow=shown,
        setup={"target.store": medium.store} | ({"target.tuning.mode": "adaptive"} if tuned else {}),
    )
    phases = tuple(
        PhaseSpan(name=dag.name, measured=True, from_s=8 * place, to_s=8 * place + 8) for place, dag in enumerate(DAGS)
    )
    return TrialResult(summary=summary, series=(), phases=phases, ecdf=(), dataflow=drawn(medium, marks=marks))


def dataflow_results() -> tuple[TrialResult, ...]:
    """Return a run's trials: the three stores, and the last of them tuned."""
    own = [dataflow_trial(medium) for medium in MEDIA]
    return numbered([*own, dataflow_trial(MEDIA[-1]._replace(store_ms=3), tuned=True)])


SHOWN = {"media": media_answers(), "published_dags": PUBLISHED}
"""What only a run's summary has."""


def dataflow_run() -> tuple[RunSummary, tuple[TrialResult, ...]]:
    """Return a run's summary, with which store is the best, and its trials' results."""
    results = dataflow_results()
    return sample_summary(results, "quick-dataflow").model_copy(update=SHOWN), results
