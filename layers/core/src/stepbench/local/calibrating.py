"""What `stepbench calibrate` does: the preset through the state machines, or short runs without an emulator."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table

from stepbench.calibration.instrument import Calibration, calibrate
from stepbench.calibration.report import HEADINGS, CalibrationReport, judge_plan, judge_runs, table_rows, verdict_lines
from stepbench.calibration.truth import read_truth
from stepbench.contracts.plan import Plan
from stepbench.errors import LocalEnvironmentError
from stepbench.local.commands import Options, Runner
from stepbench.local.environment import REFERENCE
from stepbench.local.processes import terminate
from stepbench.local.progress import LOCAL
from stepbench.local.reference import TRUTH, start_reference
from stepbench.local.session import local_session
from stepbench.local.short_runs import ShortLoad, short_run
from stepbench.planning import expand
from stepbench.records.layout import run_key, trial_key
from stepbench.records.reader import read_records, ref_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rich.console import Console

    from stepbench.contracts.plan import TrialSpec
    from stepbench.local.places import Places
    from stepbench.local.session import Session

PRESET = "calibrate"
DOCUMENT = "calibration.json"


def calibrate_plan(places: Places, plan: Plan, out: Path, people: Console) -> CalibrationReport:
    """
    Run the plan on this machine, and set its records beside the reference store's truth.

    `calibration.json`, and each trial's truth as `truth.jsonl`, are put beside its results.

    Raises:
        LocalEnvironmentError: nothing came of the run.
    """
    with local_session(places, lambda text: people.print(text, markup=False, highlight=False)) as session:
        runner = Runner(session.stack, Options(out=out, floors=False), LOCAL, people, people, session)
        outcome, _ = runner.run_one(plan)
        specs = () if outcome is None else expand(plan, outcome.run_id)
        if outcome is not None:  # the server's data go with the environment
            _keep_truth(specs, places.data / REFERENCE / TRUTH, outcome.folder)
        if outcome is None or outcome.stopped or outcome.summary is None:
            message = "the calibration did not come to an end; see above for what went wrong, and run it again"
            raise LocalEnvironmentError(message)
        report = judge_plan(outcome.run_id, tuple(_trial(spec, session, outcome.folder) for spec in specs))
    (outcome.folder / DOCUMENT).write_text(to_json(report) + "\n", encoding="utf-8")
    return report


def calibrate_runs(runs: int, rate_per_s: float, say: Callable[[str], None]) -> CalibrationReport:
    """
    So many short runs, seeds from 0, against a server of their own.

    Raises:
        LocalEnvironmentError: the server does not start.
    """
    with tempfile.TemporaryDirectory(prefix="stepbench-calibrate-") as folder:
        store = start_reference(Path(folder), parent=os.getpid())
        done: list[Calibration] = []
        try:
            for seed in range(runs):
                done.append(short_run(store.endpoint, Path(folder), seed, ShortLoad(rate_per_s=rate_per_s)))
                say(f"run {seed + 1} of {runs}: {done[-1].name}: {'exact' if done[-1].exact else 'NOT exact'}")
        finally:
            terminate(store.pids)
    return judge_runs(tuple(done))


def at_rate(plan: Plan, rate_per_s: float) -> Plan:
    """The plan with another rate in its measured phases: steps of a duration last as long, others offer as many."""
    document = plan.model_dump(mode="json", exclude_none=True)
    for trial in document["trials"]:
        for phase in trial["phases"]:
            if phase["measured"]:
                for step in phase["load"]:
                    step["rate_per_s"] = rate_per_s
    return Plan.model_validate(document)


def show(report: CalibrationReport, people: Console) -> None:
    """A table of what was judged, and sentences below it."""
    if report.judged == "plan":
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for heading in HEADINGS:
            table.add_column(heading, justify="right" if heading == "n" or heading.endswith(" ms") else "left")
        for row in table_rows(report.trials):
            table.add_row(*row)
        people.print(table)
    for line in verdict_lines(report):
        people.print(line, markup=False, highlight=False, soft_wrap=True)


def to_json(report: CalibrationReport) -> str:
    """One line."""
    return report.model_dump_json(by_alias=True)


def _keep_truth(specs: Iterable[TrialSpec], truth: Path, folder: Path) -> None:
    for spec in specs:
        log, place = truth / f"{spec.tag}.jsonl", _place(spec, folder)
        if log.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(log, place)


def _place(spec: TrialSpec, folder: Path) -> Path:
    return folder / trial_key(ref_of(spec), "truth.jsonl").removeprefix(run_key(spec.run_id, ""))


def _trial(spec: TrialSpec, session: Session, folder: Path) -> Calibration:
    log = _place(spec, folder)
    if not log.exists():
        message = f"the reference store has no truth about trial {spec.name}: it never got there; see its failure above"
        raise LocalEnvironmentError(message)
    joined = read_records(spec, session.stack.runs, session.stack.table).joined()
    writes = read_truth(log.read_text(encoding="utf-8").splitlines())
    return calibrate(spec.name, joined, writes, [phase.measured for phase in spec.plan.phases])
