"""
Which store for a DAG, and how sure: by its time, and by performance per dollar; and published numbers beside ours.

It is in plain Python, since the report's function starts without NumPy. Trials are set against each other if they
differ in nothing but the store and its settings; repeats of a trial are taken together.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from stepbench import digits
from stepbench.analysis.comparability import in_plan_order
from stepbench.contracts.dataflow.report import DagReplication, Medium, MediumAnswer
from stepbench.contracts.measures import Estimate
from stepbench.contracts.published import DAG_METRICS
from stepbench.digits import counted
from stepbench.stats.over_runs import MIN_RUNS, mean_of_windows, mean_over_runs, ratio

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.dataflow.result import DagWindow
    from stepbench.contracts.result import TrialSummary

    Place = tuple[str, str, str]
    """A window of a DAG: the names of DAG, phase and window."""
    from stepbench.contracts.plan import TrialSpec
    from stepbench.contracts.published import Published


@dataclass
class DagGroup:
    """The repeats of one trial that went through whole."""

    name: str
    trials: list[TrialSummary] = field(default_factory=list)

    @property
    def first(self) -> TrialSummary:
        """Return the first of them."""
        return self.trials[0]

    def windows(self, place: Place) -> list[DagWindow]:
        """Return each run's result of a window."""
        flows = [trial.dataflow for trial in self.trials if trial.dataflow]
        return [window for flow in flows for window in flow.windows if window.place == place]

    def end_to_end(self, place: Place) -> list[Estimate]:
        """Return each run's median time."""
        return [window.end_to_end_ms.p50 for window in self.windows(place)]

    def perf_per_usd(self, place: Place, prices: str, *, idle: bool) -> list[Estimate]:
        """Return each run's performance per dollar by one table; `prices`: what the table's name ends with."""
        flows = [trial.dataflow for trial in self.trials if trial.dataflow]
        costs = [cost for flow in flows for cost in flow.costs if cost.place == place and cost.idle is idle]
        return [cost.perf_per_usd for cost in costs if cost.prices.endswith(prices)]


def dag_groups(trials: Sequence[TrialSummary], listed: Sequence[str] = ()) -> dict[str, DagGroup]:
    """Return the trials of DAGs that went through whole, repeats together, in the order of the plan, by name."""
    found: dict[str, DagGroup] = {}
    for trial in in_plan_order(trials, listed):
        if trial.dataflow is not None:
            name = trial.group or trial.name
            found.setdefault(name, DagGroup(name)).trials.append(trial)
    return found


def medium_answers(trials: Sequence[TrialSummary], listed: Sequence[str] = ()) -> tuple[MediumAnswer, ...]:
    """
    Return the answers for each window of a DAG that several stores had: by time, then by dollars.

    Args:
        trials: the run's.
        listed: the groups' names in the order of the plan.
    """
    works = list(_same_work(dag_groups(trials, listed)))
    windows = Counter(dag for (dag, _, _), _ in works)
    return tuple(
        answer.model_copy(update={"text": _text(answer, several=windows[answer.dag] > 1)})
        for place, members in works
        for answer in _answers(place, members)
    )


def _same_work(groups: dict[str, DagGroup]) -> Iterator[tuple[Place, list[DagGroup]]]:
    """Yield each window with the groups that did the same work there, where there are several."""
    same: dict[tuple[Place, str], list[DagGroup]] = {}
    for group in groups.values():
        flow = group.first.dataflow
        for window in flow.windows if flow else ():
            same.setdefault((window.place, _work(group.first, window.dag)), []).append(group)
    return ((place, members) for (place, _), members in same.items() if len(members) > 1)


def _work(trial: TrialSummary, dag: str) -> str:
    """Return what trials have in common that may be set against each other: all but the store and its settings."""
    setup = {path: value for path, value in trial.setup.items() if not path.startswith("target.")}
    dags = [
        each.model_dump(mode="json") for each in (trial.dataflow.dags if trial.dataflow else ()) if each.name == dag
    ]
    return json.dumps([dags, setup, trial.load_hosts], sort_keys=True, default=str)


