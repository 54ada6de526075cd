"""
Whether a run kept to its plan's thresholds.

A measured quantity is decided by its 95 % interval, and undecidable where the limit lies in it, or where it has none.
A count, a rate and a maximum are what they are in this run, and have none.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, NamedTuple

from stepbench import digits
from stepbench.analysis.slow_spells import UNDECIDED, largest_beyond_doubt, may_make, spells_of, without_spells
from stepbench.contracts.measures import Estimate
from stepbench.contracts.threshold.result import ThresholdResult
from stepbench.contracts.transfer import TRANSFERS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.measures import KindResult, Latency, WindowResult
    from stepbench.contracts.result import Accounting, TrialSummary
    from stepbench.contracts.threshold.words import Threshold, Time

NOTHING_SENT = "nothing was sent"
NOTHING_MEASURED = "nothing was measured"
NO_WINDOW = "nothing that it is about was measured"
NOT_COUNTED = "not counted by window in this version's records"
WITHIN = "the limit lies within the interval"
MOST_TIMES_LONGER = 100
"""Beyond it, a run is not longer but another one, and the guess no better than its interval."""
_BEYOND = "> drain limit"
_STATES = ("failed", "undecidable", "passed")


class Decision(NamedTuple):
    """What became of a threshold, why if it is undecidable, and what it would take then."""

    state: Literal["passed", "failed", "undecidable"]
    reason: str | None = None
    times_longer: float | None = None


def judge(thresholds: Sequence[Threshold], trials: Sequence[TrialSummary]) -> tuple[ThresholdResult, ...]:
    """
    Return what became of each threshold in each measured window, as `RunSummary.thresholds` orders them.

    Neither unmeasured phases nor the probes of `find_rate` are among the windows. A threshold that is about none that
    was measured has one result, which says so.
    """
    return tuple(result for threshold in thresholds for result in _judge_one(threshold, trials))


def decide(threshold: Threshold, estimate: Estimate) -> Decision:
    """Decide by the interval where there should be one, otherwise by the value."""
    if estimate.value is None:
        beyond = (estimate.reason or "").startswith(_BEYOND)
        return Decision("failed" if beyond else "undecidable", estimate.reason)
    if estimate.low is None and estimate.reason:
        return Decision("undecidable", estimate.reason, digits.times_longer(estimate.reason))
    low = estimate.value if estimate.low is None else estimate.low
    high = estimate.high if estimate.high is not None else math.inf if estimate.low is not None else estimate.value
    kept = {threshold.holds(low), threshold.holds(high)}
    if len(kept) == 1:
        return Decision("passed" if True in kept else "failed")
    if math.isinf(high):
        return Decision("undecidable", estimate.reason)
    return Decision("undecidable", WITHIN, _guess_times_longer(estimate.value, low, high, threshold.limit))


def _spare(
    decision: Decision, threshold: Threshold, estimate: Estimate, trial: TrialSummary, place: tuple[str, str]
) -> Decision:
    """Leave undecided what slow spells of the machine may have decided alone: not a lower quantile decides it, too."""
    found = spells_of(trial, *place)
    if found is None or decision.state == "undecidable" or not may_make(found, threshold.statistic):
        return decision
    if decide(threshold, without_spells(found, threshold.statistic, estimate)).state == decision.state:
        return decision
    lower = largest_beyond_doubt(found, threshold.statistic)
    if lower is not None:
        about = threshold.model_copy(update={"statistic": lower})
        states = [decide(about, each).state for phase, name, each in _estimates(about, trial) if (phase, name) == place]
        if decision.state in states:
            return decision
    return Decision("undecidable", UNDECIDED)


def _guess_times_longer(value: float, low: float, high: float, limit: float) -> float | None:
    """Return how much longer it takes until the limit leaves the interval: its width falls with the root of n."""
    reach, gap = (high - value, limit - value) if value < limit else (value - low, value - limit)
    times = (reach / gap) ** 2 if gap > 0 else math.inf
    return times if times <= MOST_TIMES_LONGER else None


def _judge_one(threshold: Threshold, trials: Sequence[TrialSummary]) -> list[ThresholdResult]:
    found = sorted(_in_windows(threshold, trials), key=lambda result: _rank(threshold, result))
    nowhere = ThresholdResult(
        threshold=threshold.text, state="undecidable", limit=threshold.limit, unit=threshold.quantity, reason=NO_WINDOW
    )
    return found or [nowhere]


def _rank(threshold: Threshold, result: ThresholdResult) -> tuple[int, float]:
    """Rank missed ones before the others, and each by how near to or far beyond the limit it is."""
    value = math.inf if result.value is None else result.value
    return _STATES.index(result.state), value if threshold.comparison in {">", ">="} else -value


def _in_windows(threshold: Threshold, trials: Sequence[TrialSummary]) -> Iterator[ThresholdResult]:
    for trial in trials:
        for phase, name, estimate in _estimates(threshold, trial):
            if threshold.window in {None, name}:
                decision = _spare(decide(threshold, estimate), threshold, estimate, trial, (phase, name))
                yield ThresholdResult(
                    threshold=threshold.text,
                    trial=trial.index,
                    name=trial.name,
                    phase=phase,
                    window=name,
                    **decision._asdict(),
                    limit=threshold.limit,
                    unit=threshold.quantity,
                    value=estimate.value,
                    low=estimate.low,
                    high=estimate.high,
                )


def _estimates(threshold: Threshold, trial: TrialSummary) -> Iterator[tuple[str, str, Estimate]]:
    """Yield phase, name and measure of each window that the threshold is about; a trial of transfers is one window."""
    for window in trial.windows:
        if (estimate := _estimate(threshold, window, completes=trial.experiment == "dataflow")) is not None:
            yield window.phase, window.name, estimate
    if trial.transfers is not None and threshold.statistic == "errors" and trial.accounting is not None:
        yield TRANSFERS, TRANSFERS, _errors(threshold, trial.accounting)


def _estimate(threshold: Threshold, window: WindowResult, *, completes: bool) -> Estimate | None:
    """
    Return what a window has of the measure; None if the threshold is not about such a window.

    Where an event `completes`, as an execution of a DAG does, one that was started and has not is an error.
    """
    kind = window.of_kind(threshold.kind)
    if threshold.kind is not None and kind is None:
        return None
    match threshold.statistic:
        case "errors":
            return _errors(threshold, kind or window, (window.lost or 0) if completes else 0)
        case "throughput":
            return Estimate(value=window.throughput_per_s)
        case "lost" | "duplicates":
            return _arrivals(threshold, window)
        case statistic:
            latency = _latency(threshold, window, kind)
            return None if latency is None else _of_latency(latency, statistic)


def _errors(threshold: Threshold, counts: Accounting | KindResult | WindowResult, incomplete: int = 0) -> Estimate:
    sent = counts.sent
    if sent == 0:
        return Estimate(value=None, reason=NOTHING_SENT)
    errors = counts.failed + counts.unknown + incomplete
    return Estimate(value=errors / sent if threshold.quantity == "share" else errors)


def _arrivals(threshold: Threshold, window: WindowResult) -> Estimate | None:
    """Return how many events of a trigger were lost, or arrived again, or which share of the acknowledged ones."""
    if window.operations is not None:
        return None
    count = window.lost if threshold.statistic == "lost" else window.duplicates
    if count is None:
        return Estimate(value=None, reason=NOT_COUNTED)
    if window.n == 0:
        return Estimate(value=None, reason="nothing was acknowledged")
    return Estimate(value=count / window.n if threshold.quantity == "share" else count)


def _latency(threshold: Threshold, window: WindowResult, kind: KindResult | None) -> Latency | None:
    if kind is not None:
        return kind.response_ms if threshold.time == "response" else kind.service_ms
    of_trigger = window.operations is None
    times: dict[Time, Latency | None] = {
        "latency": window.latency_ms,
        "response": window.response_trigger_ms if of_trigger else window.response_write_ms,
        "service": window.service_ms,
        "after_ack": window.after_ack_ms,
        "write_response": window.response_write_ms if of_trigger else None,
        "lateness": window.lateness_ms,
    }
    return times[threshold.time]


def _of_latency(latency: Latency, statistic: str) -> Estimate:
    """Return a quantile, or the largest value: of events that never arrived it lies beyond the drain limit."""
    if statistic != "max":
        quantile: Estimate = getattr(latency, statistic)
        return quantile
    if latency.missing:
        return Estimate(value=None, reason=f"{_BEYOND}: {digits.count(latency.missing)} never arrived")
    return Estimate(value=latency.max, reason=None if latency.max is not None else NOTHING_MEASURED)
