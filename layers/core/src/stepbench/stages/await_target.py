"""Task `AwaitTarget`: prove that the trigger delivers, by canaries, or the store serves, before any load is offered."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple, cast

from stepbench.contracts.identity import CANARY_PHASE, EventId, delete_key, put_key
from stepbench.contracts.target import DynamoDbTarget
from stepbench.contracts.tasks import AwaitTargetInput, AwaitTargetOutput
from stepbench.contracts.workload import Kind
from stepbench.drivers.preload import preloaded
from stepbench.drivers.registry import lease_target
from stepbench.errors import TargetUnavailableError, TargetUnreachableError
from stepbench.experiments.protocol import IN_A_ROW
from stepbench.experiments.registry import experiment_of
from stepbench.model.pending import perform
from stepbench.model.request import Outcome, Request, Result
from stepbench.records.formats.t4_items import parse_item
from stepbench.stages.function_log import LOG_POLL_S, last_error, take_in
from stepbench.stages.prepare_target import delivery_limit_s
from stepbench.stages.target_driver import find_unreached, open_driver, poll, refuse_if_cancelled
from stepbench.stages.trial_values import trial_values
from stepbench.workload.choices import PROBES
from stepbench.workload.operations import Contents

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepbench.contracts.plan import TrialSpec
    from stepbench.contracts.workload import Workload
    from stepbench.services import Services
    from stepbench.stages.target_driver import BuildDriver, OpenDriver
    from stepbench.workload.values import PreparedValues

CALL_LIMIT_S = 20
"""One call's share; the state machine calls again."""
REFUSED_LIMIT_S, REFUSED_AGAIN_LIMIT_S = 15, 5
"""A store that takes nothing for so long is given up, and sooner where a trial of the run has failed so before."""
SPREADING_S = 45
"""On AWS refusals count only after this time from the preparation: rights may take a minute to spread."""
CANARY_LIMIT_S = 5
"""A trigger that takes longer is not ready: the slowest published p99 of the four is below 3 s."""
LOGGED_CANARY_LIMIT_S = 15
"""Of a measured function, whose lines CloudWatch shows some seconds after they were printed."""
POLL_S, FIRST_POLL_S = 0.1, 0.01
WATCHER_FRESH_S = 5
_WRITER = 0
_SECOND_NS = 10**9


def await_target(task: AwaitTargetInput, services: Services, *, build: BuildDriver | None = None) -> AwaitTargetOutput:
    """
    Send canaries, one after the other, until three in a row have arrived, or until this call's time is up.

    With a batching window the canaries of one call share a batch, so there three arrivals at any time are enough.
    With a filter, which may well hold canaries back, three acknowledged ones are enough: the mapping reads from
    TRIM_HORIZON, so it misses nothing by being late. For operations there is nothing to arrive: one probe that works is
    enough.

    Raises:
        TargetUnavailableError: `ready_by` has passed, or the store does not answer.
        TargetUnreachableError: the store itself, and not its trigger, has taken nothing for `REFUSED_LIMIT_S`.
        TrialCancelledError: the trial is to stop.
        Exception: the driver itself broke, against its contract, which no waiting mends.
    """
    spec = services.trial(task.ref)
    refuse_if_cancelled(spec.tag, services)
    proof = experiment_of(spec.plan.experiment).staging.proof(spec)
    if proof is None:
        return AwaitTargetOutput(ready=True)
    if services.clock.now_ns() / 1e9 > task.ready_by.timestamp():
        by = f"{task.ready_by:%Y-%m-%d %H:%M:%S} UTC"
        message = f"{proof.failed} by {by}{_last_error(spec, services, build)}: {proof.look}"
        if printed := last_error(spec, services):
            message += f". It has printed: {printed}"
        raise TargetUnavailableError(message)
    call_ends_ns = services.clock.now_ns() + CALL_LIMIT_S * _SECOND_NS
    if spec.plan.pull and not poll(lambda: _watched(spec, services), call_ends_ns, POLL_S, services, spec.tag):
        return AwaitTargetOutput(ready=False)
    with open_driver(spec, services, build) as opened:
        proven = _delivers if proof.by == "arrivals" else _serves
        limits = _Limits(call_ends_ns, _refusals_count_from_ns(task, spec, services))
        return AwaitTargetOutput(ready=proven(spec, services, opened, limits))


