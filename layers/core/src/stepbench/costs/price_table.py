"""
List prices without free tiers, in US dollars, by region: `prices.json`, which `stepbench prices --refresh` writes.

Each has the day on which its source was read. What no source could be found for is not confirmed: it is the price as it
is remembered, and the table says so. Beside it stands `prices-2022-11.json`, with what published results of dataflows
were computed by.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from stepbench.contracts.base import Contract

DEFAULT_REGION = "us-east-1"


class PriceRow(Contract):
    """The price of one unit. `sku`: the price list's number of the product, where it was read there."""

    usd: float
    unit: str
    date: str
    source: str
    confirmed: bool
    sku: str = ""


class PriceTable(Contract):
    """Prices by region and key."""

    regions: dict[str, dict[str, PriceRow]]

    def to_json(self) -> str:
        """Return the file's text: a row a line, so that a refresh shows as such."""
        regions = []
        for region, rows in sorted(self.regions.items()):
            lines = [
                f"      {json.dumps(key)}: {json.dumps(row.model_dump(exclude_defaults=True))}"
                for key, row in sorted(rows.items())
            ]
            regions.append(f"    {json.dumps(region)}: {{\n" + ",\n".join(lines) + "\n    }")
        return '{\n  "regions": {\n' + ",\n".join(regions) + "\n  }\n}\n"


class Quote(NamedTuple):
    """A price, and the region that it is of: us-east-1 where the table has none of the region asked for."""

    usd: float
    region: str


@cache
def price_table() -> PriceTable:
    """Return the table that comes with this version."""
    return PriceTable.model_validate_json(files("stepbench.costs").joinpath("prices.json").read_bytes())


@cache
def published_table() -> PriceTable:
    """Return the prices of November 2022, by which the source of the experiment `dataflow` has computed."""
    return PriceTable.model_validate_json(files("stepbench.costs").joinpath("prices-2022-11.json").read_bytes())


def find_price(key: str, region: str = DEFAULT_REGION, table: PriceTable | None = None) -> Quote | None:
    """Return the price of a key in a region, by this table or today's; None where neither it nor us-east-1 has one."""
    for place in (region, DEFAULT_REGION):
        if (row := (table or price_table()).regions.get(place, {}).get(key)) is not None:
            return Quote(row.usd, place)
    return None


def table_date(region: str = DEFAULT_REGION) -> str:
    """Return the day of the region's oldest price: none of the others is older."""
    rows = price_table().regions.get(region) or price_table().regions[DEFAULT_REGION]
    return min(row.date for row in rows.values())


def describe_prices(region: str) -> str:
    """Name region and date of the prices that a region's costs are computed with."""
    place = region if region in price_table().regions else f"{DEFAULT_REGION}, which stand for {region}"
    return f"{place}, none older than {table_date(region)}"


def unit_price(value: float) -> str:
    """Format the price of one unit with all its digits: `$0.0000166667`."""
    return f"${value:.12f}".rstrip("0").rstrip(".")
