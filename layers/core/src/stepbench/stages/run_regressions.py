"""A run among its plan's earlier ones: what changed, for its report and for whoever is to be told."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

from pydantic import ValidationError

from stepbench.analysis.regressions import find_regressions
from stepbench.analysis.run_series import series_of_runs
from stepbench.contracts.result import RunSummary
from stepbench.observability import logger
from stepbench.records.storage import layout
from stepbench.records.storage.run_register import RunQuery
from stepbench.report.regressions import render_trends

if TYPE_CHECKING:
    from stepbench.contracts.regressions import DetectorSettings, SeriesFinding
    from stepbench.contracts.runs import RunRecord
    from stepbench.stages.services import Services

SERIES_RUNS = 120
"""So many runs are read: a baseline's, and those that are judged."""
READERS = 16


class RunRegressions(NamedTuple):
    """The report's section on the plan's runs, a line for each series that got worse, and whether to confirm it."""

    section: str
    told: tuple[str, ...]
    confirm: bool


def find_run_regressions(
    run: RunRecord, summary: RunSummary, settings: DetectorSettings, services: Services
) -> RunRegressions:
    """
    Set a run against those of its team and plan that went through before it, and store what was found.

    Raises:
        RecordsUnavailableError: the register or the bucket does not answer.
    """
    wanted = RunQuery(run.team, plan=run.plan, states=("succeeded",), until=str(run.submitted_at), limit=SERIES_RUNS)
    earlier = [each for each in services.register.page(wanted).runs if each.run_id != run.run_id]
    with ThreadPoolExecutor(READERS) as threads:
        read = list(threads.map(lambda each: _summary(each.run_id, services), earlier))
    summaries = [*(each for each in read if each is not None), summary]
    known = {each.run_id: each for each in (*earlier, run)}
    found = series_of_runs(
        summaries,
        acknowledged={name: each.acknowledged for name, each in known.items() if each.acknowledged},
        confirms={name: each.confirms for name, each in known.items() if each.confirms},
    )
    regressions = find_regressions(found.series, settings, found.not_comparable)
    services.runs.put_model(layout.run_key(run.run_id, "regressions.json"), regressions)
    told = tuple(f"{each.series.name}: {each.text}" for each in regressions.findings if each.told and _is_worse(each))
    return RunRegressions(render_trends(found.series, regressions), told, regressions.confirm)


def _is_worse(finding: SeriesFinding) -> bool:
    """Tell whether a series has got worse, or drifts there."""
    return finding.verdict in {"regression", "drift"}


def _summary(run_id: str, services: Services) -> RunSummary | None:
    """Return a run's summary; None where it is gone, or of another version."""
    try:
        return services.runs.find_model(layout.run_key(run_id, "summary.json"), RunSummary)
    except ValidationError:
        logger.warning("a summary is of another version", extra={"run_id": run_id})
        return None
