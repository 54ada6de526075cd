"""The runs of one plan as series: of each group of trials, window and kind of operation its quantiles and rates."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stepbench.analysis.effects import QUANTILES, Runs
from stepbench.analysis.pairs import find_groups
from stepbench.analysis.verdicts import common_kinds
from stepbench.contracts.measures import Estimate
from stepbench.contracts.regressions import MOST_RUNS, RunSeries, Series, SeriesRun, SeriesValue
from stepbench.stats.over_runs import mean_over_runs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from stepbench.analysis.pairs import Group
    from stepbench.contracts.result import RunSummary

NO_NOTES: Mapping[str, str] = {}


class Found(NamedTuple):
    """The series, and the ids of runs that were made under other settings, or elsewhere, than the last one."""

    series: RunSeries
    not_comparable: tuple[str, ...]


def series_of_runs(
    runs: Sequence[RunSummary], acknowledged: Mapping[str, str] = NO_NOTES, confirms: Mapping[str, str] = NO_NOTES
) -> Found:
    """
    Return the runs in order of their start, with the numbers of those groups that are as in the last run.

    Args:
        runs: of one plan, one at least. Groups that did not go through whole have no numbers.
        acknowledged: why the level that begins with a run is accepted, by its id.
        confirms: which run a run was made to confirm.
    """
    ordered = sorted(runs, key=lambda run: (run.started_at, run.run_id))[-MOST_RUNS:]
    groups = {run.run_id: find_groups(run.trials) for run in ordered}
    wanted = {group.name: _settings(group) for group in groups[ordered[-1].run_id]}
    alike = {
        name: [group for group in own if wanted.get(group.name) == _settings(group)] for name, own in groups.items()
    }
    others = tuple(name for name, own in groups.items() if own and not alike[name])
    kept = [run for run in ordered if run.run_id not in others]
    ids = {run.run_id for run in kept}
    found = [
        SeriesRun(
            run_id=run.run_id,
            started_at=run.started_at,
            confirms=confirms[run.run_id] if confirms.get(run.run_id) in ids else None,
            green=run.verdict != "failed" and run.status == "succeeded",
            acknowledged=acknowledged.get(run.run_id, ""),
            values=tuple(value for group in alike[run.run_id] for value in _values(group)),
        )
        for run in kept
    ]
    return Found(RunSeries(plan=ordered[-1].plan, runs=tuple(found)), others)


def _settings(group: Group) -> tuple[object, ...]:
    trial = group.first
    return trial.experiment, trial.provider, trial.setup, trial.point


def _values(group: Group) -> Iterator[SeriesValue]:
    for place in dict.fromkeys((each.phase, each.name) for each in group.first.windows):
        windows = group.windows(*place)
        for kind in (None, *common_kinds(windows, windows)):
            runs = Runs(windows, kind)
            for name in QUANTILES:
                estimates = runs.quantile(name)
                series = Series(group=group.name, phase=place[0], window=place[1], kind=kind, quantile=name)
                yield SeriesValue(series=series, estimate=_together(estimates))
        if all(each.operations is not None and each.operations.clients is not None for each in windows):
            rates = [Estimate(value=each.throughput_per_s, reason="one run") for each in windows]
            series = Series(group=group.name, phase=place[0], window=place[1], measure="throughput")
            yield SeriesValue(series=series, estimate=_together(rates))


def _together(estimates: Sequence[Estimate]) -> Estimate:
    """Return a single trial's own estimate, else the mean of repeats."""
    return estimates[0] if len(estimates) == 1 else mean_over_runs(estimates)
