"""
What nobody knows before a run, as an estimate takes it: at most, as expected on AWS, and as expected on one machine.

`MOST` is for budgets: what holds against it holds against the bill. The other two are for what is said: within a factor
of two of what is counted (`tests/unit/costs/test_estimates.py`). Times are in seconds, of each. By them, how much
load a trial is expected to offer, and for how long, where its plan says only what it offers at most.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import TYPE_CHECKING

from stepbench.contracts.experiment import QUANTILES
from stepbench.contracts.workload import ClusterRecord, Kind
from stepbench.costs.prices import READS, WRITES, share

if TYPE_CHECKING:
    from stepbench.contracts.dataflow.dag import Stage
    from stepbench.contracts.phase import Phase
    from stepbench.contracts.plan import TrialPlan
    from stepbench.contracts.workload import InvokedLoad


_ANSWER_S = (0.002, 0.002)
"""Of a store that nobody has measured."""
CREATION_S = {"single": 8, "multi": 110}
"""As published, of a cluster of Aurora DSQL and of a pair in two regions."""


@dataclass(frozen=True)
class TransferSpeed:
    """
    How fast transfers are.

    mib_per_s: of a read; None where each takes all of its limit. cold_s, warm_s: what a sandbox is billed beside its
    reads. task_s: what a Fargate task is billed beside them. refresh_s: changing the function before a transfer.
    turn_s: from the end of one transfer to the next one's begin, and task_turn_s of a task.
    """

    mib_per_s: float | None
    cold_s: float
    warm_s: float
    task_s: float
    refresh_s: float
    turn_s: float = 1
    task_turn_s: float = 60


@dataclass(frozen=True)
class Assumptions:
    """
    What a trial takes beside what its plan says.

    answer_s: a store's answers to a read and to a write, by store; None where they are as fast as they can be.
    connect_s: what an operation takes more without reuse of connections. row_s: a row more of a scan. store_per_s:
    what all writers together make of a store's operations at most. most_per_s: how many operations a writer makes.
    task_s: a task of a DAG, by its application. lead_s: a writer holds for its start, and start_s longer for each
    other one that starts with it. receiver_s: an invocation by a trigger. polls_per_s: how often a shard of a
    stream is looked at; None where each event is an invocation. lanes: watchers that are there at once, for ready_s
    before each phase, and for all of the drain limit if `drains`. invocation_s: one that a Map's iteration makes
    takes so long beside its operations; iterations_per_s: how fast a Map begins them. control_s: all other functions
    of a trial, in control_calls. around_s: a store is held before and after the load. search: the share of a
    search's probes, or of what `until` may add, that is needed; its square root where None. aborts: of the plan,
    whether thresholds may end phases, which are checked for it.
    """

    answer_s: Mapping[str, tuple[float, float]] | None
    connect_s: float
    most_per_s: float
    task_s: Mapping[str, float]
    lead_s: float
    start_s: float
    receiver_s: float
    polls_per_s: float | None
    lanes: float
    ready_s: float
    drains: bool
    control_calls: int
    control_s: float
    check_s: float
    around_s: float
    expected: bool
    transfer: TransferSpeed
    invocation_s: float = 0.04
    iterations_per_s: float = 60
    canaries: int = 3
    level_s: float = 0.5
    batching_windows: bool = True
    has_files: bool = True
    has_load_host: bool = True
    row_s: float = 0
    store_per_s: Mapping[str, float] = field(default_factory=dict)
    aborts: bool = False

    def answer_of(self, trial: TrialPlan) -> float:
        """Return how long an operation of the trial's mix takes, on average."""
        read_s, written_s = (self.answer_s or {}).get(trial.target.store, _ANSWER_S)
        if trial.workload is None:
            return written_s
        if isinstance(trial.workload.record, ClusterRecord):
            return CREATION_S["single" if trial.workload.record.peer_region is None else "multi"]
        scans, reads = share(trial.workload, (Kind.SCAN,)), share(trial.workload, READS)
        connecting_s = 0 if trial.workload.reuse else self.connect_s
        scanned_s = read_s + trial.workload.scan_rows * self.row_s
        return reads * read_s + share(trial.workload, WRITES) * written_s + scans * scanned_s + connecting_s

    def most_of(self, store: str, writers: int) -> float:
        """Return how many operations a store and its writers make a second at most."""
        return min(self.most_per_s * writers, self.store_per_s.get(store, float("inf")))

    def task_of(self, stage: Stage) -> float:
        """Return how long a task of a DAG takes, in seconds."""
        taken_s = self.task_s.get(stage.task.partition(".")[0], self.task_s[""])
        return min(stage.timeout_s, taken_s + float(stage.parameters.get("compute_ms", 0)) / 1e3)

    def lead_of(self, trial: TrialPlan) -> float:
        """Return what a writer is billed for beside its slice."""
        return self.lead_s + self.start_s * (trial.writers - 1)


