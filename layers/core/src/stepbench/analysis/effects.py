"""
What one side of a comparison does to latency, throughput, losses and errors, against the other.

Pure, and from summaries alone, in plain Python: the report's function starts without NumPy, and whoever compares two
runs may have no more than their summaries.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from stepbench.contracts.across_trials import Effect, Finding
from stepbench.contracts.measures import Estimate, KindName, Latency, WindowResult
from stepbench.contracts.thresholds import COST, FAILED_IN_HANDLER, PER_DOLLAR, THROUGHPUT
from stepbench.digits import MOST_TIMES_LONGER, TIMES, times_longer
from stepbench.stats.over_runs import (
    MIN_RUNS,
    mean_over_runs,
    paired_ratio,
    ratio,
    runs_to_show,
    share_difference,
    share_interval,
    times_longer_to_show,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.contracts.thresholds import Shared

OF_INTEREST = 1.1
"""
The smallest difference of interest, as a ratio: 10 %. What is surely less is called the same.

Of single runs nothing smaller is called a difference: runs of one setting may well lie a few per cent apart, and how
far they do shows from `MIN_RUNS` on. (`benchmarks/verdicts.py`: where runs differ by 3 %, four of ten verdicts on
single runs of equal settings would be wrong otherwise.)
"""
OF_INTEREST_WORDS = f"{100 * (OF_INTEREST - 1):.0f} %"
COMPARED_QUANTILES: tuple[str, ...] = ("p50", "p90", "p99")
NO_LIMIT = "the largest value of a run has no interval"
ONE_RATE = "throughput has an interval over three runs or more"
_AT_LEAST = 1.05
"""A run a twentieth longer is no advice."""
_MOST_RUNS = 30
"""Nobody makes more runs of one setting; what hinders it is the better advice, as of runs that are far longer."""
_RUNS_DIFFER = (
    f"runs differ too much: {_MOST_RUNS} of each would not show {OF_INTEREST_WORDS}; a quieter machine, or both sides "
    "in turns (order: interleaved), may"
)
_EVENTS_DIFFER = (
    f"events vary too much: a run {MOST_TIMES_LONGER:.0f} {TIMES.name} longer would not show {OF_INTEREST_WORDS}, as "
    f"they are few or resemble their neighbours; {MIN_RUNS} runs of each, or more events a second, may"
)


class Runs(NamedTuple):
    """
    The runs of one side in one window; `kind` is that of the operations which are compared, None for all.

    costs: of each run's whole trial; none where two windows of one trial are compared.
    """

    windows: Sequence[WindowResult]
    kind: KindName | None = None
    costs: Sequence[Estimate] = ()

    def latencies(self) -> list[Latency]:
        """Return each run's latency: of a kind of operation its service time."""
        if self.kind is None:
            return [window.latency_ms for window in self.windows]
        return [found.service_ms for window in self.windows if (found := window.of_kind(self.kind)) is not None]

    def quantile(self, name: str) -> list[Estimate]:
        """Return each run's estimate of a quantile."""
        return [getattr(latency, name) for latency in self.latencies()]


def compare_runs(b: Runs, a: Runs, *, paired: bool = False) -> tuple[Effect, ...]:
    """
    Return the effects on p50, p90, p99 and the maximum, and on throughput in closed loop.

    Of a measured function there is that on events that it has not processed, too: one that gives up early is fast.

    Args:
        b: the side that is judged.
        a: what it is set against.
        paired: they are two windows of the same runs, in one order.
    """
    effects = [quantile_effect(name, b.quantile(name), a.quantile(name), paired=paired) for name in COMPARED_QUANTILES]
    effects.append(_max_effect(b, a))
    if b.kind is None and closed_loop(b.windows) and closed_loop(a.windows):
        effects.append(_throughput_effect(b, a, paired=paired))
    if b.kind is None and all(window.handler for window in (*b.windows, *a.windows)):
        effects.append(compare_shares(FAILED_IN_HANDLER, b, a))
    return tuple(effects)


def compare_shares(measure: Shared, b: Runs, a: Runs) -> Effect:
    """
    Return the effect on the share of lost events, of failed and unknown outcomes, or of events not processed.

    All runs are taken together.

    Where events waited ever longer nothing is found of what is lost: more of them are given up the longer that goes
    on. What a function has failed at it has been given.
    """
    shares = [share(measure, side) for side in (a, b)]
    difference = share_difference(shares[1], shares[0])
    behind = any(window.kept_up_per_s is not None for side in (a, b) for window in side.windows)
    finding = "unknown" if behind and measure != FAILED_IN_HANDLER else _find(difference, 0, None)
    return Effect(measure=measure, a=shares[0], b=shares[1], difference=difference, finding=finding)


