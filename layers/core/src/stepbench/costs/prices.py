"""List prices of us-east-1, without free tiers, in US dollars, and the common terms of several stores' bills.

Only what a trial itself causes is priced. What runs anyway (Aurora instances, EC2 nodes of etcd, NAT gateways,
storage for the hours of a run) is on the account's bill whether a trial runs or not.

Source:
    The public price pages of S3, DynamoDB, Lambda, Step Functions, Aurora, Aurora DSQL, ElastiCache, CloudWatch, EC2
    and SQS, as of PRICE_TABLE_DATE.
    DynamoDB's on-demand prices are those since the reduction of 1 November 2024.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pydantic import Field

from stepbench.contracts.base import Contract
from stepbench.contracts.workload import Kind

if TYPE_CHECKING:
    from stepbench.contracts.workload import Workload

PRICE_TABLE_DATE = "2025-07-01"


class Price(NamedTuple):
    """The price of one unit."""

    item: str
    unit: str
    usd: float


S3_PUT = Price("S3 PUT requests", "request", 0.005 / 1_000)
DYNAMODB_WRITE = Price("DynamoDB on-demand writes", "1 KB write unit", 0.625 / 1e6)
DYNAMODB_TARGET_READ = Price("DynamoDB on-demand reads", "4 KB read unit", 0.125 / 1e6)
DYNAMODB_PROVISIONED_WRITE = Price("DynamoDB provisioned write capacity", "unit hour", 0.00065)
DYNAMODB_PROVISIONED_READ = Price("DynamoDB provisioned read capacity", "unit hour", 0.00013)
DYNAMODB_READ = Price("Results table reads", "4 KB read unit", 0.125 / 1e6)
RESULTS_WRITE = Price("Results table writes", "1 KB write unit", 0.625 / 1e6)
RESULTS_PUT = Price("Results bucket PUT requests", "request", 0.005 / 1_000)
AURORA_IO = Price("Aurora I/O requests", "request", 0.20 / 1e6)
DSQL_DPU = Price("Aurora DSQL activity", "DPU", 8.00 / 1e6)
ELASTICACHE_ECPU = Price("ElastiCache Serverless (Valkey) processing", "ECPU", 0.0023 / 1e6)
LAMBDA_REQUEST = Price("Lambda requests", "request", 0.20 / 1e6)
LAMBDA_GB_S = Price("Lambda duration (x86)", "GB-second", 0.0000166667)
LOAD_HOST = Price("Load host (EC2, i4i.2xlarge)", "hour", 0.686)
"""The dearer of the two that the stack offers."""
LOAD_QUEUE = Price("SQS FIFO requests", "request", 0.50 / 1e6)
STATE_TRANSITION = Price("Step Functions state transitions", "transition", 0.025 / 1_000)
LOGS_GB = Price("CloudWatch Logs ingestion", "GB", 0.50)


class CostLine(Contract):
    """A number of units of one thing at its list price."""

    item: str
    unit: str
    quantity: float = Field(ge=0)
    unit_price_usd: float = Field(ge=0)

    @property
    def usd(self) -> float:
        """Return quantity times price."""
        return self.quantity * self.unit_price_usd


class CostEstimate(Contract):
    """The cost of a trial by the price table of `price_table_date`; lines without a quantity are left out."""

    lines: tuple[CostLine, ...]
    price_table_date: str = PRICE_TABLE_DATE

    @property
    def total_usd(self) -> float:
        """Sum of all lines."""
        return sum(line.usd for line in self.lines)

    @property
    def biggest(self) -> CostLine | None:
        """Return the line to look at first."""
        return max(self.lines, key=lambda line: line.usd, default=None)


def line(price: Price, quantity: float) -> CostLine:
    """Return `quantity` units at their list price."""
    return CostLine(item=price.item, unit=price.unit, quantity=quantity, unit_price_usd=price.usd)


def bill(*lines: CostLine) -> CostEstimate:
    """Return an estimate of the lines that have a quantity."""
    return CostEstimate(lines=tuple(each for each in lines if each.quantity > 0))


CANARIES = 30
"""Writes that prove a trigger ready, before the load."""
BLOB_NAMES_BYTES, PRODUCT_NAMES_BYTES = 20, 150
"""DynamoDB bills names of attributes too."""
READS = (Kind.READ, Kind.READ_MODIFY_WRITE)
REWRITES = (Kind.OVERWRITE, Kind.UPDATE, Kind.READ_MODIFY_WRITE)
WRITES = (Kind.INSERT, *REWRITES)


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