def _answers(place: Place, groups: list[DagGroup]) -> Iterator[MediumAnswer]:
    yield from _answer(place, groups, [group.end_to_end(place) for group in groups])
    flows = [group.first.dataflow for group in groups]
    tables = dict.fromkeys((cost.prices, cost.idle) for flow in flows if flow for cost in flow.costs)
    for prices, idle in tables:
        values = [group.perf_per_usd(place, prices, idle=idle) for group in groups]
        yield from _answer(place, groups, values, prices, idle=idle)


def _answer(
    place: Place, groups: list[DagGroup], values: list[list[Estimate]], prices: str = "", *, idle: bool = False
) -> Iterator[MediumAnswer]:
    """Yield the answer by what the runs of each group have: times, or performance per dollar by a table's prices."""
    names = _medium_names(groups)
    emulated = [names[group.name] for group in groups if group.first.emulated]
    ranked, failed = [], []
    for group, runs in zip(groups, values, strict=True):
        if group.first.emulated:
            continue
        if runs and all(run.value for run in runs):
            value = runs[0] if len(runs) == 1 else mean_over_runs(runs)
            ranked.append((Medium(name=names[group.name], group=group.name, runs=len(runs), value=value), runs))
        else:
            failed.append(names[group.name])
    if len(ranked) + len(emulated) + len(failed) < 2:  # noqa: PLR2004 -- one has nothing beside it
        return
    ranked.sort(key=lambda each: (-1 if prices else 1) * (each[0].value.value or 0))
    best = ranked[0][1] if ranked else []
    advantages = [ratio(best, runs) if prices else ratio(runs, best) for _, runs in ranked[1:]]
    dag, phase, window = place
    yield MediumAnswer(
        dag=dag,
        phase=phase,
        window=window,
        measure="perf_per_usd" if prices else "end_to_end",
        prices=prices,
        idle=idle,
        ranked=tuple(medium for medium, _ in ranked),
        not_ranked=tuple(emulated),
        failed=tuple(failed),
        sure=bool(advantages) and all(each.low is not None and each.low > 1 for each in advantages),
        advantage=advantages[0] if advantages else None,
        text="",
    )


def _medium_names(groups: Sequence[DagGroup]) -> dict[str, str]:
    """Return how sentences call each group: by its store or, where several have that, by its own name, too."""
    stores = [group.first.store for group in groups]
    return {
        group.name: store if stores.count(store) == 1 else f"{store} ({group.name})"
        for group, store in zip(groups, stores, strict=True)
    }


def _text(answer: MediumAnswer, *, several: bool) -> str:
    """Return the answer as a sentence, which names the window where the DAG has several."""
    what = f"{answer.dag} in {answer.window}" if several else answer.dag
    left_out = f" {digits.listed(answer.not_ranked)}: emulated, and not ranked." if answer.not_ranked else ""
    if answer.failed:
        left_out += f" {digits.listed(answer.failed)}: most executions failed, and not ranked."
    if not answer.ranked:
        return f"For {what}, no store is ranked.{left_out}"
    by_time = answer.measure == "end_to_end"
    idle = f"{'with' if answer.idle else 'without'} idle hours"
    where = "," if by_time else f", per dollar ({answer.prices}, {idle}),"
    best, *others = (medium.name for medium in answer.ranked)
    if not others or answer.advantage is None:
        return f"For {what}{where} only {best} can be ranked.{left_out}"
    times = digits.shown(answer.advantage, digits.TIMES).in_sentence()
    compared = f"{others[0]} takes {times} as long" if by_time else f"{times} that of {others[0]}"
    if answer.sure:
        claim = f"{best} is the fastest" if by_time else f"{best} gives the most performance per dollar"
    else:
        most, rank = ("be the fastest", "lowest") if by_time else ("give the most", "highest")
        claim = f"no store is shown to {most}; {best} has the {rank} median"
    return f"For {what}{where} {claim}: {compared}.{left_out}"


PUBLISHED_PRICES = "November 2022"
_BOTH_READINGS = ("perf_per_dollar", "perf_per_dollar_spread")


def dag_replications(
    specs: Sequence[TrialSpec], trials: Sequence[TrialSummary], listed: Sequence[str] = ()
) -> tuple[DagReplication, ...]:
    """Return each published number of the plan's trials of DAGs once, even where nothing can be set beside it."""
    groups = dag_groups(trials, listed)
    found = [
        _replication(spec, published, groups)
        for spec in specs
        if spec.plan.experiment == "dataflow"
        for published in spec.offered.published
        if published.metric in DAG_METRICS
    ]
    return tuple({each.model_dump_json(): each for each in found}.values())