class _Limits(NamedTuple):
    """Limits of one call, ns since the epoch: when it ends, and from when on refusals are held against the store."""

    ends_ns: int
    refusals_from_ns: int


def _refusals_count_from_ns(task: AwaitTargetInput, spec: TrialSpec, services: Services) -> int:
    now_ns = services.clock.now_ns()
    if services.settings.emulator or find_unreached(spec, services):
        return now_ns
    spread_s = task.ready_by.timestamp() - delivery_limit_s(spec, services.settings) + SPREADING_S
    return max(now_ns, round(spread_s * _SECOND_NS))


def _last_error(spec: TrialSpec, services: Services, build: BuildDriver | None) -> str:
    """Return what the store says to one more request, if that is an error: a table is missing, say."""
    if spec.plan.pull and not _watched(spec, services):
        return ""
    try:
        with open_driver(spec, services, build) as opened:
            if spec.plan.workload is not None:
                result = _probe(spec, services, opened)
            else:
                result = _send(spec, services, opened, trial_values(spec, services))[1]
    except TargetUnavailableError as error:
        return f" ({error})"
    return "" if result is None or result.outcome is Outcome.OK else f" ({result.outcome.name}, {result.error!r})"


def _watched(spec: TrialSpec, services: Services) -> bool:
    since_ns = services.clock.now_ns() - WATCHER_FRESH_S * _SECOND_NS
    beats = services.table.beats(spec.tag)
    return any(
        who.startswith("watcher#") and int(beat["at_ns"]) >= since_ns and not beat.get("ended")
        for who, beat in beats.items()
    )


def _serves(spec: TrialSpec, services: Services, opened: OpenDriver, limits: _Limits) -> bool:
    since_ns = limits.refusals_from_ns
    while (result := _probe(spec, services, opened)) is None or result.outcome is not Outcome.OK:
        refuse_if_cancelled(spec.tag, services)
        if result is None:
            since_ns = max(services.clock.now_ns(), limits.refusals_from_ns)
        else:
            _give_up_refusing(spec, services, result, since_ns)
        if services.clock.now_ns() >= limits.ends_ns:
            return False
        services.clock.sleep(POLL_S)
    return True


def _give_up_refusing(spec: TrialSpec, services: Services, last: Result, since_ns: int) -> None:
    """Raise TargetUnreachableError if a store has taken nothing since then, long enough ago."""
    limit_s = REFUSED_AGAIN_LIMIT_S if find_unreached(spec, services) else REFUSED_LIMIT_S
    if services.clock.now_ns() - since_ns >= limit_s * _SECOND_NS:
        target = lease_target(spec, services.settings)
        message = (
            f"{target} has taken nothing for {limit_s} s ({last.outcome.name}, {last.error!r}): check whether it runs"
        )
        raise TargetUnreachableError(message)


def _delivers(spec: TrialSpec, services: Services, opened: OpenDriver, limits: _Limits) -> bool:
    values = trial_values(spec, services)
    target = spec.plan.target
    if isinstance(target, DynamoDbTarget) and target.filter is not None:
        return all(_send(spec, services, opened, values)[1].outcome is Outcome.OK for _ in range(IN_A_ROW))
    if isinstance(target, DynamoDbTarget) and target.batching_window_s > 0:
        for _ in range(IN_A_ROW):
            _send(spec, services, opened, values)
        return poll(
            lambda: len(arrived_canaries(spec, services)) >= IN_A_ROW, limits.ends_ns, POLL_S, services, spec.tag
        )
    arrived_in_a_row, any_taken = 0, False
    while arrived_in_a_row < IN_A_ROW:
        refuse_if_cancelled(spec.tag, services)
        if services.clock.now_ns() >= limits.ends_ns:
            return False
        before = arrivals_by_order(spec, services)
        sequence, written = _send(spec, services, opened, values)
        any_taken = any_taken or written.outcome is Outcome.OK
        if not any_taken:
            _give_up_refusing(spec, services, written, limits.refusals_from_ns)
        arrived = written.outcome is Outcome.OK and _await_arrival(
            partial(_has_arrived, spec, services, sequence, before), spec, services, limits.ends_ns
        )
        arrived_in_a_row = arrived_in_a_row + 1 if arrived else 0
    return True


