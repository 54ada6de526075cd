"""
The measures of a trial: numbers with their intervals, by window.

They are in the units of the report, which their names end in: `_ms`, `_per_s`, `_s`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from stepbench.contracts.base import Contract
from stepbench.contracts.invocations import Deliveries, Redelivered

FELL_BEHIND = "fell behind"
"""It is in the reason why a quantile has no interval, or no value, where events waited ever longer."""


_Number = Annotated[float, Field(ge=-1e100, le=1e100)]
"""Ratios and squares of it are numbers still."""


class Estimate(Contract):
    """
    A number with its 95 % confidence interval, or the reason why it has none.

    `value` is None (with a `reason`) only where nothing was measured, or where the quantile falls in the mass that
    had not arrived by the drain limit; then `reason` begins with "> drain limit". Without an interval (both limits
    None, with a `reason`) it is the sample's own, and says little of the next run.
    """

    value: _Number | None
    low: _Number | None = None
    high: _Number | None = None
    reason: str | None = None

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.low is not None and self.high is not None and self.low > self.high:
            message = f"the interval ends before it begins ({self.low} to {self.high})"
            raise ValueError(message)
        return self

    @property
    def fell_behind(self) -> bool:
        """Return whether it is of a queue that grew: it says how long the window was, and decides nothing."""
        return FELL_BEHIND in (self.reason or "")

    @property
    def at_least(self) -> float | None:
        """Return the value, or what it is at least where it is beyond the drain limit; None where nothing is known."""
        return self.low if self.value is None else self.value

    def over(self, number: float) -> Estimate:
        """Return it in multiples of a number that is known exactly."""
        low, value, high = (None if each is None else each / number for each in (self.low, self.value, self.high))
        return Estimate(value=value, low=low, high=high, reason=self.reason)


class Latency(Contract):
    """One latency measure over one window, in milliseconds. `missing` of the `n` events have no finite value."""

    n: int = Field(ge=0)
    missing: int = Field(default=0, ge=0)
    p50: Estimate
    p90: Estimate
    p95: Estimate
    p99: Estimate
    p999: Estimate
    at_least: dict[str, float] = Field(
        default={},
        description="Of quantiles that are too far out for an interval, by name: the lower end of one, which fewer "
        "events tell. Empty in summaries of older versions.",
    )
    min: float | None
    mean: float | None
    max: float | None


class PercentileRow(Contract):
    """One row of a table of percentiles: how many operations took at most so long."""

    percentile: float = Field(ge=0, le=100)
    value_ms: float | None
    count: int = Field(ge=0)


KindName = Literal["read", "insert", "overwrite", "update", "read_modify_write", "scan"]


class KindResult(Contract):
    """
    One kind of operation in a window. ok + failed + unknown is what was sent of it.

    service_ms: t2 - t1. response_ms: t2 - t0. percentiles: of the service time, denser towards the end.
    """

    kind: KindName
    ok: int = Field(ge=0)
    failed: int = Field(ge=0)
    unknown: int = Field(ge=0)
    service_ms: Latency
    response_ms: Latency
    percentiles: tuple[PercentileRow, ...]

    @property
    def sent(self) -> int:
        """Return how many were sent or tried."""
        return self.ok + self.failed + self.unknown


class ConnectingResult(Contract):
    """
    The parts that the service time of operations on connections of their own is made of.

    unaccounted_share: of the sum of service times, what the four parts do not explain.
    """

    connect_ms: Latency
    tls_ms: Latency | None = Field(description="None without TLS.")
    authenticate_ms: Latency | None = Field(description="None where the store asks for no authentication.")
    operate_ms: Latency
    unaccounted_share: float


MOST_GENERATOR_SHARE = 0.1
"""A share of a closed-loop client's time; above it, throughput is the generator's as much as the store's."""
MOST_GENERATOR_CPU = 0.8
"""A share of what one writer can get; above it, answers lie about until the writer gets to them."""


