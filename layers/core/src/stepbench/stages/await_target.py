"""Task `AwaitTarget`: prove that the trigger delivers, by canaries, or the store serves, before any load is offered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.contracts.identity import CANARY_PHASE, EventId, delete_key, put_key
from stepbench.contracts.target import DynamoDbTarget, receiver_of
from stepbench.contracts.tasks import AwaitTargetInput, AwaitTargetOutput
from stepbench.drivers.preload import preloaded_value
from stepbench.drivers.protocol import Outcome, Write, Written
from stepbench.errors import TargetUnavailableError
from stepbench.records.t4 import parse_item
from stepbench.stages.probe import probe
from stepbench.stages.target_driver import open_driver, refuse_if_cancelled

if TYPE_CHECKING:
    from stepbench.contracts.plan import TrialSpec
    from stepbench.stages.services import Services
    from stepbench.stages.target_driver import BuildDriver, OpenDriver

CALL_LIMIT_S = 20
"""One call's share; the state machine calls again."""
CANARY_LIMIT_S = 5
"""A trigger that takes longer is not ready: the slowest published p99 of the four is below 3 s."""
IN_A_ROW = 3
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
        TrialCancelledError: the trial is to stop.
    """
    spec = services.trial(task.ref)
    refuse_if_cancelled(spec.tag, services)
    if services.clock.now_ns() / 1e9 > task.ready_by.timestamp():
        by = f"{task.ready_by:%Y-%m-%d %H:%M:%S} UTC"
        message = f"{_what(spec)} by {by}: {_hint(spec)}"
        raise TargetUnavailableError(message)
    call_ends_ns = services.clock.now_ns() + CALL_LIMIT_S * _SECOND_NS
    if spec.plan.pull and not _await_watcher(spec, services, call_ends_ns):
        return AwaitTargetOutput(ready=False)
    with open_driver(spec, services, build) as opened:
        proven = _delivers if spec.plan.workload is None else _serves
        return AwaitTargetOutput(ready=proven(spec, services, opened, call_ends_ns))


def _what(spec: TrialSpec) -> str:
    store = spec.plan.target.store
    if spec.plan.workload is not None:
        return f"no probe of {store} worked"
    return f"no {IN_A_ROW} canaries in a row came through {store}'s trigger"


def _hint(spec: TrialSpec) -> str:
    if spec.plan.workload is not None:
        return "look at whether the store runs, and whether RunWriter's function may use it"
    if spec.plan.pull:
        return "look at WatchChanges' log, and whether its function reaches the store"
    return f"look at {receiver_of(spec.plan.target)}'s log, and whether the store may invoke it"


def _await_watcher(spec: TrialSpec, services: Services, until_ns: int) -> bool:
    while not _watched(spec, services):
        if services.clock.now_ns() >= until_ns:
            return False
        refuse_if_cancelled(spec.tag, services)
        services.clock.sleep(POLL_S)
    return True


def _watched(spec: TrialSpec, services: Services) -> bool:
    since_ns = services.clock.now_ns() - WATCHER_FRESH_S * _SECOND_NS
    beats = services.table.beats(spec.tag)
    return any(
        who.startswith("watcher#") and int(beat["at_ns"]) >= since_ns and not beat.get("ended")
        for who, beat in beats.items()
    )


def _serves(spec: TrialSpec, services: Services, opened: OpenDriver, until_ns: int) -> bool:
    while not probe(spec, services, opened):
        refuse_if_cancelled(spec.tag, services)
        if services.clock.now_ns() >= until_ns:
            return False
        services.clock.sleep(POLL_S)
    return True


def _delivers(spec: TrialSpec, services: Services, opened: OpenDriver, until_ns: int) -> bool:
    target = spec.plan.target
    if isinstance(target, DynamoDbTarget) and target.filter is not None:
        return all(_send(spec, services, opened) is not None for _ in range(IN_A_ROW))
    if isinstance(target, DynamoDbTarget) and target.batching_window_s > 0:
        return _delivers_batched(spec, services, opened, until_ns)
    arrived_in_a_row = 0
    while arrived_in_a_row < IN_A_ROW:
        refuse_if_cancelled(spec.tag, services)
        if services.clock.now_ns() >= until_ns:
            return False
        sequence = _send(spec, services, opened)
        arrived = sequence is not None and _await_arrival(spec, services, sequence, until_ns)
        arrived_in_a_row = arrived_in_a_row + 1 if arrived else 0
    return True


def _delivers_batched(spec: TrialSpec, services: Services, opened: OpenDriver, until_ns: int) -> bool:
    for _ in range(IN_A_ROW):
        _send(spec, services, opened)
    while len(arrived_canaries(spec.tag, services)) < IN_A_ROW:
        refuse_if_cancelled(spec.tag, services)
        if services.clock.now_ns() >= until_ns:
            return False
        services.clock.sleep(POLL_S)
    return True


def _send(spec: TrialSpec, services: Services, opened: OpenDriver) -> int | None:
    """
    Offer one canary, as a put or a deletion; its sequence number if it was acknowledged.

    The number is the time in milliseconds, so that those of earlier calls and of retries are never taken for it.
    """
    sequence = services.clock.now_ns() // 1_000_000 & 0xFFFF_FFFF
    event = EventId(spec.tag, CANARY_PHASE, _WRITER, 0, 0, sequence)
    record = spec.plan.record
    if record.operation == "delete":
        written = _send_deletion(spec, event, opened)
    else:
        write = Write(put_key(event, record.key_bytes), event.text().encode().ljust(record.value_bytes, b"."))
        written = opened.run(opened.writer.write(write))
    # Also keeps two canaries from falling into one millisecond, and a refusing store from being hammered.
    services.clock.sleep(POLL_S if written.outcome is not Outcome.OK else 0.002)
    return sequence if written.outcome is Outcome.OK else None


def _send_deletion(spec: TrialSpec, event: EventId, opened: OpenDriver) -> Written:
    """There has to be something to delete: a store tells nobody of the deletion of nothing."""
    key = delete_key(event, spec.plan.record.key_bytes)
    value = preloaded_value(spec.tag, event.sequence, spec.plan.record.value_bytes)
    written = opened.run(opened.writer.write(Write(key, value)))
    if written.outcome is Outcome.OK:
        written = opened.run(opened.writer.write(Write(key, b"", delete=True)))
    return written


def _await_arrival(spec: TrialSpec, services: Services, sequence: int, until_ns: int) -> bool:
    until_ns = min(until_ns, services.clock.now_ns() + CANARY_LIMIT_S * _SECOND_NS)
    pause_s = FIRST_POLL_S  # most come at once
    while sequence not in arrived_canaries(spec.tag, services):
        if services.clock.now_ns() >= until_ns:
            return False
        services.clock.sleep(pause_s)
        pause_s = min(2 * pause_s, POLL_S)
    return True


def arrived_canaries(tag: str, services: Services) -> set[int]:
    """Sequence numbers of this stage's canaries that a receiver has recorded; preloaded keys are others."""
    arrived: set[int] = set()
    for item in services.table.t4_items(tag):
        entries = parse_item(item).entries
        own = (entries["phase"] == CANARY_PHASE) & (entries["writer"] == _WRITER)
        arrived.update(int(sequence) for sequence in entries["sequence"][own])
    return arrived