def share(measure: Shared, side: Runs) -> Estimate:
    """Return the share of one side, all runs together."""
    return share_interval(*_count(measure, side))


def undecided_effects(effects: Sequence[Effect], why: str) -> tuple[Effect, ...]:
    """Return what both sides have, without ratio and finding, since they are not alike."""
    return tuple(
        effect.model_copy(
            update={
                "ratio": None if effect.ratio is None else Estimate(value=None, reason=why),
                "difference": None if effect.difference is None else Estimate(value=None, reason=why),
                "finding": "unknown",
                "to_decide": "",
            }
        )
        for effect in effects
    )


def finding_of(found: Estimate, *, over_runs: bool) -> Finding:
    """Return what a ratio's interval shows; `over_runs`: it speaks of further runs, too, or of two windows of one."""
    finding = _find(found, 1, OF_INTEREST)
    if over_runs or found.low is None or found.high is None:
        return finding
    near = found.low <= OF_INTEREST if finding == "higher" else found.high >= 1 / OF_INTEREST
    return "undecided" if finding in {"lower", "higher"} and near else finding


def has_regressed(effect: Effect, tolerance: float) -> bool | None:
    """Return whether an effect is for the worse, beyond the tolerance; maximum and cost of few runs show nothing."""
    if effect.finding == "unknown" and effect.measure.rpartition(" ")[2] in {"max", COST}:
        return None
    if effect.ratio is None or (effect.ratio.value is None and effect.finding == "higher"):
        return effect.finding == "higher"
    if effect.ratio.value is None:
        return None
    return is_worse(effect.ratio, effect.finding, tolerance, lower_is_worse=effect.measure in {THROUGHPUT, PER_DOLLAR})


def is_worse(ratio: Estimate, finding: Finding, tolerance: float, *, lower_is_worse: bool) -> bool:
    """Return whether a ratio is shown to be on the wrong side of 1, by more than the tolerance."""
    value = ratio.value or 1.0
    if lower_is_worse:
        return finding == "lower" and value < 1 - tolerance
    return finding == "higher" and value > 1 + tolerance


def quantile_effect(name: str, b: list[Estimate], a: list[Estimate], *, paired: bool) -> Effect:
    """Return the effect on a quantile, of which each run has an estimate."""
    found = paired_ratio(b, a) if paired else ratio(b, a)
    if found.low is None:
        found = found.model_copy(update={"reason": _worst_reason([*a, *b]) or found.reason})
    finding = _finding_beyond(b, a) or finding_of(found, over_runs=paired or min(len(b), len(a)) >= MIN_RUNS)
    to_decide = _to_decide(found, b, a, paired=paired) if finding == "undecided" else ""
    return Effect(measure=name, a=_side_value(a), b=_side_value(b), ratio=found, finding=finding, to_decide=to_decide)


def _finding_beyond(b: Sequence[Estimate], a: Sequence[Estimate]) -> Finding | None:
    """
    Return the finding where one side lies beyond the drain limit: surely above all that the other side may be.

    None where a run fell behind, which decides nothing.
    """
    if any(run.fell_behind for run in (*b, *a)):
        return None
    if _lies_beyond(b, a):
        return "higher"
    return "lower" if _lies_beyond(a, b) else None


def _lies_beyond(above: Sequence[Estimate], below: Sequence[Estimate]) -> bool:
    """Return whether a run of one side has no value, and the lower limits of all its runs exceed the other's upper."""
    lows = [each.low for each in above if each.low is not None]
    highs = [each.high for each in below if each.high is not None]
    all_known = len(lows) == len(above) and 0 < len(highs) == len(below)
    return all_known and any(each.value is None for each in above) and min(lows) > max(highs)


def _worst_reason(runs: Sequence[Estimate]) -> str:
    """Return why a run has no interval: it fell behind, or of those too short, the one that had to be longest."""
    reasons = [run.reason for run in runs if run.low is None and run.reason]
    reasons = [run.reason for run in runs if run.fell_behind and run.reason] or reasons
    return max(reasons, key=lambda reason: times_longer(reason) or math.inf, default="")


def _max_effect(b: Runs, a: Runs) -> Effect:
    tops = [max((each.max for each in side.latencies() if each.max is not None), default=None) for side in (a, b)]
    over = tops[1] / tops[0] if tops[0] and tops[1] and tops[0] > 0 else None
    values = [Estimate(value=each, reason=NO_LIMIT) for each in (*tops, over)]
    return Effect(measure="max", a=values[0], b=values[1], ratio=values[2], finding="unknown")


