"""
A stack's own node as it is tuned: the search runs here, and each of its evaluations is a run of a plan on the stack.

Such a plan has two trials of executions that the node is tuned for, one as released and one with a configuration, both
on a node that was started anew but for the very first, and both begun with executions that are not counted. So objects
have the sizes that they really have. The throughput is that of the transfers by Little's law: as many clients as the
widest level has tasks, over the mean time of a put or a get. T_r with a restart is what the host has noted; a change
without one is no part of such trials, and is taken to be as long.

Source:
    Little (1961), A proof for the queuing formula L = λW, Operations Research 9(3).
"""

from __future__ import annotations

import math
import os
import statistics
from typing import TYPE_CHECKING, Any

import psutil

from stepbench.contracts.plan import Plan
from stepbench.drivers.cassandra.control import RESTART_S
from stepbench.errors import PlanError, Problem, TargetUnavailableError
from stepbench.tuning.decision import workload_of
from stepbench.tuning.models import this_machine
from stepbench_tools.local.stack import StackError
from stepbench_tools.local.stores.cassandra.configuration import as_released, released_heap_mib
from stepbench_tools.local.tuning.tune import Machine
from stepbench_tools.tuning import Evaluation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from stepbench.contracts.dataflow.dag import Dag
    from stepbench.contracts.plan import TrialPlan
    from stepbench.contracts.result import RunSummary, TrialSummary
    from stepbench.contracts.tuning import CassandraConfiguration, StoreWorkload
    from stepbench_tools.local.stack import Stack

    RunPlan = Callable[[Plan], RunSummary]
    """Runs a plan on the stack, and returns its summary."""

RELEASED, CONFIGURED = "released", "configured"
BUDGET_USD = 20.0
"""Of one evaluation: a few executions."""
_MS_PER_S = 1_000


class StackNode:
    """`Bench` of a stack's own node; measures at first how large objects are."""

    def __init__(self, trials: Iterable[TrialPlan], machine: Machine, run: RunPlan) -> None:
        """
        Run each DAG of the trials that passes anything on, and is measured, once as released.

        Raises:
            PlanError: there is none.
            TargetUnavailableError: a trial did not go through whole, or wrote no object.
        """
        self._run = run
        self._trials = {
            dag.name: (trial, dag)
            for trial in trials
            for dag in trial.dags
            if workload_of(dag) is not None and _measures(trial, dag)
        }
        if not self._trials:
            message = "measure no DAG that passes data through Cassandra"
            raise PlanError([Problem("trials", "measured: false", message, "Set measured: true on a phase of one.")])
        self._away_s: list[float] = []
        first = self._summaries([evaluation_trial(*each, RELEASED) for each in self._trials.values()])
        self.blob_bytes: Mapping[str, int] = {
            name: object_bytes(summary) for name, summary in zip(self._trials, first, strict=True)
        }
        self._names: dict[StoreWorkload, str] = {}
        for name, (_, dag) in self._trials.items():
            if (workload := workload_of(dag, self.blob_bytes[name])) is not None:
                self._names.setdefault(workload, name)
        self.machine = machine._replace(provider=first[0].provider)

    @property
    def workloads(self) -> tuple[StoreWorkload, ...]:
        """Return what the DAGs ask of the store, with the sizes that were measured, each once."""
        return tuple(self._names)

    def compare(self, workload: StoreWorkload, configuration: CassandraConfiguration) -> Evaluation:
        """See `Bench`."""
        trial = self._trials[self._names[workload]]
        documents = evaluation_trial(*trial, RELEASED), evaluation_trial(*trial, CONFIGURED, configuration)
        released, configured = self._summaries(documents)
        self._away_s += outages_s(configured)
        return Evaluation(configuration, (per_s(released, workload),), (per_s(configured, workload),))

    def outages(self, _configuration: CassandraConfiguration) -> tuple[float, float]:
        """See `Bench`: of all evaluations; where none has noted one, the longest that a restart may take."""
        restart_s = statistics.median(self._away_s or [RESTART_S])
        return restart_s, restart_s

    def _summaries(self, trials: Sequence[dict[str, Any]]) -> list[TrialSummary]:
        """Run trials, and return their summaries in order."""
        named = [{**trial, "name": f"{trial['name']}-{number}"} for number, trial in enumerate(trials)]
        plan = {"name": "tune", "trials": named, "budget_usd": BUDGET_USD}
        summary = self._run(Plan.model_validate(plan))
        failed = [trial.name for trial in summary.trials if trial.incomplete or trial.dataflow is None]
        if failed or len(summary.trials) < len(trials):
            message = f"run {summary.run_id}: {', '.join(failed) or 'a trial'} did not go through whole"
            raise TargetUnavailableError(message)
        return sorted(summary.trials, key=lambda each: each.index)


