"""The last runs of a plan as series of headline numbers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING

from stepbench.analysis.effects import Runs
from stepbench.analysis.pairs import find_groups
from stepbench.contracts.dashboard import PlanTrend, TrendPoint, TrendSeries
from stepbench.contracts.result import RunSummary
from stepbench.records.storage import layout
from stepbench.records.storage.run_register import RunQuery
from stepbench.stats.over_runs import mean_over_runs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.measures import Estimate
    from stepbench.contracts.runs import RunRecord
    from stepbench.stages.services import Services

MOST_RUNS = 40
MOST_SERIES = 8
_READERS = 8


def read_trend(plan: str, team: str, services: Services) -> PlanTrend:
    """Return the series of a team's finished runs of a plan; those of the newest run come first."""
    runs = services.register.page(RunQuery(team=team, plan=plan, states=("succeeded", "failed"), limit=MOST_RUNS)).runs
    with ThreadPoolExecutor(_READERS) as pool:
        summaries = list(pool.map(lambda run: _summary(run, services), runs))
    series: dict[str, list[TrendPoint]] = {}
    for run, summary in zip(runs, summaries, strict=True):
        for name, point in _points(run, summary) if summary else ():
            series.setdefault(name, []).append(point)
    shown = islice(series.items(), MOST_SERIES)
    return PlanTrend(
        plan=plan,
        runs=sum(summary is not None for summary in summaries),
        series=tuple(TrendSeries(name=name, points=tuple(reversed(points))) for name, points in shown),
        left_out=max(0, len(series) - MOST_SERIES),
    )


def _summary(run: RunRecord, services: Services) -> RunSummary | None:
    return services.runs.find_model(layout.run_key(run.run_id, "summary.json"), RunSummary)


def _points(run: RunRecord, summary: RunSummary) -> Iterator[tuple[str, TrendPoint]]:
    """Yield the numbers of each group of trials that went through whole, window by window."""
    for group in find_groups(summary.trials):
        for window in group.first.windows:
            found = Runs(group.windows(window.phase, window.name))
            yield (
                f"{group.name} · {group.window_label(window.phase, window.name)}",
                TrendPoint(
                    run_id=run.run_id,
                    submitted_at=run.submitted_at,
                    state=run.state,
                    p50=_one(found.quantile("p50")),
                    p99=_one(found.quantile("p99")),
                ),
            )


def _one(estimates: list[Estimate]) -> Estimate:
    """Return the one estimate, or the mean of the repeats'."""
    return estimates[0] if len(estimates) == 1 else mean_over_runs(estimates)
