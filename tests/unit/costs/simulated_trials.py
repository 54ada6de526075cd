"""
What a trial does and how long it takes, counted by walking through it: a second opinion on every estimate.

It knows nothing of `stepbench.costs.assumptions`. Open loops are counted by their own schedules, clients of closed
loops go through their operations one by one, a search probes a store whose capacity is known here, `until` looks at a
sample that is drawn, and a stream's shard is polled. What that comes to is priced as a finished trial's counts are, by
`actual_cost` and `transfer_cost`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import binom

from stepbench.contracts.experiment import QUANTILES, measure_of
from stepbench.contracts.invocations import Invocations
from stepbench.contracts.target import DynamoDbTarget
from stepbench.contracts.transfer.plan import MIB, TransferTrial
from stepbench.contracts.workload import ClusterRecord, Kind
from stepbench.costs.actual import Done, FunctionUsage, actual_cost
from stepbench.costs.prices import Offered
from stepbench.costs.standing import Deployment
from stepbench.costs.transitions import Visits, trial_transitions
from stepbench.experiments.dataflow.offering import transitions_of
from stepbench.experiments.transfer.offering import TransferUsage, transfer_cost
from stepbench.stats.bracketing import ProbeResult, decide
from stepbench.workload.arrivals import phase_offsets_ns
from stepbench.workload.expected_mix import expected_mix

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from stepbench.contracts.dataflow.dag import Stage
    from stepbench.contracts.phase import Phase
    from stepbench.contracts.plan import AnyTrial, TrialPlan
    from stepbench.contracts.workload import InvokedLoad

MOST_STEPS = 20_000
"""A client's operations are gone through one by one up to here, and then in proportion; so are events of a schedule."""
GB_S_USD = 1.6667e-5
RUN_S, RUN_USD = 2.3, 0.0006
"""A run beside its trials: until its report, and what its own states, stages and objects cost."""


@dataclass(frozen=True)
class Place:
    """
    Where a trial runs. Times are in seconds.

    kinds: a store's answers to a read and to a write. at_once_per_s: what a store does at most. lead_s: how long before
    a phase its writers are there, and starts_s the writers after the first. receiving_s: an invocation by a trigger.
    polls_per_s: of a stream's shard. tasks: by their application. dag_s: Step Functions, on a level. stages_s: GB-s of
    a trial's other functions. sandbox_s, task_s, changing_s: of transfers, beside the reads.
    """

    prepares_s: float
    lead_s: float
    starts_s: float
    between_s: float
    finishes_s: float
    kinds: Mapping[str, tuple[float, float]]
    at_once_per_s: Mapping[str, float]
    writer_per_s: float
    connecting_s: float
    receiving_s: float
    polls_per_s: float
    takes_windows: bool
    tasks: Mapping[str, float]
    dag_s: float
    stages_s: float
    metrics_s: float
    look_s: float
    mib_per_s: float
    sandbox_s: float
    warm_s: float
    task_s: float
    billed_task_s: float
    changing_s: float
    invocation_s: float = 0.05
    begins_per_s: float = 50
    emulator: str = ""


