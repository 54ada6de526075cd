"""`acknowledged.json`, beside a folder's runs: levels that are accepted, and why."""

from __future__ import annotations

from pydantic import Field

from stepbench.contracts.base import Contract


class AcknowledgedShift(Contract):
    """The level that begins with a run is accepted."""

    run_id: str = Field(min_length=1)
    why: str = Field(min_length=1, max_length=500)


class AcknowledgedShifts(Contract):
    """All of a folder; of a run that is given twice, the last counts."""

    shifts: tuple[AcknowledgedShift, ...] = ()
