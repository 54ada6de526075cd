"""
AWS's price list, read: the one product that a row's filter selects, and its list price.

Documents are those of the Price List Query API (GetProducts), each a product with its terms; the offer files of the
bulk API hold the same of all products. A product may be cheaper from some amount on, or free up to one: the list price
is that of the first units that cost anything.

Source:
    AWS Billing User Guide, "Reading the service price list file for an AWS service".
"""

from __future__ import annotations

import json
import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple

from stepbench.costs.prices import DEFAULT_REGION, PriceFilter, PriceRow, PriceTable, price_table
from stepbench.errors import StepbenchError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_REGION_CODE = r"(?:(?!IA-)[A-Z]{2,4}[0-9]{0,2}-)?"
"""What stands before usage types: `EUC1-`, `USE1-`, nothing; not `Global-`, what is free everywhere, nor `IA-`."""
SOURCE = "AWS Price List Query API"
MOST_CHANGE = 5
"""A price that is so many times what it was, or so small a part of it, is taken for another unit's."""


class PriceListError(StepbenchError):
    """A filter selects no product, or several, or none with a price that can be right."""


class ListedPrice(NamedTuple):
    """What the price list says of a product."""

    sku: str
    usd: float
    unit: str


_INSTANCES = {
    "ec2": ("AmazonEC2", "BoxUsage:*", {"operatingSystem": "Linux", "tenancy": "Shared", "preInstalledSw": "NA"}),
    "aurora": ("AmazonRDS", "InstanceUsage:*", {"databaseEngine": "Aurora PostgreSQL"}),
    "elasticache": ("AmazonElastiCache", "NodeUsage:*", {"cacheEngine": "Valkey"}),
}


def find_filter(key: str) -> PriceFilter | None:
    """Return the filter of a key; of an instance (`ec2:m6g.xlarge`) one with its type; None for no key of ours."""
    name, _, type_ = key.partition(":")
    if name in _INSTANCES and type_:
        service, usage, attributes = _INSTANCES[name]
        return PriceFilter(service=service, usages=(usage,), attributes={"instanceType": type_, **attributes})
    row = price_table().regions[DEFAULT_REGION].get(key)
    return row.asked if row else None


def asked_for(found: PriceFilter, region: str) -> list[dict[str, str]]:
    """Return the `Filters` of GetProducts: what it can compare, which is equality."""
    fields = {"regionCode": region, **found.attributes}
    return [{"Type": "TERM_MATCH", "Field": name, "Value": value} for name, value in fields.items()]


def select(key: str, found: PriceFilter, region: str, documents: Iterable[str]) -> ListedPrice:
    """
    Return the price of the one product that the filter selects among those of the answers.

    Raises:
        PriceListError: there is none, or there are several.
    """
    products = [json.loads(document) for document in documents]
    matching = [product for product in products if _matches(product["product"]["attributes"], found, region)]
    if len(matching) > 1:  # us-east-1 has some of its oldest usage types twice: with its code before it, and without
        bare = [each for each in matching if _usage(each) in found.usages]
        matching = bare or matching
    if len(matching) != 1:
        skus = ", ".join(f"{each['product']['sku']} ({_usage(each)})" for each in matching)
        message = f"{key}: {len(matching)} products of {found.service} in {region} match{': ' if skus else ''}{skus}"
        raise PriceListError(message)
    return _listed(key, matching[0])


def _usage(document: Mapping[str, Any]) -> str:
    return str(document["product"]["attributes"].get("usagetype", ""))


def _matches(attributes: Mapping[str, str], found: PriceFilter, region: str) -> bool:
    usage = re.sub(f"^{_REGION_CODE}", "", attributes.get("usagetype", ""))
    names = (attributes.get("usagetype", ""), usage)
    if not any(fnmatchcase(name, wanted) for name in names for wanted in found.usages):
        return False
    wanted_attributes = {"regionCode": region, **found.attributes}
    return all(attributes.get(name) == value for name, value in wanted_attributes.items())


def _listed(key: str, document: Mapping[str, Any]) -> ListedPrice:
    sku = str(document["product"]["sku"])
    terms = document.get("terms", {}).get("OnDemand", {}).values()
    tiers = [
        (float(each.get("beginRange", 0)), float(each["pricePerUnit"].get("USD", 0)), str(each["unit"]))
        for term in terms
        for each in term["priceDimensions"].values()
    ]
    paid = [tier for tier in tiers if tier[1] > 0]
    if not paid:
        message = f"{key}: product {sku} has no price on demand in US dollars"
        raise PriceListError(message)
    _, usd, unit = min(paid)
    return ListedPrice(sku, usd, unit)


def refresh(
    table: PriceTable, region: str, found: Mapping[str, ListedPrice], date: str
) -> tuple[PriceTable, Sequence[str]]:
    """
    Return the table with the prices that were found, and what is wrong with those that were left as they are.

    Args:
        table: as it is.
        region: of the prices.
        found: by key.
        date: of today.
    """
    rows, refused = dict(table.regions.get(region, {})), list[str]()
    for key, listed in found.items():
        default = table.regions[DEFAULT_REGION].get(key)
        before = rows.get(key) or default  # regions' prices differ by far less
        if before and not before.usd / MOST_CHANGE <= listed.usd <= before.usd * MOST_CHANGE:
            refused.append(
                f"{key}: {listed.usd:.12g} per {listed.unit} (SKU {listed.sku}) cannot be what was {before.usd:.12g}"
            )
            continue
        asked, unit = rows[key].asked if key in rows else None, default.unit if default else "hour"
        rows[key] = PriceRow(
            usd=listed.usd, unit=unit, date=date, source=SOURCE, confirmed=True, sku=listed.sku, asked=asked
        )
    return table.model_copy(update={"regions": {**table.regions, region: rows}}), refused
