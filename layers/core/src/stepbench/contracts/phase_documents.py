"""What stages keep of a phase in the results bucket, for those after them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from stepbench.contracts.base import Contract


class PhaseSchedule(Contract):
    """When a phase began: stored as the phase's `plan.json`, written once more if PlanPhase is retried."""

    start_at_ns: int = Field(description="The phase's time zero, ns since the epoch: its earliest t0.")


class PrecisionLook(Contract):
    """One look at how well a phase's quantile is known."""

    at_s: float = Field(description="Of the events due in so many seconds from the phase's start.")
    events: int = Field(ge=0, description="Of them, acknowledged and arrived.")
    relative_width: float | None = Field(description="The 95 % interval over the quantile; None where there is none.")


class PrecisionLooks(Contract):
    """
    All looks at a phase with `until`: stored as its `until.json`, after each.

    `reason` is None while looks go on. `writers_gone`: no writer gave a sign of life any more.
    """

    looks: tuple[PrecisionLook, ...] = ()
    reason: Literal["sure", "max_events", "cancelled", "writers_gone"] | None = None
