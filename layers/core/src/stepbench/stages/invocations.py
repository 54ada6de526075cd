"""
One invocation of a phase with `invoked`, as `RunWriter` makes it: its operations, one after the other, in one item.

No barrier, no schedule, and for a second nothing beside it: how fast a Map gets such invocations done is the result.
With reuse, driver and connection stay in the sandbox from one to the next, on a loop that lives as long; a connection
that died meanwhile is made anew before the first operation. Another trial's are closed when an invocation of this one
comes, and those of the last trial end with their sandboxes.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from stepbench.clock import AnchoredClock, Clock
from stepbench.contracts.tasks import RunWriterOutput
from stepbench.drivers.protocol import CountsConnections, Warmable
from stepbench.errors import RecordsUnavailableError, TrialCancelledError
from stepbench.load.process import gc_paused, measuring_runner, repeat
from stepbench.load.slices import Ends, Instruments, build_slice
from stepbench.load.timer import best_timer
from stepbench.model.request import Outcome
from stepbench.observability import logger
from stepbench.records.formats.columns import UNSENT, ColumnHeader, InvocationNote, PendingRows, Rows
from stepbench.records.storage import layout
from stepbench.records.storage.flusher import Flusher
from stepbench.stages.target_driver import refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from stepbench.contracts.plan import TrialRef, TrialSpec
    from stepbench.contracts.tasks import RunWriterInput
    from stepbench.drivers.protocol import Driver
    from stepbench.load.slices import Slice
    from stepbench.load.timer import Timer
    from stepbench.services import Services
    from stepbench.stages.target_driver import BuildDriver

CANCEL_POLL_S = 1.0
"""A sandbox asks no more often whether the trial is cancelled, from one invocation to the next or in a long one."""
_WAKING = 3
"""Rounds of the loop in which it sees what became of a connection while its sandbox was frozen."""
_SECOND_NS = 10**9


class InvocationClock(Clock, Protocol):
    """A clock that is anchored anew at each invocation: a frozen sandbox's monotonic time may stand still."""

    def anchor(self) -> None:
        """Follow the system's clock from now on."""
        ...


class Runner(Protocol):
    """An event loop, one coroutine after the other, as `asyncio.Runner`."""

    def run(self, coro: Coroutine[Any, Any, Any], /) -> Any:  # noqa: ANN401 -- whatever the coroutine returns
        """Run a coroutine to its end, and return its result."""
        ...

    def close(self) -> None:
        """Close the loop."""
        ...


@dataclass(frozen=True)
class InvocationBench:
    """The instruments of an invocation."""

    clock: Callable[[], InvocationClock] = AnchoredClock
    runner: Callable[[], Runner] = measuring_runner
    timer: Callable[[Clock, int], Timer] = best_timer
    drain_s: float = 30.0


@dataclass
class _Kept:
    """What a sandbox has of one trial: its specification, and a driver on a loop."""

    spec: TrialSpec
    driver: Driver
    clock: InvocationClock
    runner: Runner
    is_open: bool = False

    def close(self) -> None:
        self.runner.run(self.driver.close())
        self.runner.close()


@dataclass
class Sandbox:
    """A process in which invocations come one after the other."""

    id: str = field(default_factory=lambda: uuid.uuid4().hex[:16])
    invocations: int = 0
    stored_ns: int | None = None
    """What storing the rows of the invocation before took."""
    _spec: TrialSpec | None = None
    _kept: _Kept | None = None
    _looked: tuple[str, int] = ("", 0)

    def release(self, tag: str = "") -> None:
        """Close what is kept of a trial other than this; what cannot be closed costs nobody else, and ends here."""
        if self._kept is not None and self._kept.spec.tag != tag:
            kept, self._kept = self._kept, None
            try:
                kept.close()
            except Exception:  # noqa: BLE001 -- of the driver; it must not cost another trial's invocation
                logger.exception("a kept connection could not be closed", extra=kept.spec.ref.model_dump())

    def of_trial(self, ref: TrialRef, services: Services, build: BuildDriver, bench: InvocationBench) -> _Kept:
        """Return what is kept of this trial, or else a driver that is not open."""
        self.release(ref.tag)
        if self._kept is None:
            if self._spec is None or self._spec.tag != ref.tag:
                self._spec = services.trial(ref)
            spec, clock = self._spec, bench.clock()
            self._kept = _Kept(spec, build(spec, services.settings, clock), clock, bench.runner())
        self._kept.clock.anchor()
        return self._kept

    def cancelled(self, tag: str, services: Services) -> str | None:
        """Return why the trial is to stop, if it is. Its flag is read once a second."""
        now_ns = services.clock.now_ns()
        if self._looked[0] == tag and now_ns - self._looked[1] < CANCEL_POLL_S * _SECOND_NS:
            return None
        reason = services.table.flag(tag, layout.CANCELLED)
        if reason is None:
            self._looked = tag, now_ns
        return reason


