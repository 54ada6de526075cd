"""A cost, line by line."""

from __future__ import annotations

from pydantic import Field

from stepbench.contracts.base import Contract
from stepbench.costs.prices import PRICE_TABLE_DATE, Price


class CostLine(Contract):
    """So many units of one thing at its list price."""

    item: str
    unit: str
    quantity: float = Field(ge=0)
    unit_price_usd: float = Field(ge=0)

    @property
    def usd(self) -> float:
        """Quantity times price."""
        return self.quantity * self.unit_price_usd


class CostEstimate(Contract):
    """What a trial costs by the price table of `price_table_date`; lines without a quantity are left out."""

    lines: tuple[CostLine, ...]
    price_table_date: str = PRICE_TABLE_DATE

    @property
    def total_usd(self) -> float:
        """Sum of all lines."""
        return sum(line.usd for line in self.lines)

    @property
    def biggest(self) -> CostLine | None:
        """The line to look at first."""
        return max(self.lines, key=lambda line: line.usd, default=None)


def line(price: Price, quantity: float) -> CostLine:
    """`quantity` units at their list price."""
    return CostLine(item=price.item, unit=price.unit, quantity=quantity, unit_price_usd=price.usd)


def bill(*lines: CostLine) -> CostEstimate:
    """The lines that cost something or could have."""
    return CostEstimate(lines=tuple(each for each in lines if each.quantity > 0))
