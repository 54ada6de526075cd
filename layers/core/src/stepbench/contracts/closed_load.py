"""Closed-loop load: clients that wait for each answer before they go on."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, model_validator

from stepbench.contracts.base import Contract
from stepbench.contracts.rule import Broken, refuse

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_CLIENTS = 10_000
MOST_OPERATIONS = 10_000_000
"""Of a trial's closed loops: AnalyseTrial joins some 140 to 210 bytes a row, and has 3 GB."""
MOST_PER_WRITER_S = 100_000
"""For upper bounds: a writer's own loop takes 18 µs an operation and more; about half of that, for faster machines."""


class ClosedLoad(Contract):
    """
    So many clients, each of which offers its next operation once the last was answered and a pause has passed.

    Clients are numbered over all writers; client c is one of writer c mod writers.
    """

    clients: int = Field(ge=1, le=MAX_CLIENTS)
    think_ms: float = Field(
        default=0, ge=0, le=600_000, allow_inf_nan=False, description="The pause between an answer and what follows."
    )
    think: Literal["constant", "exponential"] = Field(
        default="constant", description="How pauses are distributed around it."
    )
    duration_s: float = Field(gt=0, le=7 * 86_400, allow_inf_nan=False, description="Nothing is offered after that.")
    operations: int | None = Field(
        default=None,
        ge=1,
        le=MOST_OPERATIONS,
        description="Of all clients together, shared out evenly; with them done the load ends before duration_s.",
    )

    @model_validator(mode="after")
    def _enough_for_all(self) -> Self:
        refuse(_share_rules(self))
        return self

    def most_events(self, *, answer_s: float, writers: int) -> int:
        """How many operations so many writers offer at most, to a store that answers in `answer_s` and not sooner."""
        per_s = min(self.clients / (self.think_ms / 1e3 + answer_s), writers * MOST_PER_WRITER_S)
        unbounded = math.ceil(self.duration_s * per_s)
        return unbounded if self.operations is None else min(self.operations, unbounded)

    def operations_of(self, client: int) -> int | None:
        """How many operations a client offers at most; None where only time ends it."""
        if self.operations is None:
            return None
        share, rest = divmod(self.operations, self.clients)
        return share + (client < rest)


def _share_rules(load: ClosedLoad) -> Iterator[Broken]:
    if load.operations is not None and load.operations < load.clients:
        message = f"is below clients ({load.clients:,}), so that some would offer nothing"
        yield Broken("operations", message, "Raise it, or lower clients.")
    if load.think != "constant" and load.think_ms == 0:
        yield Broken("think", "has no effect without a pause", "Give think_ms, or remove it.")
