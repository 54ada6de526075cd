"""What a store's event trigger can do, by category, with a source for each: documented facts, none of them measured."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, get_args

from pydantic import Field

from stepbench.contracts.base import Contract

if TYPE_CHECKING:
    from collections.abc import Mapping

Category = Literal[
    "selection", "filtering", "execution", "content", "destination", "delivery", "order", "batching", "payload"
]
"""The first five are those of Satish et al. (TriggerPerf), section II."""
CATEGORIES: tuple[Category, ...] = get_args(Category)
CATEGORY_NAMES: Mapping[Category, str] = MappingProxyType(
    {
        "selection": "Event selection",
        "filtering": "Filtering",
        "execution": "Execution model",
        "content": "Event content",
        "destination": "Destination",
        "delivery": "Delivery guarantee",
        "order": "Order",
        "batching": "Batching",
        "payload": "Payload limit",
    }
)


class Feature(Contract):
    """One fact of a trigger. `shown_by`: the test of the driver contract that shows it of a running store."""

    text: str = Field(min_length=1)
    source: str = Field(pattern=r"^(https://\S+|docs/\S+)$", description="Where it is documented.")
    shown_by: str = ""


class Charge(Contract):
    """What an event costs: so many units of a row of the price table, such as `s3_put`."""

    price: str
    per_event: float = Field(gt=0)
    note: str = ""


class StoreFeatures(Contract):
    """
    What there is to know of a store's trigger before it is measured.

    data_model: what the store keeps. trigger: the service's own name of its trigger; empty where it has none that
    invokes a function, and then `without` says so and why. charges: of an event of 1 kB, the write and what the trigger
    adds; without the function's own requests and duration, which are the same for all stores.
    """

    data_model: str
    trigger: str = ""
    without: Feature | None = None
    features: dict[Category, Feature] = Field(default={})
    charges: tuple[Charge, ...] = ()
