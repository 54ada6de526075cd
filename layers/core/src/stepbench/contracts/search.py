"""What a trial found out while it ran: the rate that makes a store so busy, and when it was sure enough."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from stepbench.contracts.base import Contract


class Utilisation(Contract):
    """
    How busy the store was while a phase was offered. Stored as the phase's `utilisation.json`.

    `utilisation` is None where no metric came; `text` says of what it is, over how many periods.
    """

    phase: str
    probe: bool
    offered_per_s: float
    achieved_per_s: float
    utilisation: float | None = Field(ge=0, description="1 is all of it; servers with several cores may show more.")
    text: str


class FoundRate(Contract):
    """What the search for a rate came to. `rate_per_s` is None where it found none; `text` says why."""

    wanted: float = Field(description="The utilisation.")
    rate_per_s: float | None
    text: str
    phases: tuple[Utilisation, ...] = Field(description="Probes in order, then the phases at the rate found.")


class StoppedPhase(Contract):
    """Why a phase with `until` ended. Widths are relative: the 95 % interval over the quantile."""

    phase: str
    metric: str
    wanted: float
    reached: float | None = Field(description="At the last look; None where there was no interval.")
    final: float | None = Field(description="Of the window as analysed, which holds what came after that look as well.")
    events: int = Field(ge=0, description="Acknowledged and arrived, at the last look.")
    looks: int = Field(ge=0)
    stopped_at_s: float = Field(description="Where its load ended, in seconds from the phase's start.")
    reason: Literal["sure", "max_events", "cancelled", "writers_gone", "unchecked"] = Field(
        description="`unchecked`: CheckPrecision failed, so that the load went on to its longest."
    )
    text: str
