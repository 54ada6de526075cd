"""The bill of what a trial of `transfer` did, item by item; what was not counted is named."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stepbench.contracts.cost import Cost
from stepbench.costs import prices
from stepbench.costs.actual import LATER, READS, FunctionUsage, function_amounts
from stepbench.costs.price_table import describe_prices
from stepbench.costs.prices import bill, line
from stepbench.experiments.transfer.offering import FARGATE_GB, FARGATE_LEAST_S, FARGATE_VCPU

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.result import Invocations
    from stepbench.costs.prices import Amount
    from stepbench.costs.standing import Deployment


class TransferUsage(NamedTuple):
    """
    What a trial did.

    functions, transitions: from REPORT lines; None where they are incomplete. task_s: the transfers of each Fargate
    task, together. processes: attempts that stored their rows.
    """

    efs_bytes: int
    s3_requests: int
    functions: tuple[Invocations, ...] | None
    transitions: int | None
    task_s: tuple[float, ...]
    processes: int


NO_LOG = "Lambda's requests and duration: not all invocations left a log line, or another run used the same functions"
TASK_START = "Fargate's time before and after the reads of a task, above a minute a task"
NO_TRANSITIONS = "state transitions: without log lines nobody knows how often loops were gone through"
HEARTBEATS = "heartbeats and logs"


def transfer_cost(usage: TransferUsage, deployment: Deployment, estimate_usd: float) -> Cost:
    """Return the trial's cost by what it did; what was not counted is named, and charged by the estimate."""
    billed = bill(*_amounts(usage, deployment), region=deployment.region)
    left_out = [HEARTBEATS, LATER, READS]
    left_out += [TASK_START] if usage.task_s else []
    left_out += [NO_LOG, NO_TRANSITIONS] if usage.functions is None else []
    return Cost(
        estimate=estimate_usd,
        actual=billed.total_usd,
        charged=max(billed.total_usd, estimate_usd),
        items=billed.lines,
        left_out=tuple(left_out),
        incomplete=("load", "control") if usage.functions is None or usage.task_s else ("control",),
        emulated=bool(deployment.emulator),
        prices=describe_prices(deployment.region),
    )


def _amounts(usage: TransferUsage, deployment: Deployment) -> Iterator[Amount]:
    vcpu = float(deployment.options.get("FargateCpu") or FARGATE_VCPU * 1_024) / 1_024
    memory_gb = float(deployment.options.get("FargateMemory") or FARGATE_GB * 1_024) / 1_024
    task_hours = sum(max(FARGATE_LEAST_S, spent_s) for spent_s in usage.task_s) / 3_600
    yield line(prices.EFS_READ, usage.efs_bytes / 1e9)
    yield line(prices.S3_GET, usage.s3_requests)
    yield line(prices.FARGATE_VCPU_HOUR, task_hours * vcpu, "a minute a task, or its reads if they took longer")
    yield line(prices.FARGATE_GB_HOUR, task_hours * memory_gb)
    yield line(prices.RESULTS_PUT, usage.processes, "the rows of each process")
    if usage.transitions is not None:
        yield line(prices.STATE_TRANSITION, usage.transitions, "counted by states, see the cost guide")
    if usage.functions is not None:
        uses = [FunctionUsage(each.function, each.invocations, each.billed_gb_s) for each in usage.functions]
        yield from function_amounts(uses, arm64=deployment.arm64)
