"""Published numbers of DAGs beside this run's: ratios of one trial over another, and shares; in plain Python."""

from __future__ import annotations

from statistics import fmean, stdev
from typing import TYPE_CHECKING

from stepbench.contracts.dataflow.media import DagReplication
from stepbench.contracts.measures import Estimate
from stepbench.contracts.published import DAG_METRICS
from stepbench.digits import counted
from stepbench.experiments.dataflow.analysis.groups import Place, dag_groups
from stepbench.stats.over_runs import MIN_RUNS, ratio

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.plan import TrialSpec
    from stepbench.contracts.published import Published
    from stepbench.contracts.result import TrialSummary
    from stepbench.experiments.dataflow.analysis.groups import DagGroup

PUBLISHED_PRICES = "November 2022"
_BOTH_READINGS = ("perf_per_dollar", "perf_per_dollar_spread")


def dag_replications(
    specs: Sequence[TrialSpec], trials: Sequence[TrialSummary], listed: Sequence[str] = ()
) -> tuple[DagReplication, ...]:
    """Return each published number of the plan's trials of DAGs once, even where nothing can be set beside it."""
    groups = dag_groups(trials, listed)
    found: dict[str, DagReplication] = {}
    for spec in specs:
        if spec.plan.experiment == "dataflow":
            for each in _replications(spec, groups):
                found.setdefault(each.model_dump_json(), each)
    return tuple(found.values())


def _replications(spec: TrialSpec, groups: dict[str, DagGroup]) -> Iterator[DagReplication]:
    for published in spec.offered.published:
        if published.metric in DAG_METRICS:
            yield _replication(spec, published, groups)


def _replication(spec: TrialSpec, published: Published, groups: dict[str, DagGroup]) -> DagReplication:
    place = _place(spec, published.window)
    names = [published.trial or spec.group or spec.name, published.over_trial or ""]
    ours, ours_idle = (_ours(published, place, names, groups, idle=idle) for idle in (False, True))
    twice = published.metric in _BOTH_READINGS
    number = published.number
    return DagReplication.model_validate(
        {
            "metric": published.metric,
            "trial": names[0],
            "over_trial": names[1],
            **place._asdict(),
            "published": number,
            "unit": "share" if published.share is not None else "ratio",
            "bound": published.bound,
            "source": published.source,
            "note": published.note,
            "ours": ours,
            "ours_idle": ours_idle if twice else None,
            "ratio": ours.over(number),
            "ratio_idle": ours_idle.over(number) if twice else None,
            "caveat": _caveat(names, groups),
        }
    )


def _place(spec: TrialSpec, window: str | None) -> Place:
    phase, found = next(
        (phase, each) for phase in spec.offered.phases for each in phase.all_windows() if window in {None, each.name}
    )
    return Place(spec.offered.dag_of(phase).name, phase.name, found.name)


def _ours(
    published: Published, place: Place, names: Sequence[str], groups: dict[str, DagGroup], *, idle: bool
) -> Estimate:
    wanted = [name for name in names if name]
    if missing := [name for name in wanted if name not in groups]:
        return Estimate(value=None, reason=f"no trial {' and '.join(missing)} of this run went through whole")
    if published.metric == "passing_share":
        shares = [window.passing_on_path for window in groups[wanted[0]].windows(place)]
        return _mean(shares)
    sides = [_values(published, groups[name], place, idle=idle) for name in wanted]
    if not all(side and all(each.value for each in side) for side in sides):
        return Estimate(value=None, reason="not measured in both trials")
    if published.metric == "perf_per_dollar_spread":
        return _spread_ratio(*sides)
    return ratio(*sides)


def _values(published: Published, group: DagGroup, place: Place, *, idle: bool) -> list[Estimate]:
    if published.metric == "end_to_end":
        return group.end_to_end(place)
    return group.perf_per_usd(place, PUBLISHED_PRICES, idle=idle)


def _mean(shares: Sequence[Estimate]) -> Estimate:
    known = [share.value for share in shares if share.value is not None]
    if len(shares) == 1 or not known:
        return shares[0] if shares else Estimate(value=None, reason="not measured")
    return Estimate(value=fmean(known), reason=f"mean of {counted(len(known), 'run')}")


def _spread_ratio(above: Sequence[Estimate], below: Sequence[Estimate]) -> Estimate:
    """Return the coefficient of variation of some runs over that of others; it has no interval."""
    if min(len(above), len(below)) < MIN_RUNS:
        return Estimate(value=None, reason=f"{min(len(above), len(below))} of {MIN_RUNS} runs")
    over, under = (_variation([each.value or 0 for each in side]) for side in (above, below))
    if under == 0:
        return Estimate(value=None, reason="the other trial's runs do not differ")
    return Estimate(value=over / under, reason="a ratio of spreads has none")


def _variation(values: Sequence[float]) -> float:
    return stdev(values) / fmean(values)


def _caveat(names: Sequence[str], groups: dict[str, DagGroup]) -> str:
    emulated = [name for name in names if name in groups and groups[name].first.emulated]
    return f"the store of {' and '.join(emulated)} is emulated: its times say nothing about AWS" if emulated else ""