class InvocationsResult(Contract):
    """
    How a Map got one invocation for each writer done, as fast as max_concurrency let it.

    Rates and times of functions are medians over the invocations that have recorded. Operations of an invocation that
    never came, or came too late, and what a cancelled one left, are the window's `unsent`.
    """

    planned: int = Field(ge=1)
    begun: int = Field(ge=0, description="Of those planned; each counts once, however often it was tried.")
    recorded: int = Field(ge=0, description="Of those begun.")
    tried_again: int = Field(ge=0, description="Attempts that were not the first of their invocation, and began.")
    operations_each: int = Field(ge=1)
    map: Literal["distributed", "inline"]
    at_once: int = Field(ge=1, description="Invocations at once that the Map was allowed.")
    most_at_once: int = Field(ge=0, description="Invocations at one moment, by their own times.")
    wall_s: float | None = Field(description="From the first invocation's begin to the last one's end.")
    map_s: float | None = Field(
        default=None, description="From when its items were made, before they were stored, to the Map's own end."
    )
    function_per_s: float | None = Field(description="An invocation's acknowledged operations over their own time.")
    slowest_per_s: float | None = Field(description="Of the slowest function, likewise.")
    fastest_per_s: float | None = Field(description="Of the fastest function, likewise.")
    invocation_ms: float | None = Field(description="From its begin to its end, storing its rows left out.")
    sandboxes: int = Field(ge=0, description="Processes that the invocations ran in.")
    cold_sandboxes: int = Field(ge=0, description="Invocations that were their process's first.")
    cold_connections: int | None = Field(
        ge=0, description="Invocations that had to connect before their operations; None without reuse."
    )
    connecting_ms: float | None = Field(description="What that took them, where they had to.")
    recording_ms: float | None = Field(
        description="An invocation's, to mark that it began, and to store its rows: it lies inside the wall time, and "
        "outside the function's rate."
    )


class OperationsResult(Contract):
    """
    What operations have beside latency and rate.

    per_minute: answered with success, by t2, in whole minutes of the window. retries: after conflicts, all operations
    together.
    """

    clients: int | None = Field(
        description="Of closed-loop load, all writers together; of invocations those at once; None in open loop."
    )
    kinds: tuple[KindResult, ...]
    percentiles: tuple[PercentileRow, ...] = Field(description="Of all kinds together.")
    per_minute: tuple[int, ...]
    wall_s: float | None = Field(
        default=None,
        description="From the first send to the last answer of those answered with success, where a phase offers a "
        "number of operations (`count`, `closed.operations`); None where it offers for a time.",
    )
    per_wall_s: float | None = Field(default=None, description="Answered with success, over `wall_s`.")
    retries: int = Field(ge=0)
    generator_share: float | None = Field(
        default=None,
        description="Of the clients' time, their pauses included: what the generator itself took, mean of t1 - t0 over "
        "mean of t2 - t0 plus think_ms. Above a tenth, throughput is the generator's, too. None in open loop.",
    )
    generator_cpu: float | None = Field(
        default=None,
        description="CPU of the busiest writer in the window's phase, of what one of its threads can get. Above 0.8, "
        "answers wait until the writer gets to them. None where no writer ended in good order.",
    )
    connecting: ConnectingResult | None = None
    invocations: InvocationsResult | None = Field(default=None, description="What only a phase with `invoked` has.")

    @property
    def held_back(self) -> bool:
        """Return whether the generator limits what closed-loop clients achieve."""
        by_time = (self.generator_share or 0) > MOST_GENERATOR_SHARE
        return by_time or (self.clients is not None and (self.generator_cpu or 0) > MOST_GENERATOR_CPU)


class HandlerResult(Contract):
    """
    What a measured function did with a window's events, in invocations that were handed any of them, repeats included.

    failed_once: events that it failed at least once. given_up: events not processed that Lambda put into the on-failure
    queue. cut_off: not processed when a stopped trial ended, so not failed. errors: invocations by the type of the
    handler's error, or `never ended`, the most frequent first.
    partly_failed: invocations that ended well and named records as failed. most_at_once: invocations at one moment.
    """

    handler_ms: Latency = Field(
        description="From the handler's call to t5, of the invocation that brought an event first."
    )
    to_processed_ms: Latency = Field(description="t5 - t0 of the first that processed it, by the drain limit.")
    arrived: int = Field(ge=0)
    processed: int = Field(ge=0)
    processed_twice: int = Field(ge=0, description="Processings of an event after its first.")
    failed_once: int = Field(ge=0)
    given_up: int = Field(ge=0)
    cut_off: int = Field(default=0, ge=0)
    redelivered: tuple[Redelivered, ...] = ()
    invocations: int = Field(ge=0)
    errors: dict[str, int] = Field(default={})
    partly_failed: int = Field(ge=0)
    never_ended: int = Field(ge=0)
    cold_starts: int = Field(ge=0)
    init_ms: Latency | None = Field(description="Of its cold starts; None where there is none.")
    most_at_once: int = Field(ge=0)

    @property
    def failed_in_handler(self) -> int:
        """Return how many events arrived, and were not processed by the drain limit."""
        return self.arrived - self.processed - self.cut_off


