"""How many records the trigger handed to each invocation of the receiver."""

from __future__ import annotations

from pydantic import Field

from stepbench.contracts.base import Contract


class BatchCount(Contract):
    """So many invocations were handed so many records."""

    records: int = Field(ge=1)
    invocations: int = Field(ge=1)


class Deliveries(Contract):
    """
    Records per invocation, of those invocations that brought an event of the window first.

    Each invocation counts once, with all that it was handed: canaries, repeats, and events of other windows included.
    """

    invocations: int = Field(ge=1)
    min: int
    p50: float
    p90: float
    max: int
    mean: float
    commonest: tuple[BatchCount, ...] = Field(description="The ten commonest sizes, the commonest first.")
