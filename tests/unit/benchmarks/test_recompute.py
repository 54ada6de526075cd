"""Trials in which not all went well, through analysis, export and page, and computed again from the file alone."""

from __future__ import annotations

import ast
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from benchmarks.recompute import __main__ as recompute
from benchmarks.recompute import dags as of_files
from benchmarks.recompute import over_runs
from benchmarks.recompute.records import Key
from tests.samples.comparisons import matrix, run
from tests.samples.dag_rows import dag_end, event_text
from tests.samples.finished_dags import FinishedDags, fork_rows
from tests.samples.finished_trials import PHASES, AnalysedTrial, watched_with_a_gap
from tests.samples.invoked_trials import partly_recorded
from tests.samples.measured_functions import MeasuredTrial

from stepbench.analysis.comparability import group_results
from stepbench.analysis.verdicts import plan_verdicts
from stepbench.contracts.result import RunSummary
from stepbench.contracts.runs import RenderReportInput
from stepbench.contracts.tasks import ExportRecordsInput, StateError
from stepbench.experiments.report.tables import render_csv
from stepbench.model.request import Outcome
from stepbench.records.storage import layout
from stepbench.stages.export_records import export_records
from stepbench.stages.render_report import render_report
from stepbench_tools.printing import render_markdown

if TYPE_CHECKING:
    from collections.abc import Callable

SOURCES = Path(recompute.__file__).parent
STOPPED = StateError(Error="TrialCancelledError", Cause="stopped")
NOTHING = StateError()
WINDOWS = [{"name": "early", "from_s": 0, "to_s": 3.3}, {"name": "late", "from_s": 3.05, "to_s": 9.95}]


def lossy() -> AnalysedTrial:
    """Return a trial with losses, duplicates and an arrival after the drain limit, in two windows that overlap."""
    phases = [PHASES[0], {**PHASES[1], "windows": WINDOWS}]
    trial = AnalysedTrial(phases=phases, drain_limit_s=5).finish(lost=tuple(range(0, 200, 12)))
    for sequence in (7, 8, 66):
        trial.records.deliver(1, sequence, trial.records.start_of(1) + 11 * 10**9)
    trial.records.deliver(1, 24, trial.records.start_of(1) + 60 * 10**9)
    return trial


def filtered() -> AnalysedTrial:
    """Return a trial whose filter lets half pass, one of which is lost, and with it some that it should not have."""
    return AnalysedTrial(record={"matching_share": 0.5}).finish(lost=(1, *range(0, 150, 2)))


def refused() -> AnalysedTrial:
    """Return a trial of which some writes failed and some got no answer, and nothing arrived."""
    trial = AnalysedTrial()
    trial.records.phase(0)
    errors = {3: (Outcome.FAILED, "Throttled"), 5: (Outcome.FAILED, "Throttled"), 190: (Outcome.UNKNOWN, "")}
    trial.records.refused(1, errors)
    return trial


def cut_short() -> AnalysedTrial:
    """Return a trial whose writer died after four of ten seconds, and of which the last second did not arrive."""
    return AnalysedTrial(drain_limit_s=1).finish(to_s=4, last=False, lost=(10, *range(70, 80)))


def dags() -> FinishedDags:
    """Return executions of a DAG of which one had a task made twice, one failed, and one lacks a row."""
    trial = FinishedDags(4)
    trial.execution(0, slower_ms=3)
    a, b0, b1, c = fork_rows(event_text(1), 1_000)
    bad = {"outcome": "failed", "error": "get a-0/b-1: not_found"}
    gone = b1.blobs[0].model_copy(update={"outcome": "failed", "error": "not_found"})
    failed = b1.model_copy(update={**bad, "blobs": (gone,)})
    again = b1.model_copy(update={"attempt": 1, "began_ns": b1.began_ns + 4_000_000, "compute_ns": 11_000_000})
    trial.execution(1, [a, b0, failed, again, c])
    a, b0, b1, _ = fork_rows(event_text(2), 2_000)
    end = dag_end(2_070, event=event_text(2), dag="fork", completed=False, error="TaskFailedError", deleted=2, left=1)
    trial.execution(2, [a, b0, b1.model_copy(update={**bad, "blobs": (gone,)})], end)
    trial.execution(3, fork_rows(event_text(3), 3_000)[:3])
    return trial


CASES: dict[str, tuple[Callable[[], AnalysedTrial], StateError]] = {
    "lossy": (lossy, NOTHING),
    "filtered": (filtered, NOTHING),
    "refused": (refused, NOTHING),
    "writer died": (cut_short, NOTHING),
    "stopped": (cut_short, STOPPED),
    "watch gap": (watched_with_a_gap, NOTHING),
    "measured function": (MeasuredTrial, NOTHING),
    "dags": (dags, NOTHING),
    "invocations": (partly_recorded, NOTHING),
}


