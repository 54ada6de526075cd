"""
What has a price, the terms that several stores' bills have in common, and the table of prices.

List prices without free tiers, in US dollars, by region, are in `prices.json`, which `stepbench prices --refresh`
writes. Each has the day on which its source was read. What no source could be found for is not confirmed: it is the
price as it is remembered, and the table says so. Those of November 2022, by which published results of dataflows were
computed, stand beside today's. What runs by the hour whether a trial runs or not (Aurora instances, EC2 hosts,
endpoints) is in `standing`.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

from pydantic import Field

from stepbench.contracts.base import Contract
from stepbench.contracts.cost import CostItem
from stepbench.contracts.workload import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from stepbench.contracts.capacity import Capacity
    from stepbench.contracts.cost import Part
    from stepbench.contracts.features import Charge
    from stepbench.contracts.workload import Workload


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


class Price(NamedTuple):
    """What is billed by the unit; `key` is its name in the price table, which has the unit."""

    key: str
    item: str
    part: Part


S3_PUT = Price("s3_put", "S3 PUT requests", "store")
DYNAMODB_WRITE = Price("dynamodb_write", "DynamoDB on-demand writes", "store")
DYNAMODB_TARGET_READ = Price("dynamodb_read", "DynamoDB on-demand reads", "store")
DYNAMODB_PROVISIONED_WRITE = Price("dynamodb_write_hour", "DynamoDB provisioned write capacity", "store")
DYNAMODB_PROVISIONED_READ = Price("dynamodb_read_hour", "DynamoDB provisioned read capacity", "store")
DYNAMODB_WARM_WRITE = Price("dynamodb_write_hour", "DynamoDB warm throughput (writes)", "store")
DYNAMODB_READ = Price("dynamodb_read", "Results table reads", "records")
RESULTS_WRITE = Price("dynamodb_write", "Results table writes", "records")
RESULTS_STORED = Price("dynamodb_storage", "Results table storage", "records")
RESULTS_PUT = Price("s3_put", "Results bucket PUT requests", "records")
BUCKET_STORED = Price("s3_storage", "Results bucket storage", "records")
AURORA_IO = Price("aurora_io", "Aurora I/O requests", "store")
DSQL_DPU = Price("dsql_dpu", "Aurora DSQL activity", "store")
ELASTICACHE_ECPU = Price("elasticache_ecpu", "ElastiCache Serverless (Valkey) processing", "store")
LAMBDA_REQUEST = Price("lambda_request", "Lambda requests", "control")
LAMBDA_GB_S = Price("lambda_gb_s", "Lambda duration (x86)", "control")
LAMBDA_ARM_GB_S = Price("lambda_arm_gb_s", "Lambda duration (arm64)", "control")
LOAD_QUEUE = Price("sqs_fifo", "SQS FIFO requests", "load")
STATE_TRANSITION = Price("state_transition", "Step Functions state transitions", "control")
LOGS_GB = Price("logs_ingestion", "CloudWatch Logs ingestion", "records")
LOGS_STORED = Price("logs_storage", "CloudWatch Logs storage", "records")
S3_GET = Price("s3_get", "S3 GET requests", "store")
EFS_READ = Price("efs_read", "EFS elastic throughput, read", "store")
EFS_WRITE = Price("efs_write", "EFS elastic throughput, written", "store")
TASK_ADDRESS_HOUR = Price("public_ipv4", "Public IPv4 addresses of tasks", "load")
FARGATE_VCPU_HOUR = Price("fargate_vcpu_hour", "Fargate vCPU (x86)", "load")
FARGATE_GB_HOUR = Price("fargate_gb_hour", "Fargate memory (x86)", "load")

ACU_HOUR = Price("aurora_acu_hour", "Aurora Serverless v2 capacity", "store")
ELASTICACHE_GB_HOUR = Price("elasticache_gb_hour", "ElastiCache Serverless (Valkey) data", "store")
VOLUME_GB_MONTH = Price("ebs_gp3", "EBS volumes (gp3)", "store")
ADDRESS_HOUR = Price("public_ipv4", "Public IPv4 addresses", "store")
ENDPOINT_HOUR = Price("vpc_endpoint", "VPC interface endpoints", "store")
SECRET_MONTH = Price("secret", "Secrets Manager secrets", "store")


def instance(service: str, type_: str, part: Part = "store") -> Price:
    """Return the hour of an instance: of `ec2`, `aurora` or `elasticache`."""
    return Price(f"{service}:{type_}", f"{type_} ({_SERVICES[service]})", part)


_SERVICES = {"ec2": "EC2", "aurora": "Aurora PostgreSQL", "elasticache": "ElastiCache for Valkey"}
LOAD_HOST = instance("ec2", "i4i.2xlarge", "load")._replace(item="Load host (EC2, i4i.2xlarge)")
"""The dearer of the two that the stack offers."""
HOURS_PER_MONTH = 730
DAYS_PER_MONTH = HOURS_PER_MONTH / 24


class Amount(NamedTuple):
    """So many units of something; `note` says what they rest on, where they are no plain count."""

    price: Price
    quantity: float
    note: str = ""


class CostEstimate(NamedTuple):
    """What has a quantity, priced; `unpriced` are those of which the table has no price."""

    lines: tuple[CostItem, ...]
    unpriced: tuple[Price, ...] = ()

    @property
    def total_usd(self) -> float:
        """Sum of all lines."""
        return sum(line.usd for line in self.lines)

    @property
    def biggest(self) -> CostItem | None:
        """Return the line to look at first."""
        return max(self.lines, key=lambda line: line.usd, default=None)


def line(price: Price, quantity: float, note: str = "") -> Amount:
    """Return `quantity` units, to be billed."""
    return Amount(price, quantity, note)


def bill(*amounts: Amount, region: str = DEFAULT_REGION) -> CostEstimate:
    """Price all that has a quantity; what the region's prices lack is taken from us-east-1's, and noted."""
    lines, unpriced = [], []
    for price, quantity, note in amounts:
        if quantity <= 0:
            continue
        row = find_price(price.key, region)
        if row is None:
            unpriced.append(price)
            continue
        notes = [note, "" if row.region == region else f"{row.region}'s price"]
        lines.append(
            CostItem(
                part=price.part,
                item=price.item,
                unit=row.unit,
                quantity=quantity,
                unit_price_usd=row.usd,
                usd=quantity * row.usd,
                note="; ".join(filter(None, notes)),
            )
        )
    return CostEstimate(lines=tuple(lines), unpriced=tuple(unpriced))


def per_million_usd(charges: Iterable[Charge], region: str) -> float | None:
    """Return what a million events cost by what each is charged; None where none is charged, or a price is missing."""
    found = [(find_price(charge.price, region), charge.per_event) for charge in charges]
    if not found or not all(quote for quote, _ in found):
        return None
    return 1e6 * sum(quote.usd * number for quote, number in found if quote)


BLOB_NAMES_BYTES, PRODUCT_NAMES_BYTES = 20, 150
"""DynamoDB bills names of attributes too."""
READS = (Kind.READ, Kind.READ_MODIFY_WRITE)
REWRITES = (Kind.OVERWRITE, Kind.UPDATE, Kind.READ_MODIFY_WRITE)
WRITES = (Kind.INSERT, *REWRITES)


class Stretch(NamedTuple):
    """A part of a trial in which its table had one capacity; `number` and `hours` as in `Offered`, with canaries."""

    capacity: Capacity
    number: int
    hours: float


class Offered(NamedTuple):
    """
    What a store is asked for, or was: a bill's quantities.

    number: events or operations and what is preloaded; canaries: writes before the load; hours: how long the target is
    held; stretches: all of it by the capacity that a table had, in order, once that is known. objects: how many objects
    an event puts and gets on average, where it is none itself.
    """

    number: int
    canaries: int
    hours: float
    stretches: tuple[Stretch, ...] = ()
    objects: tuple[float, float] | None = None


def record_bytes(workload: Workload) -> int:
    """Return the size of a record as it is stored, names of attributes included."""
    names = BLOB_NAMES_BYTES if workload.record.shape == "blob" else PRODUCT_NAMES_BYTES
    return workload.record.key_bytes + workload.record.value_bytes + names


def share(workload: Workload, kinds: tuple[Kind, ...]) -> float:
    """Return the share of operations of these kinds; one that is named twice counts twice."""
    return sum(workload.mix.weights[kind] for kind in kinds) / workload.mix.total


def operated(workload: Workload, offered: int) -> int:
    """Return how many operations the load makes of everything that is offered, the preloaded records included."""
    return max(0, offered - workload.records)
