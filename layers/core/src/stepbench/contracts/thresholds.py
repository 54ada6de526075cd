"""The words of a threshold, the threshold that they make, and what became of it in each measured window."""

from __future__ import annotations

import operator
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, get_args

from pydantic import Field, model_validator

from stepbench.contracts.base import Contract
from stepbench.contracts.workload import OPERATION_KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


DEFAULTS = ("errors < 1 %", "unsent < 1 %")
"""What a run has to keep to whose plan says nothing else: it has measured what it was to measure."""
Time = Literal["latency", "response", "service", "after_ack", "write_response", "lateness", "to_processed", "handler"]
Quantile = Literal["p50", "p90", "p95", "p99", "p999", "max"]
Counted = Literal["errors", "unsent", "lost", "duplicates", "failed_in_handler"]
Comparison = Literal["<", "<=", ">", ">=", "=="]
Quantity = Literal["ms", "share", "events", "per_s"]

TIMES: tuple[Time, ...] = get_args(Time)
THRESHOLD_QUANTILES: tuple[Quantile, ...] = get_args(Quantile)
COUNTED: tuple[Counted, ...] = get_args(Counted)
THROUGHPUT: Literal["throughput"] = "throughput"
STATISTICS = (*THRESHOLD_QUANTILES, *COUNTED, THROUGHPUT)
Shared = Literal["errors", "lost", "failed_in_handler"]
Judged = Quantile | Shared | Literal["throughput", "cost"]
SHARED: tuple[Shared, ...] = get_args(Shared)
COST: Literal["cost"] = "cost"
FAILED_IN_HANDLER: Literal["failed_in_handler"] = "failed_in_handler"
PER_DOLLAR = "per dollar"
"""What comparisons of runs call performance per dollar, by which none is judged."""
JUDGED = (*THRESHOLD_QUANTILES, *SHARED, THROUGHPUT, COST)
"""What a run may be judged by."""
TO_PROCESSED: Literal["to_processed"] = "to_processed"
COMPARISONS: tuple[Comparison, ...] = get_args(Comparison)
_HOLDS: Mapping[Comparison, Callable[[float, float], bool]] = dict(
    zip(COMPARISONS, (operator.lt, operator.le, operator.gt, operator.ge, operator.eq), strict=True)
)
KINDS = tuple(kind.name.lower() for kind in OPERATION_KINDS)
OF_FUNCTIONS = frozenset({TO_PROCESSED, "handler", FAILED_IN_HANDLER})
"""Words of what only a measured function has."""
OF_TRIGGERS = frozenset({"after_ack", "write_response", "lost", "duplicates", *OF_FUNCTIONS})
"""Words of what only a trigger or a DAG has: an arrival, or what was written before it."""
OF_KINDS = ("latency", "response", "service", "errors")
"""Words of what is known of each kind of operation by itself."""


GREEK_US = "μs"
UNITS: Mapping[str, tuple[Quantity, Decimal]] = {
    **dict.fromkeys(("us", "µs", GREEK_US), ("ms", Decimal("0.001"))),
    "ms": ("ms", Decimal(1)),
    "s": ("ms", Decimal(1_000)),
    "%": ("share", Decimal("0.01")),
    "": ("events", Decimal(1)),
    **dict.fromkeys(("/s", "ops/s"), ("per_s", Decimal(1))),
    **dict.fromkeys(("/min", "ops/min"), ("per_s", Decimal(1) / 60)),
}
"""What a unit of a limit counts, and how much of that one of it is."""


def quantities_of(statistic: str) -> tuple[Quantity, ...]:
    """Return what a statistic may be limited in; an unknown one in anything."""
    if not statistic:
        return get_args(Quantity)
    if statistic in COUNTED:
        return ("events", "share")
    return ("per_s",) if statistic == THROUGHPUT else ("ms",)


class Threshold(Contract):
    """What each measured window that it is about has to keep to."""

    text: str = Field(description="As the plan has it.")
    time: Time = "latency"
    statistic: Quantile | Counted | Literal["throughput"]
    kind: str | None = Field(default=None, description="Of operations; None: of all that the window has.")
    window: str | None = Field(default=None, description="Name of the windows that it is about; None: all.")
    comparison: Comparison
    limit: float = Field(ge=0)
    quantity: Quantity = Field(description="What the limit is counted in.")

    @property
    def measure(self) -> str:
        """Return the word that says what is measured: a time's, or the count's own."""
        return self.time if self.statistic in THRESHOLD_QUANTILES else self.statistic

    def holds(self, value: float) -> bool:
        """Return whether a value keeps to it."""
        return _HOLDS[self.comparison](value, self.limit)


_TIME_NAMES: Mapping[str, str] = {
    "after_ack": "after-ack",
    "write_response": "write response",
    TO_PROCESSED: "time to processed",
    "handler": "handler time",
}


def measure_name(measure: str, statistic: str | None) -> str:
    """Return what sentences call a measure: `p99` of latency, `response p99` of another time, or `throughput`."""
    if statistic is None or measure == "latency":
        return statistic or measure
    return f"{_TIME_NAMES.get(measure, measure)} {statistic}"


class Judge(Contract):
    """The measure that a run is judged by: its answers begin with it."""

    time: Time = "latency"
    statistic: Judged

    @property
    def name(self) -> str:
        """Return what sentences and columns call it: `p99`, `response p99`, `errors`."""
        return measure_name(self.time, self.statistic)

    @property
    def title(self) -> str:
        """Return the name as a column is headed with it; a quantile stays as it is written."""
        return self.name if self.name in THRESHOLD_QUANTILES else f"{self.name[:1].upper()}{self.name[1:]}"

    @property
    def measure(self) -> str:
        """Return the word that says what is measured, as a threshold's does."""
        return self.time if self.statistic in THRESHOLD_QUANTILES else self.statistic


class ThresholdResult(Contract):
    """
    A threshold in one measured window.

    `value`, `low` and `high` are as in an estimate, in `unit`. Where nothing was measured that the threshold is about,
    it has no trial, and `phase` and `window` are empty.
    """

    threshold: str = Field(description="As the plan has it.")
    trial: int | None = Field(default=None, ge=0, description="The trial's index; None without a window.")
    name: str = Field(default="", description="The trial's.")
    phase: str = ""
    window: str = ""
    state: Literal["passed", "failed", "undecidable"]
    limit: float
    unit: Quantity = Field(description="Of value, interval and limit: ms, a share of 1, events, or so many a second.")
    value: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str | None = Field(default=None, description="Why it is undecidable, or why there is no value.")
    times_longer: float | None = Field(
        default=None,
        description="Undecidable: about how many times as long it would take; None where that is not known.",
    )

    @model_validator(mode="before")
    @classmethod
    def _read_older(cls, fields: Any) -> Any:  # noqa: ANN401 -- anything may stand there
        """Find state and value where summaries had them while all thresholds were about shares of errors."""
        if not isinstance(fields, dict) or "passed" not in fields:
            return fields
        rest = {name: value for name, value in fields.items() if name not in {"passed", "share"}}
        return {**rest, "state": "passed" if fields["passed"] else "failed", "value": fields["share"], "unit": "share"}