def left_by(trial: AnalysedTrial, failure: StateError, folder: Path) -> Path:
    """Analyse, export and render a trial, and return the folder of its run, with its CSV and Markdown."""
    trial.result(failure)
    export_records(ExportRecordsInput(ref=trial.ref, failure=failure), trial.memory.services)
    task = RenderReportInput(run_id=trial.ref.run_id, started_at=datetime(2026, 1, 2, tzinfo=UTC), outcomes=())
    render_report(task, trial.memory.services)
    prefix = layout.run_key(trial.ref.run_id, "")
    for key, body in trial.memory.bucket.objects.items():
        if key.startswith(prefix):
            path = folder / key.removeprefix(prefix)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(body)
    summary = RunSummary.model_validate_json((folder / "summary.json").read_bytes())
    (folder / "run.csv").write_text(render_csv(summary))
    (folder / "run.md").write_text(render_markdown(summary))
    return folder


def compare(folder: Path) -> int:
    """Compare all that the run shows with its records."""
    return recompute.main([str(folder), "--draws", "0", "--csv", f"{folder}/run.csv", "--text", f"{folder}/run.md"])


@pytest.mark.parametrize("case", CASES)
def test_every_number_that_is_shown_is_what_the_records_say(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where something is lost, held back, late or cut off, definitions matter; another program knows only them."""
    trial, failure = CASES[case]
    code = compare(left_by(trial(), failure, tmp_path))
    printed = capsys.readouterr().out
    assert code == 0, printed
    assert printed.count(" 0 differ") == 4


def test_a_number_that_is_not_what_the_records_say_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Else no difference would say nothing."""
    folder = left_by(lossy(), NOTHING, tmp_path)
    summary = json.loads((folder / "summary.json").read_text())
    summary["trials"][0]["windows"][1]["lateness_ms"]["p90"]["value"] *= 1.001
    summary["trials"][0]["accounting"]["duplicates"] += 1
    (folder / "summary.json").write_text(json.dumps(summary))
    assert compare(folder) == 1
    first, *rest = capsys.readouterr().out.splitlines()
    assert first.endswith("numbers compared, 2 differ")
    assert "accounting.duplicates" in rest[0]
    assert "lateness_ms.p90" in rest[1]


def test_what_dags_show_is_computed_from_their_own_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The path's parts, stages' times, what became of objects; then one of each is tampered with."""
    trial = dags()
    flow = json.loads(trial.result().summary.model_dump_json())
    summary = {"trials": [flow]}
    export_records(ExportRecordsInput(ref=trial.ref), trial.memory.services)
    folder = tmp_path / "trials/0000"
    folder.mkdir(parents=True)
    for key, body in trial.memory.bucket.objects.items():
        if key.endswith(".parquet"):
            (folder / key.rpartition("/")[2]).write_bytes(body)
    ours = of_files.dags(tmp_path)
    assert recompute.compare("summary", ours, list(of_files.of_summary(summary))) == 0
    assert "not from records: dag.objects.left\n" in capsys.readouterr().out  # what tear-down saw in the store
    flow["dataflow"]["objects"]["unread"] += 1
    flow["dataflow"]["windows"][0]["path"][7]["ms"]["p50"]["value"] *= 1.001
    flow["dataflow"]["windows"][0]["stages"][1]["task_ms"]["max"] += 0.001
    assert recompute.compare("summary", ours, list(of_files.of_summary(summary))) == 3
    printed = capsys.readouterr().out
    assert all(each in printed for each in ("dag.objects.unread", "dag.path.compute_ms.p50", "dag.stage.b.task_ms.max"))


def test_what_several_runs_say_is_computed_from_each_run(capsys: pytest.CaptureFixture[str]) -> None:
    """Groups of two repeats, the verdict between them, and one effect that was tampered with."""
    trials = matrix("writers", {1: [1.0, 1.2], 2: [3.0, 3.1]})
    run_ = run(*trials).model_copy(update={"groups": group_results(trials), "verdicts": plan_verdicts(trials)})
    summary = json.loads(run_.model_dump_json(by_alias=True))
    windows = [(trial["index"], window) for trial in summary["trials"] for window in trial["windows"]]
    latencies = {
        Key(index, window["phase"], window["name"], "", f"latency_ms.{name}"): each["value"] if name[0] == "p" else each
        for index, window in windows
        for name, each in window["latency_ms"].items()
    }
    counts = {Key(index, window["phase"], window["name"], "", "n"): window["n"] for index, window in windows}
    ours = over_runs.over_runs(summary, latencies | counts)
    assert recompute.compare("summary", ours, list(over_runs.of_summary(summary))) == 0
    summary["verdicts"][0]["effects"][0]["ratio"]["value"] *= 1.001
    assert recompute.compare("summary", ours, list(over_runs.of_summary(summary))) == 1
    assert "(verdict)" in capsys.readouterr().out


def test_it_knows_nothing_of_the_program_that_it_checks() -> None:
    """Who shares a function with the report shares its mistake."""
    trees = [ast.parse(path.read_text("utf-8")) for path in SOURCES.glob("*.py")]
    named = {node.module or "" for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    named |= {
        each.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Import) for each in node.names
    }
    assert {name for name in named if "stepbench" in name} == set()
