"""Numbers that somebody published for an experiment, for ours to be set beside."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal, get_args

from pydantic import Field

from stepbench.contracts.base import BrokenRule, RuledContract, Text
from stepbench.contracts.measures import Estimate
from stepbench.contracts.phase import Name

if TYPE_CHECKING:
    from collections.abc import Iterator

QuantileMetric = Literal["p50", "p75", "p875", "p90", "p9375", "p95", "p99", "p9921875", "p999", "p9990234375"]
DagMetric = Literal["end_to_end", "perf_per_dollar", "perf_per_dollar_spread", "passing_share"]
"""
Of `dataflow`. end_to_end: the median time of executions. perf_per_dollar: the median. Its spread: the coefficient of
variation of repeats, as error bars have it. passing_share: of the critical path's time from its start.
"""
InvocationMetric = Literal["wall", "function_throughput"]
"""Of phases with `invoked`: the wall time of all invocations, and one function's own operations a second."""
PublishedMetric = QuantileMetric | Literal["max", "iqr", "write_p50", "throughput", "ks"] | InvocationMetric | DagMetric
INVOCATION_METRICS = frozenset({"wall", "function_throughput"})
DAG_METRICS = frozenset(get_args(DagMetric))
QUANTILE_METRICS: dict[str, float] = {name: float(f"0.{name[1:]}") for name in get_args(QuantileMetric)}
"""From 0 to 1, by name: a name's digits are those behind the decimal point."""
TABLE_METRICS: tuple[PublishedMetric, ...] = ("p50", "p75", "p875", "p9375", "p9921875", "p9990234375", "max")
"""
Columns of the table of percentiles.

HdrHistogram prints such, Bianchi (2020) these: 1 - 2^-k for k = 1, 2, 3, 4, 7, 10, and the maximum.
"""
SUMMARISED = ("p50", "p90", "p95", "p99", "p999")
"""Quantiles that a trial's summary has with their intervals, so that other trials can be set against them."""
WRITE_METRICS = {"write_p50": "p50"}
"""Of the time until a write is acknowledged, t2 - t1: their quantiles' names."""
_IN_RATIOS = frozenset({*SUMMARISED, "iqr"})
_FIELDS = {
    "throughput": ("per_minute", "per_s"),
    "function_throughput": ("per_s",),
    "wall": ("value_s",),
    "ks": ("d",),
    "passing_share": ("share",),
}
"""Where a metric's number stands; elsewhere it is a time, in `value_ms`."""


PublishedUnit = Literal["ms", "ratio", "per_minute", "per_s", "s", "d"]
NUMBERS: dict[str, PublishedUnit] = {
    "value_ms": "ms",
    "per_minute": "per_minute",
    "per_s": "per_s",
    "value_s": "s",
    "d": "d",
    "ratio": "ratio",
    "share": "ratio",
}
"""The fields that hold what was published, of which exactly one is there, and their units."""


class Published(RuledContract):
    """A number that somebody published for this experiment; ours is set beside it."""

    APART: ClassVar[bool] = True

    metric: PublishedMetric = Field(
        description="Percentiles by their digits (`p9375` is 93.75 %); `iqr`, the interquartile range, in ratios only; "
        "`write_p50`, of triggers: the median time until a write is acknowledged; `ks`, Kolmogorov and Smirnov's "
        "distance of the clock check, of a trial with same_sandbox; `wall` and `function_throughput` (an invocation's "
        "own operations a second) of phases with `invoked`; the last four of `dataflow`, all but the share in ratios "
        "of one trial over another."
    )
    value_ms: float | None = Field(default=None, gt=0)
    count: int | None = Field(
        default=None,
        ge=1,
        description=f"Of operations, beside `value_ms` of {', '.join(TABLE_METRICS)}: how many took at most so long.",
    )
    per_minute: float | None = Field(default=None, gt=0, description="Of `throughput`: acknowledged a minute.")
    per_s: float | None = Field(
        default=None, gt=0, description="Of `throughput`, in place of `per_minute`, and of `function_throughput`."
    )
    value_s: float | None = Field(default=None, gt=0, description="Of `wall`.")
    d: float | None = Field(default=None, gt=0, le=1, description="Of `ks`.")
    ratio: float | None = Field(
        default=None, gt=0, description="Of the metric over `over_metric` in window `over`, of `over_trial` if given."
    )
    to: float | None = Field(
        default=None, gt=0, description="Where a range was published: its upper end. The number itself is the lower."
    )
    over: Name | None = Field(default=None, description="A measured window; without it, the same one.")
    over_metric: PublishedMetric | None = Field(default=None, description="Without it, the same metric.")
    bound: Literal["above", "up_to"] | None = Field(
        default=None, description="Where no number was published, but a limit: more than this, or at most this."
    )
    share: float | None = Field(default=None, gt=0, le=1, description="Of `passing_share`.")
    trial: str | None = Field(
        default=None, max_length=100, description="Of `dataflow`: whose number it is; without it, this trial's."
    )
    over_trial: str | None = Field(
        default=None, max_length=100, description="The trial of this plan, by its name, whose number a ratio is over."
    )
    note: Text = Field(default="", max_length=500, description="What to know of it: where its source contradicts it.")
    source: Text = Field(min_length=1, max_length=200, description='Where it stands: "TriggerPerf, Fig. 5".')
    window: Name | None = Field(
        default=None,
        description="Which window it is about; without it, the only one. Of `dataflow`: without it, all windows, each "
        "of the same weight.",
    )

    def _broken_rules(self) -> Iterator[BrokenRule]:
        return _number_rules(self)

    @property
    def number(self) -> float:
        """Return what was published."""
        return next((found for name in NUMBERS if (found := getattr(self, name)) is not None), 0.0)

    @property
    def unit(self) -> PublishedUnit:
        """Return the unit of what was published, and of ours beside it."""
        return next((unit for name, unit in NUMBERS.items() if getattr(self, name) is not None), "ms")

    def score(self, ours: Estimate) -> Estimate:
        """Return ours over what was published; of a range over its nearer end, and 1 inside."""
        lower, upper = self.number, self.to or self.number
        low, value, high = (
            None if each is None else each / min(max(each, lower), upper) for each in (ours.low, ours.value, ours.high)
        )
        return Estimate(value=value, low=low, high=high, reason=ours.reason)


