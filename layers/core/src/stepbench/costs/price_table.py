"""
List prices without free tiers, in US dollars, by region: `prices.json`, which `stepbench prices --refresh` writes.

Each has the day on which its source was read. What no source could be found for is not confirmed: it is the price as it
is remembered, and the table says so. Those of November 2022, by which published results of dataflows were computed,
stand beside today's.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

from pydantic import Field

from stepbench.contracts.base import Contract

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_REGION = "us-east-1"


class PriceFilter(Contract):
    """
    What says a product of AWS's price list from all others of its service and region.

    service: the service code of the Price List API. usages: usage types, without the region's code before it; the first
    is the usual one, some regions have others; `*` at the end stands for anything. attributes: further ones, by their
    names in the API, where usage types are shared.
    """

    service: str
    usages: tuple[str, ...]
    attributes: dict[str, str] = Field(default={})


class PriceRow(Contract):
    """
    The price of one unit.

    sku: the price list's number of the product, where it was read there. asked: by which it is found there.
    """

    usd: float
    unit: str
    date: str
    source: str
    confirmed: bool
    sku: str = ""
    asked: PriceFilter | None = None


class PriceTable(Contract):
    """Prices by region and key; `published`: those of November 2022, of us-east-1."""

    regions: dict[str, dict[str, PriceRow]]
    published: dict[str, PriceRow] = Field(default={})

    def to_json(self) -> str:
        """Return the file's text: a row a line, so that a refresh shows as such."""
        regions = (f"    {json.dumps(region)}: {_rows(rows, 6)}" for region, rows in sorted(self.regions.items()))
        return '{\n  "regions": {\n' + ",\n".join(regions) + f'\n  }},\n  "published": {_rows(self.published, 4)}\n}}\n'


def _rows(rows: Mapping[str, PriceRow], indent: int) -> str:
    lines = (
        f"{json.dumps(key)}: {json.dumps(row.model_dump(exclude_defaults=True))}" for key, row in sorted(rows.items())
    )
    return "{\n" + ",\n".join(" " * indent + line for line in lines) + "\n" + " " * (indent - 2) + "}"


class Quote(NamedTuple):
    """A price, its unit, and the region that it is of: us-east-1 where the table has none of the region asked for."""

    usd: float
    unit: str
    region: str


@cache
def price_table() -> PriceTable:
    """Return the table that comes with this version."""
    return PriceTable.model_validate_json(files("stepbench.costs").joinpath("prices.json").read_bytes())


def find_price(key: str, region: str = DEFAULT_REGION, *, published: bool = False) -> Quote | None:
    """Return the price of a key in a region, or that of November 2022; None where neither it nor us-east-1 has one."""
    table = price_table()
    places = [(DEFAULT_REGION, table.published)] if published else []
    places += [(place, table.regions.get(place, {})) for place in (region, DEFAULT_REGION)]
    return next((Quote(rows[key].usd, rows[key].unit, place) for place, rows in places if key in rows), None)


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
