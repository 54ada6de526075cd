"""
From a plan, or from a trial's counts, to a bill, at us-east-1's list prices: many other regions are dearer.

Before the trial every push event is taken to cost an invocation of its own, which batching undercuts: a budget that
holds against the estimate holds against the bill. A writer that Lambda has to start again offers its share again, which
is not foreseen. Operations invoke nothing but their writers. What the trigger's
filter holds back costs its write alone: no store bills for a filter, and nothing is invoked. After the trial, counts
that were measured take the place of those assumptions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import assert_never

from stepbench.contracts.load_rules import METRICS_LOOP_S, METRICS_WAIT_S
from stepbench.contracts.measure import measure_of
from stepbench.contracts.phase import MAX_LOOKS
from stepbench.contracts.plan import TrialPlan
from stepbench.contracts.target import (
    AutoscaledCapacity,
    CassandraTarget,
    DsqlTarget,
    DynamoDbTarget,
    EtcdTarget,
    OnDemandCapacity,
    PostgresqlTarget,
    ProvisionedCapacity,
    RedisTarget,
    ReferenceTarget,
    S3Target,
    receiver_of,
)
from stepbench.costs import operations, prices
from stepbench.costs.bill import CostEstimate, CostLine, bill, line
from stepbench.costs.dsql import operation_dpu, preloading_dpu
from stepbench.records.t4_lines import SAMPLE_EVERY

FUNCTION_MEMORY_MB = 1_024
"""The template's default, and the paper's."""
RECEIVER_MS = 20
"""Billed time of a warm receiver: parse, one write to the results table."""
ATTRIBUTE_NAMES_BYTES = 20
"""DynamoDB bills names of attributes too, and rounds each item up to whole kilobytes."""
T4_ENTRY_BYTES = 36
T4_ITEM_BYTES = 300
LOG_BYTES_PER_INVOCATION = 400
T4_LINE_BYTES = 200
"""A line of the second source (`records.t4_lines`) without its entries, CloudWatch's own 26 bytes included."""
T4_LOGGED_ENTRY_BYTES = T4_ENTRY_BYTES * 4 / 3
CANARIES = 30
CONTROL_INVOCATIONS = 40
CONTROL_MS = 1_500
TRANSITIONS_PER_TRIAL = 60
TRANSITIONS_PER_PHASE = 15
TRANSITIONS_PER_ITEM = 6
TRANSITIONS_PER_LOOK = 3
LOOK_MS = 15_000
"""Some seconds in a function of three times the memory; most looks have fewer events to read than the last."""
WRITER_LEAD_S = 45
"""What a writer is billed for beside its slice: cold start, connecting, the hold until the barrier."""
FLUSH_S = 10
IDLE_S = 300
"""How long provisioned capacity stands before and after the load."""


@dataclass(frozen=True)
class Usage:
    """
    What a trial has really used; None where it is not known, and then the estimate's assumption stands.

    sent: writes that reached the store, warm-up included.
    batches: t4 items in the results table, one per delivered batch.
    preloaded: keys written before the load.
    invocations, billed_ms: sums over all functions of the trial, from the REPORT lines.
    """

    sent: int
    batches: int | None = None
    invocations: int | None = None
    billed_ms: float | None = None
    memory_mb: int = FUNCTION_MEMORY_MB
    preloaded: int | None = None


def estimate(trial: TrialPlan) -> CostEstimate:
    """Upper bound of what the trial costs on AWS at us-east-1's list prices, from its plan alone."""
    return _priced(trial, Usage(sent=trial.events))


def actual_cost(trial: TrialPlan, usage: Usage) -> float:
    """What the trial costs by its counts, in US dollars."""
    return _priced(trial, usage).total_usd


