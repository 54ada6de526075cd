"""The delays that the reference store draws."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from stepbench.contracts.base import Contract


class ConstantDelay(Contract):
    """Always the same."""

    kind: Literal["constant"]
    ms: float = Field(ge=0, le=60_000, allow_inf_nan=False)


class BimodalDelay(Contract):
    """One of two, with a normal scatter of 2 % around each."""

    kind: Literal["bimodal"]
    low_ms: float = Field(ge=0, le=60_000, allow_inf_nan=False)
    high_ms: float = Field(ge=0, le=60_000, allow_inf_nan=False)
    high_share: float = Field(gt=0, lt=1)


class ParetoDelay(Contract):
    """A heavy tail: at least `scale_ms`, with P(delay > x) = (scale / x) ** shape, cut at 10 s."""

    kind: Literal["pareto"]
    scale_ms: float = Field(gt=0, le=10_000, allow_inf_nan=False)
    shape: float = Field(gt=0.5, le=20)


class StallDelay(Contract):
    """`base_ms`, but the store stands still for `stall_ms` every `every_s`: what falls into it comes at its end."""

    kind: Literal["stalls"]
    base_ms: float = Field(ge=0, le=60_000, allow_inf_nan=False)
    stall_ms: float = Field(gt=0, le=60_000, allow_inf_nan=False)
    every_s: float = Field(gt=0, le=3_600, allow_inf_nan=False)


Delay = Annotated[ConstantDelay | BimodalDelay | ParetoDelay | StallDelay, Field(discriminator="kind")]
