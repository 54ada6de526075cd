"""
What needs the analysis, and is loaded by its routes alone: two runs compared, and the runs of a plan as series.

Runs are compared as `stepbench compare` does. What a plan's series show was found with
its newest run, or is found now.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from pydantic import ValidationError

from stepbench.analysis.regressions import find_regressions, series_names
from stepbench.analysis.run_comparison import Selected, compare_summaries, describe_shared
from stepbench.api.resolver import ApiError, ErrorKind
from stepbench.api.runs import find
from stepbench.contracts.api import PlanTrend
from stepbench.contracts.regressions import DetectorSettings, Regressions, RollingMedian
from stepbench.contracts.result import RunSummary
from stepbench.contracts.runs import RunRequest
from stepbench.errors import PlanError
from stepbench.records.storage import layout
from stepbench.stages.run_regressions import FOUND, read_baseline, read_plan_runs, series_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.api.resolver import Caller
    from stepbench.contracts.across_trials import RunComparison
    from stepbench.contracts.regressions import RunSeries
    from stepbench.services import Services
    from stepbench.stages.run_regressions import PlanRun


def compare(  # noqa: PLR0913, PLR0917 -- a request's parameters, and who asks
    a: str, b: str, tolerance: float, caller: Caller, services: Services, studied: str = ""
) -> RunComparison:
    """
    Compare run b with run a, which are alike but for what is `studied`.

    Raises:
        ApiError: there is no such run, it has no result, or one of another version, the two are one run, or they have
            nothing in common.
    """
    sides = [Selected([_summary(run_id, caller, services)]) for run_id in (a, b)]
    if shared := sides[0].shared_runs(sides[1]):
        message = f"{describe_shared(shared)}; choose two runs"
        raise ApiError(ErrorKind.REFUSED, message)
    found = compare_summaries(sides[0], sides[1], tolerance, studied)
    if not found.verdicts and not found.unfinished_b:
        message = f"runs {a} and {b} have no window of a trial in common; compare runs of one plan"
        raise ApiError(ErrorKind.REFUSED, message)
    return found


def _summary(run_id: str, caller: Caller, services: Services) -> RunSummary:
    run = find(run_id, caller, services)
    try:
        summary = services.runs.find_model(layout.run_key(run_id, "summary.json"), RunSummary)
    except ValidationError as error:
        message = f"the summary of run {run_id} is of another version of Stepbench, and cannot be compared"
        raise ApiError(ErrorKind.REFUSED, message) from error
    if summary is None:
        message = f"run {run_id} has no result{'' if run.ended else ' yet'}; its state is {run.state}"
        raise ApiError(ErrorKind.REFUSED, message)
    return summary


MOST_SERIES = 24
"""So many are looked at where nobody has done so yet: a page is not to wait for hundreds."""


def read_trend(plan: str, team: str, services: Services) -> PlanTrend | None:
    """
    Return the trend of a team's runs of a plan; None if no run of it has gone through.

    A run that was set against earlier ones has stored what was found, which holds until a shift is
    acknowledged. Of others it is found here, by the same rule; against the last runs where a named baseline is gone.
    """
    runs = read_plan_runs(plan, team, services)
    if not runs:
        return None
    given = series_of(runs)
    newest = given.series.runs[-1]
    stored = _stored(newest.run_id, services)
    if stored is not None and _acknowledged(given.series) <= _acknowledged_then(stored):
        return PlanTrend(series=given.series, found=stored)
    request = services.runs.find_model(layout.run_key(newest.run_id, "request.json"), RunRequest)
    settings = (request.detector if request else None) or DetectorSettings()
    with suppress(PlanError):  # its baseline is gone
        return _find([*read_baseline(settings, runs, services), *runs], settings)
    return _find(runs, settings.model_copy(update={"baseline": RollingMedian()}))


def _find(runs: Sequence[PlanRun], settings: DetectorSettings) -> PlanTrend:
    given = series_of(runs)
    found = find_regressions(given.series, settings, given.not_comparable, most=MOST_SERIES)
    left_out = len(series_names(given.series)) - len(found.findings)
    return PlanTrend(series=given.series, found=found, left_out=left_out)


def _stored(run_id: str, services: Services) -> Regressions | None:
    """Return what was found with a run; None where nobody looked, or it is of another version."""
    with suppress(ValidationError):
        return services.runs.find_model(layout.run_key(run_id, FOUND), Regressions)
    return None


def _acknowledged(series: RunSeries) -> set[str]:
    return {run.run_id for run in series.runs if run.acknowledged}


def _acknowledged_then(found: Regressions) -> set[str]:
    return {shift.run_id for each in found.findings for shift in each.shifts if shift.acknowledged}