MOST = Assumptions(
    answer_s=None,
    connect_s=0,
    most_per_s=float("inf"),
    task_s={"": 5},
    lead_s=45,
    start_s=0,
    receiver_s=0.02,
    polls_per_s=None,
    lanes=2,
    ready_s=45,
    drains=True,
    control_calls=40,
    control_s=60,
    check_s=15,
    around_s=300,
    expected=False,
    canaries=30,
    has_files=False,
    transfer=TransferSpeed(mib_per_s=None, cold_s=10, warm_s=10, task_s=90, refresh_s=15),
)
AWS = Assumptions(
    answer_s={
        "dynamodb": (0.004, 0.006),
        "postgresql": (0.001, 0.004),
        "redis": (0.0006, 0.0006),
        "etcd": (0.0015, 0.004),
        "cassandra": (0.001, 0.001),
        "dsql": (0.006, 0.015),
    },
    connect_s=0.01,
    row_s=20e-6,
    most_per_s=8_000,
    task_s={"": 3, "synthetic": 0.3},
    lead_s=31,
    start_s=0,
    receiver_s=0.015,
    polls_per_s=4,
    lanes=1,
    ready_s=40,
    drains=False,
    control_calls=12,
    control_s=15,
    check_s=8,
    around_s=120,
    expected=True,
    transfer=TransferSpeed(mib_per_s=60, cold_s=2, warm_s=0.3, task_s=45, refresh_s=8),
)
"""Published reads of large files lie between 22 and 170 MiB/s. A function of a gigabyte has half a vCPU."""
LOCAL = Assumptions(
    answer_s={
        "dynamodb": (0.002, 0.0025), "postgresql": (0.0004, 0.002), "redis": (0.0004, 0.0004),
        "etcd": (0.001, 0.0015), "cassandra": (0.0015, 0.002), "dsql": (0.0004, 0.002),
    },
    store_per_s={"dynamodb": 2_500, "postgresql": 9_000, "etcd": 4_000, "cassandra": 3_000},
    connect_s=0.025,
    row_s=10e-6,
    most_per_s=15_000,
    task_s={"": 0.35, "synthetic": 0.05},
    level_s=0.25,
    lead_s=3,
    start_s=0.45,
    receiver_s=0.004,
    polls_per_s=20,
    batching_windows=False,
    has_load_host=False,
    lanes=1,
    ready_s=4.5,
    drains=False,
    control_calls=5,
    control_s=1.5,
    check_s=0.5,
    around_s=5,
    expected=True,
    transfer=TransferSpeed(
        mib_per_s=800, cold_s=0.02, warm_s=0.005, task_s=2, refresh_s=2, turn_s=0.15, task_turn_s=3.5
    ),
)  # fmt: skip
"""As machines of two cores had it, idle and busy; the store's units are AWS's here, too."""


FEWEST_PROBES = 2
"""A search needs a rate that is too low, and one that is not."""
FOUND_SHARE = 0.5
"""Of the highest rate that it may try: who writes a plan has an idea of where the store's limit is."""
LOG_DEVIATION = 0.5
"""Of latencies, as their logarithms deviate."""


def events(trial: TrialPlan, assumed: Assumptions) -> int:
    """Return how many events all phases offer."""
    return sum(events_of(trial, phase, assumed) for phase in trial.run_phases)


def load_s(trial: TrialPlan, assumed: Assumptions) -> float:
    """Return how long all phases take with their rests, without orchestration."""
    return sum(phase.settle_s + offered_s(trial, phase, assumed) for phase in trial.run_phases)