def _throughput_effect(b: Runs, a: Runs, *, paired: bool) -> Effect:
    rates_b, rates_a = ([Estimate(value=window.throughput_per_s) for window in side.windows] for side in (b, a))
    return exact_effect(THROUGHPUT, rates_b, rates_a, ONE_RATE, paired=paired)


def exact_effect(name: str, b: Sequence[Estimate], a: Sequence[Estimate], why: str, *, paired: bool) -> Effect:
    """
    Return the effect on what has no error of its own in a run: what runs differ in is all that is known of it.

    `why` is the reason that it has no interval over fewer than `MIN_RUNS`.
    """
    runs_b, runs_a = ([run.model_copy(update={"low": run.value, "high": run.value}) for run in side] for side in (b, a))
    found = paired_ratio(runs_b, runs_a) if paired else ratio(runs_b, runs_a)
    values = [mean_over_runs(runs_a), mean_over_runs(runs_b)]
    if min(len(runs_a), len(runs_b)) < MIN_RUNS:
        found, *values = (Estimate(value=each.value, reason=why) for each in (found, *values))
    return Effect(measure=name, a=values[0], b=values[1], ratio=found, finding=finding_of(found, over_runs=True))


def _side_value(runs: Sequence[Estimate]) -> Estimate:
    """
    Return a single run's own quantile, whose interval speaks of that run; else the mean over runs, if none grew.

    Of runs one of which lies beyond the drain limit, it is the least that any of them may be.
    """
    behind = next((run for run in runs if run.fell_behind), None)
    if behind is not None and len(runs) > 1:
        return Estimate(value=mean_over_runs(runs).value, reason=behind.reason)
    if len(runs) == 1:
        return runs[0]
    beyond = next((run for run in runs if run.value is None), None)
    lows = [run.low for run in runs if run.low is not None]
    if beyond is not None and len(lows) == len(runs):
        return Estimate(value=None, low=min(lows), reason=beyond.reason)
    return mean_over_runs(runs)


def _find(found: Estimate, none: float, of_interest: float | None) -> Finding:
    """Return what an interval shows, where `none` is no difference, and `of_interest` the ratio that is of interest."""
    if found.value is None or found.low is None or found.high is None:
        return "unknown"
    if found.high < none:
        return "lower"
    if found.low > none:
        return "higher"
    within = of_interest is not None and 1 / of_interest < found.low and found.high < of_interest
    return "same" if within else "undecided"


def _to_decide(found: Estimate, b: list[Estimate], a: list[Estimate], *, paired: bool) -> str:
    """Return what it takes to show the smallest difference of interest, or what hinders it: first in a few words."""
    runs = min(len(b), len(a))
    if runs >= MIN_RUNS and not paired:
        return _say_runs(runs_to_show(b, a, OF_INTEREST, _MOST_RUNS))
    if not paired and found.low is not None and found.high is not None and not found.low <= 1 <= found.high:
        return f"{MIN_RUNS} runs of each would tell"
    longer = times_longer_to_show(found, OF_INTEREST)
    if longer is None:
        return ""
    if runs >= MIN_RUNS:
        return _say_runs(math.ceil(longer * runs))
    if longer > MOST_TIMES_LONGER:
        return _EVENTS_DIFFER
    times = max(longer, _AT_LEAST)
    shown = f"{times:.1f}" if times < 2 else f"{times:.0f}"  # noqa: PLR2004 -- 1.3, 4, 10
    return f"runs {shown} {TIMES.name} longer would show {OF_INTEREST_WORDS}"


def _say_runs(needed: int | None) -> str:
    if needed is None or needed > _MOST_RUNS:
        return _RUNS_DIFFER
    return f"{needed} runs of each would show {OF_INTEREST_WORDS}"


def closed_loop(windows: Sequence[WindowResult]) -> bool:
    """Return whether there are windows, all of them in closed loop."""
    return bool(windows) and all(
        each.operations is not None and each.operations.clients is not None for each in windows
    )


def _count(measure: Shared, side: Runs) -> tuple[int, int]:
    kinds = [window.of_kind(side.kind) for window in side.windows] if side.kind else []
    if kinds:
        return sum(kind.failed + kind.unknown for kind in kinds if kind), sum(kind.sent for kind in kinds if kind)
    if measure == FAILED_IN_HANDLER:
        found = [window.handler for window in side.windows if window.handler]
        return sum(each.failed_in_handler for each in found), sum(each.arrived for each in found)
    if measure == "lost":
        return (
            sum(window.latency_ms.missing for window in side.windows),
            sum(window.latency_ms.n for window in side.windows),
        )
    return sum(window.failed + window.unknown for window in side.windows), sum(window.sent for window in side.windows)