WORTH_ONE = 15
"""Events of a store that resemble their neighbours, and tell as much as one that does not."""
HERE = Place(
    prepares_s=1.5, lead_s=3.0, starts_s=0.45, between_s=1.3, finishes_s=2.2, receiving_s=0.0038, polls_per_s=25,
    kinds={
        "dynamodb": (0.002, 0.0025), "redis": (0.0004, 0.0005), "postgresql": (0.0005, 0.0025),
        "etcd": (0.0016, 0.0024), "cassandra": (0.0012, 0.0016),
    },
    at_once_per_s={"dynamodb": 2_000, "postgresql": 8_200, "etcd": 2_400, "redis": 11_000, "cassandra": 2_500},
    writer_per_s=11_000, connecting_s=0.03, takes_windows=False, tasks={"synthetic": 0.06, "": 0.45}, dag_s=0.2,
    stages_s=1.2, metrics_s=1.0, look_s=0.3, mib_per_s=700, sandbox_s=0.15, warm_s=0.15, task_s=3.8, billed_task_s=1,
    changing_s=2.2, emulator="an emulator",
)  # fmt: skip
"""By the runs of `counted_runs.json`, on a machine of two cores with other work on it."""
ON_AWS = Place(
    prepares_s=50, lead_s=30, starts_s=0, between_s=4, finishes_s=70, receiving_s=0.014, polls_per_s=4,
    kinds={
        "dynamodb": (0.0035, 0.005), "redis": (0.0005, 0.0005), "postgresql": (0.0008, 0.004),
        "etcd": (0.0012, 0.003), "cassandra": (0.0008, 0.0008), "dsql": (0.005, 0.012),
    },
    at_once_per_s={}, writer_per_s=7_000, connecting_s=0.012, takes_windows=True, tasks={"synthetic": 0.25, "": 3.5},
    dag_s=0.4, stages_s=14, metrics_s=100, look_s=6, mib_per_s=70, sandbox_s=2.5, warm_s=0.4, task_s=55,
    billed_task_s=40, changing_s=9,
)  # fmt: skip
"""By documentation and publications: nothing was run there."""


def count_run(trials: list[AnyTrial], place: Place) -> tuple[float, float]:
    """Return the seconds that a run of trials takes, and the dollars of what it does."""
    seconds, usd = (sum(column) for column in zip(*(count(trial, place) for trial in trials), strict=True))
    return seconds + RUN_S, usd + RUN_USD


def count(trial: AnyTrial, place: Place) -> tuple[float, float]:
    """Return the seconds that a trial takes, and the dollars of what it does."""
    return _count_transfers(trial, place) if isinstance(trial, TransferTrial) else _Walk(trial, place).run()


