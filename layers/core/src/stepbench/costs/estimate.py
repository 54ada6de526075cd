"""
The bill of a trial from its plan, before it runs; `actual` has the one from its counts.

It is of trials whose load writers offer, by the assumptions of a place (`assumptions`); `experiments.estimates` has
those of all trials. A writer that Lambda has
to start again offers its share again, which is not foreseen. Operations invoke nothing but their writers. Where a load
host runs these, its hours are billed instead, at the price of the dearer of two types. What the trigger's filter holds
back costs its write alone: no store bills for a filter, and nothing is invoked.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from stepbench.contracts.capacity import AutoscaledCapacity, ProvisionedCapacity
from stepbench.contracts.experiment import measure_of
from stepbench.contracts.phase import MAX_PRECISION_CHECKS
from stepbench.contracts.rules.load import METRICS_LOOP_S, METRICS_WAIT_S
from stepbench.contracts.target import DynamoDbTarget
from stepbench.costs import prices
from stepbench.costs.assumptions import events, invocation_s, load_s, offered_s, share_needed
from stepbench.costs.dynamodb import blob_write_units, dynamodb_lines, most_write_units
from stepbench.costs.prices import Offered, bill, line
from stepbench.costs.stores import aurora_lines, dsql_lines, elasticache_lines
from stepbench.costs.transitions import Visits, trial_transitions
from stepbench.records.formats.t4_lines import SAMPLE_EVERY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from stepbench.contracts.plan import AnyTrial, TrialPlan
    from stepbench.costs.assumptions import Assumptions
    from stepbench.costs.prices import Amount, CostEstimate

FUNCTION_MEMORY_MB = 1_024
"""The template's default, and the paper's."""
T4_ENTRY_BYTES = 36
T4_ITEM_BYTES = 300
LOG_BYTES_PER_INVOCATION = 400
ROWS_ITEM_BYTES, ROW_BYTES = 1_900, 12
"""An invocation's rows in one item: its header, and each row more."""
T4_LINE_BYTES = 200
"""A line of the second source (`records.formats.t4_lines`) without its entries, CloudWatch's own 26 bytes included."""
PRINTED_BYTES = {"log": 600, "table": 320}
"""What a measured function prints of an invocation, by where its other lines go, CloudWatch's 26 bytes included."""
LINES_ITEM_BYTES, LINES_ENTRY_BYTES = 600, 150
"""An item with the lines of a measured function's invocation, its keys included, and what each record adds."""
T4_LOGGED_ENTRY_BYTES = T4_ENTRY_BYTES * 4 / 3
TRANSITIONS_PER_TRIAL = 60
WATCH_LANES = 2
TRANSITIONS_PER_PHASE = 15
TRANSITIONS_PER_ITEM = 6
TRANSITIONS_PER_CHECK = 3
FLUSH_S = 10
QUEUE_REQUESTS_PER_ITEM, QUEUE_POLL_S = 3, 5
"""A load host's: sent, received and deleted; it asks so often."""