def _send(spec: TrialSpec, services: Services, opened: OpenDriver, values: PreparedValues | None) -> tuple[int, Result]:
    """
    Offer one canary, as a put or a deletion; return its sequence number and what became of it.

    The number is the time in milliseconds, so that those of earlier calls and of retries are never taken for it.
    """
    sequence = services.clock.now_ns() // 1_000_000 & 0xFFFF_FFFF
    event = EventId(spec.tag, CANARY_PHASE, _WRITER, 0, 0, sequence)
    record = spec.offered.record
    if record.operation == "delete":
        written = _send_deletion(spec, event, opened, values)
    else:
        key, identity = put_key(event, record.key_bytes), event.text()
        if values is not None:
            write = values.request(key, identity, sequence)
        else:
            write = Request(Kind.INSERT, key, identity.encode().ljust(record.value_bytes, b"."))
        written = opened.run(perform(opened.driver, write))
    # Also keeps two canaries from falling into one millisecond, and a refusing store from being hammered.
    services.clock.sleep(POLL_S if written.outcome is not Outcome.OK else 0.002)
    return sequence, written


def _send_deletion(spec: TrialSpec, event: EventId, opened: OpenDriver, values: PreparedValues | None) -> Result:
    """Send an insertion and a deletion: a store notifies nobody of the deletion of nothing."""
    key = delete_key(event, spec.offered.record.key_bytes)
    write = preloaded(spec.tag, key, event.sequence, spec.offered.record.value_bytes, values)
    written = opened.run(perform(opened.driver, write))
    if written.outcome is Outcome.OK:
        key = key if values is None else values.key(key)
        written = opened.run(perform(opened.driver, Request(Kind.DELETE, key)))
    return written


def _await_arrival(arrived: Callable[[], bool], spec: TrialSpec, services: Services, until_ns: int) -> bool:
    measured = spec.plan.target.function is not None
    limit_s = LOGGED_CANARY_LIMIT_S if measured else CANARY_LIMIT_S
    until_ns = min(until_ns, services.clock.now_ns() + limit_s * _SECOND_NS)
    pause_s, longest_s = (LOG_POLL_S, LOG_POLL_S) if measured else (FIRST_POLL_S, POLL_S)  # most come at once
    while not arrived():
        if services.clock.now_ns() >= until_ns:
            return False
        services.clock.sleep(pause_s)
        pause_s = min(2 * pause_s, longest_s)
    return True


def _has_arrived(spec: TrialSpec, services: Services, sequence: int, before: int | None) -> bool:
    if before is not None:
        return (arrivals_by_order(spec, services) or 0) > before
    return sequence in arrived_canaries(spec, services)


def arrivals_by_order(spec: TrialSpec, services: Services) -> int | None:
    """Return how many requests have reached a function whose lines name no event; None of others."""
    function = spec.plan.target.function
    if function is None or function.times != "platform":
        return None
    take_in(spec, services)
    return len({str(item["sk"]).rpartition("#")[0] for item in services.table.t4_items(spec.tag)})


def arrived_canaries(spec: TrialSpec, services: Services) -> set[int]:
    """Return sequence numbers of this stage's canaries that a receiver has recorded; preloaded keys are others."""
    take_in(spec, services)
    arrived: set[int] = set()
    for item in services.table.t4_items(spec.tag):
        entries = parse_item(item).entries
        own = (entries["phase"] == CANARY_PHASE) & (entries["writer"] == _WRITER)
        arrived.update(int(sequence) for sequence in entries["sequence"][own])
    return arrived


def _probe(spec: TrialSpec, services: Services, opened: OpenDriver) -> Result | None:
    """
    Return the result of one operation, None where the store says that it is not ready.

    That is a read of the last record that was preloaded, which shows that all were. Where there is none, a record is
    inserted, apart from the workload's: its number is the time, so that a second probe has another. It stays. Clusters
    are listed, in every region, in place of a read.
    """
    if not opened.run(opened.driver.ready()):
        return None
    workload = cast("Workload", spec.plan.workload)
    contents = Contents(workload, spec.tag)
    if workload.records or workload.record.shape == "cluster":
        operation = contents.operation(Kind.READ, max(0, workload.records - 1), 0)
    else:
        operation = contents.operation(Kind.INSERT, PROBES | services.clock.now_ns() // 1_000_000, 0)
    return opened.run(perform(opened.driver, operation))
