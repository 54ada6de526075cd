"""What one experiment demands of a trial: operations, triggers, executions of DAGs; and Aurora DSQL's quotas."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from stepbench.contracts.base import BrokenRule, repeated_names
from stepbench.contracts.function import (
    MOST_ASYNCHRONOUS_ATTEMPTS,
    MOST_LOGGED_EVENTS,
    MOST_TABLED_EVENTS,
)
from stepbench.contracts.target import (
    CassandraTarget,
    DsqlTarget,
    DynamoDbTarget,
    PostgresqlTarget,
    stores_with,
    target_models,
)
from stepbench.contracts.workload import ClusterRecord, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.base import Contract
    from stepbench.contracts.function import MeasuredFunction
    from stepbench.contracts.phase import Phase
    from stepbench.contracts.trial import TrialFields
    from stepbench.contracts.workload import Workload


_TRIGGER_FIELDS = ("record", "find_rate", "log_t4")
"""Fields of a trial about events and arrivals, which operations have none of."""
MAX_CONNECTED_CLIENTS = 900
"""The limit of a writer: each client has a connection, and the function uses some files for itself."""


def trigger_rules(trial: TrialFields) -> Iterator[BrokenRule]:
    """The store has to offer a trigger, and the trial takes nothing that belongs to operations."""
    if trial.target.trigger is None:
        able = stores_with(lambda model: model.trigger)
        yield BrokenRule("target.store", "offers no triggers", f"Use one of {', '.join(able)}.")
    if trial.workload is not None:
        yield BrokenRule("workload", "has no meaning for triggers", 'Remove it, or set experiment to "operations".')
    if isinstance(trial.target, PostgresqlTarget) and trial.target.tls:
        message = "is for operations only: a trigger's trial would verify nothing, whatever it says"
        yield BrokenRule("target.tls", message, 'Remove it, or set experiment to "operations".')
    yield from _function_rules(trial)
    for index, phase in enumerate(trial.phases):
        if phase.closed is not None:
            message = "waits for answers, and triggers are offered at a rate"
            yield BrokenRule(f"phases[{index}].closed", message, 'Give load, or set experiment to "operations".')


def _function_rules(trial: TrialFields) -> Iterator[BrokenRule]:
    """A function of the user's own is what a store invokes, asynchronously or with batches of a stream."""
    function = trial.target.function
    if function is None:
        return
    if trial.target.trigger != "push":
        message = f"is invoked by nobody: {trial.target.store} pushes no events, a watcher of ours receives them"
        able = ", ".join(stores_with(lambda model: model.trigger == "push"))
        yield BrokenRule("target.function", message, f"Remove it, or use one of {able}.")
    if trial.target.receiver == "CheckClock":
        yield BrokenRule("target.function", "cannot be in the writer's sandbox", "Remove it, or same_sandbox.")
    if trial.log_t4 != "none":
        yield BrokenRule("log_t4", "has no effect: a measured function always prints its times", "Remove it.")
    if function.times == "platform":
        yield from _order_rules(trial)
    yield from _logged_rules(trial, function)
    yield from _attempt_rules(trial, function)


def _order_rules(trial: TrialFields) -> Iterator[BrokenRule]:
    """Lambda's own lines name no event: every write has to be one event, and every event one invocation."""
    why = 'and target.function.times "platform" finds events by their order'
    target, record = trial.target, trial.record
    if isinstance(target, DynamoDbTarget):
        if target.batch_size > 1 or target.batching_window_s:
            message = f"lets an invocation have several events, {why}"
            yield BrokenRule("target.batch_size", message, "Set batch_size to 1, and remove batching_window_s.")
        if target.filter is not None:
            yield BrokenRule("target.filter", f"holds events back, {why}", "Remove it.")
    if record.matching_share < 1:
        yield BrokenRule("record.matching_share", f"holds events back, {why}", "Remove it.")
    if record.operation != "put":
        yield BrokenRule("record.operation", f"writes records before the load, {why}", 'Use "put".')


