"""
What `stepbench calibrate` does: the preset through the state machines, or short runs without an emulator.

The short seeded runs have our writer, driver and watch log in one process. They prove that losses, duplicates and
disorder are counted exactly. Writer and watcher share an event loop there, so their latencies are worse than those of a
trial, and are not judged.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table

from stepbench.clock import AnchoredClock
from stepbench.contracts.capacity import BimodalDelay, ConstantDelay, Delay, ParetoDelay, StallDelay
from stepbench.contracts.findings import SlowSpells
from stepbench.contracts.identity import EventId, trial_tag
from stepbench.contracts.phase import LoadStep, Phase
from stepbench.contracts.plan import Plan, TrialPlan, TrialSpec
from stepbench.contracts.target import ReferenceTarget
from stepbench.drivers.reference.trigger import ReferenceDriver
from stepbench.errors import LocalEnvironmentError
from stepbench.load.machine_speed import check_cores
from stepbench.load.open_loop import OpenLoop, SliceLimits
from stepbench.load.process import gc_paused, run_measuring
from stepbench.load.recorder import Recorder
from stepbench.load.timer import best_timer
from stepbench.planning import expand
from stepbench.planning.wall_time import LOCAL
from stepbench.records.formats.columns import ColumnFile, ColumnHeader
from stepbench.records.formats.t4_items import parse_item
from stepbench.records.join.grid import build_grid
from stepbench.records.join.reader import read_records
from stepbench.records.join.trial import join
from stepbench.records.storage.layout import attempt_id, run_key, trial_key
from stepbench.records.storage.t4_store import T4Log, T4Store
from stepbench.records.storage.watch_log import WatchLog
from stepbench.settings import Settings
from stepbench.workload.arrivals import phase_offsets_ns
from stepbench.workload.payloads import Payloads
from stepbench_tools.calibration.instrument import Calibration, calibrate
from stepbench_tools.calibration.report import (
    HEADINGS,
    CalibrationReport,
    judge,
    table_rows,
    verdict_lines,
)
from stepbench_tools.calibration.truth import read_truth
from stepbench_tools.local.commands import AS_IT_IS, Options, Runner
from stepbench_tools.local.memory_services import MemoryServices
from stepbench_tools.local.processes import terminate
from stepbench_tools.local.session import local_session
from stepbench_tools.local.stores.references import TRUTH, start_reference
from stepbench_tools.local.stores.servers import REFERENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rich.console import Console

    from stepbench.records.join.joined import Joined
    from stepbench_tools.local.paths import Paths
    from stepbench_tools.local.session import LocalSession

PRESET = "calibrate"
DOCUMENT = "calibration.json"
FAULTY_SHARE = 0.03
LIMIT_S = 30.0
"""A run may wait so long for its watch, and for the last delivery."""
_LEAD_NS = 50_000_000
_POLL_S = 0.02
_DELAYS: tuple[Delay, ...] = (
    ConstantDelay(kind="constant", ms=3),
    BimodalDelay(kind="bimodal", low_ms=2, high_ms=12, high_share=0.3),
    ParetoDelay(kind="pareto", scale_ms=2, shape=2.5),
    StallDelay(kind="stalls", base_ms=2, stall_ms=60, every_s=0.2),
)


def calibrate_plan(paths: Paths, plan: Plan, out: Path, console: Console) -> CalibrationReport:
    """
    Run the plan on this machine, and set its records beside the reference store's truth.

    `calibration.json`, and each trial's truth as `truth.jsonl`, are put beside its results.

    Raises:
        LocalEnvironmentError: nothing came of the run.
    """
    before = check_cores()
    with local_session(paths, partial(console.print, **AS_IT_IS)) as session:
        runner = Runner(session.stack, Options(out=out, floors=False), LOCAL, console, console, session)
        outcome, _ = runner.run_one(plan)
        specs = () if outcome is None else expand(plan, outcome.run_id)
        if outcome is not None:  # the server's data go with the environment
            _copy_truth(specs, paths.data / REFERENCE / TRUTH, outcome.folder)
        if outcome is None or outcome.stopped or outcome.summary is None:
            message = "the calibration did not come to an end; see above for what went wrong, and run it again"
            raise LocalEnvironmentError(message)
        trials = tuple(_trial(spec, session, outcome.folder) for spec in specs)
    report = judge("plan", trials, SlowSpells.merged((before, check_cores())), run_id=outcome.run_id)
    (outcome.folder / DOCUMENT).write_text(to_json(report) + "\n", encoding="utf-8")
    return report


def calibrate_runs(runs: int, rate_per_s: float, notify: Callable[[str], None]) -> CalibrationReport:
    """
    Do so many short runs, seeds from 0, against a server of their own.

    Raises:
        LocalEnvironmentError: the server does not start.
    """
    before = check_cores()
    with tempfile.TemporaryDirectory(prefix="stepbench-calibrate-") as folder:
        store = start_reference(Path(folder), parent=os.getpid())
        done: list[Calibration] = []
        try:
            for seed in range(runs):
                done.append(short_run(store.endpoint, Path(folder), seed, ShortLoad(rate_per_s=rate_per_s)))
                notify(f"run {seed + 1} of {runs}: {done[-1].name}: {'exact' if done[-1].exact else 'NOT exact'}")
        finally:
            terminate(store.pids)
    return judge("runs", tuple(done), SlowSpells.merged((before, check_cores())))


def with_rate(plan: Plan, rate_per_s: float) -> Plan:
    """Return the plan with another rate in its measured phases: steps keep their duration, or else their count."""
    document = plan.model_dump(mode="json", exclude_none=True)
    for trial in document["trials"]:
        for phase in trial["phases"]:
            if phase["measured"]:
                for step in phase["load"]:
                    step["rate_per_s"] = rate_per_s
    return Plan.model_validate(document)


def print_report(report: CalibrationReport, console: Console) -> None:
    """Print a table of what was judged, and sentences below it."""
    if report.judged != "runs":
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for heading in HEADINGS:
            table.add_column(heading, justify="right" if heading == "n" or heading.endswith(" ms") else "left")
        for row in table_rows(report.trials):
            table.add_row(*row)
        console.print(table)
    for line in verdict_lines(report):
        console.print(line, **AS_IT_IS)


def to_json(report: CalibrationReport) -> str:
    """Return the report as JSON in one line."""
    return report.model_dump_json(by_alias=True)


def _copy_truth(specs: Iterable[TrialSpec], truth: Path, folder: Path) -> None:
    for spec in specs:
        log, target = truth / f"{spec.tag}.jsonl", _truth_path(spec, folder)
        if log.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(log, target)


def _truth_path(spec: TrialSpec, folder: Path) -> Path:
    return folder / trial_key(spec.ref, "truth.jsonl").removeprefix(run_key(spec.run_id, ""))


def _trial(spec: TrialSpec, session: LocalSession, folder: Path) -> Calibration:
    log = _truth_path(spec, folder)
    if not log.exists():
        message = f"the reference store has no truth about trial {spec.name}: it never got there; see its failure above"
        raise LocalEnvironmentError(message)
    joined = read_records(spec, session.stack.runs, session.stack.table).joined
    writes = read_truth(log.read_text(encoding="utf-8").splitlines())
    return calibrate(spec.name, joined, writes, [phase.measured for phase in spec.offered.phases])


@dataclass(frozen=True)
class ShortLoad:
    """Each short run offers so many events at this rate."""

    rate_per_s: float = 500
    count: int = 250


def short_run(endpoint: str, directory: Path, seed: int, load: ShortLoad) -> Calibration:
    """
    Run once, and compare the records with the truth.

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
    with gc_paused():
        joined = run_measuring(_offer(spec, Settings(results_table="", results_bucket="", reference_endpoint=endpoint)))
    log = directory / TRUTH / f"{spec.tag}.jsonl"
    truth = read_truth(log.read_text(encoding="utf-8").splitlines())
    log.unlink()  # the next run with this seed begins anew
    return calibrate(spec.name, joined, truth, [True])


