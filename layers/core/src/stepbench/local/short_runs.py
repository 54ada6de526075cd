"""
Short seeded runs against the reference store: our writer, driver and watch log in one process, without an emulator.

What they prove is that losses, duplicates and disorder are counted exactly. Writer and watcher share an event loop
here, so their latencies are worse than those of a trial, and are not judged.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stepbench.calibration.instrument import Calibration, calibrate
from stepbench.calibration.truth import read_truth
from stepbench.clock import AnchoredClock
from stepbench.contracts.identity import EventId, trial_tag
from stepbench.contracts.plan import LoadStep, Phase, TrialPlan, TrialSpec
from stepbench.contracts.target import BimodalDelay, ConstantDelay, Delay, ParetoDelay, ReferenceTarget, StallDelay
from stepbench.contracts.tasks import TrialRef
from stepbench.drivers.reference import ReferenceDriver
from stepbench.load.arrivals import phase_offsets_ns
from stepbench.load.making import write_maker
from stepbench.load.open_loop import Limits, OpenLoop
from stepbench.load.payloads import Payloads
from stepbench.load.quiet import quiet
from stepbench.load.recorder import Recorder
from stepbench.load.timer import best_timer
from stepbench.local.reference import TRUTH
from stepbench.records.columns import ColumnFile, ColumnHeader
from stepbench.records.grid import build_grid
from stepbench.records.join import join
from stepbench.records.layout import attempt_id
from stepbench.records.t4 import parse_item
from stepbench.records.t4_log import T4Log
from stepbench.records.t4_store import T4Store
from stepbench.records.watch_log import WatchLog
from stepbench.settings import Settings
from stepbench.stages.event_loop import run_measuring
from stepbench.testing.memory_services import MemoryServices

if TYPE_CHECKING:
    from pathlib import Path

    from stepbench.records.join import Joined

FAULTY_SHARE = 0.03
LIMIT_S = 30.0
"""How long a run may wait for its watch, and for the last delivery."""
_LEAD_NS = 50_000_000
_POLL_S = 0.02
_DELAYS: tuple[Delay, ...] = (
    ConstantDelay(kind="constant", ms=3),
    BimodalDelay(kind="bimodal", low_ms=2, high_ms=12, high_share=0.3),
    ParetoDelay(kind="pareto", scale_ms=2, shape=2.5),
    StallDelay(kind="stalls", base_ms=2, stall_ms=60, every_s=0.2),
)


@dataclass(frozen=True)
class ShortLoad:
    """What each run offers."""

    rate_per_s: float = 500
    count: int = 250


def short_run(endpoint: str, directory: Path, seed: int, load: ShortLoad) -> Calibration:
    """
    One run.

    Args:
        endpoint: of the reference store.
        directory: that it was started with.
        seed: of its fates; the kind of delay goes by it in turn.
        load: what is offered.

    Raises:
        TargetUnavailableError: the store does not answer.
        CorruptRecordsError: its truth cannot be read.
        TimeoutError: it does not come to an end.
    """
    spec = short_spec(seed, load)
    with quiet():
        joined = run_measuring(_offer(spec, Settings(results_table="", results_bucket="", reference_endpoint=endpoint)))
    log = directory / TRUTH / f"{spec.tag}.jsonl"
    truth = read_truth(log.read_text(encoding="utf-8").splitlines())
    log.unlink()  # the next run with this seed begins anew
    return calibrate(spec.name, joined, truth, [True])


def short_spec(seed: int, load: ShortLoad) -> TrialSpec:
    """The trial of a run."""
    run_id = f"calibrate-{seed}"
    target = ReferenceTarget(
        store="reference",
        delay=_DELAYS[seed % len(_DELAYS)],
        drop_share=FAULTY_SHARE,
        duplicate_share=FAULTY_SHARE,
        reorder_share=FAULTY_SHARE,
    )
    phase = Phase(name="measured", load=(LoadStep(rate_per_s=load.rate_per_s, count=load.count),))
    plan = TrialPlan(target=target, phases=(phase,), drain_limit_s=LIMIT_S, seed=seed)
    name = f"{target.delay.kind}-{seed}"
    return TrialSpec(run_id=run_id, index=0, name=name, tag=trial_tag(run_id, 0), plan=plan, estimate_usd=0)


async def _offer(spec: TrialSpec, settings: Settings) -> Joined:
    driver = ReferenceDriver(spec, settings, clock := AnchoredClock())
    await driver.prepare()
    try:
        await driver.open()
        log = WatchLog(spec.tag, "reference", 0, T4Log(lambda _tag: "none"))
        reader = asyncio.create_task(_read(driver, log))
        try:
            async with asyncio.timeout(LIMIT_S):
                while not log.established and not reader.done():  # noqa: ASYNC110 -- as `WatchLog` tells it
                    await asyncio.sleep(_POLL_S)
            start_ns = clock.now_ns() + _LEAD_NS
            recorder = await _write(spec, driver, clock, start_ns)
            await _drain(driver, log, reader)
        finally:
            reader.cancel()
            await asyncio.wait({reader})
    finally:
        await driver.tear_down()
        await driver.close()
    return _join(spec, start_ns, recorder, log)


async def _read(driver: ReferenceDriver, log: WatchLog) -> None:
    async for batch in driver.watch(None):
        log.add(batch)


async def _write(spec: TrialSpec, driver: ReferenceDriver, clock: AnchoredClock, start_ns: int) -> Recorder:
    plan = spec.plan
    due_ns = phase_offsets_ns(plan, 0, 0) + start_ns
    recorder = Recorder(due_ns)
    payloads = Payloads(plan.record, EventId(spec.tag, 0, 0, 0, 0, 0), due_ns.size, plan.seed)
    limits = Limits(plan.max_in_flight, int(due_ns[-1]) + round(LIMIT_S * 1e9), LIMIT_S)
    timer = best_timer(clock)
    make = write_maker(driver, clock)
    await OpenLoop(lambda number: make(payloads.write(number)), clock, timer, recorder, limits=limits).run()
    return recorder


async def _drain(driver: ReferenceDriver, log: WatchLog, reader: asyncio.Task[None]) -> None:
    """Until the store has nothing left to deliver and the watch has seen as much, or will not in time."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + LIMIT_S
    while not reader.done() and loop.time() < until_s:
        pending, position = await driver.status()
        if pending == 0 and log.seen >= position:
            return
        await asyncio.sleep(_POLL_S)


def _join(spec: TrialSpec, start_ns: int, recorder: Recorder, log: WatchLog) -> Joined:
    services = MemoryServices(AnchoredClock()).services
    log.record(log.take(), services.table, T4Store(services.table, services.runs))
    ref = TrialRef(run_id=spec.run_id, trial=spec.index, tag=spec.tag)
    rows = recorder.take()
    header = ColumnHeader(
        ref=ref, phase=0, writer=0, slice=0, attempt=0, flush=0, errors=recorder.errors, last=True, drift_ns=0
    )
    return join(
        build_grid(spec.plan, {0: start_ns}),
        {attempt_id(0, 0, 0, 0)},
        [ColumnFile(header, rows)],
        [parse_item(item) for item in services.table.t4_items(spec.tag)],
        round(spec.plan.drain_limit_s * 1e9),
    )