def _logged_rules(trial: TrialFields, function: MeasuredFunction) -> Iterator[BrokenRule]:
    """What a measured function printed is read after the load."""
    tabled = function.records == "table"
    most = MOST_TABLED_EVENTS if tabled else MOST_LOGGED_EVENTS
    if trial.events > most:
        where, other = ("the results table", "") if tabled else ("its log", ', set target.function.records to "table"')
        message = f"offer {trial.events:,} events, and a measured function's are read from {where}"
        yield BrokenRule("phases", message, f"Offer {most:,} at most{other}, or split the trial.")
    for index, phase in enumerate(trial.phases):
        if phase.until is not None:
            message = "looks at arrivals during the load, and a measured function's are read after it"
            yield BrokenRule(f"phases[{index}].until", message, "Remove it, and give a duration_s or a count.")


def _attempt_rules(trial: TrialFields, function: MeasuredFunction) -> Iterator[BrokenRule]:
    """The trial has to wait for the last attempt, and Lambda bounds how many there are."""
    if trial.drain_limit_s < (needed_s := trial.target.retried_s):
        message = f"is over before {function.attempts} attempts are made, the last of them after {needed_s:g} s"
        yield BrokenRule("drain_limit_s", message, "Raise it, remove it, or lower target.function.attempts.")
    if not trial.target.delivers_batches:
        if function.attempts > MOST_ASYNCHRONOUS_ATTEMPTS:
            message = f"is more than the {MOST_ASYNCHRONOUS_ATTEMPTS} of an asynchronous invocation"
            yield BrokenRule("target.function.attempts", message, "Lower it.")
        if function.bisect:
            yield BrokenRule("target.function.bisect", "has no meaning for single events", "Remove it.")


def operation_rules(trial: TrialFields) -> Iterator[BrokenRule]:
    """The store has to offer operations, of which there is a workload, and nothing that belongs to triggers."""
    if not trial.target.operations:
        able = stores_with(lambda model: model.operations)
        yield BrokenRule("target.store", "offers no operations", f"Use one of {', '.join(able)}.")
    if trial.workload is None:
        yield BrokenRule("workload", "is missing, and operations need it", 'Give one, such as {"mix": {"read": 1}}.')
    else:
        yield from _kind_rules(trial, trial.workload)
        if trial.workload.record.shape == "row" and not isinstance(trial.target, DsqlTarget | PostgresqlTarget):
            message = f"is a row of an SQL table, and {trial.target.store} has none"
            yield BrokenRule("workload.record.shape", message, 'Use "blob", or target.store dsql or postgresql.')
        if isinstance(trial.workload.record, ClusterRecord):
            yield from _creation_rules(trial, trial.workload.record)
    yield from _trigger_field_rules(trial)


def _kind_rules(trial: TrialFields, workload: Workload) -> Iterator[BrokenRule]:
    for kind in sorted(workload.mix.kinds - trial.target.operations) if trial.target.operations else ():
        message = f"is not offered by {trial.target.store}"
        if kind is Kind.SCAN:
            message = f"needs records in the order of their keys, which {trial.target.store} does not keep"
        able = sorted(store for store, model in target_models().items() if kind in model.operations)
        yield BrokenRule(f"workload.mix.{kind.name.lower()}", message, f"Remove it, or use one of {', '.join(able)}.")


MOST_CLUSTERS = {"single": 19, "multi": 4}
"""An account's default quotas, 20 and 5 in a region, less the stack's own ("Cluster quotas" of the User Guide)."""


