"""A number that was published of DAGs, beside what this run's trials show."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from stepbench.contracts.base import Contract
from stepbench.contracts.measures import Estimate
from stepbench.contracts.published import DagMetric


class DagReplication(Contract):
    """
    A published number beside ours.

    Performance per dollar is by the prices of November 2022, as the source's, which does not say whether idle hours
    count: both are given. `ratio` is ours over the published number.
    """

    metric: DagMetric
    trial: str = Field(description="Whose number it is: a trial of the plan, its repeats together.")
    over_trial: str = Field(default="", description="What it is set over; empty of a share.")
    dag: str
    phase: str
    window: str
    published: float
    unit: Literal["ratio", "share"]
    bound: Literal["above", "up_to"] | None = None
    source: str
    note: str = ""
    ours: Estimate = Field(description="Without idle hours, of performance per dollar.")
    ours_idle: Estimate | None = Field(default=None, description="With them; None of all else.")
    ratio: Estimate
    ratio_idle: Estimate | None = None
    caveat: str = Field(default="", description="Why ours may not be set beside it: such as an emulated store.")
