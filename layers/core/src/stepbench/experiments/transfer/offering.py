"""
The bill of a trial of `transfer`, from its plan and of what it did, and how long it takes: at most, or as expected.

At most each read takes as long as it may. Sizes that a run draws are as large as all on average, or at most as the
largest; memory and CPU are the published ones, so that a stack with larger ones costs more. In the bill of what was
done, what was not counted is named.

Transfers within a region are free; what costs is EFS's elastic throughput, and the memory that waits for the bytes.
Files are stored whether a trial runs or not: what that costs by the month stands in docs/transfer.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stepbench.contracts.cost import Cost
from stepbench.contracts.plan import transfer_plan
from stepbench.contracts.transfer.plan import MIB, read_limit_s
from stepbench.costs import prices
from stepbench.costs.actual import LATER, READS, FunctionUsage, function_amounts
from stepbench.costs.prices import bill, describe_prices, line
from stepbench.costs.transitions import Visits, trial_transitions
from stepbench.errors import Problem
from stepbench.experiments.protocol import Sandboxes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.invocations import Invocations
    from stepbench.contracts.plan import AnyTrial
    from stepbench.contracts.transfer.plan import TransferTrial
    from stepbench.costs.assumptions import Assumptions, TransferSpeed
    from stepbench.costs.prices import Amount, CostEstimate
    from stepbench.costs.standing import Deployment
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
NO_LOG = "Lambda's requests and duration: not all invocations left a log line, or another run used the same functions"
TASK_START = "Fargate's time before and after the reads of a task, above a minute a task"
NO_TRANSITIONS = "state transitions: without log lines nobody knows how often loops were gone through"
HEARTBEATS = "heartbeats and logs"


def estimate(
    trial: AnyTrial,
    assumed: Assumptions,
    region: str,
    *,
    at_most: bool,  # noqa: ARG001 -- each read is as long as it may be, where that is assumed
) -> CostEstimate:
    """Return what the trial costs on AWS at the region's list prices, where all is as assumed."""
    plan, speed = transfer_plan(trial), assumed.transfer
    sizes = plan.expected_mib(at_most=not assumed.expected)
    on_lambda, on_fargate = (sizes if platform in plan.platforms else [] for platform in ("lambda", "fargate"))
    start_s = speed.warm_s if plan.cold == "no" else speed.cold_s
    lambda_s = sum(_reads_s(plan, mib, speed) + start_s for mib in on_lambda)
    task_s = sum(max(FARGATE_LEAST_S, _reads_s(plan, mib, speed) + speed.task_s) for mib in on_fargate)
    lambdas, refreshed = len(on_lambda), plan.cold == "required"
    from_s3, from_efs = (source in plan.sources for source in ("s3", "efs"))
    read_gb = (sum(on_lambda) + sum(on_fargate)) * MIB / 1e9
    written_mib = 0 if assumed.has_files else sum(plan.file_sizes_mib)
    parts = written_mib / PART_MIB + (2 * len(plan.file_sizes_mib) if written_mib else 0)
    control_gb_s = (
        assumed.control_s + written_mib * SEED_GB_S_PER_MIB + lambdas * refreshed * speed.refresh_s * REFRESH_GB
    )
    return bill(
        line(prices.EFS_READ, from_efs * read_gb),
        line(prices.EFS_WRITE, from_efs * written_mib * MIB / 1e9, "the files, if they are not there"),
        line(prices.S3_PUT, from_s3 * parts),
        line(prices.S3_GET, from_s3 * plan.processes * plan.connections),
        line(prices.LAMBDA_REQUEST, (1 + refreshed) * lambdas + assumed.control_calls),
        line(prices.LAMBDA_GB_S, lambda_s * LAMBDA_GB + control_gb_s),
        line(prices.FARGATE_VCPU_HOUR, task_s * FARGATE_VCPU / 3_600),
        line(prices.FARGATE_GB_HOUR, task_s * FARGATE_GB / 3_600),
        line(prices.TASK_ADDRESS_HOUR, task_s / 3_600),
        line(prices.RESULTS_WRITE, (lambda_s + task_s) * HEARTBEATS_PER_S + 100),
        line(prices.DYNAMODB_READ, lambda_s + task_s),
        line(prices.RESULTS_PUT, plan.processes + 20),
        line(prices.STATE_TRANSITION, _transitions(plan, assumed)),
        line(prices.LOGS_GB, plan.reads * LOG_BYTES_PER_TRANSFER / 1e9),
        region=region,
    )


def load_s(trial: AnyTrial, assumed: Assumptions) -> float:
    """Return how long the transfers take, one after the other or as many at once as may be."""
    plan, speed = transfer_plan(trial), assumed.transfer
    in_turn_s = {
        "lambda": speed.turn_s + (speed.refresh_s if plan.cold == "required" else 0)
        + (speed.warm_s if plan.cold == "no" else speed.cold_s),
        "fargate": speed.task_turn_s,
    }  # fmt: skip
    rounds_s = [_reads_s(plan, plan.mean_mib, speed) + in_turn_s[platform] for platform in plan.platforms]
    spaced_s = plan.every_s * (plan.transfers - 1) + max(rounds_s)
    return max(spaced_s, sum(rounds_s) * plan.transfers / plan.concurrency)


def stack_problems(at: str, trial: AnyTrial, settings: Settings) -> Iterator[Problem]:
    """Yield what of the stack a trial lacks: a platform, or a place for its files."""
    plan = transfer_plan(trial)
    if "s3" in plan.sources and not settings.files_bucket:
        yield Problem(f"{at}.sources", '"s3"', "needs a bucket for files, and this stack has none", "Update the stack.")
    if "efs" in plan.sources and not settings.files_folder:
        message = "needs a file system, and this stack has none"
        yield Problem(f"{at}.sources", '"efs"', message, "Remove it, or deploy with Efs=on (docs/servers.md).")
    there = settings.transfer_platforms.split(",")
    for place, platform in enumerate(plan.platforms):
        if platform not in there:
            message = "runs no transfers on this stack"
            remedy = "Remove it, or deploy with Fargate=on (docs/servers.md)."
            yield Problem(f"{at}.platforms[{place}]", f'"{platform}"', message, remedy)


def sandboxes(trial: AnyTrial) -> Sandboxes:
    """Return as many as there are processes at once, where Lambda runs any."""
    plan = transfer_plan(trial)
    at_once = plan.concurrency if "lambda" in plan.platforms else 0
    return Sandboxes(at_once, 0, "receivers", ("concurrency", plan.concurrency))


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


def _reads_s(trial: TransferTrial, mib: float, speed: TransferSpeed) -> float:
    """Return how long a process reads a file of so many MiB, from each source."""
    return len(trial.sources) * (read_limit_s(mib) if speed.mib_per_s is None else mib / speed.mib_per_s)


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
