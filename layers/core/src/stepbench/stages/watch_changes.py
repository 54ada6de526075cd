"""
Task `WatchChanges`: one turn of one of the two lanes that hold a pull trigger's watch.

A function lives 15 minutes at most, so two lanes take turns of ten, overlapping by some seconds. Called outside its
turn, a lane answers at once when to ask again, never far ahead, so that both see the flag that ends the watch.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from stepbench.clock_offset import measure_offset
from stepbench.contracts.tasks import TrialRef, WatchChangesInput, WatchChangesOutput
from stepbench.drivers.protocol import Watchable
from stepbench.drivers.registry import build_driver, lease_target
from stepbench.errors import RecordsUnavailableError, TargetUnavailableError
from stepbench.load.quiet import quiet
from stepbench.records import layout
from stepbench.records.clock_sample import ClockSample
from stepbench.records.t4_log import T4Log
from stepbench.records.t4_store import T4Store
from stepbench.records.watch_log import WatchLog
from stepbench.stages.event_loop import run_measuring
from stepbench.stages.turns import Turns

if TYPE_CHECKING:
    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec
    from stepbench.drivers.protocol import ChangeBatch, Driver
    from stepbench.settings import Settings
    from stepbench.stages.services import Services

    BuildDriver = Callable[[TrialSpec, Settings, Clock], Driver]

FINAL_TRIES = 5
PROMPT_BATCHES = 10
"""So many are recorded as they come: the watch's confirmation and the canaries, for which AwaitTarget waits."""


@dataclass(frozen=True)
class WatchPace:
    """
    Lengths of turns, how often things happen beside the watch, and the loop that it runs on.

    The lane that waits looks every `gate_s` seconds whether the watch has ended, by default as the plan has it.
    """

    turn_s: float = 600.0
    overlap_s: float = 10.0
    gate_s: float | None = None
    tick_s: float = 1.0
    clock_every_s: float = 60.0
    run: Callable[[Coroutine[Any, Any, bool]], bool] = run_measuring


@dataclass
class _Turn:
    ref: TrialRef
    lane: int
    services: Services
    pace: WatchPace
    log: WatchLog
    ends_ns: int
    store: T4Store = field(init=False)
    clock_due_ns: int = 0
    news: asyncio.Event = field(default_factory=asyncio.Event)
    prompt: int = PROMPT_BATCHES

    def __post_init__(self) -> None:
        self.store = T4Store(self.services.table, self.services.runs)

    @property
    def who(self) -> str:
        return f"watcher#{self.lane}"

    def progress(self) -> dict[str, int]:
        return {"seen": self.log.seen, "position": self.log.recorded_position}


def watch_changes(
    task: WatchChangesInput, services: Services, build: BuildDriver = build_driver, pace: WatchPace | None = None
) -> WatchChangesOutput:
    """
    Hold the watch for the lane's turn, if it is that.

    Raises:
        TargetUnavailableError: the store cannot be reached, cannot be watched, or has ended the watch; or the trial no
            longer holds its target. What was seen is recorded.
        RecordsUnavailableError: arrivals could not be stored.
    """
    pace = pace or WatchPace()
    if _ending(task.ref, services) is not None:
        return WatchChangesOutput(stopped=True, next_at=_at(services.clock.now_ns()))
    spec = services.trial(task.ref)
    turns = Turns(_base_ns(spec, services), round(pace.turn_s * 1e9), round(pace.overlap_s * 1e9))
    ends_ns = turns.ends_ns(task.lane, services.clock.now_ns())
    stopped = False
    if ends_ns is not None:
        t4_log = T4Log(lambda _tag: spec.plan.log_t4)
        log = WatchLog(task.ref.tag, spec.plan.target.store, task.lane, t4_log)
        turn = _Turn(task.ref, task.lane, services, pace, log, ends_ns)
        stopped = pace.run(_hold(turn, build(spec, services.settings, services.clock)))
    now_ns = services.clock.now_ns()
    gate_s = spec.plan.watch_loop_s if pace.gate_s is None else pace.gate_s
    # A Wait state cuts its time stamp to the second; before its turn a lane would only be told to wait again.
    turn_ns = math.ceil(turns.next_start_ns(task.lane, now_ns) / 1e9) * 10**9
    next_ns = min(turn_ns, now_ns + round(gate_s * 1e9))
    return WatchChangesOutput(stopped=stopped, next_at=_at(next_ns))