def _measures(trial: TrialPlan, dag: Dag) -> bool:
    return any(phase.measured and trial.dag_of(phase) == dag for phase in trial.phases)


def evaluation_trial(
    trial: TrialPlan, dag: Dag, name: str, configuration: CassandraConfiguration | None = None
) -> dict[str, Any]:
    """
    Return a trial that evaluates a configuration for one DAG of a plan's trial; without one, the node as released.

    It has the DAG's phases that are not measured, and the first one that is.
    """
    document = trial.model_dump(mode="json", by_alias=True, exclude_unset=True)
    of_dag = [
        (phase, text)
        for phase, text in zip(trial.phases, document["phases"], strict=True)
        if trial.dag_of(phase) == dag
    ]
    measured = next(text for phase, text in of_dag if phase.measured)
    target = {key: value for key, value in document["target"].items() if key not in {"tuning", "host"}}
    if configuration is not None:
        target["tuning"] = {"mode": "static", "settings": configuration.model_dump(mode="json")}
    others = {"published", "matrix", "repeats", "name", "target", "dags", "phases"}
    return {
        **{key: value for key, value in document.items() if key not in others},
        "name": name,
        "target": target,
        "dags": [dag.model_dump(mode="json", by_alias=True, exclude_unset=True)],
        "phases": [*(text for phase, text in of_dag if not phase.measured), measured],
    }


def per_s(trial: TrialSummary, workload: StoreWorkload) -> float:
    """
    Return the throughput of a trial's transfers, in requests a second, coding apart.

    Raises:
        TargetUnavailableError: none was measured.
    """
    edges = [edge for window in (trial.dataflow.windows if trial.dataflow else ()) for edge in window.edges]
    parts = [part for each in edges for part in ((each.objects, each.put_ms.mean), (each.reads, each.get_ms.mean))]
    took_ms = sum(count * (mean or 0) for count, mean in parts)
    if took_ms <= 0 or any(mean is None for count, mean in parts if count):
        message = f"{trial.name}: a transfer was not measured"
        raise TargetUnavailableError(message)
    return workload.clients * sum(count for count, _ in parts) * _MS_PER_S / took_ms


def object_bytes(trial: TrialSummary) -> int:
    """
    Return the geometric mean of the sizes of the objects that an execution writes.

    Raises:
        TargetUnavailableError: none was written.
    """
    edges = [edge for window in (trial.dataflow.windows if trial.dataflow else ()) for edge in window.edges]
    octaves = [math.log2(max(1, each.blob_bytes.p50.value or 1)) for each in edges for _ in range(each.objects)]
    if not octaves:
        message = f"{trial.name}: no object was written"
        raise TargetUnavailableError(message)
    return round(2 ** statistics.fmean(octaves))


def outages_s(trial: TrialSummary) -> list[float]:
    """Return for how long the node was away, each time that it was started anew."""
    steps = trial.dataflow.tuning if trial.dataflow else ()
    return [step.done.away_s for step in steps if step.done is not None and step.done.away_s > 0]


def machine_of(stack: Stack) -> Machine:
    """
    Return what a stack's own node runs on: an instance type, or this machine under an emulator.

    Raises:
        StackError: the stack has none.
    """
    described = stack.aws("cloudformation").describe_stacks(StackName=stack.name)["Stacks"][0]
    given = {each["ParameterKey"]: each["ParameterValue"] for each in described.get("Parameters", [])}
    if given.get("Emulator"):
        heap_mib = as_released(psutil.virtual_memory().available // 2**20).heap_mib
        return Machine(this_machine(), "", os.cpu_count() or 1, heap_mib)
    if given.get("CassandraNode") != "on":
        message = f"stack {stack.name!r} has no Cassandra that could be tuned; deploy it with CassandraNode=on"
        raise StackError(message)
    type_ = given["CassandraInstanceType"]
    (found,) = stack.aws("ec2").describe_instance_types(InstanceTypes=[type_])["InstanceTypes"]
    memory_mib, cores = found["MemoryInfo"]["SizeInMiB"], found["VCpuInfo"]["DefaultVCpus"]
    return Machine(type_, "", cores, released_heap_mib(memory_mib))
