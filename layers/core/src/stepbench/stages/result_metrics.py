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


def _latencies(trial: TrialSummary) -> Iterator[tuple[str, str, float | None]]:
    """Yield name, window and milliseconds; a trial of transfers has cells (`lambda-efs-100`, MiB) for windows."""
    for window in trial.windows:
        yield P50, window.name, window.latency_ms.p50.value
        yield P99, window.name, window.latency_ms.p99.value
    for cell in trial.transfers.cells if trial.transfers else ():
        name = f"{cell.platform}-{cell.source}-{cell.file_size_mib}"
        for metric, estimate in ((P50, cell.p50_s), (P99, cell.p99_s)):
            yield metric, name, None if estimate.value is None else estimate.value * 1_000


def _of_trial(trial: TrialSummary) -> Iterator[ResultMetric]:
    whose = {TRIAL: trial.name}
    for name, window, ms in _latencies(trial):
        if ms is not None:
            yield ResultMetric(name, ms, {**whose, WINDOW: window})
    if trial.accounting is not None:
        yield ResultMetric(LOST, trial.accounting.lost, whose)
        yield ResultMetric(FAILED, trial.accounting.failed + trial.accounting.unknown, whose)
    if trial.cost_usd.actual is not None:
        yield ResultMetric(TRIAL_USD, trial.cost_usd.actual, whose)
