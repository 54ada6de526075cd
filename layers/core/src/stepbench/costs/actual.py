"""
The bill of what a trial did, item by item.

What was not counted is no item: it is named. What the store bills is computed from what was sent, by the same rules as
the estimate; where a request ended without an answer, it counts as sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from stepbench.contracts.cost import PARTS, Cost
from stepbench.costs import prices
from stepbench.costs.dynamodb import unknown_charges
from stepbench.costs.estimate import (
    LOG_BYTES_PER_INVOCATION,
    T4_ENTRY_BYTES,
    T4_ITEM_BYTES,
    log_bytes,
    queue_requests,
    results_writes,
    store_lines,
    writer_seconds,
)
from stepbench.costs.prices import DAYS_PER_MONTH, Amount, Offered, bill, describe_prices, line
from stepbench.costs.standing import LOAD_HOST, hours, standing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.cost import CostItem, Part
    from stepbench.contracts.plan import TrialPlan
    from stepbench.costs.standing import Deployment

GB = 1e9
_LABELS: tuple[tuple[Part, str], ...] = (
    ("trigger", "by the trigger"),
    ("load", "writers"),
    ("control", "other functions"),
)
_PARTS: dict[str, Part] = {
    **dict.fromkeys(("ReceiveEvents", "WatchChanges", "CheckClock", "MeasuredFunction"), "trigger"),
    **dict.fromkeys(("RunWriter", "RunTransfer"), "load"),
}
"""Of functions; all others are `control`."""
LATER = "CollectLogs, AnalyseTrial, ExportRecords and TearDownTarget, whose log lines come after the trial's were read"
ANOTHER_RUN = "another run used the same functions meanwhile"
"""It may be another team's, of which nothing is shown, its name neither."""
READS = "what stages read from the results table and bucket"
_NO_HOURS = frozenset({"dsql"})
"""Servers of somebody else's that bill nothing by the hour."""
NOT_OURS = "which is not the stack's own"
TARGET_STORAGE = "storage in the store while the trial lasts"
TASK_HEARTBEATS = "heartbeats of tasks, one a second in the results table"


class FunctionUsage(NamedTuple):
    """
    What Lambda bills of one function.

    scale: 1, or by what the lines that were read were multiplied. arm64: of a measured function's copy; None of the
    stack's own, which have its processor.
    """

    name: str
    invocations: int
    gb_s: float
    scale: float = 1
    arm64: bool | None = None


@dataclass(frozen=True)
class Done:
    """
    What a trial did.

    offered: what reached the store, and how long the trial held its target.
    delivered, batches: entries and items of arrivals in the results table.
    functions: from REPORT lines; None where they are incomplete, and then `missing_logs` says why.
    transitions: None where loops could not be counted. dag_transitions: of executions of DAGs. dag_writes: units
        of the results table that rows of their tasks, and their ends, took.
    objects: in the results bucket.
    own_server: the store is not one of the stack's.
    """

    offered: Offered
    delivered: int
    batches: int
    functions: tuple[FunctionUsage, ...] | None
    transitions: int | None
    objects: int
    missing_logs: str = ""
    own_server: bool = False
    dag_transitions: int = 0
    dag_writes: int = 0


def actual_cost(trial: TrialPlan, done: Done, deployment: Deployment, estimate_usd: float) -> Cost:
    """
    Return the trial's cost by what it did.

    Args:
        trial: as it was run: phases as long as they were, operations in the mix that they had.
        done: its counts.
        deployment: of the stack that ran it.
        estimate_usd: what it was expected to cost.
    """
    billed = bill(*_amounts(trial, done, deployment), region=deployment.region)
    left_out = [*_left_out(trial, done, deployment)]
    left_out += [(price.part, f"{price.item}: no price is known") for price in billed.unpriced]
    whole = all(part is None or text == LATER or text.endswith(NOT_OURS) for part, text in left_out)
    return Cost(
        estimate=estimate_usd,
        actual=billed.total_usd,
        charged=billed.total_usd if whole else max(billed.total_usd, estimate_usd),
        items=billed.lines,
        left_out=tuple(dict.fromkeys(text for _, text in left_out)),
        incomplete=tuple(part for part in PARTS if part in {own for own, _ in left_out}),
        emulated=bool(deployment.emulator),
        prices=describe_prices(deployment.region),
    )


def function_amounts(functions: Sequence[FunctionUsage], *, arm64: bool) -> Iterator[Amount]:
    """
    Yield requests and duration: of what a trigger invokes, of writers, of all other functions together.

    arm64: whether the stack's functions run on Graviton.
    """
    for part, label in _LABELS:
        found = [each for each in functions if _PARTS.get(each.name, "control") == part]
        # What a trigger invokes in one trial is either the stack's or a copy, so one processor each.
        on_arm64 = next((each.arm64 for each in found if each.arm64 is not None), arm64)
        duration = prices.LAMBDA_ARM_GB_S if on_arm64 else prices.LAMBDA_GB_S
        scaled = ", ".join(f"{each.name} x {each.scale:.3g}" for each in found if each.scale != 1)
        note = f"from a sample of the log lines: {scaled}" if scaled else ""
        names = ", ".join(sorted(each.name for each in found))
        for price, quantity in (
            (prices.LAMBDA_REQUEST, sum(each.invocations for each in found)),
            (duration, sum(each.gb_s * each.scale for each in found)),
        ):
            own = price._replace(item=f"{price.item}, {label}", part=part)
            yield line(own, quantity, "; ".join(filter(None, (names, note if price is duration else ""))))