def _number_rules(published: Published) -> Iterator[BrokenRule]:
    """Demand exactly one of a time, a rate, a distance, a share, and a ratio of two different things."""
    given = [name for name in NUMBERS if getattr(published, name) is not None]
    fields = _FIELDS.get(published.metric, ("value_ms",))
    wanted = fields[0]
    if not given:
        yield BrokenRule(wanted, "is missing, and so is ratio", f"Give exactly one of {wanted} and ratio.")
    elif len(given) > 1:
        yield BrokenRule(
            given[0],
            f"stands beside {given[1]} ({getattr(published, given[1]):g})",
            f"Give exactly one of {wanted} and ratio.",
        )
    elif published.metric in DAG_METRICS:
        yield from _dag_rules(published, given[0])
    elif given[0] == "ratio":
        yield from _ratio_rules(published)
    else:
        yield from _value_rules(published, given[0], fields)
    yield from _range_rules(published)
    if published.trial is not None and published.metric not in DAG_METRICS:
        yield BrokenRule("trial", f"does not go with {published.metric}", "Move the number to that trial.")
    if published.count is not None and published.value_ms is None:
        yield BrokenRule("count", "belongs to a time, and there is none", "Remove it, or give value_ms.")
    elif published.count is not None and published.metric not in TABLE_METRICS:
        message = f"belongs to a row of the table of percentiles, which has no {published.metric}"
        yield BrokenRule("count", message, f"Remove it, or use one of {', '.join(TABLE_METRICS)}.")


def _range_rules(published: Published) -> Iterator[BrokenRule]:
    """A range goes up, and a limit has none."""
    if published.to is None:
        return
    if published.to <= published.number:
        yield BrokenRule("to", f"is not above the number itself ({published.number:g})", "Give the lower end first.")
    if published.bound is not None:
        yield BrokenRule("bound", "stands beside to, and a range is no limit", "Remove one of the two.")
    if published.metric in {"ks", *DAG_METRICS}:
        yield BrokenRule("to", f"does not go with {published.metric}", "Remove it, and say the range in note.")


def _dag_rules(published: Published, given: str) -> Iterator[BrokenRule]:
    """Numbers of DAGs are set against another trial's, but for a share."""
    wanted = "share" if published.metric == "passing_share" else "ratio"
    if given != wanted:
        yield BrokenRule(given, f"does not go with {published.metric}", f"Give {wanted} instead.")
    if wanted == "ratio" and published.over_trial in {None, published.trial}:
        yield BrokenRule("over_trial", "is missing, or the trial itself", "Name the trial that the ratio is over.")
    for name in ("over", "over_metric"):
        if getattr(published, name) is not None:
            yield BrokenRule(name, f"does not go with {published.metric}", "Remove it; over_trial names a trial.")


def _value_rules(published: Published, given: str, fields: tuple[str, ...]) -> Iterator[BrokenRule]:
    if given not in fields:
        yield BrokenRule(given, f"does not go with {published.metric}", f"Give {' or '.join(fields)} instead.")
    for name in ("over", "over_metric", "over_trial"):
        if getattr(published, name) is not None:
            yield BrokenRule(name, "belongs to a ratio, and there is none", "Remove it, or give ratio.")
    if published.metric == "iqr":
        yield BrokenRule("metric", "is iqr, which is scored in ratios only", "Give ratio instead of value_ms.")


def _ratio_rules(published: Published) -> Iterator[BrokenRule]:
    metrics = [each for each in (published.metric, published.over_metric) if each]
    alone = next((each for each in metrics if each not in _IN_RATIOS), None)
    if alone is not None:
        wanted = " or ".join(_FIELDS.get(alone, ("value_ms",)))
        yield BrokenRule("metric", f"is {alone}, which is scored by itself only", f"Give {wanted} instead of ratio.")
    elif published.over_trial is not None and "iqr" in metrics:
        message = "is iqr, of which a trial's summary has no interval to set against another trial's"
        yield BrokenRule("metric", message, f"Use one of {', '.join(SUMMARISED)}, or remove over_trial.")
    elif published.over_trial is None and (
        published.over in {None, published.window} and published.over_metric in {None, published.metric}
    ):
        remedy = "Name another window in over, another metric in over_metric, or another trial in over_trial."
        yield BrokenRule("ratio", "is of a number over itself", remedy)
