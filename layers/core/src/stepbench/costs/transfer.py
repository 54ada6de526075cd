"""
The bill of a trial of `transfer` from its plan: an upper bound, with each read as long as it may be at most.

Sizes are those that are drawn; memory and CPU are the template's defaults, so that a stack with larger ones costs more.

`transfer_actual` has the one of what was done.

Transfers within a region are free; what costs is EFS's elastic throughput, and the memory that waits for the bytes.
Files are stored whether a trial runs or not: what that costs by the month stands in docs/transfer.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.contracts.transfer import MIB, read_limit_s
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
SEED_GB_S_PER_MIB, PART_MIB = 0.1, 16
"""Of 2 GB that make 50 MiB a second on both sources, generously; and what a part of an upload holds."""
REFRESH_S, REFRESH_GB = 15, 0.5
CONTROL_INVOCATIONS, CONTROL_GB_S = 40, 60
TRANSITIONS_PER_TRIAL, TRANSITIONS_PER_TRANSFER = 60, 9
LOG_BYTES_PER_TRANSFER = 2_000
HEARTBEATS_PER_S = 1


def transfer_estimate(trial: TransferTrial, region: str = DEFAULT_REGION) -> CostEstimate:
    """Return an upper bound of what the trial costs on AWS at the region's list prices."""
    drawn = trial.drawn_mib
    reads = len(trial.sources)
    lambda_s = sum(read_limit_s(mib) * reads + START_S["lambda"] for mib in drawn.get("lambda", ()))
    task_s = sum(read_limit_s(mib) * reads + START_S["fargate"] for mib in drawn.get("fargate", ()))
    lambdas, refreshed = len(drawn.get("lambda", ())), trial.cold == "required"
    read_gb = sum(map(sum, drawn.values())) * MIB / 1e9
    made_mib = sum(trial.file_sizes_mib)
    control_gb_s = CONTROL_GB_S + made_mib * SEED_GB_S_PER_MIB + lambdas * refreshed * REFRESH_S * REFRESH_GB
    return bill(
        line(prices.EFS_READ, read_gb if "efs" in trial.sources else 0),
        line(
            prices.EFS_WRITE, made_mib * MIB / 1e9 if "efs" in trial.sources else 0, "the files, if they are not there"
        ),
        line(prices.S3_PUT, made_mib / PART_MIB + 2 * len(trial.file_sizes_mib) if "s3" in trial.sources else 0),
        line(prices.S3_GET, trial.processes * trial.connections if "s3" in trial.sources else 0),
        line(prices.LAMBDA_REQUEST, 2 * lambdas + CONTROL_INVOCATIONS),
        line(prices.LAMBDA_GB_S, lambda_s * LAMBDA_GB + control_gb_s),
        line(prices.FARGATE_VCPU_HOUR, task_s * FARGATE_VCPU / 3_600),
        line(prices.FARGATE_GB_HOUR, task_s * FARGATE_GB / 3_600),
        line(prices.TASK_ADDRESS_HOUR, task_s / 3_600),
        line(prices.RESULTS_WRITE, (lambda_s + task_s) * HEARTBEATS_PER_S + 100),
        line(prices.DYNAMODB_READ, lambda_s + task_s),
        line(prices.RESULTS_PUT, trial.processes + 20),
        line(prices.STATE_TRANSITION, TRANSITIONS_PER_TRIAL + TRANSITIONS_PER_TRANSFER * trial.processes),
        line(prices.LOGS_GB, trial.reads * LOG_BYTES_PER_TRANSFER / 1e9),
        region=region,
    )
