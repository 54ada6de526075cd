"""
Whether a run kept to its plan's thresholds.

A quantile is decided by all that is known of it: its 95 % interval, or an end of one, and the ends of lower and higher
quantiles of the same time, which it cannot be below or above. It is undecidable where the limit lies between them.
A count, a rate and a maximum are what they are in this run, and have no interval.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, NamedTuple

from stepbench import digits
from stepbench.analysis.slow_spells import UNDECIDED, largest_certain, may_make, spells_of, without_spells
from stepbench.contracts.experiment import QUANTILES, traits_of
from stepbench.contracts.measures import Estimate
from stepbench.contracts.thresholds import TO_PROCESSED, ThresholdResult
from stepbench.contracts.transfer.plan import TRANSFERS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.measures import KindResult, Latency, WindowResult
    from stepbench.contracts.result import Accounting, TrialSummary
    from stepbench.contracts.thresholds import Threshold, Time

NOTHING_SENT = "nothing was sent"
NOTHING_DUE = "nothing was due"
NOTHING_ACKNOWLEDGED = "nothing was acknowledged"
NOTHING_ARRIVED = "nothing arrived"
NOTHING_MEASURED = "nothing was measured"
NO_WINDOW = "nothing that it is about was measured"
NOT_COUNTED = "not counted by window in this version's records"
WITHIN = "the limit lies within the interval"
_BEYOND = "> drain limit"
_LOWER = frozenset({">", ">="})
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
    """Decide by the ends that are known of an interval, where there should be one, otherwise by the value."""
    value, low, high, reason = estimate.value, estimate.low, estimate.high, estimate.reason
    if value is None:
        beyond = (reason or "").startswith(_BEYOND)
        if beyond and threshold.comparison not in _LOWER:
            return Decision("failed", reason)
        holds = beyond and low is not None and threshold.holds(low)
        return Decision("passed" if holds else "undecidable", reason)
    if low is None and high is None and reason is None:
        low = high = value
    kept = {threshold.holds(-math.inf if low is None else low), threshold.holds(math.inf if high is None else high)}
    if len(kept) == 1:
        return Decision("passed" if True in kept else "failed")
    if reason or low is None or high is None:
        return Decision("undecidable", reason, digits.times_longer(reason or ""))
    return Decision("undecidable", WITHIN, _guess_times_longer(value, low, high, threshold.limit))


def _spare(
    decision: Decision, threshold: Threshold, estimate: Estimate, trial: TrialSummary, place: tuple[str, str]
) -> Decision:
    """Leave undecided what slow spells of the machine may have decided alone: not a lower quantile decides it, too."""
    found = spells_of(trial, *place)
    if found is None or decision.state == "undecidable" or not may_make(found, threshold.statistic):
        return decision
    if decide(threshold, without_spells(found, threshold.statistic, estimate)).state == decision.state:
        return decision
    lower = largest_certain(found, threshold.statistic)
    if lower is not None:
        about = threshold.model_copy(update={"statistic": lower})
        states = [decide(about, each).state for phase, name, each in _estimates(about, trial) if (phase, name) == place]
        if decision.state in states:
            return decision
    return Decision("undecidable", UNDECIDED)


def _has_ended(threshold: Threshold, trial: TrialSummary, place: tuple[str, str]) -> bool:
    """Return whether a phase was ended because the threshold could not be kept in this window any more."""
    return any((each.threshold, each.phase, each.window) == (threshold.text, *place) for each in trial.stopped)


def _guess_times_longer(value: float, low: float, high: float, limit: float) -> float | None:
    """Return how much longer it takes until the limit leaves the interval: its width falls with the root of n."""
    reach, gap = (high - value, limit - value) if value < limit else (value - low, value - limit)
    times = (reach / gap) ** 2 if gap > 0 else math.inf
    return times if times <= digits.MOST_TIMES_LONGER else None


def _judge_one(threshold: Threshold, trials: Sequence[TrialSummary]) -> list[ThresholdResult]:
    found = sorted(_in_windows(threshold, trials), key=lambda result: _rank(threshold, result))
    nowhere = ThresholdResult(
        threshold=threshold.text, state="undecidable", limit=threshold.limit, unit=threshold.quantity, reason=NO_WINDOW
    )
    return found or [nowhere]


def _rank(threshold: Threshold, result: ThresholdResult) -> tuple[int, float]:
    """Rank missed ones before the others, and each by how near to or far beyond the limit it is."""
    value = math.inf if result.value is None else result.value
    return _STATES.index(result.state), value if threshold.comparison in _LOWER else -value


def _in_windows(threshold: Threshold, trials: Sequence[TrialSummary]) -> Iterator[ThresholdResult]:
    for trial in trials:
        for phase, name, estimate in _estimates(threshold, trial):
            if threshold.window in {None, name}:
                decision = _spare(decide(threshold, estimate), threshold, estimate, trial, (phase, name))
                if _has_ended(threshold, trial, (phase, name)):
                    decision = Decision("failed")
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
        if (estimate := _estimate(threshold, window, completes=traits_of(trial.experiment).completes)) is not None:
            yield window.phase, window.name, estimate
    if trial.transfers is not None and trial.accounting is not None:
        if threshold.statistic == "errors":
            yield TRANSFERS, TRANSFERS, _errors(threshold, trial.accounting)
        if threshold.statistic == "unsent":
            yield TRANSFERS, TRANSFERS, _unsent(threshold, trial.accounting)


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
        case "unsent":
            return _unsent(threshold, window)
        case "throughput":
            return _throughput(threshold, window)
        case "lost" | "duplicates" | "failed_in_handler":
            return _arrivals(threshold, window)
        case statistic:
            latency = latency_of(threshold.time, window, kind)
            return None if latency is None else of_latency(latency, statistic)


def _errors(threshold: Threshold, counts: Accounting | KindResult | WindowResult, incomplete: int = 0) -> Estimate:
    return _counted(threshold, counts.failed + counts.unknown + incomplete, counts.sent, NOTHING_SENT)


def _unsent(threshold: Threshold, counts: Accounting | WindowResult) -> Estimate:
    """Return how many events that were due were not sent, or which share."""
    return _counted(threshold, counts.unsent, counts.sent + counts.unsent, NOTHING_DUE)


def _counted(threshold: Threshold, count: int, of: int, nothing: str) -> Estimate:
    if of == 0:
        return Estimate(value=None, reason=nothing)
    return Estimate(value=count / of if threshold.quantity == "share" else count)


def _throughput(threshold: Threshold, window: WindowResult) -> Estimate:
    """Return the rate; none without a request, and no low one, as if it had kept to that, without an answer."""
    if window.sent == 0:
        return Estimate(value=None, reason=NOTHING_SENT)
    if window.throughput_per_s == 0 and threshold.holds(0):
        return Estimate(value=None, reason=NOTHING_ACKNOWLEDGED)
    return Estimate(value=window.throughput_per_s)


def _arrivals(threshold: Threshold, window: WindowResult) -> Estimate | None:
    """
    Return how many events of a trigger were lost, or arrived again, or which share of the acknowledged ones.

    Likewise of those that arrived, how many a measured function has not processed; None where there is no such window.
    """
    if threshold.statistic == "failed_in_handler" and (found := window.handler) is not None:
        return _counted(threshold, found.failed_in_handler, found.arrived, NOTHING_ARRIVED)
    if window.operations is not None or threshold.statistic == "failed_in_handler":
        return None
    count = window.lost if threshold.statistic == "lost" else window.duplicates
    if count is None:
        return Estimate(value=None, reason=NOT_COUNTED)
    if window.n == 0 and (count == 0 or threshold.quantity == "share"):
        return Estimate(value=None, reason=NOTHING_ACKNOWLEDGED)
    return Estimate(value=count / window.n if threshold.quantity == "share" else count)


def latency_of(time: Time, window: WindowResult, kind: KindResult | None) -> Latency | None:
    """Return what a window, or a kind of operation in it, has of a time; None where it has nothing of it."""
    if kind is not None:
        return {"latency": kind.service_ms, "service": kind.service_ms, "response": kind.response_ms}.get(time)
    of_trigger = window.operations is None
    times: dict[Time, Latency | None] = {
        "latency": window.latency_ms,
        "response": window.response_trigger_ms if of_trigger else window.response_write_ms,
        "service": window.service_ms,
        "after_ack": window.after_ack_ms,
        "write_response": window.response_write_ms if of_trigger else None,
        "lateness": window.lateness_ms,
        TO_PROCESSED: window.handler.to_processed_ms if window.handler else None,
        "handler": window.handler.handler_ms if window.handler else None,
    }
    return times[time]


def of_latency(latency: Latency, statistic: str) -> Estimate:
    """Return a quantile, or the largest value: of events that never arrived it lies beyond the drain limit."""
    if statistic in QUANTILES:
        return _with_all_ends(latency, statistic)
    if latency.missing:
        reason = f"{_BEYOND}: {digits.count(latency.missing)} never arrived"
        return Estimate(value=None, low=latency.max, reason=reason)
    if latency.p50.fell_behind:
        return Estimate(value=latency.max, low=latency.max, reason=latency.p50.reason)
    return Estimate(value=latency.max, reason=None if latency.max is not None else NOTHING_MEASURED)


def _with_all_ends(latency: Latency, name: str) -> Estimate:
    """Return a quantile that lies above the lower ends of all up to it, and below the upper ends of all from it on."""
    estimates: dict[str, Estimate] = {each: getattr(latency, each) for each in QUANTILES}
    own, names = estimates[name], list(QUANTILES)
    place = names.index(name)
    lows = [latency.at_least.get(each, estimates[each].low) for each in names[: place + 1]]
    highs = [estimates[each].high for each in names[place:]]
    low = max((each for each in lows if each is not None), default=None)
    high = min((each for each in highs if each is not None), default=None)
    return own if own.value is None else own.model_copy(update={"low": low, "high": high})