def offered_estimate(
    trial: TrialPlan,
    assumed: Assumptions,
    region: str,
    own: Iterable[Amount] = (),
    objects: tuple[float, float] | None = None,
) -> CostEstimate:
    """
    Return what a trial whose load writers offer costs at the region's list prices, where all is as assumed.

    Args:
        trial: as planned.
        assumed: where it runs.
        region: AWS's.
        own: what the experiment takes beyond what any other does.
        objects: how many objects of the store an event puts and gets on average; None where it is one itself.
    """
    arrives, offered = measure_of(trial.experiment).arrives, events(trial, assumed)
    delivered = math.ceil(offered * trial.record.matching_share) if arrives else 0
    batches = _batches(trial, delivered, assumed)
    invocations = _invocations(trial, batches, offered, assumed)
    held_s = load_s(trial, assumed) + (trial.drain_limit_s if assumed.drains else 0)
    hours = (held_s + assumed.around_s + assumed.ready_s * (len(trial.phases) if assumed.expected else 0)) / 3_600
    return bill(
        *store_lines(trial, Offered(offered + trial.preloaded_keys, assumed.canaries, hours, objects=objects)),
        line(prices.LAMBDA_REQUEST, invocations),
        line(prices.LAMBDA_GB_S, _billed_s(trial, batches, offered, assumed) * FUNCTION_MEMORY_MB / 1_024),
        line(prices.RESULTS_WRITE, results_writes(trial, _offering_s(trial, assumed), delivered, batches)),
        line(prices.DYNAMODB_READ, _offering_s(trial, assumed)),
        line(prices.RESULTS_PUT, _offering_s(trial, assumed) / FLUSH_S + 2 * items(trial) + 20),
        *_load_host_lines(trial, assumed),
        line(prices.STATE_TRANSITION, _transitions(trial, assumed)),
        line(prices.LOGS_GB, log_bytes(trial, delivered, batches, invocations) / 1e9),
        *own,
        region=region,
    )


def store_lines(trial: TrialPlan, offered: Offered) -> tuple[Amount, ...]:
    """Return what the store bills for what is done, or is to be done; capacity by the hours that it is held."""
    lines = STORE_LINES.get(trial.target.store)
    return lines(trial, offered) if lines else ()


def _load_host_lines(trial: TrialPlan, assumed: Assumptions) -> tuple[Amount, ...]:
    """A host is billed while it is there, which for a trial is while the trial goes on."""
    if trial.load_from == "lambda" or not assumed.has_load_host:
        return ()
    there_s = _watch_s(trial, assumed)
    return line(prices.LOAD_HOST, there_s / 3_600), line(prices.LOAD_QUEUE, queue_requests(trial, there_s))


def queue_requests(trial: TrialPlan, there_s: float) -> float:
    """Return what the queue of a load host is asked while the host is there."""
    return QUEUE_REQUESTS_PER_ITEM * items(trial) + there_s / QUEUE_POLL_S


def _s3_lines(_trial: TrialPlan, offered: Offered) -> tuple[Amount, ...]:
    if offered.objects is None:
        return (line(prices.S3_PUT, offered.number + offered.canaries),)
    puts, gets = offered.objects
    note = "as the DAG says, of all executions"
    return line(prices.S3_PUT, puts * offered.number, note), line(prices.S3_GET, gets * offered.number, note)


STORE_LINES: Mapping[str, Callable[[TrialPlan, Offered], tuple[Amount, ...]]] = {
    "s3": _s3_lines,
    "dynamodb": dynamodb_lines,
    "postgresql": aurora_lines,
    "dsql": dsql_lines,
    "redis": elasticache_lines,
}
"""Stores that bill by what is done, by name; what the others cost by the hour is not a trial's."""


def _batches(trial: TrialPlan, delivered: int, assumed: Assumptions) -> int:
    """A watcher writes what it saw once a second at most; a push receiver runs once per event, or per batch of them."""
    if not measure_of(trial.experiment).arrives:
        return 0
    if trial.pull:
        return min(delivered, math.ceil(assumed.lanes * _watch_s(trial, assumed)))
    pushed = delivered + assumed.canaries
    if assumed.polls_per_s is None or not isinstance(trial.target, DynamoDbTarget):
        return pushed
    window_s = max(trial.target.batching_window_s * assumed.batching_windows, 1 / assumed.polls_per_s)
    looks = math.ceil(load_s(trial, assumed) / window_s) * trial.target.parallelization_factor
    return min(pushed, max(looks, math.ceil(pushed / trial.target.batch_size)))


def _invocations(trial: TrialPlan, batches: int, offered: int, assumed: Assumptions) -> int:
    receivers = 0 if trial.pull else batches + _invoked_writes(trial, offered, assumed)
    return receivers + _invoked_items(trial) + assumed.control_calls + _checks(trial, assumed)