SANDBOX = Sandbox()


def invoke(
    task: RunWriterInput,
    services: Services,
    build: BuildDriver,
    bench: InvocationBench | None = None,
    sandbox: Sandbox = SANDBOX,
) -> RunWriterOutput:
    """
    Do the operations of one invocation, and store what became of them.

    Raises:
        TargetUnavailableError: the store cannot be reached; nothing was sent.
        TrialCancelledError: the trial was cancelled; what was sent is recorded.
        RecordsUnavailableError: the trial or its flags could not be read, or it could not be marked as begun; nothing
            was sent.
        RecordsLostError: records could not be stored.
    """
    begin_ns = services.clock.now_ns()
    bench, ref = bench or InvocationBench(), task.item.ref
    sandbox.invocations += 1
    refuse(ref.tag, sandbox.cancelled(ref.tag, services))
    kept = sandbox.of_trial(ref, services, build, bench)
    workload, healthy = kept.spec.offered.workload, False
    try:
        invocation = _Invocation(task, services, kept, sandbox, bench, begin_ns)
        output: RunWriterOutput = kept.runner.run(invocation.run())
        healthy = True
    finally:
        if not healthy or workload is None or not workload.reuse:
            sandbox.release()
    return output


@dataclass
class _Invocation:
    task: RunWriterInput
    services: Services
    kept: _Kept
    sandbox: Sandbox
    bench: InvocationBench
    begin_ns: int
    cancelled: str | None = None
    said_alive: bool = False

    @property
    def id(self) -> str:
        item = self.task.item
        return layout.attempt_id(item.phase, item.writer, item.slice, self.task.attempt)

    async def run(self) -> RunWriterOutput:
        clock = self.kept.clock
        connections, connecting_ns = await self._connect()
        marked_ns = clock.now_ns()
        self.services.table.mark_started(self.task.item.ref.tag, self.id)
        marking_ns = clock.now_ns() - marked_ns
        with gc_paused(collect=False):
            slice_ = self._slice()
            self._stop_if_cancelled(slice_)
            await self._operate(slice_)
        pending = slice_.recorder.hand_over()
        planned = self.kept.spec.offered.phases[self.task.item.phase].invoked
        rows = invoked_rows(pending.rows(), planned.operations if planned else 0, self.task.item.start_at_ns)
        note = InvocationNote(
            sandbox=self.sandbox.id,
            cold=self.sandbox.invocations == 1,
            acknowledged=int(np.count_nonzero(rows.outcome == Outcome.OK)),
            operating_ns=int(rows.t2_ns.max(initial=0) - rows.t1_ns[:1].sum()),
            begin_ns=self.begin_ns,
            end_ns=clock.now_ns(),
            connections=connections,
            connecting_ns=connecting_ns,
            marking_ns=marking_ns,
            stored_ns=self.sandbox.stored_ns,
        )
        self._store(rows, slice_.recorder.errors, note)
        if self.said_alive:
            with contextlib.suppress(RecordsUnavailableError):  # only the wait for silence is longer
                self._say_alive(slice_, ended=True)
        return self._conclude(slice_)

    def _stop_if_cancelled(self, slice_: Slice) -> None:
        """Look once more where connecting took long: the trial may have been torn down before the mark was there."""
        with contextlib.suppress(RecordsUnavailableError):  # it is marked as begun, and so it goes on
            self.cancelled = self.sandbox.cancelled(self.task.item.ref.tag, self.services)
        if self.cancelled is not None:
            slice_.stop()

    async def _connect(self) -> tuple[int, int]:
        """Connect, where there is no connection that lives; return how many were made, and what it took, ns."""
        kept, begun_ns = self.kept, self.kept.clock.now_ns()
        driver, opens, before = kept.driver, not kept.is_open, count_connections(kept.driver)
        if opens:
            await driver.open()
            kept.is_open = True
        for _ in range(_WAKING):
            await asyncio.sleep(0)
        workload = kept.spec.offered.workload
        if isinstance(driver, Warmable) and workload is not None and workload.reuse:
            await driver.warm_up()
        more = count_connections(driver) - before
        return max(more, int(opens)), kept.clock.now_ns() - begun_ns

    def _slice(self) -> Slice:
        timer = self.bench.timer(self.kept.clock, 0)
        instruments = Instruments(self.kept.clock, timer, Ends(self.bench.drain_s, grace_s=0), lambda: None)
        return build_slice(self.task, self.kept.spec.offered, self.kept.driver, instruments)

    async def _operate(self, slice_: Slice) -> None:
        done = asyncio.Event()
        beside = asyncio.ensure_future(self._look_beside(slice_, done))
        try:
            await slice_.engine.run()
        finally:
            done.set()
            await beside

    async def _look_beside(self, slice_: Slice, done: asyncio.Event) -> None:
        """Give signs of life, and see whether to stop, once it has gone on for so long."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(done.wait(), CANCEL_POLL_S)
        if done.is_set():
            return
        self.said_alive = True
        await repeat(CANCEL_POLL_S, lambda: self._beat(slice_), done)

    async def _beat(self, slice_: Slice) -> None:
        with contextlib.suppress(RecordsUnavailableError):
            await asyncio.to_thread(self._say_alive, slice_)
            tag = self.task.item.ref.tag
            self.cancelled = await asyncio.to_thread(self.services.table.flag, tag, layout.CANCELLED)
        if self.cancelled is not None:
            slice_.stop()

    def _say_alive(self, slice_: Slice, *, ended: bool = False) -> None:
        progress = slice_.recorder.progress()
        self.services.table.beat(self.task.item.ref.tag, f"writer#{self.id}", progress, ended=ended)

    def _store(self, rows: Rows, errors: tuple[str, ...], note: InvocationNote) -> None:
        item, clock = self.task.item, self.kept.clock
        header = ColumnHeader(
            ref=item.ref, phase=item.phase, writer=item.writer, slice=item.slice, attempt=self.task.attempt, flush=0,
            invocation=note,
        )  # fmt: skip
        flusher = Flusher(self.services.runs, self.services.table, header, matching_share=0, in_table=True)
        begun_ns = clock.now_ns()
        flusher.add(PendingRows(rows.sequence.size, lambda: rows), errors, last=True)
        flusher.finish(self.services.clock)
        self.sandbox.stored_ns = clock.now_ns() - begun_ns

    def _conclude(self, slice_: Slice) -> RunWriterOutput:
        output = slice_.output()
        if self.cancelled is not None:
            message = f"invocation {self.id} stopped after {output.sent} operations: cancelled ({self.cancelled})"
            raise TrialCancelledError(message)
        return output


def count_connections(driver: Driver) -> int:
    """Return how many connections a driver has made; 0 of one that does not count them."""
    return driver.connections if isinstance(driver, CountsConnections) else 0


def invoked_rows(rows: Rows, planned: int, start_ns: int) -> Rows:
    """
    Return the rows as they are recorded: due when they were sent, since nothing else says when, and whole.

    Operations that were not begun, of those planned, follow as unsent; they were due from the phase's start on.
    """
    begun = rows.sequence.size
    rows = rows._replace(t0_ns=np.where(rows.outcome == UNSENT, rows.t0_ns, rows.t1_ns))
    if begun >= planned:
        return rows
    more = planned - begun
    none = np.zeros(more, np.int64)
    return Rows(
        sequence=np.append(rows.sequence, np.arange(begun, planned)),
        t0_ns=np.append(rows.t0_ns, none + start_ns),
        t1_ns=np.append(rows.t1_ns, none),
        t2_ns=np.append(rows.t2_ns, none),
        outcome=np.append(rows.outcome, np.full(more, UNSENT, np.uint8)),
        error=np.append(rows.error, none.astype(np.uint16)),
        tokens=(*rows.tokens, *[""] * more) if rows.tokens else (),
        extras={name: np.append(column, none) for name, column in rows.extras.items()},
    )
