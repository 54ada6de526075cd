"""
Task `RunWriter`: one attempt at one slice of one writer's work.

Connect, measure the clock, say that load begins, hold until the slice's first event is due, offer, flush. On the side,
once a second: a sign of life, and a look at whether to stop.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from stepbench.clock import AnchoredClock, Clock
from stepbench.clock_offset import measure_offset
from stepbench.contracts.identity import EventId
from stepbench.contracts.tasks import RunWriterInput, RunWriterOutput
from stepbench.drivers.registry import build_driver
from stepbench.errors import RecordsUnavailableError, TrialCancelledError
from stepbench.load.arrivals import SLICE_NS, slice_end_ns, slice_offsets_ns
from stepbench.load.open_loop import Limits, OpenLoop
from stepbench.load.payloads import Payloads
from stepbench.load.quiet import quiet
from stepbench.load.recorder import Recorder
from stepbench.load.timer import Timer, best_timer
from stepbench.records import layout
from stepbench.records.columns import UNSENT, ColumnHeader
from stepbench.records.flusher import Flusher
from stepbench.records.trial_table import ClockSample
from stepbench.stages.event_loop import repeat, run_measuring

if TYPE_CHECKING:
    from stepbench.contracts.plan import TrialSpec
    from stepbench.drivers.protocol import Driver
    from stepbench.settings import Settings
    from stepbench.stages.services import Services

    BuildDriver = Callable[[TrialSpec, Settings, Clock], Driver]


class WriterClock(Clock, Protocol):
    """A clock that is anchored once."""

    def drift_ns(self) -> int:
        """How far CLOCK_REALTIME has moved away from it."""
        ...


@dataclass(frozen=True)
class Bench:
    """What the measured path stands on, how often things happen beside it, how long ends are waited for."""

    clock: Callable[[], WriterClock] = AnchoredClock
    timer: Callable[[Clock], Timer] = best_timer
    run: Callable[[Coroutine[Any, Any, RunWriterOutput]], RunWriterOutput] = run_measuring
    beat_s: float = 1.0
    flush_s: float = 10.0
    drain_s: float = 30.0
    grace_s: float = 1.0
    """How long after the slice's end a queued event may still be started."""


@dataclass
class _Attempt:
    task: RunWriterInput
    spec: TrialSpec
    services: Services
    driver: Driver
    bench: Bench
    clock: WriterClock
    recorder: Recorder = field(init=False)
    engine: OpenLoop = field(init=False)
    flusher: Flusher = field(init=False)
    cancelled: str | None = None
    stop_at_ns: int | None = None

    @property
    def id(self) -> str:
        item = self.task.item
        return layout.attempt_id(item.phase, item.writer, item.slice, self.task.attempt)


def run_writer(
    task: RunWriterInput, services: Services, build: BuildDriver = build_driver, bench: Bench | None = None
) -> RunWriterOutput:
    """
    Offer the slice and store what became of it.

    Raises:
        TargetUnavailableError: the store cannot be reached; nothing was sent.
        TrialCancelledError: the trial was cancelled; what was sent is recorded.
        RecordsUnavailableError: records could not be stored.
    """
    spec = services.trial(task.item.ref)
    _refuse_if_cancelled(task, services)
    bench = bench or Bench()
    return bench.run(_attempt(task, spec, services, build, bench))


def _refuse_if_cancelled(task: RunWriterInput, services: Services) -> None:
    reason = services.table.flag(task.item.ref.tag, layout.CANCELLED)
    if reason is not None:
        message = f"writer {task.item.writer} did not begin: the trial is cancelled ({reason})"
        raise TrialCancelledError(message)


async def _attempt(
    task: RunWriterInput, spec: TrialSpec, services: Services, build: BuildDriver, bench: Bench
) -> RunWriterOutput:
    clock = bench.clock()
    driver = build(spec, services.settings, clock)
    try:
        await driver.open()
        attempt = _Attempt(task, spec, services, driver, bench, clock)
        stop_at_ns = _find_stop(attempt)
        _sample_clock(attempt)
        services.table.mark_started(task.item.ref.tag, attempt.id)
        with quiet():
            _plan(attempt)
            _end_at(attempt, stop_at_ns)
            await _offer(attempt)
        _sample_clock(attempt)
    finally:
        await driver.close()
    return _conclude(attempt)


def _sample_clock(attempt: _Attempt) -> None:
    offset = measure_offset(attempt.services.settings.clock_reference, attempt.clock)
    if offset is None:
        return
    sample = ClockSample("writer", attempt.id, attempt.clock.now_ns(), offset.offset_ns, offset.bound_ns)
    with contextlib.suppress(RecordsUnavailableError):  # the report then says "offset unmeasured"
        attempt.services.table.add_clock(attempt.task.item.ref.tag, sample)


