"""Numbers of a run that has ended, as metrics of CloudWatch: by plan, trial and window."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stepbench.observability import FAILED, LOST, P50, P99, PLAN, TRIAL, TRIAL_USD, WINDOW, logger, put_result

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.result import RunSummary, TrialSummary
    from stepbench.settings import Settings

MOST_METRICS = 100
"""Of a run: CloudWatch bills each by the month, and its dashboards and alarms are about few."""


class ResultMetric(NamedTuple):
    """A number, and what it is about beside stack and plan."""

    name: str
    value: float
    dimensions: dict[str, str]


def put_results(summary: RunSummary, settings: Settings) -> None:
    """Write the metrics of a run, the first `MOST_METRICS` by the order of its trials; log how many are left out."""
    found = list(result_metrics(summary))
    for metric in found[:MOST_METRICS]:
        put_result(metric.name, metric.value, settings, **{PLAN: summary.plan, **metric.dimensions})
    if len(found) > MOST_METRICS:
        logger.warning("metrics left out", extra={"run_id": summary.run_id, "left_out": len(found) - MOST_METRICS})


def result_metrics(summary: RunSummary) -> Iterator[ResultMetric]:
    """Yield the metrics of each trial that went through whole: of one that did not, a number would mislead an alarm."""
    for trial in summary.trials:
        if not trial.incomplete:
            yield from _of_trial(trial)


def _of_trial(trial: TrialSummary) -> Iterator[ResultMetric]:
    whose = {TRIAL: trial.name}
    for window in trial.windows:
        for name, estimate in ((P50, window.latency_ms.p50), (P99, window.latency_ms.p99)):
            if estimate.value is not None:
                yield ResultMetric(name, estimate.value, {**whose, WINDOW: window.name})
    if trial.accounting is not None:
        yield ResultMetric(LOST, trial.accounting.lost, whose)
        yield ResultMetric(FAILED, trial.accounting.failed + trial.accounting.unknown, whose)
    if trial.cost_usd.actual is not None:
        yield ResultMetric(TRIAL_USD, trial.cost_usd.actual, whose)