def short_spec(seed: int, load: ShortLoad) -> TrialSpec:
    """Return the trial of a short run."""
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
                while log.established_ns is None and not reader.done():  # noqa: ASYNC110 -- `WatchLog` has no event
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
    plan = spec.offered
    due_ns = phase_offsets_ns(plan, 0, 0) + start_ns
    recorder = Recorder(due_ns)
    payloads = Payloads(plan.record, EventId(spec.tag, 0, 0, 0, 0, 0), due_ns.size, plan.seed)
    limits = SliceLimits(plan.max_in_flight, int(due_ns[-1]) + round(LIMIT_S * 1e9), LIMIT_S)
    timer = best_timer(clock)
    make = driver.prepare_request
    await OpenLoop(lambda number: make(payloads.write(number)), clock, timer, recorder, limits=limits).run()
    return recorder


async def _drain(driver: ReferenceDriver, log: WatchLog, reader: asyncio.Task[None]) -> None:
    """Wait until the store has nothing left to deliver and the watch has seen as much, or will not in time."""
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
    rows, place = recorder.take(), {"phase": 0, "writer": 0, "slice": 0, "attempt": 0, "flush": 0}
    header = ColumnHeader(ref=spec.ref, **place, errors=recorder.errors, last=True, drift_ns=0)
    return join(
        build_grid(spec.offered, {0: start_ns}),
        {attempt_id(0, 0, 0, 0)},
        [ColumnFile(header, rows)],
        [parse_item(item) for item in services.table.t4_items(spec.tag)],
        round(spec.offered.drain_limit_s * 1e9),
    )