def _priced(trial: TrialPlan, usage: Usage) -> CostEstimate:
    arrives = measure_of(trial.experiment).arrives
    delivered = math.ceil(usage.sent * trial.record.matching_share) if arrives else 0
    batches = usage.batches if usage.batches is not None else _batches(trial, delivered)
    invocations = usage.invocations if usage.invocations is not None else _invocations(trial, batches)
    billed_ms = usage.billed_ms if usage.billed_ms is not None else _billed_ms(trial, batches)
    return bill(
        *_store_lines(trial, usage.sent + (trial.preloaded_keys if usage.preloaded is None else usage.preloaded)),
        line(prices.LAMBDA_REQUEST, invocations),
        line(prices.LAMBDA_GB_S, billed_ms / 1_000 * usage.memory_mb / 1_024),
        line(prices.RESULTS_WRITE, _results_writes(trial, delivered, batches)),
        line(prices.DYNAMODB_READ, _writer_seconds(trial)),
        line(prices.RESULTS_PUT, _writer_seconds(trial) / FLUSH_S + 2 * _items(trial) + 20),
        line(prices.STATE_TRANSITION, _transitions(trial)),
        line(prices.LOGS_GB, _log_bytes(trial, delivered, batches, invocations) / 1e9),
    )


def _store_lines(trial: TrialPlan, offered: int) -> tuple[CostLine, ...]:
    writes = offered + CANARIES
    match trial.target:
        case S3Target():
            return (line(prices.S3_PUT, writes),)
        case DynamoDbTarget():
            return _dynamodb_lines(trial, trial.target, writes)
        case PostgresqlTarget():
            return (line(prices.AURORA_IO, _aurora_requests(trial, offered)),)
        case DsqlTarget():
            return _dsql_lines(trial, trial.target, offered)
        case RedisTarget():
            return (line(prices.ELASTICACHE_ECPU, _ecpus(trial, trial.target, offered)),)
        case EtcdTarget() | CassandraTarget() | ReferenceTarget():
            return ()
        case _:
            assert_never(trial.target)


def _aurora_requests(trial: TrialPlan, offered: int) -> float:
    workload = trial.workload
    if workload is None:
        size = trial.record.key_bytes + trial.record.value_bytes
        return (offered + CANARIES) * operations.write_requests(size)
    operated = max(0, offered - workload.records) * operations.io_requests(workload)
    return operated + workload.records * operations.write_requests(operations.record_bytes(workload))


def _ecpus(trial: TrialPlan, target: RedisTarget, offered: int) -> float:
    """A cluster behind TLS may be ElastiCache Serverless, which no plan tells; all others bill by the hour."""
    if trial.workload is None or not (target.cluster and target.tls):
        return 0
    records = trial.workload.records
    operated = max(0, offered - records) * operations.ecpus(trial.workload)
    return operated + records * operations.ecpus_of_record(trial.workload)


def _dsql_lines(trial: TrialPlan, target: DsqlTarget, offered: int) -> tuple[CostLine, ...]:
    """Everything that it does is billed in one unit; peers bill what is written once more."""
    if trial.workload is None:  # a trial for triggers, which the store has not
        return ()
    regions = 2 if target.cluster == "multi" else 1
    records = trial.workload.records
    operated = max(0, offered - records) * operation_dpu(trial.workload, regions=regions)
    return (line(prices.DSQL_DPU, operated + preloading_dpu(trial.workload, records, regions=regions)),)


def _dynamodb_lines(trial: TrialPlan, target: DynamoDbTarget, writes: int) -> tuple[CostLine, ...]:
    """Reads of the stream by Lambda are free; capacity is billed by the mode that the trial ever asks for."""
    asked = [target.capacity, *(phase.scale.capacity for phase in trial.phases if phase.scale)]
    provisioned = [c for c in asked if isinstance(c, ProvisionedCapacity | AutoscaledCapacity)]
    on_demand = [capacity for capacity in asked if isinstance(capacity, OnDemandCapacity)]
    hours = (trial.length_s + trial.drain_limit_s + IDLE_S) / 3_600
    reads, written = _dynamodb_units(trial, writes)
    return (
        line(prices.DYNAMODB_WRITE, written if on_demand else 0),
        line(prices.DYNAMODB_TARGET_READ, reads if on_demand else 0),
        line(prices.DYNAMODB_PROVISIONED_WRITE, hours * max(map(_most_write_units, provisioned), default=0)),
        line(prices.DYNAMODB_PROVISIONED_READ, hours * max((c.read_units for c in provisioned), default=0)),
    )


