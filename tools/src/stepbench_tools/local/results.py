"""A run's results on this machine: read, and its report rendered again after an update of Stepbench."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepbench.contracts.documents import Manifest
from stepbench.contracts.result import RunSummary, TrialResult
from stepbench.errors import CorruptRecordsError, PlanError, Problem
from stepbench.experiments.report.page import render_page
from stepbench.experiments.report.short_answer import short_answer
from stepbench.loading import candidates, read_model
from stepbench.report.caveats import caveat_groups
from stepbench.report.conditions import describe_conditions
from stepbench.report.verdicts import TERMINAL_LINES, verdict_lines
from stepbench_tools.local.fetching import REPORT, SUMMARY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
    """
    Yield each kind of caveat once, every failure with its cause, and last, where a terminal shows it, the answer.

    The answer is the question, under which conditions it was asked, and what the comparisons come to; a run that
    compares nothing has a line for each trial.
    """
    for group in caveat_groups(summary.trials):
        yield f"{group.name} ({group.whom}): {group.text}"
    for trial in summary.trials:
        if trial.failure:
            yield f"{trial.name}: {trial.failure.error}: {trial.failure.cause}"
    for trial in summary.trials:
        yield from (f"{trial.name}: {answer}" for answer in (trial.transfers.answers if trial.transfers else ()))
    yield ""
    yield from filter(None, (summary.question, describe_conditions(summary.trials)))
    yield from verdict_lines(summary) or short_answer(summary)[:TERMINAL_LINES]


def find_run(run: str, out: Path, notify: Callable[[str], None]) -> Path:
    """
    Return the folder of a run, given as folder, as id, or as `latest`, the one that was started last.

    Args:
        run: as it is named.
        out: the folder of runs.
        notify: called with what is to be known of the choice, such as which copies of the run were left out.

    Raises:
        PlanError: there is none (bad input), or none with a summary.
    """
    for found in candidates(run, out):
        if (found.folder / SUMMARY).is_file():
            for note in found.notes:
                notify(note)
            return found.folder
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
    except (ValueError, RecursionError) as error:
        message = f"{path} is not JSON: {error}"
        raise CorruptRecordsError(message) from error
