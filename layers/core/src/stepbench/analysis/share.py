"""The share of trigger latency in an application's time (Fig. 2 of the TriggerPerf paper)."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from stepbench.contracts.across_trials import TriggerShare
from stepbench.contracts.measures import Estimate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from stepbench.contracts.plan import Application
    from stepbench.contracts.result import TrialSummary

MEASURED = "measured"


class TrialMedian(NamedTuple):
    """It holds a trial's median trigger latency in its first measured window, in ms."""

    trial: str
    median: Estimate


def trigger_shares(
    applications: Iterable[Application], trials: Sequence[TrialSummary], listed: Sequence[str] = ()
) -> Iterator[TriggerShare]:
    """
    Pair each application with each trial's store as its `measured` trigger; once, if it names all its stores.

    Args:
        applications: of the plan.
        trials: of the run, in the order of execution.
        listed: names of groups (of trials, where nothing is repeated) in the order of the plan. A store that is named
            is represented by the first trial there that measured it.
    """
    stores: dict[str, TrialMedian] = {}
    for trial in sorted(trials, key=lambda trial: _place(trial, listed)):
        known, found = stores.get(trial.store), _measured(trial)
        if known is None or (known.median.value is None and found.median.value is not None):
            stores[trial.store] = found
    for application in applications:
        if any(function.trigger == MEASURED for function in application.functions):
            for trial in trials:
                # The same trial is the same estimate, under either name.
                own = next((each for each in stores.values() if each.trial == trial.name), _measured(trial))
                yield share(application, {**stores, MEASURED: own}, trial.name)
        else:
            yield share(application, stores, "")


def share(application: Application, stores: Mapping[str, TrialMedian], trial: str) -> TriggerShare:
    """
    Return trigger latency over execution time, with every trigger at its median.

    Args:
        application: the chain.
        stores: by store, and the one in question under `measured`.
        trial: whose latency stands behind `measured`; empty for none.
    """
    compute_ms = sum(function.duration_ms or 0 for function in application.functions)
    triggers = [function.trigger for function in application.functions if function.trigger is not None]
    trigger_ms = _total(triggers, stores)
    return TriggerShare(
        application=application.name,
        source=application.source,
        trial=trial,
        trials=tuple(dict.fromkeys(stores[name].trial for name in triggers if name in stores)),
        triggers=len(triggers),
        compute_ms=compute_ms,
        trigger_ms=trigger_ms,
        share=_share(trigger_ms, compute_ms),
    )


def _place(trial: TrialSummary, listed: Sequence[str]) -> int:
    name = trial.group or trial.name
    return listed.index(name) if name in listed else len(listed)


def _measured(trial: TrialSummary) -> TrialMedian:
    if not trial.windows:
        return TrialMedian(trial.name, Estimate(value=None, reason="nothing was measured"))
    if trial.incomplete:
        return TrialMedian(trial.name, Estimate(value=None, reason="the trial is incomplete"))
    return TrialMedian(trial.name, trial.windows[0].latency_ms.p50)


def _total(triggers: Sequence[str], stores: Mapping[str, TrialMedian]) -> Estimate:
    """
    Sum all triggers' medians. Those of one trial are one estimate, and err together.

    Source:
        Zou & Donner (2008), Statistics in Medicine 27(10), 1693-1702: limits of a sum of independent estimates
        from each one's own limits (MOVER).
    """
    times: Counter[TrialMedian] = Counter()
    for name in triggers:
        if name not in stores:
            return Estimate(value=None, reason=f"no trial measured {name}")
        times[stores[name]] += 1
    return _sum(times)


def _sum(medians: Mapping[TrialMedian, int]) -> Estimate:
    value, below, above, lacking = 0.0, 0.0, 0.0, ""
    for (trial, median), times in medians.items():
        if median.value is None:
            return Estimate(value=None, reason=f"{trial}: {median.reason}")
        value += times * median.value
        if median.low is None or median.high is None:
            lacking = lacking or f"{trial}: {median.reason}"
            continue
        below += (times * (median.value - median.low)) ** 2
        above += (times * (median.high - median.value)) ** 2
    if lacking:
        return Estimate(value=value, reason=lacking)
    return Estimate(value=value, low=value - math.sqrt(below), high=value + math.sqrt(above))


def _share(trigger_ms: Estimate, compute_ms: float) -> Estimate:
    """Return the share with its limits, which follow from the latency's, since it grows with the latency."""
    low, value, high = (
        None if ms is None else ms / (ms + compute_ms) for ms in (trigger_ms.low, trigger_ms.value, trigger_ms.high)
    )
    return Estimate(value=value, low=low, high=high, reason=trigger_ms.reason)