def _dynamodb_units(trial: TrialPlan, offered: int) -> tuple[float, float]:
    """Read and write units of everything that is offered, what is preloaded included."""
    if trial.workload is None:
        size = trial.record.key_bytes + trial.record.value_bytes + ATTRIBUTE_NAMES_BYTES
        return 0, offered * math.ceil(size / 1_024)
    records = trial.workload.records
    operated = max(0, offered - records)
    written = operated * operations.write_units(trial.workload)
    preloaded = records * operations.units_of_record(trial.workload)
    return operated * operations.read_units(trial.workload), written + preloaded


def _most_write_units(capacity: ProvisionedCapacity | AutoscaledCapacity) -> int:
    return capacity.write_units if isinstance(capacity, ProvisionedCapacity) else capacity.max_write_units


def _batches(trial: TrialPlan, delivered: int) -> int:
    """A watcher writes what it saw once a second at most; a push receiver may run once per event; operations: none."""
    if not measure_of(trial.experiment).arrives:
        return 0
    return min(delivered, math.ceil(2 * _watch_s(trial))) if trial.pull else delivered + CANARIES


def _invocations(trial: TrialPlan, batches: int) -> int:
    receivers = 0 if trial.pull else batches + _invoked_writes(trial)
    return receivers + _items(trial) + CONTROL_INVOCATIONS + _looks(trial)


def _billed_ms(trial: TrialPlan, batches: int) -> float:
    writers_ms = (_writer_seconds(trial) + WRITER_LEAD_S * _items(trial)) * 1_000
    pushed_ms = (batches + _invoked_writes(trial)) * RECEIVER_MS
    receivers_ms = 2 * _watch_s(trial) * 1_000 if trial.pull else pushed_ms
    return writers_ms + receivers_ms + CONTROL_INVOCATIONS * CONTROL_MS + _looks(trial) * LOOK_MS


def _invoked_writes(trial: TrialPlan) -> int:
    """Writes that are invocations themselves, of `CheckClock`."""
    return trial.events + CANARIES if receiver_of(trial.target) == "CheckClock" else 0


def _results_writes(trial: TrialPlan, delivered: int, batches: int) -> float:
    """One packed item per batch, a heartbeat a second and a pointer per flush from each writer."""
    t4 = batches * math.ceil((T4_ITEM_BYTES + T4_ENTRY_BYTES * delivered / max(batches, 1)) / 1_024)
    return t4 + _writer_seconds(trial) * (1 + 1 / FLUSH_S) + 100


def _log_bytes(trial: TrialPlan, delivered: int, batches: int, invocations: int) -> float:
    share = {"all": 1.0, "sample": 1 / SAMPLE_EVERY, "none": 0.0}[trial.log_t4]
    return invocations * LOG_BYTES_PER_INVOCATION + share * (
        batches * T4_LINE_BYTES + delivered * T4_LOGGED_ENTRY_BYTES
    )


def _transitions(trial: TrialPlan) -> int:
    loops = TRANSITIONS_PER_PHASE * len(trial.phases) + TRANSITIONS_PER_LOOK * _looks(trial)
    return TRANSITIONS_PER_TRIAL + loops + TRANSITIONS_PER_ITEM * _items(trial)


def _looks(trial: TrialPlan) -> int:
    """At the precision of phases with `until`, and at utilisations that come late; at most."""
    waits = METRICS_WAIT_S // METRICS_LOOP_S
    measured = sum(phase.probe or phase.uses_found_rate for phase in trial.phases)
    return sum(MAX_LOOKS for phase in trial.phases if phase.until) + measured * waits


def _items(trial: TrialPlan) -> int:
    return sum(phase.slices * trial.writers for phase in trial.phases)


def _writer_seconds(trial: TrialPlan) -> float:
    return sum(phase.length_s for phase in trial.phases) * trial.writers


def _watch_s(trial: TrialPlan) -> float:
    """A watcher is there from the canaries to the drain limit."""
    return trial.length_s + trial.drain_limit_s + WRITER_LEAD_S * (1 + len(trial.phases))
