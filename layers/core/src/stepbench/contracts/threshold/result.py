"""What became of a threshold in one measured window."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from stepbench.contracts.base import Contract
from stepbench.contracts.threshold.words import Quantity


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
