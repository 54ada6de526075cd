"""
The bill of a trial of `transfer` from its plan: an upper bound, of which the bytes are exact and the times are not.

`transfer_actual` has the one of what was done.

Transfers within a region are free; what costs is EFS's elastic throughput, and the memory that waits for the bytes.
Files are stored whether a trial runs or not: what that costs by the month stands in docs/transfer.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.contracts.transfer import LEAST_MIB_PER_S, MIB
from stepbench.costs import prices
from stepbench.costs.price_table import DEFAULT_REGION
from stepbench.costs.prices import bill, line

if TYPE_CHECKING:
    from stepbench.contracts.transfer import TransferTrial
    from stepbench.costs.prices import CostEstimate

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
