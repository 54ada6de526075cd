"""A finished run's report, rendered again from its files: after an update of Stepbench, or in another place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from stepbench.contracts.problem import Problem
from stepbench.contracts.result import Manifest, RunSummary, TrialResult
from stepbench.errors import CorruptRecordsError, PlanError
from stepbench.local.results import REPORT, SUMMARY
from stepbench.report.page import render_page

if TYPE_CHECKING:
    from stepbench.contracts.result import TrialSummary

M = TypeVar("M", bound=BaseModel)


def find_run(run: str, out: Path) -> Path:
    """
    The folder of a run, given as folder or as id.

    Raises:
        PlanError: there is none (bad input), or none with a summary.
    """
    for folder in (Path(run), out / run):
        if (folder / SUMMARY).is_file():
            return folder
    message = f"is neither a run's folder nor a run below {out}"
    remedy = f"Give the path of a folder that holds {SUMMARY}, or say with --out where runs are."
    raise PlanError([Problem(path="RUN", value=f'"{run}"', message=message, remedy=remedy)])


def rerender(folder: Path) -> tuple[RunSummary, Path]:
    """
    Write the page anew; numbers stay as they were analysed.

    Raises:
        CorruptRecordsError: a file of the run is missing, or is not of this version.
    """
    summary = _read(folder / SUMMARY, RunSummary)
    results = [_result(folder, trial) for trial in summary.trials]
    plan = folder / "plan.json"
    page = render_page(
        summary,
        results,
        _read(folder / "manifest.json", Manifest),
        _plan(plan) if plan.exists() else None,
    )
    target = folder / REPORT
    target.write_text(page, "utf-8")
    return summary, target


def _result(folder: Path, trial: TrialSummary) -> TrialResult:
    """A trial that left no result has nothing to draw; its summary says why."""
    path = folder / "trials" / f"{trial.index:04d}" / "result.json"
    if not path.exists():
        return TrialResult(summary=trial, series=(), phases=(), ecdf=())
    return _read(path, TrialResult)


def _plan(path: Path) -> Any:  # noqa: ANN401 -- JSON, shown as it is
    try:
        return json.loads(path.read_bytes())
    except ValueError as error:
        message = f"{path} is not JSON: {error}"
        raise CorruptRecordsError(message) from error


def _read(path: Path, model: type[M]) -> M:
    try:
        return model.model_validate_json(path.read_bytes())
    except FileNotFoundError as error:
        message = f"{path} is missing"
        raise CorruptRecordsError(message) from error
    except ValidationError as error:
        first = error.errors()[0]
        message = f"{path} is not of this version: {'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise CorruptRecordsError(message) from error
