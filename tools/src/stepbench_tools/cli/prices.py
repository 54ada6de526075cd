"""The command `prices`: the table of list prices by which costs are computed, and its refresh from AWS's price list."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from stepbench.digits import counted
from stepbench.errors import PlanError, Problem
from stepbench_tools.cli.command import NOT_DONE, OK, Command, argument, messages, write, write_errors

if TYPE_CHECKING:
    import argparse

    from stepbench.costs.prices import PriceTable
    from stepbench_tools.prices import ListedPrice

API_REGION = "us-east-1"
"""The price list of all regions is served in few of them."""


def prices(options: argparse.Namespace) -> int:
    """Print the region's prices; with --refresh after asking AWS for all of them."""
    from stepbench.costs.prices import price_table

    _refuse_unknown(options.region)
    if not options.refresh:
        write(_text(price_table(), options.region))
        return OK
    table, answered, problems = _refreshed(options)
    path = options.file or Path(str(files("stepbench.costs") / "prices.json"))
    if answered:
        path.write_text(table.to_json(), "utf-8")
        messages(options)(f"{counted(answered, 'price')} of {options.region} written to {path}")
        write(_text(table, options.region))
    else:
        messages(options)(f"nothing is written: AWS has answered no price of {options.region}")
    write_errors(*problems)
    return NOT_DONE if problems else OK


def _refuse_unknown(region: str) -> None:
    """Refuse what is no region: the prices of us-east-1 would be taken for those of a misspelt one."""
    import boto3

    from stepbench.contracts.base import near_miss

    session = boto3.session.Session()
    known = {name for part in session.get_available_partitions() for name in session.get_available_regions("ec2", part)}
    if region not in known:
        remedy = f"{near_miss(region, sorted(known))}Name one such as eu-central-1; a newer boto3 may know more."
        raise PlanError([Problem("--region", f'"{region}"', "is no region of AWS that is known here", remedy)])


def _refreshed(options: argparse.Namespace) -> tuple[PriceTable, int, list[str]]:
    """Return the table with what AWS has answered, how many prices that are, and what is wrong with others."""
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    from stepbench.costs.prices import DEFAULT_REGION, price_table
    from stepbench.wire.http1.boto import bounded_client
    from stepbench_tools.prices import PriceListError, asked_for, find_filter, refresh, select

    table = price_table()
    filters = {key: find_filter(key) for key in (*table.regions[DEFAULT_REGION], *options.add)}
    if unknown := [key for key in options.add if filters[key] is None]:
        remedy = "Name an instance as ec2:TYPE, aurora:CLASS or elasticache:TYPE, such as ec2:m7g.large."
        raise PlanError([Problem("--add", key, "is nothing that has a price here", remedy) for key in unknown])
    pages = bounded_client(boto3.client("pricing", region_name=API_REGION)).get_paginator("get_products")
    found: dict[str, ListedPrice] = {}
    problems: list[str] = []
    for key, each in ((key, each) for key, each in filters.items() if each is not None):
        asked = {"ServiceCode": each.service, "Filters": asked_for(each, options.region), "FormatVersion": "aws_v1"}
        try:
            documents = (document for page in pages.paginate(**asked) for document in page["PriceList"])
            found[key] = select(key, each, options.region, documents)
        except PriceListError as error:
            problems.append(str(error))
        except (BotoCoreError, ClientError) as error:
            problems.append(f"{key}: AWS's price list does not answer: {error}")
            break
    updated, refused = refresh(table, options.region, found, datetime.now(UTC).date().isoformat())
    return updated, len(found) - len(refused), [*problems, *refused]


def _text(table: PriceTable, region: str) -> str:
    """Return a line for each price, with what it is of where the table has none of the region."""
    from stepbench.costs.prices import DEFAULT_REGION, unit_price

    keys = sorted(table.regions[DEFAULT_REGION] | table.regions.get(region, {}))
    width = max(map(len, keys))
    lines = []
    for key in keys:
        own = table.regions.get(region, {}).get(key)
        row = own or table.regions[DEFAULT_REGION][key]
        note = "" if row.confirmed else ", not confirmed"
        place = "" if own else f"{DEFAULT_REGION}'s price; "
        lines.append(
            f"{key:<{width}}  {unit_price(row.usd):<13} per {row.unit:<16} {row.date}  {place}{row.source}{note}"
        )
    return "\n".join(lines)


COMMANDS = (
    Command(
        "prices",
        prices,
        "print the list prices by which costs are computed, or ask AWS's price list for them anew",
        (
            argument("--region", default="us-east-1", help="of the prices (default: us-east-1)"),
            argument(
                "--refresh",
                action="store_true",
                help="ask AWS (pricing:GetProducts, with your credentials), and write the table of this clone",
            ),
            argument(
                "--add",
                action="append",
                default=[],
                metavar="KEY",
                help="an instance type more, such as ec2:m7g.large, aurora:db.r7g.large, elasticache:cache.m7g.large",
            ),
            argument("--file", type=Path, help="write the refreshed table there instead"),
        ),
    ),
)
