"""
The bill of a trial of `transfer` from its plan, and how long it takes: at most, or as expected.

At most each read takes as long as it may.

Sizes that a run draws are as large as all on average, or at most as the largest; memory and CPU are the published
ones, so that a stack with larger ones costs more.

`prices` has the one of what was done.

Transfers within a region are free; what costs is EFS's elastic throughput, and the memory that waits for the bytes.
Files are stored whether a trial runs or not: what that costs by the month stands in docs/transfer.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.contracts.plan import transfer_plan
from stepbench.contracts.transfer.plan import MIB, read_limit_s
from stepbench.costs import prices
from stepbench.costs.prices import bill, line
from stepbench.costs.transitions import Visits, trial_transitions
from stepbench.errors import Problem
from stepbench.experiments.protocol import Sandboxes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.plan import AnyTrial
    from stepbench.contracts.transfer.plan import TransferTrial
    from stepbench.costs.assumptions import Assumptions, TransferSpeed
    from stepbench.costs.prices import CostEstimate
    from stepbench.settings import Settings

LAMBDA_GB = 10
"""The published experiment's; a stack with the template's default, 3 GB, costs less."""
FARGATE_VCPU, FARGATE_GB = 8, 32
FARGATE_LEAST_S = 60
"""A task is billed for a minute at least."""
SEED_GB_S_PER_MIB, PART_MIB = 0.1, 16
"""GB-seconds to seed a MiB: 2 GB write 50 MiB a second on both sources, generously. The size of an upload's part."""
REFRESH_GB = 0.5
TRANSITIONS_PER_TRIAL, TRANSITIONS_PER_TRANSFER = 60, 9
LOG_BYTES_PER_TRANSFER = 2_000
HEARTBEATS_PER_S = 1


def estimate(
    trial: AnyTrial,
    assumed: Assumptions,
    region: str,
    *,
    at_most: bool,  # noqa: ARG001 -- each read is as long as it may be, where that is assumed
) -> CostEstimate:
    """Return what the trial costs on AWS at the region's list prices, where all is as assumed."""
    return _estimate(transfer_plan(trial), assumed, region)


def load_s(trial: AnyTrial, assumed: Assumptions) -> float:
    """Return how long the transfers take, one after the other or as many at once as may be."""
    return _transfers_s(transfer_plan(trial), assumed.transfer)


def stack_problems(at: str, trial: AnyTrial, settings: Settings) -> Iterator[Problem]:
    """Yield what of the stack a trial lacks: a platform, or a place for its files."""
    yield from _stack_problems(at, transfer_plan(trial), settings)


def sandboxes(trial: AnyTrial) -> Sandboxes:
    """Return as many as there are processes at once, where Lambda runs any."""
    plan = transfer_plan(trial)
    at_once = plan.concurrency if "lambda" in plan.platforms else 0
    return Sandboxes(at_once, 0, "receivers", ("concurrency", plan.concurrency))


def _stack_problems(at: str, trial: TransferTrial, settings: Settings) -> Iterator[Problem]:
    if "s3" in trial.sources and not settings.files_bucket:
        yield Problem(f"{at}.sources", '"s3"', "needs a bucket for files, and this stack has none", "Update the stack.")
    if "efs" in trial.sources and not settings.files_folder:
        message = "needs a file system, and this stack has none"
        yield Problem(f"{at}.sources", '"efs"', message, "Remove it, or deploy with Efs=on (docs/servers.md).")
    there = settings.transfer_platforms.split(",")
    for place, platform in enumerate(trial.platforms):
        if platform not in there:
            message = "runs no transfers on this stack"
            remedy = "Remove it, or deploy with Fargate=on (docs/servers.md)."
            yield Problem(f"{at}.platforms[{place}]", f'"{platform}"', message, remedy)