def _billed_s(trial: TrialPlan, batches: int, offered: int, assumed: Assumptions) -> float:
    held = sum(phase.slices * trial.writers for phase in trial.phases if not phase.invoked)
    writers_s = _offering_s(trial, assumed) + assumed.lead_of(trial) * held if _invoked_items(trial) else 0
    pushed_s = (batches + _invoked_writes(trial, offered, assumed)) * _received_s(trial, assumed)
    receivers_s = assumed.lanes * _watch_s(trial, assumed) if trial.pull else pushed_s
    return writers_s + receivers_s + assumed.control_s + _checks(trial, assumed) * assumed.check_s


def _received_s(trial: TrialPlan, assumed: Assumptions) -> float:
    """
    Return how long one delivery occupies its receiver, as seconds of a function with the stack's memory.

    How long a measured function takes is what the trial is to find out: it is taken for as quick as ours, and for tried
    as often as it may be where a bound is asked for.
    """
    function = trial.target.function
    if function is None:
        return assumed.receiver_s
    memory = (function.memory_mib or FUNCTION_MEMORY_MB) / FUNCTION_MEMORY_MB
    return assumed.receiver_s * memory * (1 if assumed.expected else trial.target.attempts)


def _invoked_writes(trial: TrialPlan, offered: int, assumed: Assumptions) -> int:
    """Count the writes that are invocations themselves, of `CheckClock`."""
    return offered + assumed.canaries if trial.target.receiver == "CheckClock" else 0


def results_writes(trial: TrialPlan, offering_s: float, delivered: int, batches: int) -> float:
    """
    Return write units: each batch has one packed item, each writer a heartbeat a second and a pointer per flush.

    The lines of a measured function that go there are an item more of each batch.
    """
    entries = delivered / max(batches, 1)
    units = math.ceil((T4_ITEM_BYTES + T4_ENTRY_BYTES * entries) / 1_024)
    if trial.target.function is not None and trial.target.function.records == "table":
        units += math.ceil((LINES_ITEM_BYTES + LINES_ENTRY_BYTES * entries) / 1_024)
    return batches * units + offering_s * (1 + 1 / FLUSH_S) + _invocation_writes(trial) + 100


def _invocation_writes(trial: TrialPlan) -> int:
    """Return write units of invocations: each has an item that marks its begin, and one with its rows."""
    loads = (phase.invoked for phase in trial.phases if phase.invoked)
    each = (1 + math.ceil((ROWS_ITEM_BYTES + ROW_BYTES * load.operations) / 1_024) for load in loads)
    return trial.writers * sum(each)


def log_bytes(trial: TrialPlan, delivered: int, batches: int, invocations: int) -> float:
    """Return what invocations and logged arrivals write into the log; a measured function prints all of its own."""
    platform_bytes, function = invocations * LOG_BYTES_PER_INVOCATION, trial.target.function
    if function is not None:
        return platform_bytes + batches * PRINTED_BYTES[function.records] + delivered * LINES_ENTRY_BYTES
    share = {"all": 1.0, "sample": 1 / SAMPLE_EVERY, "none": 0.0}[trial.log_t4]
    return platform_bytes + share * (batches * T4_LINE_BYTES + delivered * T4_LOGGED_ENTRY_BYTES)


