"""Regressions over the runs in a folder, by plan, and the shifts that were acknowledged there."""

from __future__ import annotations

import json
from itertools import takewhile
from typing import TYPE_CHECKING

from pydantic import Field

from stepbench.analysis.regressions import find_regressions
from stepbench.analysis.run_series import RunNumbers, run_numbers, series_of_runs
from stepbench.contracts.base import Contract
from stepbench.contracts.result import RunSummary
from stepbench.errors import PlanError, Problem
from stepbench.loading import PLAN, SUMMARY, find_runs, read_model, read_summaries
from stepbench_tools.local.results import find_run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stepbench.contracts.regressions import DetectorSettings, Regressions, RunSeries

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
