"""The runs of one plan as series: of each group of trials, window and kind of operation its quantiles and rates."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from stepbench.analysis.effects import COMPARED_QUANTILES, closed_loop
from stepbench.analysis.judged import judge_of_kind, runs_judged
from stepbench.analysis.one_verdict import runs_of
from stepbench.analysis.pairs import Group, find_groups
from stepbench.analysis.slow_spells import UNDECIDED, may_be_caused, spells_of
from stepbench.analysis.verdicts import common_kinds
from stepbench.contracts.measures import Estimate
from stepbench.contracts.regressions import MOST_RUNS, RunSeries, Series, SeriesRun, SeriesValue
from stepbench.contracts.thresholds import SHARED, THRESHOLD_QUANTILES, THROUGHPUT, Judge
from stepbench.stats.over_runs import mean_over_runs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from stepbench.contracts.result import RunSummary

NO_NOTES: Mapping[str, str] = {}
CAUSED_BY_SPELLS = Estimate(value=None, reason=UNDECIDED)


_VERSION = re.compile(r"(?<! at) \d[^\s,)]*")
"""In what a store calls itself: `etcd 3.5.1 (3 members)`; in `S3 API at 10.0.0.1:9000` it is an address."""


class Found(NamedTuple):
    """The series, and the ids of runs that were made under other settings, or elsewhere, than the last one."""

    series: RunSeries
    not_comparable: tuple[str, ...]


class GroupNumbers(NamedTuple):
    """A group's numbers in one run, and what they depend on; the version of what served is none of the settings."""

    settings: tuple[object, ...]
    provider: str
    values: tuple[SeriesValue, ...]


class RunNumbers(NamedTuple):
    """What series need of a run's summary. `names`: of its groups, those included that did not go through whole."""

    run_id: str
    plan: str
    started_at: str
    green: bool
    names: tuple[str, ...]
    groups: Mapping[str, GroupNumbers]


def run_numbers(run: RunSummary) -> RunNumbers:
    """Return what series need of a summary, which is large."""
    return RunNumbers(
        run_id=run.run_id,
        plan=run.plan,
        started_at=run.started_at,
        green=run.verdict != "failed" and run.status == "succeeded",
        names=tuple(dict.fromkeys(trial.group or trial.name for trial in run.trials if not trial.skipped)),
        groups={
            group.name: GroupNumbers(_settings(group), group.first.provider, tuple(_values(group, run.judge)))
            for group in find_groups(run.trials)
        },
    )


def series_of_runs(
    runs: Iterable[RunNumbers], acknowledged: Mapping[str, str] = NO_NOTES, confirms: Mapping[str, str] = NO_NOTES
) -> Found:
    """
    Return the runs in order of their start, with the numbers of the last run's groups.

    Of each group those runs count that are as the newest one in which it went through whole: what failed in the last
    run is followed all the same.

    Args:
        runs: of one plan, one at least. Groups that did not go through whole have no numbers.
        acknowledged: why the level that begins with a run is accepted, by its id.
        confirms: which run a run was made to confirm.
    """
    ordered = sorted(runs, key=lambda run: (run.started_at, run.run_id))[-MOST_RUNS:]
    names = next((run.names for run in reversed(ordered) if run.names), ())
    newest = {name: group.settings for run in ordered for name, group in run.groups.items() if name in names}
    same = {
        run.run_id: {name: own for name, own in run.groups.items() if newest.get(name) == own.settings}
        for run in ordered
    }
    others = tuple(run.run_id for run in ordered if run.groups and not same[run.run_id])
    kept = [run for run in ordered if run.run_id not in others]
    ids = {run.run_id for run in kept}
    served: dict[str, str] = {}
    found = [
        SeriesRun(
            run_id=run.run_id,
            started_at=run.started_at,
            confirms=confirms[run.run_id] if confirms.get(run.run_id) in ids else None,
            green=run.green,
            acknowledged=acknowledged.get(run.run_id, ""),
            changed=_note_changes(served, same[run.run_id]),
            values=tuple(
                value for name in names if name in same[run.run_id] for value in same[run.run_id][name].values
            ),
        )
        for run in kept
    ]
    return Found(RunSeries(plan=ordered[-1].plan, runs=tuple(found)), others)


def _settings(group: Group) -> tuple[object, ...]:
    trial = group.first
    store = _VERSION.sub("", trial.provider), trial.emulated, trial.load_hosts
    return trial.experiment, *store, trial.setup, trial.point


def _note_changes(served: dict[str, str], groups: Mapping[str, GroupNumbers]) -> str:
    """Return which stores are of another version than in the run before, and note those of this one."""
    said = [
        f"{served[name]} \N{RIGHTWARDS ARROW} {group.provider}"
        for name, group in groups.items()
        if served.get(name, group.provider) != group.provider
    ]
    served |= {name: group.provider for name, group in groups.items()}
    return "; ".join(dict.fromkeys(said))


def _values(group: Group, judge: Judge | None) -> Iterator[SeriesValue]:
    """Yield the numbers of each window: what the run is judged by before the others."""
    for place in dict.fromkeys((each.phase, each.name) for each in group.first.windows):
        windows = group.windows(*place)
        known = [spells_of(trial, *place) for trial in group.trials if Group(group.name, (trial,)).windows(*place)]
        at = {"group": group.name, "phase": place[0], "window": place[1]}
        first = judge if judge is not None and judge.statistic not in SHARED else None
        for kind in (None, *common_kinds(windows, windows)):
            quantiles = [Judge(statistic=name) for name in COMPARED_QUANTILES]
            if (own := judge_of_kind(first, kind)) is not None:
                quantiles = [own, *(each for each in quantiles if each != own)]
            for each in quantiles:
                found = runs_judged(each, runs_of(group, place, kind))
                estimates = [
                    CAUSED_BY_SPELLS if may_be_caused(spells, each.statistic, estimate) else estimate
                    for estimate, spells in zip(found, known, strict=True)
                ]
                quantile = each.statistic if each.statistic in THRESHOLD_QUANTILES else None
                series = Series.model_validate({**at, "kind": kind, "measure": each.measure, "quantile": quantile})
                yield SeriesValue(series=series, estimate=_together(estimates))
        if closed_loop(windows) and (first is None or first.statistic != THROUGHPUT):
            rates = [Estimate(value=each.throughput_per_s, reason="one run") for each in windows]
            series = Series.model_validate({**at, "measure": THROUGHPUT})
            yield SeriesValue(series=series, estimate=_together(rates))


def _together(estimates: Sequence[Estimate]) -> Estimate:
    """
    Return a single trial's own estimate, else the mean of repeats; of one beyond the drain limit, its least.

    Repeats whose machine may have made it are left out; where all are, there is no number. Where events waited ever
    longer there is no value: that of another run is another, whatever the store does.
    """
    grown = next((each for each in estimates if each.fell_behind), None)
    if grown is not None:
        return Estimate(value=None, reason=grown.reason)
    estimates = [each for each in estimates if each is not CAUSED_BY_SPELLS] or [CAUSED_BY_SPELLS]
    if len(estimates) == 1:
        return estimates[0]
    beyond = next((each for each in estimates if each.value is None and each.low is not None), None)
    if beyond is None:
        return mean_over_runs(estimates)
    least = mean_over_runs([Estimate(value=each.at_least) for each in estimates])
    return Estimate(value=None, low=least.value, reason=beyond.reason)