def _creation_rules(trial: TrialFields, record: ClusterRecord) -> Iterator[BrokenRule]:
    """One creation at a time, as many as an account may have clusters: all of them stay until the trial's tear-down."""
    target = trial.target
    if not isinstance(target, DsqlTarget):
        yield BrokenRule("workload.record.shape", f"is a cluster of Aurora DSQL, not of {target.store}", 'Use "blob".')
        return
    if target.endpoint is not None:
        yield BrokenRule(
            "target.endpoint", "is a cluster that is there already, and this trial creates them", "Remove it."
        )
    regions = {"peer_region": record.peer_region, "witness_region": record.witness_region}
    for field, region in regions.items():
        if (target.cluster == "multi") != (region is not None):
            message = f"is {'missing' if region is None else 'given'}, and target.cluster is {target.cluster}"
            remedy = "Name a region, or make" if region is None else "Remove it, or make"
            other = "single" if target.cluster == "multi" else "multi"
            yield BrokenRule(f"workload.record.{field}", message, f'{remedy} target.cluster "{other}".')
    named = [each for each in (target.region, *regions.values()) if each is not None]
    if len(set(named)) < len(named):
        message = f"has regions that are not all different, the target's included: {', '.join(named)}"
        yield BrokenRule("workload.record", message, "Name three regions.")
    yield from _creation_load_rules(trial, target)


def _creation_load_rules(trial: TrialFields, target: DsqlTarget) -> Iterator[BrokenRule]:
    for index, phase in enumerate(trial.phases):
        if phase.closed is None or phase.closed.clients > 1 or phase.closed.operations is None:
            message = "does not create one cluster after the other, so many as it says"
            yield BrokenRule(f"phases[{index}]", message, 'Give closed with "clients": 1 and with operations.')
    created = sum(phase.closed.operations or 0 for phase in trial.phases if phase.closed is not None)
    most = MOST_CLUSTERS[target.cluster]
    if created > most:
        message = f"create {created:,} clusters, and an account has room for {most} beside the stack's own"
        yield BrokenRule(
            "phases", message, "Lower closed.operations, and raise repeats: tear-down deletes the clusters."
        )


def _trigger_field_rules(trial: TrialFields) -> Iterator[BrokenRule]:
    for field in _fields_set(trial, _TRIGGER_FIELDS):
        yield BrokenRule(field, "has no meaning for operations", "Remove it.")
    for index, phase in enumerate(trial.phases):
        if phase.until is not None:
            yield BrokenRule(
                f"phases[{index}].until", "is about trigger latency, and operations have none", "Remove it."
            )
    for field in _fields_set(trial.target, ("function", *trial.target.trigger_fields)):
        yield BrokenRule(f"target.{field}", "is about triggers, and operations have none", "Remove it.")
    if trial.arrivals != "constant" and not any(phase.load for phase in trial.phases):
        message = "has no effect: clients of closed loops offer no arrivals"
        yield BrokenRule("arrivals", message, "Remove it, or give load instead of closed; pauses have closed.think.")


def _fields_set(model: Contract, names: Sequence[str]) -> Iterator[str]:
    """Yield the fields that have another value than their default."""
    return (name for name in names if getattr(model, name) != type(model).model_fields[name].get_default())