@dataclass
class _Walk:
    """A trial as it goes by: `now_s` since it began."""

    trial: TrialPlan
    place: Place
    now_s: float = 0
    offered: int = 0
    offering_s: float = 0
    watched_s: float = 0
    probes: int = 0
    looks: int = 0
    executions: int = 0
    batches: int = 0
    slices: int = 0
    invoked: int = 0
    invoked_s: float = 0

    def run(self) -> tuple[float, float]:
        find, results = self.trial.find_rate, list[ProbeResult]()
        full_per_s = 1.0 if find is None else max(find.high_per_s * 0.6, find.low_per_s * 2) / find.utilisation
        self.now_s += self.place.prepares_s
        from_s = self.now_s
        for number, phase in enumerate(self.trial.run_phases):
            rate_per_s = None
            if find is not None and (phase.probe or phase.uses_found_rate):
                decision = decide(find, results)
                rate_per_s = decision.next_per_s if phase.probe else decision.found_per_s or find.high_per_s
                if rate_per_s is None:
                    continue
                results += [ProbeResult(rate_per_s, rate_per_s, rate_per_s / full_per_s)] if phase.probe else []
            self._offer(number, phase, rate_per_s)
        self.watched_s = self.now_s - from_s + 2
        self.now_s += self.place.finishes_s
        return self.now_s, self._usd()

    def _invoke(self, phase: Phase, load: InvokedLoad) -> None:
        """Let a Map begin one invocation after the other, as soon as a place is free and at its own pace."""
        each_s = self.place.invocation_s + load.operations * self._answer_s(phase)
        free_s = [0.0] * self.trial.concurrency(self.trial.phases.index(phase))
        for number in range(self.trial.writers):
            place = free_s.index(min(free_s))
            free_s[place] = max(free_s[place], number / self.place.begins_per_s) + each_s
        self.offered += self.trial.writers * load.operations
        self.invoked, self.invoked_s = self.invoked + self.trial.writers, self.invoked_s + self.trial.writers * each_s
        self.now_s += self.place.between_s + phase.settle_s + max(free_s)

    def _offer(self, number: int, phase: Phase, rate_per_s: float | None) -> None:
        if not phase.gapless and phase.invoked is None:
            starts_s = self.place.starts_s * (self.trial.writers - 1)
            self.now_s += 1.2 * (self.place.lead_s + starts_s) + self.place.between_s
        if phase.invoked is not None:
            self._invoke(phase, phase.invoked)
            return
        count, length_s = self._closed(phase) if phase.closed else self._open(number, phase, rate_per_s)
        if self.trial.experiment == "dataflow":
            self.executions += count
            length_s += 0 if phase.closed else self._execution_s(phase)
        if rate_per_s is not None:
            self.probes, self.now_s = self.probes + 1, self.now_s + self.place.metrics_s
        self.offered, self.offering_s = self.offered + count, self.offering_s + length_s * self.trial.writers
        self.batches += self._batches(count, length_s)
        self.slices += phase.slices * self.trial.writers
        self.now_s += phase.settle_s + length_s

    def _open(self, number: int, phase: Phase, rate_per_s: float | None) -> tuple[int, float]:
        if rate_per_s is not None:
            asked = [rate_per_s if step.of_found is None else rate_per_s * step.of_found for step in phase.load]
            counts = [min(rate, step.rate_per_s) * step.length_s for rate, step in zip(asked, phase.load, strict=True)]
            return round(sum(counts)), phase.length_s
        if phase.until is not None:
            return self._until(phase)
        if phase.events > MOST_STEPS:
            return phase.events, phase.length_s
        due = [phase_offsets_ns(self.trial, number, writer).size for writer in range(self.trial.writers)]
        return sum(due), phase.length_s

    def _until(self, phase: Phase) -> tuple[int, float]:
        """Look after each quarter more of the events, until the interval of a drawn sample is narrow enough."""
        until, planned = phase.until, sum(step.events for step in phase.load)
        assert until is not None
        q, seen = QUANTILES[until.metric], float(planned)
        times = np.random.default_rng(3).lognormal(0, 0.4, until.max_events)
        wanted = until.relative_width / math.sqrt(WORTH_ONE)
        while seen < until.max_events and _relative_width(times[: int(seen)], q) > wanted:
            seen, self.looks = min(until.max_events, seen * 1.25), self.looks + 1
        self.looks += 1
        return round(seen), phase.shortest_s + (seen - planned) / phase.load[-1].rate_per_s

    def _closed(self, phase: Phase) -> tuple[int, float]:
        closed = phase.closed
        assert closed is not None
        cycle_s = closed.think_ms / 1e3 + self._answer_s(phase)
        if self.trial.experiment != "dataflow":
            at_once = self.place.at_once_per_s.get(self.trial.target.store, math.inf)
            cycle_s = max(cycle_s, closed.clients / min(at_once, self.place.writer_per_s * self.trial.writers))
        most = closed.operations_of(0) or math.inf
        steps = int(min(MOST_STEPS, closed.duration_s / cycle_s * 2 + 10, most))
        ends_s = np.cumsum(cycle_s * np.random.default_rng(1).lognormal(-0.02, 0.2, steps))
        if steps == most and ends_s[-1] <= closed.duration_s:
            return closed.operations or 0, float(ends_s[-1])
        done = int(np.searchsorted(ends_s, closed.duration_s))
        if done == steps:
            done = int(min(most, steps * closed.duration_s / ends_s[-1]))
        made = min(closed.clients * max(done, 1), self.trial.kept_operations(phase.length_s))
        return made, closed.duration_s if most == math.inf else min(closed.duration_s, most * cycle_s)

    def _answer_s(self, phase: Phase) -> float:
        workload = self.trial.workload
        if workload is None:
            return self._execution_s(phase)
        if isinstance(workload.record, ClusterRecord):
            return 8.2 if workload.record.peer_region is None else 108
        read_s, written_s = self.place.kinds[self.trial.target.store]
        scanned_s = read_s + workload.scan_rows * 15e-6
        taken_s = {Kind.READ: read_s, Kind.READ_MODIFY_WRITE: read_s + written_s, Kind.SCAN: scanned_s}
        weights = workload.mix.weights
        mean_s = sum(weights[kind] * taken_s.get(kind, written_s) for kind in workload.mix.kinds) / workload.mix.total
        return mean_s + (0 if workload.reuse else self.place.connecting_s)

    def _execution_s(self, phase: Phase) -> float:
        return sum(self.place.dag_s + max(map(self._task_s, level)) for level in self.trial.dag_of(phase).levels)

    def _task_s(self, stage: Stage) -> float:
        taken_s = self.place.tasks.get(stage.task.partition(".")[0], self.place.tasks[""])
        return taken_s + float(stage.parameters.get("compute_ms", 0)) / 1e3

    def _batches(self, count: int, length_s: float) -> int:
        """Return how many invocations, or items of a watcher, a phase's events make."""
        arriving = round(count * self.trial.record.matching_share)
        if not measure_of(self.trial.experiment).arrives or not arriving:
            return 0
        target = self.trial.target
        if self.trial.pull:
            return min(arriving, math.ceil(length_s))
        if not isinstance(target, DynamoDbTarget):
            return arriving
        window_s = max(1 / self.place.polls_per_s, target.batching_window_s if self.place.takes_windows else 0)
        looks = max(1, math.ceil(length_s / window_s))
        found = np.bincount((np.arange(arriving) * looks) // arriving, minlength=looks)
        return int(np.ceil(found / target.batch_size).sum())

    def _usd(self) -> float:
        trial, arrives = self.trial, measure_of(self.trial.experiment).arrives
        functions = tuple(self._functions())
        phases = len(trial.phases) if trial.find_rate is None else len(trial.run_phases)
        visits = Visits(
            phases=phases, needed=len(trial.phases), slices=self.slices + self.invoked,
            on_host=trial.load_from == "host",
            invoked={each.name: each.invocations for each in functions} | {"CollectLogs": 1},
            lanes=2 if trial.pull else 0, maps=sum(phase.invoked is not None for phase in trial.phases),
            inline=len(trial.inline_phases) * trial.writers, inline_phases=len(trial.inline_phases),
        )  # fmt: skip
        dags = [
            (trial.dag_of(phase), self.executions / len(trial.run_phases)) for phase in trial.run_phases if trial.dags
        ]
        mixes = [(expected_mix(dag), number) for dag, number in dags]
        canaries = 3 if arrives else 0
        done = Done(
            offered=Offered(self.offered + trial.preloaded_keys, canaries, self.now_s / 3_600),
            delivered=round(self.offered * trial.record.matching_share) if arrives else 0,
            batches=self.executions or self.batches + canaries,
            functions=functions,
            transitions=trial_transitions(visits),
            objects=10 + 3 * self.slices,
            dag_transitions=round(sum(n * transitions_of(len(dag.levels), dag.tasks, dag.tasks) for dag, n in dags)),
            dag_writes=round(sum(n * (2 * mix.tasks + (mix.objects + mix.reads) / 50) for mix, n in mixes)),
        )
        offered = trial.model_copy(update={"phases": trial.run_phases})
        host = {} if self.place.emulator else {"LoadHost": "on", "LoadHostInstanceType": "i4i.2xlarge"}
        stack = Deployment(emulator=self.place.emulator, options=host if trial.load_from == "host" else {})
        cost = actual_cost(offered, done, stack, 0)
        return (cost.actual or 0) + self.place.stages_s * GB_S_USD

    def _functions(self) -> Iterator[FunctionUsage]:
        trial, place = self.trial, self.place
        if trial.load_from == "lambda":
            hold_s = place.lead_s + place.starts_s * (trial.writers - 1)
            held_s = self.offering_s + self.slices * hold_s + self.invoked_s
            yield FunctionUsage("RunWriter", self.slices + self.invoked, held_s)
        if trial.pull:
            yield FunctionUsage("WatchChanges", math.ceil(self.watched_s / trial.watch_loop_s), self.watched_s)
        elif trial.experiment == "trigger":
            yield FunctionUsage("ReceiveEvents", self.batches + 3, (self.batches + 3) * place.receiving_s)
        if trial.target.receiver == "CheckClock":
            yield FunctionUsage("CheckClock", self.offered + 3, (self.offered + 3) * place.receiving_s)
        for phase in trial.run_phases if trial.dags else ():
            dag, number = trial.dag_of(phase), self.executions / len(trial.run_phases)
            gb_s = number * 1.73 * sum(self._task_s(stage) * stage.tasks for stage in dag.stages)
            yield FunctionUsage("RunTask", round(number * dag.tasks), gb_s)
            yield FunctionUsage("EndDataflow", round(number), number * 0.1)
        for name, number in (("PrepareTarget", 1), ("AwaitTarget", 1), ("PlanPhase", 1), ("AwaitArrivals", 1)):
            yield FunctionUsage(name, number, place.stages_s / 4)
        yield FunctionUsage("CheckPrecision", self.looks, self.looks * place.look_s)
        yield FunctionUsage("MeasureUtilisation", 2 * self.probes, 2 * self.probes * place.look_s)


def _count_transfers(trial: TransferTrial, place: Place) -> tuple[float, float]:
    """Go through all transfers, as many at once as may be, each due at its time."""
    free_s, sizes = [0.0] * trial.concurrency, trial.expected_mib()
    billed_s, task_s, read_mib = 0.0, list[float](), 0.0
    for number in range(trial.transfers):
        for platform in trial.platforms:
            mib = sizes[number]
            reads_s, read_mib = len(trial.sources) * mib / place.mib_per_s, read_mib + mib
            if platform == "fargate":
                task_s.append(reads_s + place.billed_task_s)
                taken_s = reads_s + place.task_s
            else:
                start_s = place.warm_s if trial.cold == "no" else place.sandbox_s
                billed_s += reads_s + (0.004 if place.emulator else start_s)
                taken_s = reads_s + start_s + (place.changing_s if trial.cold == "required" else 0)
            begin_s = max(min(free_s), number * trial.every_s)
            free_s[free_s.index(min(free_s))] = begin_s + taken_s
    lambdas = trial.transfers if "lambda" in trial.platforms else 0
    refreshed = lambdas if trial.cold == "required" else 0
    once = ("PrepareTarget", "SeedFiles", "PlanPhase")
    functions = [_use("RunTransfer", lambdas, billed_s * 10), _use("RefreshSandboxes", refreshed, refreshed * 2)]
    functions += [_use(name, 1, place.stages_s / 3) for name in once]
    visits = Visits(
        phases=1, needed=1, slices=trial.processes, on_host=False, transfers=trial.processes, tasks=len(task_s),
        invoked={each.function: each.invocations for each in functions} | {"AwaitTarget": 1, "CollectLogs": 1},
    )  # fmt: skip
    usage = TransferUsage(
        efs_bytes=round(read_mib * MIB) if "efs" in trial.sources else 0,
        s3_requests=trial.processes * trial.connections if "s3" in trial.sources else 0,
        functions=tuple(functions), transitions=trial_transitions(visits), task_s=tuple(task_s),
        processes=trial.processes,
    )  # fmt: skip
    cost = transfer_cost(usage, Deployment(emulator=place.emulator), 0)
    around_s = place.prepares_s + 1.2 * place.lead_s + place.between_s + place.finishes_s
    return around_s + max(free_s), (cost.actual or 0) + place.stages_s * GB_S_USD


def _relative_width(times: NDArray[np.float64], q: float) -> float:
    """Return the 95 % interval of a quantile over it, by the order statistics that enclose it."""
    low, high = (min(int(binom.ppf(share, times.size, q)), times.size - 1) for share in (0.025, 0.975))
    ordered = np.sort(times)
    return float((ordered[high] - ordered[low]) / np.quantile(ordered, q))


def _use(name: str, invocations: int, gb_s: float) -> Invocations:
    return Invocations(function=name, invocations=invocations, cold_starts=0, billed_gb_s=gb_s)
