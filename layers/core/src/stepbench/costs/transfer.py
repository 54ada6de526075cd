"""
The bill of a trial of `transfer` from its plan: an upper bound, of which the bytes are exact and the times are not.

Transfers within a region are free; what costs is EFS's elastic throughput, and the memory that waits for the bytes.
Files are stored whether a trial runs or not: what that costs by the month stands in docs/transfer.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stepbench.contracts.cost import Cost
from stepbench.contracts.transfer import LEAST_MIB_PER_S, MIB
from stepbench.costs import prices
from stepbench.costs.actual import LATER, READS, FunctionUse, function_amounts
from stepbench.costs.price_table import DEFAULT_REGION, describe_prices
from stepbench.costs.prices import bill, line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.result import Invocations
    from stepbench.contracts.transfer import TransferTrial
    from stepbench.costs.prices import Amount, CostEstimate
    from stepbench.costs.standing import Deployment

LAMBDA_GB = 10
"""The template's default, and the published experiment's."""
FARGATE_VCPU, FARGATE_GB = 8, 32
FARGATE_LEAST_S = 60
"""A task is billed for a minute at least."""
START_S = {"lambda": 10, "fargate": 90}
"""What a sandbox or a task is billed for beside its reads, at most."""
REFRESH_S, REFRESH_GB = 15, 0.5
CONTROL_INVOCATIONS, CONTROL_GB_S = 40, 60
TRANSITIONS_PER_TRIAL, TRANSITIONS_PER_TRANSFER = 60, 9
LOG_BYTES_PER_TRANSFER = 2_000
HEARTBEATS_PER_S = 1


def transfer_estimate(trial: TransferTrial, region: str = DEFAULT_REGION) -> CostEstimate:
    """Return an upper bound of what the trial costs on AWS at the region's list prices."""
    on = dict.fromkeys(trial.platforms, trial.transfers)
    lambdas, tasks = on.get("lambda", 0), on.get("fargate", 0)
    seconds = trial.mean_mib * len(trial.sources) / LEAST_MIB_PER_S
    lambda_s = lambdas * (seconds + START_S["lambda"])
    task_s = tasks * max(FARGATE_LEAST_S, seconds + START_S["fargate"])
    refreshes = lambdas if trial.cold == "required" else 0
    refresh_gb_s = refreshes * REFRESH_S * REFRESH_GB
    read_gb = trial.processes * trial.mean_mib * MIB / 1e9
    return bill(
        line(prices.EFS_READ, read_gb if "efs" in trial.sources else 0),
        line(prices.S3_GET, trial.processes * trial.connections if "s3" in trial.sources else 0),
        line(prices.LAMBDA_REQUEST, lambdas + refreshes + CONTROL_INVOCATIONS),
        line(prices.LAMBDA_GB_S, lambda_s * LAMBDA_GB + refresh_gb_s + CONTROL_GB_S),
        line(prices.FARGATE_VCPU_HOUR, task_s * FARGATE_VCPU / 3_600),
        line(prices.FARGATE_GB_HOUR, task_s * FARGATE_GB / 3_600),
        line(prices.RESULTS_WRITE, (lambda_s + task_s) * HEARTBEATS_PER_S + 100),
        line(prices.DYNAMODB_READ, lambda_s + task_s),
        line(prices.RESULTS_PUT, trial.processes + 20),
        line(prices.STATE_TRANSITION, TRANSITIONS_PER_TRIAL + TRANSITIONS_PER_TRANSFER * trial.processes),
        line(prices.LOGS_GB, trial.reads * LOG_BYTES_PER_TRANSFER / 1e9),
        region=region,
    )


class TransferUse(NamedTuple):
    """
    What a trial did.

    functions: from REPORT lines; None where they are incomplete. task_s: the transfers of each Fargate task, together.
    processes: attempts that stored their rows.
    """

    efs_bytes: int
    s3_requests: int
    functions: tuple[Invocations, ...] | None
    task_s: tuple[float, ...]
    processes: int


NO_LOG = "Lambda's requests and duration: not all invocations left a log line, or another run used the same functions"
TASK_START = "Fargate's time before and after the reads of a task, above a minute a task"
TRANSITIONS = "state transitions, heartbeats and logs"


def transfer_cost(use: TransferUse, deployment: Deployment, estimate_usd: float) -> Cost:
    """Return the trial's cost by what it did; what was not counted is named, and charged by the estimate."""
    billed = bill(*_amounts(use, deployment), region=deployment.region)
    left_out = [TRANSITIONS, LATER, READS]
    left_out += [TASK_START] if use.task_s else []
    left_out += [NO_LOG] if use.functions is None else []
    return Cost(
        estimate=estimate_usd,
        actual=billed.total_usd,
        charged=max(billed.total_usd, estimate_usd),
        items=billed.lines,
        left_out=tuple(left_out),
        incomplete=("load", "control") if use.functions is None or use.task_s else ("control",),
        emulated=bool(deployment.emulator),
        prices=describe_prices(deployment.region),
    )


def _amounts(use: TransferUse, deployment: Deployment) -> Iterator[Amount]:
    task_hours = sum(max(FARGATE_LEAST_S, spent_s) for spent_s in use.task_s) / 3_600
    yield line(prices.EFS_READ, use.efs_bytes / 1e9)
    yield line(prices.S3_GET, use.s3_requests)
    yield line(prices.FARGATE_VCPU_HOUR, task_hours * FARGATE_VCPU, "a minute a task, or its reads if they took longer")
    yield line(prices.FARGATE_GB_HOUR, task_hours * FARGATE_GB)
    yield line(prices.RESULTS_PUT, use.processes, "the rows of each process")
    if use.functions is not None:
        uses = [FunctionUse(each.function, each.invocations, each.billed_gb_s) for each in use.functions]
        yield from function_amounts(uses, arm64=deployment.arm64)