def _base_ns(spec: TrialSpec, services: Services) -> int:
    target = lease_target(spec, services.settings)
    lease = services.table.find_lease(target)
    if lease is None or lease.tag != spec.tag:
        message = f"trial {spec.name} does not hold {target} (any more), so it must not be watched; run it again"
        raise TargetUnavailableError(message)
    return lease.taken_at_ns


async def _hold(turn: _Turn, driver: Driver) -> bool:
    if not isinstance(driver, Watchable):
        message = f"{type(driver).__name__} cannot be watched: its store pushes its changes"
        raise TargetUnavailableError(message)
    try:
        await driver.open()
        with quiet():
            reader = asyncio.create_task(_read(driver, turn))
            reader.add_done_callback(lambda _: turn.news.set())
            try:
                stopped = await _attend(turn, reader)
            finally:
                reader.cancel()
                await asyncio.wait({reader})
                await _record_the_rest(turn)
        if not reader.cancelled():
            reader.result()
    finally:
        await driver.close()
    return stopped


async def _read(driver: Watchable, turn: _Turn) -> None:
    position = await asyncio.to_thread(turn.services.table.position, turn.ref.tag)
    # A store that takes the position as the first to show, and not as the last seen, shows one change twice: no harm.
    async for batch in driver.watch(position):
        turn.log.add(batch)
        if turn.prompt > 0:
            turn.prompt -= 1
            turn.news.set()
    message = f"{turn.who}: the store ended the watch"
    raise TargetUnavailableError(message)


async def _attend(turn: _Turn, reader: asyncio.Task[None]) -> bool:
    """Until the turn is over (False), a flag is seen (True), or the reader ends (False)."""
    ending: str | None = None
    while ending is None and not reader.done() and turn.services.clock.now_ns() < turn.ends_ns:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(turn.news.wait(), turn.pace.tick_s)
        turn.news.clear()
        ending = await asyncio.to_thread(_tick, turn, turn.log.take())
    if ending == layout.STOP_WATCHING:
        await asyncio.wait({reader}, timeout=turn.pace.tick_s)  # what is on its way may still arrive
    return ending is not None


def _tick(turn: _Turn, batches: list[ChangeBatch]) -> str | None:
    services = turn.services
    with contextlib.suppress(RecordsUnavailableError):  # what could not be stored waits for the next tick
        turn.log.record(batches, services.table, turn.store)
    try:
        if turn.log.established:
            services.table.beat(turn.ref.tag, turn.who, turn.progress())
            _sample_clock(turn)
        return _ending(turn.ref, services)
    except RecordsUnavailableError:
        return None  # no sign of life and no flags for a second


def _ending(ref: TrialRef, services: Services) -> str | None:
    flags = (layout.CANCELLED, layout.STOP_WATCHING)
    return next((flag for flag in flags if services.table.flag(ref.tag, flag) is not None), None)


def _sample_clock(turn: _Turn) -> None:
    services, now_ns = turn.services, turn.services.clock.now_ns()
    if now_ns < turn.clock_due_ns:
        return
    turn.clock_due_ns = now_ns + round(turn.pace.clock_every_s * 1e9)
    offset = measure_offset(services.settings.clock_reference, services.clock)
    if offset is not None:
        sample = ClockSample("receiver", turn.log.sandbox, now_ns, offset.offset_ns, offset.bound_ns)
        services.table.add_clock(turn.ref.tag, sample)


async def _record_the_rest(turn: _Turn) -> None:
    await asyncio.to_thread(_record_or_raise, turn, turn.log.take())
    with contextlib.suppress(RecordsUnavailableError):  # the arrivals are safe; only the progress display is behind
        await asyncio.to_thread(turn.services.table.end_beat, turn.ref.tag, turn.who, turn.progress())


def _record_or_raise(turn: _Turn, batches: list[ChangeBatch]) -> None:
    for left in reversed(range(FINAL_TRIES)):
        try:
            turn.log.record(batches, turn.services.table, turn.store)
        except RecordsUnavailableError as error:
            if not left:
                raise turn.log.lost(error) from error
            batches = []  # the log keeps them
            turn.services.clock.sleep(turn.pace.tick_s)
        else:
            return


def _at(ns: int) -> datetime:
    return datetime.fromtimestamp(ns / 1e9, UTC)
