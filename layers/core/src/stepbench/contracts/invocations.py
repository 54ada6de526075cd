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


class FunctionMetrics(Contract):
    """
    What CloudWatch has of a measured function's copy, its canaries and warm-up included.

    Its values come by the minute and late: each is of the time up to `until`, and None where there is none.
    """

    until: str = Field(default="", description="End of the last minute with a value, as ISO 8601; empty: none came.")
    reason: str = Field(default="", description="Why it could not be read; empty where it could.")
    recorded: int = Field(default=0, ge=0, description="Invocations that the trial's own records have, each once.")
    invocations: int | None = Field(
        default=None, ge=0, description="Fewer than `recorded`: the others' minutes had not come."
    )
    throttles: int | None = Field(default=None, ge=0, description="Invocations that Lambda refused for now.")
    dropped: int | None = Field(default=None, ge=0, description="Events that Lambda gave up; not of streams.")
    oldest_event_ms: float | None = Field(
        default=None,
        ge=0,
        description="Longest wait in Lambda's queue; of streams the greatest age of a batch's last record.",
    )
    most_at_once: int | None = Field(default=None, ge=0, description="Concurrent executions.")


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
