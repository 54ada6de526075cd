"""
The measure that a run is judged by (`judge`): of a window, of several runs together, and of one side against another.

Nothing else decides which number an answer begins with. In plain Python, since the report's function starts without
NumPy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench import digits
from stepbench.analysis.effects import NO_LIMIT, ONE_RATE, Runs, compare_shares, exact_effect, quantile_effect, share
from stepbench.analysis.thresholds import latency_of, of_latency
from stepbench.contracts.across_trials import Effect
from stepbench.contracts.experiment import QUANTILES
from stepbench.contracts.measures import Estimate
from stepbench.contracts.thresholds import (
    COST,
    FAILED_IN_HANDLER,
    OF_KINDS,
    PER_DOLLAR,
    SHARED,
    THROUGHPUT,
    Judge,
)
from stepbench.stats.over_runs import MIN_RUNS, mean_over_runs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.contracts.cost import Part
    from stepbench.contracts.measures import KindName, WindowResult
    from stepbench.contracts.result import TrialSummary
    from stepbench.contracts.thresholds import Shared

MEDIAN = Judge(statistic="p50")
"""What figures of settings show of a run that is judged by nothing."""
ONE_COST = "a cost has an interval over three runs or more"
NOT_MEASURED = "not measured"
WHOLE_TRIALS = "known of whole trials alone"
_MILLION = 1_000_000
_BY_RUNS = {NO_LIMIT, ONE_RATE, ONE_COST}
_OVER_RUNS = f"{MIN_RUNS} runs of it (repeats) have one"


def judge_of_kind(judge: Judge | None, kind: KindName | None) -> Judge | None:
    """Return what a comparison is judged by; None of one kind of operation, where that is known of all together."""
    return judge if kind is None or (judge is not None and judge.measure in OF_KINDS) else None


def judged_over_runs(judge: Judge, runs: Sequence[tuple[TrialSummary, WindowResult]]) -> Estimate:
    """Return the measure in one window of a trial's runs, one at least: their geometric mean, of shares the sum's."""
    windows = [window for _, window in runs]
    if (shared := _shared(judge)) is not None:
        return _nothing(NOT_MEASURED) if _is_unknown(shared, windows) else share(shared, Runs(windows))
    found = runs_judged(judge, Runs(windows, None, [cost_per_million(trial) for trial, _ in runs]))
    return mean_over_runs(found) if judge.statistic in QUANTILES and len(found) > 1 else mean_of_exact(found)


def mean_of_exact(runs: Sequence[Estimate]) -> Estimate:
    """Return the mean of what has no error of its own in a run, with how far runs lie apart; of one run that run's."""
    if len(runs) == 1:
        return runs[0]
    return mean_over_runs([each.model_copy(update={"low": each.value, "high": each.value}) for each in runs])


def cost_per_million(trial: TrialSummary, parts: Sequence[Part] = ("store", "trigger")) -> Estimate:
    """Return the dollars of some parts of the bill for a million events that the trial sent, warm-up included."""
    cost, accounts = trial.cost_usd, [each for each in (trial.accounting, trial.warm_up) if each is not None]
    sent = sum(each.sent for each in accounts)
    if cost.actual is None or not sent:
        return _nothing("nothing was counted")
    if missing := set(parts) & set(cost.incomplete):
        return _nothing(f"not all of {digits.listed(sorted(missing))} is known")
    return Estimate(value=cost.of(*parts) / sent * _MILLION, reason=ONE_COST)


def put_first(judge: Judge | None, effects: Sequence[Effect], b: Runs, a: Runs, *, paired: bool) -> tuple[Effect, ...]:
    """
    Return the effect on the measure first, the others after it; without a measure as they are.

    Args:
        judge: the measure.
        effects: of b against a.
        b: the side that is judged.
        a: what it is set against.
        paired: they are two windows of the same runs.
    """
    if judge is None:
        return tuple(effects)
    return _effect(judge, b, a, paired=paired), *(each for each in effects if each.measure != judge.name)


def shown(judge: Judge, estimate: Estimate) -> digits.Shown:
    """Format the measure in its unit."""
    return digits.shown(estimate, unit_of(judge.statistic))


