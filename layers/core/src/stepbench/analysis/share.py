"""The share of trigger latency in an application's time (the paper's Fig. 2). Pure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from stepbench.contracts.result import Estimate, TriggerShare

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from stepbench.contracts.application import Application
    from stepbench.contracts.result import TrialSummary

MEASURED = "measured"


def trigger_shares(applications: Iterable[Application], trials: Sequence[TrialSummary]) -> Iterator[TriggerShare]:
    """
    Each application with each trial's store behind its `measured` triggers; once, if it names all its stores itself.

    A store that is named is represented by the first trial that measured it.
    """
    medians: dict[str, Estimate] = {}
    for trial in trials:
        medians.setdefault(trial.store, _median(trial))
    for application in applications:
        if any(function.trigger == MEASURED for function in application.functions):
            for trial in trials:
                yield share(application, {**medians, MEASURED: _median(trial)}, trial.name)
        else:
            yield share(application, medians, "")


def share(application: Application, medians: Mapping[str, Estimate], trial: str) -> TriggerShare:
    """
    Trigger latency over execution time, with every trigger at its median.

    Args:
        application: the chain.
        medians: trigger latency in ms, by store, and of the store in question under `measured`.
        trial: whose latency stands behind `measured`; empty for none.
    """
    compute_ms = sum(function.duration_ms for function in application.functions)
    stores = [function.trigger for function in application.functions if function.trigger is not None]
    trigger_ms = _total(stores, medians)
    return TriggerShare(
        application=application.name,
        source=application.source,
        trial=trial,
        triggers=len(stores),
        compute_ms=compute_ms,
        trigger_ms=trigger_ms,
        share=_share(trigger_ms, compute_ms),
    )


def _median(trial: TrialSummary) -> Estimate:
    if not trial.windows:
        return Estimate(value=None, reason=f"trial {trial.name} measured nothing")
    return trial.windows[0].latency_ms.p50


def _total(stores: Sequence[str], medians: Mapping[str, Estimate]) -> Estimate:
    """
    The sum of all triggers' medians. Those of one store are one estimate, and err together.

    Source:
        Zou & Donner (2008), Statistics in Medicine 27(10), 1693-1702: limits of a sum of independent estimates
        from each one's own limits (MOVER).
    """
    value, below, above = 0.0, 0.0, 0.0
    for store in dict.fromkeys(stores):
        median, times = medians.get(store), stores.count(store)
        if median is None:
            return Estimate(value=None, reason=f"no trial measured {store}")
        if median.value is None or median.low is None or median.high is None:
            return Estimate(value=None, reason=f"{store}: {median.reason}")
        value += times * median.value
        below += (times * (median.value - median.low)) ** 2
        above += (times * (median.high - median.value)) ** 2
    return Estimate(value=value, low=value - math.sqrt(below), high=value + math.sqrt(above))


def _share(trigger_ms: Estimate, compute_ms: float) -> Estimate:
    """The share grows with the latency, so the limits go along."""
    if trigger_ms.value is None or trigger_ms.low is None or trigger_ms.high is None:
        return Estimate(value=None, reason=trigger_ms.reason)
    low, value, high = (ms / (ms + compute_ms) for ms in (trigger_ms.low, trigger_ms.value, trigger_ms.high))
    return Estimate(value=value, low=low, high=high)
