"""A run among its plan's earlier ones: what changed, for its report and for announcements."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

from pydantic import ValidationError

from stepbench.analysis.regressions import find_regressions
from stepbench.analysis.run_series import run_numbers, series_of_runs
from stepbench.contracts.regressions import NamedRun
from stepbench.contracts.result import RunSummary
from stepbench.observability import logger
from stepbench.records.storage import layout
from stepbench.records.storage.run_register import RunQuery
from stepbench.report.regressions import render_trends

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.analysis.run_series import Found, RunNumbers
    from stepbench.contracts.regressions import DetectorSettings
    from stepbench.contracts.runs import RunRecord
    from stepbench.services import Services

SERIES_RUNS = 120
"""How many runs are read: a baseline's and those that are judged; as many again of a named baseline further back."""
READERS = 16
MOST_RECORDS = 20_000
"""Entries of the register, which are small, that are looked through for the first runs of a named baseline."""

FOUND = "regressions.json"
"""What was found with a run, beside its summary."""


class PlanRun(NamedTuple):
    """A run's entry in the register, and its numbers."""

    record: RunRecord
    numbers: RunNumbers


class RunRegressions(NamedTuple):
    """The report's section on the plan's runs, a line for each series that got worse, and whether to confirm it."""

    section: str
    announced: tuple[str, ...]
    confirm: bool


def find_run_regressions(
    run: RunRecord, summary: RunSummary, settings: DetectorSettings, services: Services
) -> RunRegressions:
    """
    Set a run against those of its team and plan that went through before it, and store what was found.

    Raises:
        PlanError: a named baseline is gone, or not comparable with the run.
        RecordsUnavailableError: the register or the bucket does not answer.
    """
    earlier = read_plan_runs(run.plan, run.team, services, until=run.place)
    known = [each for each in earlier if each.record.run_id != run.run_id] + [PlanRun(run, run_numbers(summary))]
    found = series_of([*read_baseline(settings, known, services), *known])
    regressions = find_regressions(found.series, settings, found.not_comparable)
    services.runs.put_model(layout.run_key(run.run_id, FOUND), regressions)
    announced = tuple(
        f"{each.series.name}: {each.text}"
        for each in regressions.findings
        if each.told and each.verdict in {"regression", "drift"}
    )
    return RunRegressions(render_trends(found.series, regressions), announced, regressions.confirm)


def read_plan_runs(plan: str, team: str, services: Services, *, until: str = "") -> list[PlanRun]:
    """
    Return a team's last runs of a plan that went through and have a summary of this version, newest first.

    Args:
        plan: its name.
        team: whose runs.
        services: where they are.
        until: the place of the last one (`RunRecord.place`); "" for the newest.
    """
    wanted = RunQuery(team, plan=plan, states=("succeeded",), until=until, limit=SERIES_RUNS)
    return _read(services.register.page(wanted).runs, services)


def read_baseline(settings: DetectorSettings, known: Sequence[PlanRun], services: Services) -> list[PlanRun]:
    """Return the first runs of a named baseline that is further back than the runs that are known; else none."""
    baseline, ids = settings.baseline, {each.record.run_id for each in known}
    if not isinstance(baseline, NamedRun) or not known or baseline.run_id in ids:
        return []
    record, last = known[0].record, max(each.record.place for each in known)
    named = services.register.find(baseline.run_id)
    if named is None or (named.team, named.plan) != (record.team, record.plan):
        return []
    wanted = RunQuery(
        named.team, plan=named.plan, states=("succeeded",), since=named.place, until=last, limit=MOST_RECORDS
    )
    first = services.register.page(wanted).runs[-min(baseline.runs, SERIES_RUNS) :]
    return _read([each for each in first if each.run_id not in ids], services)


def series_of(runs: Sequence[PlanRun]) -> Found:
    """Return the runs' numbers as series, with what was acknowledged and confirmed."""
    return series_of_runs(
        [run.numbers for run in runs],
        acknowledged={each.run_id: each.acknowledged for each, _ in runs if each.acknowledged},
        confirms={each.run_id: each.confirms for each, _ in runs if each.confirms},
    )


def _read(records: Sequence[RunRecord], services: Services) -> list[PlanRun]:
    with ThreadPoolExecutor(READERS) as threads:
        found = list(threads.map(lambda each: _numbers(each.run_id, services), records))
    return [PlanRun(run, numbers) for run, numbers in zip(records, found, strict=True) if numbers is not None]


def _numbers(run_id: str, services: Services) -> RunNumbers | None:
    """Return a run's numbers, not its summary, of which there is no room for many; None where that cannot be read."""
    try:
        summary = services.runs.find_model(layout.run_key(run_id, "summary.json"), RunSummary)
    except ValidationError:
        logger.warning("a summary is of another version", extra={"run_id": run_id})
        return None
    return None if summary is None else run_numbers(summary)
