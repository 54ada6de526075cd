"""What is written: operation, sizes, keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, model_validator

from stepbench.contracts.base import Contract
from stepbench.contracts.identity import MIN_KEY_BYTES, MIN_VALUE_BYTES
from stepbench.contracts.rule import Broken, refuse

if TYPE_CHECKING:
    from collections.abc import Iterator

ZIPF_EXPONENT, HOT_SHARE = 0.99, 0.5
"""Defaults; the exponent is that of YCSB, the Yahoo! Cloud Serving Benchmark."""


class Record(Contract):
    """What is written."""

    operation: Literal["put", "update", "delete"] = Field(
        default="put",
        description="`put` makes new keys; `update` overwrites one of `distinct_keys` existing ones; `delete` removes "
        "a key of its own, written before the load.",
    )
    key_bytes: int = Field(default=59, ge=MIN_KEY_BYTES, le=1_000)
    value_bytes: int = Field(default=889, ge=MIN_VALUE_BYTES, le=350_000)
    distinct_keys: int | None = Field(default=None, ge=1, le=1_000_000)
    key_distribution: Literal["uniform", "zipf", "hot"] = Field(
        default="uniform",
        description="Which of them an update overwrites: each alike; key k with a probability as 1 / (k + 1) ** "
        "zipf_exponent; or key 0 with probability hot_share, and the others alike.",
    )
    zipf_exponent: float = Field(default=ZIPF_EXPONENT, gt=0, le=10, allow_inf_nan=False)
    hot_share: float = Field(default=HOT_SHARE, gt=0, lt=1)
    matching_share: float = Field(
        default=1,
        gt=0,
        le=1,
        allow_inf_nan=False,
        description="Share of the events that the trigger's own filter lets pass; the others it holds back. "
        "1 sets no filter.",
    )

    @model_validator(mode="after")
    def _updates_need_keys(self) -> Self:
        refuse(_key_rules(self))
        return self


def _key_rules(record: Record) -> Iterator[Broken]:
    if record.operation == "update" and record.distinct_keys is None:
        yield Broken("distinct_keys", "is missing, and an update needs it", "Say how many keys are overwritten.")
    no_meaning = f"has no meaning for {record.operation}"
    if record.operation != "update" and record.distinct_keys is not None:
        yield Broken("distinct_keys", no_meaning, 'Remove it, or set operation to "update".')
    if record.operation != "update" and record.key_distribution != "uniform":
        yield Broken("key_distribution", no_meaning, 'Remove it, or set operation to "update".')
    if record.key_distribution == "hot" and record.distinct_keys == 1:
        yield Broken("distinct_keys", "leaves no key beside the hot one", "Raise it to 2 or more.")
    if record.key_distribution != "zipf" and record.zipf_exponent != ZIPF_EXPONENT:
        yield Broken("zipf_exponent", "has no effect", 'Remove it, or set key_distribution to "zipf".')
    if record.key_distribution != "hot" and record.hot_share != HOT_SHARE:
        yield Broken("hot_share", "has no effect", 'Remove it, or set key_distribution to "hot".')
