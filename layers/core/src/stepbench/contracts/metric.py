"""The metric by which a stack measures how busy a server is: a template parameter, as JSON."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from stepbench.contracts.base import BrokenRule, Contract, refuse

SHORT_PERIODS_S = (1, 5, 10, 20, 30)
"""That metrics of high resolution may have; all others are of whole minutes."""


class Metric(Contract):
    """
    A metric in CloudWatch; its averages over whole periods count.

    With several sets of dimensions (one a server of a cluster) the busiest counts.
    """

    namespace: str = Field(min_length=1, max_length=255)
    metric: str = Field(min_length=1, max_length=255)
    dimensions: tuple[dict[str, str], ...] = Field(min_length=1, max_length=30)
    period_s: int = Field(default=60, ge=1, le=3_600)
    full: float = Field(default=100, gt=0, allow_inf_nan=False, description="The value at which all of it is used.")

    @model_validator(mode="after")
    def _period_that_is_kept(self) -> Self:
        if self.period_s not in SHORT_PERIODS_S and self.period_s % 60:
            remedy = f"Make it one of {', '.join(map(str, SHORT_PERIODS_S))}, or whole minutes."
            refuse([BrokenRule("period_s", f"is {self.period_s}, which CloudWatch has no statistics for", remedy)])
        return self