def _estimate(trial: TransferTrial, assumed: Assumptions, region: str) -> CostEstimate:
    sizes, speed = trial.expected_mib(at_most=not assumed.expected), assumed.transfer
    on_lambda, on_fargate = (sizes if platform in trial.platforms else [] for platform in ("lambda", "fargate"))
    start_s = speed.warm_s if trial.cold == "no" else speed.cold_s
    lambda_s = sum(_reads_s(trial, mib, speed) + start_s for mib in on_lambda)
    task_s = sum(max(FARGATE_LEAST_S, _reads_s(trial, mib, speed) + speed.task_s) for mib in on_fargate)
    lambdas, refreshed = len(on_lambda), trial.cold == "required"
    read_gb = (sum(on_lambda) + sum(on_fargate)) * MIB / 1e9
    written_mib = 0 if assumed.has_files else sum(trial.file_sizes_mib)
    parts = written_mib / PART_MIB + (2 * len(trial.file_sizes_mib) if written_mib else 0)
    control_gb_s = (
        assumed.control_s + written_mib * SEED_GB_S_PER_MIB + lambdas * refreshed * speed.refresh_s * REFRESH_GB
    )
    return bill(
        line(prices.EFS_READ, read_gb if "efs" in trial.sources else 0),
        line(
            prices.EFS_WRITE,
            written_mib * MIB / 1e9 if "efs" in trial.sources else 0,
            "the files, if they are not there",
        ),
        line(prices.S3_PUT, parts if "s3" in trial.sources else 0),
        line(prices.S3_GET, trial.processes * trial.connections if "s3" in trial.sources else 0),
        line(prices.LAMBDA_REQUEST, (1 + refreshed) * lambdas + assumed.control_calls),
        line(prices.LAMBDA_GB_S, lambda_s * LAMBDA_GB + control_gb_s),
        line(prices.FARGATE_VCPU_HOUR, task_s * FARGATE_VCPU / 3_600),
        line(prices.FARGATE_GB_HOUR, task_s * FARGATE_GB / 3_600),
        line(prices.TASK_ADDRESS_HOUR, task_s / 3_600),
        line(prices.RESULTS_WRITE, (lambda_s + task_s) * HEARTBEATS_PER_S + 100),
        line(prices.DYNAMODB_READ, lambda_s + task_s),
        line(prices.RESULTS_PUT, trial.processes + 20),
        line(prices.STATE_TRANSITION, _transitions(trial, assumed)),
        line(prices.LOGS_GB, trial.reads * LOG_BYTES_PER_TRANSFER / 1e9),
        region=region,
    )


def _transitions(trial: TransferTrial, assumed: Assumptions) -> int:
    if not assumed.expected:
        return TRANSITIONS_PER_TRIAL + TRANSITIONS_PER_TRANSFER * trial.processes
    once = ("PrepareTarget", "SeedFiles", "AwaitTarget", "AwaitArrivals", "CollectLogs")
    of_platform = dict.fromkeys(trial.platforms, trial.transfers)
    refreshed = of_platform.get("lambda", 0) if trial.cold == "required" else 0
    visits = Visits(
        phases=1,
        needed=1,
        slices=trial.processes,
        on_host=False,
        invoked=dict.fromkeys(once, 1) | {"RefreshSandboxes": refreshed},
        transfers=trial.processes,
        tasks=of_platform.get("fargate", 0),
    )
    return trial_transitions(visits)


def _transfers_s(trial: TransferTrial, speed: TransferSpeed) -> float:
    in_turn_s = {
        "lambda": speed.turn_s + (speed.refresh_s if trial.cold == "required" else 0)
        + (speed.warm_s if trial.cold == "no" else speed.cold_s),
        "fargate": speed.task_turn_s,
    }  # fmt: skip
    rounds_s = [_reads_s(trial, trial.mean_mib, speed) + in_turn_s[platform] for platform in trial.platforms]
    spaced_s = trial.every_s * (trial.transfers - 1) + max(rounds_s)
    return max(spaced_s, sum(rounds_s) * trial.transfers / trial.concurrency)


def _reads_s(trial: TransferTrial, mib: float, speed: TransferSpeed) -> float:
    """Return how long a process reads a file of so many MiB, from each source."""
    return len(trial.sources) * (read_limit_s(mib) if speed.mib_per_s is None else mib / speed.mib_per_s)