def _transitions(trial: TrialPlan, assumed: Assumptions) -> int:
    """Return how many states are entered: by the machine's own, and generously where nothing may be left out."""
    checks = _checks(trial, assumed)
    turns = math.ceil(_watch_s(trial, assumed) / trial.watch_loop_s) if trial.pull else 0
    once = dict.fromkeys(("PrepareTarget", "AwaitTarget", "AwaitArrivals", "CollectLogs"), 1)
    scaled = sum(phase.scale is not None for phase in trial.phases)
    visits = Visits(
        phases=len(trial.phases),
        needed=len(trial.phases),
        slices=items(trial),
        on_host=trial.load_from == "host",
        invoked=once | {"WatchChanges": turns, "CheckPrecision": checks, "ScaleTarget": 2 * scaled},
        scaled=scaled,
        lanes=WATCH_LANES if trial.pull else 0,
        inline=len(trial.inline_phases) * trial.writers,
        inline_phases=len(trial.inline_phases),
        maps=sum(phase.invoked is not None for phase in trial.phases),
    )
    if assumed.expected:
        return trial_transitions(visits)
    loops = TRANSITIONS_PER_PHASE * len(trial.phases) + TRANSITIONS_PER_CHECK * checks
    generous = TRANSITIONS_PER_TRIAL + loops + TRANSITIONS_PER_ITEM * items(trial)
    return max(generous, trial_transitions(visits))


def _checks(trial: TrialPlan, assumed: Assumptions) -> int:
    """Count the checks of precision, thresholds and utilisation, at most: utilisations may come late."""
    measured = sum(phase.probe or phase.uses_found_rate for phase in trial.run_phases)
    until = [phase for phase in trial.phases if phase.until]
    if assumed.expected:
        looks = sum(math.ceil(MAX_PRECISION_CHECKS * share_needed(trial, phase)) for phase in until)
        thresholds = trial.most_checks(aborts=assumed.aborts) - trial.most_checks(aborts=False)
        return looks + thresholds + 2 * measured
    return trial.most_checks(aborts=assumed.aborts) + measured * (METRICS_WAIT_S // METRICS_LOOP_S)


def items(trial: TrialPlan) -> int:
    """Count the slices that writers run."""
    return sum(phase.slices * trial.writers for phase in trial.phases)


def _invoked_items(trial: TrialPlan) -> int:
    """Count the items that Lambda runs: all, or none where a load host does."""
    return items(trial) if trial.load_from == "lambda" else 0


def writer_seconds(trial: TrialPlan) -> float:
    """Return how long all writers together offer load at most."""
    at_once = (trial.concurrency(index) if phase.invoked else trial.writers for index, phase in enumerate(trial.phases))
    return sum(phase.length_s * writers for phase, writers in zip(trial.phases, at_once, strict=True))


def _offering_s(trial: TrialPlan, assumed: Assumptions) -> float:
    """Return the same as it is expected, where the load may end before."""
    if not assumed.expected:
        return writer_seconds(trial)
    each_s = (
        invocation_s(trial, phase.invoked, assumed) if phase.invoked else offered_s(trial, phase, assumed)
        for phase in trial.run_phases
    )
    return sum(each_s) * trial.writers


def _watch_s(trial: TrialPlan, assumed: Assumptions) -> float:
    """A watcher is there from the canaries to the last arrival, or to the drain limit."""
    drain_s = trial.drain_limit_s if assumed.drains else 0
    return load_s(trial, assumed) + drain_s + assumed.ready_s * (1 + len(trial.phases))


def peak_per_s(trial: AnyTrial) -> float:
    """Return the highest rate that is offered; closed loops have none that a plan knows."""
    return max((step.rate_per_s for phase in trial.phases for step in phase.load), default=0.0)


def peak_units(trial: TrialPlan) -> float:
    """Return how many write units a second the highest rate takes; 0 of a mix, whose operations have several sizes."""
    return 0.0 if trial.workload is not None else peak_per_s(trial) * blob_write_units(trial)


def provisioned_units(trial: AnyTrial) -> int | None:
    """Return the most write units that a trial's table is given; None if it is paid by request all the time."""
    if not isinstance(trial.target, DynamoDbTarget):
        return None
    asked = (trial.target.capacity, *(phase.scale.capacity for phase in trial.phases if phase.scale))
    provisioned = (each for each in asked if isinstance(each, ProvisionedCapacity | AutoscaledCapacity))
    return max(map(most_write_units, provisioned), default=None)