class WindowResult(Contract):
    """One measured window of one phase."""

    name: str
    phase: str
    n: int = Field(
        ge=0,
        description="Acknowledged events whose t0 lies in the window, those apart that a filter is to hold back and "
        "those in a watch gap.",
    )
    sent: int = Field(
        default=0,
        ge=0,
        description="Events whose t0 lies in the window, and that were sent or tried: acknowledged, failed or unknown.",
    )
    unsent: int = Field(default=0, ge=0, description="Due in the window, and not sent: no writer was there for it.")
    failed: int = Field(default=0, ge=0, description="Of those sent: the store said no, so nothing has happened.")
    unknown: int = Field(default=0, ge=0, description="Of those sent: no answer, so it may have happened.")
    errors: dict[str, int] = Field(
        default={}, description="Failed and unknown ones by the store's code, or in words; the most frequent first."
    )
    lost: int | None = Field(
        default=None,
        ge=0,
        description="Acknowledged and not arrived by the drain limit; None for operations, and of an older version.",
    )
    duplicates: int | None = Field(
        default=None,
        ge=0,
        description="Arrivals after an event's first, in a measured function processings; None as `lost`.",
    )
    offered_per_s: float
    achieved_per_s: float
    kept_up_per_s: float | None = Field(
        default=None,
        description="Where events waited ever longer: how many a second were worked through meanwhile. Its quantiles "
        "then have no interval, and a lower limit only.",
    )
    latency_ms: Latency = Field(description="Trigger latency, t4 - t1; of operations their service time, t2 - t1.")
    after_ack_ms: Latency | None = Field(description="t4 - t2; may be negative. None for operations.")
    event_resolution_ms: float | None = Field(default=None, description="Of t3; None where the store reports none.")
    to_event_ms: Latency | None = Field(default=None, description="t3 - t1; t3 is by the store's own clock.")
    from_event_ms: Latency | None = Field(default=None, description="t4 - t3.")
    response_write_ms: Latency = Field(description="t2 - t0.")
    response_trigger_ms: Latency | None = Field(description="t4 - t0. None for operations.")
    service_ms: Latency = Field(description="t2 - t1.")
    lateness_ms: Latency = Field(description="t1 - t0.")
    deliveries: Deliveries | None = Field(
        default=None, description="Records per invocation; None where the trigger hands over one by one, by design."
    )
    operations: OperationsResult | None = Field(default=None, description="What only operations have.")
    handler: HandlerResult | None = Field(default=None, description="What only a measured function has.")

    @property
    def throughput_per_s(self) -> float:
        """Return what was acknowledged a second: of a number of operations over their wall time."""
        by_wall = self.operations.per_wall_s if self.operations else None
        return self.achieved_per_s if by_wall is None else by_wall

    def of_kind(self, name: str | None) -> KindResult | None:
        """Return what it has of one kind of operation."""
        kinds = self.operations.kinds if self.operations else ()
        return next((each for each in kinds if each.kind == name), None)

    @model_validator(mode="before")
    @classmethod
    def _read_older(cls, fields: Any) -> Any:  # noqa: ANN401 -- anything may stand there
        """Find outcomes and errors where summaries had them when only operations did."""
        if isinstance(fields, dict) and isinstance(found := fields.get("operations"), dict) and "errors" in found:
            rest = {name: value for name, value in found.items() if name != "errors"}
            ok, failed, unknown = (sum(kind[name] for kind in found["kinds"]) for name in ("ok", "failed", "unknown"))
            counts = {"sent": ok + failed + unknown, "failed": failed, "unknown": unknown}
            return {**fields, **counts, "operations": rest, "errors": found["errors"]}
        return fields