def _plan(attempt: _Attempt) -> None:
    item, plan, services = attempt.task.item, attempt.spec.plan, attempt.services
    phase_start_ns = item.start_at_ns - item.slice * SLICE_NS
    due_ns = slice_offsets_ns(plan, item.phase, item.writer, item.slice) + phase_start_ns
    payloads = Payloads(
        plan.record,
        EventId(item.ref.tag, item.phase, item.writer, item.slice, attempt.task.attempt, 0),
        due_ns.size,
        plan.seed,
    )
    late = int(np.searchsorted(due_ns, attempt.clock.now_ns()))
    # A first attempt accounts for what it came too late for; of a later one's, an earlier attempt may have sent some.
    skipped = late if attempt.task.attempt else 0
    attempt.recorder = Recorder(due_ns[skipped:], skipped)
    limits = Limits(
        max_in_flight=plan.max_in_flight,
        send_until_ns=phase_start_ns + slice_end_ns(plan, item.phase, item.slice) + round(attempt.bench.grace_s * 1e9),
        drain_s=attempt.bench.drain_s,
    )
    attempt.engine = OpenLoop(
        attempt.driver,
        attempt.clock,
        attempt.bench.timer(attempt.clock),
        payloads.write,
        attempt.recorder,
        limits=limits,
        first_row=late - skipped,
    )
    header = ColumnHeader(
        ref=item.ref, phase=item.phase, writer=item.writer, slice=item.slice, attempt=attempt.task.attempt, flush=0
    )
    share = plan.record.matching_share
    attempt.flusher = Flusher(services.runs, services.table, header, matching_share=share)


async def _offer(attempt: _Attempt) -> None:
    done = asyncio.Event()
    aside = asyncio.gather(
        repeat(attempt.bench.beat_s, lambda: _beat(attempt), done),
        repeat(attempt.bench.flush_s, lambda: _flush(attempt), done),
    )
    ended, drift_ns = False, None
    try:
        await attempt.engine.run()
        ended, drift_ns = True, attempt.clock.drift_ns()
    finally:
        done.set()
        try:
            await aside
        finally:
            rows, errors = attempt.recorder.take(), attempt.recorder.errors
            attempt.flusher.add(rows, errors, drift_ns=drift_ns, last=ended)
            await asyncio.to_thread(attempt.flusher.send)


async def _flush(attempt: _Attempt) -> None:
    attempt.flusher.add(attempt.recorder.take(), attempt.recorder.errors)
    await asyncio.to_thread(attempt.flusher.send)


async def _beat(attempt: _Attempt) -> None:
    try:
        cancelled, fenced, stop_at_ns = await asyncio.to_thread(_look_aside, attempt)
    except RecordsUnavailableError:
        return  # no sign of life and no flag for a second; the records themselves have their own way out
    if cancelled is not None:
        attempt.cancelled = cancelled
        attempt.engine.stop()
    elif fenced:
        attempt.engine.stop(leave_rest_open=True)
    else:
        _end_at(attempt, stop_at_ns)


def _look_aside(attempt: _Attempt) -> tuple[str | None, bool, int | None]:
    table, tag = attempt.services.table, attempt.task.item.ref.tag
    stop_at_ns = _find_stop(attempt)
    cancelled = table.flag(tag, layout.CANCELLED)
    of_slice = attempt.id[:-2]
    fenced = any(other > attempt.id for other in table.started(tag, of_slice))
    table.beat(tag, f"writer#{attempt.id}", attempt.recorder.progress())
    return cancelled, fenced, stop_at_ns


def _find_stop(attempt: _Attempt) -> int | None:
    """Where the phase ends, if it is one that ends when it is sure, and it is."""
    phase = attempt.task.item.phase
    if attempt.spec.plan.phases[phase].until is None:
        return None
    return attempt.services.table.stop_at_ns(attempt.task.item.ref.tag, phase)


def _end_at(attempt: _Attempt, stop_at_ns: int | None) -> None:
    if stop_at_ns is not None and attempt.stop_at_ns is None:
        attempt.stop_at_ns = stop_at_ns
        attempt.engine.end_at(stop_at_ns, round(attempt.bench.grace_s * 1e9))


def _conclude(attempt: _Attempt) -> RunWriterOutput:
    attempt.flusher.finish(attempt.services.clock)
    progress, tag = attempt.recorder.progress(), attempt.task.item.ref.tag
    with contextlib.suppress(RecordsUnavailableError):  # the records are safe; only the progress display is behind
        attempt.services.table.end_beat(tag, f"writer#{attempt.id}", progress)
    if attempt.cancelled is not None:
        message = f"writer {attempt.id} stopped after {progress['sent']} events: cancelled ({attempt.cancelled})"
        raise TrialCancelledError(message)
    return RunWriterOutput(
        sent=progress["sent"],
        ok=progress["ok"],
        failed=progress["failed"],
        unknown=progress["unknown"],
        unsent=attempt.recorder.counts[UNSENT],
    )
