"""
Task `AwaitArrivals`: whether everything that has to arrive has reached a receiver, or time is up.

An execution of a DAG arrives before its objects are removed, and its end is recorded after that: both are awaited.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepbench.contracts.experiment import measure_of, traits_of
from stepbench.contracts.identity import EventId
from stepbench.contracts.target import DynamoDbTarget
from stepbench.contracts.tasks import AwaitArrivalsInput, AwaitArrivalsOutput
from stepbench.records.join.reader import read_records
from stepbench.records.storage import layout
from stepbench.records.storage.dag_rows import recorded_ends
from stepbench.stages.function_log import LOG_POLL_S, take_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from stepbench.contracts.plan import TrialSpec
    from stepbench.records.join.joined import Joined
    from stepbench.services import Services

RETRY_S, POLL_S = 1.5, 0.25
"""A watcher records once a second: to look a little longer is quicker than the state machine's own round."""


def await_arrivals(task: AwaitArrivalsInput, services: Services) -> AwaitArrivalsOutput:
    """
    Look for a moment; Step Functions waits and calls again until `done`.

    What the store acknowledged has to arrive, unless the trigger's filter is to hold it back, and at a measured
    function to be processed or given up; of operations nothing. No failed execution of a DAG is waited for.

    Counters are compared first, which costs little. Only when they could be enough (they include canaries,
    duplicates, and what a filter let pass that it should not), or the time seems up, are the records themselves joined.

    Raises:
        AccountingError: the records contradict each other.
        RecordsUnavailableError: table or bucket do not answer.
    """
    spec = services.trial(task.ref)
    if not measure_of(spec.plan.experiment).arrives:
        return AwaitArrivalsOutput(done=True, expected=0, arrived=0)
    until_ns = services.clock.now_ns() + round(RETRY_S * 1e9)
    while not (seen := _count_arrivals(spec, services)).done and services.clock.now_ns() < until_ns:
        services.clock.sleep(POLL_S if spec.plan.target.function is None else LOG_POLL_S)
    return seen


def _count_arrivals(spec: TrialSpec, services: Services) -> AwaitArrivalsOutput:
    tag = spec.tag
    running = take_in(spec, services)
    files = services.table.files(tag)
    expected = sum(file.expected for file in files)
    entries = services.table.t4_count(tag)
    ends = recorded_ends(tag, services.table) if traits_of(spec.plan.experiment).completes else None
    failed = {event for event, completed in (ends or {}).items() if not completed}
    arrived = min(entries, expected)
    limit_ns = max((file.last_t2_ns for file in files), default=0) + round(spec.offered.drain_limit_s * 1e9)
    ended = arrived if ends is None else len(ends)
    enough = entries + len(failed) >= expected and ended >= expected
    # Before giving up too: the table may lack pointers to files that are in the bucket, and items that it did not take.
    in_fallback = services.runs.keys(layout.t4_fallback_prefix(tag))
    if enough or services.clock.now_ns() > limit_ns or any(True for _ in in_fallback):
        joined = read_records(spec, services.runs, services.table).joined
        expected = int(np.count_nonzero(joined.expected))
        arrived = int(np.count_nonzero(joined.expected & _is_settled(joined, spec, running)))
        limit_ns = joined.limit_ns
        ended = arrived
        if ends is not None:
            events = tuple(_expected_events(joined, tag))
            expected -= sum(event in failed and not is_there for event, is_there in events)
            ended = sum(event in ends and is_there for event, is_there in events)
    done = min(arrived, ended) >= expected or services.table.flag(tag, layout.CANCELLED) is not None
    time_is_up = services.clock.now_ns() > limit_ns
    return AwaitArrivalsOutput(done=done or time_is_up, expected=expected, arrived=arrived)


def _is_settled(joined: Joined, spec: TrialSpec, running: int) -> NDArray[np.bool_]:
    """
    Return which events have arrived; of a measured function, which it has processed or given up.

    Nothing is given up while invocations are under way (`running`), whose events count as not processed yet. Of a
    stream's batches nobody can count an event's attempts: Lambda counts those of a batch, which it splits, and begins
    anew behind what was processed. The drain limit ends those; not where each batch is one event.
    """
    target, processing = spec.plan.target, joined.processing
    if target.function is None or processing is None:
        return joined.t4_ns > 0
    if running or (isinstance(target, DynamoDbTarget) and target.batch_size > 1):
        return processing.ever
    settled: NDArray[np.bool_] = processing.ever | (processing.failed >= target.attempts)
    return settled


def _expected_events(joined: Joined, tag: str) -> Iterator[tuple[str, bool]]:
    """Yield the events that have to arrive, and whether they have."""
    grid, rows = joined.grid, np.flatnonzero(joined.expected)
    slots, sequences = grid.slots_of(0, grid.events)[rows], grid.sequences()[rows]
    names = (column[slots] for column in (grid.phase, grid.writer, grid.slice))
    columns = (*names, joined.attempt[rows], sequences, joined.t4_ns[rows] > 0)
    for phase, writer, slice_, attempt, sequence, is_there in zip(*columns, strict=True):
        yield EventId(tag, int(phase), int(writer), int(slice_), int(attempt), int(sequence)).text(), bool(is_there)