def unit_of(measure: str) -> digits.Unit | None:
    """Return the unit of what an effect or a judge names; None for the fitting unit of time."""
    if measure in SHARED:
        return digits.PER_CENT
    units = {THROUGHPUT: digits.PER_S, COST: digits.USD_PER_MILLION, PER_DOLLAR: digits.PER_S_AND_USD}
    return units.get(measure)


def describe(judge: Judge, estimate: Estimate) -> str:
    """Return the measure as an answer begins with it; where it has no interval, with the run that would decide it."""
    found = shown(judge, estimate)
    if not found.value:
        return f"{judge.name}: {found.note}"
    if not found.note:
        return f"{judge.name} {found.in_sentence()}"
    value = digits.Shown(f"{digits.UNSURE}{found.value}", found.unit, "", "").in_sentence()
    return f"{judge.name} {value} (no interval: {what_decides(found.note)})"


def first_sentence(judge: Judge | None, runs: Sequence[tuple[TrialSummary, WindowResult]]) -> str:
    """
    Return the sentence that an answer on a window of some runs begins with, and a blank.

    Nothing without a measure, or of the median of latency, with which all answers begin.
    """
    if judge is None or judge.name == "p50":
        return ""
    said = describe(judge, judged_over_runs(judge, runs))
    return f"{said if said.startswith('p') else said[:1].upper() + said[1:]}. "


def what_decides(reason: str) -> str:
    """Return which run would have an interval, or what hinders it."""
    times = digits.times_longer(reason)
    if times is not None:
        return f"a run {digits.longer(times)} decides it"
    return _OVER_RUNS if reason in _BY_RUNS or reason.endswith(f" of {MIN_RUNS} runs") else reason


def _shared(judge: Judge) -> Shared | None:
    return next((each for each in SHARED if each == judge.statistic), None)


def _is_unknown(shared: Shared, windows: Sequence[WindowResult]) -> bool:
    """Return whether nothing is counted of it: operations are not delivered, and not all have a function of theirs."""
    if shared == FAILED_IN_HANDLER:
        return not all(window.handler for window in windows)
    return shared == "lost" and any(window.operations for window in windows)


def _nothing(reason: str) -> Estimate:
    return Estimate(value=None, reason=reason)


def runs_judged(judge: Judge, runs: Runs) -> list[Estimate]:
    """Return each run's estimate of what is no share; none where the runs' costs are not known apart."""
    match judge.statistic:
        case "cost":
            return list(runs.costs)
        case "throughput":
            return [Estimate(value=window.throughput_per_s, reason=ONE_RATE) for window in runs.windows]
        case statistic:
            return [_of_window(judge, window, runs, statistic) for window in runs.windows]


def _of_window(judge: Judge, window: WindowResult, runs: Runs, statistic: str) -> Estimate:
    latency = latency_of(judge.time, window, window.of_kind(runs.kind))
    if latency is None:
        return _nothing(NOT_MEASURED)
    if statistic in QUANTILES:
        found: Estimate = getattr(latency, statistic)
        return found
    largest = of_latency(latency, statistic)
    return largest if largest.reason else largest.model_copy(update={"reason": NO_LIMIT})


def _effect(judge: Judge, b: Runs, a: Runs, *, paired: bool) -> Effect:
    if (shared := _shared(judge)) is not None:
        if _is_unknown(shared, (*b.windows, *a.windows)):
            nothing = _nothing(NOT_MEASURED)
            return Effect(measure=shared, a=nothing, b=nothing, difference=nothing, finding="unknown")
        return compare_shares(shared, b, a)
    sides = runs_judged(judge, b), runs_judged(judge, a)
    if not all(sides):
        nothing = _nothing(WHOLE_TRIALS)
        return Effect(measure=judge.name, a=nothing, b=nothing, ratio=nothing, finding="unknown")
    if judge.statistic in QUANTILES:
        return quantile_effect(judge.name, *sides, paired=paired)
    why = next((each.reason for side in sides for each in side if each.reason), "")
    return exact_effect(judge.name, *sides, why, paired=paired)
