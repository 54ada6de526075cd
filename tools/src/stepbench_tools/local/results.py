"""
Results on this machine: a run's, read and rendered again; runs that are compared; and what changed over all of them.

A word on the command line means a run, a folder of runs, the latest, or a group of trials of them. What changed is
found by plan, and shifts that were acknowledged are kept beside the runs.
"""

from __future__ import annotations

import json
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from stepbench.analysis.regressions import find_regressions
from stepbench.analysis.run_comparison import Selected, compare_summaries, describe_shared
from stepbench.analysis.run_series import RunNumbers, run_numbers, series_of_runs
from stepbench.contracts.base import Contract
from stepbench.contracts.documents import Manifest
from stepbench.contracts.result import RunSummary, TrialResult
from stepbench.errors import CorruptRecordsError, PlanError, Problem
from stepbench.experiments.report.headline import short_answer
from stepbench.experiments.report.page import render_page
from stepbench.loading import PLAN, candidates, find_runs, read_model, read_summaries
from stepbench.report.caveats import caveat_groups, describe_conditions
from stepbench.report.verdicts import TERMINAL_LINES, verdict_lines
from stepbench_tools.local.fetching import REPORT, SUMMARY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stepbench.contracts.across_trials import RunComparison
    from stepbench.contracts.regressions import DetectorSettings, Regressions, RunSeries
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


OF = "#"
"""It stands between runs and the group of trials that is meant of them."""


def compare(  # noqa: PLR0913, PLR0917 -- what the command line asks
    a: str, b: str, out: Path, tolerance: float, notify: Callable[[str], None], studied: str = ""
) -> RunComparison:
    """
    Compare the runs that `b` names with those that `a` names, which are alike but for what is `studied`.

    Args:
        a: what is compared with, as `select` takes it.
        b: what is judged.
        out: the folder of runs.
        tolerance: a share, as `compare_summaries` takes it.
        notify: called with each note, such as which copies of a run were left out.
        studied: the one thing that may differ, as `compare_summaries` takes it.

    Raises:
        PlanError: there are no such runs, or both sides have one (bad input).
        CorruptRecordsError: a summary is not of this version.
    """
    sides = [select(word, out, name, notify) for name, word in (("A", a), ("B", b))]
    if shared := sides[0].shared_runs(sides[1]):
        message = f"{describe_shared(shared)}: a run says nothing about how it differs from itself"
        remedy = f"Name two runs (`stepbench runs` lists them), or two trials of one run, as in RUN{OF}TRIAL."
        raise PlanError([Problem(path="B", value=f'"{b}"', message=message, remedy=remedy)])
    found = compare_summaries(sides[0], sides[1], tolerance, studied)
    if not found.verdicts:
        notify(f"to compare trials of two names, name one on either side, as in RUN{OF}TRIAL, with windows of one name")
    return found


def select(word: str, out: Path, side: str, notify: Callable[[str], None]) -> Selected:
    """
    Return the runs that a word names: `RUN`, or `RUN#GROUP` for one group of its trials.

    RUN is a run's id or folder, its `summary.json`, or a folder of several runs, which are repeats of one another; of
    copies of one run one is taken, and `notify` is called with which.

    Raises:
        PlanError: there is no such run, or no such group.
    """
    name, _, group = word.partition(OF)
    selected = Selected(_read_summaries(name, out, notify), group)
    if group and not selected.groups() and not selected.unfinished():
        has = ", ".join(Selected(selected.runs).groups()) or "none that went through whole"
        message = f"names no trial of that run, whose trials are: {has}"
        raise PlanError([Problem(path=side, value=f'"{word}"', message=message, remedy="Write one of these behind #.")])
    return selected


def _read_summaries(name: str, out: Path, notify: Callable[[str], None]) -> list[RunSummary]:
    path = Path(name)
    if path.is_file() and path.name == SUMMARY:
        path = path.parent
    several = () if (path / SUMMARY).is_file() else find_runs(path)
    for note in (note for run in several for note in run.notes):
        notify(note)
    found = [summary for _, summary in read_summaries(reversed(several), notify)]
    if several and not found:
        message = f"no {SUMMARY} below {path} can be read"
        raise CorruptRecordsError(message)
    return found or [read_model(find_run(str(path), out, notify) / SUMMARY, RunSummary)]


ACKNOWLEDGED = "acknowledged.json"


class AcknowledgedShift(Contract):
    """A level that begins with a run is accepted, and why."""

    run_id: str = Field(min_length=1)
    why: str = Field(min_length=1, max_length=500)


class AcknowledgedShifts(Contract):
    """`acknowledged.json`, beside a folder's runs: of a run that is given twice, the last entry counts."""

    shifts: tuple[AcknowledgedShift, ...] = ()


def regressions_below(
    out: Path, settings: DetectorSettings, notify: Callable[[str], None], plan: str | None = None
) -> list[tuple[RunSeries, Regressions]]:
    """
    Return what changed in each plan of which there are runs below a folder, or in one of them.

    Args:
        out: the folder.
        settings: how changes are looked for.
        notify: called with each note, such as which copies of a run were left out.
        plan: only of the plan of this name.

    Raises:
        PlanError: there is no such run (bad input).
        CorruptRecordsError: the file of acknowledged shifts is not of this version.
    """
    plans: dict[str, list[RunNumbers]] = {}
    for run, summary in read_summaries(find_runs(out), notify):
        if plan in {None, summary.plan}:
            plans.setdefault(summary.plan, []).append(run_numbers(summary))
            for note in run.notes:
                notify(note)
    if not plans:
        what = f"has no finished run of {plan}" if plan else "has no finished run"
        remedy = "Run the plan first, or name the folder of runs with --out."
        raise PlanError([Problem(path="--out", value=f'"{out}"', message=what, remedy=remedy)])
    acknowledged = {each.run_id: each.why for each in read_acknowledged(out).shifts}
    found = {name: series_of_runs(runs, acknowledged) for name, runs in sorted(plans.items())}
    return [(each.series, find_regressions(each.series, settings, each.not_comparable)) for each in found.values()]


def unread_last(out: Path, plan: str | None = None) -> tuple[Path, ...]:
    """Return the folders of runs, of a plan or of any, that may be the last ones and cannot be read."""
    later = takewhile(lambda run: not run.run_id, find_runs(out))
    return tuple(run.folder for run in later if plan is None or _plan_in(run.folder) in {plan, ""})


def _plan_in(folder: Path) -> str:
    """Return the name of the plan that lies in a run's folder; empty where there is none that can be read."""
    try:
        return str(json.loads((folder / PLAN).read_bytes())["name"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ""


def read_acknowledged(out: Path) -> AcknowledgedShifts:
    """Return the shifts that were acknowledged in a folder of runs."""
    path = out / ACKNOWLEDGED
    return read_model(path, AcknowledgedShifts) if path.exists() else AcknowledgedShifts()


def acknowledge(run: str, why: str, out: Path, notify: Callable[[str], None]) -> str:
    """
    Accept the level that begins with a run, and return the run's id; `notify` is as `find_run` takes it.

    Raises:
        PlanError: there is no such run.
    """
    summary = read_model(find_run(run, out, notify) / SUMMARY, RunSummary)
    have = read_acknowledged(out).shifts
    shifts = (
        *(each for each in have if each.run_id != summary.run_id),
        AcknowledgedShift(run_id=summary.run_id, why=why),
    )
    (out / ACKNOWLEDGED).write_text(AcknowledgedShifts(shifts=shifts).model_dump_json(indent=1) + "\n", "utf-8")
    return summary.run_id
