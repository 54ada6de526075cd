"""What functions were invoked with: by a trigger with so many events together, and again after a failure."""

from __future__ import annotations

from pydantic import Field

from stepbench.contracts.base import Contract


class Invocations(Contract):
    """What the REPORT lines and the receivers themselves say of one function during the trial."""

    function: str
    invocations: int = Field(ge=0)
    cold_starts: int = Field(ge=0)
    init_ms_p50: float | None = None
    init_ms_max: float | None = None
    duration_ms_p50: float | None = None
    duration_ms_max: float | None = None
    billed_ms: float = Field(default=0, ge=0)
    billed_gb_s: float = Field(default=0, ge=0, description="Of the lines' own memory sizes.")
    max_memory_mb: int | None = None


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


class Redelivered(Contract):
    """Events that a measured function processed at one of the tries after the first."""

    at_try: int = Field(ge=2)
    events: int = Field(ge=1)
    after_s_p50: float = Field(description="From t4 of the first try to t5 of this one.")
    after_s_max: float
