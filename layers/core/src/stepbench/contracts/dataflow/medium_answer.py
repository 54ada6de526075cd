"""Which store for this DAG, and how sure: one answer by end-to-end time, one by performance per dollar."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from stepbench.contracts.base import Contract
from stepbench.contracts.measures import Estimate


class Medium(Contract):
    """One store, as one group of trials had it: all repeats of a trial together."""

    name: str = Field(
        description="The store, and what else distinguishes it from the others, such as its configuration."
    )
    group: str
    runs: int = Field(ge=1)
    value: Estimate = Field(description="Median end-to-end time in ms, or 1 / (s x USD).")


class MediumAnswer(Contract):
    """
    Stores that passed the same DAG's data, from the best to the worst.

    sure: the best one's advantage over the next is shown by the whole 95 % interval. Stores that are emulated are not
    ranked, nor are those at which most executions of a run have failed.
    """

    dag: str
    phase: str
    window: str
    measure: Literal["end_to_end", "perf_per_usd"]
    prices: str = Field(default="", description="Of `perf_per_usd`: the table's name.")
    idle: bool = Field(default=False, description="Of `perf_per_usd`: idle hours included.")
    ranked: tuple[Medium, ...]
    not_ranked: tuple[str, ...] = Field(default=(), description="Names of emulated ones.")
    failed: tuple[str, ...] = Field(default=(), description="Names of those at which most executions have not arrived.")
    sure: bool
    advantage: Estimate | None = Field(default=None, description="The next one's time over the best one's, or so.")
    text: str