def client_rules(trial: TrialFields) -> Iterator[BrokenRule]:
    """Each writer needs a client at least, and may have only so many."""
    for index, phase in enumerate(trial.phases):
        if phase.closed is not None and phase.closed.clients < trial.writers:
            message = f"is below writers ({trial.writers}), so that some writers would do nothing"
            yield BrokenRule(f"phases[{index}].closed.clients", message, "Raise it, or lower writers.")
        elif phase.closed is not None and phase.closed.clients > MAX_CONNECTED_CLIENTS * trial.writers:
            message = f"is more than {MAX_CONNECTED_CLIENTS} a writer, and a function may have 1,024 files open"
            least = -(-phase.closed.clients // MAX_CONNECTED_CLIENTS)
            yield BrokenRule(
                f"phases[{index}].closed.clients", message, f"Lower it, or raise writers to {least} or more."
            )


def no_invoked_rules(trial: TrialFields) -> Iterator[BrokenRule]:
    """Invocations by a Map do operations, and nothing else."""
    for index, phase in enumerate(trial.phases):
        if phase.invoked is not None:
            message = f"is of operations, and this trial's experiment is {trial.experiment}"
            yield BrokenRule(f"phases[{index}].invoked", message, 'Give load, or set experiment to "operations".')


MOST_INLINE = 500
"""Their items go through the state machine itself, some 350 bytes each of 256 KiB."""


def invoked_rules(trial: TrialFields) -> Iterator[BrokenRule]:
    """Invocations are Lambda's, and an inline Map's items are in the state."""
    for index, phase in enumerate(trial.phases):
        if phase.invoked is None:
            continue
        at = f"phases[{index}].invoked"
        if trial.load_from == "host":
            yield BrokenRule(at, "is about Lambda's invocations, and load_from is host", "Remove one of the two.")
        if phase.invoked.map == "inline" and trial.writers > MOST_INLINE:
            message = f"is inline, and {trial.writers:,} items do not fit into a state's 256 KiB"
            yield BrokenRule(f"{at}.map", message, f'Lower writers to {MOST_INLINE:,}, or make it "distributed".')


# Aurora DSQL's quotas that plans have to keep ("Cluster quotas and database limits" of its User Guide). The rate is one
# that nobody can have raised. A plan that would run into them measures its own refusals (SQLSTATE 53300 and 53400), so
# it is refused before it runs. Below them the cluster may still refuse, if others connect to it, too: such operations
# are counted as FAILED.
MAX_CONNECTIONS = 10_000
NEW_CONNECTIONS_PER_S = 100
CONNECTION_BURST = 1_000
"""The allowance of connections made at once; it is refilled at the rate above."""
FASTEST_CONNECTION_S = 0.08
"""TCP, TLS, the token's check and one statement, in one region: published medians without reuse are 88 ms and above."""


def dsql_rules(trial: TrialFields) -> Iterator[BrokenRule]:
    """Count connections of all writers together, as if nobody else connected to the cluster."""
    if not isinstance(trial.target, DsqlTarget) or trial.workload is None:
        return
    at_once = trial.writers * trial.max_in_flight
    if at_once > MAX_CONNECTIONS and any(phase.load for phase in trial.phases):
        message = f"times writers makes {at_once:,} connections, and a cluster has {MAX_CONNECTIONS:,} at most"
        yield BrokenRule("max_in_flight", message, "Lower it, or writers.")
    yield from _opened_sessions(trial, reuse=trial.workload.reuse)


def _opened_sessions(trial: TrialFields, *, reuse: bool) -> Iterator[BrokenRule]:
    """A phase's writers open their sessions together, before it; what they use up comes back while they load."""
    left = float(CONNECTION_BURST)
    for index, phase in enumerate(trial.phases):
        found = [(_sessions(trial, index), phase.length_s)] if reuse else _rates(trial, index)
        for opened, length_s in found:
            lowest = left - opened if reuse else left + (NEW_CONNECTIONS_PER_S - opened) * length_s
            left = min(CONNECTION_BURST, lowest + (NEW_CONNECTIONS_PER_S * length_s if reuse else 0))
            if lowest < 0:
                field = "load" if phase.is_open else "closed" if phase.closed else "invoked"
                message = f"makes more new connections than a cluster takes: {NEW_CONNECTIONS_PER_S} a second, and "
                message += f"{CONNECTION_BURST:,} once beyond that"
                yield BrokenRule(f"phases[{index}].{field}", message, _remedy(phase, reuse=reuse))
                return


def _sessions(trial: TrialFields, index: int) -> int:
    return trial.waiting_clients(index) or min(trial.writers * trial.max_in_flight, trial.phases[index].events)


def _rates(trial: TrialFields, index: int) -> list[tuple[float, float]]:
    """Return new connections a second at most, and for how many seconds."""
    phase = trial.phases[index]
    loop, at_once = trial.loop_of(phase), trial.waiting_clients(index)
    if loop is None or at_once is None:
        return [(step.rate_per_s, step.length_s) for step in phase.steps]
    rate = at_once / (loop.think_ms / 1_000 + FASTEST_CONNECTION_S)
    offered_s = math.inf if loop.operations is None else loop.operations / rate
    return [(rate, min(loop.duration_s, offered_s))]


def _remedy(phase: Phase, *, reuse: bool) -> str:
    if phase.invoked is not None:
        return "Lower max_concurrency, or writers."
    if reuse:
        return "Lower clients." if phase.closed else "Lower max_in_flight, or writers."
    fewer = "Lower clients or operations, raise think_ms" if phase.closed else "Lower rate_per_s, shorten the load"
    return f"{fewer}, or set workload.reuse: true."


_OTHERS_FIELDS = ("record", "workload", "find_rate", "log_t4")
"""Fields of a trial about writes, operations and logs of receivers, of which executions have none."""


def no_dag_rules(trial: TrialFields) -> Iterator[BrokenRule]:
    """Other experiments have no DAGs, and configure no store for one."""
    if trial.dags:
        yield BrokenRule("dags", "have no meaning", 'Remove them, or set experiment to "dataflow".')
    for index, phase in enumerate(trial.phases):
        if phase.dag is not None:
            yield BrokenRule(f"phases[{index}].dag", "has no meaning", 'Remove it, or set experiment to "dataflow".')
    if isinstance(trial.target, CassandraTarget) and trial.target.tuning.tunes:
        remedy = 'Remove it, or set experiment to "dataflow".'
        yield BrokenRule("target.tuning", "has no meaning: only DAGs say what is to come", remedy)


def dag_rules(trial: TrialFields) -> Iterator[BrokenRule]:
    """Executions are of DAGs, and each phase knows of which."""
    names = [dag.name for dag in trial.dags]
    if not names:
        yield BrokenRule("dags", "are missing, and dataflow needs one", "Give a DAG, such as a preset's.")
        return
    yield from repeated_names("dags", names)
    for index, phase in enumerate(trial.phases):
        if phase.dag is None and len(names) > 1:
            message = "is missing, and the trial has several DAGs"
            yield BrokenRule(f"phases[{index}].dag", message, f"Name one of {', '.join(names)}.")
        elif phase.dag is not None and phase.dag not in names:
            yield BrokenRule(f"phases[{index}].dag", "names no DAG", f"Name one of {', '.join(names)}.")
    for place, dag in enumerate(trial.dags):
        if dag.longest_s > trial.drain_limit_s:
            message = f"is below what the tasks of dags[{place}] may take, {dag.longest_s:g} s"
            yield BrokenRule("drain_limit_s", message, "Raise it, or lower timeout_s of its stages.")


def medium_rules(trial: TrialFields) -> Iterator[BrokenRule]:
    """The store has to hold blobs, and is configured for nothing else."""
    if not trial.target.holds_blobs:
        able = stores_with(lambda model: model.holds_blobs)
        yield BrokenRule("target.store", "holds no blobs", f"Use one of {', '.join(able)}.")
    if isinstance(trial.target, CassandraTarget) and trial.target.tuning.tunes and trial.target.endpoint is not None:
        message = "is for the stack's own node, and target.endpoint names another server"
        yield BrokenRule("target.tuning", message, "Remove one of the two.")


def field_rules(trial: TrialFields) -> Iterator[BrokenRule]:
    """What belongs to other experiments is refused, and a closed loop has to say how many executions it starts."""
    for field in _fields_set(trial, _OTHERS_FIELDS):
        yield BrokenRule(field, "has no meaning for dataflow", "Remove it.")
    for field in _fields_set(trial.target, trial.target.trigger_fields):
        yield BrokenRule(f"target.{field}", "is about triggers, and dataflow has none", "Remove it.")
    for index, phase in enumerate(trial.phases):
        if phase.closed is not None and phase.closed.operations is None:
            message = "is missing: how many executions the clients start, one after the other"
            yield BrokenRule(f"phases[{index}].closed.operations", message, "Give it.")
        if phase.scale is not None:
            yield BrokenRule(f"phases[{index}].scale", "has no meaning for dataflow", "Remove it.")
