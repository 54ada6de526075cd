"""
Published ratios of one trial's latency over another's, such as one store's median over another's, beside ours.

It is in plain Python, since the report's function starts without NumPy. Ours is the ratio of the two trials' quantiles,
with the interval that verdicts give to such a ratio (`stats.over_runs`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.contracts.experiment import measure_of, traits_of
from stepbench.contracts.findings import TrialReplication
from stepbench.contracts.measures import Estimate
from stepbench.contracts.published import DAG_METRICS
from stepbench.stats.over_runs import ratio

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from stepbench.contracts.measures import WindowResult
    from stepbench.contracts.plan import TrialSpec
    from stepbench.contracts.published import Published
    from stepbench.contracts.result import TrialSummary

    Groups = Mapping[str, Sequence[TrialSummary]]


def trial_replications(specs: Sequence[TrialSpec], trials: Sequence[TrialSummary]) -> tuple[TrialReplication, ...]:
    """Return each published ratio of two trials once, even where nothing can be set beside it."""
    groups: dict[str, list[TrialSummary]] = {}
    for trial in trials:
        if not trial.incomplete:
            groups.setdefault(trial.group or trial.name, []).append(trial)
    found = [
        _replication(spec, published, published.over_trial, groups)
        for spec in specs
        if traits_of(spec.plan.experiment).windows
        for published in spec.offered.published
        if published.over_trial is not None and published.metric not in DAG_METRICS
    ]
    return tuple({each.model_dump_json(): each for each in found}.values())


def _replication(spec: TrialSpec, published: Published, over_trial: str, groups: Groups) -> TrialReplication:
    trial = spec.group or spec.name
    phase, window = next(
        (phase.name, each.name)
        for phase in spec.offered.phases
        for each in phase.all_windows()
        if published.window in {None, each.name}
    )
    over, over_metric = published.over or window, published.over_metric or published.metric
    sides = (trial, window, published.metric), (over_trial, over, over_metric)
    ours = _ratio(sides, groups, after_ack=False)
    after_ack = _ratio(sides, groups, after_ack=True) if measure_of(spec.plan.experiment).arrives else None
    return TrialReplication.of(
        published,
        ours,
        after_ack,
        window=window,
        phase=phase,
        over=f"{over_metric} of {over_trial}{'' if over == window else f', {over}'}",
        trial=trial,
        over_trial=over_trial,
        emulated=tuple(name for name in (trial, over_trial) if any(run.emulated for run in groups.get(name, ()))),
    )


def _ratio(sides: tuple[tuple[str, str, str], tuple[str, str, str]], groups: Groups, *, after_ack: bool) -> Estimate:
    if missing := [name for name, _, _ in sides if name not in groups]:
        return Estimate(value=None, reason=f"no trial {' and '.join(missing)} of this run went through whole")
    above, below = (list(_quantiles(groups[name], *of, after_ack=after_ack)) for name, *of in sides)
    if not above or not below:
        return Estimate(value=None, reason="not measured in both trials")
    return ratio(above, below)


def _quantiles(runs: Sequence[TrialSummary], window: str, metric: str, *, after_ack: bool) -> Iterator[Estimate]:
    """Yield each run's quantile in the window of that name, or in its only one."""
    for run in runs:
        found = _window(run, window)
        latency = (found.after_ack_ms if after_ack else found.latency_ms) if found else None
        if latency is not None:
            yield getattr(latency, metric)


def _window(run: TrialSummary, name: str) -> WindowResult | None:
    named = [window for window in run.windows if window.name == name or len(run.windows) == 1]
    return named[0] if named else None