def _replication(spec: TrialSpec, published: Published, groups: dict[str, DagGroup]) -> DagReplication:
    places = _places(spec, published.window)
    dag, phase, window = (", ".join(dict.fromkeys(names)) for names in zip(*places, strict=True))
    trial, over_trial = published.trial or spec.group or spec.name, published.over_trial or ""
    names = [name for name in (trial, over_trial) if name]
    emulated = [name for name in names if name in groups and groups[name].first.emulated]
    caveat = f"the store of {' and '.join(emulated)} is emulated: its times say nothing about AWS"
    ours, ours_idle = (_ours(published, places, names, groups, idle=idle) for idle in (False, True))
    twice, number = published.metric in _BOTH_READINGS, published.number
    fields = {
        **published.model_dump(include={"metric", "bound", "source", "note"}),
        "trial": trial,
        "over_trial": over_trial,
        "dag": dag,
        "phase": phase,
        "window": window,
        "published": number,
        "unit": "share" if published.share is not None else "ratio",
        "ours": ours,
        "ours_idle": ours_idle if twice else None,
        "ratio": ours.over(number),
        "ratio_idle": ours_idle.over(number) if twice else None,
        "caveat": caveat if emulated else "",
    }
    return DagReplication.model_validate(fields)


def _places(spec: TrialSpec, window: str | None) -> list[Place]:
    """Return the window of that name; without a name, all measured ones."""
    every = ((phase, each.name) for phase in spec.offered.phases for each in phase.all_windows())
    return [(spec.offered.dag_of(phase).name, phase.name, name) for phase, name in every if window in {None, name}]


def _ours(
    published: Published, places: Sequence[Place], names: Sequence[str], groups: dict[str, DagGroup], *, idle: bool
) -> Estimate:
    if missing := [name for name in names if name not in groups]:
        return Estimate(value=None, reason=f"no trial {' and '.join(missing)} of this run went through whole")
    found = [groups[name] for name in names]
    if published.metric == "passing_share":
        return _mean([each.passing_on_path for place in places for each in found[0].windows(place)])
    sides = [_over_windows(published, places, group, idle=idle) for group in found]
    if not all(side and all(each.value for each in side) for side in sides):
        return Estimate(value=None, reason="not measured in both trials")
    return _spread_ratio(*sides) if published.metric == "perf_per_dollar_spread" else ratio(*sides)


def _over_windows(published: Published, places: Sequence[Place], group: DagGroup, *, idle: bool) -> list[Estimate]:
    """Return each run's value: of several windows their geometric mean; none where a run lacks one of them."""
    by_window = [
        group.end_to_end(place)
        if published.metric == "end_to_end"
        else group.perf_per_usd(place, PUBLISHED_PRICES, idle=idle)
        for place in places
    ]
    if len(places) == 1:
        return by_window[0]
    if any(len(runs) != len(group.trials) for runs in by_window):
        return []
    return [mean_of_windows(windows) for windows in zip(*by_window, strict=True)]


def _mean(shares: Sequence[Estimate]) -> Estimate:
    known = [share.value for share in shares if share.value is not None]
    if len(shares) == 1 or not known:
        return shares[0] if shares else Estimate(value=None, reason="not measured")
    return Estimate(value=fmean(known), reason=f"mean of {counted(len(known), 'run')}")


def _spread_ratio(above: Sequence[Estimate], below: Sequence[Estimate]) -> Estimate:
    """Return the coefficient of variation of some runs over that of others; it has no interval."""
    if min(len(above), len(below)) < MIN_RUNS:
        return Estimate(value=None, reason=f"{min(len(above), len(below))} of {MIN_RUNS} runs")
    sides = ([each.value or 0 for each in side] for side in (above, below))
    over, under = (stdev(values) / fmean(values) for values in sides)
    if under == 0:
        return Estimate(value=None, reason="the other trial's runs do not differ")
    return Estimate(value=over / under, reason="a ratio of spreads has none")