def events_of(trial: TrialPlan, phase: Phase, assumed: Assumptions) -> int:
    """Return how many events a phase offers: at most, or as expected of the store."""
    most = trial.events_of(phase)
    if not assumed.expected:
        return most
    if not phase.is_open:
        return min(most, math.ceil(phase.length_s * _closed_per_s(trial, phase, assumed)))
    found_per_s = math.inf if trial.find_rate is None else FOUND_SHARE * trial.find_rate.high_per_s
    share = share_needed(trial, phase)
    if phase.probe:
        return math.ceil(share * phase.length_s * min(found_per_s, phase.load[0].rate_per_s))
    rates = ((min(step.rate_per_s, (step.of_found or math.inf) * found_per_s), step) for step in phase.steps)
    return math.ceil(share * sum(step.count or rate * step.length_s for rate, step in rates))


def offered_s(trial: TrialPlan, phase: Phase, assumed: Assumptions) -> float:
    """Return how long a phase's load takes: clients of a closed loop may be done before its time is up."""
    if not assumed.expected:
        return phase.length_s
    if phase.invoked is not None:
        return min(phase.length_s, invoked_s(trial, phase, phase.invoked, assumed))
    if trial.dags and phase.closed is None:
        return phase.length_s + execution_s(trial, phase, assumed)
    if phase.closed is None:
        return phase.length_s * share_needed(trial, phase)
    if phase.closed.operations is None:
        return phase.length_s
    if trial.dags:
        in_turn_s = math.ceil(phase.closed.operations / phase.closed.clients) * execution_s(trial, phase, assumed)
    else:
        in_turn_s = phase.closed.operations / _closed_per_s(trial, phase, assumed)
    return min(phase.length_s, in_turn_s)


def execution_s(trial: TrialPlan, phase: Phase, assumed: Assumptions) -> float:
    """Return how long an execution of the phase's DAG takes: on each level the longest task, and orchestration."""
    levels = trial.dag_of(phase).levels
    return sum(assumed.level_s + max(assumed.task_of(stage) for stage in level) for level in levels)


WORTH_ONE = 10
"""So many events of a store tell as much as one independent one: counted were 1 to 21."""


def share_needed(trial: TrialPlan, phase: Phase) -> float:
    """
    Return the share of a phase that is run, of one that goes on until something is known; 1 of the others.

    A quantile of n independent log-normal times has an interval whose relative width is as 1 / sqrt(n). Of how many
    probes a search needs nothing is known: between the least and the most the geometric mean is as near to both as may
    be.
    """
    if phase.until is not None:
        planned = sum(step.events for step in phase.load)
        needed = WORTH_ONE * (_width(QUANTILES[phase.until.metric]) / phase.until.relative_width) ** 2
        return min(max(needed, planned), phase.until.max_events) / phase.until.max_events
    if phase.probe and trial.find_rate is not None:
        return math.sqrt(FEWEST_PROBES / trial.find_rate.probes)
    return 1.0


def invocation_s(trial: TrialPlan, invoked: InvokedLoad, assumed: Assumptions) -> float:
    """Return how long an invocation takes that does its operations one after the other, and records them."""
    return assumed.invocation_s + invoked.operations * (assumed.answer_of(trial) if assumed.answer_s else 0)


def invoked_s(trial: TrialPlan, phase: Phase, invoked: InvokedLoad, assumed: Assumptions) -> float:
    """Return how long a Map takes to have all invocations begin, at its pace and as many at once as may be, and end."""
    rounds = math.ceil(trial.writers / trial.concurrency(trial.phases.index(phase)))
    return trial.writers / assumed.iterations_per_s + rounds * invocation_s(trial, invoked, assumed)


def _width(q: float) -> float:
    """Return the relative width of a quantile's 95 % interval, times sqrt(n), by its asymptotic distribution."""
    normal = NormalDist()
    return 2 * normal.inv_cdf(0.975) * math.sqrt(q * (1 - q)) / normal.pdf(normal.inv_cdf(q)) * LOG_DEVIATION


def _closed_per_s(trial: TrialPlan, phase: Phase, assumed: Assumptions) -> float:
    """Return how many operations a closed loop's clients make a second."""
    loop = trial.loop_of(phase)
    if loop is None or assumed.answer_s is None:
        return math.inf
    answer_s = execution_s(trial, phase, assumed) if trial.dags else assumed.answer_of(trial)
    per_s = loop.clients / (loop.think_ms / 1e3 + answer_s)
    return min(per_s, assumed.most_of(trial.target.store, trial.writers))
