"""A run's results on this machine: read, and its report rendered again after an update of Stepbench."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepbench.contracts.manifest import Manifest
from stepbench.contracts.result import RunSummary, TrialResult
from stepbench.errors import CorruptRecordsError, PlanError, Problem
from stepbench.loading import LATEST, newest_first, read_model
from stepbench.local.fetching import REPORT, SUMMARY
from stepbench.report.page import render_page
from stepbench.report.verdicts import verdict_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.result import TrialSummary


def read_summary(folder: Path) -> RunSummary | None:
    """
    Return the run's summary, or None if the run ended before anything could be rendered.

    Raises:
        CorruptRecordsError: the file is no summary of this version.
    """
    path = folder / SUMMARY
    return read_model(path, RunSummary) if path.exists() else None


def sentences(summary: RunSummary) -> Iterator[str]:
    """Yield the question, what the comparisons come to, every caveat with its remedy, every failure with its cause."""
    if summary.question:
        yield summary.question
    yield from verdict_lines(summary)
    for trial in summary.trials:
        yield from (f"{trial.name}: {answer}" for answer in (trial.transfers.answers if trial.transfers else ()))
    for trial in summary.trials:
        if trial.failure:
            yield f"{trial.name}: {trial.failure.error}: {trial.failure.cause}"
        for caveat in trial.caveats:
            yield f"{trial.name}: {caveat.text} {caveat.remedy}".rstrip()


def find_run(run: str, out: Path) -> Path:
    """
    Return the folder of a run, given as folder, as id, or as `latest`, the newest.

    Raises:
        PlanError: there is none (bad input), or none with a summary.
    """
    newest = newest_first(out)[:1] if run == LATEST else []
    for folder in (*newest, Path(run), out / run):
        if (folder / SUMMARY).is_file():
            return folder
    unfinished = next((folder for folder in (Path(run), out / run) if (folder / "trials").is_dir()), None)
    if unfinished is not None:
        message, remedy = (
            f"has no {SUMMARY}: it goes on, or was killed",
            f"Run it again; what there is lies in {unfinished}.",
        )
        raise PlanError([Problem(path="RUN", value=f'"{run}"', message=message, remedy=remedy)])
    message = f"is neither a run's folder nor a run below {out}"
    remedy = f"Give a folder that holds {SUMMARY}, or with --out the folder of runs; `stepbench runs` lists them."
    raise PlanError([Problem(path="RUN", value=f'"{run}"', message=message, remedy=remedy)])


def rerender(folder: Path) -> tuple[RunSummary, Path]:
    """
    Write the page anew; numbers stay as they were analysed.

    Raises:
        CorruptRecordsError: a file of the run is missing, or is not of this version.
    """
    summary = read_model(folder / SUMMARY, RunSummary)
    results = [_trial_result(folder, trial) for trial in summary.trials]
    manifest = read_model(folder / "manifest.json", Manifest)
    page = render_page(summary, results, manifest, _read_plan(folder / "plan.json"))
    target = folder / REPORT
    target.write_text(page, "utf-8")
    return summary, target


def _trial_result(folder: Path, trial: TrialSummary) -> TrialResult:
    """Read a trial's result; one that left none has nothing to draw, and its summary says why."""
    path = folder / "trials" / f"{trial.index:04d}" / "result.json"
    if not path.exists():
        return TrialResult(summary=trial, series=(), phases=(), ecdf=())
    return read_model(path, TrialResult)


def _read_plan(path: Path) -> Any:  # noqa: ANN401 -- JSON, shown as it is
    try:
        return json.loads(path.read_bytes()) if path.exists() else None
    except ValueError as error:
        message = f"{path} is not JSON: {error}"
        raise CorruptRecordsError(message) from error