def _amounts(trial: TrialPlan, done: Done, deployment: Deployment) -> Iterator[Amount]:
    stands = standing(deployment)
    if not (done.own_server and _has_server(trial)):  # whose bill knows what it is: RDS, ElastiCache, a machine
        yield from store_lines(trial, done.offered)
    if not done.own_server:
        yield from hours(stands.get(trial.target.store, ()), done.offered.hours)
    if done.functions is not None:
        yield from function_amounts(done.functions, arm64=deployment.arm64)
    if done.transitions is not None:
        yield line(prices.STATE_TRANSITION, done.transitions, "counted by states, see the cost guide")
    own = prices.STATE_TRANSITION._replace(item=f"{prices.STATE_TRANSITION.item}, executions of DAGs")
    yield line(own, done.dag_transitions, "by levels and attempts")
    if trial.load_from == "host":
        yield from hours(stands.get(LOAD_HOST, ()), done.offered.hours)
        yield line(prices.LOAD_QUEUE, queue_requests(trial, done.offered.hours * 3_600), "by the host's pace of asking")
    yield from _records(trial, done, deployment)


def _has_server(trial: TrialPlan) -> bool:
    """Return whether the store is a server that somebody has to run."""
    return trial.target.needs_endpoint and trial.target.store not in _NO_HOURS


def _records(trial: TrialPlan, done: Done, deployment: Deployment) -> Iterator[Amount]:
    writes = results_writes(trial, writer_seconds(trial), done.delivered, done.batches) + done.dag_writes
    yield line(prices.RESULTS_WRITE, writes, "items of arrivals, rows of tasks, heartbeats, pointers and flags")
    yield line(prices.DYNAMODB_READ, writer_seconds(trial), "each writer asks once a second whether to go on")
    yield line(prices.RESULTS_PUT, done.objects, "one for each object of the trial")
    stored = done.batches * T4_ITEM_BYTES + done.delivered * T4_ENTRY_BYTES
    days = deployment.days("RecordsRetentionDays")
    yield line(prices.RESULTS_STORED, stored / GB * days / DAYS_PER_MONTH, f"arrivals, kept for {days:g} days")
    if done.functions is None:
        return
    invocations = sum(each.invocations for each in done.functions)
    logged = log_bytes(trial, done.delivered, done.batches, invocations)
    basis = f"{LOG_BYTES_PER_INVOCATION} bytes an invocation, and logged arrivals"
    yield line(prices.LOGS_GB, logged / GB, basis)
    days = deployment.days("LogRetentionDays")
    yield line(prices.LOGS_STORED, logged / GB * days / DAYS_PER_MONTH, f"kept for {days:g} days")


def _left_out(trial: TrialPlan, done: Done, deployment: Deployment) -> Iterator[tuple[Part | None, str]]:
    """Name what was spent and not counted, each with its part, if that is thereby incomplete; the greater first."""
    store = trial.target.store
    if done.functions is None:
        text = f"Lambda's requests, duration and log: {done.missing_logs}"
        yield from ((part, text) for part, _ in _LABELS if part != "trigger" or trial.target.trigger)
    if done.transitions is None:
        yield "control", "state transitions: without log lines nobody knows how often loops were gone through"
    if _has_server(trial) and (done.own_server or not deployment.stands(store)):
        yield "store", f"the {'bill' if done.own_server else 'hours'} of {store}'s server, {NOT_OURS}"
    if store == "postgresql" and not done.own_server and deployment.options.get("AuroraPostgresql") == "serverless":
        yield "store", "Aurora's capacity above the least"
    yield from (("store", text) for text in unknown_charges(done.offered.stretches))
    if trial.load_from == "host" and not deployment.stands(LOAD_HOST):
        yield "load", f"the hours of the load host, {NOT_OURS}"
    yield "control", LATER
    yield from ((None, text) for text in (READS, TARGET_STORAGE))
    if done.dag_writes:
        yield None, TASK_HEARTBEATS


def run_items(
    transitions: int, stored_bytes: int, objects: int, functions: Sequence[FunctionUsage], deployment: Deployment
) -> tuple[CostItem, ...]:
    """Return what belongs to a run and to none of its trials."""
    days = deployment.days("ResultsRetentionDays")
    amounts = (
        *function_amounts(functions, arm64=deployment.arm64),
        line(prices.STATE_TRANSITION, transitions, "the benchmark machine's"),
        line(prices.RESULTS_PUT, objects, "objects of the run that its trials have not counted"),
        line(
            prices.BUCKET_STORED, stored_bytes / GB * days / DAYS_PER_MONTH, f"all of the run, kept for {days:g} days"
        ),
    )
    named = (each._replace(price=each.price._replace(item=f"{each.price.item}, run itself")) for each in amounts)
    return bill(*named, region=deployment.region).lines
