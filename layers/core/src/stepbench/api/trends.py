"""The runs of a plan as series, and what was found in them: with the newest run, or now."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from pydantic import ValidationError

from stepbench.analysis.regressions import find_regressions, series_names
from stepbench.contracts.api import PlanTrend
from stepbench.contracts.regressions import DetectorSettings, Regressions, RollingMedian
from stepbench.contracts.runs import RunRequest
from stepbench.errors import PlanError
from stepbench.records.storage import layout
from stepbench.stages.run_regressions import FOUND, read_baseline, read_plan_runs, series_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.contracts.regressions import RunSeries
    from stepbench.services import Services
    from stepbench.stages.run_regressions import PlanRun

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
