"""Task `WatchChanges`: one turn of one of the two lanes that hold a pull trigger's watch.

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
from typing import TYPE_CHECKING, Any, NamedTuple

from stepbench.clock import STEP_NS, measure_offset
from stepbench.contracts.plan import TrialRef
from stepbench.contracts.tasks import WatchChangesInput, WatchChangesOutput
from stepbench.drivers.protocol import Watchable
from stepbench.drivers.registry import lease_target
from stepbench.errors import RecordsUnavailableError, TargetUnavailableError
from stepbench.experiments.registry import build_driver
from stepbench.load.process import gc_paused, run_measuring
from stepbench.records.storage import layout
from stepbench.records.storage.layout import ClockSample
from stepbench.records.storage.t4_store import T4Log, T4Store
from stepbench.records.storage.watch_log import WatchLog
from stepbench.stages.leftovers import alive

if TYPE_CHECKING:
    from stepbench.contracts.plan import TrialSpec
    from stepbench.drivers.protocol import Driver
    from stepbench.model.request import ChangeBatch
    from stepbench.services import Services
    from stepbench.stages.target_driver import BuildDriver

FINAL_TRIES = 5
DRAIN_S = 5.0
"""A watch goes on for so long at most after its trial was cancelled: somebody may wait at the terminal."""
PAUSE_S = 2.0
"""A watcher that looks at its clock so much later than it meant to has stood still."""
PROMPT_BATCHES = 10
"""How many are recorded as they come: the watch's confirmation and the canaries, for which AwaitTarget waits."""


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
    from_position: int | None = None
    pauses_ns: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store = T4Store(self.services.table, self.services.runs)

    def beat(self, *, ended: bool = False) -> None:
        """Write a sign of life, with the watch's position and counts."""
        progress = {"seen": self.log.seen, "position": self.log.recorded_position}
        self.services.table.beat(self.ref.tag, f"watcher#{self.log.watch}", progress, ended=ended, **self._start())

    def _start(self) -> dict[str, object]:
        if self.log.established_ns is None:
            return {}
        start = {"established_ns": self.log.established_ns, "from_position": self.from_position}
        return {"sandbox": self.log.sandbox, **start, "pauses_ns": self.pauses_ns}


def watch_changes(
    task: WatchChangesInput, services: Services, build: BuildDriver = build_driver, pace: WatchPace | None = None
) -> WatchChangesOutput:
    """
    Hold the watch if it is the lane's turn.

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
        t4_log = T4Log(lambda _tag: spec.offered.log_t4)
        log = WatchLog(task.ref.tag, spec.offered.target.store, task.lane, t4_log)
        turn = _Turn(task.ref, task.lane, services, pace, log, ends_ns)
        stopped = pace.run(_hold(turn, build(spec, services.settings, services.clock)))
    now_ns = services.clock.now_ns()
    gate_s = spec.offered.watch_loop_s if pace.gate_s is None else pace.gate_s
    # A Wait state cuts its time stamp to the second; before its turn a lane would only have to wait again.
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
        with gc_paused():
            reader, pauses = asyncio.create_task(_read(driver, turn)), asyncio.create_task(_notice_pauses(turn))
            reader.add_done_callback(lambda _: turn.news.set())
            try:
                stopped = await _attend(turn, reader)
            finally:
                pauses.cancel()
                reader.cancel()
                await asyncio.wait({reader, pauses})
                await _record_the_rest(turn)
        if not reader.cancelled():
            reader.result()
    finally:
        await driver.close()
    return stopped


async def _read(driver: Watchable, turn: _Turn) -> None:
    turn.from_position = await asyncio.to_thread(turn.services.table.position, turn.ref.tag)
    # A store that takes the position as the first to show, and not as the last seen, shows one change twice: no harm.
    async for batch in driver.watch(turn.from_position):
        turn.log.add(batch)
        if turn.prompt > 0:
            turn.prompt -= 1
            turn.news.set()
    message = f"watcher#{turn.lane}: the store ended the watch"
    raise TargetUnavailableError(message)


async def _notice_pauses(turn: _Turn) -> None:
    """
    Note when the process did not run, on the loop that stamps what arrives: that was stamped afterwards.

    A clock that was set looks the same, but for the loop's own, which nobody sets: it is read against its reference.
    """
    clock, loop, tick_ns = turn.services.clock, asyncio.get_running_loop(), round(turn.pace.tick_s * 1e9)
    while True:
        due_ns, due_s = clock.now_ns() + tick_ns, loop.time() + turn.pace.tick_s
        await asyncio.sleep(turn.pace.tick_s)
        now_ns, late_s = clock.now_ns(), loop.time() - due_s
        if late_s > PAUSE_S:
            turn.pauses_ns.append((due_ns, now_ns))
        if abs(now_ns - due_ns - late_s * 1e9) > STEP_NS:
            turn.clock_due_ns = 0


async def _attend(turn: _Turn, reader: asyncio.Task[None]) -> bool:
    """Attend to the watch until the turn is over (False), a flag is seen (True), or the reader ends (False)."""
    ending: str | None = None
    while ending is None and not reader.done() and turn.services.clock.now_ns() < turn.ends_ns:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(turn.news.wait(), turn.pace.tick_s)
        turn.news.clear()
        ending = await asyncio.to_thread(_tick, turn, turn.log.take())
    if ending is not None:
        await _drain(turn, reader, writing=ending == layout.CANCELLED)
    return ending is not None


async def _drain(turn: _Turn, reader: asyncio.Task[None], *, writing: bool) -> None:
    """Take what is on its way: until no writer runs and for a tick nothing has arrived, or `DRAIN_S` are over."""
    until_ns, arriving = turn.services.clock.now_ns() + round(DRAIN_S * 1e9), True
    while (arriving or writing) and not reader.done() and turn.services.clock.now_ns() < until_ns:
        writing = writing and await asyncio.to_thread(_any_writer, turn)
        await asyncio.wait({reader}, timeout=turn.pace.tick_s)
        batches = turn.log.take()
        arriving = bool(batches)
        await asyncio.to_thread(_tick, turn, batches)


def _any_writer(turn: _Turn) -> bool:
    try:
        return any(who.startswith("writer#") for who in alive(turn.ref.tag, turn.services))
    except RecordsUnavailableError:
        return True


def _tick(turn: _Turn, batches: list[ChangeBatch]) -> str | None:
    services = turn.services
    with contextlib.suppress(RecordsUnavailableError):  # what could not be stored waits for the next tick
        turn.log.record(batches, services.table, turn.store)
    try:
        if turn.log.established_ns is not None:
            turn.beat()
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
        await asyncio.to_thread(turn.beat, ended=True)


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


LANES = 2


class Turns(NamedTuple):
    """
    The timetable, fixed by the time when the trial took its target.

    Turn n is lane n mod 2's; it begins at base + n * length and ends `overlap` after its successor has begun.
    """

    base_ns: int
    length_ns: int
    overlap_ns: int

    def ends_ns(self, lane: int, now_ns: int) -> int | None:
        """Return when the lane's turn ends, or None while it is the other's."""
        turn = self._turn(now_ns)
        return self.base_ns + (turn + 1) * self.length_ns + self.overlap_ns if turn % LANES == lane else None

    def next_start_ns(self, lane: int, now_ns: int) -> int:
        """Return when the lane's next turn begins."""
        turn = self._turn(now_ns)
        ahead = 1 if (turn + 1) % LANES == lane else LANES
        return self.base_ns + (turn + ahead) * self.length_ns

    def _turn(self, now_ns: int) -> int:
        return max(0, now_ns - self.base_ns) // self.length_ns
