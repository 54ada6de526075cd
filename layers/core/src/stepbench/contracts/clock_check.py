"""Clocks compared by the latencies that they measure."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from stepbench.contracts.base import Contract
from stepbench.contracts.measures import Estimate, Replication


class Ks(Contract):
    """
    Kolmogorov and Smirnov's two-sample test.

    d: largest distance of the two ECDFs. critical_d: what it exceeds by chance in 5 % of cases. A d below it does not
    show that the two are equal.
    """

    d: float
    at_ms: float | None = Field(description="The first place where they are so far apart; None beyond all arrivals.")
    p_value: float
    n: int
    m: int
    critical_d: float


class ClockComparison(Contract):
    """One measure of the trial with one sandbox (a) against the one with several (b)."""

    measure: Literal["latency_ms", "after_ack_ms"]
    ks: Ks | None = Field(description="None where one of the two measured nothing.")
    median_shift_ms: Estimate = Field(description="Median of b minus median of a.")
    text: str = Field(description="What may be concluded, and what not.")


class ClockCheck(Contract):
    """
    Clocks compared by latencies: writer and receiver in one sandbox (a), and in different ones (b), of one store.

    `offset_ms` and `bound_ms` are of b's clocks, as measured; a difference of medians whose whole interval lies within
    offset ± bound is none that the clocks could not explain.
    """

    a: str = Field(description="Trial with same_sandbox.")
    b: str
    store: str
    window: str
    events: int = Field(ge=0, description="Of a: arrived.")
    same_sandbox: int = Field(ge=0, description="Of those: the sandbox that wrote it received it, by id.")
    offset_ms: float | None
    bound_ms: float | None
    comparisons: tuple[ClockComparison, ...]
    replication: tuple[Replication, ...] = Field(default=(), description="Published distances beside ours.")
