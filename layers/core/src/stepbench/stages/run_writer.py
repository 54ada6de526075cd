"""
Task `RunWriter`: one attempt at one slice of one writer's work.

Look at the sandbox's speed, connect, measure the clock, say that load begins, hold until the slice's first event is
due, offer, flush. On the side, once a second: a sign of life, and a look at whether to stop.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from stepbench.clock import AnchoredClock, Clock, measure_offset
from stepbench.contracts.experiment import traits_of
from stepbench.contracts.tasks import RunWriterInput, RunWriterOutput
from stepbench.drivers.protocol import Warmable
from stepbench.errors import RecordsUnavailableError, TrialCancelledError
from stepbench.experiments.registry import build_driver
from stepbench.load.machine_speed import SPEED_CHECK_S, check_core
from stepbench.load.process import cores_of, cpu_share, gc_paused, repeat, run_measuring
from stepbench.load.slices import Ends, Instruments, Slice, build_slice, most_alarms_per_s
from stepbench.load.timer import Timer, best_timer, spin_ns
from stepbench.records.formats.columns import ColumnHeader
from stepbench.records.storage import layout
from stepbench.records.storage.flusher import Flusher
from stepbench.records.storage.layout import ClockSample
from stepbench.stages.invocations import SANDBOX, invoke
from stepbench.stages.target_driver import refuse_if_cancelled
from stepbench.stages.trial_values import trial_values
from stepbench.stats.histogram import histogram_text

if TYPE_CHECKING:
    from stepbench.contracts.findings import SlowSpells
    from stepbench.contracts.plan import TrialSpec
    from stepbench.drivers.protocol import Driver
    from stepbench.services import Services
    from stepbench.stages.target_driver import BuildDriver
    from stepbench.workload.values import PreparedValues


SPEED_CHECK_SHARE, LEAST_SPEED_CHECK_S = 0.1, 0.3
"""The share of the time until the slice begins that a check may take; connecting and measuring the clock follow it."""


class WriterClock(Clock, Protocol):
    """A clock that is anchored once."""

    def drift_ns(self) -> int:
        """Return how far CLOCK_REALTIME has moved away from this clock."""
        ...


@dataclass(frozen=True)
class Bench:
    """The instruments of the measured path, how often things happen beside it, how long ends are waited for."""

    clock: Callable[[], WriterClock] = AnchoredClock
    timer: Callable[[Clock, int], Timer] = best_timer
    run: Callable[[Coroutine[Any, Any, RunWriterOutput]], RunWriterOutput] = run_measuring
    cpu_s: Callable[[], float] = time.process_time
    check_core: Callable[[float], SlowSpells] = check_core
    """It occupies the CPU for so many seconds, so it runs before the writer connects, well before its load is due."""
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
    slow_spells: SlowSpells | None
    connecting_ns: int
    values: PreparedValues | None
    slice: Slice = field(init=False)
    flusher: Flusher = field(init=False)
    early: set[asyncio.Task[None]] = field(default_factory=set)
    """Flushes that the recorder asked for."""
    cancelled: str | None = None
    stop_at_ns: int | None = None

    @property
    def id(self) -> str:
        item = self.task.item
        return layout.attempt_id(item.phase, item.writer, item.slice, self.task.attempt)

    @property
    def beat_extras(self) -> dict[str, str]:
        """Return what a sign of life has beside the progress."""
        times = histogram_text(self.flusher.service_times)
        return {"service_times": times, "load_host": self.services.settings.load_host}


def run_writer(
    task: RunWriterInput, services: Services, build: BuildDriver = build_driver, bench: Bench | None = None
) -> RunWriterOutput:
    """
    Offer the slice and store what became of it.

    Raises:
        TargetUnavailableError: the store cannot be reached; nothing was sent.
        TrialCancelledError: the trial was cancelled; what was sent is recorded.
        RecordsUnavailableError: the trial or its flags could not be read; nothing was sent.
        RecordsLostError: records could not be stored.
    """
    if task.item.invoked:
        return invoke(task, services, build)
    SANDBOX.invocations += 1
    SANDBOX.release()
    spec = services.trial(task.item.ref)
    refuse_if_cancelled(spec.tag, services)
    bench = bench or Bench()
    return bench.run(_attempt(task, spec, services, build, bench))


async def _attempt(
    task: RunWriterInput, spec: TrialSpec, services: Services, build: BuildDriver, bench: Bench
) -> RunWriterOutput:
    clock = bench.clock()
    slow_spells = _check_speed(task, services, bench, clock)
    values = trial_values(spec, services)
    driver = build(spec, services.settings, clock)
    due_ns = max(task.item.start_at_ns, clock.now_ns())
    try:
        await driver.open()
        if isinstance(driver, Warmable):
            await driver.warm_up()
        connecting_ns = max(0, clock.now_ns() - due_ns)
        attempt = _Attempt(task, spec, services, driver, bench, clock, slow_spells, connecting_ns, values)
        stop_at_ns = _find_stop(attempt)
        _sample_clock(attempt)
        services.table.mark_started(task.item.ref.tag, attempt.id)
        with gc_paused():
            _plan(attempt)
            _end_at(attempt, stop_at_ns)
            await _stop_if_cancelled(attempt)
            await _offer(attempt)
        _sample_clock(attempt)
    finally:
        await driver.close()
    return _conclude(attempt)


def _check_speed(task: RunWriterInput, services: Services, bench: Bench, clock: Clock) -> SlowSpells | None:
    """Return how fast a sandbox of our own runs; None if others share the machine, or there is too little time left."""
    seconds = min(SPEED_CHECK_S, SPEED_CHECK_SHARE * (task.item.start_at_ns - clock.now_ns()) / 1e9)
    alone = not (services.settings.emulator or services.settings.load_host)
    return bench.check_core(seconds) if alone and seconds >= LEAST_SPEED_CHECK_S else None


def _sample_clock(attempt: _Attempt) -> None:
    offset = measure_offset(attempt.services.settings.clock_reference, attempt.clock)
    if offset is None:
        return
    sample = ClockSample("writer", attempt.id, attempt.clock.now_ns(), offset.offset_ns, offset.bound_ns)
    with contextlib.suppress(RecordsUnavailableError):  # the report then says "offset unmeasured"
        attempt.services.table.add_clock(attempt.task.item.ref.tag, sample)


def _plan(attempt: _Attempt) -> None:
    item, plan, bench = attempt.task.item, attempt.spec.offered, attempt.bench
    timer = bench.timer(attempt.clock, spin_ns(most_alarms_per_s(plan, item.phase), _cores(attempt)))
    ends = Ends(bench.drain_s, bench.grace_s)
    instruments = Instruments(attempt.clock, timer, ends, lambda: _flush_early(attempt), attempt.values)
    attempt.slice = build_slice(attempt.task, plan, attempt.driver, instruments)
    header = ColumnHeader(
        ref=item.ref, phase=item.phase, writer=item.writer, slice=item.slice, attempt=attempt.task.attempt, flush=0,
        slow_spells=attempt.slow_spells, connecting_ns=attempt.connecting_ns,
    )  # fmt: skip
    share = plan.record.matching_share if traits_of(plan.experiment).by_trigger else 0
    attempt.flusher = Flusher(attempt.services.runs, attempt.services.table, header, matching_share=share)


async def _stop_if_cancelled(attempt: _Attempt) -> None:
    """Look behind the mark, before anything is sent: the trial may have been torn down before the mark was there."""
    with contextlib.suppress(RecordsUnavailableError):  # the first sign of life looks again
        tag = attempt.task.item.ref.tag
        attempt.cancelled = await asyncio.to_thread(attempt.services.table.flag, tag, layout.CANCELLED)
    if attempt.cancelled is not None:
        attempt.slice.stop()


async def _offer(attempt: _Attempt) -> None:
    done = asyncio.Event()
    aside = asyncio.gather(
        repeat(attempt.bench.beat_s, lambda: _beat(attempt), done),
        repeat(attempt.bench.flush_s, lambda: _flush(attempt), done),
    )
    ended, drift_ns, share = False, None, None
    begin_ns, used_s = max(attempt.task.item.start_at_ns, attempt.clock.now_ns()), attempt.bench.cpu_s()
    try:
        await attempt.slice.engine.run()
        ended, drift_ns = True, attempt.clock.drift_ns()
        share = _cpu_share(attempt, begin_ns, used_s)
    finally:
        done.set()
        try:
            await asyncio.gather(aside, *attempt.early)
        finally:
            pending_rows, errors = attempt.slice.recorder.hand_over(), attempt.slice.recorder.errors
            attempt.flusher.add(pending_rows, errors, drift_ns=drift_ns, cpu_share=share, last=ended)
            await asyncio.to_thread(attempt.flusher.send)


def _cpu_share(attempt: _Attempt, begin_ns: int, used_s: float) -> float | None:
    took_s = (attempt.clock.now_ns() - begin_ns) / 1e9
    return cpu_share(attempt.bench.cpu_s() - used_s, took_s, _cores(attempt))


def _cores(attempt: _Attempt) -> float:
    settings = attempt.services.settings
    return cores_of(settings.aws_lambda_function_memory_size, emulated=bool(settings.emulator))


async def _flush(attempt: _Attempt) -> None:
    attempt.flusher.add(attempt.slice.recorder.hand_over(), attempt.slice.recorder.errors)
    await asyncio.to_thread(attempt.flusher.send)


def _flush_early(attempt: _Attempt) -> None:
    task = asyncio.get_running_loop().create_task(_flush(attempt))
    attempt.early.add(task)
    task.add_done_callback(attempt.early.discard)


async def _beat(attempt: _Attempt) -> None:
    try:
        cancelled, fenced, stop_at_ns = await asyncio.to_thread(_beat_and_read_flags, attempt)
    except RecordsUnavailableError:
        return  # no sign of life and no flag for a second; the records themselves have their own way out
    if cancelled is not None:
        attempt.cancelled = cancelled
        attempt.slice.stop()
    elif fenced:
        attempt.slice.stop(fenced=True)
    else:
        _end_at(attempt, stop_at_ns)


def _beat_and_read_flags(attempt: _Attempt) -> tuple[str | None, bool, int | None]:
    table, tag = attempt.services.table, attempt.task.item.ref.tag
    stop_at_ns = _find_stop(attempt)
    cancelled = table.flag(tag, layout.CANCELLED)
    of_slice = attempt.id[:-2]
    fenced = any(other > attempt.id for other in table.started(tag, of_slice))
    table.beat(tag, f"writer#{attempt.id}", attempt.slice.recorder.progress(), **attempt.beat_extras)
    return cancelled, fenced, stop_at_ns


def _find_stop(attempt: _Attempt) -> int | None:
    """Return where the phase ends, if it is one that may end before its schedule does, and it is known."""
    phase = attempt.task.item.phase
    if not attempt.spec.may_end_early(phase):
        return None
    return attempt.services.table.stop_at_ns(attempt.task.item.ref.tag, phase)


def _end_at(attempt: _Attempt, stop_at_ns: int | None) -> None:
    if stop_at_ns is not None and attempt.stop_at_ns is None:
        attempt.stop_at_ns = stop_at_ns
        attempt.slice.end_at(stop_at_ns, round(attempt.bench.grace_s * 1e9))


def _conclude(attempt: _Attempt) -> RunWriterOutput:
    attempt.flusher.finish(attempt.services.clock)
    progress, tag = attempt.slice.recorder.progress(), attempt.task.item.ref.tag
    with contextlib.suppress(RecordsUnavailableError):  # the records are safe; only the progress display is behind
        attempt.services.table.beat(tag, f"writer#{attempt.id}", progress, **attempt.beat_extras, ended=True)
    if attempt.cancelled is not None:
        message = f"writer {attempt.id} stopped after {progress['sent']} events: cancelled ({attempt.cancelled})"
        raise TrialCancelledError(message)
    return attempt.slice.output()
